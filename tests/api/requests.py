"""The requests that every scheme's record gives as examples, and a reader of each format written apart from ours."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

import httpx
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from service.api.variations import example_arrays, parameters_of
from service.engine import SCHEMES
from service.engine.scheme import Example, Scheme, whole
from tests.clients import Client
from tests.formats.holding import HOLDING

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Asked:
    """An example of a scheme, in a format."""

    scheme: Scheme[Any, Any]
    example: Example
    extension: str = "json"
    more: str = ""

    @property
    def target(self) -> str:
        ending = "" if self.extension == "json" else f".{self.extension}"
        query = urlencode(self.example.query, safe=",") + self.more
        return f"/v1/{self.scheme.family}/{self.scheme.name}{ending}" + (f"?{query.lstrip('&')}" if query else "")

    @property
    def method(self) -> str:
        return "GET" if self.example.body is None else "POST"

    def send(self, client: Client, **options: Any) -> httpx.Response:
        body: dict[str, Any] = {} if self.example.body is None else {"json": self.example.body}
        return client.request(self.method, self.target, **body, **options)

    def expected(self) -> Arrays:
        """The engine's own answer, whole; computed once for every format."""
        return _expected(self.scheme, self.scheme.examples.index(self.example))

    def __str__(self) -> str:
        number = self.scheme.examples.index(self.example)
        return f"{self.scheme.family}-{self.scheme.name}-{number}.{self.extension}"


@cache
def _expected(scheme: Scheme[Any, Any], number: int) -> Arrays:
    example = scheme.examples[number]
    params = scheme.params.model_validate(parameters_of(scheme, example))
    return whole(scheme, params, example_arrays(example))


EXAMPLES = [Asked(scheme, example) for scheme in SCHEMES for example in scheme.examples]
IN_EVERY_FORMAT = [Asked(each.scheme, each.example, extension) for each in EXAMPLES for extension in HOLDING]
PICTURES = [Asked(each.scheme, each.example, extension) for each in EXAMPLES for extension in ("png", "svg")]
GETS = [each for each in EXAMPLES if each.method == "GET"]
GETS_IN_EVERY_FORMAT = [each for each in IN_EVERY_FORMAT if each.method == "GET"]


def with_tensor(asked: Asked, name: str) -> Asked:
    """The same for one tensor."""
    return Asked(asked.scheme, asked.example, asked.extension, f"&tensor={name}")


def read(extension: str, reply: httpx.Response, like: Mapping[str, NDArray[Any]]) -> Arrays:
    """The tensors in a reply, by name; `like` has the names and shapes that formats without names need."""
    return _READERS[extension](reply.content, reply.headers, like)


def _json(content: bytes, _headers: httpx.Headers, _like: Mapping[str, NDArray[Any]]) -> Arrays:
    tensors = json.loads(content)["tensors"]
    return {name: _typed(each["data"], each["dtype"], each["shape"]) for name, each in tensors.items()}


def _typed(data: Any, dtype: str, shape: list[int]) -> NDArray[Any]:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return np.array(data, np.float64).astype(kind).reshape(shape)


def _npy(content: bytes, _headers: httpx.Headers, like: Mapping[str, NDArray[Any]]) -> Arrays:
    array = np.load(io.BytesIO(content), allow_pickle=False)
    return dict(zip(like, array if len(like) > 1 else [array], strict=True))


def _npz(content: bytes, _headers: httpx.Headers, like: Mapping[str, NDArray[Any]]) -> Arrays:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in like}


def _safetensors(content: bytes, _headers: httpx.Headers, _like: Mapping[str, NDArray[Any]]) -> Arrays:
    length = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + length])
    assert list(entries.pop("__metadata__")) == ["posenc"]
    kinds = {"F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32, "F64": np.float64}
    kinds |= {"I8": np.int8, "U8": np.uint8, "I16": np.int16, "I32": np.int32, "I64": np.int64, "BOOL": np.bool_}
    found = {}
    for name, entry in entries.items():
        start, stop = (8 + length + offset for offset in entry["data_offsets"])
        found[name] = np.frombuffer(content[start:stop], kinds[entry["dtype"]]).reshape(entry["shape"])
    return found


def _bin(content: bytes, headers: httpx.Headers, like: Mapping[str, NDArray[Any]]) -> Arrays:
    (name,) = like
    shape = [int(length) for length in headers["array-shape"].split(", ")]
    dtype = headers["array-dtype"]
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype).newbyteorder("<")
    return {name: np.frombuffer(content, kind).reshape(shape)}


def _csv(content: bytes, _headers: httpx.Headers, like: Mapping[str, NDArray[Any]]) -> Arrays:
    ((name, expected),) = like.items()
    lines = list(csv.reader(io.StringIO(content.decode())))
    leading = expected.ndim - 1 if expected.ndim > 2 else 0
    values = [[float(value) for value in line[leading:]] for line in lines[1:]]
    return {name: np.array(values).astype(expected.dtype).reshape(expected.shape)}


_READERS = {"json": _json, "npy": _npy, "npz": _npz, "safetensors": _safetensors, "bin": _bin, "csv": _csv}
