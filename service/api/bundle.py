"""`POST /v1/bundle.safetensors` and `.npz`: several of the service's own answers in one file.

The body names them: `{"rope": "/v1/encodings/rope?length=4096&dim=128", ...}`. Only addresses that a GET of this
service takes are answered, and they are computed here: nothing is asked over a network. Every entry is understood, and
the size of the whole known, before any of it is computed; then rows stream as they do for one answer.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fastapi import FastAPI
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from service.api.bodies import content_type, read_body, take_objects
from service.api.caching import encoded
from service.api.limits import Share, refuse_large
from service.api.problems import Problem, echo, problem_from, unknown_name
from service.api.query import read_asked, read_pairs
from service.api.replies import Streamed
from service.api.resources import Resources
from service.api.schemes import EXTENSIONS as FILES
from service.api.schemes import address
from service.api.timing import Timing
from service.api.wanted import Wanted, block_bytes, understand
from service.engine import SCHEMES
from service.engine.errors import EngineError
from service.engine.scheme import Scheme, Tensor
from service.engine.tables import Call
from service.formats import FORMATS
from service.formats.errors import CannotHold, FormatError, pointer_to
from service.formats.format import Chunk
from service.formats.json_reader import DUPLICATES_BYTES, read_json

EXTENSIONS = ("safetensors", "npz")
MOST_ENTRIES = 256
# As much as is searched for names that come twice.
BODY_BYTES = DUPLICATES_BYTES
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
# What the formats put beside the tensors.
RESERVED = ("__metadata__", "parameters.json")

ADDRESSES = {address(scheme): scheme for scheme in SCHEMES}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A request that was understood: the entries, and of which entry each tensor of the file is which."""

    entries: dict[str, Wanted]
    places: dict[str, tuple[str, str]]
    document: dict[str, Any]

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {name: self.entries[entry].tensors[tensor] for name, (entry, tensor) in self.places.items()}


def install(app: FastAPI, resources: Resources) -> None:
    """Add the route; of the formats those that hold several tensors by name."""

    async def handle(request: Request) -> Response:
        return await _answer(request, _extension(request.path_params["extension"]), resources)

    app.router.add_route("/v1/bundle.{extension}", handle, methods=["POST"])


async def _answer(request: Request, extension: str, resources: Resources) -> Response:
    content_type(request, binary=False)
    _refuse_parameters(request)
    share = Share(resources.budget)
    try:
        limits = replace(resources.body, body_bytes=min(resources.body.body_bytes, BODY_BYTES))
        body = await read_body(request, "", limits, share)
        await take_objects(body, share, resources.work)
        bundle = await resources.work(lambda: understood(read_json(body), extension, resources))
        share.take(max(map(block_bytes, bundle.entries.values())))
    except BaseException:
        share.give_back()
        raise
    form, tensors = FORMATS[extension], bundle.tensors
    headers = [
        ("Cache-Control", "no-store"),
        ("Content-Type", form.media_type),
        ("Content-Length", str(form.size(bundle.document, tensors))),
        ("Content-Disposition", f'attachment; filename="bundle.{extension}"'),
    ]
    timing = Timing("bundle")
    return Streamed(200, encoded(headers), chunks(bundle, extension, resources, timing), share, resources, timing)


def understood(body: object, extension: str, resources: Resources) -> Bundle:
    """Everything that can be refused before any work, each fault with the entry that it is in."""
    entries = {name: _entry(name, target, extension, resources) for name, target in _named(body).items()}
    places: dict[str, tuple[str, str]] = {}
    for entry, wanted in entries.items():
        for tensor in wanted.tensors:
            name = entry if len(wanted.tensors) == 1 else f"{entry}.{tensor}"
            if name in places:
                detail = f"{entry} has a tensor {echo(name)}, which {places[name][0]} has too: give it another name"
                raise _fault(entry, "repeated", detail)
            places[name] = (entry, tensor)
    values = sum(tensor.nbytes for wanted in entries.values() for tensor in wanted.tensors.values())
    advice = "ask for fewer entries or fewer rows"
    refuse_large(values, resources.result_bytes, advice, what="the values of the bundle")
    return Bundle(entries, places, {"entries": {name: wanted.document for name, wanted in entries.items()}})


def chunks(bundle: Bundle, extension: str, resources: Resources, timing: Timing) -> Iterator[Chunk]:
    """The bytes of the file, from rows. Runs on the work pool; one entry's state is held at a time."""
    held: dict[str, Call] = {}

    def rows(name: str, start: int, stop: int) -> NDArray[Any]:
        entry, tensor = bundle.places[name]
        if entry not in held:
            wanted = bundle.entries[entry]
            held.clear()
            held[entry] = resources.tables.call(wanted.scheme, wanted.params, wanted.inputs, wanted.everything)
        return timing.computing(lambda: resources.tables.rows(held[entry], tensor, start, stop))

    yield from FORMATS[extension].stream(bundle.document, bundle.tensors, rows)


# The entries


def _named(body: object) -> Mapping[str, object]:
    if not isinstance(body, dict) or not body:
        detail = 'the body must be a JSON object of names and addresses, such as {"rope": "/v1/encodings/rope?dim=64"}'
        raise Problem("invalid-parameters", detail, [{"pointer": "", "code": "type", "detail": detail}])
    if len(body) > MOST_ENTRIES:
        detail = f"{len(body)} entries came; at most {MOST_ENTRIES} are answered at once"
        fault = {"pointer": "", "code": "too_many", "detail": detail, "requested": len(body), "limit": MOST_ENTRIES}
        raise Problem("invalid-parameters", detail, [fault])
    for name in body:
        if not NAME.fullmatch(name) or name in RESERVED:
            detail = f"{echo(name)!r} is no name: letters, digits, _, - and . would do (128 at most, no . or - first)"
            raise _fault(name, "name", detail)
    return body


def _entry(name: str, target: object, extension: str, resources: Resources) -> Wanted:
    try:
        if not isinstance(target, str):
            raise _fault(name, "type", "an address is needed, as a string")
        if len(target) > resources.url_bytes:
            detail = f"the address has {len(target)} characters; {resources.url_bytes} are read, as of a GET"
            raise _fault(name, "too_large", detail)
        path, _, query = target.partition("?")
        scheme = _scheme(name, path)
        wanted = understand(scheme, read_asked(scheme, query.encode(), blocks=()), "safetensors", {}, resources)
        if extension == "npz" and any(tensor.dtype == "bfloat16" for tensor in wanted.tensors.values()):
            raise CannotHold("dtype", "npz has no bfloat16", ("safetensors",))
    except (Problem, EngineError, FormatError) as error:
        problem = problem_from(error)
        assert problem is not None
        raise _placed(problem, name) from None
    return wanted


def _scheme(name: str, path: str) -> Scheme[Any, Any]:
    scheme = ADDRESSES.get(path)
    if scheme is not None and not scheme.needs_body:
        return scheme
    if scheme is not None:
        raise _fault(name, "method", f"{path} takes the caller's arrays (POST); a bundle is made of what a GET answers")
    if not path.startswith("/"):
        raise _fault(name, "unknown", f"{echo(path)} is no address of this service: those begin with /v1/")
    if path.rpartition(".")[0] in ADDRESSES and path.rpartition(".")[2] in FILES:
        raise _fault(name, "extension", f"{echo(path)}: leave the ending out, the bundle's own says the format")
    known = [each for each, scheme in ADDRESSES.items() if not scheme.needs_body]
    fault = unknown_name(pointer_to(name), path, known, what=f"there is nothing at {echo(path)}", place="pointer")
    raise Problem("invalid-parameters", fault["detail"], [fault])


def _fault(name: str, code: str, detail: str) -> Problem:
    fault = {"pointer": pointer_to(name), "code": code, "detail": detail}
    return Problem("invalid-parameters", detail, [fault])


def _placed(problem: Problem, name: str) -> Problem:
    """The problem, in an entry: what a query cannot say is a fault of the body here."""
    slug = "invalid-parameters" if problem.slug == "bad-request" else problem.slug
    faults = problem.errors or [{"code": problem.slug, "detail": problem.detail}]
    # One place for each fault, which is in the body; the detail names the parameter.
    placed = [
        {key: fault[key] for key in fault if key != "parameter"} | {"pointer": pointer_to(name)} for fault in faults
    ]
    return Problem(slug, f"{name}: {problem.detail}", placed, problem.headers)


def _refuse_parameters(request: Request) -> None:
    for name in read_pairs(request.scope["query_string"]):
        detail = f"{echo(name)} is not known here: parameters stand in the addresses of the body"
        raise Problem("invalid-parameters", detail, [{"parameter": echo(name), "code": "unknown", "detail": detail}])


def _extension(given: str) -> str:
    if given in EXTENSIONS:
        return given
    fault = unknown_name("extension", given, EXTENSIONS, what=f".{echo(given)} is no format of a bundle")
    raise Problem("not-found", fault["detail"], [fault])
