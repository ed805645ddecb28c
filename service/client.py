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
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import httpx

from .client_names import ARRAYS, SHORT
from .client_wire import JSON, Answer, Call, ProblemError, call_of, problem_in

if TYPE_CHECKING:
    from .client_methods import AsyncMethods, Methods
else:
    Methods = AsyncMethods = object

Steps = Generator[httpx.Request | float, Any, bytes]

FAMILIES = tuple(dict.fromkeys(key.partition("/")[0] for key in ARRAYS))
CACHE_BYTES = 256 << 20
LONGEST_WAIT = 60.0
LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


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
