"""Rows in float64 are as near as blocks take for granted, and the tables made of them are those made of ladders."""

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine import waves
from service.engine.numbers.blocks import LARGEST_NARROW, Scratch, Waveform
from service.engine.numbers.plain_rows import FARTHEST_PLAIN, MOST_BASES, is_plain, plain_plan, plain_turns
from service.engine.numbers.reals import MANY_DIGITS, Reals, geometric, pi
from service.engine.numbers.sines import Angles, sine_cosine_of_turn
from service.engine.rounding import DTYPES
from service.engine.waves import Waves

U = 2.0**-53
BOTH = (Waveform.SIN, Waveform.COS)
ROPE = geometric(10000.0, [Fraction(-k, 24) for k in range(24)])
FREQUENCIES = {
    "rope": ROPE,
    "fastest": Reals.of([5.999, -5.9, 3, 2, 1]),
    "zeros": Reals.of([pi() / 2, pi() / 64, pi(), 0]),
    "slow": Reals.of([1e-9, 1e-20, 1e-100]),
}


@pytest.mark.parametrize("kind", FREQUENCIES)
def test_rows_are_within_three_quarters_of_a_unit(kind: str) -> None:
    """Of 2^-53, against 80 digits; a quarter would not do."""
    angles = Angles(FREQUENCIES[kind])
    far = np.random.default_rng(1).integers(-FARTHEST_PLAIN + 1, FARTHEST_PLAIN, 60)
    positions = np.array([0, 1, -1, 2, 17, 127, 128, -128, 4095, FARTHEST_PLAIN - 1, 1 - FARTHEST_PLAIN, *far], float)
    turns, worst = plain_turns(angles, positions), Decimal(0)
    with localcontext(MANY_DIGITS):
        for row, position in enumerate(positions.tolist()):
            for channel, turn in enumerate(angles.turns):
                sine, cosine = sine_cosine_of_turn(Decimal(position) * turn)
                number = turns[row, channel]
                worst = max(worst, abs(Decimal(number.imag) - sine), abs(Decimal(number.real) - cosine))
    assert worst <= Decimal(0.75 * U)
    assert worst > Decimal(0.25 * U) or kind in ("slow", "zeros")


@pytest.mark.parametrize("first", [0, -300, 2**25 + 77])
def test_products_of_rows_are_within_four_units(first: int) -> None:
    """Against double-double; blocks take more than seven for granted."""
    assert LARGEST_NARROW > 7 * U
    panel = Waves(ROPE)._panels[0]
    positions = range(first, first + panel.stride)
    plan = plain_plan(panel.angles, positions, panel.stride)
    scratch = Scratch(BOTH, panel.stride, panel.count)
    for block in plan.blocks:
        values = scratch.product(plan.grid, block).copy()
        rows, channels = np.indices(values.shape[:2]).reshape(2, -1)
        for form in BOTH:
            (close, error) = plan.closely(rows + block.rows.start, channels, np.full_like(rows, int(form)))
            off = np.abs((values[..., form].ravel() - close.high) - close.low) + error
            assert off.max() <= 4 * U
            assert off.max() > U


def tables(positions: range, dtype: str, times: int, frequencies: Reals = ROPE) -> list[NDArray[Any]]:
    """The same table of the same frequencies, written so often."""
    found, many = Waves(frequencies), []
    for _ in range(times):
        out = np.empty((2, len(positions), len(frequencies)), DTYPES[dtype])
        found.write(positions, out[0], out[1])
        many.append(out)
    return many


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", FREQUENCIES)
@pytest.mark.parametrize("positions", [range(4000), range(-1000, 5000), range(2**25, 2**25 + 33), range(999, 1700)])
def test_the_first_table_is_like_the_others(
    kind: str, dtype: str, positions: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first is made of plain rows."""
    made: list[range] = []

    def noted(angles: Angles, positions: range, stride: int) -> Any:
        made.append(positions)
        return plain_plan(angles, positions, stride)

    monkeypatch.setattr(waves, "plain_plan", noted)
    first, second = tables(positions, dtype, 2, FREQUENCIES[kind])
    assert [part[0] for part in made] == [positions[0]]
    assert first.tobytes() == second.tobytes()


def test_ladders_do_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """float64, one waveform, an amplitude, fast frequencies, far positions and long tables."""
    monkeypatch.setattr(waves, "plain_plan", None)
    tables(range(100), "float64", 1)
    Waves(ROPE).write(range(100), None, np.empty((100, 24), np.float32))
    stride, angles = 512, Angles(ROPE)
    assert is_plain(angles, range(MOST_BASES * stride), stride)
    assert not is_plain(angles, range(MOST_BASES * stride + 1), stride)
    assert not is_plain(Angles(ROPE, 2), range(100), stride)
    assert not is_plain(Angles(Reals.of([1, -7])), range(100), stride)
    assert not is_plain(angles, range(FARTHEST_PLAIN - 100, FARTHEST_PLAIN), stride)
    assert not is_plain(angles, range(-FARTHEST_PLAIN, 100 - FARTHEST_PLAIN), stride)
