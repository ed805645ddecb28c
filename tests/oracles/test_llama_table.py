"""Llama 3.1's plain base (theta 500000, heads of 128) against transformers 5.24, by the two-stage rule."""

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_rope import POSITIONS, TABLES
from tests.oracles.answers import asked, asked_for_npy, asked_in_json, from_json
from tests.oracles.two_stage import (
    ROPE,
    check_exact_tables,
    check_float32_tables,
    check_frequencies,
    check_library,
    of_case,
)

LLAMA = TABLES["llama31"]
NEAR_AND_FAR = [0, 1, 2, 17, 4095, 131071]


@pytest.fixture(scope="module")
def llama(rope: Numbers) -> Numbers:
    """The library's numbers for this table."""
    return of_case(rope, "llama31")


def test_the_inverse_frequencies_are_within_two_ulp(client: Client, llama: Numbers) -> None:
    check_frequencies(client, LLAMA, llama)


def test_the_library_follows_its_own_inverse_frequencies(llama: Numbers) -> None:
    check_library(llama)


def test_float32_tables_are_within_one_ulp_where_the_inverse_frequencies_agree(client: Client, llama: Numbers) -> None:
    check_float32_tables(client, LLAMA, llama)


def test_exact_tables_are_the_real_numbers_rounded_once(client: Client) -> None:
    check_exact_tables(client, LLAMA, POSITIONS.tolist())


def test_exact_tables_differ_from_the_library_as_float32_angles_must(client: Client, llama: Numbers) -> None:
    # Half an ulp of a float32 angle is angle * 2^-24, and the frequency's own error (two ulp) is multiplied
    # as well.
    tables = asked(client, ROPE, dim=128, base=500000, positions=POSITIONS.tolist(), columns="half")
    angles = POSITIONS[:, None] * llama["inv_freq"].astype(np.float64)
    for name in ("cos", "sin"):
        difference = np.abs(tables[name].astype(np.float64) - llama[name])
        assert (difference <= angles * 3 * 2.0**-23 + 2.0**-23).all()
        assert difference.max() > 1e-3  # at position 131071: exact arithmetic is another product, not a better copy


def test_full_columns_repeat_the_pairs_in_the_order_of_the_pairing(client: Client) -> None:
    half = asked(client, ROPE, dim=128, base=500000, positions=NEAR_AND_FAR, columns="half")
    neox = asked(client, ROPE, dim=128, base=500000, positions=NEAR_AND_FAR)
    gptj = asked(client, ROPE, dim=128, base=500000, positions=NEAR_AND_FAR, pairing="interleaved")
    for name in ("cos", "sin"):
        assert np.array_equal(neox[name], np.concatenate([half[name], half[name]], axis=1))
        assert np.array_equal(gptj[name], np.repeat(half[name], 2, axis=1))


def test_every_format_holds_the_same_numbers(client: Client) -> None:
    tables = asked(client, ROPE, dim=128, base=500000, positions=NEAR_AND_FAR)
    stacked = asked_for_npy(client, ROPE, dim=128, base=500000, positions=NEAR_AND_FAR)
    shown = asked_in_json(client, ROPE, dim=128, base=500000, positions=NEAR_AND_FAR)
    assert stacked.dtype == np.float32
    assert np.array_equal(stacked, np.stack([tables["cos"], tables["sin"]]))
    assert shown["parameters"]["base"] == 500000
    assert list(shown["tensors"]) == ["cos", "sin"]
    for name in ("cos", "sin"):
        assert shown["tensors"][name]["axes"] == ["position", "channel"]
        assert np.array_equal(from_json(shown["tensors"][name]), tables[name])
