"""JSON answers: strict, shortest, bit-exact, of any shape."""

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.formats import FORMATS
from service.formats.decimals import finite
from service.formats.errors import CannotHold
from service.formats.format import KEPT_BYTES, type_of
from tests.formats.samples import DOCUMENT, FLOATS, Spec, arrays_of, rows_of, same, specs, strict, written


def data(array: NDArray[Any], **options: Any) -> Any:
    return strict(written("json", {"x": array}, **options))["tensors"]["x"]["data"]


@given(data=st.data(), dtype=st.sampled_from(FLOATS), block_bytes=st.sampled_from([1, 16, 40, 1 << 20]))
def test_reads_back_bit_for_bit(data: st.DataObject, dtype: str, block_bytes: int) -> None:
    array = data.draw(arrays_of(dtype))
    answer = strict(written("json", {"x": array}, block_bytes=block_bytes))
    tensor = answer["tensors"]["x"]
    assert tensor["dtype"] == dtype
    assert tensor["shape"] == list(array.shape)
    # Read as float32 first, as a client of the 16-bit dtypes would: that is exact.
    middle = np.float64 if dtype == "float64" else np.float32
    values = np.array(tensor["data"], middle).reshape(array.shape)
    assert same(values.astype(type_of[dtype]), array)
    assert same(values, array.astype(middle))


@given(data=st.data(), block_bytes=st.sampled_from([1, 16, 40, 100]))
def test_nesting_is_that_of_lists(data: st.DataObject, block_bytes: int) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=5)))
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    text = written("json", {"x": array}, block_bytes=block_bytes)
    assert strict(text)["tensors"]["x"]["data"] == array.tolist()
    assert b" " not in text.replace("é ☃".encode(), b"")


def test_the_document_comes_first_and_in_order() -> None:
    text = written("json", {"cos": np.array([[1]], np.float32), "sin": np.array([0.5, -0.0], np.float16)})
    answer = strict(text)
    assert list(answer) == ["family", "scheme", "revision", "parameters", "facts", "notes", "tensors"]
    assert answer["facts"] == {"attention_factor": 1.5, "dims": 8}
    assert answer["tensors"] == {
        "cos": {"axes": ["key", "channel"], "shape": [1, 1], "dtype": "float32", "data": [[1.0]]},
        "sin": {"axes": ["channel"], "shape": [2], "dtype": "float16", "data": [0.5, 0.0]},
    }
    assert text.startswith(b'{"family":"encodings","scheme":"rope","revision":1,')
    assert strict(written("json", {"x": np.array(1, np.float32)}, document={})) == {
        "tensors": {"x": {"axes": [], "shape": [], "dtype": "float32", "data": 1.0}}
    }


def test_float32_is_short_and_never_widened() -> None:
    array = np.array([0.1, -0.0, 1e-45, 3.4028235e38, 16777216, 1 / 3], np.float32)
    text = written("json", {"x": array})
    assert b'"data":[0.1,-0.0,1e-45,3.4028235e+38,16777216.0,0.33333334]' in text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_sixteen_bit_value(dtype: str) -> None:
    array = np.arange(1 << 16, dtype=np.uint16).view(type_of[dtype])
    array = array[finite(array)]
    assert same(np.array(data(array), np.float32).astype(type_of[dtype]), array)


def test_integers_and_booleans() -> None:
    assert data(np.array([[True, False]])) == [[True, False]]
    assert data(np.array([2**53 + 1, -(2**63)])) == [2**53 + 1, -(2**63)]
    assert data(np.array([[-(2**31)]], np.int32)) == [[-(2**31)]]


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_not_finite_is_refused_before_the_first_byte(dtype: str) -> None:
    array = np.zeros((50, 4), type_of[dtype])
    array[-1, -1] = -np.inf
    chunks = FORMATS["json"].stream(DOCUMENT, specs({"mask": array}), rows_of({"mask": array}), block_bytes=16)
    with pytest.raises(CannotHold, match=r"mask is not finite .*; nonfinite=string writes strings; ") as caught:
        next(chunks)
    assert caught.value.code == "nonfinite"
    assert "json" not in caught.value.can
    assert "safetensors" in caught.value.can


def test_refusal_comes_first_for_large_answers_too() -> None:
    count = KEPT_BYTES // 64 + 2
    table = np.zeros((count, 16), np.float32)
    table[-1, 0] = np.nan
    chunks = FORMATS["json"].stream({}, {"x": Spec(("a", "b"), table.shape, "float32")}, rows_of({"x": table}))
    with pytest.raises(CannotHold):
        next(chunks)


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_not_finite_may_be_strings(dtype: str) -> None:
    mixed = np.array([[1, np.inf, -np.inf, np.nan], [0.5, -np.nan, 2, np.inf]]).astype(type_of[dtype])
    assert data(mixed, nonfinite="string") == [
        [1, "Infinity", "-Infinity", "NaN"],
        [0.5, "NaN", 2, "Infinity"],
    ]
    mask = np.array([[0, -np.inf, -np.inf], [0, 0, -np.inf]]).astype(type_of[dtype])
    assert data(mask, nonfinite="string") == [[0, "-Infinity", "-Infinity"], [0, 0, "-Infinity"]]
    assert data(np.array(np.inf).astype(type_of[dtype]), nonfinite="string") == "Infinity"
    assert data(np.ones(2, type_of[dtype]), nonfinite="string") == [1, 1]


def test_revision_names_what_makes_the_digits() -> None:
    assert FORMATS["json"].revision.endswith(orjson.__version__)
    assert FORMATS["csv"].revision.endswith(orjson.__version__)
    assert FORMATS["npy"].revision == "1"
