"""`posenc get`: one request answered by the app in this process or by a server, streamed to a file or standard output.

The file appears complete or not at all: the answer goes to a temporary file beside it, renamed at the end.
What ends the command (Ctrl-C, SIGTERM, SIGHUP) takes that file away first.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from types import FrameType
from typing import IO, cast
from urllib.parse import quote

from service.inprocess import Answer, Request, answer
from service.settings import Settings

DONE, FAILED, REFUSED, BUSY = 0, 1, 2, 3
STANDARD = "-"
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
JSON, BINARY = "application/json", "application/octet-stream"
TARGET = "a path and query such as '/v1/encodings/rope.npy?length=8&dim=4'"
SERVER = "an address such as http://127.0.0.1:8000"
SAFE = "/?&=%:@!$'()*+,;~-._[]"  # what a request target may hold besides letters and digits


@dataclass(frozen=True, slots=True)
class Get:
    """What was asked: the target, the file to write, the file to send ("-" for the standard streams), the server and
    the key that it wants."""

    target: str
    output: str = STANDARD
    data: str | None = None
    server: str | None = None
    key: str = field(default="", repr=False)

    def run(self, settings: Settings) -> int:
        """Answer the request; return 0, 2 after a refusal (4xx), 3 where a later try may do, 1 after anything else."""
        if not self.target.startswith("/"):
            return _fail(f"{self.target[:64]!r}: {TARGET} would do; a server goes in --server", REFUSED)
        if self.server is not None and not self.server.startswith(("http://", "https://")):
            return _fail(f"--server {self.server[:64]!r}: {SERVER} would do", REFUSED)
        try:
            with _unwound(), _body(self.data) as body, _sink(self.output) as sink:
                return self._answer(settings, body, sink)
        except OSError as error:
            return _fail(f"{self._named(error.filename)}: {error.strerror or error}")
        except Stopped as stopped:
            return _die_of(stopped.number)

    def _named(self, name: object) -> str:
        """The file that an error is about, under the name that the user gave it."""
        return self.data if self.data is not None and name == self.data else self.output

    def _answer(self, settings: Settings, body: BufferedReader | None, sink: "Sink") -> int:
        from service.remote import Progress, Unreachable, is_terminal

        reply = Answer()
        progress = Progress(sys.stderr, reply, wanted=not is_terminal(self.output, STANDARD))

        def take(part: bytes) -> None:
            sink.write(part)
            progress.update()

        try:
            self._ask(settings, _request(self.target, body), reply, take)
        except Unreachable as error:
            return _fail(str(error), BUSY)
        finally:
            progress.clear()
        return _judged(reply, sink)

    def _ask(self, settings: Settings, request: Request, reply: Answer, take: Callable[[bytes], None]) -> None:
        if self.server is not None:
            from service.remote import ask

            ask(self.server, request, reply, take, self.key)
        else:
            from service.main import create_app

            # It is one answer: nothing else would be held up by drawing it here.
            alone = settings.for_its_owner().model_copy(update={"drawer": "off"})
            asyncio.run(answer(create_app(alone), request, take, reply))


class Stopped(SystemExit):
    """A signal came; asyncio hands a SystemExit on at once, whichever task it meets."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def _unwound() -> Iterator[None]:
    """Signals that would end the process at once, or with a traceback, unwind it; one that is ignored stays so."""
    before = {each: signal.getsignal(each) for each in STOPS}
    caught = {each: handler for each, handler in before.items() if handler is not signal.SIG_IGN}
    for each in caught:
        signal.signal(each, _stop)
    try:
        yield
    finally:
        for each, handler in caught.items():
            signal.signal(each, handler)


def _stop(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


def _die_of(number: int) -> int:
    """End as the signal would have ended the process: a shell stops its script after Ctrl-C only if it did."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    return 128 + number


def _judged(reply: Answer, sink: "Sink") -> int:
    """The exit code of an answer; whatever is not a whole success is told."""
    if reply.status < 400 and reply.complete:
        sink.keep()
        return DONE
    for line in faults(reply):
        print(f"posenc get: {line}", file=sys.stderr)
    if reply.status in (429, 503):
        return BUSY
    return REFUSED if 400 <= reply.status < 500 else FAILED


def _fail(line: str, code: int = FAILED) -> int:
    print(f"posenc get: {line}", file=sys.stderr)
    return code


def _request(target: str, body: BufferedReader | None) -> Request:
    path, _, query = quote(target, safe=SAFE).partition("?")
    if body is None:
        return Request("GET", path, query)
    head = body.peek(64)[:64]
    return Request("POST", path, query, media_type=media_type(head), body=body, size=_size(body))


def media_type(head: bytes) -> str:
    """Tell JSON from npy and safetensors by the first bytes.

    >>> media_type(b' {"tensors": '), media_type(bytes([123, 0, 0, 0, 0, 0, 0, 0]) + b'{"q":')
    ('application/json', 'application/octet-stream')
    """
    is_safetensors = head[8:9] == b"{" and head[4:8] == bytes(4)
    return JSON if head.lstrip()[:1] in (b"{", b"[") and not is_safetensors else BINARY


def _size(body: BufferedReader) -> int | None:
    return os.fstat(body.fileno()).st_size if body.seekable() else None


@contextmanager
def _body(name: str | None) -> Iterator[BufferedReader | None]:
    if name is None:
        yield None
    elif name == STANDARD:
        yield cast(BufferedReader, sys.stdin.buffer)
    else:
        with Path(name).open("rb") as file:
            yield file


class Sink:
    """Takes the bytes of the answer; `keep` says that they are all there."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.kept = False

    def write(self, part: bytes) -> None:
        self.file.write(part)

    def keep(self) -> None:
        self.file.flush()
        self.kept = True


@contextmanager
def _sink(name: str) -> Iterator[Sink]:
    if name == STANDARD:
        yield Sink(sys.stdout.buffer)
    elif _is_special(name):
        with Path(name).open("wb") as file:
            yield Sink(file)
    else:
        with _replacement(Path(os.path.realpath(name))) as sink:
            yield sink


def _is_special(name: str) -> bool:
    """A device or a pipe is written to; only a plain file can be replaced."""
    path = Path(name)
    return path.exists() and not path.is_file()


@contextmanager
def _replacement(target: Path) -> Iterator[Sink]:
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        temporary = Path(file.name)
        try:
            sink = Sink(file)
            yield sink
            if sink.kept:
                temporary.chmod(0o666 & ~_umask())
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def faults(reply: Answer) -> list[str]:
    """Write an answer that is no success as lines for a reader: one for every fault."""
    if reply.status < 400:
        return [f"the answer broke off after {reply.received} bytes"]
    try:
        problem = json.loads(reply.problem)
        lines = [_fault(error) for error in problem["errors"]] or [str(problem["detail"])]
    except (ValueError, KeyError, TypeError):
        return [f"{reply.status}"]
    return [f"{reply.status} {line}" for line in lines]


def _fault(error: dict[str, object]) -> str:
    place = error.get("parameter") or error.get("pointer") or "request"
    guess = error.get("did_you_mean")
    detail = str(error["detail"])
    line = detail if detail.startswith(str(place)) else f"{place}: {detail}"
    return line + (f" (did you mean {guess}?)" if guess else "")
