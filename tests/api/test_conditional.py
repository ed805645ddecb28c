"""Validators: an ETag made from the canonical request, and answers to HEAD and If-None-Match that compute nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from service.engine import SCHEMES
from service.engine.scheme import Scheme
from tests.api.requests import GETS, GETS_IN_EVERY_FORMAT, Asked
from tests.clients import Client

ROPE = "/v1/encodings/rope"


def forbidden(*_arguments: Any) -> Any:
    raise AssertionError("this was to be answered without computing")


@contextmanager
def idle(*schemes: Scheme[Any, Any]) -> Iterator[None]:
    """Whatever is computed within is a failure (a 500)."""
    before = [(scheme, scheme.prepare, scheme.rows) for scheme in schemes]
    for scheme in schemes:
        object.__setattr__(scheme, "prepare", forbidden)
        object.__setattr__(scheme, "rows", forbidden)
    try:
        yield
    finally:
        for scheme, prepare, rows in before:
            object.__setattr__(scheme, "prepare", prepare)
            object.__setattr__(scheme, "rows", rows)


def test_computing_would_be_noticed(direct: Client) -> None:
    with idle(*SCHEMES):
        reply = direct.get(f"{ROPE}?length=2&dim=2&base=12345")
    assert reply.status_code == 500


@pytest.mark.parametrize("asked", GETS_IN_EVERY_FORMAT, ids=str)
def test_head_says_what_get_says_and_computes_nothing(client: Client, asked: Asked) -> None:
    target = f"{asked.target}&revision={asked.scheme.revision}"
    with idle(*SCHEMES):
        head = client.head(target)
    get = client.get(target)
    assert head.status_code == get.status_code
    assert head.content == b""
    unlike = {"server-timing", "x-request-id", "date"}
    if asked.extension in ("json", "csv"):
        assert "content-length" not in head.headers or head.status_code != 200
        unlike |= {"content-length"}
    shown = [{key: value for key, value in reply.headers.items() if key not in unlike} for reply in (head, get)]
    assert shown[0] == shown[1]
    cached = client.head(target)
    assert {key: value for key, value in cached.headers.items() if key not in unlike} == shown[0]
    assert ("content-length" in cached.headers) == ("content-length" in head.headers)


SEVERAL_FORMS = ("{}", "W/{}", '"a", {}', '"a",W/{} , "b"', "*", ", ,{}", '"x,y" , {}')


@pytest.mark.parametrize("asked", GETS_IN_EVERY_FORMAT, ids=str)
def test_a_known_tag_is_answered_without_computing(client: Client, asked: Asked) -> None:
    """S25: weak comparison, lists and `*`; the headers that a cache renews are kept."""
    target = asked.target + "&nonfinite=string"
    tag = client.head(target).headers.get("etag")
    if tag is None:
        return
    with idle(*SCHEMES):
        replies = [
            client.request(method, target, headers={"if-none-match": form.format(tag)})
            for form in SEVERAL_FORMS
            for method in ("GET", "HEAD")
        ]
    for reply in replies:
        assert reply.status_code == 304
        assert reply.content == b""
        assert reply.headers["etag"] == tag
        assert reply.headers["cache-control"] == "public, max-age=3600"
        assert "content-type" not in reply.headers


@pytest.mark.parametrize("given", ['"x"', 'W/"x"', "", '"', "x", '"a" "b"', '"a";', "*, *", "é"])
def test_other_tags_are_answered_whole(client: Client, given: str) -> None:
    target = f"{ROPE}?length=2&dim=2"
    for _ in range(2):  # computed, then from the cache
        reply = client.get(target, headers={"if-none-match": given.encode("latin-1")})
        assert reply.status_code == 200
        assert reply.json()["tensors"]["cos"]["data"][0] == [1.0, 1.0]


def test_several_fields_are_one_list(client: Client) -> None:
    target = f"{ROPE}.npy?length=2&dim=2&base=77"
    tag = client.head(target).headers["etag"]
    fields = [("if-none-match", '"a"'), ("if-none-match", tag)]
    assert client.get(target, headers=fields).status_code == 304
    assert client.get(target).status_code == 200
    assert client.get(target, headers=fields).status_code == 304


def test_a_cached_answer_revalidates_like_a_computed_one(client: Client) -> None:
    target = f"{ROPE}.npy?length=2&dim=4&base=771"
    tag = client.get(target).headers["etag"]
    for method in ("GET", "HEAD"):
        reply = client.request(method, target, headers={"if-none-match": tag})
        assert (reply.status_code, reply.content) == (304, b"")
        assert reply.headers["etag"] == tag


SPELLINGS = [
    ("length=3&dim=8", "dim=8&length=3"),
    ("length=3&dim=8", "length=03&dim=0008"),
    ("length=3&dim=8", "length=3&dim=8&offset=0&dtype=float32&pairing=half&base=10000"),
    ("length=3&dim=8", "length=3&dim=8&offset=-0"),
    ("length=3&dim=8&base=1e4", "length=3&dim=8&base=10000.00"),
    ("length=3&dim=8&base=0.5", "length=3&dim=8&base=.5"),
    ("length=3&dim=8&base=500000", "length=3&dim=8&base=5E5"),
    ("length=3&dim=8", "l%65ngth=%33&dim=8"),
    ("dim=8&positions=0,1.5", "dim=8&positions=-0,15e-1"),
    ("dim=8&positions=0,1.5", "dim=8&positions=0%2C1.50"),
]


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
def test_two_spellings_of_a_request_are_one(client: Client, one: str, other: str) -> None:
    first, second = client.get(f"{ROPE}.npz?{one}"), client.get(f"{ROPE}.npz?{other}")
    assert first.status_code == second.status_code == 200
    assert first.headers["etag"] == second.headers["etag"]
    assert first.content == second.content
    assert client.head(f"{ROPE}.npz?{other}").headers["etag"] == first.headers["etag"]


def test_two_spellings_are_computed_once(direct: Client) -> None:
    target = f"{ROPE}.npz?dim=8&length=3&base=3210"
    first = direct.get(target)
    with idle(*SCHEMES):
        again = direct.get(f"{ROPE}.npz?length=3&base=3.21e3&dim=8")
    assert again.status_code == 200
    assert again.content == first.content


def test_different_requests_have_different_tags(client: Client) -> None:
    queries = ["length=3&dim=8", "length=4&dim=8", "length=3&dim=8&dtype=float64", "length=3&dim=8&offset=1",
               "length=3&dim=8&tensor=cos", "length=3&dim=8&pairing=interleaved", "positions=0,1,2&dim=8"]  # fmt: skip
    targets = [f"{ROPE}{ending}?{query}" for query in queries for ending in ("", ".npy", ".npz", ".safetensors")]
    targets += [f"{ROPE}?length=3&dim=8&nonfinite=string", "/v1/encodings/sinusoidal?length=3&dim=8"]
    tags = {target: client.head(target).headers["etag"] for target in targets}
    assert len(set(tags.values())) == len(targets)


@pytest.mark.parametrize("asked", GETS, ids=str)
def test_a_revision_is_part_of_the_tag(direct: Client, asked: Asked) -> None:
    before = direct.head(asked.target).headers["etag"]
    object.__setattr__(asked.scheme, "revision", asked.scheme.revision + 1)
    try:
        # Another spelling, because the address is known to the cache of replies.
        after = direct.head(asked.target + "&nonfinite=refuse").headers["etag"]
    finally:
        object.__setattr__(asked.scheme, "revision", asked.scheme.revision - 1)
    assert before != after
