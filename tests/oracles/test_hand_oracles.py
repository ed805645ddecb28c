"""The judges judged: the rounding by other code, the loops by figures that others worked out."""

import math
import struct
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest

from tests.oracles import oracle_alibi, oracle_rope, oracle_sinusoidal
from tests.oracles.exact import from_bfloat16_bits, real, rounded, ulps_apart


def shown(values: list[mpmath.mpf]) -> list[float]:
    return [float(value) for value in values]


def test_rounding_to_float64_is_the_machines_own() -> None:
    generator = np.random.default_rng(1)
    for numerator, denominator in generator.integers(1, 2**62, (200, 2)).tolist():
        quotient = Fraction(numerator, denominator)
        # Python's own division of integers is correctly rounded.
        assert rounded(quotient, "float64") == numerator / denominator
        assert rounded(-quotient, "float64") == -numerator / denominator


@pytest.mark.parametrize(("dtype", "kind"), [("float32", "f"), ("float16", "e")])
def test_rounding_to_narrower_floats_is_that_of_c(dtype: str, kind: str) -> None:
    generator = np.random.default_rng(2)
    for exponent in range(-30, 12):
        for value in (generator.standard_normal(5) * 2.0**exponent).tolist():
            assert rounded(value, dtype) == struct.unpack(kind, struct.pack(kind, value))[0]


def test_rounding_to_bfloat16_is_that_of_float32_bits() -> None:
    values = np.random.default_rng(3).standard_normal(500).astype(np.float32)
    values = np.concatenate([values, values * np.float32(2.0**-130)])
    expected = values.astype(ml_dtypes.bfloat16).astype(np.float64)
    assert [rounded(float(value), "bfloat16") for value in values] == expected.tolist()


def test_ties_go_to_even_and_what_is_beside_them_does_not() -> None:
    sliver = Fraction(1, 2**300)
    for tie, even, above in ((257, 256, 258), (259, 260, 260)):
        assert rounded(Fraction(tie), "bfloat16") == even
        assert rounded(tie + sliver, "bfloat16") == above
        assert rounded(-tie - sliver, "bfloat16") == -above
    # Rounding by way of float32 would lose the sliver and then take the tie.
    assert rounded(Fraction(257) + Fraction(1, 2**20), "bfloat16") == 258
    assert rounded(Fraction(1, 2**25), "float16") == 0
    assert rounded(Fraction(3, 2**25), "float16") == 2**-23
    assert rounded(Fraction(0), "float32") == 0
    assert rounded(real(2) ** 0.5, "float64") == math.sqrt(2)


def test_ulps_are_counted_across_zero() -> None:
    tiny = np.float32(1e-45)
    assert ulps_apart(
        np.array([tiny, 1.0, 0.0]), np.array([-tiny, np.float32(1) - np.float32(2**-24), -0.0])
    ).tolist() == [
        2,
        1,
        0,
    ]
    assert from_bfloat16_bits(np.array([0xBF68, 0x3F80], np.uint16)).tolist() == [-0.90625, 1.0]


def test_sinusoids_by_hand() -> None:
    encoding = oracle_sinusoidal.encoding
    assert shown(encoding(0, 4)) == [0, 1, 0, 1]
    known = [0.90929743, -0.41614684, 0.0926985, 0.99569422, 0.00430886, 0.99999072]
    assert shown(encoding(2, 6)) == pytest.approx(known, abs=1e-8)
    assert encoding(2, 6, layout="sin-cos") == [encoding(2, 6)[channel] for channel in (0, 2, 4, 1, 3, 5)]
    assert encoding(2, 6, layout="cos-sin") == [encoding(2, 6)[channel] for channel in (1, 3, 5, 0, 2, 4)]
    known = [0.84147098, 0.54030231, 0.09983342, 0.99500417, 0.00999983, 0.99995, 0.001, 0.9999995]
    assert shown(encoding(1, 8)) == pytest.approx(known, abs=1e-8)
    known = [0.841470985, 0.540302306, 0.0251162229, 0.999684538, 0.000630957303]
    assert shown(encoding(1, 5)) == pytest.approx(known, abs=1e-9)
    assert encoding(1, 5, odd_width="zero-column") == [*encoding(1, 4), 0]
    assert shown(encoding(1, 1)) == pytest.approx([0.841470985], abs=1e-9)
    frequencies = [oracle_sinusoidal.frequency(pair, 8, frequency_shift=1) for pair in range(4)]
    assert shown(frequencies) == pytest.approx([1, 0.0464158883, 0.00215443469, 1e-4], rel=1e-9)


def test_whispers_last_row_by_hand() -> None:
    row = oracle_sinusoidal.encoding(1499, 384, layout="sin-cos", frequency_shift=1)
    known = [-0.4442207, 0.838103, 0.14933925, -0.89591739, -0.54551202, 0.98878602]
    assert shown([row[column] for column in (0, 1, 191, 192, 193, 383)]) == pytest.approx(known, abs=1e-8)


def test_far_positions_keep_their_digits() -> None:
    # sin(2^53 / 100), from a reduction by pi to 80 digits and the machine's own sine of the rest.
    with mpmath.workdps(80):
        turns = mpmath.mpf(2) ** 53 / 100 / (2 * mpmath.pi)
        rest = (turns - mpmath.floor(turns)) * 2 * mpmath.pi
    assert float(oracle_sinusoidal.encoding(2**53, 4)[2]) == pytest.approx(math.sin(float(rest)), abs=1e-15)
    assert float(oracle_rope.cos_sin(2**53, 4)[1][1]) == pytest.approx(math.sin(float(rest)), abs=1e-15)


def test_rotations_by_hand() -> None:
    assert shown([*oracle_rope.frequencies(4)]) == pytest.approx([1, 0.01])
    cosines, sines = oracle_rope.cos_sin(7, 4)
    assert shown(cosines + sines) == pytest.approx([0.75390225, 0.997551, 0.6569866, 0.06994285], abs=1e-7)
    half = oracle_rope.rotate([1, 2, 3, 4], 1)
    assert shown(half) == pytest.approx([-1.984110649, 1.959900667, 2.462377902, 4.019799668], abs=1e-9)
    pairs = oracle_rope.rotate([1, 2, 3, 4], 1, pairing="interleaved")
    assert shown(pairs) == pytest.approx([-1.142639664, 1.922075597, 2.959850668, 4.029799502], abs=1e-9)
    partial = oracle_rope.rotate([1, 2, 3, 4, 5, 6, 7, 8], 1, rotary_dim=4)
    assert shown(partial) == [*shown(half), 5, 6, 7, 8]
    back = oracle_rope.rotate(half, 1, direction="inverse")
    assert shown(back) == pytest.approx([1, 2, 3, 4], abs=1e-15)
    assert oracle_rope.full_width([1, 2], "half") == [1, 2, 1, 2]
    assert oracle_rope.full_width([1, 2], "interleaved") == [1, 1, 2, 2]


def test_slopes_by_hand() -> None:
    slopes = oracle_alibi.slopes
    assert shown(slopes(8)) == [2.0**-power for power in range(1, 9)]
    assert shown(slopes(1)) == [0.00390625]
    assert shown(slopes(3)) == [0.0625, 0.00390625, 0.25]
    assert shown(slopes(12)[8:]) == pytest.approx([0.707106781, 0.353553391, 0.176776695, 0.088388348], abs=1e-9)
    assert len(slopes(71)) == 71
    assert shown(slopes(2, bias_max=16)) == [2.0**-8, 2.0**-16]


def test_biases_by_hand() -> None:
    assert shown(oracle_alibi.bias(2, 1, 4)[0][0]) == [-0.1875, -0.125, -0.0625, 0]
    assert shown(oracle_alibi.bias(2, 1, 4, form="key-only")[0][0]) == [0, 0.0625, 0.125, 0.1875]
    assert shown(oracle_alibi.bias(2, 3, 3, form="symmetric")[0][0]) == [0, -0.0625, -0.125]
    assert shown(oracle_alibi.bias(2, 2, 3, 0)[0][1]) == [-0.0625, 0, 0.0625]
