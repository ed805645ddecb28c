"""A process of the service's own, for work that would hold up its answers, and the line between the two.

What passes over the line is JSON, and bytes whose meaning that JSON tells: no process of the service reads pickles, not
even its own. A child ends when its line breaks, and so with the service, however that comes about.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import orjson

PACKAGE = Path(__file__).parent
# What is met where the other side ended, and where the system has none of what it takes.
BROKEN = (EOFError, OSError)


class Line:
    """One end of a line; what it does raises one of `BROKEN` where nobody is at the other end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tell(self, *what: Any) -> None:
        self._connection.send_bytes(orjson.dumps(what))

    def told(self) -> list[Any]:
        found: list[Any] = orjson.loads(self._connection.recv_bytes())
        return found

    def send(self, content: bytes | memoryview) -> None:
        """Bytes as they are."""
        self._connection.send_bytes(content)

    def received(self) -> bytes:
        return self._connection.recv_bytes()

    def hears(self, seconds: float = 0.0) -> bool:
        """Whether there is something to read, or nobody at the other end, within so many seconds."""
        return self._connection.poll(seconds)

    def close(self) -> None:
        self._connection.close()


class Child:
    """A process under way, which runs `main(line, *given)` of a module, both ends of whose line are here and there.

    `files` are descriptors that it keeps under their numbers. Raises OSError where no process can be started.
    """

    def __init__(self, module: str, *given: float, files: Sequence[int] = ()) -> None:
        ours, theirs = Pipe()
        with theirs:
            try:
                self.process = _started(module, theirs.fileno(), given, files)
            except OSError:
                ours.close()
                raise
        self.line = Line(ours)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> None:
        """End it; whoever waits for what it says sees its end of the line close."""
        self.process.kill()
        self.process.wait()

    def leave(self) -> None:
        """End it, and the line: nobody waits for what it says."""
        self.line.close()
        self.end()


def _started(module: str, line: int, given: Sequence[float], files: Sequence[int]) -> subprocess.Popen[bytes]:
    arguments = ", ".join(map(repr, (line, *given)))
    return subprocess.Popen(
        [sys.executable, "-c", f"from {module} import main; main({arguments})"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=PACKAGE.parent,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        pass_fds=(line, *files),
        process_group=0,  # a Ctrl-C is for the service, which ends its children
    )


def answer(line: int, work: Callable[[Line], None]) -> None:
    """What a child does at its end of the line, until the line breaks."""
    with suppress(*BROKEN), Connection(line) as opened:
        work(Line(opened))
