"""Rows of a panel as sums of few: the same as each in full, within the bounds that blocks are told."""

from fractions import Fraction

import numpy as np
import pytest

from service.engine.numbers.ladders import Ladders
from service.engine.numbers.pairs import Floats, Pair, Rows, sum_of_products
from service.engine.numbers.reals import Reals, geometric
from service.engine.numbers.sines import Angles

FEW = geometric(10_000.0, [Fraction(-k, 3) for k in range(3)])
MANY = geometric(1e9, [Fraction(-k, 100) for k in range(100)])


def differs(got: Rows, angles: Angles, positions: Floats) -> float:
    """The largest difference from rows in full, in units of the error that four such rows may have."""
    full = Rows(*angles.of_unit_amplitude(positions[:, None], slice(None)))
    errors = angles.errors(np.abs(positions).max(initial=1)[None, None], slice(None))
    assert got.sines.high.shape == full.sines.high.shape
    return max(
        float((np.abs((own.high - other.high) + (own.low - other.low)) / (4 * error)).max())
        for own, other, error in zip(got, full, errors, strict=True)
    )


@pytest.mark.parametrize(("frequencies", "stride"), [(FEW, 4096), (MANY, 128), (Reals.of([0.75]), 16384)])
def test_offsets_lie_on_both_sides_of_0(frequencies: Reals, stride: int) -> None:
    angles = Angles(frequencies)
    rows = Ladders(angles, stride).offsets()
    assert differs(rows, angles, np.arange(-stride // 2, stride // 2, dtype=np.float64)) < 1
    middle = stride // 2
    assert not rows.sines.high[middle].any()
    assert (rows.cosines.high[middle] == 1).all()
    assert np.array_equal(rows.sines.high[middle - 5], -rows.sines.high[middle + 5])


@pytest.mark.parametrize(("frequencies", "stride"), [(FEW, 4096), (MANY, 128)])
@pytest.mark.parametrize("first", [0, -3, 2**30])
@pytest.mark.parametrize("count", [1, 16, 17, 128])
def test_bases_lie_in_the_middle_of_their_strides(frequencies: Reals, stride: int, first: int, count: int) -> None:
    angles = Angles(frequencies)
    rows = Ladders(angles, stride).bases(first, count)
    middles = np.arange(first, first + count, dtype=np.float64) * stride + stride // 2
    assert differs(rows, angles, middles) < 1


def test_a_sum_of_products_loses_less_than_it_says() -> None:
    random = np.random.default_rng(5)
    high = random.standard_normal((2, 2, 500))
    a, b = (Pair(each, each * 2.0**-53 * random.uniform(-1, 1, each.shape)) for each in high)
    a, b = (Pair(np.stack([each.high, each.high[::-1]]), np.stack([each.low, each.low[::-1]])) for each in (a, b))
    total = sum_of_products(a, b)
    for place in np.ndindex(total.high.shape):
        terms = [
            (Fraction(a.high.item(t, *place)) + Fraction(a.low.item(t, *place)))
            * (Fraction(b.high.item(t, *place)) + Fraction(b.low.item(t, *place)))
            for t in range(2)
        ]
        lost = abs(Fraction(total.high.item(*place)) + Fraction(total.low.item(*place)) - sum(terms))
        assert lost <= 16 * Fraction(2) ** -106 * sum(map(abs, terms))
