"""The values that a process compares itself with, worked out anew with mpmath; and what it says of wrong ones."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mpmath import cos, mp, mpf, power, sin

from service.engine import self_test
from service.engine.self_test import KNOWN, Known, computed, digest, failures
from tests.oracles.exact import rounded

TABLE, SLOPES = KNOWN[2], KNOWN[5]


def angles(known: Known) -> list[list[mpf]]:
    """Position times base^(-2i/dim), a row for each position."""
    query = known.query
    base, dim, first = query.get("base", 10000), query["dim"], query.get("offset", 0)
    powers = [power(mpf(base), mpf(-2 * pair) / dim) for pair in range(dim // 2)]
    return [[(first + row) * each for each in powers] for row in range(query["length"])]


def worked_out(known: Known) -> list[mpf]:
    """The values from the formula in the paper, to 60 digits."""
    if known.scheme == "sinusoidal":
        return [function(angle) for row in angles(known) for angle in row for function in (sin, cos)]
    if known.scheme == "rope":
        return [cos(angle) for row in angles(known) for angle in row + row]
    if known.scheme == "alibi-slopes":
        return [power(2, -mpf(k)) for k in range(1, 9)] + [power(2, -mpf(k) / 2) for k in (1, 3, 5, 7)]
    distances = [key - query for query in range(3) for key in range(3)]
    return [mpf(16 + each if each > 0 else -each) for each in distances]


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_the_known_values_are_those_of_the_formula(known: Known) -> None:
    dtype = known.query.get("dtype", "float32")
    with mp.workdps(60):
        exact = [rounded(each, dtype) for each in worked_out(known)]
    if isinstance(known.expected, str):
        assert known.expected == digest(np.array(exact, dtype).reshape(-1, known.query["dim"]))
    else:
        assert list(known.expected) == exact


def test_a_sound_build_has_no_failures_and_several_types_are_compared() -> None:
    assert failures() == []
    assert {computed(each).dtype.name for each in KNOWN} == {"float64", "float32", "float16", "bfloat16", "int64"}


@pytest.mark.parametrize("known", [TABLE, SLOPES], ids=["digest", "values"])
def test_one_wrong_bit_is_a_failure(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    def off(each: Known) -> Any:
        values = np.array(computed(each))
        values.reshape(-1).view(np.int32)[-1] ^= 1
        return values

    monkeypatch.setattr(self_test, "computed", off)
    (told,) = failures((known,))
    assert told.startswith(str(known))


def test_what_cannot_be_computed_is_a_failure() -> None:
    (told,) = failures((replace(SLOPES, scheme="alibi-slope"),))
    assert told.startswith("biases/alibi-slope (heads=12): KeyError")
