"""Position ids of plans against the models' own get_rope_index: of the plan's own example, and a larger one.

The class's function is given what the segments of the body hold: kinds of tokens, grids, seconds.
"""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.models.fixtures import fetched, resolved
from tests.oracles.live_models import Array
from tests.oracles.live_wholes import ROPE
from tests.oracles.test_position_ids import ours

pytestmark = pytest.mark.oracle

Segments = list[dict[str, Any]]
# Models that see pictures and videos: what their files say besides.
FRAMES = ("cohere_compass", "cosmos3_edge", "cosmos3_omni", "glm46v", "glm4v", "glm4v_moe", "glm_ocr", "qwen3_5",
          "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "qwen4_exp")  # fmt: skip
BASES = {label: {"rope_type": "default", "rope_theta": 1000.0} for label in ("full_attention", "sliding_attention")}
SECTIONS = {"text_config": {"rope_parameters": ROPE}}
SAID: dict[str, dict[str, Any]] = {
    "cohere_compass": {"text_config": {"num_hidden_layers": 2, "rope_parameters": BASES}},
    "glm46v": SECTIONS,
    "glm4v": SECTIONS,
    "glm_image": SECTIONS,
    "qwen2_5_vl": {"vision_config": {"tokens_per_second": 3}},
}
WORDS, IMAGE, VIDEO = 0, 1, 2


def model_of(name: str) -> Any:
    """The class that counts, with the configuration of the plan and nothing else."""
    config = library("transformers").CONFIG_MAPPING[name](**deepcopy(SAID.get(name, {})))
    owner = library(type(config).__module__.replace(".configuration_", ".modeling_"))
    cls = next(each for key, each in vars(owner).items() if key.endswith("Model") and hasattr(each, "get_rope_index"))
    own = SimpleNamespace(config=config)
    own.get_vision_position_ids = cls.get_vision_position_ids.__get__(own)
    return cls.get_rope_index.__get__(own), config


def turning(client: Client, name: str) -> Any:
    uses = resolved(client, {"model_type": name, **SAID.get(name, {})})["uses"]
    return next(use for use in uses if use["encoding"] == "rope")


def told(name: str, segments: Segments, merge: int, frames: int) -> tuple[list[int], dict[str, Any]]:
    """Kinds of tokens, and the grids of pictures and videos: two pictures around a token are a video's frames."""
    kinds: list[int] = []
    images, videos, seconds = [], [], []
    for at, each in enumerate(segments):
        if each["type"] == "text":
            kinds += [WORDS] * each["tokens"]
            continue
        grid = each["grid"] if len(each["grid"]) == 3 else [1, *each["grid"]]
        if name == "hy_v4_vl":
            grid = [1, grid[1], grid[2] - merge]
        follows = at >= 2 and segments[at - 2].get("frame")
        part_of_a_video = name in FRAMES and (each.get("frame") or follows)
        if each["type"] == "video":
            videos.append(grid)
            seconds.append(each.get("seconds_per_grid", 1.0))
        elif part_of_a_video and not follows:
            videos.append([2, *grid[1:]])
        elif not part_of_a_video:
            images.append(grid)
        count = grid[0] * grid[1] * (grid[2] + (merge if name == "hy_v4_vl" else 0)) // merge**2
        seen = VIDEO if each["type"] == "video" or part_of_a_video else IMAGE
        kinds += [seen] * (count // (frames if each["type"] == "video" else 1))
    tensor = library("torch").tensor
    given = {"image_grid_thw": tensor(images), "video_grid_thw": tensor(videos) if videos else None}
    return kinds, given | ({"second_per_grid_ts": tensor(seconds)} if name == "qwen2_5_vl" else {})


def enlarged(segments: Segments, merge: int) -> Segments:
    """Other numbers of words and patches, grids upright and lying."""
    found = []
    for at, each in enumerate(segments):
        if each["type"] == "text":
            found.append({**each, "tokens": each["tokens"] if each["tokens"] == 1 else at + 2})
        else:
            *frames, rows, columns = each["grid"]
            found.append({**each, "grid": [*(3 * frame for frame in frames), rows + 4 * merge, columns + merge]})
    return found


@pytest.mark.parametrize("name", [*FRAMES, "ernie4_5_vl_moe", "hy_v4_vl", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl"])
def test_positions_of_pictures_and_videos(direct: Client, name: str) -> None:
    torch, (count, config) = library("torch"), model_of(name)
    use = turning(direct, name)
    address, merge = use["addresses"]["positions"], config.vision_config.spatial_merge_size
    frames = getattr(config.vision_config, "temporal_merge_size", 1)
    example = address["body"]["segments"]
    if name == "hy_v4_vl":
        example = [*example[:4], example[5]]  # two pictures that touch would be one to the class
    for segments in (example, enlarged(example, merge)):
        marked = [{**each, "frame": each == {"type": "text", "tokens": 1}} for each in segments]
        marked = [{**each, "frame": at + 1 < len(marked) and marked[at + 1]["frame"]} for at, each in enumerate(marked)]
        kinds, given = told(name, marked, merge, frames)
        types = torch.tensor([kinds])
        theirs, delta = count(torch.zeros_like(types), types, **given)
        got = fetched(direct, {**address, "body": {"segments": segments}})["positions"]
        assert np.array_equal(got, theirs[:, 0].numpy()), name
        assert int(delta) == got.max() + 1 - got.shape[1]
        assert (got[0] != got[2]).any()


def test_two_frames_of_hy_4(direct: Client) -> None:
    """Pictures that follow each other are counted as the frames of its video."""
    torch, (count, config) = library("torch"), model_of("hy_v4_vl")
    use = turning(direct, "hy_v4_vl")
    merge = config.vision_config.spatial_merge_size
    for rows, columns in ((2, 5), (6, 3)):
        kinds = torch.tensor([[WORDS] * 4 + [VIDEO] * (2 * rows * (columns + 1)) + [WORDS] * 2])
        grid = torch.tensor([[2, rows * merge, columns * merge]])
        theirs, _ = count(torch.zeros_like(kinds), kinds, video_grid_thw=grid)
        frame = {"type": "image", "grid": [rows * merge, (columns + 1) * merge]}
        segments = [{"type": "text", "tokens": 4}, frame, frame, {"type": "text", "tokens": 2}]
        got = fetched(direct, {**use["addresses"]["positions"], "body": {"segments": segments}})["positions"]
        assert np.array_equal(got, theirs[:, 0].numpy())


def test_the_prompt_and_the_drawing_of_glm_image(direct: Client) -> None:
    """A picture between its markers is counted by the class; then the grids that it is to draw, the last one first."""
    torch, (count, config) = library("torch"), model_of("glm_image")
    use = turning(direct, "glm_image")
    start, end = config.image_start_token_id, config.image_end_token_id
    ids = torch.tensor([[7, 7, start, *[9] * 24, end, 7, 7]])
    owner: Any = count.__self__
    theirs, _ = count(ids, torch.tensor([[1, 4, 6], [1, 3, 5], [1, 2, 3]]), None)
    address = use["addresses"]["positions"]
    assert np.array_equal(fetched(direct, address)["positions"], theirs[:, 0].numpy())
    drawn: Array = owner._cached_decode_position_ids[0].numpy()
    grids = [{"type": "image", "grid": [2, 3]}, {"type": "image", "grid": [3, 5]}, {"type": "text", "tokens": 1}]
    body = {"segments": [*address["body"]["segments"], *grids]}
    got = fetched(direct, {**address, "body": body})["positions"]
    assert np.array_equal(got[:, 30:], drawn)


@pytest.mark.parametrize(
    ("name", "preset"), [("qwen2_5_omni_thinker", "qwen2-5-omni"), ("qwen2_5_omni_talker", "qwen2-5-omni"),
                         ("qwen3_omni_moe_thinker", "qwen3-omni")],
)  # fmt: skip
def test_omni_models_count_as_their_presets(direct: Client, name: str, preset: str) -> None:
    """The presets are held against the classes with random sequences; a plan has the rate of its file."""
    keys: dict[str, Any] = {"position_id_per_seconds": 13}
    if name == "qwen3_omni_moe_thinker":
        keys["text_config"] = {"head_dim": 128}
    use = next(u for u in resolved(direct, {"model_type": name, **keys})["uses"] if "positions" in u["addresses"])
    address = use["addresses"]["positions"]
    segments = address["body"]["segments"]
    got = fetched(direct, address)["positions"]
    wanted = ours(direct, segments, preset=preset, positions_per_second="13")
    assert got.shape == wanted.shape
    assert np.array_equal(got, wanted.astype(got.dtype))
