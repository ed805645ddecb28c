"""Biases that are functions of the distance, against their formulas at many digits, and what they are made of."""

from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.attention import sandwich_bias
from service.engine.attention.relative import PIECE
from service.engine.numbers.logarithms import exact, exponential, log1p_product, natural, power
from service.engine.numbers.pairs import Pair, divide
from service.engine.waves import Waves
from tests.engine.answers import DTYPE_NAMES, assert_rounded_once, close, only, refused
from tests.oracles.exact import PRECISION_BITS

KERPLE, SANDWICH, FIRE = "biases/kerple", "biases/sandwich", "biases/fire"
RANDOM = np.random.default_rng(41)


def within(got: Pair, expected: list[mpf], absolute: float, relative: float) -> None:
    with mpmath.workprec(PRECISION_BITS):
        for high, low, right in zip(got.high.tolist(), got.low.tolist(), expected, strict=True):
            assert abs(mpf(high) + mpf(low) - right) <= absolute + relative * abs(right)


def test_logarithms_have_more_digits_than_float64() -> None:
    near_one = 1 + RANDOM.uniform(1e-6, 1e-3, 300)
    tiny_more = 1 + 2.0 ** -np.arange(1, 53)
    x = np.concatenate([np.arange(1.0, 700.0), np.exp(RANDOM.uniform(0, 600, 300)), near_one, tiny_more])
    with mpmath.workprec(PRECISION_BITS):
        expected = [mpmath.log(mpf(each)) for each in [*x.tolist(), *(1 / x).tolist()]]
    within(natural(x), expected[: len(x)], 0, 2.0**-66)
    within(natural(1 / x), expected[len(x) :], 2.0**-78, 2.0**-66)
    assert [half[0] for half in natural(np.array([1.0]))] == [0, 0]


def test_exponentials_and_powers_too() -> None:
    x = np.concatenate([RANDOM.uniform(-600, 600, 400), RANDOM.uniform(-1, 1, 200), [0.0, -0.0, 1.0]])
    base, exponent = np.exp(RANDOM.uniform(0, 36, 300)), RANDOM.uniform(0, 2, 300)
    with mpmath.workprec(PRECISION_BITS):
        within(exponential(exact(x)), [mpmath.exp(mpf(each)) for each in x.tolist()], 0, 2.0**-87)
        powers = [mpf(b) ** mpf(e) for b, e in zip(base.tolist(), exponent.tolist(), strict=True)]
    within(power(base, exponent), powers, 0, 2.0**-76)


def test_one_more_than_a_product() -> None:
    factor, multiplier = RANDOM.uniform(1e-6, 3, 300), np.arange(1.0, 301.0)
    with mpmath.workprec(PRECISION_BITS):
        expected = [mpmath.log(1 + mpf(a) * mpf(d)) for a, d in zip(factor.tolist(), multiplier.tolist(), strict=True)]
    within(log1p_product(factor, multiplier), expected, 2.0**-77, 0)


def test_quotients_of_pairs() -> None:
    a, b = (RANDOM.uniform(-9, 9, 200) for _ in range(2))
    with mpmath.workprec(PRECISION_BITS):
        expected = [mpf(left) / mpf(right) for left, right in zip(a.tolist(), b.tolist(), strict=True)]
    within(divide(exact(a), exact(b)), expected, 0, 16 * 2.0**-106)


def kerple(form: str, r1: float, r2: float, distance: int) -> mpf:
    if form == "power":
        return -mpf(r1) * (mpf(distance) ** mpf(r2) if distance else 0)
    return -mpf(r1) * mpmath.log(1 + mpf(r2) * distance)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("form", ["log", "power"])
@pytest.mark.parametrize("sizes", [{"queries": 4, "keys": 7}, {"queries": 3, "keys": 5, "offset": 200}, {"length": 3}])
def test_kerple(form: str, sizes: dict[str, int], dtype: str) -> None:
    r1, r2 = (0.3, 1.7, 0.01), (0.01, 1.9, 0.8)
    got = only(KERPLE, form=form, r1=r1, r2=r2, dtype=dtype, **sizes)
    heads, queries, keys = got.shape
    assert heads == 3
    first = sizes.get("offset", keys - queries)
    with mpmath.workprec(PRECISION_BITS):
        for head in range(heads):
            rows = [[kerple(form, r1[head], r2[head], abs(first + i - j)) for j in range(keys)] for i in range(queries)]
            if form == "power" and dtype == "float16" and head == 1 and first > 9:
                continue
            assert_rounded_once(got[head], rows, dtype)
    assert not np.signbit(got[got == 0].astype(np.float64)).any()


def test_kerple_by_hand() -> None:
    close(
        only(KERPLE, r1=(2.0,), r2=(1.0,), queries=1, keys=4, dtype="float64")[0, 0, ::-1],
        [0, -1.386294361, -2.197224577, -2.772588722],
        1e-9,
    )
    powers = only(KERPLE, form="power", r1=(0.5,), r2=(2.0,), queries=1, keys=5, dtype="float64")
    assert powers[0, 0].tolist() == [-8, -4.5, -2, -0.5, 0]
    scheme = by_key("biases", "kerple")
    params = scheme.params(r1=(1.0, 2.0), r2=(1.0, 1.0), queries=1, keys=4)
    placed = {"heads": 2, "queries": 1, "keys": 4, "offset": 3}
    assert scheme.facts(params, {}) == {**placed, "bias_bytes_per_head": 16}


@pytest.mark.parametrize(
    ("parameters", "named", "code", "words"),
    [
        ({"r2": (1.0, 2.0)}, "r2", "shape", "2 entries and r1 has 1"),
        ({"r2": (2.5,), "form": "power"}, "r2", "out_of_range", "2.5"),
        ({"r2": (1e-7,)}, "r2", "out_of_range", "1e-06 or more"),
        ({"r2": (2.0,), "form": "power", "dtype": "float16", "offset": 300}, "dtype", "out_of_range", "float16"),
        ({"r2": (2.0,), "offset": 2**53}, "offset", "out_of_range", "2^53"),
        ({"r2": (2.0,), "length": None}, "length", "missing", "queries="),
    ],
)
def test_kerple_refusals(parameters: dict[str, object], named: str, code: str, words: str) -> None:
    fault = refused(KERPLE, **{"r1": (1.0,), "length": 3, **parameters})
    assert (fault.parameter, fault.code) == (named, code)
    assert words in fault.detail


def sandwich(heads: int, head: int, dim: int, first_index: int, base: float, distance: int) -> mpf:
    indices = range(first_index, first_index + dim // 2)
    total = mpmath.fsum(mpmath.cos(distance * mpf(base) ** (mpf(-2 * i) / dim)) for i in indices)
    return (total - dim // 2) / (mpf(8 * (head + 1)) / heads)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    "chosen",
    [
        {"queries": 3, "keys": 6},
        {"queries": 3, "keys": 4, "offset": 3000, "first_index": 0, "base": 500.0},
        {"queries": 2, "keys": 3, "offset": -40, "dim": 2},
        {"length": 4, "dim": 1024},  # more sines than are computed together
    ],
)
def test_sandwich(chosen: dict[str, float], dtype: str) -> None:
    heads = 3
    got = only(SANDWICH, heads=heads, dtype=dtype, **chosen)
    _, queries, keys = got.shape
    first = int(chosen.get("offset", keys - queries))
    dim, first_index, base = int(chosen.get("dim", 128)), int(chosen.get("first_index", 1)), chosen.get("base", 1e4)
    with mpmath.workprec(PRECISION_BITS):
        for head in range(heads):
            rows = [
                [sandwich(heads, head, dim, first_index, base, first + i - j) for j in range(keys)]
                for i in range(queries)
            ]
            assert_rounded_once(got[head], rows, dtype)
    assert not np.signbit(got[got == 0].astype(np.float64)).any()


def test_sandwich_is_the_inner_product_of_encodings() -> None:
    table = only("encodings/sinusoidal", length=300, dim=64, dtype="float64")
    expected = (table @ table.T - 32) / (8 * np.array([1, 2, 3, 4]) / 4)[:, None, None]
    got = only(SANDWICH, heads=4, length=300, dim=64, first_index=0)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "named", "code", "words"),
    [
        ({"dim": 7}, "dim", "odd", "such as 8"),
        ({"length": 2**21}, "dim", "out_of_range", "67108864 are computed at most in float32: ask for fewer keys"),
        ({"length": 2**17, "dtype": "float64"}, "dim", "out_of_range", "4194304 are computed at most in float64"),
        ({"dim": 65536, "heads": 64, "dtype": "float16"}, "dtype", "out_of_range", "use bfloat16"),
        ({"base": 1e-19}, "base", "out_of_range", "2^63"),
        ({"offset": 2**53}, "offset", "out_of_range", "2^53"),
        ({"length": None}, "length", "missing", "queries="),
    ],
)
def test_sandwich_refusals(parameters: dict[str, object], named: str, code: str, words: str) -> None:
    fault = refused(SANDWICH, **{"heads": 2, "length": 3, **parameters})
    assert (fault.parameter, fault.code) == (named, code)
    assert words in fault.detail


def test_sandwich_facts_and_state() -> None:
    scheme = by_key("biases", "sandwich")
    params = scheme.params(heads=2, queries=1, keys=4)
    placed = {"heads": 2, "queries": 1, "keys": 4, "offset": 3}
    assert scheme.facts(params, {}) == {**placed, "bias_bytes_per_head": 16, "frequencies": 64}
    # Distances far away cost what near ones do: only those between the smallest and the largest are computed.
    far = scheme.params(heads=2, queries=1, keys=4, offset=2**40)
    assert scheme.state_bytes(far, {}) == scheme.state_bytes(params, {}) == 16 * 5 + 24576
    assert only(SANDWICH, heads=2, queries=1, keys=4, offset=2**40).shape == (2, 1, 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sandwich_of_more_sines_than_are_computed_together(dtype: str) -> None:
    together = only(SANDWICH, heads=2, dim=514, queries=1, keys=2400, dtype=dtype)
    for key in (0, 255, 256, 351, 352, 2047, 2048, 2399):
        alone = only(SANDWICH, heads=2, dim=514, queries=1, keys=1, offset=2399 - key, dtype=dtype)
        assert together[:, 0, key].tobytes() == alone.tobytes()


def test_wide_encodings_are_multiplied_panel_by_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of many frequencies and few rows would be written value by value, twenty times as slowly."""
    asked: list[tuple[int, int]] = []

    class Recorded(Waves):
        def write(self, positions: Any, sin: Any, cos: Any) -> None:
            asked.append((len(positions), self.count))
            super().write(positions, sin, cos)

    monkeypatch.setattr(sandwich_bias, "Waves", Recorded)
    only(SANDWICH, heads=1, dim=1000, queries=1, keys=3000)
    assert asked == [(2048, 128), (952, 128)] * 3 + [(2048, 116), (952, 116)]


def fire(c: float, threshold: float, eps: float, query: int, key: int) -> mpf:
    def psi(x: mpf) -> mpf:
        return mpmath.log(1 + mpf(c) * abs(x))

    return psi(mpf(query - key)) / (psi(max(mpf(query), mpf(threshold))) + mpf(eps))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    "chosen",
    [
        {"queries": 4, "keys": 7, "threshold": 4.5},
        {"queries": 3, "keys": 5, "offset": 3000, "c": 0.7, "eps": 1e-6},
        {"queries": 3, "keys": 5, "offset": -9, "threshold": 1.0},
    ],
)
def test_fire(chosen: dict[str, float], dtype: str) -> None:
    got = only(FIRE, dtype=dtype, **chosen)
    queries, keys = got.shape
    first = int(chosen.get("offset", keys - queries))
    c, threshold, eps = (chosen.get(name, default) for name, default in (("c", 0.1), ("threshold", 512.0), ("eps", 0)))
    with mpmath.workprec(PRECISION_BITS):
        rows = [[fire(c, threshold, eps, first + i, j) for j in range(keys)] for i in range(queries)]
        assert_rounded_once(got, rows, dtype)
    assert not np.signbit(got[got == 0].astype(np.float64)).any()


def test_fire_by_hand() -> None:
    got = only(FIRE, length=600, dtype="float64")
    close(got[0, 0], 0, 0)
    close(got[511, 0], np.log(52.1) / np.log(52.2), 1e-12)  # queries before the threshold are measured against it
    close(got[512:, 0], 1, 0)
    assert (np.tril(got) <= 1).all()
    scheme = by_key("biases", "fire")
    half = scheme.params(queries=1, keys=4, dtype="float16")
    assert scheme.facts(half, {}) == {"queries": 1, "keys": 4, "offset": 3, "distance_bytes": 8}
    fault = refused(FIRE, length=3, offset=2**53)
    assert (fault.parameter, fault.code) == ("offset", "out_of_range")
    assert refused(FIRE).code == "missing"


def test_fire_rows_wider_than_a_piece() -> None:
    keys = PIECE + 9
    got = only(FIRE, queries=2, keys=keys, dtype="float64")
    expected = np.log1p(0.1 * np.arange(keys)) / np.log1p(0.1 * (keys - 1))
    np.testing.assert_allclose(got[1, ::-1], expected, rtol=1e-14)
