"""Every sine and cosine is the real number, rounded once, whatever way it was reached."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf
from numpy.typing import DTypeLike, NDArray

from service.engine.numbers import undecided
from service.engine.numbers.pairs import Floats
from service.engine.numbers.reals import MANY_DIGITS, Number, Reals, angle_factor, geometric, pi, real
from service.engine.rounding import DTYPES, nearest_of_sum
from service.engine.waves import Waves, products, values
from tests.oracles.exactness import hostile_samples, random_samples, rounded_once

EVERY_DTYPE = pytest.mark.parametrize("dtype", DTYPES)
ROPE = geometric(10000.0, [Fraction(-k, 32) for k in range(32)])
WAVES = Waves(ROPE)


def written(
    positions: range | NDArray[np.float64], dtype: str, waves: Waves = WAVES
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sines and cosines as bit patterns, so that equal means equal bytes."""
    sin, cos = (np.empty((len(positions), waves.count), DTYPES[dtype]) for _ in range(2))
    waves.write(positions, sin, cos)
    return sin.view(f"u{sin.itemsize}"), cos.view(f"u{cos.itemsize}")


@EVERY_DTYPE
@pytest.mark.parametrize("seed", [1, 2])
def test_random_values_are_correctly_rounded(dtype: str, seed: int) -> None:
    samples = list(random_samples(dtype, 2000, seed))
    assert len(samples) >= 2000
    assert [sample for sample in samples if sample.wrong] == []


@EVERY_DTYPE
def test_values_next_to_rounding_boundaries_are_correctly_rounded(dtype: str) -> None:
    samples = list(hostile_samples(dtype, 400, 3))
    assert len(samples) == 400
    assert [sample for sample in samples if sample.wrong] == []


@EVERY_DTYPE
def test_position_0_is_exact(dtype: str) -> None:
    for positions in (range(1), range(100), np.array([0.0, -0.0]), np.array([0.0] * 50 + [-0.0] * 50)):
        sin, cos = (np.empty((len(positions), 32), DTYPES[dtype]) for _ in range(2))
        WAVES.write(positions, sin, cos)
        zeros = np.flatnonzero(np.array(positions, np.float64) == 0)
        assert (sin[zeros].astype(np.float64) == 0).all()
        assert not np.signbit(sin[zeros].astype(np.float64)).any()
        assert (cos[zeros].astype(np.float64) == 1).all()


@EVERY_DTYPE
@pytest.mark.parametrize("positions", [range(-3, 5), range(-3, 997), np.arange(-3.0, 997), np.array([2.0**53 - 3])])
def test_whole_turns_meet_their_zeros(dtype: str, positions: range | NDArray[np.float64]) -> None:
    waves = Waves(Reals.of([2, 0.5, 1]) * pi())
    sin, cos = (np.empty((len(positions), 3), DTYPES[dtype]) for _ in range(2))
    waves.write(positions, sin, cos)
    quarter = np.array([int(p) % 4 for p in positions])
    assert sin.astype(np.float64)[:, 1].tolist() == np.array([0.0, 1, 0, -1])[quarter].tolist()
    assert cos.astype(np.float64)[:, 1].tolist() == np.array([1.0, 0, -1, 0])[quarter].tolist()
    assert (sin.astype(np.float64)[:, [0, 2]] == 0).all()
    assert (cos.astype(np.float64)[:, 2] == np.where(quarter % 2 == 0, 1, -1)).all()


@EVERY_DTYPE
@pytest.mark.parametrize("frequency", [0.0, 1e-320, 1e-200, 1e-130, 1e-30, 1e-12, 3.0, 1e15, 2.0**64])
def test_any_frequency_and_any_position(dtype: str, frequency: float) -> None:
    waves = Waves(Reals.of([frequency, -frequency]))
    some = [5e-324, -1e-310, 1e-200, 2.0**-399, 1e-30, 0.1, 1.0, 12345.678, -(2.0**53)]
    for positions in (np.array(some), range(-40, 40), range(2**53 - 60, 2**53 + 1)):
        sin, cos = (np.empty((len(positions), 2), DTYPES[dtype]) for _ in range(2))
        waves.write(positions, sin, cos)
        for row in range(0, len(positions), 7 if len(positions) > 9 else 1):
            with mpmath.workprec(2600):
                angle = mpf(float(positions[row])) * mpf(frequency)
                sine, cosine = rounded_once(mpmath.sin(angle), dtype), rounded_once(mpmath.cos(angle), dtype)
            assert sin[row].astype(np.float64).tolist() == [sine, -sine], (row, positions)
            assert cos[row].astype(np.float64).tolist() == [cosine, cosine]


def test_a_frequency_has_a_limit() -> None:
    with pytest.raises(ValueError, match="2\\^64"):
        Waves(Reals.of([2.0**65]))


@pytest.mark.parametrize(
    "positions",
    [
        range(0, 10, 2),
        range(2**53, 2**53 + 2),
        range(-(2**53) - 1, 0),
        np.array([np.nan]),
        np.array([np.inf]),
        np.array([2.0**53 + 2]),
    ],
)
def test_positions_beyond_2_to_the_53_are_refused(positions: Any) -> None:
    with pytest.raises(ValueError, match="within 2\\^53"):
        WAVES.write(positions, np.empty((1, 32)), None)


def test_no_positions_and_no_frequencies() -> None:
    WAVES.write(range(0), np.empty((0, 32)), np.empty((0, 32)))
    WAVES.write(np.empty(0), np.empty((0, 32)), None)
    Waves(Reals.of([])).write(range(5), np.empty((5, 0)), None)


@EVERY_DTYPE
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rows_stand_alone(dtype: str, data: st.DataObject) -> None:
    start = data.draw(st.sampled_from([0, -700, 131072, 2**40, -(2**53), 2**53 - 1500]))
    whole = range(start, start + 1500)
    sin, cos = WHOLE.setdefault((dtype, start), written(whole, dtype))
    low = data.draw(st.integers(0, 1500))
    high = data.draw(st.integers(low, 1500))
    part_sin, part_cos = written(whole[low:high], dtype)
    assert np.array_equal(part_sin, sin[low:high])
    assert np.array_equal(part_cos, cos[low:high])
    rows = data.draw(st.lists(st.integers(0, 1499), max_size=80))
    scattered_sin, scattered_cos = written(np.array([whole[row] for row in rows], np.float64), dtype)
    assert np.array_equal(scattered_sin, sin[rows])
    assert np.array_equal(scattered_cos, cos[rows])


WHOLE: dict[tuple[str, int], tuple[NDArray[Any], NDArray[Any]]] = {}


@EVERY_DTYPE
def test_many_shuffled_integers_give_the_rows_of_the_range(dtype: str) -> None:
    order = np.random.default_rng(5).permutation(4000)
    sin, cos = written(range(-2000, 2000), dtype)
    shuffled_sin, shuffled_cos = written(order.astype(np.float64) - 2000, dtype)
    assert np.array_equal(shuffled_sin, sin[order])
    assert np.array_equal(shuffled_cos, cos[order])


@EVERY_DTYPE
def test_halves_of_integers_are_not_taken_for_integers(dtype: str) -> None:
    halved = Waves(ROPE / 2)
    sin, cos = written(np.array([row / 2 for row in range(600)]), dtype)
    halved_sin, halved_cos = written(range(600), dtype, halved)
    assert np.array_equal(sin, halved_sin)
    assert np.array_equal(cos, halved_cos)


def test_frequencies_stand_alone_too() -> None:
    many = geometric(10000.0, [Fraction(-k, 300) for k in range(300)])
    sin, cos = written(range(200), "float32", Waves(many))
    for part in (slice(0, 3), slice(100, 290)):
        part_sin, part_cos = written(range(200), "float32", Waves(many[part]))
        assert np.array_equal(part_sin, sin[:, part])
        assert np.array_equal(part_cos, cos[:, part])


@pytest.mark.parametrize(("sin_dtype", "cos_dtype"), [("float32", "float64"), ("bfloat16", "float16")])
def test_strided_and_single_and_mixed_outputs(sin_dtype: str, cos_dtype: str) -> None:
    expected_sin, expected_cos = written(range(500), sin_dtype)[0], written(range(500), cos_dtype)[1]
    wide_sin, wide_cos = np.zeros((500, 64), DTYPES[sin_dtype]), np.zeros((500, 64), DTYPES[cos_dtype])
    WAVES.write(range(500), wide_sin[:, 0::2], wide_cos[:, :0:-2])
    assert np.array_equal(wide_sin.view(expected_sin.dtype)[:, 0::2], expected_sin)
    assert np.array_equal(wide_cos.view(expected_cos.dtype)[:, :0:-2], expected_cos)
    assert not wide_sin.view(expected_sin.dtype)[:, 1::2].any()
    alone = np.empty((500, 32), DTYPES[cos_dtype])
    WAVES.write(range(500), None, alone)
    assert np.array_equal(alone.view(expected_cos.dtype), expected_cos)


def test_slow_waves_are_settled_without_losing_speed_or_digits() -> None:
    slow = Waves(Reals.of([1e-9, 1e-12, 0.0, 1.0]))
    sin, _ = (np.empty((3000, 4), np.float32) for _ in range(2))
    slow.write(range(3000), sin, None)
    for row in (1, 17, 255, 2999):
        assert sin[row].tolist() == [
            rounded_once(mpmath.sin(mpf(row) * mpf(w)), "float32") for w in (1e-9, 1e-12, 0.0, 1.0)
        ]


def test_many_undecided_values_are_settled_in_portions() -> None:
    waves = Waves(Reals((pi(),) * 8))
    sin, cos = (np.empty((5000, 8), np.float32) for _ in range(2))
    waves.write(range(5000), sin, cos)
    assert not sin.any()
    assert (cos[::2] == 1).all()
    assert (cos[1::2] == -1).all()


def test_threads_share_a_prepared_object() -> None:
    fresh = Waves(ROPE)
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: written(range(3000), "float32", fresh), range(8)))
    for sin, cos in tables:
        assert np.array_equal(sin, tables[0][0])
        assert np.array_equal(cos, tables[0][1])


def test_memory_does_not_grow_with_the_table() -> None:
    waves, out = Waves(ROPE[:2]), np.empty((1_000_000, 2), np.float16)
    tracemalloc.start()
    waves.write(range(len(out)), out, None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * 2**20


@EVERY_DTYPE
def test_products_are_correctly_rounded(dtype: str) -> None:
    rng = np.random.default_rng(11)
    multipliers = np.concatenate([rng.uniform(-1000, 1000, 40), np.arange(10.0), [1e-3, 100.0]])
    out = np.empty((len(multipliers), len(ROPE)), DTYPES[dtype])
    products(multipliers, ROPE, out)
    for i, multiplier in enumerate(multipliers):
        for k in range(len(ROPE)):
            exact = mpf(float(multiplier)) * mpf(10000) ** (mpf(-k) / 32)
            assert float(out[i, k]) == rounded_once(exact, dtype)


@pytest.mark.parametrize(
    ("multiplier", "factor", "expected"),
    [
        (257.0, Fraction(1, 256), 1.0),  # half way from 1 to 1.0078125: to even
        (259.0, Fraction(1, 256), 1.015625),
        (3.0, Fraction(257, 768), 1.0),  # half way too, though a third is not a float
        (3.0, Fraction(259, 768), 1.015625),
        (-3.0, Fraction(257, 768), -1.0),
        (0.0, Fraction(-1, 3), 0.0),
        (-0.0, Fraction(1, 3), 0.0),
        (1e308, Fraction(10), np.inf),
        (1e-320, Fraction(1, 3), 0.0),
        (1e-300, Fraction(10**300), 1.0),
    ],
)
def test_ties_and_extremes_of_products(multiplier: float, factor: Fraction, expected: float) -> None:
    out = np.empty((1, 1), DTYPES["bfloat16"])
    products(np.array([multiplier]), Reals.of([factor]), out)
    assert float(out[0, 0]) == expected
    assert np.signbit(float(out[0, 0])) == (expected < 0)


def test_float64_products_reach_the_subnormals() -> None:
    out = np.empty((2, 1))
    products(np.array([1e-310, 1e-320]), Reals.of([Fraction(1, 3)]), out)
    assert out[:, 0].tolist() == [
        rounded_once(mpf(1e-310) / 3, "float64"),
        rounded_once(mpf(1e-320) / 3, "float64"),
    ]


@EVERY_DTYPE
def test_values_are_rounded_once(dtype: str) -> None:
    with localcontext(MANY_DIGITS):
        just_above = Reals.of([1 + Fraction(1, 2**8) + Fraction(1, 2**70), Fraction(2, 3)])
    expected = [mpf(1) + mpf(2) ** -8 + mpf(2) ** -70, mpf(2) / 3]
    assert values(just_above, DTYPES[dtype]).astype(np.float64).tolist() == [rounded_once(x, dtype) for x in expected]


AMPLITUDES: dict[str, Number] = {
    "irrational": (Decimal(1) / 64).sqrt(MANY_DIGITS) * Decimal(2).sqrt(MANY_DIGITS),
    "a tie of float32": Decimal(1 + 3 * 2.0**-24),
    "large": Decimal("30000.7"),
    "small": Decimal(2.0**-20),
    "a little more than 1": Fraction(4, 3),
}


@EVERY_DTYPE
@pytest.mark.parametrize("name", AMPLITUDES)
def test_an_amplitude_multiplies_before_rounding(dtype: str, name: str) -> None:
    amplitude = AMPLITUDES[name]
    with localcontext(MANY_DIGITS):
        digits = str(real(amplitude))
    frequencies = geometric(10000.0, [Fraction(-k, 5) for k in range(5)])
    waves = Waves(frequencies, amplitude)
    scattered = np.random.default_rng(3).permutation(4096).astype(np.float64)
    some = np.array([0.0, -0.0, 5e-324, 1e-35, -1e-20, 0.5, 12345.678, 2.0**53])
    for positions in (range(-2, 40), range(1000, 4000), scattered, some):
        sin, cos = (np.empty((len(positions), 5), DTYPES[dtype]) for _ in range(2))
        waves.write(positions, sin, cos)
        for row in range(0, len(positions), 97 if len(positions) > 100 else 1):
            with mpmath.workprec(2600):
                scale = mpf(digits)
                angles = [mpf(float(positions[row])) * mpf(str(number)) for number in frequencies]
                sines = [rounded_once(scale * mpmath.sin(angle), dtype) for angle in angles]
                cosines = [rounded_once(scale * mpmath.cos(angle), dtype) for angle in angles]
            assert sin[row].astype(np.float64).tolist() == sines, (row, positions)
            assert cos[row].astype(np.float64).tolist() == cosines, (row, positions)


@EVERY_DTYPE
@pytest.mark.parametrize("amplitude", [2, Fraction(199, 100), AMPLITUDES["irrational"]])
def test_blocks_with_an_amplitude_are_each_value_for_itself(dtype: str, amplitude: Number) -> None:
    waves = Waves(ROPE, amplitude)
    blocks = written(range(-6000, 6000), dtype, waves)
    singly = [written(range(start, start + 30), dtype, waves) for start in range(-6000, 6000, 30)]
    for form, whole in enumerate(blocks):
        assert (whole == np.concatenate([part[form] for part in singly])).all()


def test_an_amplitude_of_0_leaves_nothing() -> None:
    sin, cos = np.ones((2, 40, 32), np.float32)
    Waves(ROPE, 0).write(range(40), sin, None)
    assert (sin == 0).all()
    Waves(ROPE, 0).write(range(40), None, cos)
    assert (cos == 0).all()


def test_rows_with_an_amplitude_stand_alone() -> None:
    waves = Waves(ROPE, AMPLITUDES["irrational"])
    whole = written(range(5000), "float64", waves)
    part = written(range(3000, 3017), "float64", waves)
    assert all((a[3000:3017] == b).all() for a, b in zip(whole, part, strict=True))


def test_exact_values_are_rounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros of a cycle are by the thousand, and one call to numpy costs as much as their digits."""
    calls: list[int] = []

    def counted(high: Floats, low: Floats, dtype: DTypeLike) -> NDArray[Any]:
        calls.append(high.size)
        return nearest_of_sum(high, low, dtype)

    monkeypatch.setattr(undecided, "nearest_of_sum", counted)
    got = np.empty((4000, 1), np.float32)
    Waves(Reals.of([1]) * angle_factor("pi")).write(range(4000), got, None)
    assert sum(calls) == 4000
    assert len(calls) < 8
    assert not got.any()
