"""gzip for text that gains by it: negotiated, decoded to the same bytes, made once, off the event loop."""

import asyncio
import gzip
import json

import httpx
import pytest

from service.api.codings import accepted, gzipped
from service.engine import SCHEMES
from tests.api.gates import watched
from tests.api.test_conditional import idle
from tests.clients import Client

TABLE = "/v1/encodings/sinusoidal?length=300&dim=16&base=901"
PLAIN = {"accept-encoding": "identity"}
CODED = {"accept-encoding": "gzip"}


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        (None, "identity"),
        (b"", "identity"),
        (b"gzip", "gzip"),
        (b"GZip", "gzip"),
        (b"x-gzip", "gzip"),
        (b"br, gzip;q=0.2", "gzip"),
        (b"gzip;q=0", "identity"),
        (b"gzip;q=0.000", "identity"),
        (b"gzip ; q=1", "gzip"),
        (b"*", "gzip"),
        (b"*;q=0", "identity"),
        (b"gzip;q=0, *", "identity"),
        (b"gzip;q=0.5, identity;q=0.6", "identity"),
        (b"identity;q=0.5, gzip", "gzip"),
        (b"identity;q=0, *;q=0.1", "gzip"),
        (b"gzip;q=2", "identity"),
        (b"gzip;q=nan", "identity"),
        (b"gzip;q=x", "identity"),
        (b"gzip;level=1", "identity"),
        (b"gzipped", "identity"),
        (b"deflate, br, zstd", "identity"),
        (b", ,gzip,", "gzip"),
        (b"br," * 200 + b"gzip", "gzip"),
    ],
)
def test_what_is_accepted(header: bytes | None, coding: str) -> None:
    assert accepted(header) == coding


def test_blocks_are_coded_as_one() -> None:
    blocks: list[bytes | memoryview] = [b"", b"abc" * 1000, b"", memoryview(b"def" * 1000)]
    coded = b"".join(gzipped(iter(blocks)))
    assert gzip.decompress(coded) == b"abc" * 1000 + b"def" * 1000
    assert coded == b"".join(gzipped([b"abc" * 1000 + b"def" * 1000]))
    assert len(coded) < 200


@pytest.mark.parametrize("extension", ["", ".csv"])
def test_text_is_coded_for_those_who_take_it(client: Client, extension: str) -> None:
    target = TABLE.replace("?", extension + "?")
    plain, coded = client.get(target, headers=PLAIN), client.get(target, headers=CODED)
    assert coded.content == plain.content
    assert coded.headers["content-encoding"] == "gzip"
    assert int(coded.headers["content-length"]) < int(plain.headers["content-length"]) // 2
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == coded.headers["vary"] == "Accept-Encoding"
    assert plain.headers["etag"] != coded.headers["etag"]
    for reply, headers in ((plain, PLAIN), (coded, CODED)):
        again = client.get(target, headers=headers | {"if-none-match": reply.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == reply.headers["etag"]
        assert again.headers["vary"] == "Accept-Encoding"
    assert client.get(target, headers=CODED | {"if-none-match": plain.headers["etag"]}).status_code == 200


def test_head_says_what_get_would_and_codes_nothing(client: Client) -> None:
    target = TABLE + "&offset=1"
    with idle(*SCHEMES):
        heads = [client.head(target, headers=headers) for headers in (PLAIN, CODED)]
    gets = [client.get(target, headers=headers) for headers in (PLAIN, CODED)]
    unlike = {"content-length", "server-timing", "date", "x-request-id"}
    for head, get in zip(heads, gets, strict=True):
        shown = [{key: each.headers[key] for key in each.headers if key not in unlike} for each in (head, get)]
        assert shown[0] == shown[1]


@pytest.mark.parametrize(
    "target", ["/v1/encodings/sinusoidal?length=2&dim=4", TABLE.replace("?", ".npy?"), "/health/live"]
)
def test_what_would_not_gain_is_sent_as_it_is(client: Client, target: str) -> None:
    reply = client.get(target, headers=CODED)
    assert reply.status_code == 200
    assert "content-encoding" not in reply.headers
    assert "vary" not in reply.headers


def test_the_coded_form_of_a_known_answer_is_not_computed_anew(direct: Client) -> None:
    target = TABLE + "&offset=2"
    plain = direct.get(target, headers=PLAIN)
    with idle(*SCHEMES):
        coded = direct.get(target, headers=CODED)
        again = direct.get(target, headers=CODED)
    assert coded.headers["content-encoding"] == again.headers["content-encoding"] == "gzip"
    assert coded.content == again.content == plain.content
    assert "server-timing" not in again.headers


def test_the_answer_to_a_post_is_coded_too(client: Client) -> None:
    body = {"tensors": {"q": [[0.5, 1, 2, 3]] * 400}}
    plain, coded = (client.post("/v1/apply/rope", json=body, headers=each) for each in (PLAIN, CODED))
    assert coded.headers["content-encoding"] == "gzip"
    assert coded.content == plain.content
    assert plain.headers["vary"] == coded.headers["vary"] == "Accept-Encoding"


def test_twenty_megabytes(client: Client) -> None:
    """S17: streamed, decoded to the same; HEAD agrees; the same as npy is not coded."""
    target = "/v1/encodings/sinusoidal?length=8000&dim=256&base=902"
    plain, coded = client.get(target, headers=PLAIN), client.get(target, headers=CODED)
    head = client.head(target, headers=CODED)
    assert len(plain.content) > 20e6
    assert coded.content == plain.content
    assert coded.headers["content-encoding"] == head.headers["content-encoding"] == "gzip"
    assert coded.headers["etag"] == head.headers["etag"] != plain.headers["etag"]
    assert head.content == b""
    data = json.loads(coded.content)["tensors"]["encoding"]
    assert data["shape"] == [8000, 256]
    assert data["data"][0][:2] == [0, 1]
    binary = client.get(target.replace("?", ".npy?"), headers=CODED)
    assert "content-encoding" not in binary.headers
    assert len(binary.content) == 128 + 8000 * 256 * 4


def test_health_answers_while_text_is_coded(client: Client) -> None:
    """S16 and S17 together: the work pool codes, so that the event loop turns."""

    async def raw(target: str) -> tuple[int, int]:
        async with client.http.stream("GET", target, headers=CODED) as reply:
            return reply.status_code, sum([len(part) async for part in reply.aiter_raw()])

    async def measure() -> tuple[int, list[tuple[int, int]]]:
        targets = [f"/v1/encodings/sinusoidal?length=2000&dim=512&base=91{number}" for number in range(4)]
        work = [asyncio.ensure_future(raw(target)) for target in targets]
        answered = 0
        while not all(task.done() for task in work):
            reply: httpx.Response = await client.http.get("/health/live")
            answered += reply.status_code == 200
            await asyncio.sleep(0.001)
        return answered, [task.result() for task in work]

    with watched("encodings", "sinusoidal") as gate:
        answered, found = client.run(measure())
        assert all(name.startswith("work") for name in gate.threads)
    assert {status for status, _ in found} == {200}
    assert all(2e6 < size < 8e6 for _, size in found)
    assert answered > 8
