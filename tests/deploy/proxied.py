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

from tests.deploy.dockerfile import ROOT
from tests.live import answering, free_port, wait_until
from tests.tools import program

ALLOWED = "Access-Control-Allow-Origin"
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


def get(port: int, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Reply:
    """A GET, or a HEAD, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return Reply(answer.status, answer.read(), answer.headers.get("X-Cache", ""), answer.headers)
    finally:
        connection.close()


def written(ports: list[int], listen: int, folder: Path, origin: str = "") -> str:
    """The configuration with this machine's ports, a folder to write in and an origin; the rest as it is shipped."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    text = text.replace("map $http_origin $origin {", f"map $http_origin $origin {{ {origin}")
    for number, port in enumerate(ports, 1):
        text = text.replace(f"server posenc-{number}:8000", f"server 127.0.0.1:{port}")
    text = re.sub(r" *server posenc-\d:8000[^\n]*\n", "", text)  # of fewer than there are
    text = text.replace("listen 8080", f"listen 127.0.0.1:{listen}").replace("/var/cache/nginx", f"{folder}/cache")
    text = re.sub(r"(?<= )/tmp/nginx", f"{folder}/nginx", text)
    assert "posenc-" not in text
    return text


@contextmanager
def proxied(ports: list[int], folder: Path, origin: str = "") -> Iterator[int]:
    """nginx before those ports while the block runs; its own port."""
    listen = free_port()
    (folder / "cache").mkdir()
    configuration = folder / "nginx.conf"
    configuration.write_text(written(ports, listen, folder, origin), encoding="utf-8")
    options = "daemon off; user root;" if os.getuid() == 0 else "daemon off;"
    process = subprocess.Popen([program("nginx"), "-c", str(configuration), "-g", options])
    try:
        wait_until(lambda: answering(listen), 10)
        yield listen
    finally:
        process.terminate()
        process.wait(10)
