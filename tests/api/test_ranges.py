"""Range and If-Range (RFC 9110, 14): single windows of files, computed without the rest."""

from itertools import pairwise
from typing import Any

import pytest

from service.api.caching import byte_range
from tests.api.problems import refused
from tests.api.requests import GETS_IN_EVERY_FORMAT, Asked
from tests.clients import Client

FILES = [asked for asked in GETS_IN_EVERY_FORMAT if asked.extension in ("npy", "npz", "safetensors", "bin")]
SIZE = 384
TARGET = "/v1/encodings/rope.npy?length=4&dim=8"
WINDOWS = [
    ("bytes=0-0", 0, 1),
    ("bytes=10-99", 10, 100),
    ("bytes=10-", 10, SIZE),
    ("bytes=-10", SIZE - 10, SIZE),
    ("bytes=-9999", 0, SIZE),
    ("bytes=383-383", 383, 384),
    (f"bytes=100-{'9' * 40}", 100, SIZE),
    ("Bytes=5-6", 5, 7),
    ("bytes= 5-6", 5, 7),
]
WHOLE = ["bytes=0-1,5-6", "bytes=-", "bytes=", "bytes=9-5", "items=0-1", "bytes=a-b", "bytes=0-1x", "0-1", "",
         "bytes=+1-2", "bytes=1-2-3", "bytes=٣-٤", "bytes=0x0-0x1"]  # fmt: skip
OUTSIDE = ["bytes=384-", "bytes=384-400", "bytes=-0", "bytes=9999999999999-"]


@pytest.mark.parametrize(("given", "start", "stop"), WINDOWS)
def test_a_window_is_answered_alone(client: Client, given: str, start: int, stop: int) -> None:
    whole = client.get(TARGET)
    assert len(whole.content) == SIZE
    part = client.get(TARGET, headers={"range": given})
    assert part.status_code == 206
    assert part.content == whole.content[start:stop]
    assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{SIZE}"
    assert part.headers["content-length"] == str(stop - start)
    same = ("etag", "cache-control", "content-type", "accept-ranges", "content-disposition", "array-shape")
    assert [part.headers[name] for name in same] == [whole.headers[name] for name in same]


@pytest.mark.parametrize("given", WHOLE)
def test_what_is_no_single_range_is_answered_whole(client: Client, given: str) -> None:
    reply = client.get(TARGET, headers={"range": given.encode()})
    assert reply.status_code == 200
    assert len(reply.content) == SIZE
    assert "content-range" not in reply.headers


@pytest.mark.parametrize("given", OUTSIDE)
def test_a_range_outside_says_the_size(client: Client, given: str) -> None:
    reply = client.get(TARGET, headers={"range": given})
    refused(reply, "range-not-satisfiable")
    assert reply.headers["content-range"] == f"bytes */{SIZE}"


def test_if_range_is_compared_strongly(client: Client) -> None:
    tag = client.head(TARGET).headers["etag"]
    given = {"range": "bytes=1-4"}
    assert client.get(TARGET, headers={**given, "if-range": tag}).status_code == 206
    for other in (f"W/{tag}", '"x"', "Wed, 21 Oct 2015 07:28:00 GMT", "", f"{tag}, {tag}"):
        reply = client.get(TARGET, headers={**given, "if-range": other})
        assert (reply.status_code, len(reply.content)) == (200, SIZE)


def test_a_known_tag_comes_before_a_range(client: Client) -> None:
    tag = client.head(TARGET).headers["etag"]
    reply = client.get(TARGET, headers={"range": "bytes=1-4", "if-none-match": tag})
    assert (reply.status_code, reply.content) == (304, b"")


def test_head_has_no_ranges(client: Client) -> None:
    reply = client.head(TARGET, headers={"range": "bytes=1-4"})
    assert (reply.status_code, reply.headers["content-length"]) == (200, str(SIZE))


@pytest.mark.parametrize("ending", ["", ".csv"])
def test_text_has_no_ranges(client: Client, ending: str) -> None:
    reply = client.get(f"/v1/encodings/sinusoidal{ending}?length=2&dim=4", headers={"range": "bytes=0-1"})
    assert reply.status_code == 200
    assert len(reply.content) > 2


@pytest.mark.parametrize("asked", FILES, ids=str)
def test_the_parts_of_every_file_make_the_whole(direct: Client, asked: Asked) -> None:
    whole = direct.get(asked.target)
    if whole.status_code == 406:
        return
    size = len(whole.content)
    cuts = sorted({0, 1, size // 3, size // 2, size - 1, size})
    parts = [direct.get(asked.target, headers={"range": f"bytes={start}-{stop - 1}"}) for start, stop in pairwise(cuts)]
    assert all(part.status_code == 206 for part in parts)
    assert b"".join(part.content for part in parts) == whole.content


def test_a_window_of_a_large_file_computes_its_rows_only(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last 100 bytes of 8 GB: one row of it."""
    tables = client.resources.tables
    asked: list[int] = []
    rows = tables.rows

    def counted(call: Any, tensor: str, start: int, stop: int) -> Any:
        asked.append(stop - start)
        return rows(call, tensor, start, stop)

    monkeypatch.setattr(tables, "rows", counted, raising=False)
    reply = client.get("/v1/encodings/sinusoidal.npy?length=8000000&dim=256", headers={"range": "bytes=-100"})
    assert reply.status_code == 206
    assert reply.headers["content-range"] == f"bytes {8_192_000_128 - 100}-{8_192_000_127}/{8_192_000_128}"
    assert asked == [1]


@pytest.mark.parametrize("given", ["bytes=0-9", "bytes=-22", "bytes=100000-100099"])
def test_a_window_that_would_cost_all_is_answered_whole(client: Client, given: str) -> None:
    """The headers and the directory of an npz hold checksums of everything; above 4 MiB it has no windows."""
    largest, larger = (f"/v1/encodings/sinusoidal.npz?length={length}&dim=128" for length in (8192, 8193))
    part, whole = (client.get(target, headers={"range": given}) for target in (largest, larger))
    assert (part.status_code, part.headers["accept-ranges"]) == (206, "bytes")
    assert (whole.status_code, whole.headers.get("accept-ranges")) == (200, None)
    assert len(whole.content) == int(whole.headers["content-length"]) > 8193 * 512
    assert client.head(largest).headers["accept-ranges"] == "bytes"
    assert "accept-ranges" not in client.head(larger).headers


def test_ranges_are_read_as_windows() -> None:
    assert byte_range(None, None, '"t"', 10) == "whole"
    assert byte_range("bytes=2-3", None, '"t"', 10) == (2, 4)
    assert byte_range("bytes=2-3", ' "t" ', '"t"', 10) == (2, 4)
    assert byte_range("bytes=2-3", '"u"', '"t"', 10) == "whole"
    assert byte_range("bytes=0-", None, '"t"', 0) == "outside"
