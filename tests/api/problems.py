"""The one shape of a refusal, asserted by one function at every door."""

from typing import Any

import httpx

from service.api.problem_types import PROBLEMS

FAULT_KEYS = {"parameter", "pointer", "code", "detail", "limit", "requested", "did_you_mean"}


def refused(reply: httpx.Response, slug: str) -> dict[str, Any]:
    """Assert that a reply is that problem document, and return it."""
    document = well_formed(reply.status_code, reply.headers.get("content-type"), reply.content, reply.json())
    assert document["type"] == f"/problems/{slug}", document
    assert reply.headers["cache-control"] == "no-store"
    assert document["instance"] == reply.headers["x-request-id"]
    assert reply.headers["content-length"] == str(len(reply.content))
    assert "etag" not in reply.headers
    return document


def well_formed(status: int, media_type: str | None, content: bytes, document: Any) -> dict[str, Any]:
    """Assert the shape alone."""
    assert media_type == "application/problem+json"
    assert len(content) <= 8192
    assert isinstance(document, dict)
    assert set(document) == {"type", "title", "status", "detail", "instance", "errors"}
    kind = PROBLEMS[document["type"].removeprefix("/problems/")]
    assert (document["status"], document["title"]) == (kind.status, kind.title)
    assert status == kind.status
    assert 0 < len(document["detail"]) <= 1024
    assert len(document["errors"]) <= 20
    for fault in document["errors"]:
        assert set(fault) <= FAULT_KEYS, fault
        assert ("parameter" in fault) != ("pointer" in fault)
        assert fault["code"]
        assert fault["detail"]
        assert "pointer" not in fault or fault["pointer"] == "" or fault["pointer"].startswith("/")
    return document


def fault(document: dict[str, Any], place: str) -> dict[str, Any]:
    """The fault at a parameter or pointer."""
    (found,) = [each for each in document["errors"] if place in (each.get("parameter"), each.get("pointer"))]
    assert isinstance(found, dict)
    return found
