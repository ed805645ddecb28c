"""Embeddings plus the sinusoidal encoding, in every number format and order of axes."""

from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.quantities import WIDEST
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, only, refused
from tests.oracles.exact import rounded
from tests.oracles.oracle_sinusoidal import encoding

ADD, TABLE = "apply/sinusoidal", "encodings/sinusoidal"


def random(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(11).standard_normal(shape).astype(DTYPES[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("embedding_scale", ["none", "sqrt-dim"])
def test_each_step_is_rounded_once(dtype: str, embedding_scale: str) -> None:
    x = random(4, 7, dtype=dtype)
    got = only(ADD, {"x": x}, embedding_scale=embedding_scale, offset=-2)

    def once(value: Fraction) -> Fraction:
        return Fraction(rounded(value, dtype))

    factor = once(Fraction(sqrt(7))) if embedding_scale == "sqrt-dim" else Fraction(1)
    for i, row in enumerate(x):
        encoded = [Fraction(rounded(value, dtype)) for value in encoding(i - 2, 7)]
        expected = [
            float(once(once(Fraction(float(value)) * factor) + term)) for value, term in zip(row, encoded, strict=True)
        ]
        np.testing.assert_array_equal(got[i].astype(np.float64), expected)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    "choices",
    [
        {"layout": "sin-cos", "frequency_shift": 1, "padding_idx": 3},
        {"layout": "cos-sin", "odd_width": "zero-column", "base": 500},
        {},
    ],
)
def test_it_is_the_table_that_is_added(choices: dict[str, Any], dtype: str) -> None:
    x = random(2, 5, 9, dtype=dtype)
    table = only(TABLE, length=5, dim=9, offset=1, dtype=dtype, **choices)
    got = only(ADD, {"x": x}, offset=1, **choices)
    assert got.dtype == x.dtype
    assert got.tobytes() == (x + table).tobytes()


def test_axes_both_ways() -> None:
    x = random(2, 5, 6)
    batch_first = only(ADD, {"x": x}, offset=4)
    batch_second = only(ADD, {"x": x.swapaxes(0, 1)}, offset=4, axes="length-batch")
    assert batch_second.swapaxes(0, 1).tobytes() == batch_first.tobytes()


def test_ranks() -> None:
    x = random(2, 3, 4, 6)
    table = only(TABLE, length=4, dim=6)
    np.testing.assert_array_equal(only(ADD, {"x": x}), x + table)
    np.testing.assert_array_equal(only(ADD, {"x": x[0, 0, 0]}, offset=2), x[0, 0, 0] + table[2])
    scheme = by_key("apply", "sinusoidal")
    axes = [scheme.tensors(scheme.params(), {"x": np.zeros(shape)})["x"].axes for shape in ((6,), (4, 6), (1, 4, 6))]
    assert axes == [("channel",), ("position", "channel"), ("batch", "position", "channel")]
    swapped = scheme.tensors(scheme.params(axes="length-batch"), {"x": np.zeros((4, 1, 6))})
    assert swapped["x"].axes == ("position", "batch", "channel")


def test_positions_of_a_batch() -> None:
    x, positions = random(2, 3, 6), np.array([[0, 1, 2], [9, 0.5, -3]])
    table = only(TABLE, {"positions": positions}, dim=6)
    np.testing.assert_array_equal(only(ADD, {"x": x, "positions": positions}), x + table)


@pytest.mark.parametrize("axes", ["batch-length", "length-batch"])
def test_any_block_of_rows_stands_alone(axes: str) -> None:
    scheme, inputs = by_key("apply", "sinusoidal"), {"x": random(3, 4, 6)}
    params = scheme.params(axes=axes, embedding_scale="sqrt-dim")
    state, whole = (
        scheme.prepare(params, inputs),
        only(ADD, inputs, axes=axes, embedding_scale="sqrt-dim").reshape(-1, 6),
    )
    for start in range(12):
        for stop in range(start + 1, 13):
            assert scheme.rows(params, inputs, state, "x", start, stop).tobytes() == whole[start:stop].tobytes()


def test_integers_become_float32() -> None:
    got = only(ADD, {"x": np.array([[1, 2]])})
    assert got.dtype == np.float32
    assert got.tolist() == [[1.0, 3.0]]


@pytest.mark.parametrize(
    ("inputs", "parameters", "named", "code"),
    [
        ({"x": np.zeros(())}, {}, "/tensors/x", "shape"),
        ({"x": np.zeros((3, 0))}, {}, "/tensors/x", "shape"),
        ({"x": np.zeros(3)}, {"odd_width": "refuse"}, "dim", "odd"),
        ({"x": np.zeros((2, 4))}, {"axes": "length-batch"}, "axes", "conflict"),
        ({"x": np.zeros((2, 4))}, {"frequency_shift": 2}, "frequency_shift", "out_of_range"),
        ({"x": np.zeros((2, 4)), "positions": np.zeros(3)}, {}, "/positions", "shape"),
        ({"x": np.zeros(4), "positions": np.zeros(2)}, {}, "/positions", "shape"),
        ({"x": np.zeros((3, 2, 4)), "positions": np.zeros((3, 2))}, {"axes": "length-batch"}, "/positions", "shape"),
    ],
)
def test_refusals_name_what_is_wrong(inputs: dict[str, Any], parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(ADD, inputs, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


@pytest.mark.parametrize(("scheme", "tensor"), [("sinusoidal", "x"), ("rope", "q"), ("rope-axes", "q")])
def test_no_more_channels_than_tables_have(scheme: str, tensor: str) -> None:
    """Each has a frequency of its own: of four million the preparation took 38 s."""
    wide = np.zeros((2, WIDEST + 2), np.float32)
    parameters = {"grid": "1,2", "sections": (4, 4)} if scheme == "rope-axes" else {}
    fault = refused(f"apply/{scheme}", {tensor: wide}, **parameters)
    assert (fault.parameter, fault.code, fault.limit) == (f"/tensors/{tensor}", "shape", WIDEST)
