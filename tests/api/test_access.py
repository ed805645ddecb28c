"""API keys, quotas, host names and CORS guard every kind of request alike, by the fast way and by the slow one."""

import hmac
import logging
from collections.abc import Iterator
from hashlib import sha256

import pytest

from service.api import keys as keys_module
from service.api.hosts import Hosts
from service.api.keys import Keys
from service.logs import Json, Text
from tests.api.guarded import (
    BEARER,
    ENTRY,
    KEY,
    KINDS,
    NPY,
    OTHER_ENTRY,
    OTHER_KEY,
    TEXT,
    Guarded,
    asked,
    fields,
    guarded,
    sent,
    status_of,
    statuses,
)

PAGE = "https://app.example.org"
LIMITED = {"rate_limit": 0.01, "trusted_proxies": "127.0.0.0/8, 10.0.0.0/8"}
AT_ONCE = ("hit", "pinned", "coded", "not modified", "head")


@pytest.fixture(scope="module")
def keyed() -> Iterator[Guarded]:
    with guarded(BEARER, api_keys=f"{ENTRY}, {OTHER_ENTRY}", cors_origins=PAGE) as found:
        yield found


@pytest.fixture(scope="module")
def named() -> Iterator[Guarded]:
    with guarded(allowed_hosts="last, *.example.org, [::1]") as found:
        yield found


@pytest.fixture(scope="module")
def limited() -> Iterator[Guarded]:
    with guarded("X-Forwarded-For: 203.0.113.1", rate_burst=len(KINDS), **LIMITED) as found:
        yield found


# Keys


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_lets_every_kind_of_request_in(kind: str, keyed: Guarded) -> None:
    before = keyed.repeated
    answers = keyed.answers(sent(kind, BEARER), sent(kind, f"Authorization: Bearer {OTHER_KEY}"))
    assert statuses(answers) == [status_of(kind)] * 2
    if kind in AT_ONCE:
        assert keyed.repeated == before + 2


WRONG = {
    "none": (),
    "a wrong one": ("Authorization: Bearer posenc_wrong",),
    "none after the scheme": ("Authorization: Bearer",),
    "two": (BEARER, BEARER),
    "a right and a wrong one": (BEARER, "Authorization: Bearer x"),
    "another scheme": (f"Authorization: Basic {KEY}",),
    "no scheme": (f"Authorization: {KEY}",),
    "its digest": (f"Authorization: Bearer {ENTRY.partition(':')[2]}",),
    "its entry": (f"Authorization: Bearer {ENTRY}",),
    "a part of it": (f"Authorization: Bearer {KEY[:-1]}",),
    "more than it": (f"Authorization: Bearer {KEY}x",),
    "in quotes": (f'Authorization: Bearer "{KEY}"',),
    "upper case": (f"Authorization: Bearer {KEY.upper()}",),
    "a very long one": ("Authorization: Bearer " + "x" * 30_000,),
    "another alphabet": ("Authorization: Bearer kl\xfcssel\xff",),
    "a tab": (f"Authorization: Bearer\t{KEY}",),
    "another header": (f"X-API-Key: {KEY}",),
    "a proxy's header": (f"Proxy-Authorization: Bearer {KEY}",),
    "a cookie": (f"Cookie: Authorization=Bearer {KEY}; api_key={KEY}",),
    "claims of a proxy": ("X-Forwarded-For: 127.0.0.1", "X-Original-URL: /health/live", "X-Forwarded-Path: /docs"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_request_gets_in_without(kind: str, keyed: Guarded) -> None:
    answers = keyed.answers(*(sent(kind, *more) for more in WRONG.values()))
    assert dict(zip(WRONG, statuses(answers), strict=True)) == dict.fromkeys(WRONG, 401)
    for answer, more in zip(answers, WRONG.values(), strict=True):
        (challenge,) = fields(answer, "WWW-Authenticate")
        given = any(field.startswith("Authorization") for field in more)
        assert challenge == 'Bearer realm="posenc"' + (', error="invalid_token"' if given else "")
        assert fields(answer, "Cache-Control") == ["no-store"]
        assert fields(answer, "ETag") == []
        assert b"posenc_" not in answer
        assert b"xxx" not in answer
        assert (answer.partition(b"\r\n\r\n")[2] == b"") == (kind == "head")


@pytest.mark.parametrize("kind", ["hit", "range"])
def test_a_key_is_known_however_the_field_is_written(kind: str, keyed: Guarded) -> None:
    written = (
        f"authorization: bearer {KEY}",
        f"AUTHORIZATION: BEARER {KEY}",
        f"Authorization:Bearer   {KEY}  ",
        f"aUTHORIZATION:\t Bearer {KEY}\t",
    )
    assert statuses(keyed.answers(*(sent(kind, each) for each in written))) == [status_of(kind)] * 4


def test_a_key_is_that_of_one_request_of_a_connection(keyed: Guarded) -> None:
    """In one packet, of which some are answered from within the parser."""
    kinds = ["hit", "hit", "range", "not modified", "hit", "document", "hit"]
    having = [True, False, True, False, False, True, True]
    requests = [sent(kind, *([BEARER] if has else [])) for kind, has in zip(kinds, having, strict=True)]
    expected = [status_of(kind) if has else 401 for kind, has in zip(kinds, having, strict=True)]
    assert statuses(keyed.answers(*requests)) == expected


NAMES = ("api_key", "API_KEY", "access_token", "key", "x-api-key", "api%5fkey", "api-key", "token")


@pytest.mark.parametrize("path", [f"{NPY}&", "/v1/schemes?", "/docs?", "/v2/models/encodings.rope?", "/nothing?"])
def test_a_key_in_an_address_is_refused_and_not_repeated(path: str, keyed: Guarded) -> None:
    """With a key in the header as well: the one in the address is in somebody's log by now."""
    for header in ([], [BEARER]):
        answers = keyed.answers(*(asked("GET", f"{path}{name}={KEY}", *header) for name in NAMES))
        assert statuses(answers) == [400] * len(NAMES)
        assert not any(KEY.encode() in answer for answer in answers)
        assert all(b"Authorization: Bearer KEY" in answer for answer in answers)


ANYWHERE = {
    "path": asked("GET", f"/v1/{KEY}", BEARER),
    "encoded path": asked("GET", f"/v1/schemes/{KEY.replace('_', '%5f')}", BEARER),
    "long path": asked("GET", f"/{'x' * 240}/{KEY}", BEARER),
    "value": asked("GET", f"{NPY}&base={KEY}", BEARER),
    "name": asked("GET", f"{NPY}&{KEY}=1", BEARER),
    "model": asked("GET", f"/v2/models/{KEY}", BEARER),
    "request id": asked("GET", "/v1/nothing", BEARER, f"X-Request-ID: {KEY}"),
    "tracestate": asked(
        "GET", "/v1/nothing", BEARER, f"traceparent: 00-{'a' * 32}-{'b' * 16}-01", f"tracestate: a={KEY}"
    ),
    "method": asked(f"{KEY}", NPY, BEARER),
    "not known": asked("GET", NPY, f"Authorization: Bearer {KEY}x"),
}


@pytest.mark.parametrize("where", [*KINDS, *ANYWHERE])
def test_a_key_is_neither_logged_nor_repeated(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever its owner puts it, at every level of the log and for every request that has a line."""
    caplog.set_level(logging.DEBUG)
    data = ANYWHERE[where] if where in ANYWHERE else sent(where, BEARER)
    with guarded(BEARER, api_keys=ENTRY, access_log="all") as found:
        answers = [found.said(data) for _ in range(2)]
    assert not any(KEY.encode() in answer for answer in answers)
    lines = [formatter.format(line) for line in caplog.records for formatter in (Json(), Text())]
    assert sum("posenc.access" in line for line in lines) >= 4 * (where not in ("method", "old", "absolute"))
    for line in lines:
        assert KEY not in line
        assert KEY.removeprefix("posenc_") not in line
        assert "bearer" not in line.lower()
        assert ENTRY.partition(":")[2] not in line


@pytest.mark.parametrize("place", range(4))
def test_digests_are_compared_in_constant_time(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, whichever is the right one: those behind it too."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(mine: bytes, known: bytes) -> bool:
        compared.append((mine, known))
        return answering and hmac.compare_digest(mine, known)

    monkeypatch.setattr(keys_module, "compare_digest", compare)
    digest, keys = sha256(b"k").digest(), [("other", bytes([n]) * 32) for n in range(3)]
    keys.insert(place, ("right", digest))
    for answering, name in ((True, "right"), (False, None)):  # noqa: B007 - it alone says which is the right one
        compared.clear()
        assert Keys(keys).name_of(b"Bearer k") == name
        assert compared == [(digest, known) for _, known in keys]
    monkeypatch.undo()
    assert vars(keys_module)["compare_digest"] is hmac.compare_digest


def test_what_probes_and_pages_need_is_open(keyed: Guarded) -> None:
    paths = ["/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready",
             "/", "/docs", "/%64ocs", "/openapi.json", "/problems",
             "/problems/unauthorized", "/web/page.css", "/web/explorer/main.js", "/web/swagger-ui.css"]  # fmt: skip
    answers = keyed.answers(*(asked("GET", path) for path in paths))
    assert dict(zip(paths, statuses(answers), strict=True)) == dict.fromkeys(paths, 200)
    assert {fields(answer, "Cache-Control")[0] for answer in answers} == {"no-store", "private, max-age=3600"}
    assert keyed.said(asked("POST", "/v2/health/live")).startswith(b"HTTP/1.1 405 ")


CLOSED = (
    *("//health/live", "/health/live/", "/health/live/../../v1/schemes", "/health/live%2f..", "/health"),
    *("/HEALTH/LIVE", "/health/live;/v1/schemes", "/health/live%00", "/docs/", "/docs/../v1/schemes"),
    *("/web/../v1/schemes", "/web/", "/web", "/problems/../v1/schemes", "/problems/x", "/problems/"),
    *("/problems/unauthorized/x", "/problems/%2e%2e/v1/schemes", "/v1", "/v1/schemes", "/v1/schemes#/docs"),
    *("/v1/schemes%3f/docs", "/v1/schemes?/health/live", "/v2", "/v2/health", "/metrics", "/%76%31/schemes"),
    *("http://last/v1/schemes", "http://x:y@last/v1/schemes?x", "/openapi.json/"),
)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "DELETE", "PROPFIND"])
def test_nothing_else_is(method: str, keyed: Guarded) -> None:
    found = statuses(keyed.answers(*(asked(method, path) for path in CLOSED)))
    assert dict(zip(CLOSED, found, strict=True)) == dict.fromkeys(CLOSED, 401)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if 200 <= status_of(kind) < 400])
def test_no_shared_cache_keeps_what_a_key_opened(kind: str, keyed: Guarded) -> None:
    (answer,) = keyed.answers(sent(kind, BEARER))
    (kept,) = fields(answer, "Cache-Control")
    assert kept.startswith("private, max-age=") or (kept, kind) == ("no-store", "inference")
    assert ("immutable" in kept) == (kind == "pinned")


def test_a_body_is_not_read_of_a_request_that_is_refused(keyed: Guarded) -> None:
    """Neither is a client told to go on sending it."""
    begun = ("Content-Type: application/json", "Content-Length: 9", "Expect: 100-continue")
    answer = keyed.said(asked("POST", "/v1/apply/rope", *begun) + b'{"q": 1}\n')
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"HTTP/1.1 100" not in answer


# Quotas


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_request_counts(kind: str, limited: Guarded) -> None:
    """As many as the burst, in one packet, and each of the rest is refused; one that is answered at once counts too."""
    who = f"X-Forwarded-For: 198.51.100.{list(KINDS).index(kind)}"
    before, burst = limited.repeated, len(KINDS)
    answers = limited.answers(*[sent(kind, who)] * (burst + 2))
    assert statuses(answers) == [*[status_of(kind)] * burst, 429, 429]
    for answer in answers[burst:]:
        assert fields(answer, "Retry-After") == ["N"]
        assert fields(answer, "Cache-Control") == ["no-store"]
    if kind in AT_ONCE:
        assert limited.repeated == before + burst
    probes = [asked("GET", path, who) for path in ("/health/live", "/health/ready")]
    assert statuses(limited.answers(*probes)) == [200, 200]


def test_who_a_client_is_is_said_by_trusted_proxies_alone(limited: Guarded) -> None:
    # What the client wrote itself stands before what the proxy added, and makes it nobody else.
    claims = [f"X-Forwarded-For: 192.0.2.{each}, 203.0.113.50, 10.0.0.{each}" for each in range(len(KINDS))]
    assert statuses(limited.answers(*(sent("hit", claim) for claim in claims))) == [200] * len(KINDS)
    two = ("X-Forwarded-For: 192.0.2.99", "X-Forwarded-For: 203.0.113.50:4711")
    assert statuses(limited.answers(sent("hit", *two))) == [429]


def test_an_unlimited_server_counts_nothing(named: Guarded) -> None:
    assert statuses(named.answers(*[sent("hit")] * 200)) == [200] * 200


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_is_counted_as_one_whether_its_address_is_known_or_not(
    kind: str, keyed: Guarded, named: Guarded, limited: Guarded
) -> None:
    """Else the share of hits would rise with every guess at a key."""
    asker = "X-Forwarded-For: 198.51.100." + str(list(KINDS).index(kind))
    limited.answers(*[sent("hit", asker)] * len(KINDS))
    for server, request, status in (
        (keyed, sent(kind), 401),
        (named, sent(kind).replace(b"Host: last", b"Host: other").replace(b"http://last", b"http://other"), 421),
        (limited, sent(kind, asker), 429),
    ):
        before = [dict(gate.meters.answers) for gate in server.gates]
        counts = [gate.counts for gate in server.gates]
        assert statuses(server.answers(request)) == [status]
        for gate, known, count in zip(server.gates, before, counts, strict=True):
            assert (gate.counts - count)["early", status] == 1
            kinds = {(way, route) for way, route, _, code in {*gate.meters.answers, *known} if code == status}
            assert kinds == {("early", "unrouted")}


def test_a_quota_is_a_keys_and_without_one_an_addresss() -> None:
    burst = len(KINDS) + 2
    with guarded(BEARER, rate_burst=burst, api_keys=f"{ENTRY}, {OTHER_ENTRY}", **LIMITED) as server:
        assert statuses(server.answers(*[sent("hit", BEARER)] * 3)) == [200, 200, 429]
        # Another address does not help, and another key has a quota of its own.
        assert statuses(server.answers(sent("hit", BEARER, "X-Forwarded-For: 192.0.2.7"))) == [429]
        assert statuses(server.answers(sent("hit", f"Authorization: Bearer {OTHER_KEY}"))) == [200]
        # Guesses count too, and pages.
        guesses = [sent("hit", "Authorization: Bearer guess"), asked("GET", "/docs")] * burst
        seen = statuses(server.answers(*guesses))
        assert seen[:4] == [401, 200, 401, 200]
        assert seen[burst:] == [429] * burst


# Names

OURS = ("last", "LAST:80", "last.", "a.example.org", "a.b.example.org:8080", "[::1]:80", "last:")
THEIRS = (
    *("other", "example.org", "xexample.org", "last.evil.org", "", "[::2]", "a.example.org.evil", "127.0.0.1"),
    *("localhost", "evil.org,last", "last%2e"),
)
NO_NAMES = (
    *("evil.org/last", "last@evil.org", "last evil.org", "x:last", "last\xff", "last:80:x", "a.example.org:x", "[last"),
    *("evil.org/.example.org", "evil.org#.example.org", "evil.org@x.example.org", "evil.org\\.example.org", "a b/@"),
)


def to(kind: str, host: str) -> bytes:
    method, target, version, more, _ = KINDS[kind]
    return asked(method, target, *more, version=version, host=host)


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_it_goes_by(kind: str, named: Guarded) -> None:
    assert statuses(named.answers(*(to(kind, host) for host in OURS))) == [status_of(kind)] * len(OURS)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "absolute"])
def test_a_name_that_it_does_not_go_by(kind: str, named: Guarded) -> None:
    found = statuses(named.answers(*(to(kind, host) for host in THEIRS)))
    assert dict(zip(THEIRS, found, strict=True)) == dict.fromkeys(THEIRS, 421)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "absolute"])
@pytest.mark.parametrize("host", NO_NAMES)
def test_what_is_no_name(kind: str, host: str, named: Guarded) -> None:
    assert statuses(named.answers(to(kind, host))) == [400]


@pytest.mark.parametrize("host", NO_NAMES)
def test_another_server_would_not_be_fooled_either(host: str) -> None:
    """The check by itself, for servers that let any Host field in."""
    check = Hosts(("last", "*.example.org"))
    scope = {"type": "http", "path": "/v1/schemes"}
    problem = check(scope, {b"host": host.encode("latin-1")})
    assert problem is not None
    assert problem.slug == "misdirected-request"


def test_probes_go_by_addresses(named: Guarded) -> None:
    assert statuses(named.answers(asked("GET", "/health/ready", host="10.1.2.3:8000"))) == [200]


@pytest.mark.parametrize("kind", ["hit", "document"])
def test_a_target_with_a_name_goes_before_the_host(kind: str, named: Guarded) -> None:
    """RFC 9112, 3.2.2."""
    target = KINDS[kind][1]
    answers = named.answers(
        asked("GET", f"http://evil.org{target}", host="last"),
        asked("GET", f"http://last:99{target}", host="evil.org"),
        asked("GET", f"http://[::1]:99{target}", host="evil.org"),
    )
    assert statuses(answers) == [421, status_of(kind), status_of(kind)]
    assert statuses(named.answers(f"GET http://last{target} HTTP/1.0\r\n\r\n".encode())) == [status_of(kind)]


def test_no_name_at_all(named: Guarded) -> None:
    assert statuses(named.answers(f"GET {NPY} HTTP/1.0\r\n\r\n".encode())) == [421]


# CORS

ASKING = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type")


@pytest.mark.parametrize("kind", KINDS)
def test_one_origin_is_in_every_answer(kind: str, keyed: Guarded) -> None:
    """Also to others, so that caches need not tell them apart; with a key and without."""
    origins: tuple[tuple[str, ...], ...] = ((), (f"Origin: {PAGE}",), ("Origin: https://evil.org",))
    requests = [sent(kind, *origin, *key) for origin in origins for key in ((), (BEARER,))]
    for answer in keyed.answers(*requests):
        assert fields(answer, "Access-Control-Allow-Origin") == [PAGE]
        assert fields(answer, "Access-Control-Allow-Credentials") == []
        (exposed,) = fields(answer, "Access-Control-Expose-Headers")
        assert {"ETag", "Retry-After", "X-Request-ID"} <= set(exposed.split(", "))
        assert "Origin" not in fields(answer, "Vary")


@pytest.mark.parametrize("path", [NPY, TEXT, "/v1/apply/rope", "/health/live", "/nothing"])
def test_a_browser_may_ask_whether_it_may_without_a_key(path: str, keyed: Guarded) -> None:
    answer, plain = keyed.answers(asked("OPTIONS", path, f"Origin: {PAGE}", *ASKING), asked("OPTIONS", path))
    assert statuses([answer]) == [204]
    assert fields(answer, "Access-Control-Allow-Origin") == [PAGE]
    assert fields(answer, "Access-Control-Allow-Methods") == ["GET, HEAD, POST"]
    (allowed,) = fields(answer, "Access-Control-Allow-Headers")
    assert set(allowed.split(", ")) == {
        "Authorization", "Content-Type", "If-Match", "If-None-Match", "If-Range", "Inference-Header-Content-Length",
        "Range", "traceparent", "tracestate", "X-Request-ID",
    }  # fmt: skip
    assert fields(answer, "Access-Control-Max-Age") == ["600"]
    assert statuses([plain]) == ([204] if path == "/health/live" else [401])


@pytest.fixture(scope="module")
def several() -> Iterator[Guarded]:
    with guarded(cors_origins=f"{PAGE}, http://localhost:5173") as found:
        yield found


OTHERS = ("https://evil.org", "null", f"{PAGE}.evil.org", PAGE.upper(), "")


@pytest.mark.parametrize("kind", KINDS)
def test_of_several_origins_the_one_that_asks_is_named(kind: str, several: Guarded) -> None:
    ours = [(f"Origin: {PAGE}",), ("Origin: http://localhost:5173",)]
    theirs = [(), (f"Origin: {PAGE}", "Origin: http://localhost:5173"), *((f"Origin: {each}",) for each in OTHERS)]
    answers = several.answers(*(sent(kind, *more) for more in [*ours, *theirs]))
    assert statuses(answers) == [status_of(kind)] * len(answers)
    named = [[PAGE], ["http://localhost:5173"], *([] for _ in theirs)]
    assert [fields(each, "Access-Control-Allow-Origin") for each in answers] == named
    assert [len(fields(each, "Access-Control-Expose-Headers")) for each in answers] == [1, 1, *(0 for _ in theirs)]
    assert all("Origin" in fields(each, "Vary") for each in answers)


def test_every_page_may_read_with_a_star() -> None:
    with guarded(cors_origins="*") as server:
        answers = server.answers(sent("hit", "Origin: null"), asked("OPTIONS", NPY, "Origin: null", *ASKING))
        assert [fields(each, "Access-Control-Allow-Origin") for each in answers] == [["*"], ["*"]]


@pytest.mark.parametrize("kind", KINDS)
def test_cors_is_off_unless_origins_are_listed(kind: str, named: Guarded) -> None:
    (answer,) = named.answers(sent(kind, f"Origin: {PAGE}"))
    assert b"access-control" not in answer.lower()
    assert b"vary: origin" not in answer.lower()


def test_without_cors_the_question_is_any_other_request(named: Guarded) -> None:
    (answer,) = named.answers(asked("OPTIONS", NPY, f"Origin: {PAGE}", *ASKING))
    assert (statuses([answer]), fields(answer, "Access-Control-Allow-Methods")) == ([204], [])
    assert fields(answer, "Allow") == ["GET, HEAD, OPTIONS, POST"]


# What every answer says


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_guarded(kind: str, keyed: Guarded) -> None:
    for answer in keyed.answers(sent(kind, BEARER), sent(kind)):
        assert fields(answer, "X-Content-Type-Options") == ["nosniff"]
        assert fields(answer, "Cross-Origin-Resource-Policy") == ["cross-origin"]
        assert len(fields(answer, "X-Request-ID")) == 1


@pytest.mark.parametrize(
    "data", [b"nonsense\r\n\r\n", b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"x" * 9000), b"GET / HTTP/1.1\r\n\r\n"]
)
def test_one_that_is_made_below_the_app_too(data: bytes, keyed: Guarded) -> None:
    answer = keyed.said(data)
    assert answer[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 414 ")
    assert fields(answer, "X-Content-Type-Options") == ["nosniff"]
    assert fields(answer, "Access-Control-Allow-Origin") == [PAGE]
