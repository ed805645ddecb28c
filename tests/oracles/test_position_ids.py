"""Position ids against transformers 5.24, live: integers are equal, for random batches and random sequences."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import library
from tests.oracles.answers import Array, Query, posted, posted_json
from tests.oracles.usages import proves

pytestmark = pytest.mark.oracle

FROM_MASK, PACKED, MULTIMODAL = "/v1/positions/from-mask", "/v1/positions/packed", "/v1/positions/multimodal"
SEEDS = range(12)


def torch() -> Any:
    return library("torch")


def models(name: str) -> Any:
    """A model's module."""
    return library(f"transformers.models.{name}.modeling_{name}")


def masks(seed: int) -> Array:
    """Attention masks with padding on both sides, holes, and a row without any token."""
    mask = np.random.default_rng(seed).integers(0, 2, (5, 9))
    mask[0], mask[1, :4], mask[2, 5:] = 0, 0, 0
    return mask


# from-mask


@pytest.mark.parametrize("seed", SEEDS)
@proves("positions/from-mask", {"transformers": "_prepare_position_ids_for_generation"})
def test_generation(direct: Client, usage: Usage, oracle: str, seed: int) -> None:
    mask = torch().tensor(masks(seed))
    mixin = library("transformers.generation.utils").GenerationMixin
    theirs = getattr(mixin, oracle)(None, torch().zeros_like(mask), {"attention_mask": mask})
    ours = posted(direct, FROM_MASK, {"attention_mask": mask.numpy()}, preset=usage.preset)["positions"]
    assert ours.dtype == np.int64
    assert np.array_equal(ours, theirs.numpy())
    for last in (1, 4):
        newest = posted(direct, FROM_MASK, {"attention_mask": mask.numpy()}, last=last)["positions"]
        assert np.array_equal(newest, theirs.numpy()[:, -last:])


@pytest.mark.parametrize("model", ["roberta", "esm", "mpnet", "longformer", "xlm_roberta", "camembert", "layoutlmv3"])
@pytest.mark.parametrize("padding", [0, 1, 3])
def test_the_roberta_family(direct: Client, model: str, padding: int) -> None:
    ids = np.random.default_rng(padding).integers(0, 5, (6, 11))
    module = models(model)
    owner = next(
        each for each in [module, *vars(module).values()] if hasattr(each, "create_position_ids_from_input_ids")
    )
    rule = owner.create_position_ids_from_input_ids
    given = torch().tensor(ids)
    theirs = rule(None, given, padding) if model == "layoutlmv3" else rule(given, padding)
    ours = posted(direct, FROM_MASK, {"input_ids": ids}, offset=padding + 1, fill=padding)["positions"]
    assert np.array_equal(ours, theirs.numpy())


@proves("positions/from-mask", {"roberta": "create_position_ids_from_input_ids"})
def test_roberta_itself(direct: Client, usage: Usage, oracle: str) -> None:
    ids = np.random.default_rng(9).integers(0, 4, (6, 11))
    theirs = getattr(models("roberta").RobertaEmbeddings, oracle)(torch().tensor(ids), 1)
    ours = posted(direct, FROM_MASK, {"input_ids": ids}, preset=usage.preset)["positions"]
    assert np.array_equal(ours, theirs.numpy())


@pytest.mark.parametrize("model", ["opt", "biogpt"])
def test_rows_of_learned_tables(direct: Client, model: str) -> None:
    """What OPT looks up: its table holds its own row numbers, so that the lookup tells them."""
    name = {"opt": "OPTLearnedPositionalEmbedding", "biogpt": "BioGptLearnedPositionalEmbedding"}[model]
    table = getattr(models(model), name)(16, 1)
    with torch().no_grad():
        table.weight[:, 0] = torch().arange(len(table.weight))
        theirs = table(torch().tensor(masks(3)), 0)[..., 0]
    ours = posted(direct, FROM_MASK, {"attention_mask": masks(3)}, offset=2, fill=1)["positions"]
    assert np.array_equal(ours, theirs.numpy())


# packed


@pytest.mark.parametrize("seed", SEEDS)
def test_the_library_finds_the_packed_sequences_again(direct: Client, seed: int) -> None:
    lengths = np.random.default_rng(seed).integers(1, 9, 6)
    positions = posted(direct, PACKED, {"segment_lengths": lengths})["positions"]
    found = library("transformers.masking_utils").find_packed_sequence_indices(torch().tensor(positions[None]))
    assert np.array_equal(found.numpy()[0], np.repeat(np.arange(len(lengths)), lengths))
    flash = library("transformers.modeling_flash_attention_utils").prepare_fa_kwargs_from_position_ids
    bounds = flash(torch().tensor(positions[None]))[0][0].numpy()
    assert np.array_equal(bounds, np.cumsum([0, *lengths]))
    for name, array in (("cu_seqlens", bounds), ("segment_ids", found.numpy()[0])):
        assert np.array_equal(posted(direct, PACKED, {name: array})["positions"], positions)


@proves("positions/packed", {"transformers": "DataCollatorWithFlattening"})
def test_the_librarys_collator(direct: Client, usage: Usage, oracle: str) -> None:
    collator = getattr(library("transformers"), oracle)(return_tensors="np")
    batch = collator([{"input_ids": [5] * length} for length in (4, 1, 7)])
    ours = posted(direct, PACKED, {"segment_lengths": np.array([4, 1, 7])}, preset=usage.preset)["positions"]
    assert np.array_equal(ours[None], batch["position_ids"])


# multimodal

Segments = list[dict[str, Any]]
TEXT, IMAGE, VIDEO = 0, 1, 2


def sequence(seed: int, temporal_merge: int = 1) -> Segments:
    """Text, images and videos in turn (the library tells neighbours apart by their kind alone)."""
    random = np.random.default_rng(seed)
    segments: Segments = []
    for _ in range(4):
        segments.append({"type": "text", "tokens": int(random.integers(1, 7))})
        height, width = (2 * random.integers(1, 5, 2)).tolist()
        if random.random() < 0.5:
            segments.append({"type": "image", "grid": [1, height, width]})
        else:
            frames = temporal_merge * int(random.integers(1, 5))
            seconds = float(random.choice([1.0, 0.5, 2.0 / 3.0, 0.08, 1.7]))
            grid = [frames, height, width]
            segments.append({"type": "video", "grid": grid, "seconds_per_grid": seconds})
    return [*segments, {"type": "text", "tokens": 3}][: int(random.integers(7, 10))]


def tokens(segment: dict[str, Any], temporal_merge: int = 1) -> int:
    if segment["type"] == "text":
        return int(segment["tokens"])
    frames, height, width = segment["grid"]
    return int(frames // (temporal_merge if segment["type"] == "video" else 1) * height * width // 4)


def kinds(segments: Segments, temporal_merge: int = 1) -> list[int]:
    named = {"text": TEXT, "image": IMAGE, "video": VIDEO}
    return [named[each["type"]] for each in segments for _ in range(tokens(each, temporal_merge))]


def rope_index(model: str, owner: str, segments: Segments, temporal_merge: int = 1) -> tuple[Array, int]:
    """The library's positions (3, tokens) and its delta, of an unpadded sequence of one row."""
    vision = SimpleNamespace(spatial_merge_size=2, temporal_merge_size=temporal_merge, tokens_per_second=2)
    cls = getattr(models(model), owner)
    self = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    self.get_vision_position_ids = lambda *given, **named: cls.get_vision_position_ids(self, *given, **named)
    types = torch().tensor([kinds(segments, temporal_merge)])
    grids = {kind: [each["grid"] for each in segments if each["type"] == kind] for kind in ("image", "video")}
    seconds = [each["seconds_per_grid"] for each in segments if each["type"] == "video"]
    theirs, delta = cls.get_rope_index(
        self,
        torch().zeros_like(types),
        types,
        image_grid_thw=torch().tensor(grids["image"]) if grids["image"] else None,
        video_grid_thw=torch().tensor(grids["video"]) if grids["video"] else None,
        **({"second_per_grid_ts": torch().tensor(seconds)} if model == "qwen2_5_vl" and seconds else {}),
    )
    return theirs[:, 0].numpy(), int(delta)


def ours(direct: Client, segments: Segments, **parameters: Query) -> Array:
    return posted_json(direct, MULTIMODAL, {"segments": segments}, **parameters)["positions"]


def our_delta(direct: Client, segments: Segments, **parameters: Any) -> float:
    reply = direct.post(MULTIMODAL, params=parameters, json={"segments": segments})
    return float(reply.json()["facts"]["rope_delta"])


@pytest.mark.parametrize("seed", range(24))
@proves(
    "positions/multimodal",
    {
        "qwen2-vl": ("qwen2_vl", "Qwen2VLModel"),
        "qwen2-5-vl": ("qwen2_5_vl", "Qwen2_5_VLModel"),
        "ernie-4-5-vl": ("ernie4_5_vl_moe", "Ernie4_5_VLMoeModel"),
    },
)
def test_vision_language_models(direct: Client, usage: Usage, oracle: tuple[str, str], seed: int) -> None:
    merge = int(usage.parameters.get("temporal_merge_size", "1"))
    segments = sequence(seed, merge)
    theirs, delta = rope_index(*oracle, segments, merge)
    stated = [{**each, "tokens": tokens(each, merge)} for each in segments]
    assert np.array_equal(ours(direct, stated, preset=usage.preset), theirs)
    assert our_delta(direct, stated, preset=usage.preset) == delta


def by_frames(segments: Segments) -> Segments:
    """Each frame of a video an image of its own, with a token of text before it."""
    split: Segments = []
    for each in segments:
        if each["type"] != "video":
            split.append(each)
            continue
        for _ in range(each["grid"][0]):
            split += [{"type": "text", "tokens": 1}, {"type": "image", "grid": each["grid"][1:]}]
    return split


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("model", "owner"),
    [
        ("qwen3_vl", "Qwen3VLModel"),
        ("qwen3_vl_moe", "Qwen3VLMoeModel"),
        ("qwen3_5", "Qwen3_5Model"),
        ("qwen3_5_moe", "Qwen3_5MoeModel"),
        ("glm4v", "Glm4vModel"),
        ("glm4v_moe", "Glm4vMoeModel"),
        ("glm46v", "Glm46VModel"),
        ("glm_ocr", "GlmOcrModel"),
    ],
)
def test_models_that_split_videos_by_timestamps(direct: Client, model: str, owner: str, seed: int) -> None:
    segments = sequence(seed)
    cls = getattr(models(model), owner)
    self = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)))
    self.get_vision_position_ids = lambda *given, **named: cls.get_vision_position_ids(self, *given, **named)
    types = []
    for each in segments:
        count = tokens(each)
        if each["type"] == "video":
            frames = each["grid"][0]
            types += ([TEXT] + [VIDEO] * (count // frames)) * frames
        else:
            types += [IMAGE if each["type"] == "image" else TEXT] * count
    grids = {kind: [each["grid"] for each in segments if each["type"] == kind] for kind in ("image", "video")}
    given = {f"{kind}_grid_thw": torch().tensor(grid) if grid else None for kind, grid in grids.items()}
    ids = torch().tensor([types])
    theirs, delta = cls.get_rope_index(self, torch().zeros_like(ids), ids, **given)
    assert np.array_equal(ours(direct, by_frames(segments)), theirs[:, 0].numpy())
    assert our_delta(direct, by_frames(segments)) == int(delta)


@pytest.mark.parametrize("place", ["left", "right", "holes"])
@pytest.mark.parametrize(
    ("model", "owner", "preset"),
    [("qwen2_vl", "Qwen2VLModel", "qwen2-vl"), ("qwen2_5_vl", "Qwen2_5_VLModel", "qwen2-5-vl")],
)
def test_a_masked_batch(direct: Client, model: str, owner: str, preset: str, place: str) -> None:
    """Rows of different lengths, padded on one side or with holes: the library's masked slots are 0."""
    rows = [sequence(1), sequence(2), sequence(6)]
    types = [kinds(row) for row in rows]
    longest = max(map(len, types)) + 3
    masks, given = [], []
    for index, kinds_of_row in enumerate(types):
        mask = np.zeros(longest, np.int64)
        places = np.arange(len(kinds_of_row)) + (longest - len(kinds_of_row) if place == "left" else 0)
        if place == "holes":
            places = np.sort(np.random.default_rng(index).permutation(longest)[: len(kinds_of_row)])
        mask[places] = 1
        padded = np.zeros(longest, np.int64)
        padded[places] = kinds_of_row
        masks.append(mask)
        given.append(padded)
    cls = getattr(models(model), owner)
    vision = SimpleNamespace(spatial_merge_size=2, tokens_per_second=2)
    self = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    self.get_vision_position_ids = lambda *given, **named: cls.get_vision_position_ids(self, *given, **named)
    every = [each for row in rows for each in row]
    grids = {kind: [each["grid"] for each in every if each["type"] == kind] for kind in ("image", "video")}
    seconds = [each["seconds_per_grid"] for each in every if each["type"] == "video"]
    named = {"second_per_grid_ts": torch().tensor(seconds)} if model == "qwen2_5_vl" else {}
    theirs, deltas = cls.get_rope_index(
        self,
        torch().zeros(len(rows), longest, dtype=torch().long),
        torch().tensor(np.array(given)),
        image_grid_thw=torch().tensor(grids["image"]),
        video_grid_thw=torch().tensor(grids["video"]),
        attention_mask=torch().tensor(np.array(masks)),
        **named,
    )
    for index, row in enumerate(rows):
        own: dict[str, Any] = {"preset": preset}
        if place == "holes":
            got = np.zeros((3, longest), np.int64)
            got[:, masks[index] == 1] = ours(direct, row, **own)
        else:
            own |= {"padded_length": longest, "padding_side": place}
            got = ours(direct, row, **own)
        assert np.array_equal(got, theirs[:, index].numpy())
        assert our_delta(direct, row, **own) == int(deltas[index])


# Qwen-Omni: markers stand around everything that is seen or heard

MARKS = {"image": 900, "video": 901, "audio": 902, "vision_start": 903, "audio_start": 904, "vision_end": 905}


def omni_self(model: str, owner: str, rate: int) -> Any:
    cls = getattr(models(model), owner)
    config = SimpleNamespace(
        image_token_id=MARKS["image"],
        video_token_id=MARKS["video"],
        audio_token_id=MARKS["audio"],
        vision_start_token_id=MARKS["vision_start"],
        audio_start_token_id=MARKS["audio_start"],
        position_id_per_seconds=rate,
        seconds_per_chunk=2,
        audio_config=SimpleNamespace(n_window=50),
    )
    self = SimpleNamespace(config=config, spatial_merge_size=2)
    for name in ("get_llm_pos_ids_for_vision", "get_chunked_index"):
        if hasattr(cls, name):
            setattr(self, name, getattr(cls, name).__get__(self))
    return cls, self


def heard(model: str, frames: int) -> int:
    """How many tokens the library makes of mel frames."""
    if model == "qwen2_5_omni":
        return ((frames - 1) // 2 + 1 - 2) // 2 + 1
    return int(models(model)._get_feat_extract_output_lengths(frames, 50))


def marked(ids: list[int], segments: Segments, token: int, count: int, start: int, part: dict[str, Any]) -> None:
    ids += [start, *[token] * count, MARKS["vision_end"]]
    segments += [{"type": "text", "tokens": 1}, part, {"type": "text", "tokens": 1}]


@pytest.mark.parametrize("place", ["left", "right"])
@proves("positions/multimodal", {"qwen2-5-omni": ("qwen2_5_omni", 1), "qwen3-omni": ("qwen3_omni_moe", 0)})
def test_padding_of_omni_models(direct: Client, usage: Usage, oracle: tuple[str, int], place: str) -> None:
    """Qwen2.5-Omni leaves padding at 1, Qwen3-Omni at 0; both count the tokens alone."""
    model, fill = oracle
    name = {"qwen2_5_omni": "Qwen2_5Omni", "qwen3_omni_moe": "Qwen3OmniMoe"}[model]
    cls, self = omni_self(model, f"{name}PreTrainedModelForConditionalGeneration", 25)
    row = [7, 7, MARKS["vision_start"], *[MARKS["image"]] * 6, MARKS["vision_end"], 7]
    segments: Segments = [
        {"type": "text", "tokens": 3},
        {"type": "image", "grid": [4, 6]},
        {"type": "text", "tokens": 2},
    ]
    mask = [1] * len(row)
    padded, mask = ([0] * 4 + row, [0] * 4 + mask) if place == "left" else (row + [0] * 4, mask + [0] * 4)
    theirs, delta = cls.get_rope_index(
        self,
        torch().tensor([padded]),
        image_grid_thw=torch().tensor([[1, 4, 6]]),
        video_grid_thw=None,
        attention_mask=torch().tensor([mask]),
    )
    assert (theirs[:, 0, 0 if place == "left" else -1] == fill).all()
    own: dict[str, Any] = {"preset": usage.preset, "padded_length": len(padded), "padding_side": place}
    assert np.array_equal(ours(direct, segments, **own), theirs[:, 0].numpy())
    assert our_delta(direct, segments, **own) == float(delta)


@pytest.mark.parametrize("sound_in_video", [False, True])
@pytest.mark.parametrize("seed", range(12))
@proves(
    "positions/multimodal",
    {
        "qwen2-5-omni": ("qwen2_5_omni", "Qwen2_5OmniPreTrainedModelForConditionalGeneration"),
        "qwen3-omni": ("qwen3_omni_moe", "Qwen3OmniMoePreTrainedModelForConditionalGeneration"),
    },
)
def test_omni_models(direct: Client, usage: Usage, oracle: tuple[str, str], seed: int, sound_in_video: bool) -> None:
    model, owner = oracle
    rate = int(usage.parameters["positions_per_second"])
    random = np.random.default_rng(seed)
    ids: list[int] = []
    segments: Segments = []
    images: list[list[int]] = []
    videos: list[list[int]] = []
    seconds: list[float] = []
    mels: list[int] = []
    for _ in range(5):
        words = int(random.integers(1, 6))
        ids += [7] * words
        segments.append({"type": "text", "tokens": words})
        height, width = (2 * random.integers(1, 4, 2)).tolist()
        frames, mel = int(random.integers(1, 7)), int(random.integers(9, 700))
        # Of sound alone the library makes something else: there is always an image.
        kind = random.choice(["image", "audio", "video"]) if images else "image"
        count = tokens({"type": "video", "grid": [frames, height, width]})
        if kind == "image":
            images.append([1, height, width])
            part: dict[str, Any] = {"type": "image", "grid": [height, width]}
            marked(ids, segments, MARKS["image"], count // frames, MARKS["vision_start"], part)
        elif kind == "audio" and not sound_in_video:
            mels.append(mel)
            part = {"type": "audio", "mel_frames": mel} | ({"tokens": heard(model, mel)} if seed % 2 else {})
            marked(ids, segments, MARKS["audio"], heard(model, mel), MARKS["audio_start"], part)
        else:
            videos.append([frames, height, width])
            seconds.append(float(random.choice([1.0, 0.5, 0.04, 2 / 3, 1.4])))
            part = {"type": "video", "grid": videos[-1], "seconds_per_grid": seconds[-1], "tokens": count}
            if not sound_in_video:
                marked(ids, segments, MARKS["video"], count, MARKS["vision_start"], part)
                continue
            mels.append(mel)
            sound = heard(model, mel)
            ids += [MARKS["vision_start"], MARKS["audio_start"], *[MARKS["video"]] * count, *[MARKS["audio"]] * sound]
            ids += [MARKS["vision_end"]] * 2
            # Qwen2.5-Omni gives both markers one position, Qwen3-Omni one each.
            marks = {"type": "shared" if model == "qwen2_5_omni" else "text", "tokens": 2}
            stated = {"audio_tokens": sound} if seed % 2 else {}
            segments += [marks, {**part, "audio_mel_frames": mel, **stated}, marks]
    cls, self = omni_self(model, owner, rate)
    given = torch().tensor([ids])
    theirs, delta = cls.get_rope_index(
        self,
        given,
        image_grid_thw=torch().tensor(images),
        video_grid_thw=torch().tensor(videos) if videos else None,
        attention_mask=torch().ones_like(given),
        use_audio_in_video=sound_in_video,
        audio_seqlens=torch().tensor(mels) if mels else None,
        second_per_grids=torch().tensor(seconds) if seconds else None,
    )
    # In JSON a float32 is the shortest text that reads back equal.
    assert np.array_equal(ours(direct, segments, preset=usage.preset).astype(theirs.numpy().dtype), theirs[:, 0])
    assert our_delta(direct, segments, preset=usage.preset) == pytest.approx(float(delta), abs=1e-4)
