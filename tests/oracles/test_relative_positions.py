"""Relative indices, coordinates and sinusoids, against eight models of transformers."""

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_relative import COORDINATES, DEBERTA, DIM, LENGTH, T5, WINDOWS, XLNET
from tests.oracles.answers import Query, asked, asked_in_json, from_json

SINUSOIDS = "/v1/biases/transformer-xl"


@pytest.mark.parametrize(("direction", "num_buckets", "max_distance"), T5)
def test_t5_buckets(direct: Client, relative: Numbers, direction: str, num_buckets: int, max_distance: int) -> None:
    theirs = relative[f"t5.{direction}.{num_buckets}.{max_distance}"]
    chosen: dict[str, Query] = {"direction": direction, "num_buckets": num_buckets, "max_distance": max_distance}
    one_row = {"queries": 1, "keys": len(theirs), "offset": len(theirs) // 2}
    ours = asked(direct, "/v1/biases/t5-buckets", **one_row, **chosen)["index"]
    assert ours.dtype == np.int64
    np.testing.assert_array_equal(ours[0], theirs)
    square = asked(direct, "/v1/biases/t5-buckets", length=70, **chosen)["index"]
    i = np.arange(70)
    np.testing.assert_array_equal(square, theirs[i - i[:, None] + len(theirs) // 2])


@pytest.mark.parametrize(("position_buckets", "max_relative_positions"), DEBERTA)
def test_deberta_buckets(direct: Client, relative: Numbers, position_buckets: int, max_relative_positions: int) -> None:
    theirs = relative[f"deberta.{position_buckets}.{max_relative_positions}"]
    chosen = {"position_buckets": position_buckets, "max_relative_positions": max_relative_positions}
    ours = asked(direct, "/v1/biases/deberta-buckets", queries=9, keys=31, offset=0, **chosen)["bucket"]
    i, j = np.arange(9)[:, None], np.arange(31)
    np.testing.assert_array_equal(ours, theirs[i - j + len(theirs) // 2])
    row = asked(direct, "/v1/biases/deberta-buckets", queries=1, keys=len(theirs), offset=len(theirs) // 2, **chosen)
    np.testing.assert_array_equal(row["bucket"][0], theirs[::-1])


@pytest.mark.parametrize("window", WINDOWS)
def test_window_indices(direct: Client, relative: Numbers, window: tuple[int, int]) -> None:
    for name, class_token in (("swin", "none"), ("beit", "first")):
        ours = asked(direct, "/v1/biases/swin-index", window=window, class_token=class_token)["index"]
        np.testing.assert_array_equal(ours, relative[f"{name}.{window[0]}.{window[1]}"])


@pytest.mark.parametrize("number", range(len(COORDINATES)))
def test_swin_v2_coordinates(direct: Client, relative: Numbers, number: int) -> None:
    window, pretrained = COORDINATES[number]
    trained = {"pretrained_window": pretrained} if any(pretrained) else {}
    ours = asked(direct, "/v1/biases/swin-v2-coordinates", window=window, **trained)["coordinates"]
    theirs = relative[f"swin_v2.{number}"]
    assert ours.shape == theirs.shape
    # They round the quotient, its multiple, the sum and the logarithm to float32, one after the other.
    assert np.abs(ours - theirs).max() <= 2e-7 * max(1.0, float(np.abs(theirs).max()))


def test_conformer_and_the_order_of_its_rows(direct: Client, relative: Numbers) -> None:
    ours = asked(direct, SINUSOIDS, length=LENGTH, dim=DIM)["encoding"]
    theirs = relative["conformer"]
    assert ours.shape == theirs.shape == (2 * LENGTH - 1, DIM)
    # Their float32 frequencies are off by four ulp at most, at distances below 9.
    assert np.abs(ours - theirs).max() <= LENGTH * 5 * 2.0**-24 + 2.0**-23
    as_theirs = asked(direct, SINUSOIDS, length=LENGTH, dim=DIM, arithmetic="float32")["encoding"]
    # Two ulp of a frequency at most, of an angle below 9, and the rounding of the sine.
    assert np.abs(as_theirs - theirs).max() <= LENGTH * 2 * 2.0**-24 + 2.0**-24


@pytest.mark.parametrize("number", range(len(XLNET)))
def test_xlnet(direct: Client, relative: Numbers, number: int) -> None:
    attn_type, queries, keys, clamp_len = XLNET[number]
    clamped = {"clamp_len": clamp_len} if clamp_len > 0 else {}
    chosen: dict[str, Query] = {"span": f"xlnet-{attn_type}", "layout": "sin-cos", **clamped}
    ours = asked(direct, SINUSOIDS, queries=queries, keys=keys, dim=DIM, **chosen)["encoding"]
    theirs = relative[f"xlnet.{number}"]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= keys * 5 * 2.0**-24 + 2.0**-23


def test_speecht5(direct: Client, relative: Numbers) -> None:
    ours = asked(direct, "/v1/biases/shaw", length=LENGTH, sign="query-key", left=4, right=3)["index"]
    np.testing.assert_array_equal(ours, relative["speecht5"])


def test_indices_in_json_are_whole_numbers(direct: Client) -> None:
    shown = asked_in_json(direct, "/v1/biases/t5-buckets", queries=2, keys=3, offset=0)
    assert shown["tensors"]["index"]["dtype"] == "int64"
    assert shown["tensors"]["index"]["axes"] == ["query", "key"]
    assert shown["tensors"]["index"]["data"] == [[0, 17, 18], [1, 0, 17]]
    assert from_json(shown["tensors"]["index"]).tolist() == [[0, 17, 18], [1, 0, 17]]
    assert shown["facts"]["table_bytes_per_head"] == 128
