"""Replicas that hang or come back, and requests with bodies meanwhile."""

import json
import signal
import socket
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.deploy.dockerfile import ROOT
from tests.deploy.proxied import CONFIGURATION, Held, Replica, get, proxied
from tests.live import free_port

QUICK = {"proxy_read_timeout 20s": "proxy_read_timeout 1s"}
PATHS = [f"/v1/encodings/rope.npy?length=4&dim=8&base={base}" for base in range(2, 42)]
POSITIONS = {"positions": list(range(2000))}


def post(port: int, path: str, document: object) -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(document).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.status, answer.read()


def waiting(listening: socket.socket) -> int:
    """How many have connected to it."""
    listening.setblocking(False)
    count = 0
    while True:
        try:
            connection, _ = listening.accept()
        except BlockingIOError:
            return count
        connection.close()
        count += 1


def seconds(directive: str) -> int:
    (found,) = {
        int(line.split()[1].removesuffix("s;"))
        for line in CONFIGURATION.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith(f"{directive} ")
    }
    return found


def test_there_is_time_to_ask_each_of_three_replicas() -> None:
    """Before the next one is asked the first is waited for, and so is the second."""
    two = 2 * seconds("proxy_read_timeout")
    assert two < seconds("proxy_next_upstream_timeout")
    assert seconds("proxy_read_timeout") < seconds("proxy_cache_lock_timeout")
    assert seconds("proxy_read_timeout") < seconds("proxy_cache_lock_age")


def test_the_ingress_waits_as_long() -> None:
    text = (ROOT / "deploy" / "kubernetes" / "ingress.yaml").read_text(encoding="utf-8")
    annotations = yaml.safe_load(text)["metadata"]["annotations"]
    for name in ("connect-timeout", "read-timeout", "next-upstream-timeout"):
        assert int(annotations[f"nginx.ingress.kubernetes.io/proxy-{name}"]) == seconds(
            "proxy_" + name.replace("-", "_")
        )


@pytest.mark.tool
def test_a_replica_that_hangs_costs_its_share_a_while_and_is_set_aside(three: list[Held], tmp_path: Path) -> None:
    """Its machine takes connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as hung:
        ports = [three[0].port, three[1].port, hung.getsockname()[1]]
        with proxied(ports, tmp_path, QUICK) as proxy:
            assert [get(proxy, path).status for path in PATHS] == [200] * len(PATHS)
        # Of its third of them; one more for each half minute that the machine was busy.
        assert 3 <= waiting(hung) <= 5


@pytest.mark.tool
def test_a_replica_that_is_stopped_fails_no_request(replicas: list[Replica], tmp_path: Path) -> None:
    with proxied([each.port for each in replicas], tmp_path, QUICK) as proxy:
        assert get(proxy, PATHS[0]).status == 200
        process = replicas[2].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            assert [get(proxy, path).status for path in PATHS] == [200] * len(PATHS)
            places = [f"/v1/encodings/sinusoidal.npy?dim=8&base={base}" for base in range(2, 22)]
            assert [post(proxy, path, POSITIONS)[0] for path in places] == [200] * len(places)
        finally:
            process.send_signal(signal.SIGCONT)


@pytest.mark.tool
def test_replicas_that_were_all_set_aside_are_asked_as_soon_as_they_are_back(
    replicas: list[Replica], tmp_path: Path
) -> None:
    with proxied([each.port for each in replicas], tmp_path) as proxy:
        for each in replicas:
            each.stop(signal.SIGKILL)
        assert {get(proxy, path).status for path in PATHS} == {503}
        for each in replicas:
            each.start()
        assert {get(proxy, path).status for path in PATHS} == {200}


@pytest.mark.tool
def test_a_small_body_is_asked_of_another_replica(three: list[Held], tmp_path: Path) -> None:
    path = "/v1/encodings/sinusoidal.npy?dim=8"
    _, direct = post(three[0].port, path, POSITIONS)
    with proxied([three[0].port, free_port(), free_port()], tmp_path) as proxy:
        for number in range(20):
            assert post(proxy, f"{path}&revision=1&base={10000 + number}", POSITIONS)[0] == 200
        assert post(proxy, path, POSITIONS) == (200, direct)


@pytest.mark.tool
def test_a_large_body_is_answered_as_by_a_replica(three: list[Held], tmp_path: Path) -> None:
    path = "/v1/encodings/sinusoidal.npy?dim=8"
    document = {"positions": list(range(100_000, 160_000))}
    assert len(json.dumps(document)) > 100_000
    with proxied([each.port for each in three], tmp_path) as proxy:
        assert post(proxy, path, document) == post(three[0].port, path, document)
