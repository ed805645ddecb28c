"""No request makes the service open, list or change a file that it names: Python says which it does (audit events)."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import service
from tests.api.requests import EXAMPLES
from tests.clients import Client, in_process, settings

# Where Python and its packages are, and what the kernel says of the machine.
ALLOWED = tuple(
    str(Path(each).resolve())
    for each in (Path(service.__file__).parents[1], sys.prefix, sys.base_prefix, "/proc", "/sys", "/dev")
)
EVENTS = ("open", "os.", "shutil.", "glob.", "pathlib.", "tempfile.", "ctypes.dlopen", "mmap.")
seen: list[tuple[str, str]] = []
watching = False


def heard(event: str, given: tuple[Any, ...]) -> None:
    if watching and event.startswith(EVENTS):
        seen.extend((event, str(each)) for each in given if isinstance(each, str | bytes | Path))


@pytest.fixture(scope="module", autouse=True)
def _hook() -> None:
    sys.addaudithook(heard)  # there is no way to take it back


@contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    """What was done with files meanwhile."""
    global watching  # noqa: PLW0603 - the hook is one for the process
    seen.clear()
    watching = True
    try:
        yield seen
    finally:
        watching = False


def outside(events: list[tuple[str, str]]) -> list[tuple[str, str]]:
    paths = [(event, each) for event, each in events if "/" in each]
    return [(event, each) for event, each in paths if not str(Path(each).resolve()).startswith(ALLOWED)]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that every reader of files would take for something."""
    path = tmp_path / "secret.npy"
    np.save(path, np.zeros((2, 4)))
    return path


def everywhere(value: Any, path: str) -> Iterator[Any]:
    """The same with the path for each part in turn."""
    yield path
    if isinstance(value, dict):
        yield {**value, path: 1}
        for name, each in value.items():
            yield from ({**value, name: other} for other in everywhere(each, path))
    elif isinstance(value, list) and value:
        yield from ([other, *value[1:]] for other in everywhere(value[0], path))


def requests(secret: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    paths = [str(secret), secret.as_uri(), f"../../../../../..{secret}", f"@{secret}"]
    for path in paths:
        at = quote(path, safe="")
        for family in {each.scheme.family: each for each in EXAMPLES}.values():
            names = ["tensor", "preset", "file", "path", *family.scheme.params.model_fields]
            for name in names[:12]:
                yield family.method, f"{family.target.partition('?')[0]}.npy?{name}={at}", {}
        for each in (
            "/",
            "/web/",
            "/problems/",
            "/v1/models/",
            "/v1/schemes/",
            "/v1/encodings/",
            "/v2/models/",
            "/schemes/",
        ):
            yield "GET", each + at, {}
            yield "GET", each + path.lstrip("/"), {}
        yield "GET", f"/v1/models?scheme={at}", {}
        yield "GET", "/v1/schemes", {"headers": {"X-Request-ID": path, "If-None-Match": path, "Referer": path}}
        yield "POST", "/v1/apply/rope", {"content": path.encode(), "headers": {"Content-Type": "application/x-npy"}}
    posts = list({each.scheme.key: each for each in EXAMPLES if each.method == "POST"}.values())[::4]
    bodies = [(each.target, each.example.body) for each in posts] + [
        ("/v1/models/resolve", {"model_type": "llama", "_name_or_path": "x", "auto_map": {"AutoModel": "x"}}),
        ("/v1/bundle.npz", {"a": "/v1/biases/alibi-slopes?heads=3"}),
        ("/v2/models/biases.alibi-slopes/infer", {"id": "x", "parameters": {"heads": 3}, "inputs": []}),
    ]
    for target, body in bodies:
        for other in everywhere(body, str(secret)):
            yield "POST", target, {"content": json.dumps(other), "headers": {"Content-Type": "application/json"}}


def test_no_request_reaches_a_file_that_it_names(secret: Path) -> None:
    with in_process(settings()) as client:
        for each in EXAMPLES:
            each.send(client)  # so that what is loaded at first is
        asked = list(requests(secret))
        with watched() as events:
            statuses = {_status(client, *each) for each in asked}
    assert len(asked) > 300
    assert statuses <= {200, 400, 404, 405, 406, 415, 422}
    assert [event for event in events if "secret" in event[1]] == []
    assert outside(events) == []


def _status(client: Client, method: str, target: str, options: dict[str, Any]) -> int:
    return client.request(method, target, **options).status_code


def test_one_that_did_would_be_seen(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that reads the file that a request names."""

    def reading(name: str) -> str:
        return f"{name} has {len(np.load(name))} rows"

    monkeypatch.setattr("service.api.models.echo", reading)
    with in_process(settings()) as client, watched() as events:
        client.get(f"/v1/models?scheme={quote(str(secret), safe='')}")
    assert ("open", str(secret)) in events
    assert ("open", str(secret)) in outside(events)
