"""The catalogue of schemes: all of it derived from the records."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.api.documents import Fixed, fixed_json
from service.api.parameters import parameters_schema
from service.api.problems import Problem, echo, nearest_names
from service.api.query import read_pairs
from service.api.resources import Resources
from service.api.schemes import EXTENSIONS, address
from service.engine import SCHEMES
from service.engine.scheme import Example, Scheme, Usage


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
            raise _unknown(name)
        if name not in made:
            made[name] = await resources.work(lambda: fixed_json(catalogue(name or None)))
        return made[name].answer(request)

    app.router.add_route("/v1/schemes", everything, methods=["GET"])
    app.router.add_route("/v1/schemes/{scheme}", one, methods=["GET"])


def names() -> list[str]:
    """The names of all schemes; one name can live in several families."""
    return list(dict.fromkeys(scheme.name for scheme in SCHEMES))


def catalogue(name: str | None = None) -> dict[str, Any]:
    """Every scheme, or those of one name."""
    return {"schemes": [entry(scheme) for scheme in SCHEMES if name in (None, scheme.name)]}


def entry(scheme: Scheme[Any, Any]) -> dict[str, Any]:
    """What the catalogue says of a scheme."""
    return {
        "family": scheme.family,
        "name": scheme.name,
        "title": scheme.title,
        "revision": scheme.revision,
        "description": scheme.description,
        "reference": scheme.reference,
        "rounding": scheme.rounding,
        "href": address(scheme),
        "methods": ([] if scheme.needs_body else ["GET"]) + (["POST"] if scheme.inputs else []),
        "extensions": list(EXTENSIONS),
        "parameters": parameters_schema(scheme.params),
        "inputs": [
            {"name": array.name, "description": array.description, "required": array.required}
            for array in scheme.inputs
        ],
        "tensors": tensors(scheme),
        "properties": dict(scheme.properties),
        "used_by": [_usage(usage) for usage in scheme.used_by],
        "examples": [example(scheme, each) for each in scheme.examples],
    }


def tensors(scheme: Scheme[Any, Any]) -> dict[str, list[str]]:
    """The axes of the tensors that the scheme's examples answer with."""
    found: dict[str, list[str]] = {}
    for each in scheme.examples:
        textual = {"dtype": "float32"} if each.body is not None else {}
        params = scheme.params.model_validate({**textual, **each.query})
        specs = scheme.tensors(params, example_arrays(each))
        for name, spec in specs.items():
            found.setdefault(name, list(spec.axes))
    return found


def example_arrays(each: Example) -> dict[str, Any]:
    """The caller's arrays of an example."""
    import numpy as np  # noqa: PLC0415 - only the catalogue needs it here

    body: Mapping[str, Any] = each.body or {}
    arrays = {name: np.asarray(value) for name, value in body.get("tensors", {}).items()}
    if "positions" in body:
        arrays["positions"] = np.asarray(body["positions"])
    return arrays


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
    return {"who": usage.who, "parameters": dict(usage.parameters)}


def _refuse_parameters(request: Request) -> None:
    pairs = read_pairs(request.scope["query_string"])
    if pairs:
        name = echo(next(iter(pairs)))
        detail = f"{name} is not a parameter of the catalogue; it takes none"
        raise Problem("invalid-parameters", detail, [{"parameter": name, "code": "unknown", "detail": detail}])


def _unknown(name: str) -> Problem:
    near = nearest_names(name, names())
    detail = f"{echo(name)} is no scheme; known are {', '.join(dict.fromkeys([*near, *names()]))}"
    fault = {"parameter": "scheme", "code": "unknown", "detail": detail}
    return Problem("not-found", detail, [fault | ({"did_you_mean": near[0]} if near else {})])
