"""The permutation between pairings: the handed case, loops, and what it is for."""

import numpy as np
import pytest

from service.engine import by_key
from service.engine.errors import Refusal
from service.engine.scheme import whole
from tests.engine.answers import Array

PERMUTATION = by_key("permutations", "rope")
ROPE = by_key("apply", "rope")


def permutation(**parameters: object) -> list[int]:
    found: list[int] = whole(PERMUTATION, PERMUTATION.params(**parameters))["permutation"].tolist()
    return found


def test_the_handed_case() -> None:
    """B02: within one head, and per head, never across heads."""
    assert permutation(dim=8) == [0, 2, 4, 6, 1, 3, 5, 7]
    assert permutation(dim=8, pairing="half", output_pairing="interleaved") == [0, 4, 1, 5, 2, 6, 3, 7]
    assert permutation(dim=4, heads=2) == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_between_equal_pairings_nothing_moves(pairing: str) -> None:
    assert permutation(dim=6, heads=3, pairing=pairing, output_pairing=pairing) == list(range(18))


@pytest.mark.parametrize(("dim", "width", "heads"), [(8, 8, 7), (10, 4, 3), (80, 32, 2), (2, 2, 5)])
def test_there_and_back_by_a_loop(dim: int, width: int, heads: int) -> None:
    there = permutation(dim=dim, rotary_dim=width, heads=heads)
    expected = []
    for head in range(heads):
        inside = [2 * pair for pair in range(width // 2)] + [2 * pair + 1 for pair in range(width // 2)]
        expected += [head * dim + channel for channel in (*inside, *range(width, dim))]
    assert there == expected
    back = permutation(dim=dim, rotary_dim=width, heads=heads, pairing="half", output_pairing="interleaved")
    assert np.arange(dim * heads)[there][back].tolist() == list(range(dim * heads))


def test_permuted_weights_make_the_other_pairing_right() -> None:
    """Turning permuted projections by halves is permuting what interleaved pairs turn into."""
    random = np.random.default_rng(5)
    heads, dim, width = 3, 10, 6
    q = random.standard_normal((heads, 4, dim)).astype(np.float32)
    inside = permutation(dim=dim, rotary_dim=width)

    def turned(x: Array, pairing: str) -> Array:
        return whole(ROPE, ROPE.params(pairing=pairing, rotary_dim=width, offset=9), {"q": x})["q"]

    assert np.array_equal(turned(q[..., inside], "half"), turned(q, "interleaved")[..., inside])


def test_the_width_is_stated_and_refused() -> None:
    params = PERMUTATION.params(dim=80, partial_rotary_factor=0.4)
    assert PERMUTATION.facts(params, {}) == {"rotary_dim": 32}
    assert PERMUTATION.resolve(params, {}).rotary_dim == 32
    assert whole(PERMUTATION, PERMUTATION.params(dim=4, dtype="int32"))["permutation"].dtype == np.int32
    with pytest.raises(Refusal, match="rotary_dim is 12; the head has 8 channels"):
        permutation(dim=8, rotary_dim=12)
