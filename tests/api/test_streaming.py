"""Answers above `stream_bytes` go out in blocks of rows: the same bytes, in constant memory, while someone reads."""

import asyncio
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, MutableMapping
from io import BytesIO
from threading import Event
from typing import Any

import pytest

from service.api.limits import Share
from service.api.replies import Streamed
from service.api.timing import Timing
from service.main import create_app
from tests.api.gates import watched
from tests.clients import TRANSPORTS, Client, in_process, settings
from tests.formats.holding import HOLDING
from tests.live import Client as Connection
from tests.live import live, wait_until

TABLE = "length=3000&dim=64"
LARGE = "/v1/encodings/sinusoidal.npy?length=2000000&dim=256"


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("transport", list(TRANSPORTS))
@pytest.mark.parametrize("kept_bytes", [0, 2**26])
@pytest.mark.parametrize("extension", HOLDING)
def test_blocks_make_the_same_answer(transport: str, kept_bytes: int, extension: str) -> None:
    """Whether they are kept for the next who asks, or let go once sent."""
    ending = "" if extension == "json" else f".{extension}"
    target = f"/v1/encodings/sinusoidal{ending}?{TABLE}"
    with TRANSPORTS[transport](settings(stream_bytes=2**40)) as client:
        whole = client.get(target)
    with TRANSPORTS[transport](settings(stream_bytes=1000, reply_cache_bytes=kept_bytes)) as client:
        streamed = client.get(target)
        # The share is given back after the last byte, which the client may have read by then.
        wait_until(lambda: client.resources.budget.in_use == 0)
        wait_until(lambda: client.resources.under_way == {})
        assert (client.resources.replies.held_bytes > len(whole.content) // 3) == (kept_bytes > 0)
        head, repeated, again = client.head(target), client.head(target), client.get(target)
    assert whole.status_code == streamed.status_code == again.status_code == 200
    assert streamed.content == whole.content == again.content
    assert streamed.headers["etag"] == whole.headers["etag"] == head.headers["etag"]
    unlike = {"server-timing", "x-request-id", "date", "transfer-encoding", "x-accel-buffering"}
    unlike |= {"content-length"} if extension in ("json", "csv") else set()
    shown = [
        {key: value for key, value in reply.headers.items() if key not in unlike}
        for reply in (whole, streamed, head, again)
    ]
    assert shown[0] == shown[1] == shown[2] == shown[3]
    unbuffered = [reply.headers.get("x-accel-buffering") for reply in (streamed, head, repeated)]
    assert unbuffered == [None if kept_bytes else "no"] * 3


@pytest.mark.parametrize("extension", ["npy", "npz", "safetensors", "json"])
def test_the_answer_to_a_post_streams_too(extension: str) -> None:
    ending = "" if extension == "json" else f".{extension}"
    body = {"tensors": {"q": [[0.5, 1, 2, 3]] * 3000}}
    with in_process(settings(stream_bytes=2**40)) as client:
        whole = client.post(f"/v1/apply/rope{ending}", json=body)
    with in_process(settings(stream_bytes=1000)) as client:
        streamed = client.post(f"/v1/apply/rope{ending}", json=body)
        assert "server-timing" not in streamed.headers  # nothing was computed when the header went out
        assert client.resources.budget.in_use == 0
    assert streamed.content == whole.content
    assert streamed.headers["cache-control"] == "no-store"


def test_a_table_that_is_not_finite_is_refused_before_its_first_byte() -> None:
    body = {"tensors": {"q": [[6e4, -6e4]] * 100}}
    with in_process(settings(stream_bytes=1000)) as client:
        assert client.post("/v1/apply/rope?offset=1&dtype=float16", json=body).status_code == 406
        assert client.resources.budget.in_use == 0


def test_a_large_file_streams_in_constant_memory(client: Client) -> None:
    """256 MB of zip: no copy of it anywhere."""
    target = "/v1/encodings/sinusoidal.npz?length=262144&dim=256"

    async def receive() -> tuple[int, int, bytes]:
        grown, size, begin = 0, 0, b""
        async with client.http.stream("GET", target) as reply:
            assert reply.headers["content-length"]
            before = resident()
            async for chunk in reply.aiter_raw():
                begin = begin or chunk[:4]
                size += len(chunk)
                grown = max(grown, resident() - before)
        return size, grown, begin

    if client.transport == "in-process":
        pytest.skip("this transport joins what it receives")
    size, grown, begin = client.run(receive())
    assert size > 262144 * 256 * 4
    assert begin == b"PK\3\4"
    assert grown < 64 * 2**20
    wait_until(lambda: client.resources.budget.in_use == 0)


def test_a_reader_who_leaves_stops_the_work() -> None:
    with TRANSPORTS["server"](settings()) as client, watched("encodings", "sinusoidal") as gate:

        async def leave() -> None:
            async with client.http.stream("GET", LARGE) as reply:
                async for _ in reply.aiter_raw():
                    break

        client.run(leave())
        wait_until(lambda: client.resources.budget.in_use == 0)
        seen = gate.blocks
        assert seen < 200  # of 2,000
        client.run(asyncio.sleep(0.3))
        assert gate.blocks == seen


def test_a_reader_who_leaves_stops_what_comes_before_the_first_byte() -> None:
    """The checksum that heads a zip takes a pass over the rows: 1,900 blocks here."""
    with TRANSPORTS["server"](settings()) as client, watched("encodings", "sinusoidal") as gate:

        async def leave() -> None:
            asking = asyncio.ensure_future(client.http.get(LARGE.replace(".npy", ".npz")))
            while not gate.blocks:
                await asyncio.sleep(0.01)
            asking.cancel()

        client.run(leave())
        wait_until(lambda: client.resources.budget.in_use == 0)
        seen = gate.blocks
        assert seen < 200
        client.run(asyncio.sleep(0.3))
        assert gate.blocks == seen


def test_a_reader_who_pauses_holds_the_work_up() -> None:
    with TRANSPORTS["server"](settings()) as client, watched("encodings", "sinusoidal") as gate:

        async def pause() -> tuple[int, int]:
            async with client.http.stream("GET", LARGE) as reply:
                async for _ in reply.aiter_raw():
                    break
                await asyncio.sleep(1)
                early = gate.blocks
                await asyncio.sleep(0.5)
                return early, gate.blocks

        early, late = client.run(pause())
        assert early == late < 200
        wait_until(lambda: client.resources.budget.in_use == 0)


@pytest.mark.parametrize("when", ["at once", "after the start", "between blocks"])
def test_a_disconnect_is_noticed_in_process(direct: Client, when: str) -> None:
    """The share is given back and no message follows, whenever the client goes."""
    sent: list[MutableMapping[str, Any]] = []
    gone = asyncio.Event()

    received = [{"type": "http.request", "body": b"", "more_body": False}]
    if when == "at once":
        gone.set()

    async def receive() -> dict[str, Any]:
        if received:
            return received.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)
        if len(sent) == (1 if when == "after the start" else 3):
            gone.set()
            await asyncio.sleep(0.05)

    path, query = LARGE.split("?")
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
    "query_string": query.encode(),
             "headers": [], "root_path": "", "scheme": "http", "http_version": "1.1", "client": None, "server": ("a",
             80),
             "asgi": {"version": "3.0"}}  # fmt: skip
    direct.run(direct.app(scope, receive, send))
    assert direct.resources.budget.in_use == 0
    assert len(sent) <= 6
    assert sent[0]["status"] == 200
    assert all(message.get("more_body") for message in sent[1:])


GROWTH = """\
import gc, sys
from tests.api.test_streaming import resident
from tests.clients import TRANSPORTS, settings
ENDINGS = [".npy", ".npz", ".safetensors", "", ".csv"]
LIMIT = 16 * 2**20
with TRANSPORTS[sys.argv[1]](settings(table_cache_bytes=LIMIT, reply_cache_bytes=LIMIT)) as client:
    for number in range(160):
        target = f"/v1/encodings/sinusoidal{ENDINGS[number % 5]}?length=1000&dim=512&base=8{number}"
        assert client.get(target).status_code == 200
        if number == 60:
            gc.collect()
            before = resident()
    gc.collect()
    assert client.resources.replies.held_bytes <= LIMIT
    assert client.resources.tables.held_bytes <= LIMIT
    print(resident() - before)
"""


@pytest.mark.parametrize("transport", list(TRANSPORTS))
def test_memory_does_not_grow_with_the_number_of_answers(transport: str) -> None:
    """S22, shortened: mixed formats, all different, in a process of their own (others leave holes in the heap)."""
    command = [sys.executable, "-W", "error", "-c", GROWTH, transport]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 40 * 2**20


def test_a_streamed_zip_is_whole(client: Client) -> None:
    reply = client.get("/v1/encodings/rope.npz?length=20000&dim=64")
    with zipfile.ZipFile(BytesIO(reply.content)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["cos.npy", "sin.npy", "parameters.json"]


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_a_client_of_http_1_0_gets_no_chunks(method: bytes) -> None:
    """The length of JSON is not known when it begins: the body ends with the connection."""
    target = f"/v1/encodings/sinusoidal?{TABLE}"
    chosen = settings(port=0, stream_bytes=1000, reply_cache_bytes=0)
    with in_process(chosen) as client:
        whole = client.get(target).content
    with live(create_app(chosen), chosen) as server, Connection(server.port) as connection:
        connection.send(method + b" " + target.encode() + b" HTTP/1.0\r\n\r\n")
        head, _, body = connection.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert body == (whole if method == b"GET" else b"")


def test_the_next_block_begins_before_this_one_is_sent() -> None:
    """Sending does not let go of the event loop while the socket takes all: what was only scheduled would not begin."""
    begun = Event()

    def chunks() -> Iterator[bytes]:
        yield b"first"
        begun.set()
        yield b"second"

    async def send(message: MutableMapping[str, Any]) -> None:
        if message.get("body") == b"first":
            assert begun.wait(10)
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    sent: list[MutableMapping[str, Any]] = []
    with in_process(settings()) as client:
        share = Share(client.resources.budget)
        answer = Streamed(200, [], chunks(), share, client.resources, Timing("encodings"))
        asyncio.run(answer({"type": "http", "method": "GET"}, receive, send))
    assert [message.get("body") for message in sent] == [None, b"first", b"second", b""]
