"""The project's own nginx configuration, run here before replicas of the service."""

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from service.api.resources import Resources
from service.main import create_app
from service.settings import Settings
from tests.deploy.dockerfile import ROOT
from tests.live import answering, free_port, live, wait_until
from tests.tools import program

ALLOWED = "Access-Control-Allow-Origin"
NONE: Mapping[str, str] = MappingProxyType({})
CONFIGURATION = ROOT / "deploy" / "nginx.conf"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, and what the proxy says of its cache."""

    status: int
    body: bytes
    cached: str
    headers: Message = field(default_factory=Message, compare=False)


@dataclass
class Replica:
    """A process of the service, on a port that stays the same when it is started again."""

    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "service", "serve", "--port", str(self.port), "--log-level", "warning"]
        self.process = subprocess.Popen(command, cwd=ROOT)
        wait_until(lambda: answering(self.port), 30)

    def stop(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(30)


class Held(NamedTuple):
    """A server in this process."""

    port: int
    resources: Resources

    def bytes(self) -> int:
        """How many bytes of answers it holds."""
        return self.resources.replies.held_bytes

    def rows(self) -> int:
        """How many stages of work it has done: none for what nothing was computed for."""
        return sum(each.count for (stage, _), each in self.resources.gate.meters.stages.items() if stage == "compute")

    def answers(self, status: int) -> int:
        """How many answers with that status it gave."""
        return sum(count for (_, code), count in self.resources.gate.counts.items() if code == status)


@contextmanager
def serving(**changes: Any) -> Iterator[Held]:
    """One more of them."""
    settings = Settings.model_validate({"port": 0, "drain_seconds": 0} | changes)
    app = create_app(settings)
    with live(app, settings) as server:
        yield Held(server.port, app.state.resources)


def get(port: int, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Reply:
    """A GET, or a HEAD, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return Reply(answer.status, answer.read(), answer.headers.get("X-Cache", ""), answer.headers)
    finally:
        connection.close()


def written(ports: list[int], listen: int, folder: Path, changes: Mapping[str, str] = NONE) -> str:
    """The configuration with this machine's ports, a folder to write in and these changes; the rest as shipped."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    for number, port in enumerate(ports, 1):
        text = text.replace(f"server posenc-{number}:8000", f"server 127.0.0.1:{port}")
    text = re.sub(r" *server posenc-\d:8000[^\n]*\n", "", text)  # of fewer than there are
    text = text.replace("listen 8080", f"listen 127.0.0.1:{listen}").replace("/var/cache/nginx", f"{folder}/cache")
    text = re.sub(r"(?<= )/tmp/nginx", f"{folder}/nginx", text)
    assert "posenc-" not in text
    return text


@contextmanager
def proxied(ports: list[int], folder: Path, changes: Mapping[str, str] = NONE) -> Iterator[int]:
    """nginx before those ports while the block runs; its own port."""
    listen = free_port()
    (folder / "cache").mkdir()
    configuration = folder / "nginx.conf"
    configuration.write_text(written(ports, listen, folder, changes), encoding="utf-8")
    options = "daemon off; user root;" if os.getuid() == 0 else "daemon off;"
    process = subprocess.Popen([program("nginx"), "-c", str(configuration), "-g", options])
    try:
        wait_until(lambda: answering(listen) or process.poll() is not None, 10)
        assert process.poll() is None
        yield listen
    finally:
        process.terminate()
        process.wait(10)
