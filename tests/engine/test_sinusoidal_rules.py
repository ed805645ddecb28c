"""The rules of a sinusoidal table beside its base: ends of the frequencies, amplitude, order and normalisation."""

from itertools import product

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.numbers.single import float32_frequencies, float32_frequencies_between
from tests.engine.answers import DTYPE_NAMES, answer, assert_rounded_once, only, refused
from tests.oracles.exact import PRECISION_BITS, rounded
from tests.oracles.oracle_sinusoidal import arranged, frequency

SINUSOIDAL = "encodings/sinusoidal"
ADD = "apply/sinusoidal"
POSITIONS = (0.0, 1.0, -3.0, 0.5, 131071.0, 9007199254740991.0)
f32 = np.float32


def between(first: float, last: mpf, count: int) -> list[mpf]:
    """A geometric series from its first to its last member."""
    return [first * (last / first) ** (mpf(k) / max(count - 1, 1)) for k in range(count)]


def real_zero(wave: mpf) -> mpf:
    """The sine of a whole number of half turns is 0, but pi has no last digit."""
    return mpf(0) if abs(wave) < mpf(10) ** -90 else wave


def rows(frequencies: list[mpf], positions: tuple[float, ...], layout: str, cosines: int) -> list[list[mpf]]:
    """The table of those frequencies, to a hundred digits."""
    return [
        arranged(
            [real_zero(mpmath.sin(mpf(position) * w)) for w in frequencies],
            [real_zero(mpmath.cos(mpf(position) * w)) for w in frequencies[:cosines]],
            layout,
        )
        for position in positions
    ]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(("dim", "layout"), [(2, "sin-cos"), (1, "interleaved"), (7, "interleaved"), (34, "cos-sin")])
@pytest.mark.parametrize(("low", "high"), [(1.0, 1e4), (0.3, 77.0), (50.0, 0.25)])
def test_between_two_timescales(dtype: str, dim: int, layout: str, low: float, high: float) -> None:
    named = {"dim": dim, "layout": layout, "min_timescale": low, "max_timescale": high, "dtype": dtype}
    with mpmath.workprec(PRECISION_BITS):
        frequencies = between(low, mpf(low) * low / high, (dim + 1) // 2)
        exact = rows(frequencies, POSITIONS, layout, dim // 2)
    assert_rounded_once(only(SINUSOIDAL, positions=POSITIONS, **named), exact, dtype)
    told = only(SINUSOIDAL, output="frequencies", **named)
    assert_rounded_once(told[None], [frequencies], dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("dim", [2, 6, 33])
@pytest.mark.parametrize(("low", "high"), [(1e-4, 1.0), (0.25, 250.0), (3.0, 0.5)])
@pytest.mark.parametrize("factor", ["one", "pi", "two-pi"])
def test_between_two_frequencies(dtype: str, dim: int, low: float, high: float, factor: str) -> None:
    named = {"dim": dim, "min_frequency": low, "max_frequency": high, "angle_factor": factor, "dtype": dtype}
    with mpmath.workprec(PRECISION_BITS):
        times = {"one": mpf(1), "pi": mpmath.pi, "two-pi": 2 * mpmath.pi}[factor]
        frequencies = [times * w for w in between(high, mpf(low), (dim + 1) // 2)]
        exact = rows(frequencies, POSITIONS, "interleaved", dim // 2)
    assert_rounded_once(only(SINUSOIDAL, positions=POSITIONS, **named), exact, dtype)


def test_one_and_a_base_are_a_base_with_a_shift() -> None:
    ends = only(SINUSOIDAL, dim=34, length=300, min_timescale=1, max_timescale=10_000)
    shifted = only(SINUSOIDAL, dim=34, length=300, frequency_shift=1)
    assert ends.tobytes() == shifted.tobytes()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("scale", ["none", "inverse-sqrt-dim", "sqrt-2-over-dim"])
@pytest.mark.parametrize("amplitude", [1.0, 0.7, 9000.5])
def test_sines_and_cosines_are_multiplied_before_they_are_rounded(dtype: str, scale: str, amplitude: float) -> None:
    named = {"dim": 7, "encoding_scale": scale, "amplitude": amplitude, "dtype": dtype}
    with mpmath.workprec(PRECISION_BITS):
        square = {"none": mpf(1), "inverse-sqrt-dim": mpf(1) / 7, "sqrt-2-over-dim": mpf(2) / 7}[scale]
        plain = rows([frequency(k, 7) for k in range(4)], POSITIONS, "interleaved", 3)
        exact = [[mpmath.sqrt(square) * mpf(amplitude) * value for value in row] for row in plain]
        consecutive = rows([frequency(k, 7) for k in range(4)], (299.0,), "interleaved", 3)
        last = [[mpmath.sqrt(square) * mpf(amplitude) * value for value in row] for row in consecutive]
    assert_rounded_once(only(SINUSOIDAL, positions=POSITIONS, **named), exact, dtype)
    assert_rounded_once(only(SINUSOIDAL, length=300, **named)[299:], last, dtype)


def test_every_row_has_norm_one() -> None:
    table = only(SINUSOIDAL, dim=34, length=40, encoding_scale="sqrt-2-over-dim", dtype="float64")
    assert (table * table).sum(axis=1) == pytest.approx(np.ones(40), abs=1e-15)


def test_an_amplitude_leaves_zeros_and_what_is_no_value() -> None:
    plain = {"dim": 5, "length": 4, "padding_idx": 2, "odd_width": "zero-column"}
    table = only(SINUSOIDAL, **plain, amplitude=3)
    assert (table[2] == 0).all()
    assert (table[:, 4] == 0).all()
    for output in ("angles", "frequencies"):
        assert np.array_equal(
            only(SINUSOIDAL, **plain, output=output), only(SINUSOIDAL, **plain, output=output, amplitude=3)
        )


@pytest.mark.parametrize("offset", [-5, 0, 2**40])
@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
def test_descending_rows_are_the_ascending_ones_from_the_last(offset: int, arithmetic: str) -> None:
    named = {"dim": 7, "length": 290, "offset": offset, "arithmetic": arithmetic, "padding_idx": 2**40 + 3}
    ascending, descending = (only(SINUSOIDAL, **named, order=order) for order in ("ascending", "descending"))
    assert np.array_equal(descending, ascending[::-1])
    angles = [only(SINUSOIDAL, **named, order=order, output="angles") for order in ("ascending", "descending")]
    assert np.array_equal(angles[1], angles[0][::-1])


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(("length", "offset"), [(2, 0), (8, 0), (71, -3)])
def test_normalised_positions_run_from_0_to_1(dtype: str, length: int, offset: int) -> None:
    named = {"dim": 6, "length": length, "offset": offset, "normalisation": "unit", "angle_factor": "two-pi"}
    with mpmath.workprec(PRECISION_BITS):
        frequencies = [2 * mpmath.pi * frequency(k, 6) / (length - 1) for k in range(3)]
        exact = rows(frequencies, tuple(map(float, range(offset, offset + length))), "interleaved", 3)
        places = [[mpf(p) * w for w in frequencies] for p in range(offset, offset + length)]
    assert_rounded_once(only(SINUSOIDAL, **named, dtype=dtype), exact, dtype)
    assert_rounded_once(only(SINUSOIDAL, **named, dtype=dtype, output="angles"), places, dtype)
    told = only(SINUSOIDAL, **named, output="frequencies")
    assert np.array_equal(told, only(SINUSOIDAL, dim=6, angle_factor="two-pi", output="frequencies"))
    backwards = only(SINUSOIDAL, **named, dtype=dtype, order="descending")
    assert np.array_equal(backwards, only(SINUSOIDAL, **named, dtype=dtype)[::-1])


# Float32 steps


def test_float32_steps_between_timescales() -> None:
    named = {"dim": 34, "min_timescale": 0.5, "max_timescale": 3000, "arithmetic": "float32", "output": "frequencies"}
    for form in ("exp-log", "power"):
        got = only(SINUSOIDAL, **named, frequency_form=form, angle_factor="pi")
        steps = f32(0.5) * float32_frequencies(6000.0, 32, 17, form=form)
        assert np.array_equal(got, steps * f32(np.pi))


@pytest.mark.parametrize(("low", "high"), [(1e-4, 1.0), (0.25, 250.0)])
@pytest.mark.parametrize("count", [1, 2, 17])
def test_float32_steps_between_frequencies(low: float, high: float, count: int) -> None:
    got = float32_frequencies_between(low, high, count)
    least, most = (rounded(mpmath.log(mpf(end)), "float64") for end in (low, high))
    for k, w in enumerate(got):
        share = f32(1) - f32(k) / f32(max(count - 1, 1))
        exponent = share * f32(most - least) + f32(least)
        assert w == rounded(mpmath.exp(mpf(float(exponent))), "float32")
    ours = only(SINUSOIDAL, dim=2 * count, min_frequency=low, max_frequency=high, arithmetic="float32", length=50)
    angles = np.arange(50, dtype=np.float32)[:, None] * got
    assert np.array_equal(ours[:, ::2], np.sin(angles.astype(np.float64)).astype(np.float32))


def test_float32_angles_beyond_every_position() -> None:
    """Angles of up to 2^103, whose sines are still those of the float32 that they are."""
    named = {"dim": 256, "offset": 2**53 - 3000, "length": 3000, "arithmetic": "float32"}
    ends = {"min_frequency": 1.0, "max_frequency": 1e15}
    table = only(SINUSOIDAL, **named, **ends, layout="sin-cos")
    angles = only(SINUSOIDAL, **named, **ends, output="angles")
    for row, column in ((0, 0), (1, 3), (2999, 64), (1500, 127), (777, 20)):
        with mpmath.workprec(PRECISION_BITS):
            cosine, sine = mpmath.cos_sin(mpf(float(angles[row, column])))
        assert table[row, column] == rounded(sine, "float32")
        assert table[row, 128 + column] == rounded(cosine, "float32")


def test_float32_tables_are_multiplied_in_float32() -> None:
    named = {"dim": 12, "length": 50, "arithmetic": "float32"}
    plain, scaled = (only(SINUSOIDAL, **named, encoding_scale=scale) for scale in ("none", "sqrt-2-over-dim"))
    assert np.array_equal(scaled, plain * f32(np.sqrt(2 / 12)))
    narrow = only(SINUSOIDAL, **named, encoding_scale="sqrt-2-over-dim", dtype="float16")
    assert np.array_equal(narrow, scaled.astype(np.float16))


def test_the_scaled_encoding_is_added() -> None:
    named = {"encoding_scale": "inverse-sqrt-dim", "min_frequency": 0.01, "max_frequency": 2.0}
    x = np.random.default_rng(5).standard_normal((3, 4, 6)).astype(np.float32)
    table = only(SINUSOIDAL, dim=6, length=4, **named)
    assert np.array_equal(only(ADD, {"x": x}, **named), x + table)


# Refusals and notes


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"min_timescale": 1}, "max_timescale", "missing"),
        ({"max_timescale": 1}, "min_timescale", "missing"),
        ({"max_frequency": 1}, "min_frequency", "missing"),
        ({"min_timescale": 1, "max_timescale": 9, "base": 5}, "base", "conflict"),
        ({"min_timescale": 1, "max_timescale": 9, "frequency_shift": 1}, "frequency_shift", "conflict"),
        ({"min_timescale": 1, "max_timescale": 9, "min_frequency": 1}, "min_frequency", "conflict"),
        ({"min_frequency": 1, "max_frequency": 9, "max_timescale": 1}, "min_timescale", "missing"),
        ({"min_timescale": 1e15, "max_timescale": 1e-15}, "max_timescale", "out_of_range"),
        ({"min_frequency": 1, "max_frequency": 1e15, "base": 2}, "base", "conflict"),
        ({"min_timescale": 9, "max_timescale": 1, "arithmetic": "float32"}, "max_timescale", "out_of_range"),
        (
            {"min_frequency": 1, "max_frequency": 9, "arithmetic": "float32", "frequency_form": "power"},
            "frequency_form",
            "conflict",
        ),
        ({"base": 1e-19, "dim": 400, "angle_factor": "two-pi"}, "angle_factor", "out_of_range"),
        ({"order": "descending", "positions": (1.0,), "length": None}, "order", "conflict"),
        ({"normalisation": "unit", "positions": (1.0,), "length": None}, "normalisation", "conflict"),
        ({"normalisation": "unit", "length": 1}, "length", "out_of_range"),
        ({"normalisation": "unit", "arithmetic": "float32"}, "normalisation", "conflict"),
        (
            {"normalisation": "unit", "length": 2**40, "base": 1e100, "dim": 64, "frequency_shift": 5.5},
            "normalisation",
            "out_of_range",
        ),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(SINUSOIDAL, **{"length": 5, "dim": 6, **parameters})
    assert (fault.parameter, fault.code) == (named, code)


def test_a_body_of_positions_has_no_order() -> None:
    fault = refused(SINUSOIDAL, {"positions": np.arange(3)}, dim=4, order="descending")
    assert (fault.parameter, fault.code) == ("order", "conflict")


def test_rows_of_every_rule_stand_alone() -> None:
    scheme = by_key("encodings", "sinusoidal")
    for order, normalisation, scale in product(
        ("ascending", "descending"), ("none", "unit"), ("none", "sqrt-2-over-dim")
    ):
        params = scheme.params(
            dim=7, length=500, offset=-9, order=order, normalisation=normalisation, encoding_scale=scale
        )
        whole = answer(SINUSOIDAL, **params.model_dump())["encoding"]
        state = scheme.prepare(params, {})
        for start, stop in ((0, 1), (3, 70), (499, 500)):
            assert np.array_equal(scheme.rows(params, {}, state, "encoding", start, stop), whole[start:stop])
