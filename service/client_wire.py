"""What the Python client sends and reads: arguments into a request, bytes into arrays."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict
from urllib.parse import urlencode

import httpx
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .client_names import ARRAYS, LISTS, MOST_LISTED

Array = NDArray[Any]

JSON, BINARY = "application/json", "application/octet-stream"
MOST_TEXT = 2000  # characters of it
_DTYPES = {
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I8": np.dtype("i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Call:
    """A request: a path and query of the service, and the body of a POST."""

    path: str
    query: str
    content: bytes | None = None
    media_type: str = ""

    @property
    def address(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


class Answer(Mapping[str, Array]):
    """The tensors by name, in numpy's numbers (bfloat16 is that of ml_dtypes), read-only; and what was answered.

    A bundle has `entries`, one statement for each of its names; a single answer states itself.
    """

    def __init__(self, body: bytes) -> None:
        self._arrays, stated = read_safetensors(body)
        self.family: str = stated.get("family", "")
        self.scheme: str = stated.get("scheme", "")
        self.revision: int = stated.get("revision", 0)
        self.parameters: dict[str, Any] = stated.get("parameters", {})
        self.facts: dict[str, Any] = stated.get("facts", {})
        self.notes: list[str] = stated.get("notes", [])
        self.entries: dict[str, dict[str, Any]] = stated.get("entries", {})

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.items())
        return f"<{self.family}/{self.scheme} {arrays}>" if self.scheme else f"<bundle {arrays}>"

    @property
    def array(self) -> Array:
        """The one tensor of an answer that has one."""
        (array,) = self._arrays.values()
        return array

    def to_torch(self) -> dict[str, Any]:
        """The tensors as PyTorch's, of their own memory."""
        import torch  # noqa: PLC0415 - only where it is there and wanted

        found = {}
        for name, array in self.items():
            brain = array.dtype == ml_dtypes.bfloat16
            tensor = torch.from_numpy(array.view(np.int16).copy() if brain else array.copy())
            found[name] = tensor.view(torch.bfloat16) if brain else tensor
        return found


def read_safetensors(body: bytes) -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors of a file, as views of it, and what its metadata states."""
    start = 8 + int.from_bytes(body[:8], "little")
    header = json.loads(body[8:start])
    stated = json.loads(header.pop("__metadata__", {}).get("posenc", "{}"))
    arrays = {}
    for name, entry in header.items():
        dtype, shape = _DTYPES[entry["dtype"]], entry["shape"]
        values = memoryview(body)[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
        arrays[name] = np.frombuffer(values, dtype).reshape(shape) if math.prod(shape) else np.empty(shape, dtype)
    return arrays, stated


def write_safetensors(arrays: Mapping[str, Array]) -> bytes:
    """A file of tensors, as the service reads it."""
    header, parts, end = {}, [], 0
    for name, array in arrays.items():
        plain = np.asarray(array, order="C", dtype=array.dtype.newbyteorder("<"))
        code = _CODES.get(plain.dtype)
        if code is None:
            raise TypeError(f"{name} is {array.dtype}; the service reads {', '.join(map(str, _CODES))}")
        header[name] = {"dtype": code, "shape": plain.shape, "data_offsets": (end, end + plain.nbytes)}
        parts.append(plain.tobytes())
        end += plain.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


# From arguments to a request


def call_of(key: str, given: Mapping[str, Any]) -> Call:
    """The request of a scheme (`encodings/rope`): arrays go in the body, everything else in the address.

    >>> call_of("encodings/rope", {"length": 4, "dim": 8}).address
    '/v1/encodings/rope.safetensors?length=4&dim=8'
    """
    arrays: dict[str, Array] = {}
    lists: dict[str, list[Any]] = {}
    query: dict[str, str] = {}
    for name, value in given.items():
        text = _text(value)
        if value is None:
            continue
        if name in ARRAYS[key] and (text is None or name not in LISTS[key]):
            arrays[name] = as_array(value)
        elif text is None:
            lists[name] = list(value)
        else:
            query[name] = text
    return Call(f"/v1/{key}.safetensors", urlencode(query, safe=","), *body_of(arrays, lists))


def _text(value: Any) -> str | None:
    """The value as an address spells it; None for what belongs in a body."""
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    array = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    array = list(array) if isinstance(array, range) else array
    if not isinstance(array, list | tuple):
        return None if hasattr(array, "detach") else str(array)
    if len(array) > MOST_LISTED or any(isinstance(each, list | tuple | Mapping) for each in array):
        return None
    text = ",".join(map(str, array))
    return text if 0 < len(text) <= MOST_TEXT else None


def body_of(arrays: Mapping[str, Array], lists: Mapping[str, list[Any]]) -> tuple[bytes | None, str]:
    if not lists:
        return (write_safetensors(arrays), BINARY) if arrays else (None, "")
    tensors = {name: array.tolist() for name, array in arrays.items() if name != "positions"}
    positions = {"positions": arrays["positions"].tolist()} if "positions" in arrays else {}
    return json.dumps({**lists, **positions, **({"tensors": tensors} if tensors else {})}).encode(), JSON


def as_array(value: Any) -> Array:
    """The value as numpy's; a PyTorch tensor too, in bfloat16 as well."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            import torch  # noqa: PLC0415 - it is there: the value is its tensor

            return np.asarray(value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(value)


# Refusals


class Fault(TypedDict):
    """One thing that is wrong, and what would do."""

    code: str
    detail: str
    parameter: NotRequired[str]
    pointer: NotRequired[str]
    did_you_mean: NotRequired[str]
    requested: NotRequired[float]
    limit: NotRequired[float]


class ProblemDocument(TypedDict):
    """A refusal as the service writes it (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[Fault]


class ProblemError(Exception):
    """The service refused, or something before it did; `problem` is the document, `status` its HTTP status."""

    def __init__(self, problem: ProblemDocument) -> None:
        super().__init__(f"{problem['status']} {problem['detail']}")
        self.problem = problem
        self.status = problem["status"]


def problem_in(response: httpx.Response) -> ProblemDocument:
    """The document; of an answer that has none (a proxy's, say) what its status says."""
    status, phrase = response.status_code, response.reason_phrase
    problem: ProblemDocument = {
        "type": "about:blank",
        "title": phrase,
        "status": status,
        "detail": phrase,
        "instance": "",
        "errors": [],
    }
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        problem |= response.json()
    return problem
