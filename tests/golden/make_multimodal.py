"""Positions of transformers 4.57.1, frozen: `python -m tests.golden.make_multimodal`.

That release goes on behind every position so far, where later ones go on by the longer side of a grid. It is not the
release that the other files name, so this file is made with a copy of it before all else on the path, and never again.
`model.seed.positions` is (3, tokens), `model.seed.delta` its rope delta, `model.seed.segments` what was asked (JSON);
`model.seed.SIDE.positions` and `.delta` are those of the same with `PADDING` masked tokens on a side.
`generation.positions` are what generation makes of `generation.mask`.
"""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.golden.frozen import Numbers, library, save

IMAGE, VIDEO, START = 900, 901, 902
MODELS = {"qwen2_vl": "Qwen2VLModel", "qwen2_5_vl": "Qwen2_5_VLModel", "qwen3_vl": "Qwen3VLModel"}
SEEDS = range(6)
PADDING = 5
Segments = list[dict[str, Any]]


def sequence(seed: int, by_frames: bool) -> Segments:
    """Text, images and videos in turn; `by_frames` has every frame of a video apart, as Qwen3-VL does."""
    random = np.random.default_rng(seed)
    segments: Segments = []
    for _ in range(4):
        segments.append({"type": "text", "tokens": int(random.integers(1, 7))})
        height, width = (2 * random.integers(1, 5, 2)).tolist()
        frames, seconds = int(random.integers(1, 5)), float(random.choice([1.0, 0.5, 1.7]))
        if random.random() < 0.5:
            segments.append({"type": "image", "grid": [1, height, width]})
        elif by_frames:
            segments += [{"type": "image", "grid": [1, height, width], "of_a_video": frames}] + [
                {"type": "text", "tokens": 1},
                {"type": "image", "grid": [1, height, width], "of_a_video": 0},
            ] * (frames - 1)
        else:
            segments.append({"type": "video", "grid": [frames, height, width], "seconds_per_grid": seconds})
    return [*segments, {"type": "text", "tokens": 3}]


def rope_index(model: str, segments: Segments, left: int = 0, right: int = 0) -> tuple[Any, Any]:
    """What the library makes of them, padded: the last token of text before something seen is its begin marker."""
    ids: list[int] = []
    images, videos, seconds = [], [], []
    for each in segments:
        if each["type"] == "text":
            ids += [7] * (each["tokens"] - 1) + [START]
            continue
        frames, height, width = each["grid"]
        seen_as = VIDEO if each["type"] == "video" or "of_a_video" in each else IMAGE
        ids += [seen_as] * (frames * height * width // 4)
        if each["type"] == "video":
            videos.append(each["grid"])
            seconds.append(each["seconds_per_grid"])
        elif each.get("of_a_video"):
            videos.append([each["of_a_video"], height, width])
        elif "of_a_video" not in each:
            images.append(each["grid"])
    ids[-1] = 7
    mask = [0] * left + [1] * len(ids) + [0] * right
    ids = [0] * left + ids + [0] * right
    tensor = library("torch").tensor
    config = SimpleNamespace(
        vision_config=SimpleNamespace(spatial_merge_size=2, tokens_per_second=2),
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=START,
    )
    given = {"second_per_grid_ts": tensor(seconds)} if model == "qwen2_5_vl" and seconds else {}
    cls = getattr(library(f"transformers.models.{model}.modeling_{model}"), MODELS[model])
    positions, delta = cls.get_rope_index(
        SimpleNamespace(config=config),
        tensor([ids]),
        image_grid_thw=tensor(images) if images else None,
        video_grid_thw=tensor(videos) if videos else None,
        attention_mask=tensor([mask]),
        **given,
    )
    return positions[:, 0].numpy(), delta[0, 0].numpy()


def generation() -> Numbers:
    """Position ids that `generate` prepares for a model that takes them."""
    torch = library("torch")
    mask = np.random.default_rng(4).integers(0, 2, (5, 9))
    mask[0], mask[1, :4], mask[2, 5:] = 0, 0, 0

    def forward(input_ids: Any, position_ids: Any = None, attention_mask: Any = None) -> None:
        """What the library reads the names of."""

    model = SimpleNamespace(config=SimpleNamespace(is_encoder_decoder=False), forward=forward)
    ids = torch.zeros(mask.shape, dtype=torch.long)
    prepare = library("transformers.generation.utils").GenerationMixin.prepare_inputs_for_generation
    made = prepare(model, ids, attention_mask=torch.tensor(mask), cache_position=torch.arange(9))
    return {"generation.mask": mask, "generation.positions": made["position_ids"].numpy()}


def build() -> Numbers:
    """Every model on every sequence."""
    numbers: Numbers = generation()
    for model in MODELS:
        for seed in SEEDS:
            segments = sequence(seed, by_frames=model == "qwen3_vl")
            positions, delta = rope_index(model, segments)
            plain = [{key: value for key, value in each.items() if key != "of_a_video"} for each in segments]
            numbers[f"{model}.{seed}.positions"] = positions
            numbers[f"{model}.{seed}.delta"] = delta
            for side in ("left", "right"):
                padded, delta = rope_index(model, segments, **{side: PADDING})
                numbers[f"{model}.{seed}.{side}.positions"] = padded
                numbers[f"{model}.{seed}.{side}.delta"] = delta
            numbers[f"{model}.{seed}.segments"] = np.array(json.dumps(plain))
    return numbers


if __name__ == "__main__":
    save("multimodal", build(), "torch", "transformers", "numpy")
