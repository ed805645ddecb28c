"""What blocks take for decided is: their error bounds hold, and values within them of a boundary are unsure."""

from decimal import localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine.numbers import blocks
from service.engine.numbers.blocks import (
    DOUBLE_ERROR,
    LARGEST_NARROW,
    NARROW_ERROR,
    Block,
    Grid,
    Places,
    Scratch,
    Target,
    Waveform,
)
from service.engine.numbers.reals import MANY_DIGITS, geometric
from service.engine.rounding import DTYPES
from service.engine.waves import Panel, Waves

Floats = NDArray[np.float64]
BOTH = (Waveform.SIN, Waveform.COS)
WAVES = Waves(geometric(10000.0, [Fraction(-k, 32) for k in range(32)]))
PANEL = WAVES._panels[0]


def a_grid(first: int) -> tuple[Grid, Block]:
    """A grid of the panel, and the block of one base row against all offset rows that begins there."""
    return the_block(PANEL, first)


def the_block(panel: Panel, first: int) -> tuple[Grid, Block]:
    plan = panel._consecutive(range(first, first + panel.stride))
    (block,) = plan.blocks
    assert isinstance(plan.grid, Grid)
    return plan.grid, block


def all_places(block: Block, form: Waveform) -> Places:
    assert isinstance(block.base, int)
    offset, channel = np.indices((PANEL.stride, PANEL.count)).reshape(2, -1)
    return Places(np.full_like(offset, int(form)), channel, np.full_like(offset, block.base), offset)


@pytest.mark.parametrize("first", [0, 40 * PANEL.stride, -7 * PANEL.stride, 2**40])
@pytest.mark.parametrize("form", BOTH)
def test_narrow_values_are_as_near_as_they_say(first: int, form: Waveform) -> None:
    """Against double-double, whose own error is nothing beside theirs; a twentieth of the bound would not do."""
    grid, block = a_grid(first)
    at = all_places(block, form)
    value, bound = grid.narrow(at)
    close, close_bound = grid.closely(at)
    off = np.abs((value.high - close.high) - close.low)
    assert (off <= bound).all()
    assert (off > bound / 20).any()
    assert (close_bound <= bound).all()
    assert bound.max() <= LARGEST_NARROW


@pytest.mark.parametrize("forms", [BOTH, (Waveform.SIN,), (Waveform.COS,)])
def test_blocks_hold_what_is_looked_at_again(forms: tuple[Waveform, ...]) -> None:
    """The complex product, fused or not, and the three real steps differ from `narrow` by less than its bound."""
    grid, block = a_grid(9 * PANEL.stride)
    values = Scratch(forms, PANEL.stride, PANEL.count).product(grid, block)
    for place, form in enumerate(forms):
        value, bound = grid.narrow(all_places(block, form))
        assert (np.abs(values[..., place].ravel() - value.high) <= bound).all()
        assert values[..., place].std() > 0.5


@pytest.mark.parametrize("first", [0, 3 * PANEL.stride, 2**45])
@pytest.mark.parametrize("form", BOTH)
def test_close_values_are_as_near_as_they_say(first: int, form: Waveform) -> None:
    """Against 80 digits."""
    grid, block = a_grid(first)
    some = np.random.default_rng(1).choice(PANEL.stride * PANEL.count, 40)
    at = Places(*(part[some] for part in all_places(block, form)))
    value, bound = grid.closely(at)
    with localcontext(MANY_DIGITS):
        for index, (offset, channel) in enumerate(zip(at.offset.tolist(), at.channel.tolist(), strict=True)):
            high, low = PANEL.angles.exactly(float(first + offset), channel)[form]
            off = abs(Fraction(high) + Fraction(low) - Fraction(value.high[index]) - Fraction(value.low[index]))
            assert off <= Fraction(bound[index]) < Fraction(2) ** -80


@pytest.mark.parametrize("amplitude", [1.0, 3.7, 1e-3])
@pytest.mark.parametrize("first", [0, 40 * PANEL.stride, -7 * PANEL.stride, 2**40])
def test_double_values_are_as_near_as_they_say(first: int, amplitude: float) -> None:
    """Against double-double, whose own error is nothing beside theirs; a sixteenth of the bound would not do."""
    panel = Waves(WAVES.frequencies, amplitude)._panels[0]
    grid, block = the_block(panel, first)
    total, rest, _ = Scratch(BOTH, panel.stride, panel.count).double_product(grid, block)
    bound = DOUBLE_ERROR * max(1.0, 2.0**grid.octaves)
    for form in BOTH:
        close, close_error = grid.closely(all_places(block, form))
        parts = (part[..., form].ravel() for part in (total, rest))
        off = np.abs(np.subtract(next(parts), close.high) + (next(parts) - close.low))
        assert (off + close_error).max() <= bound
        assert amplitude < 1 or first == 0 or off.max() > bound / 16


@pytest.mark.parametrize("amplitude", [1.0, 3.7])
def test_the_totals_of_doubles_are_exact(amplitude: float) -> None:
    """The leading parts are whole multiples, and so are sums of their products, computed here in integers."""
    panel = Waves(WAVES.frequencies, amplitude)._panels[0]
    grid, block = the_block(panel, 5 * panel.stride)
    total, _, _ = Scratch(BOTH, panel.stride, panel.count).double_product(grid, block)
    base, offset = grid.split().leading[block.base], grid.offsets.split().leading
    unit = 2.0 ** (26 - grid.octaves)
    real, imaginary = ((part * unit).astype(np.int64) for part in (base.real, base.imag))
    cosines, sines = ((part * 2.0**26).astype(np.int64) for part in (offset.real, offset.imag))
    assert np.array_equal(base.real * unit, real)
    assert np.array_equal(total[..., 0] * unit * 2.0**26, real * cosines - imaginary * sines)
    assert np.array_equal(total[..., 1] * unit * 2.0**26, real * sines + imaginary * cosines)


def near_boundaries(exponent: int, distance: float) -> Floats:
    """float64 at some distance from points half way between two float32, of magnitude 2^exponent and a bit."""
    random = np.random.default_rng(exponent + 100)
    scale = 2.0 ** (exponent - 23)
    middles = (random.integers(2**23, 2**24 - 1, 1000) + 0.5) * scale
    return np.concatenate([middles + distance, middles - distance, -middles - distance, -middles + distance])


@pytest.mark.parametrize("exponent", range(-16, 0))
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_every_value_within_its_error_of_a_boundary_is_unsure(exponent: int, share: float) -> None:
    values = near_boundaries(exponent, share * LARGEST_NARROW)
    assert unsure(values).size == values.size


@pytest.mark.parametrize("octaves", [1, 5, blocks.MOST_OCTAVES])
def test_an_amplitude_widens_what_is_unsure(octaves: int) -> None:
    for exponent in range(octaves - 16, octaves):
        values = near_boundaries(exponent, 2.0**octaves * LARGEST_NARROW)
        assert unsure(values, octaves).size == values.size
    assert unsure(near_boundaries(octaves - 1, 2.0 ** (octaves - 36)), octaves).size == 0


@pytest.mark.parametrize("exponent", range(-12, 0))
def test_values_farther_from_a_boundary_are_sure(exponent: int) -> None:
    """Or nothing would be gained: what is 2^-36 away is decided by its bits."""
    values = near_boundaries(exponent, 2.0**-36 if exponent > -11 else 2.0**-37)
    assert unsure(values).size == 0


@pytest.mark.parametrize("values", [[0.0, -0.0, 2.0**-13, -1e-30, 5e-324, 2.0**-12 * (1 - 2.0**-20)]])
def test_small_values_are_unsure_whatever_they_are(values: list[float]) -> None:
    assert unsure(np.array(values)).size == len(values)


def test_what_float32_holds_is_sure() -> None:
    held = np.array([1.0, -1.0, 0.5, 2.0**-12, -0.75, 1 - 2.0**-24])
    assert unsure(held).size == 0


def unsure(values: Floats, octaves: int = 0) -> NDArray[np.intp]:
    """Which of them the rounding to float32 leaves open; the rounded ones are checked on the way."""
    scratch = Scratch((Waveform.SIN,), values.size, 1)
    out = np.empty((values.size, 1), np.float32)
    target = Target.of({Waveform.SIN: out})
    found = blocks._to_float32(values.reshape(-1, 1, 1).copy(), slice(0, values.size), target, scratch, octaves)
    assert np.array_equal(out[:, 0], values.astype(np.float32))
    return found


def test_the_bound_of_all_narrow_errors_is_below_what_its_derivation_says() -> None:
    assert 2.0**0.5 * NARROW_ERROR < LARGEST_NARROW < 2.0**-50.07


def laid_out(kind: str, dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Empty sines and cosines, 300 rows, as different tables hold them."""
    table = np.empty((300, 64), dtype)
    if kind == "interleaved":
        return table[:, 0::2], table[:, 1::2]
    if kind == "cosines first":
        return table[:, 1::2], table[:, 0::2]
    if kind == "halves":
        return table[:, :32], table[:, 32:]
    if kind == "every second row":
        return np.empty((600, 64), dtype)[::2, 0::2], np.empty((600, 64), dtype)[::2, 1::2]
    return np.empty((300, 32), dtype), np.empty((300, 32), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("kind", ["interleaved", "cosines first", "halves", "every second row", "apart"])
def test_where_values_lie_in_memory_does_not_matter(kind: str, dtype: str) -> None:
    sines, cosines = laid_out(kind, dtype)
    WAVES.write(range(1000, 1300), sines, cosines)
    sine, cosine = np.empty((300, 32), dtype), np.empty((300, 32), dtype)
    WAVES.write(range(1000, 1300), sine, None)
    WAVES.write(range(1000, 1300), None, cosine)
    assert np.array_equal(sines, sine)
    assert np.array_equal(cosines, cosine)
    assert np.allclose(sine.astype(np.float64)[:, 0], np.sin(np.arange(1000, 1300)), atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("amplitude", [0.1, 1.1386294361119891, -1.5, 1.99, 3.7, -500.0, 4000.0])
def test_tables_with_an_amplitude_are_those_of_single_rows(amplitude: float, dtype: str) -> None:
    """Few rows are computed one by one, many in blocks, with an amplitude or none."""
    loud = Waves(geometric(10000.0, [Fraction(-k, 8) for k in range(8)]), amplitude)
    table = np.empty((700, 16), DTYPES[dtype])
    loud.write(range(700), table[:, ::2], table[:, 1::2])
    rows = np.empty((700, 16), DTYPES[dtype])
    for start in range(0, 700, 20):
        part = rows[start : start + 20]
        loud.write(range(start, start + 20), part[:, ::2], part[:, 1::2])
    assert np.array_equal(table.view(np.uint8), rows.view(np.uint8))
    wide = table.astype(np.float64)
    assert np.allclose(wide[:, 0], amplitude * np.sin(np.arange(700)), atol=abs(amplitude) * 2.0**-8)
