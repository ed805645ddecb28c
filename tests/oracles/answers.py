"""Questions to the running service, and its answers as numpy arrays, read by code of these tests alone."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from tests.clients import Client
from tests.oracles.exact import from_bfloat16_bits

Array = NDArray[Any]
Query = str | int | float | Sequence[int] | Sequence[float]
Shown = dict[str, Any]


def query(parameters: Mapping[str, Query]) -> dict[str, str]:
    """Parameters as they stand in an address: floats in their shortest exact form, lists with commas.

    >>> query({"base": 0.5, "positions": [0, 7.5]})
    {'base': '0.5', 'positions': '0,7.5'}
    """
    return {
        name: ",".join(map(repr, value)) if isinstance(value, list | tuple) else str(value)
        for name, value in parameters.items()
    }


def asked(client: Client, address: str, **parameters: Query) -> dict[str, Array]:
    """Every tensor of a GET, through safetensors: exact bits in every dtype (bfloat16 widened to float32)."""
    answer = client.get(f"{address}.safetensors", params=query(parameters))
    assert answer.status_code == 200, answer.text
    return read_safetensors(answer.content)


def asked_in_json(client: Client, address: str, **parameters: Query) -> Shown:
    """The JSON answer to a GET."""
    answer = client.get(address, params=query(parameters))
    assert answer.status_code == 200, answer.text
    shown: Shown = answer.json()
    return shown


def asked_for_npy(client: Client, address: str, **parameters: Query) -> Array:
    """The one array of a GET for .npy."""
    answer = client.get(f"{address}.npy", params=query(parameters))
    assert answer.status_code == 200, answer.text
    return read_npy(answer.content)


def posted(client: Client, address: str, arrays: Mapping[str, Array], **parameters: Query) -> dict[str, Array]:
    """Every tensor of a POST, safetensors there and back."""
    body = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    return read_safetensors(_sent(client, f"{address}.safetensors", body, parameters))


def posted_npy(client: Client, address: str, array: Array, **parameters: Query) -> Array:
    """The one array of a POST, npy there and back."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return read_npy(_sent(client, f"{address}.npy", file.getvalue(), parameters))


def posted_json(client: Client, address: str, body: Mapping[str, Any], **parameters: Query) -> dict[str, Array]:
    """Every tensor of a POST, JSON there and back."""
    answer = client.post(
        address,
        params=query(parameters),
        content=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 200, answer.text
    return {name: from_json(shown) for name, shown in answer.json()["tensors"].items()}


def _sent(client: Client, address: str, body: bytes, parameters: Mapping[str, Query]) -> bytes:
    answer = client.post(
        address,
        params=query(parameters),
        content=body,
        headers={"Content-Type": "application/octet-stream"},
    )
    assert answer.status_code == 200, answer.text
    return answer.content


def from_json(shown: Mapping[str, Any]) -> Array:
    """One of an answer's `tensors`, in its own dtype (bfloat16 widened to float32)."""
    dtype = "float32" if shown["dtype"] == "bfloat16" else shown["dtype"]
    array = np.array(shown["data"], dtype=np.float64)
    assert array.shape == tuple(shown["shape"])
    return array.astype(dtype)


def read_npy(body: bytes) -> Array:
    """The array of an .npy file, which must end where the array does."""
    file = io.BytesIO(body)
    array: Array = np.load(file, allow_pickle=False)
    assert not file.read(1)
    return array


def read_safetensors(body: bytes) -> dict[str, Array]:
    """The tensors of a safetensors file: eight bytes of header length, a JSON header, the data."""
    dtypes = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4", "I64": "<i8", "BOOL": "?"}
    start = 8 + int.from_bytes(body[:8], "little")
    header = json.loads(body[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(body[start + begin : start + end], dtypes[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = from_bfloat16_bits(array) if entry["dtype"] == "BF16" else array
    return tensors
