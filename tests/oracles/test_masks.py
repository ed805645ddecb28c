"""Masks and temperatures of the running service, against transformers and PyTorch, cell by cell."""

import json

import numpy as np
import pytest

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
from tests.oracles.answers import Array, Query, asked, asked_in_json, posted, posted_json

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


def test_ministrals_temperature(direct: Client, masks: Numbers) -> None:
    ours = asked(direct, "/v1/encodings/temperature", positions=list(POSITIONS), schedule="ministral3")["temperature"]
    assert ours.shape == (len(POSITIONS), 1)
    # Theirs takes one float32 logarithm, one product and one sum, each rounded.
    assert ours[:, 0] == pytest.approx(masks["ministral"], rel=2.0**-22)


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
