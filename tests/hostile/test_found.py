"""What hostile input found, each by name: it stays mended."""

import asyncio
import io
import json

import numpy as np
import pytest

from service.formats.errors import Unreadable
from service.formats.npy import MAGIC, header, read_npy
from service.main import create_app
from tests.api.problems import refused
from tests.clients import Client, settings
from tests.hostile import rfc9112
from tests.hostile.wire import HIDDEN, TABLE, talk
from tests.live import live, wait_until

HEAD = header((2,), "float32")
LAST = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def asked(*fields: bytes, line: bytes = b"GET " + TABLE + b" HTTP/1.1") -> bytes:
    return b"\r\n".join((line, b"Host: x", *fields)) + b"\r\n\r\n"


CODED = b"Transfer-Encoding: "
# Bytes for a connection, and the statuses of what comes back before it is closed.
CONNECTIONS: dict[str, tuple[bytes, list[int]]] = {
    "a coding before chunked": (asked(CODED + b"gzip, chunked") + b"0\r\n\r\n" + LAST, [400]),
    "two codings in two lines": (asked(CODED + b"identity", CODED + b"chunked") + b"0\r\n\r\n" + LAST, [400]),
    "chunks in HTTP/1.0": (asked(CODED + b"chunked", line=b"POST / HTTP/1.0") + b"0\r\n\r\n" + LAST, [400]),
    "HTTP/0.9 with a version": (asked(line=b"GET " + TABLE + b" HTTP/0.9") + LAST, [400]),
    "HTTP/2.0 in words": (asked(line=b"GET " + TABLE + b" HTTP/2.0") + LAST, [400]),
    "an upgrade that is also the end": (asked(b"Connection: Upgrade, close", b"Upgrade: h2c") + LAST, [200]),
    "an upgrade in HTTP/1.0": (
        asked(b"Connection: Upgrade", b"Upgrade: h2c", line=b"GET " + TABLE + b" HTTP/1.0") + LAST,
        [200],
    ),
    "an end with a request behind it": (asked(b"Connection: close") + HIDDEN, [200]),
    "HEAD that is refused unread": (asked(line=b"HEAD ../x HTTP/1.1") + LAST, [400]),
    "HEAD with a field too many": (asked(b"Host: y", line=b"HEAD " + TABLE + b" HTTP/1.1") + LAST, [400]),
    "a continuation for HTTP/1.0": (
        asked(b"Expect: 100-continue", b"Content-Length: 2", line=b"POST /v1/models/resolve HTTP/1.0") + b"{}", [415],
    ),
    "a length with a space behind it": (asked(b"Content-Length: 0 ") + LAST, [200, 200]),
    "a body that never comes": (asked(b"Content-Length: 5"), [400]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONNECTIONS)
def test_connection(name: str) -> None:
    data, statuses = CONNECTIONS[name]
    chosen = settings(port=0, body_idle_seconds=0.3, header_seconds=5)
    with live(create_app(chosen), chosen) as server:
        said = asyncio.run(talk(server.port, data))
        wait_until(lambda: not server.server_state.connections)
    methods = [b"HEAD"] if data.startswith(b"HEAD") else []
    answers = rfc9112.answers(said, methods)
    assert [int(each.start[0]) for each in answers] == statuses
    assert b" 100 " not in said
    assert name == "a body that never comes" or answers[-1].closes


FILES = {
    "a no-break space behind the header": HEAD[:80] + b"\xc2\xa0" + HEAD[82:],
    "a comment that is not UTF-8": HEAD[:80] + b"#\xe0" + HEAD[82:],
    "a line that begins with a space": HEAD[:-2] + b"\n ",
}


@pytest.mark.parametrize("name", FILES)
def test_npy(name: str) -> None:
    """In version 3.0, whose header is UTF-8. NumPy refuses them too."""
    text = FILES[name][10:]
    body = MAGIC + bytes((3, 0)) + len(text).to_bytes(4, "little") + text + np.ones(2, np.float32).tobytes()
    with pytest.raises(Unreadable):
        read_npy(body)
    with pytest.raises(ValueError):  # noqa: PT011 - its words are its own
        np.load(io.BytesIO(body), allow_pickle=False)


RANGES: dict[str, tuple[str, int]] = {
    "a space within a number": ("bytes=1 0-2 0", 200),
    "spaces around the dash": ("bytes=1 - 2", 200),
    "a list of one with empty members": ("bytes=,0-9,", 206),
    "a beginning of five thousand digits": ("bytes=" + "9" * 5000 + "-", 416),
    "an end before the beginning, both beyond all sizes": ("bytes=" + "9" * 30 + "-" + "9" * 29, 200),
}


@pytest.mark.parametrize("name", RANGES)
def test_range(direct: Client, name: str) -> None:
    value, status = RANGES[name]
    assert direct.get(TABLE.decode(), headers={"range": value}).status_code == status


def test_two_ranges_in_two_fields(direct: Client) -> None:
    reply = direct.get(TABLE.decode(), headers=[("range", "bytes=0-1"), ("range", "bytes=3-4")])
    assert reply.status_code == 200


@pytest.mark.parametrize(
    ("value", "status"),
    [("*", 200), ("{}", 200), ('"x", {}', 200), ("W/{}", 412), ('"x"', 412), ("x", 412), ("{} x", 412), ("", 412)],
)
@pytest.mark.parametrize("target", [TABLE.decode(), "/v1/schemes/alibi-slopes", "/openapi.json"])
def test_if_match(direct: Client, target: str, value: str, status: int) -> None:
    """It was ignored. Asked twice, because a repeated answer takes a shorter way."""
    tag = direct.get(target).headers["etag"]
    for _ in range(2):
        reply = direct.get(target, headers={"if-match": value.format(tag)})
        assert reply.status_code == status
        if status == 412:
            refused(reply, "precondition-failed")


def test_a_tag_in_what_is_no_list(direct: Client) -> None:
    tag = direct.get(TABLE.decode()).headers["etag"]
    for _ in range(2):
        assert direct.get(TABLE.decode(), headers={"if-none-match": f"{tag}, x"}).status_code == 200


def test_a_fault_in_a_bundle_has_one_place(direct: Client) -> None:
    reply = direct.post("/v1/bundle.npz", json={"a": "/v1/biases/alibi-slopes?heads=8&dtype=bfloat16"})
    (fault,) = refused(reply, "not-acceptable")["errors"]
    assert fault["pointer"] == "/a"


# Four bytes and less of a body must not become a hundred in the memory of the server.
FLOODS = {
    "a parameter of a million values": ("length", "INT8", 1_000_000, bytes(1_000_000), "at most 512 are read"),
    "two million empty strings": ("dtype", "BYTES", 2_000_000, bytes(8_000_000), "at most 1048576 are read"),
    "more strings than the shape says": ("dtype", "BYTES", 1, bytes(8_000_000), "the shape [1] has 1"),
}


@pytest.mark.parametrize("name", FLOODS)
def test_inference(direct: Client, name: str) -> None:
    key, datatype, count, data, said = FLOODS[name]
    given = {"name": key, "shape": [count], "datatype": datatype, "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [given]}).encode()
    fields = {"inference-header-content-length": str(len(head))}
    reply = direct.post("/v2/models/encodings.rope/infer", content=head + data, headers=fields)
    assert reply.status_code in (400, 422)
    assert said in reply.json()["error"]
