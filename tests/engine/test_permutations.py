"""The permutation between pairings: the handed case, loops, and what it is for."""

from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.errors import Refusal
from service.engine.scheme import ITEMSIZE, whole
from service.formats.format import type_of
from tests.engine.answers import Array, only, refused

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


def by_loop(heads: int, kv_heads: int, dim: int, inside: list[int], projection: str) -> list[int]:
    """Head after head: those of queries and keys permuted, those of values not."""
    q, k, v = ["q"] * heads, ["k"] * kv_heads, ["v"] * kv_heads
    group = heads // kv_heads
    kinds = q + k + v if projection == "q-k-v" else [*["q"] * group, "k", "v"] * kv_heads
    rows = []
    for head, kind in enumerate(kinds):
        rows += [head * dim + (channel if kind == "v" else inside[channel]) for channel in range(dim)]
    return rows


@pytest.mark.parametrize("projection", ["q-k-v", "grouped"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (7, 1), (3, 3), (3, None)])
def test_queries_keys_and_values_in_one_projection(projection: str, heads: int, kv_heads: int | None) -> None:
    given: dict[str, Any] = {"dim": 8, "rotary_dim": 6, "rotary_channels": "last", "projection": projection}
    got = permutation(heads=heads, kv_heads=kv_heads, **given)
    inside = [0, 1, *(2 + place for place in (0, 2, 4, 1, 3, 5))]
    assert got == by_loop(heads, kv_heads or heads, 8, inside, projection)


def test_the_last_channels() -> None:
    assert permutation(dim=6, rotary_dim=4, rotary_channels="last") == [0, 1, 2, 4, 3, 5]
    assert permutation(dim=6, rotary_dim=4) == [0, 2, 1, 3, 4, 5]


def test_heads_that_do_not_fit_a_projection_are_refused() -> None:
    with pytest.raises(Refusal, match="7 heads of queries do not make 2 equal groups"):
        permutation(dim=4, heads=7, kv_heads=2, projection="grouped")
    with pytest.raises(Refusal, match="give their number as heads"):
        permutation(dim=4, heads=7, kv_heads=2)
    params = PERMUTATION.params(dim=4, heads=3, projection="q-k-v")
    assert PERMUTATION.resolve(params, {}).kv_heads == 3
    assert PERMUTATION.resolve(PERMUTATION.params(dim=4), {}).kv_heads is None


# apply/permutation

APPLY = "apply/permutation"


def noise(*shape: int, dtype: str) -> Array:
    """Every bit pattern there is, signalling NaNs and -0 too."""
    bits = np.random.default_rng(4).integers(0, 256, (*shape, ITEMSIZE[dtype]), dtype=np.uint8)
    return (bits[..., 0] % 2 > 0) if dtype == "bool" else bits.view(type_of[dtype])[..., 0]


@pytest.mark.parametrize("dtype", ITEMSIZE)
@pytest.mark.parametrize("axis", ["first", "last"])
@pytest.mark.parametrize("there", [("interleaved", "half"), ("half", "interleaved")])
def test_numbers_are_copied_bit_for_bit(there: tuple[str, str], axis: str, dtype: str) -> None:
    given: dict[str, Any] = {"pairing": there[0], "output_pairing": there[1], "dim": 10, "partial_rotary_factor": 0.6}
    order = permutation(heads=3, **given)
    for shape in ((30, 7), (30, 2, 3), (30,)) if axis == "first" else ((7, 30), (2, 3, 30), (30,)):
        x = noise(*shape, dtype=dtype)
        got = only(APPLY, {"x": x}, axis=axis, **given)
        expected = x[order] if axis == "first" else x[..., order]
        assert got.dtype == x.dtype
        assert got.tobytes() == np.ascontiguousarray(expected).tobytes()
        back = only(APPLY, {"x": got}, axis=axis, **{**given, "pairing": there[1], "output_pairing": there[0]})
        assert back.tobytes() == x.tobytes()


@pytest.mark.parametrize("projection", ["q-k-v", "grouped"])
@pytest.mark.parametrize(("heads", "kv_heads", "asked"), [(6, 2, 2), (7, 1, 1), (3, 3, None), (5, 5, 5)])
def test_projections_of_all_three(projection: str, heads: int, kv_heads: int, asked: int | None) -> None:
    x = np.random.default_rng(4).standard_normal(((heads + 2 * kv_heads) * 8, 3))
    got = only(APPLY, {"x": x}, dim=8, rotary_dim=6, projection=projection, kv_heads=asked)
    order = permutation(dim=8, rotary_dim=6, projection=projection, heads=heads, kv_heads=kv_heads)
    np.testing.assert_array_equal(got, x[order])
    scheme = by_key("apply", "permutation")
    params = scheme.params(dim=8, rotary_dim=6, projection=projection, kv_heads=asked)
    assert scheme.facts(params, {"x": x}) == {"rotary_dim": 6, "heads": heads, "kv_heads": kv_heads}
    assert scheme.resolve(params, {"x": x}).kv_heads == kv_heads


def test_any_block_of_rows_stands_alone() -> None:
    scheme, x = by_key("apply", "permutation"), np.random.default_rng(4).standard_normal((12, 2, 3))
    for axis, inputs in (("first", {"x": x}), ("last", {"x": x.transpose(2, 1, 0)})):
        params = scheme.params(dim=4, axis=axis)
        state, table = scheme.prepare(params, inputs), only(APPLY, inputs, dim=4, axis=axis)
        table = table.reshape(-1, table.shape[-1])
        for start in range(len(table) + 1):
            for stop in range(start, len(table) + 1):
                block = scheme.rows(params, inputs, state, "x", start, stop)
                assert block.tobytes() == table[start:stop].tobytes()
        assert scheme.state_bytes(params, inputs) == 8 * 12


def test_what_apply_permutation_states() -> None:
    scheme, inputs = by_key("apply", "permutation"), {"x": np.zeros((12, 3))}
    params = scheme.params(dim=6, partial_rotary_factor=0.7)
    assert scheme.facts(params, inputs) == {"rotary_dim": 4, "heads": 2}
    resolved = scheme.resolve(params, inputs)
    assert (resolved.rotary_dim, resolved.partial_rotary_factor, resolved.kv_heads) == (4, None, None)
    assert scheme.tensors(params, inputs)["x"].axes == ("row", "axis_1")


@pytest.mark.parametrize(
    ("x", "parameters", "named", "said"),
    [
        (np.zeros(()), {"dim": 4}, "/tensors/x", "at least one axis"),
        (np.zeros((0, 4)), {"dim": 4}, "/tensors/x", "none empty"),
        (np.zeros(4, complex), {"dim": 4}, "/tensors/x", "complex128"),
        (np.zeros((10, 4)), {"dim": 4}, "/tensors/x", "10 rows along its first axis"),
        (np.zeros((4, 10)), {"dim": 4, "axis": "last"}, "/tensors/x", "10 rows along its last axis"),
        (np.zeros(8), {"dim": 4, "rotary_dim": 6}, "rotary_dim", "has 4 channels"),
        (np.zeros(8), {"dim": 4, "kv_heads": 1}, "kv_heads", "leave kv_heads out"),
        (np.zeros(8), {"dim": 4, "projection": "q-k-v"}, "kv_heads", "give kv_heads"),
        (np.zeros(8), {"dim": 4, "projection": "q-k-v", "kv_heads": 1}, "kv_heads", "2 heads"),
        (np.zeros(20), {"dim": 4, "projection": "grouped"}, "kv_heads", "give kv_heads"),
        (np.zeros(28), {"dim": 4, "projection": "grouped", "kv_heads": 2}, "kv_heads", "2 equal groups"),
    ],
)
def test_refusals_of_apply_permutation(x: Array, parameters: dict[str, Any], named: str, said: str) -> None:
    fault = refused(APPLY, {"x": x}, **parameters)
    assert fault.parameter == named
    assert said in fault.detail
