"""The cache of finished replies: bounded by bytes, not emptied by a scan, and removable."""

import asyncio
from collections.abc import MutableMapping
from random import Random
from typing import Any

import pytest

from service.api.problems import Problem, problem_from
from service.api.reply_cache import ENTRY_BYTES, MOST_ALIASES, Address, Head, Reply, ReplyCache
from tests.api.requests import GETS_IN_EVERY_FORMAT, Asked
from tests.clients import Client, in_process, settings

KIB = 1024
# What an answer of an eighth of the cache has to be used to stay there.
OFTEN = 4
FRESH = b'etag: "t"\r\ncache-control: public, max-age=3600\r\n'
PINNED = b'etag: "t"\r\ncache-control: public, max-age=31536000, immutable\r\n'


def reply(size: int) -> Reply:
    """One that is counted as so many bytes, but for the length of its request."""
    return Reply('"t"', b"vary: x\r\n", b"length: 3\r\n", b"length: ?\r\n", (bytes(size - ENTRY_BYTES),))


def heads() -> Reply:
    """One of which only HEAD and 304 are known."""
    return Reply('"t"', b"vary: x\r\n", b"length: 3\r\n", b"length: ?\r\n", None)


def at(name: bytes, path: bytes = b"/") -> Address:
    return path + name


def test_the_longest_unused_goes_first() -> None:
    cache = ReplyCache(80 * KIB)
    for name in (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i"):
        cache.keep(name, reply(9 * KIB))
        cache.alias(name, at(name), pinned=False)
        assert cache.held_bytes <= 80 * KIB
        cache.by_request(b"a")
    assert cache.by_request(b"a") is not None
    assert cache.by_address(at(b"a")) == (cache.by_request(b"a"), False)
    assert cache.by_request(b"b") is None
    assert cache.by_address(at(b"b")) is None
    cache.by_address(at(b"c"))
    cache.keep(b"j", reply(9 * KIB))
    assert cache.by_request(b"c") is not None
    assert cache.by_request(b"d") is None


def test_a_scan_leaves_what_is_used_again() -> None:
    """Six answers that are used, then a thousand that nobody asks for twice, each larger than what is free."""
    cache = ReplyCache(80 * KIB)
    used = [b"a", b"b", b"c", b"d", b"e", b"f"]
    for name in used:
        cache.keep(name, reply(9 * KIB))
        cache.alias(name, at(name), pinned=True)
        for _ in range(OFTEN):
            cache.by_address(at(name))
    for number in range(1000):
        cache.keep(b"%d" % number, reply(9 * KIB))
        assert cache.held_bytes <= 80 * KIB
    assert [cache.by_address(at(name)) is not None for name in used] == [True] * 6
    assert [cache.by_request(b"%d" % number) is not None for number in range(990, 1000)] == [False] * 8 + [True] * 2


def test_the_larger_has_to_be_used_the_more_often() -> None:
    """Ten small answers that are used once, then twenty of an eighth of the cache that are used three times each."""
    cache = ReplyCache(80 * KIB)
    small = [b"small %d" % number for number in range(10)]
    for name in small:
        cache.keep(name, reply(ENTRY_BYTES + 100))
        cache.by_request(name)
    for number in range(20):
        cache.keep(b"%d" % number, reply(9 * KIB))
        for _ in range(OFTEN - 1):
            assert cache.by_request(b"%d" % number) is not None
    assert [name for name in small if cache.by_request(name) is None] == []
    assert cache.by_request(b"19") is not None
    for number in range(20, 30):
        cache.keep(b"%d" % number, reply(9 * KIB))
    assert cache.by_request(b"19") is not None


def test_what_is_used_no_more_makes_room_for_what_is() -> None:
    """Of ten answers used again, three quarters of the bytes hold the last six; the others wait among the new."""
    cache = ReplyCache(80 * KIB)
    for number in range(10):
        cache.keep(b"%d" % number, reply(9 * KIB))
        for _ in range(OFTEN):
            cache.by_request(b"%d" % number)
    for number in range(100, 110):
        cache.keep(b"%d" % number, reply(9 * KIB))
    kept = [number for number in range(10) if cache.by_request(b"%d" % number) is not None]
    assert kept == [4, 5, 6, 7, 8, 9]
    assert cache.held_bytes <= 80 * KIB


def test_the_bytes_add_up_whatever_comes() -> None:
    cache, random = ReplyCache(80 * KIB), Random(7)
    for _ in range(3000):
        name = b"%d" % random.randrange(30)
        match random.randrange(4):
            case 0:
                cache.keep(name, reply(ENTRY_BYTES + random.randrange(4 * KIB)))
            case 1:
                cache.keep(name, heads())
            case 2:
                cache.alias(name, at(name, b"/" * random.randrange(99)), pinned=False)
            case _:
                cache.by_request(name)
        held = [each for queue in (cache._new, cache._again) for each in queue.values()]
        assert sum(each.cost for each in held) == cache.held_bytes <= 80 * KIB
        assert sum(each.cost for each in cache._again.values()) == cache._again_bytes <= 60 * KIB
        assert set(cache._requests) == {address for each in held for address in each.addresses}


def test_what_is_too_large_for_an_eighth_is_not_kept() -> None:
    cache = ReplyCache(80 * KIB)
    assert cache.largest == 10 * KIB
    cache.keep(b"a", reply(10 * KIB - 1))
    cache.keep(b"b", reply(10 * KIB))
    assert cache.by_request(b"a") is not None
    assert cache.by_request(b"b") is None
    cache.alias(b"b", at(b""), pinned=False)
    assert cache.by_address(at(b"")) is None
    assert cache.held_bytes == 10 * KIB


def test_a_body_takes_the_place_of_what_was_known_without_it() -> None:
    cache = ReplyCache(80 * KIB)
    cache.keep(b"a", heads())
    cache.alias(b"a", at(b"a"), pinned=False)
    found = cache.by_address(at(b"a"))
    assert found is not None
    assert found[0].to("GET", None, pinned=False) is None
    assert found[0].to("HEAD", None, pinned=False) == (Head(200, FRESH + b"vary: x\r\nlength: ?\r\n"), ())
    assert found[0].to("GET", b"*", pinned=True) == (Head(304, PINNED + b"vary: x\r\n"), ())
    with_body = reply(ENTRY_BYTES + 3)
    cache.keep(b"a", with_body)
    cache.keep(b"a", heads())
    assert cache.by_address(at(b"a")) is None
    assert cache.by_request(b"a") is with_body
    assert with_body.to("GET", b'"u"', pinned=False) == (
        Head(200, FRESH + b"vary: x\r\nlength: 3\r\n"),
        (bytes(3),),
    )
    assert cache.held_bytes == ENTRY_BYTES + 4


def test_spellings_are_counted_and_few_and_the_longest_unused_goes() -> None:
    cache = ReplyCache(80 * KIB)
    cache.keep(b"a", reply(7 * KIB))
    first = cache.by_request(b"a")
    before = cache.held_bytes
    addresses = [at(b"%03d" % number, b"/path") for number in range(2 * MOST_ALIASES)]
    popular = at(b"1", b"/popular")
    coded: Address = (b"/in-gzip", "gzip")
    for address in (popular, *addresses):
        cache.alias(b"a", address, pinned=False)
        assert cache.by_address(popular) == (first, False)
    assert [cache.by_address(address) == (first, False) for address in addresses] == (
        [False] * (MOST_ALIASES + 1) + [True] * (MOST_ALIASES - 1)
    )
    assert cache.held_bytes == before + MOST_ALIASES * 8 + 1
    cache.alias(b"a", addresses[-1], pinned=False)
    cache.keep(b"a", reply(8 * KIB))
    assert cache.by_request(b"a") is first
    assert cache.held_bytes == before + MOST_ALIASES * 8 + 1
    cache.alias(b"a", coded, pinned=False)
    assert cache.held_bytes == before + MOST_ALIASES * 8
    assert [cache.by_address(popular), cache.by_address(coded)] == [None, (first, False)]


def test_long_spellings_push_out_what_is_old() -> None:
    cache = ReplyCache(80 * KIB)
    for number in range(9):
        cache.keep(b"%d" % number, reply(8 * KIB))
    assert cache.by_request(b"0") is not None
    for number in range(MOST_ALIASES):
        cache.alias(b"0", at(b"%d" % number, b"/" * 4000), pinned=False)
    assert cache.held_bytes <= 80 * KIB
    assert cache.by_request(b"1") is None
    assert cache.by_request(b"0") is not None


@pytest.mark.parametrize("asked", GETS_IN_EVERY_FORMAT, ids=str)
def test_without_caches_the_answers_are_the_same(direct: Client, uncached: Client, asked: Asked) -> None:
    for _ in range(2):
        plain, cached = uncached.get(asked.target), direct.get(asked.target)
        if plain.status_code == 406:
            continue
        assert plain.content == cached.content
        unlike = {"x-request-id", "server-timing"}
        shown = [{key: value for key, value in each.headers.items() if key not in unlike} for each in (plain, cached)]
        assert shown[0] == shown[1]
    assert uncached.resources.replies.held_bytes == uncached.resources.tables.held_bytes == 0


@pytest.fixture(scope="module")
def uncached() -> Any:
    with in_process(settings(reply_cache_bytes=0, table_cache_bytes=0)) as client:
        yield client


def test_what_was_asked_before_does_not_show(direct: Client) -> None:
    """Rows from the table cache are the rows that would be computed: longer, shorter, shifted and overlapping."""
    target = "/v1/encodings/sinusoidal.bin?dim=24&base=4242&length={}&offset={}"
    whole = direct.get(target.format(3000, 0)).content
    for length, offset in ((10, 0), (2000, 500), (1, 2999), (700, 300), (2500, 250)):
        part = direct.get(target.format(length, offset)).content
        assert part == whole[offset * 96 : (offset + length) * 96]
    with in_process(settings(table_cache_bytes=0)) as alone:
        assert alone.get(target.format(700, 300)).content == whole[300 * 96 : 1000 * 96]


def test_a_problem_stays_below_8_kilobytes() -> None:
    faults = [{"parameter": f"p{number}", "code": "x", "detail": "d" * 900} for number in range(30)]
    body = Problem("invalid-parameters", "e" * 2000, faults).body("id")
    assert 2000 < len(body) <= 8192
    assert body.count(b'"code"') == 5
    assert len(Problem("invalid-parameters", "e", [{"detail": "d" * 9000}]).body("id")) < 300


def test_other_exceptions_are_nobodys_refusal() -> None:
    assert problem_from(ValueError("x")) is None


def test_a_client_that_leaves_while_sending_is_answered_to_nobody(direct: Client) -> None:
    sent: list[MutableMapping[str, Any]] = []
    parts: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": b'{"pos', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(0)
        return parts.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/encodings/sinusoidal", "query_string": b"dim=4",
    "root_path": "",
             "headers": [(b"content-type", b"application/json")], "scheme": "http", "server": None, "client": None,
             "asgi": {"version": "3.0"}, "http_version": "1.1"}  # fmt: skip
    direct.run(direct.app(scope, receive, send))
    assert sent[0]["status"] == 400
    assert direct.resources.budget.in_use == 0
