"""Paths and verbs: 404 names the nearest, 405 lists what is possible."""

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from service.api.directory import Directory
from service.api.door import Door
from service.api.schemes import EXTENSIONS
from service.engine import SCHEMES
from service.engine.scheme import Scheme
from service.main import Service
from tests.api.gates import watched
from tests.api.problems import fault, refused
from tests.clients import Client

ROPE = "/v1/encodings/rope"
SINUSOIDAL = "/v1/encodings/sinusoidal"
APPLY = "/v1/apply/rope"


def path(scheme: Scheme[Any, Any]) -> str:
    return f"/v1/{scheme.family}/{scheme.name}"


@pytest.mark.parametrize(
    "target",
    [f"{ROPE}.", f"{ROPE}/", f"{ROPE}/npy", "/v1/encodings/ropé", "/v1/encodings/rope%00", "/v1",
     "/v1/encodings", "/v1/encodings/", "/%2e%2e/%2e%2e/etc/passwd", "/v1/encodings/..%2frope.npy.", "/" + "x" * 5000,
     "/v1/encodings/rope;a=b", "/V1/encodings/rope", "/v1/encodings/ROPE", "/v1/schemes/", "/v1/encodings/%ff",
     "/v1/encodings/%F0%9F%8C%80", "/health"],
)  # fmt: skip
def test_an_unknown_path_is_404(client: Client, target: str) -> None:
    document = refused(client.get(target), "not-found")
    assert fault(document, "path")["code"] == "unknown"


def test_an_unknown_path_names_the_nearest(client: Client) -> None:
    document = refused(client.get("/v1/encodings/sinusiodal"), "not-found")
    assert fault(document, "path")["did_you_mean"] == SINUSOIDAL
    assert f"known are {SINUSOIDAL}, " in document["detail"]
    assert "{extension}" not in document["detail"]


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("npyy", "npy"),
        (".npy", "npy"),
        ("npy.npy", "npy"),
        ("NPY", "npy"),
        ("safetensor", "safetensors"),
        ("json", None),
        ("png%20", "png"),
        ("jpeg", None),
    ],
)
def test_an_unknown_extension_names_the_known_ones(client: Client, given: str, near: str | None) -> None:
    document = refused(client.get(f"{ROPE}.{given}?length=2&dim=4"), "not-found")
    assert fault(document, "extension").get("did_you_mean") == near
    assert ".npy, .npz, .safetensors, .bin, .csv, .png, .svg, and none for JSON" in document["detail"]


def test_an_unknown_scheme_of_the_catalogue_is_404(client: Client) -> None:
    document = refused(client.get("/v1/schemes/ropes"), "not-found")
    assert fault(document, "scheme")["did_you_mean"] == "rope"


@pytest.mark.parametrize("host", ["[", "]", "a:b:c", "", "é", "/", "a b", "[::1", "x" * 300])
def test_the_host_has_no_say(direct: Client, host: str) -> None:
    reply = direct.get("/v1/nothing", headers={"host": host.encode()})
    refused(reply, "not-found")
    assert direct.get(f"{ROPE}?length=1&dim=2", headers={"host": host.encode()}).status_code == 200


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(scheme.key))
@pytest.mark.parametrize("verb", ["PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("ending", ["", ".npy"])
def test_another_verb_is_405(client: Client, scheme: Scheme[Any, Any], verb: str, ending: str) -> None:
    reply = client.request(verb, path(scheme) + ending)
    document = refused(reply, "method-not-allowed")
    allowed = ["OPTIONS"]
    allowed += [] if scheme.needs_body else ["GET", "HEAD"]
    allowed += ["POST"] if scheme.takes_body else []
    assert reply.headers["allow"] == ", ".join(sorted(allowed))
    assert verb in document["detail"]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(scheme.key))
def test_options_lists_the_verbs(client: Client, scheme: Scheme[Any, Any]) -> None:
    reply = client.request("OPTIONS", path(scheme))
    assert (reply.status_code, reply.content) == (204, b"")
    assert reply.headers["allow"] == client.request("DELETE", path(scheme)).headers["allow"]


def test_get_on_an_operation_is_405(client: Client) -> None:
    reply = client.get(APPLY)
    refused(reply, "method-not-allowed")
    assert reply.headers["allow"] == "OPTIONS, POST"
    head = client.head(APPLY)
    assert (head.status_code, head.content) == (405, b"")


def test_written_out_addresses_are_found_without_the_framework(direct: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def closed(*_: object) -> None:
        raise AssertionError("the framework was asked")

    assert isinstance(direct.app, Service)
    directory = direct.app.door.app
    assert isinstance(directory, Directory)
    monkeypatch.setattr(directory, "app", closed)
    assert direct.get(f"{ROPE}.npy?length=3&dim=4").status_code == 200
    assert direct.head(f"{ROPE}.safetensors?length=3&dim=4").status_code == 200
    assert direct.get("/health/live").status_code == 200
    assert direct.post(f"{APPLY}.npy", json={"tensors": {"q": [[1.0, 2.0]]}}).status_code == 200
    refused(direct.get(f"{ROPE}.npy?length=3&dim=5"), "invalid-parameters")
    refused(direct.get(f"{ROPE}.npy?length=3"), "invalid-parameters")


def test_every_address_of_a_scheme_is_in_the_directory(direct: Client) -> None:
    assert isinstance(direct.app, Service)
    directory = direct.app.door.app
    assert isinstance(directory, Directory)
    for scheme in SCHEMES:
        for target in [path(scheme), *(f"{path(scheme)}.{extension}" for extension in EXTENSIONS)]:
            methods = {method for known, method in directory.places if known == target}
            get, post = set() if scheme.needs_body else {"GET", "HEAD"}, {"POST"} if scheme.takes_body else set()
            assert methods == get | post


def test_a_bug_found_through_the_directory_is_answered(direct: Client) -> None:
    with watched("encodings", "rope") as gate:
        gate.failing = True
        refused(direct.get(f"{ROPE}.npy?length=3&dim=4&base=77"), "internal-error")


def test_an_answer_that_fails_in_the_middle_breaks_its_connection(direct: Client) -> None:
    class Cut(Response):
        async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise RuntimeError("the body")

    async def cut(_request: Request) -> Response:
        return Cut()

    async def nothing(*_: object) -> None:
        raise AssertionError

    sent: list[str] = []

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    door = Door(Directory(nothing, [Route("/cut", cut)], ()), direct.resources)
    scope = {"type": "http", "method": "GET", "path": "/cut", "raw_path": b"/cut", "query_string": b"", "headers": []}
    with pytest.raises(RuntimeError, match="the body"):
        direct.run(door(scope, receive, send))
    assert sent == ["http.response.start"]
