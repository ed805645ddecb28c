"""`.safetensors`: as the library writes and reads it, and stricter."""

import json
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from service.formats.errors import Unreadable
from service.formats.format import type_of
from service.formats.json_reader import read_object
from service.formats.json_text import described
from service.formats.safetensors import read_safetensors
from tests.formats.samples import DOCUMENT, FLOATS, arrays_of, same, strict, written


def made(header: object, values: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + values


def entry(begin: int, end: int, shape: object = None, dtype: object = "F32") -> dict[str, Any]:
    return {
        "dtype": dtype,
        "shape": [(end - begin) // 4] if shape is None else shape,
        "data_offsets": [begin, end],
    }


@given(
    arrays=st.dictionaries(
        st.sampled_from(["cos", "sin", "a", "é"]),
        st.sampled_from(FLOATS).flatmap(lambda dtype: arrays_of(dtype, finite=False)),
        min_size=1,
    )
)
def test_bytes_are_those_of_the_library(arrays: dict[str, Any]) -> None:
    body = written("safetensors", arrays)
    copies = {name: np.array(array, order="C") for name, array in arrays.items()}
    assert body == safetensors.numpy.save(copies, {"posenc": described(DOCUMENT).decode()})
    loaded, read = dict(safetensors.deserialize(body)), read_safetensors(body)  # type: ignore[no-untyped-call]
    assert loaded.keys() == read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name]["data"] == array.tobytes()
        assert loaded[name]["shape"] == list(array.shape)
        assert same(read[name], array)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "bool"])
def test_integers_and_booleans(dtype: str) -> None:
    array = (np.arange(6).reshape(2, 3) % 2).astype(type_of[dtype])
    arrays = {"index": array, "table": np.array([1.5], np.float32)}
    body = written("safetensors", arrays)
    assert same(safetensors.numpy.load(body)["index"], array)
    assert same(read_safetensors(body)["index"], array)


def test_the_document_is_one_metadata_key_in_a_padded_header() -> None:
    body = written("safetensors", {"x": np.array([1], np.float16)})
    length = int.from_bytes(body[:8], "little")
    assert length % 8 == 0
    header = strict(body[8 : 8 + length])
    assert list(header["__metadata__"]) == ["posenc"]
    document = strict(header["__metadata__"]["posenc"].encode())
    assert list(document) == sorted(DOCUMENT)
    assert document["parameters"] == {"base": 10000.0, "grid": [4, 6], "length": 4, "name": "é ☃"}
    assert document["facts"] == {"attention_factor": 1.5, "dims": 8}


@pytest.mark.parametrize(
    ("dtype", "numpy"),
    [
        ("F16", "<f2"),
        ("F32", "<f4"),
        ("F64", "<f8"),
        ("I8", "i1"),
        ("I16", "<i2"),
        ("I32", "<i4"),
        ("I64", "<i8"),
        ("U8", "u1"),
        ("BOOL", "?"),
    ],
)
def test_reads_every_dtype_it_says(dtype: str, numpy: str) -> None:
    values = np.array([1, 0, 1], numpy)
    body = made({"x": entry(0, values.nbytes, [3], dtype)}, values.tobytes())
    assert same(read_safetensors(body)["x"], values)


def test_order_views_and_unaligned_values() -> None:
    body = made({"b": entry(8, 16), "a": entry(0, 8), "__metadata__": {"format": "pt"}}, bytes(range(16)))
    read = read_safetensors(body)
    assert list(read) == ["a", "b"]
    assert read["b"].tobytes() == bytes(range(8, 16))
    assert all(array.flags.aligned for array in read.values())
    padded = made(json.dumps({"a": entry(0, 8)}).encode().ljust(64), bytes(8))
    assert np.shares_memory(read_safetensors(padded)["a"], np.frombuffer(padded, np.uint8))
    assert read_safetensors(made({"__metadata__": {}})) == {}
    assert read_safetensors(made({"x": entry(0, 0, [4, 0]), "y": entry(0, 0, [0])}))["x"].shape == (4, 0)


LONG = "n" * 500
DEEP: list[Any] = []
for _ in range(700):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("body", "code", "said", "pointer"),
    [
        (made({}, length=2**63), "safetensors", "9223372036854775808 bytes long; at most 1048576", None),
        (made({}, length=1000), "safetensors", "the body ends before that", None),
        (made(b'{"a":}'), "json_syntax", "not JSON", None),
        (made(b'{"\xff":1}'), "json_encoding", "UTF-8", None),
        (made(b"{" * 2000), "json_syntax", "not JSON", None),
        (made(b'{"a":' * 2000), "json_depth", "nested too deep", None),
        (made(b'{"x":1,"\\u0078":2}'), "json_duplicate", "the name x comes twice", None),
        (made({"__metadata__": {"a": 1}}), "safetensors", "__metadata__ must be strings", None),
        (made({"__metadata__": []}), "safetensors", "__metadata__ must be strings", None),
        (made({str(n): entry(0, 0) for n in range(65)}), "safetensors", "65 tensors", None),
        (made({"x": 1}), "safetensors", "tensor x must have dtype", "/tensors/x"),
        (made({"x": {**entry(0, 0), "more": 1}}), "safetensors", "no more", "/tensors/x"),
        (
            made({"x": entry(0, 2, [1], "U16")}, bytes(2)),
            "dtype",
            "tensor x is U16; read are F16",
            "/tensors/x",
        ),
        (made({"x": entry(0, 2, [2], "F8_E4M3")}, bytes(2)), "dtype", "F8_E4M3", "/tensors/x"),
        (made({"x": entry(0, 4, dtype=[1])}), "dtype", r"is \[1\]", "/tensors/x"),
        (made({"x": entry(0, 4, [1.0])}, bytes(4)), "shape", "no shape", "/tensors/x"),
        (made({"x": entry(0, 4, DEEP)}, bytes(4)), "shape", r"\[\[\[\[\[\[\.\.\.\]", "/tensors/x"),
        (made({"x": entry(0, 4, dtype=DEEP)}, bytes(4)), "dtype", "; read are F16", "/tensors/x"),
        (made({"x": entry(0, 4, "1")}, bytes(4)), "shape", "no shape", "/tensors/x"),
        (made({"x": entry(0, 4, [-1])}, bytes(4)), "shape", "negative", "/tensors/x"),
        (made({"x": entry(0, 0, [2**62, 2**62, 0])}), "shape", "beyond any memory", "/tensors/x"),
        (made({"x": entry(0, 4, [2])}, bytes(4)), "size", "8 bytes, and has 4", "/tensors/x"),
        (made({"x": entry(8, 4, [1])}, bytes(8)), "size", "and has -4", "/tensors/x"),
        (made({"x": {**entry(0, 4), "data_offsets": [0]}}), "safetensors", "two whole numbers", "/tensors/x"),
        (
            made({"x": {**entry(0, 4), "data_offsets": "04"}}),
            "safetensors",
            "two whole numbers",
            "/tensors/x",
        ),
        (
            made({"x": entry(0, 8), "y": entry(4, 12)}, bytes(12)),
            "offsets",
            "tensor y overlaps",
            "/tensors/y",
        ),
        (made({"x": entry(0, 4), "y": entry(8, 12)}, bytes(12)), "offsets", "y leaves a hole", "/tensors/y"),
        (made({"x": entry(4, 8)}, bytes(8)), "offsets", "x leaves a hole", "/tensors/x"),
        (made({"x": entry(-4, 0)}, bytes(4)), "offsets", "x overlaps", "/tensors/x"),
        (made({"x": entry(0, 4)}, bytes(5)), "size", "declares 4 bytes of values, and 5 came", None),
        (made({"x": entry(0, 8)}, bytes(4)), "size", "declares 8 bytes of values, and 4 came", None),
        (made({"x": entry(0, 1, [1], "BOOL")}, b"\7"), "value", "neither 0 nor 1", "/tensors/x"),
        (made({"a/b~": 1}), "safetensors", "tensor a/b~", "/tensors/a~1b~0"),
        (made({LONG: 1}), "safetensors", "n{63}…", "/tensors/" + "n" * 63 + "…"),
        (made({"x\n": 1}), "safetensors", r"tensor x\? must", "/tensors/x?"),
        (b"version https://git-lfs.github.com/spec/v1", "safetensors", "a Git LFS pointer", None),
        (b"plain te{t", "safetensors", "text", None),
        (b"", "safetensors", "an empty body", None),
    ],
)
def test_refuses(body: bytes, code: str, said: str, pointer: str | None) -> None:
    with pytest.raises(Unreadable, match=said) as caught:
        read_safetensors(body)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)
    assert len(caught.value.detail) < 200


def test_a_header_that_is_not_an_object_is_refused() -> None:
    # A whole body of this kind does not look like safetensors in the first place.
    with pytest.raises(Unreadable, match="the header must be a JSON object"):
        read_object(b"[1]", "the header")
