"""Files in a body: read strictly, nothing unpickled, nothing allocated on a header's word (S34 to S37)."""

import io
import json
import pickle
import struct
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from tests.api.problems import fault, refused
from tests.clients import Client

ROPE = "/v1/apply/rope"
AT = "/v1/encodings/sinusoidal?dim=4"
BINARY = {"content-type": "application/octet-stream"}


def npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npy_header(text: str, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    line = text.encode("latin-1") + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(line)) + line + body


def tensors(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(shape: list[int], start: int, stop: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


# npy (S34, S35)

NOT_NPY: list[bytes] = [
    npy(np.array([1.0]))[:-1], npy(np.array([1.0])) + b"\0", npy(np.array([1.0]))[:20], b"\x93NUMPY", b"\x93NUMPY\x01",
    npy_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps([print])),
    npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"),
    npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"),
    npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,), }"),
    npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 99999999999999999999999), }"),
    npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': 4, }", bytes(16)),
    npy_header("{'descr': '<f4', 'fortran_order': 0, 'shape': (4,), }", bytes(16)),
    npy_header("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", bytes(16)),
    npy_header("{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", bytes(16)),
    npy_header("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", bytes(16)),
    npy_header("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (2,), }", bytes(16)),
    npy_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }", bytes(16)),
    npy_header("__import__('os').system('true')"), npy_header("(" * 5000), npy_header(""), npy_header("1"),
    npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}", bytes(16)),
    npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", bytes(16), b"\x04\x00"),
    pickle.dumps({"q": [1.0]}), b"PK\x03\x04" + bytes(40), b"\x1f\x8b" + bytes(40), b"GGUF" + bytes(40), b"text",
    bytes(64),
]  # fmt: skip


@pytest.mark.parametrize("body", NOT_NPY, ids=range(len(NOT_NPY)))
@pytest.mark.parametrize("target", [AT, ROPE])
def test_what_is_no_npy_is_refused(client: Client, target: str, body: bytes) -> None:
    refused(client.post(target, content=body, headers=BINARY), "bad-request")


def test_a_refused_file_says_what_it_is(client: Client) -> None:
    def said(body: bytes) -> str:
        detail: str = client.post(ROPE, content=body, headers=BINARY).json()["detail"]
        return detail

    assert "object arrays are not accepted" in said(NOT_NPY[5])
    assert "pickle" in said(pickle.dumps({"q": [1.0]}))
    assert "zip archive" in said(b"PK\x03\x04" + bytes(40))
    assert "Git LFS pointer" in said(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    assert "JSON (send it as application/json)" in said(b'{"tensors": {}}')


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", ">f8", "<i4", ">i8", "|u1", "<u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_kind_of_npy_means_its_numbers(client: Client, dtype: str, order: Any) -> None:
    x = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], dtype, order=order)
    reply = client.post(f"{ROPE}?direction=forward&positions=0,0&dtype=float64", content=npy(x), headers=BINARY)
    assert reply.json()["tensors"]["q"]["data"] == [[1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize("array", [np.array([True]), np.zeros((0, 4), np.float32), np.array(1.0)])
def test_arrays_without_vectors_are_pointed_at(client: Client, array: NDArray[Any]) -> None:
    reply = client.post(ROPE, content=npy(array), headers=BINARY)
    assert fault(refused(reply, "invalid-parameters"), "/tensors/q")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e17])
def test_positions_are_finite(client: Client, value: float) -> None:
    reply = client.post(AT, content=npy(np.array([[0.0, value]])), headers=BINARY)
    assert fault(refused(reply, "invalid-parameters"), "/positions/0/1")["code"] == "out_of_range"


# safetensors (S37)

NOT_SAFETENSORS: list[bytes] = [
    (2**63).to_bytes(8, "little") + b"{}", (100).to_bytes(8, "little") + b"{}", tensors(b"{"), tensors(b"[]"),
    tensors(b"{}") + b"\0",
    tensors({"q": entry([2], 0, 8)}, bytes(7)), tensors({"q": entry([2], 0, 8)}, bytes(9)),
    tensors(b'{"q":%s,"q":%s}' % (2 * (json.dumps(entry([1], 0, 4)).encode(),)), bytes(4)),
    tensors({"q": entry([1], 0, 4), "__metadata__": {"a": 1}}, bytes(4)), tensors({"q": entry([1], 0, 4),
    "__metadata__": 3}, bytes(4)),
    tensors(b'{"q": NaN}'), tensors(b'{"q": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]}}', bytes(4)),
]  # fmt: skip
WRONG_SAFETENSORS: list[bytes] = [
    tensors({"q": entry([1], 0, 4), "k": entry([1], 2, 6)}, bytes(6)), tensors({"q": entry([1], 4, 8)}, bytes(8)),
    tensors({"q": entry([3], 0, 8)}, bytes(8)), tensors({"q": entry([2**62, 2**62], 0, 4)}, bytes(4)),
    tensors({"q": entry([-1], 0, 4)}, bytes(4)), tensors({"q": entry([1], 0, 4, "F8_E4M3")}, bytes(4)),
    tensors({"q": entry([1], 4, 0)}, bytes(4)), tensors({"q": []}), tensors({"q": {"dtype": "F32"}}),
    tensors({"q": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
    tensors({"q": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}, bytes(4)),
    tensors({"q": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, bytes(4)),
    tensors({"q": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4.0]}}, bytes(4)),
    tensors({"q": {"dtype": "F32", "shape": [1] * 33, "data_offsets": [0, 4]}}, bytes(4)),
]  # fmt: skip


@pytest.mark.parametrize("body", NOT_SAFETENSORS, ids=range(len(NOT_SAFETENSORS)))
def test_what_is_no_safetensors_is_refused(client: Client, body: bytes) -> None:
    reply = client.post(ROPE, content=body, headers=BINARY)
    assert reply.status_code in (400, 422)
    refused(reply, "bad-request" if reply.status_code == 400 else "invalid-parameters")


@pytest.mark.parametrize("body", WRONG_SAFETENSORS, ids=range(len(WRONG_SAFETENSORS)))
def test_a_tensor_that_lies_is_pointed_at(client: Client, body: bytes) -> None:
    document = refused(client.post(ROPE, content=body, headers=BINARY), "invalid-parameters")
    assert document["errors"][0]["pointer"] in ("/tensors/q", "/tensors/k")


def test_unknown_tensors_are_named(client: Client) -> None:
    body = safetensors.numpy.save({"q": np.ones(2, np.float32), "v/~": np.ones(2, np.float32)})
    found = fault(refused(client.post(ROPE, content=body, headers=BINARY), "invalid-parameters"), "/tensors/v~1~0")
    assert found["code"] == "unknown"
    body = safetensors.numpy.save({"K": np.ones(2, np.float32)})
    refused(client.post(ROPE, content=body, headers=BINARY), "invalid-parameters")


def test_safetensors_carry_several_and_their_positions(client: Client) -> None:
    q, k = np.ones((2, 3, 4), np.float32), np.full((1, 3, 4), 2, np.float32)
    body = safetensors.numpy.save({"q": q, "k": k, "positions": np.array([0, 0, 5])})
    found = safetensors.numpy.load(client.post(f"{ROPE}.safetensors", content=body, headers=BINARY).content)
    assert {name: array.shape for name, array in found.items()} == {"q": (2, 3, 4), "k": (1, 3, 4)}
    np.testing.assert_array_equal(found["q"][:, :2], q[:, :2])
    turned = [np.cos(5) - np.sin(5), np.cos(0.05) - np.sin(0.05), np.cos(5) + np.sin(5), np.cos(0.05) + np.sin(0.05)]
    np.testing.assert_allclose(found["q"][0, 2], turned, rtol=1e-6)
    np.testing.assert_allclose(found["k"][0, 2], 2 * np.array(turned), rtol=1e-6)


# Numbers that are copied come back as they went in, in every number format of a file


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_weights_keep_their_number_format(direct: Client, dtype: str) -> None:
    weights = np.random.default_rng(2).integers(0, 256, (12, 3, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
    order = direct.get("/v1/permutations/rope?dim=6&heads=2").json()["tensors"]["permutation"]["data"]
    expected = weights[order]
    answer = direct.post("/v1/apply/permutation.npy?dim=6", content=npy(weights), headers=BINARY)
    assert answer.status_code == 200, answer.text
    assert answer.content == npy(expected)
    body = safetensors.numpy.save({"x": weights})
    answer = direct.post("/v1/apply/permutation.safetensors?dim=6", content=body, headers=BINARY)
    found = safetensors.numpy.load(answer.content)["x"]
    assert found.dtype == weights.dtype
    assert found.tobytes() == expected.tobytes()
