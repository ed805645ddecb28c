"""A Python client: every scheme is a method, every answer numpy arrays with the convention that they are in.

    posenc = Posenc("http://127.0.0.1:8000")
    rope = posenc.rope(length=4096, dim=128, dtype="bfloat16")
    rope["cos"], rope.parameters["base"], rope.to_torch()
    posenc.apply.rope(q=q, k=k, offset=100)

Encodings, biases, masks and analyses go by their name alone; every family is an attribute: `posenc.apply.rope`,
`posenc.learned.resample`, `posenc.encodings.learned`. Numbers travel as safetensors, so they arrive bit for bit, in
bfloat16 too. An answer that was met before is asked for with its ETag and comes from the cache (in memory, or in the
folder `cache`) where it has not changed; with `revision=` in the request it cannot change and is not asked for again.
A server that says 429 or 503 is asked again after the seconds that it names. A refusal is a `ProblemError`. A server
that wants an API key gets `api_key`, in a header.

It needs httpx, numpy and ml_dtypes, and nothing of the service but the files beside it whose names begin with `client`:
copied into a package of yours, they are a client there.
"""

import asyncio
import json
import math
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, NotRequired, Self, TypedDict
from urllib.parse import urlencode

import httpx
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .client_names import ARRAYS, LISTS, MOST_LISTED, SHORT

if TYPE_CHECKING:
    from .client_methods import AsyncMethods, Methods
else:
    Methods = AsyncMethods = object

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

Steps = Generator[httpx.Request | float, Any, bytes]

FAMILIES = tuple(dict.fromkeys(key.partition("/")[0] for key in ARRAYS))
CACHE_BYTES = 256 << 20
LONGEST_WAIT = 60.0
LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


# Requests and answers


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


# The cache


class Cache:
    """Answers by address, with their ETags: in memory, the one used longest ago first out, or as files of a folder.

    Threads and processes may share it. The folder is made at once; an answer that it has no room for is not kept.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, limit_bytes: int = CACHE_BYTES) -> None:
        self.folder = None if folder is None else Path(folder)
        self.limit_bytes = limit_bytes
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, address: str) -> tuple[str, bytes] | None:
        """ETag and body, if they are here and whole."""
        if self.folder is None:
            with self._lock:
                if address in self._kept:
                    self._kept.move_to_end(address)
                return self._kept.get(address)
        try:
            head, _, body = self._file(address).read_bytes().partition(b"\n")
            tag, size = json.loads(head)
        except (OSError, ValueError):
            return None
        return (tag, body) if size == len(body) else None

    def put(self, address: str, tag: str, body: bytes) -> None:
        if self.folder is not None:
            with suppress(OSError), tempfile.TemporaryDirectory(dir=self.folder) as own:
                whole = Path(own) / "answer"
                whole.write_bytes(json.dumps([tag, len(body)]).encode() + b"\n" + body)
                whole.replace(self._file(address))
            return
        with self._lock:
            _, before = self._kept.pop(address, ("", b""))
            self._kept[address] = (tag, body)
            self._bytes += len(body) - len(before)
            while self._bytes > self.limit_bytes:
                _, (_, gone) = self._kept.popitem(last=False)
                self._bytes -= len(gone)

    def _file(self, address: str) -> Path:
        assert self.folder is not None
        return self.folder / blake2b(address.encode(), digest_size=16).hexdigest()


# The conversation, the same for both clients: it yields requests and pauses, and is sent responses


class _Client:
    _ask: Callable[[Call], Any]

    def __init__(self, url: str, cache: str | os.PathLike[str] | None, retries: int, api_key: str | None) -> None:
        self._url = httpx.URL(url.rstrip("/"))
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._cache = Cache(cache)
        self._retries = retries

    def address(self, name: str, **parameters: Any) -> str:
        """The address of a scheme's answer, `encodings/rope` or by its name alone: what a bundle is made of.

        >>> Posenc().address("rope", length=4, dim=8)
        '/v1/encodings/rope?length=4&dim=8'
        """
        call = call_of(name if name in ARRAYS else _key(name), parameters)
        if call.content is not None:
            raise TypeError("arrays travel in a body: they have no address")
        return call.address.replace(".safetensors", "", 1)

    def __getattr__(self, name: str) -> Any:
        return _Family(self, name) if name in FAMILIES else _Scheme(self, _key(name))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *FAMILIES, *map(_method, _short())]

    def _conversation(self, call: Call) -> Steps:
        # Not asked for again where the address names the revision: such an answer does not change.
        place = f"{self._url}{call.address}"
        kept = self._cache.get(place) if call.content is None else None
        if kept is not None and "revision=" in call.query:
            return kept[1]
        headers = self._headers | ({"Content-Type": call.media_type} if call.content is not None else {})
        if kept is not None:
            headers["If-None-Match"] = kept[0]
        request = httpx.Request("GET" if call.content is None else "POST", place, headers=headers, content=call.content)
        response: httpx.Response = yield request
        for _ in range(self._retries):
            if response.status_code not in LATER:
                break
            yield _pause(response)
            response = yield request
        if kept is not None and response.status_code == HTTPStatus.NOT_MODIFIED:
            return kept[1]
        if response.status_code != HTTPStatus.OK:
            raise ProblemError(problem_in(response))
        if call.content is None and "etag" in response.headers:
            self._cache.put(place, response.headers["etag"], response.content)
        return response.content


def _bundle(entries: Mapping[str, str]) -> Call:
    return Call("/v1/bundle.safetensors", "", json.dumps(dict(entries)).encode(), JSON)


def _pause(response: httpx.Response) -> float:
    given = response.headers.get("retry-after", "1")
    return min(float(given), LONGEST_WAIT) if given.isdecimal() else 1.0


def _method(key: str) -> str:
    """The method of a scheme: `alibi_slopes` of `biases/alibi-slopes`."""
    return key.partition("/")[2].replace("-", "_")


def _short() -> list[str]:
    return [key for key in ARRAYS if key.startswith(SHORT) and _method(key) not in FAMILIES]


def _key(name: str, family: str | None = None) -> str:
    keys = _short() if family is None else [key for key in ARRAYS if key.startswith(f"{family}/")]
    known = {_method(key): key for key in keys}
    wanted = name.replace("-", "_")
    if wanted not in known:
        _unknown(name, [*known, *(() if family else FAMILIES)])
    return known[wanted]


def _unknown(name: str, known: list[str]) -> NoReturn:
    near = get_close_matches(name, known, 1)
    raise AttributeError(f"{name!r} is no scheme" + (f"; did you mean {near[0]!r}?" if near else ""))


@dataclass(frozen=True, slots=True)
class _Family:
    client: _Client
    family: str

    def __getattr__(self, name: str) -> "_Scheme":
        return _Scheme(self.client, _key(name, self.family))

    def __dir__(self) -> list[str]:
        return [_method(key) for key in ARRAYS if key.startswith(f"{self.family}/")]


@dataclass(frozen=True, slots=True)
class _Scheme:
    client: _Client
    key: str

    def __call__(self, **given: Any) -> Any:
        return self.client._ask(call_of(self.key, given))


class Posenc(_Client, Methods):
    """The client. `cache` is a folder to keep answers in; `retries` counts those after a 429 or 503."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        cache: str | os.PathLike[str] | None = None,
        retries: int = 3,
        api_key: str | None = None,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, cache, retries, api_key)
        self._http = httpx.Client(timeout=timeout, transport=transport)

    def bundle(self, entries: Mapping[str, str]) -> Answer:
        """Several answers in one file: names, and addresses as `address` makes them."""
        return self._ask(_bundle(entries))

    def _ask(self, call: Call) -> Answer:
        steps = self._conversation(call)
        sent = None
        try:
            while True:
                step = steps.send(sent)
                if isinstance(step, float):
                    time.sleep(step)
                else:
                    sent = self._http.send(step)
        except StopIteration as done:
            return Answer(done.value)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class AsyncPosenc(_Client, AsyncMethods):
    """The same with methods to await."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        cache: str | os.PathLike[str] | None = None,
        retries: int = 3,
        api_key: str | None = None,
        timeout: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, cache, retries, api_key)
        self._http = httpx.AsyncClient(timeout=timeout, transport=transport)

    async def bundle(self, entries: Mapping[str, str]) -> Answer:
        """Several answers in one file: names, and addresses as `address` makes them."""
        return await self._ask(_bundle(entries))

    async def _ask(self, call: Call) -> Answer:
        steps = self._conversation(call)
        sent = None
        try:
            while True:
                step = steps.send(sent)
                if isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    sent = await self._http.send(step)
        except StopIteration as done:
            return Answer(done.value)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()
