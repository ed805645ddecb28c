"""The catalogue of schemes, derived from the records, and what is left out."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.api.documents import Fixed, fixed_json
from service.api.names import nearest_names
from service.api.parameters import listed_schema, parameters_schema, structured_schema
from service.api.problems import Problem, echo
from service.api.query import PRESET, REPLY_PARAMETERS, read_pairs
from service.api.resources import Resources
from service.api.schemes import EXTENSIONS, address
from service.api.variations import variations
from service.engine import SCHEMES
from service.engine.omissions import OMISSIONS
from service.engine.scheme import Example, Scheme, Usage
from service.formats.format import Nonfinite, PictureWidth, Theme


def install(app: FastAPI, resources: Resources) -> None:
    """`/v1/schemes` and `/v1/schemes/{scheme}`; documents are made when first asked for, on the work pool."""
    made: dict[str, Fixed] = {}

    async def everything(request: Request) -> Response:
        return await _answer(request, "", [scheme.name for scheme in SCHEMES])

    async def one(request: Request) -> Response:
        return await _answer(request, request.path_params["scheme"], names())

    async def _answer(request: Request, name: str, known: list[str]) -> Response:
        _refuse_parameters(request)
        if name and name not in known:
            raise unknown_scheme(name)
        if name not in made:
            made[name] = await resources.work(lambda: fixed_json(catalogue(name or None)))
        return made[name].answer(request)

    app.router.add_route("/v1/schemes", everything, methods=["GET"])
    app.router.add_route("/v1/schemes/{scheme}", one, methods=["GET"])


def names() -> list[str]:
    """The names of all schemes; one name can live in several families."""
    return list(dict.fromkeys(scheme.name for scheme in SCHEMES))


def catalogue(name: str | None = None) -> dict[str, Any]:
    """Every scheme, and what is left out; or the schemes of one name."""
    schemes = {"schemes": [entry(scheme) for scheme in SCHEMES if name in (None, scheme.name)]}
    return schemes if name else schemes | {"left_out": left_out()}


def left_out() -> list[dict[str, str]]:
    """What no scheme answers, with the reason."""
    return [asdict(omission) for omission in OMISSIONS]


def entry(scheme: Scheme[Any, Any]) -> dict[str, Any]:
    """What the catalogue says of a scheme."""
    answered = tensors(scheme)
    return {
        "family": scheme.family,
        "name": scheme.name,
        "title": scheme.title,
        "revision": scheme.revision,
        "explanation": scheme.explanation,
        "description": scheme.description,
        "reference": scheme.reference,
        "rounding": scheme.rounding,
        "href": address(scheme),
        "methods": ([] if scheme.needs_body else ["GET"]) + (["POST"] if scheme.takes_body else []),
        "extensions": list(EXTENSIONS),
        "parameters": parameters(scheme, answered),
        "inputs": inputs(scheme),
        "tensors": answered,
        "properties": dict(scheme.properties),
        "used_by": [_usage(usage) for usage in scheme.used_by],
        "examples": [example(scheme, each) for each in scheme.examples],
    }


def inputs(scheme: Scheme[Any, Any]) -> list[dict[str, Any]]:
    """What the body of a POST holds: structured parameters, then arrays."""
    structured = [
        {"name": name, "description": schema["description"], "required": True, "values": "structured"}
        for name, schema in structured_schema(scheme, "")[0].items()
    ]
    listed = [
        {"name": name, "description": schema["description"], "required": False, "values": "structured"}
        for name, schema in listed_schema(scheme).items()
    ]
    arrays = [
        {"name": array.name, "description": array.description, "required": array.required, "values": array.values}
        for array in scheme.inputs
    ]
    return structured + listed + arrays


def tensors(scheme: Scheme[Any, Any]) -> dict[str, list[list[str]]]:
    """The tensors that the scheme can answer with, and the axes that each can have."""
    found: dict[str, list[list[str]]] = {}
    for specs in variations(scheme):
        for name, spec in specs.items():
            axes = found.setdefault(name, [])
            if list(spec.axes) not in axes:
                axes.append(list(spec.axes))
    return found


def parameters(scheme: Scheme[Any, Any], answered: Iterable[str]) -> dict[str, Any]:
    """Everything that the address takes: the scheme's own parameters, and how the reply is wanted."""
    schema = parameters_schema(scheme)
    reply: dict[str, dict[str, Any]] = {
        "revision": {"type": "integer", "const": scheme.revision},
        "tensor": {"type": "string", "enum": list(answered)},
        "theme": {"type": "string", "enum": list(get_args(Theme))},
        "picture_width": {"type": "string", "enum": list(get_args(PictureWidth))},
        "nonfinite": {"type": "string", "enum": list(get_args(Nonfinite))},
    }
    described = {name: rest | {"description": REPLY_PARAMETERS[name]} for name, rest in reply.items()}
    named = {"type": "string", "enum": list(scheme.presets), "description": PRESET}
    preset = {"preset": named} if scheme.presets else {}
    return schema | {"properties": schema["properties"] | preset | described}


def example(scheme: Scheme[Any, Any], each: Example) -> dict[str, Any]:
    """A request that works as it stands; its address pins the revision, so that its answer can be kept for good."""
    query = urlencode({**each.query, "revision": scheme.revision}, safe=",")
    request: dict[str, Any] = {
        "title": each.title,
        "method": "POST" if each.body is not None else "GET",
        "href": f"{address(scheme)}?{query}",
    }
    return request if each.body is None else request | {"body": dict(each.body)}


def _usage(usage: Usage) -> dict[str, Any]:
    named = {"preset": usage.preset} if usage.preset else {}
    return {"who": usage.who, **named, "parameters": dict(usage.parameters)}


def _refuse_parameters(request: Request) -> None:
    pairs = read_pairs(request.scope["query_string"])
    if pairs:
        name = echo(next(iter(pairs)))
        detail = f"{name} is not a parameter of the catalogue; it takes none"
        raise Problem("invalid-parameters", detail, [{"parameter": name, "code": "unknown", "detail": detail}])


def unknown_scheme(name: str) -> Problem:
    near = nearest_names(name, names())
    detail = f"{echo(name)} is no scheme; known are {', '.join(dict.fromkeys([*near, *names()]))}"
    fault = {"parameter": "scheme", "code": "unknown", "detail": detail}
    return Problem("not-found", detail, [fault | ({"did_you_mean": near[0]} if near else {})])
