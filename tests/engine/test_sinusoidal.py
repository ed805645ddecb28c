"""Sinusoidal tables against the paper's loops at a hundred digits, rounded once."""

import numpy as np
import pytest

from service.engine import by_key
from service.engine.sinusoids import SinusoidalTable, channels, fastest
from tests.engine.answers import DTYPE_NAMES, answer, assert_rounded_once, only, refused
from tests.oracles.oracle_sinusoidal import encoding, frequency

SINUSOIDAL = "encodings/sinusoidal"
POSITIONS = (0.0, 1.0, -3.0, 0.5, 131071.0, -0.1, 9007199254740991.0, -9007199254740992.0)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("dim", [1, 2, 3, 6, 7, 34, 80, 96, 128])
def test_every_value_is_rounded_once(dim: int, dtype: str) -> None:
    got = only(SINUSOIDAL, positions=POSITIONS, dim=dim, dtype=dtype)
    assert_rounded_once(got, [encoding(position, dim) for position in POSITIONS], dtype)


@pytest.mark.parametrize("base", [1e-6, 0.5, 1.0, 1.0001, 1000.0, 1e9])
def test_bases(base: float) -> None:
    got = only(SINUSOIDAL, positions=POSITIONS, dim=6, base=base)
    assert_rounded_once(got, [encoding(position, 6, base) for position in POSITIONS], "float32")


@pytest.mark.parametrize("layout", ["interleaved", "sin-cos", "cos-sin"])
@pytest.mark.parametrize("odd_width", ["extra-sine", "zero-column", "truncate"])
@pytest.mark.parametrize("frequency_shift", [0, 0.25, 1])
@pytest.mark.parametrize("dim", [5, 6, 33])
def test_layouts_odd_widths_and_shifts(layout: str, odd_width: str, frequency_shift: float, dim: int) -> None:
    choices = {"layout": layout, "odd_width": odd_width, "frequency_shift": frequency_shift}
    got = only(SINUSOIDAL, offset=-2, length=7, dim=dim, **choices)
    exact = [
        encoding(position, dim, 10000, layout, odd_width=odd_width, frequency_shift=frequency_shift)
        for position in range(-2, 5)
    ]
    assert_rounded_once(got, exact, "float32")


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_frequencies_and_angles(dtype: str) -> None:
    got = only(SINUSOIDAL, dim=34, output="frequencies", dtype=dtype)
    exact = [frequency(k, 34) for k in range(17)]
    assert_rounded_once(got[None], [exact], dtype)
    positions = (0.0, -1.0, 0.5, 60000.0)
    angles = only(SINUSOIDAL, dim=34, output="angles", dtype=dtype, positions=positions)
    assert_rounded_once(angles, [[position * w for w in exact] for position in positions], dtype)


def test_angles_of_consecutive_positions_and_of_a_batch() -> None:
    lined = only(SINUSOIDAL, dim=7, output="angles", offset=-1, length=3)
    listed = only(SINUSOIDAL, {"positions": np.array([[-1], [0], [1]])}, dim=7, output="angles")
    assert listed.shape == (3, 1, 4)
    np.testing.assert_array_equal(listed[:, 0], lined)


@pytest.mark.parametrize("offset", [-3, 0, 5, 6])
def test_the_padding_row_lies_at_its_position(offset: int) -> None:
    plain, padded = (
        only(SINUSOIDAL, dim=4, offset=offset, length=4, padding_idx=padding_idx) for padding_idx in (None, 5)
    )
    expected = plain.copy()
    expected[np.arange(offset, offset + 4) == 5] = 0
    np.testing.assert_array_equal(padded, expected)


def test_the_padding_row_among_listed_positions() -> None:
    got = only(SINUSOIDAL, dim=4, positions=(5, 1, 5, 5.5), padding_idx=5)
    assert (got == 0).all(axis=1).tolist() == [True, False, True, False]


def test_offset_continues_the_table() -> None:
    whole_table = only(SINUSOIDAL, dim=6, length=300, offset=-100)
    parts = [only(SINUSOIDAL, dim=6, length=100, offset=offset) for offset in (-100, 0, 100)]
    assert np.concatenate(parts).tobytes() == whole_table.tobytes()


@pytest.mark.parametrize("layout", ["interleaved", "sin-cos", "cos-sin"])
@pytest.mark.parametrize("dim", [1, 7, 33])
@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
def test_a_truncated_table_is_the_wider_one_without_its_last_channel(layout: str, dim: int, arithmetic: str) -> None:
    given = {"layout": layout, "arithmetic": arithmetic, "positions": (3.0, -0.5, 131071.0)}
    cut = only(SINUSOIDAL, dim=dim, odd_width="truncate", **given)
    wider = only(SINUSOIDAL, dim=dim + 1, **given)
    np.testing.assert_array_equal(cut, wider[:, :dim])
    for output in ("frequencies", "angles"):
        got, expected = (
            only(SINUSOIDAL, dim=width, odd_width="truncate", output=output, **given) for width in (dim, dim + 1)
        )
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(only(SINUSOIDAL, dim=dim + 1, odd_width="truncate", **given), wider)


def test_a_truncated_table_states_what_is_left() -> None:
    facts = by_key("encodings", "sinusoidal").facts
    left = [
        facts(by_key("encodings", "sinusoidal").params(dim=7, odd_width="truncate", layout=layout), {})
        for layout in ("interleaved", "sin-cos", "cos-sin")
    ]
    assert left == [{"sines": 4, "cosines": 3}, {"sines": 4, "cosines": 3}, {"sines": 3, "cosines": 4}]


def test_how_many_sines_and_cosines() -> None:
    orders = [channels(dim, "sin-cos", odd) for dim in (5, 6) for odd in ("extra-sine", "zero-column")]
    assert [(order.sine_count, order.cosine_count) for order in orders] == [(3, 2), (2, 2), (3, 3), (3, 3)]


def test_axes() -> None:
    scheme = by_key("encodings", "sinusoidal")
    shapes = {
        axis: scheme.tensors(scheme.params(dim=4, length=3, batch_axis=axis), {})["encoding"]
        for axis in ("none", "first", "second")
    }
    assert {axis: tensor.axes for axis, tensor in shapes.items()} == {
        "none": ("position", "channel"),
        "first": ("batch", "position", "channel"),
        "second": ("position", "batch", "channel"),
    }
    params = scheme.params(dim=4)
    batch = scheme.tensors(params, {"positions": np.zeros((2, 3, 4))})["encoding"]
    assert batch.axes == ("batch_0", "batch_1", "position", "channel")
    assert scheme.facts(scheme.params(dim=5), {}) == {"sines": 3, "cosines": 2}


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"dim": 7, "odd_width": "refuse"}, "dim", "odd"),
        ({"dim": 1, "odd_width": "zero-column"}, "dim", "out_of_range"),
        ({"dim": 2, "frequency_shift": 1}, "frequency_shift", "out_of_range"),
        ({"dim": 4096, "base": 1e-19}, "base", "out_of_range"),
        ({"dim": 128, "base": 0.5, "frequency_shift": 63.9999}, "frequency_shift", "out_of_range"),
        ({"dim": 128, "base": 1e100, "frequency_shift": 63}, "frequency_shift", "out_of_range"),
        ({"dim": 4, "output": "angles", "dtype": "float16", "length": 70_000}, "dtype", "out_of_range"),
        ({"dim": 128, "output": "frequencies", "dtype": "float16", "base": 1e-10}, "dtype", "out_of_range"),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(SINUSOIDAL, **{"length": 2, **parameters})
    assert (fault.parameter, fault.code) == (named, code)


def test_an_even_width_is_not_odd() -> None:
    assert only(SINUSOIDAL, dim=6, length=1, odd_width="refuse").shape == (1, 6)


def test_a_batch_axis_beside_axes_of_the_positions() -> None:
    fault = refused(SINUSOIDAL, {"positions": np.zeros((2, 2))}, dim=2, batch_axis="first")
    assert (fault.parameter, fault.code) == ("batch_axis", "conflict")


def test_the_fastest_frequency_is_the_largest() -> None:
    table = SinusoidalTable(base=0.01, frequency_shift=1)
    assert fastest(table, 8) == pytest.approx(100)
    assert fastest(SinusoidalTable(), 8) == 1.0
    assert max(answer(SINUSOIDAL, dim=8, base=0.01, frequency_shift=1, output="frequencies")["frequencies"]) == 100
