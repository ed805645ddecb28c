"""Biases that are functions of the distance, against their formulas at many digits, and what they are made of."""

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.logarithms import exact, exponential, log1p_product, logarithm, power
from service.engine.pairs import Pair, divide
from tests.engine.answers import DTYPE_NAMES, assert_rounded_once, close, only, refused
from tests.oracles.exact import PRECISION_BITS

KERPLE = "biases/kerple"
RANDOM = np.random.default_rng(41)


def within(got: Pair, expected: list[mpf], absolute: float, relative: float) -> None:
    with mpmath.workprec(PRECISION_BITS):
        for high, low, right in zip(got.high.tolist(), got.low.tolist(), expected, strict=True):
            assert abs(mpf(high) + mpf(low) - right) <= absolute + relative * abs(right)


def test_logarithms_have_more_digits_than_float64() -> None:
    near_one = 1 + RANDOM.uniform(1e-6, 1e-3, 300)
    x = np.concatenate([np.arange(1.0, 700.0), np.exp(RANDOM.uniform(-600, 600, 300)), near_one, [0.5, 2.0**-300]])
    with mpmath.workprec(PRECISION_BITS):
        expected = [mpmath.log(mpf(each)) for each in x.tolist()]
    within(logarithm(exact(x)), expected, 2.0**-78, 2.0**-100)


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
    assert scheme.facts(params, {}) == {"heads": 2, "queries": 1, "keys": 4, "offset": 3}


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
