"""`.npy`: as numpy writes and reads it, and nothing that is not plain numbers."""

import io
import pickle
import zipfile
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.formats.errors import Unreadable
from service.formats.npy import header, read_npy
from service.formats.reader import read_arrays
from tests.formats.samples import arrays_of, same, written


def saved(array: NDArray[Any], version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def made(text: str, body: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    length = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + text.encode("latin-1") + body


@given(data=st.data(), dtype=st.sampled_from(["float16", "float32", "float64"]))
def test_bytes_are_those_of_numpy(data: st.DataObject, dtype: str) -> None:
    array = data.draw(arrays_of(dtype, finite=False))
    body = written("npy", {"x": array})
    assert body == saved(array)
    assert same(np.load(io.BytesIO(body), allow_pickle=False), array)
    assert same(np.asarray(read_npy(body)), array)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (10,), (123456789, 0), (1, 2, 3, 4, 5, 6), (10**9,) * 9, (1,) * 24])
def test_header_is_that_of_numpy(dtype: str, shape: tuple[int, ...]) -> None:
    file = io.BytesIO()
    fields = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    assert header(shape, dtype) == file.getvalue()


def test_several_of_one_shape_are_stacked() -> None:
    cos, sin = np.array([[1, 2, 3]], np.float32), np.array([[4, 5, 6]], np.float32)
    body = written("npy", {"cos": cos, "sin": sin})
    assert body == saved(np.stack([cos, sin]))
    loaded_cos, loaded_sin = np.load(io.BytesIO(body))
    assert same(loaded_cos, cos)
    assert same(loaded_sin, sin)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_reads_what_numpy_writes(dtype: str, order: Literal["<", ">"], version: tuple[int, int]) -> None:
    array = np.arange(24).reshape(2, 3, 4) % 2 == 0 if dtype == "?" else np.arange(24).reshape(2, 3, 4)
    stored = array.astype(np.dtype(dtype).newbyteorder(order))
    for laid in (stored, np.asfortranarray(stored)):
        read = np.asarray(read_npy(saved(laid, version)))
        assert read.flags.c_contiguous
        assert same(read, array.astype(dtype))


def test_reads_without_axes_and_without_values() -> None:
    assert read_npy(saved(np.array(2.5, np.float32))).shape == ()
    assert float(read_npy(saved(np.array(2.5, ">f8")))) == 2.5
    assert read_npy(saved(np.zeros((3, 0, 2)))).shape == (3, 0, 2)


def test_is_a_view_of_the_body() -> None:
    body = saved(np.arange(1000.0))
    for kind in (body, bytearray(body), memoryview(body)):
        assert np.shares_memory(read_npy(kind), np.frombuffer(kind, np.uint8))
    shifted = read_npy(memoryview(b"x" + body)[1:])
    assert shifted.flags.aligned
    assert shifted[999] == 999


FINE = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"


@pytest.mark.parametrize(
    ("text", "body", "code", "said"),
    [
        (FINE, bytes(7), "size", r"declares \(2,\) float32, 8 bytes, and has 7"),
        (FINE, bytes(9), "size", "8 bytes, and has 9"),
        (FINE.replace("(2,)", f"({10**12},)"), b"", "size", "4000000000000 bytes, and has 0"),
        (FINE.replace("(2,)", f"({2**62}, 0)"), b"", "shape", "beyond any memory"),
        (FINE.replace("(2,)", f"({2**63}, 4)"), b"", "shape", "beyond any memory"),
        (FINE.replace("(2,)", "(-1,)"), b"", "shape", "negative"),
        (FINE.replace("(2,)", "(-1, -2)"), bytes(8), "shape", "negative"),
        (FINE.replace("(2,)", "(True, 2)"), bytes(8), "shape", "no shape"),
        (FINE.replace("(2,)", "(2.0,)"), bytes(8), "shape", "no shape"),
        (FINE.replace("(2,)", "[2]"), bytes(8), "shape", "must be a tuple"),
        (FINE.replace("(2,)", "2"), bytes(8), "shape", "must be a tuple, not 2"),
        (FINE.replace("(2,)", str((1,) * 33)), bytes(4), "shape", "33 axes"),
        (FINE.replace("False", "0"), bytes(8), "npy", "fortran_order"),
        (FINE.replace("<f4", "|O"), bytes(8), "dtype", "object arrays are not accepted"),
        (FINE.replace("'<f4'", "[('a', '<f4')]"), bytes(8), "dtype", "not of structures"),
        (FINE.replace("<f4", "<U1"), bytes(8), "dtype", "not of <U1"),
        (FINE.replace("<f4", "|V2"), bytes(4), "dtype", r"not of \|V2 \(bfloat16: send safetensors\)"),
        (FINE.replace("<f4", "<c8"), bytes(16), "dtype", "not of <c8"),
        (FINE.replace("<f4", "f4, f4"), bytes(16), "dtype", "not of f4, f4"),
        (FINE.replace("'<f4'", "4"), bytes(16), "dtype", "not of 4"),
        (FINE.replace("<f4", "|b1"), b"\0\2", "value", "neither 0 nor 1"),
        (FINE.replace("'shape'", "'form'"), bytes(8), "npy", "must hold descr"),
        (FINE.replace("}", "'more': 1}"), bytes(8), "npy", "must hold descr"),
        ("[1, 2]", b"", "npy", "must hold descr"),
        ("__import__('os').system('true')", b"", "npy", "not a Python literal"),
        ("{[]: 1}", b"", "npy", "not a Python literal"),
        (
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'descr': '<f4'}",
            b"abcd",
            "npy",
            "a key of the npy header comes twice",
        ),
        ("(" * 1000, b"", "npy", "not a Python literal"),
        ("-" * 1000 + "1", b"", "npy", "not a Python literal"),
        ("1" * 2000, b"", "npy", "2000 characters"),
    ],
)
def test_refuses_headers_that_are_not_so(text: str, body: bytes, code: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said) as caught:
        read_npy(made(text, body))
    assert caught.value.code == code
    assert caught.value.pointer is None
    assert len(caught.value.detail) < 200


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", b"")
    return file.getvalue()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "an empty body"),
        (pickle.dumps([1.5]), "a Python pickle, which is never read"),
        (b"\x80", "unknown binary data"),
        (_zip(), "a zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a Git LFS pointer"),
        (b'{"positions": [1]}', r"JSON \(send it as application/json\)"),
        (b"hello, world", "text"),
        (b"\x00\x01\x02\x03", "unknown binary data"),
        (b"\x08\0\0\0\0\0\0\0{}      ", "a safetensors file"),
        (b"\x93NUMPX\1\0", "unknown binary data"),
    ],
)
def test_says_what_was_seen(body: bytes, said: str) -> None:
    with pytest.raises(Unreadable, match=f"npy was due, and this is {said}"):
        read_npy(body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\x93NUMPY", "ends within its first eight bytes"),
        (b"\x93NUMPY\4\0\0\0", "not 4.0"),
        (b"\x93NUMPY\1\0", "ends within the npy header, after 8 bytes"),
        (b"\x93NUMPY\1\0\x80\0{", "ends within the npy header, after 11 bytes"),
        (b"\x93NUMPY\2\0\0\0\0\x80{", "2147483648 bytes long; at most 10000"),
        (b"\x93NUMPY\3\0\4\0\0\0\xff\xff\xff\xff", "not UTF-8"),
    ],
)
def test_refuses_broken_beginnings(body: bytes, said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        read_npy(body)


def test_arrays_are_told_apart_by_their_first_bytes() -> None:
    array = np.array([[1, 2]], np.float32)
    assert same(np.asarray(read_arrays(written("npy", {"x": array}))), array)
    named = read_arrays(written("safetensors", {"q": array}))
    assert isinstance(named, dict)
    assert same(named["q"], array)
    with pytest.raises(Unreadable, match="npy or safetensors was due, and this is gzip-compressed data"):
        read_arrays(b"\x1f\x8b\x08")
