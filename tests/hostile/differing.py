"""The same bytes for two servers, of which one has answered the addresses before: whether they say the same."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from service.main import create_app
from tests.clients import settings
from tests.hostile.called import SMALL, silent
from tests.hostile.conditions import Conditions, Known
from tests.hostile.wire import FIELDS, LIMITS, METHODS, VERSIONS, talk
from tests.live import Live, live

AT_ONCE = 16
IN_A_ROW = 10
LAST = b"GET /health/live HTTP/1.1\r\nHost: last\r\nX-Request-ID: last\r\nConnection: close\r\n\r\n"
QUERIES = ("", "", "", "", "&", "&x=1", "&length=3", "&dim=%zz", "&%00=%ff", "=&=", "#part", "&dim", "?", ";", "%20",
"+",
           "&offset=-0", "&revision=1", "&tensor=cos", "&" + "9" * 5000)  # fmt: skip
CODINGS = (
    "gzip",
    "gzip;q=0",
    "*",
    "br",
    "gzip;q=x",
    "gzip;q=0.1, identity",
    "GZIP",
    ";;",
    "gzip;q=-1",
    "",
    "gzip" + "," * 300,
)
# Without an id twice: where none is given that will do, each server makes its own, which has a length of its own.
ODD = [each for each in FIELDS if not each.startswith(b"X-Request-ID")]
# What differs between any two answers.
_OWN = re.compile(rb"(?m)^(date: |server-timing: ).*\r\n")
_ID = rb"[0-9a-f]{12}-[0-9a-f]+"
_IDS = re.compile(rb"(?<=x-request-id: )%s(?=\r\n)|(?<=\"instance\":\")%s(?=\")" % (_ID, _ID))
# Of a refusal before its id was read: the ids that servers make are numbered, so their lengths differ too.
_LENGTHS = re.compile(rb"content-length: \d+\r\n(?=(?:[^\r\n]+\r\n)*x-request-id: %s\r\n)" % _ID)


class Rows:
    """Requests in a row on one connection, most of them for what is known; the same for the same seed."""

    def __init__(self, seed: int, known: Known) -> None:
        self.random = random.Random(seed)
        self.conditions = iter(Conditions(seed, known))

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield b"".join(self._one() for _ in range(IN_A_ROW)) + LAST

    def _one(self) -> bytes:
        method, target, fields = next(self.conditions)
        wrong = self.random.random
        target += self.random.choice(QUERIES) if wrong() < 0.2 else ""
        verb = self.random.choice(METHODS) if wrong() < 0.02 else method.encode()
        version = self.random.choice(VERSIONS) if wrong() < 0.02 else b"HTTP/1.1"
        lines = [b" ".join((verb, target.encode(), version)), b"Host: x", b"X-Request-ID: same"]
        lines += [name.encode() + b": " + value.encode("latin-1") for name, value in fields] if wrong() < 0.5 else []
        if wrong() < 0.2:
            lines.append(b"Accept-Encoding: " + self.random.choice(CODINGS).encode())
        if wrong() < 0.1:
            lines.append(self.random.choice(ODD))
        return b"\r\n".join(lines) + b"\r\n\r\n"


async def said(server: Live, data: bytes) -> bytes:
    return _IDS.sub(b"ID", _LENGTHS.sub(b"", _OWN.sub(b"", await talk(server.port, data))))


async def compared(fast: Live, slow: Live, rows: Iterator[bytes]) -> None:
    """As many connections at once as are ready."""

    async def one_after_the_other() -> None:
        for data in rows:
            quick, long = await asyncio.gather(said(fast, data), said(slow, data))
            at = next((n for n, pair in enumerate(zip(quick, long, strict=False)) if pair[0] != pair[1]), -1)
            around = slice(max(0, at - 600), at + 300)
            assert quick == long, f"{data[:9000]!r}\n{quick[around]!r}\n{long[around]!r}"

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one_after_the_other())


def run(count: int, seed: int, known: Known) -> Counter[str]:
    """So many requests; how many answers came which way, and their statuses."""
    chosen = settings(port=0, **LIMITS, **SMALL)
    forgetful = chosen.model_copy(update={"reply_cache_bytes": 0, "table_cache_bytes": 0})
    apps = create_app(chosen), create_app(forgetful)
    rows = islice(Rows(seed, known), count // IN_A_ROW)
    with silent(), live(apps[0], chosen) as fast, live(apps[1], forgetful) as slow:
        asyncio.run(compared(fast, slow, rows))
    counted: list[Counter[str]] = [Counter() for _ in apps]
    for app, found in zip(apps, counted, strict=True):
        for (way, status), number in app.state.resources.gate.counts.items():
            found[way] += number
            found[str(status)] += number
    assert not counted[1]["repeated"]
    assert counted[0]["repeated"] > count // 20
    return counted[0]
