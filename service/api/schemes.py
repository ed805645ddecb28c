"""The addresses of the schemes: for each record, its JSON and its files."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from service.api.answers import answer_get, answer_post
from service.api.names import nearest_names
from service.api.problems import Problem, echo
from service.api.resources import Resources
from service.engine import SCHEMES
from service.engine.scheme import Scheme
from service.formats import FORMATS

EXTENSIONS = tuple(name for name in FORMATS if name != "json")

FAMILIES = {
    "encodings": "A table of one row for each position.",
    "biases": "What is added to attention scores, and what it is made of.",
    "masks": "Which keys a query may attend to, as truth values or as numbers to add to attention scores.",
    "positions": "Which position each token has, as integers.",
    "analyses": "What encodings do: figures about them.",
    "permutations": "Where each channel lies in another convention.",
    "learned": "Your own position tables: rows looked up, tables resized and joined.",
    "apply": "Encodings applied to your own vectors, embeddings or scores.",
}

Handler = Callable[[Request], Awaitable[Response]]


def install(app: FastAPI, resources: Resources) -> None:
    """Add the routes of every scheme: GET unless it cannot do without the caller's arrays, POST where it takes some."""
    for scheme in SCHEMES:
        for path in (address(scheme), address(scheme) + ".{extension}"):
            if not scheme.needs_body:
                app.router.add_route(path, _handler(answer_get, scheme, resources), methods=["GET"])
            if scheme.takes_body:
                app.router.add_route(path, _handler(answer_post, scheme, resources), methods=["POST"])


def address(scheme: Scheme[Any, Any]) -> str:
    """Where a scheme's JSON is.

    >>> from service.engine import by_key
    >>> address(by_key("encodings", "rope"))
    '/v1/encodings/rope'
    """
    return f"/v1/{scheme.family}/{scheme.name}"


def _handler(
    answer: Callable[[Request, Scheme[Any, Any], str, Resources], Awaitable[Response]],
    scheme: Scheme[Any, Any],
    resources: Resources,
) -> Handler:
    async def handle(request: Request) -> Response:
        return await answer(request, scheme, _extension(request), resources)

    return handle


def _extension(request: Request) -> str:
    given: str | None = request.path_params.get("extension")
    if given is None:
        return "json"
    if given in EXTENSIONS:
        return given
    near = nearest_names(given.rpartition(".")[2], EXTENSIONS)
    detail = f".{echo(given)} is no format; known are {', '.join('.' + name for name in EXTENSIONS)}, and none for JSON"
    fault = {"parameter": "extension", "code": "unknown", "detail": detail}
    raise Problem("not-found", detail, [fault | ({"did_you_mean": near[0]} if near else {})])
