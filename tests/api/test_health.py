"""Liveness and readiness."""

import pytest

from tests.clients import Client


@pytest.mark.parametrize(("path", "status"), [("/health/live", "live"), ("/health/ready", "ready")])
def test_health_answers(client: Client, path: str, status: str) -> None:
    reply = client.get(path)
    assert reply.status_code == 200
    assert reply.json() == {"status": status}
    assert reply.headers["cache-control"] == "no-store"
    head = client.head(path)
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(reply.content))


def test_a_draining_server_says_503_and_keeps_answering(client: Client) -> None:
    client.app.state.draining = True
    try:
        reply = client.get("/health/ready")
        live = client.get("/health/live")
        work = client.get("/v1/biases/alibi-slopes?heads=2")
    finally:
        client.app.state.draining = False
    assert reply.status_code == 503
    assert reply.headers["retry-after"] == "1"
    assert reply.json()["type"] == "/problems/overloaded"
    assert live.status_code == work.status_code == 200
