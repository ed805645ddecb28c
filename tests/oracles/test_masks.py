"""Masks and temperatures of the running service, against transformers and PyTorch, cell by cell."""

import json
from typing import Any

import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_masks import (
    ADDITIVE,
    BLOCKS,
    CHUNK,
    HALF_WINDOW,
    KEYS,
    POSITIONS,
    QUERIES,
    SEGMENTS,
    TOKENS,
    WINDOW,
)
from tests.oracles import oracle_masks
from tests.oracles.answers import Array, Query, asked, asked_in_json, posted, posted_json
from tests.oracles.oracle_temperature import factor
from tests.oracles.usages import proves

MASKS = "/v1/masks"
BOTH_WAYS: dict[str, Query] = {"window": HALF_WINDOW, "counting": "flash-left", "direction": "bidirectional"}
LIBRARYS: dict[str, tuple[str, dict[str, Query]]] = {
    "causal": ("causal", {}),
    "sliding": ("sliding", {"window": WINDOW}),
    "sliding_bidirectional": ("sliding", BOTH_WAYS),
    "chunked": ("chunked", {"chunk_size": CHUNK}),
    "padding": ("padding", {}),
}


def same_cells(ours: Array, theirs: Array) -> None:
    assert ours.dtype == np.bool_
    assert np.array_equal(ours.astype(np.uint8), theirs)


@pytest.mark.parametrize("name", LIBRARYS)
def test_the_cells_are_transformers(direct: Client, masks: Numbers, name: str) -> None:
    scheme, parameters = LIBRARYS[name]
    ours = posted(direct, f"{MASKS}/{scheme}", {"attention_mask": TOKENS}, queries=QUERIES, **parameters)
    same_cells(ours["mask"], masks[name])


def test_packed_sequences_are_transformers(direct: Client, masks: Numbers) -> None:
    arrays = {"segment_ids": SEGMENTS, "attention_mask": TOKENS}
    same_cells(posted(direct, f"{MASKS}/segments", arrays, queries=QUERIES)["mask"], masks["packed"])
    lengths = asked(direct, f"{MASKS}/packed", segment_lengths=[5, 7], queries=QUERIES)["mask"]
    same_cells(lengths, masks["packed"][0])


def test_images_that_see_themselves_are_transformers(direct: Client, masks: Numbers) -> None:
    # Text tokens, marked -1, are no block: each gets a number of its own.
    ids = np.where(BLOCKS < 0, 100 + np.arange(KEYS), BLOCKS)
    blocks = posted(direct, f"{MASKS}/segments", {"segment_ids": ids}, queries=QUERIES, direction="bidirectional")
    causal = asked(direct, f"{MASKS}/causal", queries=QUERIES, keys=KEYS)
    joined = posted(direct, f"{MASKS}/combined", {"a": causal["mask"], "b": blocks["mask"]}, operator="or")
    padded = posted(direct, f"{MASKS}/combined", {"a": joined["mask"], "b": TOKENS[:, None]})
    same_cells(padded["mask"], masks["blockwise"])


@pytest.mark.parametrize("dtype", ADDITIVE)
def test_what_eager_attention_adds(direct: Client, masks: Numbers, dtype: str) -> None:
    ours = posted(direct, f"{MASKS}/causal", {"attention_mask": TOKENS}, queries=QUERIES, dtype=dtype, fill="min")
    assert np.array_equal(ours["mask"].astype(np.float32), masks[f"additive.{dtype}"])


@pytest.mark.parametrize(("alignment", "name"), [("top-left", "upper_left"), ("bottom-right", "lower_right")])
def test_the_alignments_are_pytorchs(direct: Client, masks: Numbers, alignment: str, name: str) -> None:
    same_cells(asked(direct, f"{MASKS}/causal", queries=QUERIES, keys=KEYS, alignment=alignment)["mask"], masks[name])


def test_the_square_mask_is_pytorchs(direct: Client, masks: Numbers) -> None:
    ours = asked(direct, f"{MASKS}/causal", length=KEYS, dtype="float32", fill="-inf")["mask"]
    assert ours.tobytes() == masks["square"].tobytes()


TEMPERATURE = "/v1/encodings/temperature"


@proves(
    "encodings/temperature",
    {name: name for name in ("llama4", "mistral4", "inkling2", "beam")} | {"ministral3": "ministral"},
)
def test_temperatures_of_a_usage(direct: Client, masks: Numbers, usage: Usage, oracle: str) -> None:
    ours = asked(direct, TEMPERATURE, positions=list(POSITIONS), **usage.parameters)["temperature"]
    assert ours.shape == (len(POSITIONS), 1)
    # Theirs takes one or two float32 logarithms and exponentials, one product and one sum, each rounded.
    assert ours[:, 0] == pytest.approx(masks[oracle], rel=2.0**-22)


@proves("encodings/temperature", {"qwen": "log-n", "ssmax": "ssmax"})
def test_temperatures_by_their_formulas(direct: Client, usage: Usage, oracle: str) -> None:
    ours = asked(direct, TEMPERATURE, positions=list(POSITIONS), **usage.parameters)["temperature"]
    expected = [float(np.float32(factor(oracle, position))) for position in POSITIONS]
    assert ours[:, 0].tolist() == expected


def answered(client: Client, scheme: str, usage: Usage, more: dict[str, Query]) -> Array:
    """A usage's mask of the batch TOKENS, its queries at the end of the keys."""
    named = {"queries": QUERIES, **usage.parameters, **more}
    return posted(client, f"{MASKS}/{scheme}", {"attention_mask": TOKENS}, **named)["mask"]


@proves("masks/causal", {"transformers": "causal", "transformers-eager": "additive.float32"})
def test_causal_usages(direct: Client, masks: Numbers, usage: Usage, oracle: str) -> None:
    ours = answered(direct, "causal", usage, {})
    np.testing.assert_array_equal(ours, masks[oracle])


@proves("masks/causal", {"pytorch": "square"})
def test_pytorchs_usage(direct: Client, masks: Numbers, usage: Usage, oracle: str) -> None:
    np.testing.assert_array_equal(
        asked(direct, f"{MASKS}/causal", length=KEYS, **usage.parameters)["mask"], masks[oracle]
    )


@proves(
    "masks/sliding",
    {"mistral": ("sliding", {"window": WINDOW}), "modernbert": ("sliding_bidirectional", {"window": HALF_WINDOW})},
)
def test_sliding_usages(direct: Client, masks: Numbers, usage: Usage, oracle: tuple[str, dict[str, Query]]) -> None:
    name, window = oracle
    same_cells(answered(direct, "sliding", usage, window), masks[name])
    if name == "sliding_bidirectional":
        same_cells(answered(direct, "sliding", usage, window), masks["embedding_gemma"])


def test_gpt_neos_local_attention(direct: Client, masks: Numbers) -> None:
    same_cells(asked(direct, f"{MASKS}/sliding", length=KEYS, window=WINDOW)["mask"], masks["gpt_neo"])


@proves("masks/chunked", {"llama4": {"chunk_size": CHUNK}})
def test_chunked_usages(direct: Client, masks: Numbers, usage: Usage, oracle: dict[str, Query]) -> None:
    same_cells(answered(direct, "chunked", usage, oracle), masks["chunked"])


@proves(
    "masks/padding", {"transformers": None, "bert": -10000.0, "transformers-eager": float(np.finfo(np.float32).min)}
)
def test_padding_usages(direct: Client, masks: Numbers, usage: Usage, oracle: float | None) -> None:
    ours = answered(direct, "padding", usage, {})
    if oracle is None:
        same_cells(ours, masks["padding"])
    else:  # BERT's and invert_attention_mask's own line: (1 - mask) * fill
        np.testing.assert_array_equal(ours, np.float32(oracle) * (1 - masks["padding"].astype(np.float32)))


@proves("masks/segments", {"transformers": "packed", "transformers-blocks": "both"})
def test_segments_usages(direct: Client, masks: Numbers, usage: Usage, oracle: str) -> None:
    ids = SEGMENTS if oracle == "packed" else np.where(BLOCKS < 0, 100 + np.arange(KEYS), BLOCKS)
    arrays = {"segment_ids": ids, "attention_mask": TOKENS}
    ours = posted(direct, f"{MASKS}/segments", arrays, queries=QUERIES, **usage.parameters)["mask"]
    if oracle == "packed":
        same_cells(ours, masks[oracle])
        return
    # The library's overlay alone has no block for text, where each token here is a block of its own.
    causal = asked(direct, f"{MASKS}/causal", queries=QUERIES, keys=KEYS)["mask"]
    text = (BLOCKS[:, KEYS - QUERIES :, None] < 0) | (BLOCKS[:, None, :] < 0)
    same_cells(ours & causal & ~text, masks[oracle])


@proves(
    "masks/combined",
    {
        "transformers and_masks, FlexAttention and_masks": "both",
        "transformers or_masks, FlexAttention or_masks; Gemma 3 and PaliGemma images": "either",
    },
)
def test_combined_usages(direct: Client, masks: Numbers, usage: Usage, oracle: str) -> None:
    if oracle == "both":
        blocks = (BLOCKS[:, KEYS - QUERIES :, None] == BLOCKS[:, None, :]) & (BLOCKS[:, None, :] >= 0)
        a, b = asked(direct, f"{MASKS}/causal", queries=QUERIES, keys=KEYS)["mask"], blocks
    else:
        a = asked(direct, f"{MASKS}/sliding", queries=QUERIES, keys=KEYS, window=WINDOW)["mask"]
        b = SEGMENTS[:, KEYS - QUERIES :, None] == SEGMENTS[:, None, :]
    joined = posted(direct, f"{MASKS}/combined", {"a": a, "b": b}, **usage.parameters)["mask"]
    padded = posted(direct, f"{MASKS}/combined", {"a": joined, "b": TOKENS[:, None]}, operator="and")["mask"]
    same_cells(padded, masks[oracle])


FORMULAS: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "causal": {"keras": ({}, {})},
    "sliding": {"flash-attention": ({"window": 3}, {"window": 3, "counting": "flash-left"})},
    "prefix": {
        "prefix language models: T5's prefix LM, U-PaLM, PaliGemma (image and prompt)": ({"prefix": 5}, {"prefix": 5})
    },
    "block": {
        "blockwise local attention, windows of equal size in vision encoders": ({"block_size": 3}, {"block_size": 3}),
        "block diffusion (BD3-LM, LLaDA 2), frame-causal video and streaming audio encoders": (
            {"block_size": 3},
            {"block_size": 3, "reach": "causal"},
        ),
    },
    "packed": {
        "flash-attention": ({"segment_lengths": [5, 7]}, {"segment_lengths": [5, 7]}),
        "flash-attention-encoder": (
            {"segment_lengths": [5, 7]},
            {"segment_lengths": [5, 7], "direction": "bidirectional"},
        ),
    },
}


def by_definition(client: Client, scheme: str, usage: Usage, more: dict[str, Any], said: dict[str, Any]) -> None:
    """What no library here computes on a processor of this kind: its definition, asked cell by cell."""
    ours = answered(client, scheme, usage, more)
    expected = [oracle_masks.mask(scheme, QUERIES, KEYS, KEYS - QUERIES, row.tolist(), **said) for row in TOKENS]
    allowed = ours if ours.dtype == np.bool_ else ours == 0
    np.testing.assert_array_equal(allowed, expected)
    assert ours.dtype == np.bool_ or set(np.unique(ours).tolist()) == {0.0, -1e9}


@proves("masks/causal", FORMULAS["causal"])
def test_causal_by_definition(direct: Client, usage: Usage, oracle: tuple[dict[str, Any], dict[str, Any]]) -> None:
    by_definition(direct, "causal", usage, *oracle)


@proves("masks/sliding", FORMULAS["sliding"])
def test_sliding_by_definition(direct: Client, usage: Usage, oracle: tuple[dict[str, Any], dict[str, Any]]) -> None:
    by_definition(direct, "sliding", usage, *oracle)


@proves("masks/prefix", FORMULAS["prefix"])
def test_prefix_by_definition(direct: Client, usage: Usage, oracle: tuple[dict[str, Any], dict[str, Any]]) -> None:
    by_definition(direct, "prefix", usage, *oracle)


@proves("masks/block", FORMULAS["block"])
def test_block_by_definition(direct: Client, usage: Usage, oracle: tuple[dict[str, Any], dict[str, Any]]) -> None:
    by_definition(direct, "block", usage, *oracle)


@proves("masks/packed", FORMULAS["packed"])
def test_packed_by_definition(direct: Client, usage: Usage, oracle: tuple[dict[str, Any], dict[str, Any]]) -> None:
    by_definition(direct, "packed", usage, *oracle)


def test_infinities_in_json_are_asked_for(direct: Client) -> None:
    target = f"{MASKS}/causal?length=2&dtype=float16&fill=-inf"
    refused = direct.get(target)
    assert refused.status_code == 406
    assert "nonfinite=string" in refused.json()["detail"]
    shown = direct.get(f"{target}&nonfinite=string")
    told = json.loads(shown.content, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert told["tensors"]["mask"]["data"] == [[0, "-Infinity"], [0, 0]]
    assert told["facts"]["fill"] == "-inf"


def test_truth_values_in_json(direct: Client) -> None:
    shown = asked_in_json(direct, f"{MASKS}/sliding", length=6, window=3, counting="flash-left")
    assert shown["tensors"]["mask"]["data"][1] == [True, True, False, False, False, False]
    assert shown["facts"]["keys_per_query"] == [1, 2, 3, 4, 4, 4]
    assert shown["parameters"]["counting"] == "flash-left"
    assert "its own and 3 before it" in shown["notes"][0]
    padded = posted_json(direct, f"{MASKS}/causal", {"tensors": {"attention_mask": [0, 1]}})
    assert padded["mask"].tolist() == [[False, False], [False, True]]


def test_a_mask_of_a_hundred_thousand_keys_by_a_range_of_its_bytes(direct: Client) -> None:
    target = f"{MASKS}/sliding.bin?length=90000&window=2"
    part = direct.get(target, headers={"range": "bytes=4500045000-4500045003"})  # row 50000, from key 45000
    assert part.status_code == 206
    assert part.content == bytes(4)
    at = 90_000 * 50_000 + 49_998
    seen = direct.get(target, headers={"range": f"bytes={at}-{at + 3}"})
    assert seen.content == bytes([0, 1, 1, 0])
