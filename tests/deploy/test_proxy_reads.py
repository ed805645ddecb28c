"""Conditions and ranges: the proxy answers as a replica does, whether or not it has the answer itself."""

import itertools
from pathlib import Path

import pytest

from tests.deploy.proxied import Held, Reply, get, proxied

pytestmark = pytest.mark.tool

FILE = "/v1/encodings/rope.npy?length=512&dim=64"
WORDS = "/v1/encodings/sinusoidal?length=16&dim=8"
# What is told of an answer; of the proxy's own fields and of what differs from one request to the next nothing.
TOLD = (
    *("Content-Type", "Content-Length", "Content-Range", "Content-Encoding", "Content-Disposition", "ETag", "Vary"),
    *("Accept-Ranges", "Cache-Control", "Allow", "X-Content-Type-Options", "Cross-Origin-Resource-Policy"),
)
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
LATER = "Fri, 06 Nov 2093 08:49:37 GMT"
TAG, WEAK, OTHER = "{tag}", "W/{tag}", '"other"'
RANGES = [
    *("bytes=0-9", "bytes=0-0", "bytes=100-", "bytes=-10", "bytes=0-", "bytes=5-5", "BYTES=0-9", "bytes=00-09"),
    *("bytes=9-5", "bytes=19-5", "bytes=-0", "bytes=-", "bytes=", "bytes", "bytes=a-b", "bytes= 0-9", "bytes=0 - 9"),
    *(
        "bytes=0-99999999999999999999",
        "bytes=99999999999999999999-",
        "bytes=-99999999999999999999",
        "bytes=0-999999999",
    ),
    *("bytes=999999999-", "bytes=999999999-9999999999", "bytes=262271-", "bytes=262272-", "bytes=-262272"),
    *(
        "bytes=0-0,5-9",
        "bytes=0-0,-1",
        "bytes=5-9,0-0",
        "bytes=0-9,",
        "bytes=,0-9",
        "bytes=0-9,x",
        "items=0-9",
        "0-9",
        "",
    ),
]
MATCHES = [
    "{tag}",
    "W/{tag}",
    '"other"',
    "*",
    '"other", {tag}',
    '{tag}, "other"',
    "other",
    "x, {tag}",
    '"a,b", {tag}',
    "",
]
DATES = [DATE, LATER, "yesterday", "0"]


def combinations() -> list[dict[str, str]]:
    """No empty date or If-Range: nginx reads them, and nothing in its configuration tells them from none."""
    one = [
        *({"Range": value} for value in RANGES),
        *({name: value} for name in ("If-Match", "If-None-Match") for value in MATCHES),
        *({name: value} for name in ("If-Modified-Since", "If-Unmodified-Since") for value in DATES),
        *(
            {"Range": "bytes=0-9", "If-Range": value}
            for value in (TAG, WEAK, OTHER, "*", DATE, LATER, f"{TAG}, {OTHER}")
        ),
        {"If-Range": TAG},
    ]
    two = [
        left | right
        for left, right in itertools.combinations(
            [
                *({"If-Match": value} for value in (TAG, OTHER)),
                *({"If-None-Match": value} for value in (TAG, OTHER)),
                *({"If-Modified-Since": value} for value in (DATE, LATER)),
                {"If-Unmodified-Since": DATE},
                {"Range": "bytes=0-9"},
                {"Range": "bytes=0-9", "If-Range": OTHER},
            ],
            2,
        )
        if not left.keys() & right.keys()
    ]
    return one + two


# What nginx may say otherwise: of a part that there are parts, and of what a client has its name as a file.
MAY_DIFFER = {206: {"Accept-Ranges"}, 304: {"Content-Disposition"}}


def differences(direct: Reply, passed: Reply, may_differ: set[str]) -> list[tuple[object, object]]:
    """Of what is told, what is not the same: the replica's first."""
    found = [(direct.status, passed.status), (direct.body, passed.body)]
    found += [(direct.headers[name], passed.headers[name]) for name in TOLD if name not in may_differ]
    return [pair for pair in found if pair[0] != pair[1]]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("path", "coding"), [(FILE, ""), (WORDS, ""), (WORDS, "gzip")])
def test_conditions_and_ranges_are_read_as_a_replica_reads_them(
    path: str, coding: str, known: bool, three: list[Held], tmp_path: Path
) -> None:
    fixed = {"X-Request-ID": "one"} | ({"Accept-Encoding": coding} if coding else {})
    wrong = []
    with proxied([each.port for each in three], tmp_path) as proxy:
        for number, (method, asked) in enumerate(itertools.product(("GET", "HEAD"), combinations())):
            target = f"{path}&base={2 if known else 2 + number}"
            tag = get(three[0].port, target, fixed).headers["ETag"]
            if known:
                assert get(proxy, target, fixed).cached == ("HIT" if number else "MISS")
            headers = fixed | {name: value.replace("{tag}", tag) for name, value in asked.items()}
            direct, passed = (get(port, target, headers, method) for port in (three[0].port, proxy))
            # Of a document known to the proxy it knows the size.
            sized = {"Content-Length"} if (method, path) == ("HEAD", WORDS) else set()
            differ = differences(direct, passed, MAY_DIFFER.get(direct.status, set()) | sized)
            wrong += [(method, asked, differ)] if differ else []
    assert wrong == []
