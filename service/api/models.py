"""Models: a `config.json`, or a known model by name, becomes a plan with addresses of this service."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.api.bodies import JSON, content_type, read_body, refuse_body, take_objects
from service.api.caching import encoded
from service.api.documents import Fixed, fixed_json
from service.api.limits import Share
from service.api.problems import Problem, echo, unknown_name
from service.api.query import read_pairs
from service.api.replies import Bytes
from service.api.resources import Resources
from service.engine import SCHEMES
from service.formats.python_json import read_python_json
from service.models import Options, Plan, resolve
from service.models.catalogue import entries, is_model, nearest_models, plan_of
from service.models.context import PRESETS

# A configuration has some kilobytes; a GGUF header with its vocabulary some megabytes.
MOST_BYTES = 8 * 2**20
LONGEST = 2**20


def install(app: FastAPI, resources: Resources) -> None:
    """`/v1/models`, `/v1/models/{name}` and `/v1/models/resolve`."""
    made: dict[str, Fixed] = {}

    async def listed(request: Request) -> Response:
        refuse_body(request)
        pairs = _known_pairs(request, ("scheme",))
        scheme = pairs.get("scheme", "")
        if scheme and scheme not in _scheme_names():
            fault = unknown_name("scheme", scheme, _scheme_names(), what=f"scheme is {echo(scheme)}", code="choice")
            raise Problem("invalid-parameters", fault["detail"], [fault])
        if scheme not in made:
            made[scheme] = await resources.work(lambda: fixed_json(catalogue(scheme)))
        return made[scheme].answer(request)

    async def one(request: Request) -> Response:
        refuse_body(request)
        name = request.path_params["name"]
        options = _options(_known_pairs(request, ("preset", "length")))
        if not is_model(name):
            raise _unknown(name)
        document = await resources.work(lambda: fixed_json({"name": name, **plan_of(name, options).document()}))
        return document.answer(request)

    async def resolved(request: Request) -> Response:
        options = _options(_known_pairs(request, ("assume", "preset", "length")))
        content_type(request, binary=False)
        with Share(resources.budget) as share:
            limits = replace(resources.body, body_bytes=min(resources.body.most(JSON), MOST_BYTES))
            body = await read_body(request, "", limits, share)
            share.take(len(body))
            await take_objects(body, share, resources.work)
            content = await resources.work(lambda: orjson.dumps(_plan(body, options).document()))
        headers = [
            ("Cache-Control", "no-store"),
            ("Content-Type", JSON),
            ("Content-Length", str(len(content))),
        ]
        return Bytes(200, encoded(headers), content)

    app.router.add_route("/v1/models", listed, methods=["GET"])
    app.router.add_route("/v1/models/resolve", resolved, methods=["POST"])
    app.router.add_route("/v1/models/{name}", one, methods=["GET"])


def _plan(body: bytes | bytearray, options: Options) -> Plan:
    config = read_python_json(body)
    if not isinstance(config, dict):
        detail = "the body is no JSON object; a model's config.json is one"
        raise Problem("invalid-parameters", detail, [{"pointer": "", "code": "type", "detail": detail}])
    return resolve(config, options)


def catalogue(scheme: str = "") -> dict[str, Any]:
    """Every model, or those that use a scheme or an encoding by its name."""
    chosen = [row for row in entries() if not scheme or _uses(row, scheme)]
    return {"models": [{**row, "href": f"/v1/models/{row['name']}"} for row in chosen]}


def _uses(row: Mapping[str, Any], scheme: str) -> bool:
    return scheme in row["encodings"] or any(scheme in (each, each.partition("/")[2]) for each in row["schemes"])


def _scheme_names() -> list[str]:
    """Of schemes, and of encodings as plans have them: `learned` for any table, `none` for no positions."""
    plain = [scheme.name for scheme in SCHEMES]
    encodings = [each for row in entries() for each in row["encodings"]]
    return list(dict.fromkeys([*plain, *("/".join(scheme.key) for scheme in SCHEMES), *encodings]))


def _known_pairs(request: Request, known: tuple[str, ...]) -> dict[str, str]:
    pairs = read_pairs(request.scope["query_string"])
    faults = [
        unknown_name(echo(name), name, known, what=f"{echo(name)} is not a parameter here")
        for name in pairs
        if name not in known
    ][:20]
    if faults:
        raise Problem("invalid-parameters", faults[0]["detail"], faults)
    return pairs


def _options(pairs: Mapping[str, str]) -> Options:
    preset = pairs.get("preset", PRESETS[0])
    chosen = next((each for each in PRESETS if each == preset), None)
    if chosen is None:
        fault = unknown_name("preset", preset, PRESETS, what=f"preset is {echo(preset)}", code="choice")
        raise Problem("invalid-parameters", fault["detail"], [fault])
    return Options(pairs.get("assume"), chosen, _length(pairs.get("length", "128")))


def _length(given: str) -> int:
    if given.isascii() and given.isdecimal() and 1 <= int(given[:9]) <= LONGEST and len(given) < 9:
        return int(given)
    detail = f"length is {echo(given)}; it must be a whole number, at least 1 and at most {LONGEST}"
    fault = {"parameter": "length", "code": "out_of_range", "detail": detail, "limit": LONGEST}
    raise Problem("invalid-parameters", detail, [fault])


def _unknown(name: str) -> Problem:
    near = nearest_models(name)
    hint = f"nearest are {', '.join(near)}" if near else "GET /v1/models lists them"
    detail = f"{echo(name)} is no known model; {hint}"
    fault = {"parameter": "name", "code": "unknown", "detail": detail}
    return Problem("not-found", detail, [fault | ({"did_you_mean": near[0]} if near else {})])
