"""A slice of every part of `python -m tests.hostile`, which CI runs in full."""

import warnings

import pytest

from service.engine import SCHEMES
from tests.api.requests import EXAMPLES
from tests.hostile.parts import PARTS

SLICES: dict[str, tuple[int, set[int | str]]] = {
    "requests": (1500, {200, 400, 404, 405, 415, 422, 431}),
    "bodies": (700, {200, 400, 422}),
    "values": (300, {200, 422}),
    "queries": (500, {200, 400, 404, 422}),
    "conditions": (1500, {200, 206, 304, 412, 416}),
    "paths": (500, {"200", "304", "repeated", "made", "early"}),
    "connections": (400, {0, 200, 400, 404, 405, 414, 431}),
    "npy": (10_000, {"accepted"}),
    "safetensors": (10_000, {"accepted"}),
    "inference": (10_000, {"accepted"}),
}


def test_every_scheme_is_drawn() -> None:
    assert {asked.scheme.key for asked in EXAMPLES} == {scheme.key for scheme in SCHEMES}


def test_every_part_has_its_slice() -> None:
    assert list(SLICES) == list(PARTS)


@pytest.mark.parametrize("name", SLICES)
def test_slice(name: str) -> None:
    """What is sent reaches every door, and nothing breaks."""
    cases, reached = SLICES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = PARTS[name].run(cases)
    assert reached <= {key for key, count in seen.items() if count}, dict(seen)
