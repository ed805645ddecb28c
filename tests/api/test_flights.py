"""Answers that are made once for everyone who asks meanwhile, sent in blocks, and kept."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from service.api.flights import Flight, next_block
from service.api.wanted import BLOCK_FACTOR
from service.formats.format import BLOCK_BYTES
from tests.api.gates import watched
from tests.api.problems import refused
from tests.clients import TRANSPORTS, Call, Client, in_process, settings
from tests.live import wait_until

TABLE = "/v1/encodings/sinusoidal.npy?length=3000&dim=64"


@pytest.fixture(scope="module", params=list(TRANSPORTS))
def streaming(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Every answer above 1,000 bytes goes out in blocks, and finds a place in the cache."""
    with TRANSPORTS[request.param](settings(stream_bytes=1000, table_cache_bytes=0)) as client:
        yield client


def test_everyone_gets_every_block() -> None:
    async def gather() -> list[list[bytes]]:
        flight = Flight()
        flight.add(b"a")

        async def follow() -> list[bytes]:
            return [block async for block in flight.follow()]

        early = asyncio.ensure_future(follow())
        await asyncio.sleep(0)
        flight.add(b"b")
        flight.add(b"c")
        await asyncio.sleep(0)
        late = asyncio.ensure_future(follow())
        await asyncio.sleep(0)
        flight.end()
        assert await flight.whole() == (b"a", b"b", b"c")
        await flight.begun()
        return [await early, await late, await follow()]

    assert asyncio.run(gather()) == [[b"a", b"b", b"c"]] * 3


def test_an_error_reaches_everyone_where_it_happened() -> None:
    async def fail(blocks: list[bytes]) -> list[str]:
        flight = Flight()
        for block in blocks:
            flight.add(block)
        flight.end(ValueError("late"))
        raised = []

        async def follow() -> None:
            async for _ in flight.follow():
                pass

        for work in (flight.begun, flight.whole, follow):
            try:
                await work()
            except ValueError:
                raised.append(work.__name__)
        return raised

    assert asyncio.run(fail([])) == ["begun", "whole", "follow"]
    assert asyncio.run(fail([b"a"])) == ["whole", "follow"]


def test_blocks_are_bytes_of_their_own() -> None:
    source = bytearray(b"abc")
    take = next_block(iter([memoryview(source), b"", b"d"]))
    first = take()
    source[0] = 0
    assert [first, take(), take(), take()] == [b"abc", b"", b"d", None]


def test_a_large_table_is_computed_once_and_kept(streaming: Client) -> None:
    target = f"{TABLE}&base=81"
    calls: list[Call] = [("GET", each, {}) for each in (target, target + "&revision=1") for _ in range(20)]
    with watched("encodings", "sinusoidal") as gate:
        gate.shut()
        streaming.loop.call_soon_threadsafe(streaming.loop.call_later, 0.5, gate.open)
        replies = streaming.together(calls)
        wait_until(lambda: streaming.resources.under_way == {})
        again = [streaming.get(target), streaming.get(target + "&revision=1")]
        assert gate.prepared == 1
    assert len({reply.content for reply in replies + again}) == 1
    assert len(again[0].content) == 128 + 3000 * 64 * 4
    assert [reply.headers["cache-control"] for reply in again] == [
        "public, max-age=3600",
        "public, max-age=31536000, immutable",
    ]
    assert len({reply.headers["etag"] for reply in replies + again}) == 1
    wait_until(lambda: streaming.resources.budget.in_use == 0)
    assert streaming.resources.tasks == set()


def test_pinned_and_unpinned_are_one_entry(direct: Client) -> None:
    target = f"{TABLE}&base=82"
    direct.get(target)
    held = direct.resources.replies.held_bytes
    direct.get(target + "&revision=1")
    assert direct.resources.replies.held_bytes - held < 200  # an address


def test_a_failure_before_the_first_block_is_a_refusal(streaming: Client) -> None:
    with watched("encodings", "sinusoidal") as gate:
        gate.failing = True
        refused(streaming.get(f"{TABLE}&base=84"), "internal-error")
        gate.failing = False
        assert streaming.get(f"{TABLE}&base=84").status_code == 200
    wait_until(lambda: streaming.resources.budget.in_use == 0)


def test_what_has_no_place_in_memory_now_is_sent_in_blocks() -> None:
    """3 MB do not fit beside a block of rows and 2 MB: nothing is kept, and nothing refused."""
    with in_process(settings(stream_bytes=1000)) as client:
        whole = client.get(TABLE.replace("3000", "12000")).content
        held = client.resources.replies.held_bytes
    with in_process(settings(stream_bytes=1000, memory_bytes=BLOCK_FACTOR * BLOCK_BYTES + 2 * 2**20)) as client:
        reply = client.get(TABLE.replace("3000", "12000"))
        assert reply.status_code == 200
        assert reply.content == whole
        assert client.resources.replies.held_bytes < held - len(whole) // 2
        head = client.head(TABLE.replace("3000", "12000"))
        assert head.headers["content-length"] == str(len(whole))


def test_what_is_not_kept_is_computed_once_where_its_table_is() -> None:
    """Answers too large for the cache of replies are sent to each who asks; their rows are computed for the first."""
    target = TABLE.replace("3000", "30000")
    for tables, times in ((64 << 20, 1), (8 << 20, 4)):
        with (
            in_process(settings(stream_bytes=1000, reply_cache_bytes=1 << 20, table_cache_bytes=tables)) as client,
            watched("encodings", "sinusoidal") as gate,
        ):
            client.get(f"{target}&base=86")
            alone, gate.blocks = gate.blocks, 0
            bodies = {reply.content for reply in client.together([("GET", f"{target}&base=87", {})] * 4)}
            assert gate.blocks == times * alone
            assert (len(bodies), client.resources.gate.meters.joined) == (1, 0)


def test_head_and_304_of_what_is_not_here_are_answered_before_routing(direct: Client) -> None:
    large: list[tuple[str, dict[str, Any]]] = [("HEAD", {}), ("GET", {"headers": {"if-none-match": "*"}})]
    gate = direct.resources.gate
    for number, (method, options) in enumerate(large):
        target = f"{TABLE.replace('3000', '2097152')}&base=85{number}"
        before = gate.counts
        replies = [direct.request(method, target, **options) for _ in range(3)]
        status = 200 if method == "HEAD" else 304
        assert gate.counts - before == {("made", status): 1, ("repeated", status): 2}
        assert [reply.content for reply in replies] == [b""] * 3
        unlike = {"x-request-id"}
        shown = [{key: each.headers[key] for key in each.headers if key not in unlike} for each in replies]
        assert shown[0] == shown[1] == shown[2]
