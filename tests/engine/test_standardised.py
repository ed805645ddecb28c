"""Tables less their mean over ten times their deviation, against sums of all their values at a hundred digits."""

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.numbers.reals import Reals, pi
from service.engine.standardised import Standardised, moments
from tests.engine.answers import DTYPE_NAMES, assert_rounded_once, only, refused
from tests.oracles.exact import PRECISION_BITS
from tests.oracles.oracle_sinusoidal import encoding

SINUSOIDAL = "encodings/sinusoidal"
TENTH = {"standardisation": "tenth"}


def standardised(rows: list[list[mpf]]) -> list[list[mpf]]:
    """Every value summed, and every square."""
    values = [value for row in rows for value in row]
    mean = mpmath.fsum(values) / len(values)
    variance = mpmath.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return [[(value - mean) / (10 * mpmath.sqrt(variance)) for value in row] for row in rows]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(("dim", "layout"), [(2, "interleaved"), (7, "sin-cos"), (34, "cos-sin")])
@pytest.mark.parametrize(("length", "offset"), [(2, 0), (50, -3), (90, 2**40)])
def test_every_value_is_rounded_once(dtype: str, dim: int, layout: str, length: int, offset: int) -> None:
    got = only(SINUSOIDAL, **TENTH, dim=dim, layout=layout, length=length, offset=offset, dtype=dtype)
    with mpmath.workprec(PRECISION_BITS):
        exact = standardised([encoding(position, dim, layout=layout) for position in range(offset, offset + length)])
    assert_rounded_once(got, exact, dtype)


def test_mean_and_deviation_of_the_answer() -> None:
    table = only(SINUSOIDAL, **TENTH, dim=64, length=1000, dtype="float64")
    assert table.mean() == pytest.approx(0, abs=1e-15)
    assert table.std(ddof=1) == pytest.approx(0.1, abs=1e-15)


def test_whole_turns_have_sums_too() -> None:
    """sin(w / 2) is 0 there: every position has the same angle."""
    mean, deviation = moments(Reals.of([2]) * pi(), 1, 5, 9)
    assert float(mean) == 0.5
    assert float(deviation) == pytest.approx(np.std([0, 1] * 9, ddof=1), rel=1e-15)


def test_values_that_double_double_leaves_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, if its error were that large."""
    plain = only(SINUSOIDAL, **TENTH, dim=6, length=40)
    monkeypatch.setattr("service.engine.standardised.ROUNDED", 0.5)
    assert np.array_equal(only(SINUSOIDAL, **TENTH, dim=6, length=40), plain)


def test_one_waveform_alone() -> None:
    table = Standardised(Reals.of([1.0, 0.25]), 2, 0, 30)
    both, alone = np.empty((2, 30, 2)), np.empty((2, 30, 2))
    table.write(range(30), both[0], both[1])
    table.write(range(30), alone[0], None)
    table.write(range(30), None, alone[1])
    assert np.array_equal(both, alone)


def test_other_outputs_are_not_standardised() -> None:
    for output in ("angles", "frequencies"):
        plain = only(SINUSOIDAL, dim=6, length=5, output=output)
        assert np.array_equal(only(SINUSOIDAL, **TENTH, dim=6, length=5, output=output), plain)
    table = Standardised(Reals.of([1.0, 0.5]), 2, 0, 3)
    out = np.empty((3, 2), np.float32)
    table.angles(range(3), out)
    assert out.tolist() == [[0, 0], [1, 0.5], [2, 1]]
    assert table.frequencies(np.dtype(np.float32)).tolist() == [1, 0.5]


def test_an_amplitude_has_no_effect_and_the_answer_says_so() -> None:
    scheme = by_key("encodings", "sinusoidal")
    params = scheme.params(dim=6, length=5, amplitude=3, **TENTH)
    assert scheme.notes(params, {}) == ["amplitude has no effect with standardisation=tenth"]
    assert np.array_equal(
        only(SINUSOIDAL, dim=6, length=5, amplitude=3, **TENTH), only(SINUSOIDAL, dim=6, length=5, **TENTH)
    )
    assert scheme.sequence(params, {}) is None


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"length": 1}, "length", "out_of_range"),
        ({"dim": 1}, "dim", "out_of_range"),
        ({"dim": 8193}, "dim", "out_of_range"),
        ({"length": None, "positions": (1.0, 2.0)}, "standardisation", "conflict"),
        ({"arithmetic": "float32"}, "standardisation", "conflict"),
        ({"padding_idx": 1}, "standardisation", "conflict"),
        ({"dim": 7, "odd_width": "zero-column"}, "standardisation", "conflict"),
        ({"dim": 7, "odd_width": "truncate"}, "standardisation", "conflict"),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(SINUSOIDAL, **{"length": 5, "dim": 6, **TENTH, **parameters})
    assert (fault.parameter, fault.code) == (named, code)
