"""Request bodies: read within the limits, told apart by media type and first bytes, given to the scheme by name."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from service.api.limits import Share, exact
from service.api.problems import Problem, echo, unknown_name
from service.engine.pasted import Pasted
from service.engine.scheme import Scheme
from service.formats.declared import Body
from service.formats.errors import pointer_to
from service.formats.json_reader import object_bytes, read_json
from service.formats.lists import array_from_lists, flags_from_lists
from service.formats.long_lists import LONG
from service.formats.reader import read_arrays

# The slowest that a client may send or take, in bytes a second: less is a client that wants to hold on to something.
LEAST_RATE = 1024

JSON = "application/json"
BINARY = ("application/octet-stream", "application/x-npy")
# Does work on a thread of its own.
Worker = Callable[[Callable[[], int]], Awaitable[int]]
# A Content-Length beyond this many digits is too large by its first ones.
MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a body is read, and in which time some of it has to arrive."""

    body_bytes: int
    json_bytes: int
    idle_seconds: float

    def most(self, kind: str) -> int:
        """The largest body of a media type."""
        return min(self.body_bytes, self.json_bytes) if kind == JSON else self.body_bytes


def refuse_body(request: Request) -> None:
    """A GET has no body: one that does would be answered as if its arrays had not been sent."""
    length = request.headers.get("content-length", "0")
    if length != "0" or "transfer-encoding" in request.headers:
        raise Problem("bad-request", f"a {request.method} takes no body; send arrays with POST")


async def read_body(request: Request, kind: str, limits: Limits, share: Share) -> bytearray:
    """The whole body, counted into `share`; refuses what is too large as early as can be known, and what stalls."""
    declared = request.headers.get("content-length", "")[:MOST_DIGITS]
    most = limits.most(kind)
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(int(declared), most, kind)
    body = bytearray()
    pace = Pace(limits.idle_seconds)
    while True:
        message = await _next(request, pace)
        if message["type"] == "http.disconnect":
            raise Problem("bad-request", "the connection was closed before the body was complete")
        part = message.get("body", b"")
        if len(body) + len(part) > most:
            raise _too_large(len(body) + len(part), most, kind)
        # The sizes of its chunks so far: what of that is not there yet need not come.
        if request.scope.get("declared", 0) > most:
            request.scope["hear_out"] = True
            raise _too_large(request.scope["declared"], most, kind, {"Connection": "close"})
        share.take(len(part))
        pace.count(len(part))
        body += part
        if not message.get("more_body"):
            request.scope["waiting"].begin()
            return body


async def take_objects(body: Body, share: Share, work: Worker) -> None:
    """Count what reading that much JSON takes beside it."""
    share.take(object_bytes(body) if len(body) < LONG else await work(lambda: object_bytes(body)))


def least_bytes(seconds: float) -> int:
    """What has to pass in that time."""
    return max(1, int(LEAST_RATE * seconds))


class Pace:
    """How fast a body arrives: within every `seconds` there have to be so many bytes more, however they are spread."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.arrived = 0
        self._until = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until enough has to be there."""
        return self._until - time.monotonic()

    def count(self, size: int) -> None:
        self.arrived += size
        if self.arrived >= least_bytes(self.seconds):
            self.arrived = 0
            self._until = time.monotonic() + self.seconds


async def _next(request: Request, pace: Pace) -> Mapping[str, Any]:
    try:
        return await asyncio.wait_for(request.receive(), pace.left())
    except TimeoutError:
        raise Problem(
            "request-timeout",
            f"{pace.arrived} bytes of the body arrived in {pace.seconds:g} seconds; "
            f"{least_bytes(pace.seconds)} at least, or its end, would do",
            headers={"Connection": "close"},
        ) from None


def _too_large(size: int, limit: int, kind: str, headers: Mapping[str, str] | None = None) -> Problem:
    advice = ": send npy or safetensors" if kind == JSON else ""
    detail = f"the body has at least {size} bytes; the limit is {limit}{advice}"
    fault = {"parameter": "body", "code": "too_large", "detail": detail, "requested": exact(size), "limit": limit}
    return Problem("content-too-large", detail, [fault], headers)


@dataclass(frozen=True, slots=True)
class Given:
    """What a body says: arrays by name, and pasted objects and structured parameters as JSON has them."""

    arrays: dict[str, NDArray[Any]]
    pasted: dict[str, object]
    structured: dict[str, object]


def media_type(request: Request, scheme: Scheme[Any, Any]) -> str:
    """`application/json` or `application/octet-stream`: a scheme that takes no arrays has no use for a binary body."""
    return content_type(request, binary=bool(scheme.inputs))


def content_type(request: Request, *, binary: bool) -> str:
    """`application/json`, or where binary bodies are read `application/octet-stream`; anything else, and any coding,
    is refused.
    """
    coding = request.headers.get("content-encoding", "identity")
    if coding.strip().lower() not in ("", "identity"):
        raise Problem("unsupported-media-type", f"Content-Encoding is {echo(coding)}; send the body as it is")
    given, _, options = request.headers.get("content-type", "").partition(";")
    kind = given.strip().lower()
    charset = options.partition("charset=")[2].partition(";")[0].strip(' "').lower()
    if kind == JSON and charset in ("", "utf-8", "utf8"):
        return JSON
    if kind in BINARY and binary:
        return BINARY[0]
    said = f"Content-Type is {echo(request.headers['content-type'])}" if given else "Content-Type is missing"
    also = f", or {BINARY[0]} for npy and safetensors," if binary else ""
    raise Problem("unsupported-media-type", f"{said}; {JSON} (UTF-8){also} would do")


def given_in(scheme: Scheme[Any, Any], kind: str, body: Body) -> Given:
    """What the scheme takes from a body of that media type, by name."""
    if not body:
        raise Problem("bad-request", f"the body is empty; {_wanted(scheme)} is needed")
    given = _from_json(scheme, body) if kind == JSON else Given(_from_binary(scheme, body), {}, {})
    present = {*given.arrays, *given.structured}
    if scheme.alternatives:
        missing = [] if present else [scheme.inputs[0].name]
    else:
        missing = [name for name in _needed(scheme, given) if name not in present]
    if missing:
        name = missing[0]
        raise _invalid(f"/{_place(scheme, name)}", "missing", f"{name} is missing; {_wanted(scheme)} is needed")
    return given


def _needed(scheme: Scheme[Any, Any], given: Given) -> list[str]:
    """What a body cannot do without: structured parameters and required arrays, or else the first array, unless
    there is a pasted object or a list.
    """
    required = [*scheme.structured, *(array.name for array in scheme.inputs if array.required)]
    return required if required or given.pasted or given.structured else [scheme.inputs[0].name]


def _from_binary(scheme: Scheme[Any, Any], body: Body) -> dict[str, NDArray[Any]]:
    found = read_arrays(body)
    if isinstance(found, np.ndarray):
        return {scheme.inputs[0].name: found}
    known = [array.name for array in scheme.inputs]
    for name in found:
        if name not in known:
            what = f"{echo(name)} is not a tensor of {scheme.family}/{scheme.name}"
            raise _unknown_key(pointer_to("tensors", name), name, known, what)
    return found


def _from_json(scheme: Scheme[Any, Any], body: Body) -> Given:
    document = _object(read_json(body, [array.name for array in scheme.inputs]), "", "the body")
    tensors = [array.name for array in scheme.inputs if array.name != "positions"]
    positions = [array.name for array in scheme.inputs if array.name == "positions"]
    pasted = scheme.pasted.names if scheme.pasted else ()
    keys = [*scheme.in_body, *positions, *(["tensors"] if tensors else []), *pasted]
    _refuse_misplaced(scheme.pasted, document, keys)
    _refuse_unknown_keys(document, "", keys)
    given = _object(document.get("tensors", {}), "/tensors", "tensors")
    _refuse_unknown_keys(given, "/tensors", tensors)
    readers = {array.name: flags_from_lists if array.values == "flags" else array_from_lists for array in scheme.inputs}
    arrays: dict[str, NDArray[Any]] = {name: readers[name](value, f"/tensors/{name}") for name, value in given.items()}
    if "positions" in document:
        arrays["positions"] = array_from_lists(document["positions"], "/positions")
    for name in scheme.listed:
        if not isinstance(document.get(name, []), list):
            raise _invalid(pointer_to(name), "type", f"{name} is {_kind(document[name])}; a list is needed")
    named = [{name: document[name] for name in names if name in document} for names in (pasted, scheme.in_body)]
    return Given(arrays, *named)


def _object(value: object, pointer: str, what: str) -> Mapping[str, object]:
    if isinstance(value, dict):
        return value
    raise _invalid(pointer, "type", f"{what} is {_kind(value)}; a JSON object is needed")


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a truth value", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def _refuse_unknown_keys(given: Mapping[str, object], pointer: str, known: list[str]) -> None:
    for name in given:
        if name not in known:
            raise _unknown_key(pointer + pointer_to(name), name, known, f"{echo(name)} is not known here")


def _refuse_misplaced(pasted: Pasted | None, document: Mapping[str, object], known: list[str]) -> None:
    """A key of a pasted block that stands beside it, as `rope_theta` in an older config.json."""
    for name in document:
        if pasted is not None and name in pasted.keys and name not in known:
            ours = pasted.renamed.get(name, name)
            detail = f"{name} stands beside {pasted.names[0]}: put it inside, or give {ours}= in the address"
            raise _invalid(pointer_to(name), "unknown", detail)


def _unknown_key(pointer: str, name: str, known: list[str], what: str) -> Problem:
    fault = unknown_name(pointer, name, known, what=what, place="pointer")
    return Problem("invalid-parameters", fault["detail"], [fault])


def _invalid(pointer: str, code: str, detail: str) -> Problem:
    return Problem("invalid-parameters", detail, [{"pointer": pointer, "code": code, "detail": detail}])


def _place(scheme: Scheme[Any, Any], name: str) -> str:
    return name if name == "positions" or name in scheme.in_body else f"tensors/{name}"


def _wanted(scheme: Scheme[Any, Any]) -> str:
    known = [*scheme.structured, *(array.name for array in scheme.inputs), *scheme.listed]
    between = " or " if scheme.alternatives or scheme.listed else ", "
    names = between.join(f"/{_place(scheme, name)}" for name in known)
    return f"JSON with {names}" + (f", one npy ({scheme.inputs[0].name}), or safetensors" if scheme.inputs else "")
