"""`.csv`: what numpy and the csv module read back as it was."""

import csv
import io
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.formats.format import type_of
from tests.formats.samples import FLOATS, arrays_of, same, written

FILLED = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@given(data=st.data(), dtype=st.sampled_from(FLOATS), block_bytes=st.sampled_from([1, 40, 1 << 20]))
def test_reads_back_bit_for_bit(data: st.DataObject, dtype: str, block_bytes: int) -> None:
    array = data.draw(arrays_of(dtype, FILLED))
    lines = list(csv.reader(io.StringIO(written("csv", {"x": array}, block_bytes=block_bytes).decode())))
    leading = array.ndim - 1 if array.ndim > 2 else 0
    middle = np.float64 if dtype == "float64" else np.float32
    values = np.array([line[leading:] for line in lines[1:]]).astype(middle).reshape(array.shape)
    assert same(values.astype(type_of[dtype]), array)
    indices = [tuple(map(int, line[:leading])) for line in lines[1:]]
    assert indices == (list(np.ndindex(array.shape[:-1])) if leading else [()] * len(indices))


def test_numpy_reads_a_table() -> None:
    table = np.array([[0.1, -0.0, 1e-45], [3.4028235e38, 1 / 3, 2]], np.float32)
    text = written("csv", {"x": table}).decode()
    assert text == "channel_0,channel_1,channel_2\n0.1,-0.0,1e-45\n3.4028235e+38,0.33333334,2.0\n"
    assert same(np.loadtxt(io.StringIO(text), np.float32, delimiter=",", skiprows=1), table)


def test_leading_axes_have_index_columns() -> None:
    bias = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    assert written("csv", {"x": bias}).decode().split("\n") == [
        "query,key,channel_0,channel_1",
        "0,0,0.0,1.0",
        "0,1,2.0,3.0",
        "0,2,4.0,5.0",
        "1,0,6.0,7.0",
        "1,1,8.0,9.0",
        "1,2,10.0,11.0",
        "",
    ]


def test_masks_keep_their_infinities() -> None:
    mask = np.array([[0, -np.inf, np.inf], [np.nan, 0.5, 1]], np.float16)
    text = written("csv", {"x": mask}).decode()
    assert text.split("\n")[1:3] == ["0.0,-inf,inf", "nan,0.5,1.0"]
    assert same(np.loadtxt(io.StringIO(text), np.float16, delimiter=",", skiprows=1), mask)


def test_one_axis_none_and_other_dtypes() -> None:
    assert written("csv", {"x": np.array([1, 2], np.float64)}) == b"channel_0,channel_1\n1.0,2.0\n"
    assert written("csv", {"x": np.array(0.1, type_of["bfloat16"])}) == b"value\n0.100097656\n"
    assert written("csv", {"x": np.array([[True, False]])}) == b"channel_0,channel_1\n1,0\n"
    assert written("csv", {"x": np.array([[2**60]])}) == b"channel_0\n1152921504606846976\n"


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3)])
def test_no_rows_leave_the_titles(shape: tuple[int, ...]) -> None:
    text = written("csv", {"x": np.zeros(shape, np.float32)}).decode()
    assert text.count("\n") == 1
    assert text.endswith("channel_0,channel_1,channel_2\n")
    with warnings.catch_warnings(action="ignore"):
        assert np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1).size == 0
