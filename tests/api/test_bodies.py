"""Bodies: JSON, npy and safetensors, read strictly; what is wrong is named by its place (S02, S33 to S37)."""

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.api.problems import fault, refused
from tests.clients import Client, in_process, settings

ROPE = "/v1/apply/rope"
AT = "/v1/encodings/sinusoidal?dim=4"
JSON = {"content-type": "application/json"}
BINARY = {"content-type": "application/octet-stream"}


def npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


# JSON

NOT_JSON: list[bytes] = [
    b"", b"   ", b"[", b"{", b'{"positions": [1,]}', b"{'positions': [1]}", b'{"positions": [NaN]}',
    b'{"positions": [Infinity]}', b'{"positions": [-Infinity]}', b'{"positions": [1e999]}', b'{"positions": [1e400]}',
    b'{"positions": [+1]}', b'{"positions": [01]}', b'{"positions": [.5]}', b'{"positions": [1]} x', b"[" * 100_000,
    b'{"a":' * 100_000, b'{"positions": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", b"\xff\xfe[\x001\x00]\x00",
    '{"positions": [1]}'.encode("utf-16"), '{"positions": [1]}'.encode("utf-16-be"),
    '{"positions": [1]}'.encode("utf-32"),
    b'\xef\xbb\xbf{"positions": [1]}', b'{"positions": "\\ud800"}', b'{"\\udfff": 1}', b'{"positions": ["\xff"]}',
    b'{"positions": [1], "positions": [2]}', b'{"positions": [1], "posi\\u0074ions": [2]}', b"\x00", b"nul",
    b"\x93NUMPY",
]  # fmt: skip


@pytest.mark.parametrize("body", NOT_JSON, ids=range(len(NOT_JSON)))
@pytest.mark.parametrize("target", [AT, ROPE])
def test_what_is_no_json_is_400(client: Client, target: str, body: bytes) -> None:
    refused(client.post(target, content=body, headers=JSON), "bad-request")


WRONG_JSON: list[tuple[bytes, str]] = [
    (b"null", ""), (b"[]", ""), (b"[[1, 2]]", ""), (b"1", ""), (b'"x"', ""), (b"true", ""), (b"{}", "/positions"),
    (b'{"positions": null}', "/positions"), (b'{"positions": "0"}', "/positions"), (b'{"positions": {}}', "/positions"),
    (b'{"positions": [true]}', "/positions/0"), (b'{"positions": [0, "1"]}', "/positions/1"),
    (b'{"positions": [[0], [1, 2]]}', "/positions/1"), (b'{"positions": [[0], 1]}', "/positions/1"),
    (b'{"positions": [0, [1]]}', "/positions/1"), (b'{"positions": []}', "/positions"), (b'{"positions": [[]]}',
    "/positions"),
    (b'{"positions": [0, 9007199254740993]}', "/positions/1"), (b'{"positions": [[0, 1e16]]}', "/positions/0/1"),
    (b'{"positions": [%s]}' % (b"9" * 5000), "/positions/0"), (b'{"position": [0]}', "/position"),
    (b'{"positions": [0], "tensors": {}}', "/tensors"), (b'{"a/b~c": 1}', "/a~1b~0c"),
    (b'{"positions": [0], "length": 4}', "/length"),
    (b'{"positions": ' + b"[" * 33 + b"0" + b"]" * 33 + b"}", "/positions"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "pointer"), WRONG_JSON, ids=range(len(WRONG_JSON)))
def test_what_is_wrong_in_json_is_pointed_at(client: Client, body: bytes, pointer: str) -> None:
    reply = client.post(AT, content=body, headers=JSON)
    if body.startswith(b'{"positions": [999'):
        assert reply.status_code in (400, 422)
        assert "9" * 65 not in reply.text
        return
    found = fault(refused(reply, "invalid-parameters"), pointer)
    assert found["pointer"] == pointer


WRONG_TENSORS: list[tuple[dict[str, Any], str]] = [
    ({}, "/tensors/q"),
    ({"tensors": {}}, "/tensors/q"),
    ({"tensors": []}, "/tensors"),
    ({"tensors": {"k": [1, 2]}}, "/tensors/q"),
    ({"tensors": {"q": [1, 2], "v": [1, 2]}}, "/tensors/v"),
    ({"tensors": {"q": [1, 2]}, "q": [1, 2]}, "/q"),
    ({"tensors": {"q": [1, 2]}, "tensor": {}}, "/tensor"),
    ({"tensors": {"q": 1}}, "/tensors/q"),
    ({"tensors": {"q": [1, None]}}, "/tensors/q/1"),
    ({"tensors": {"q": [[1, 2], [3]]}}, "/tensors/q/1"),
    ({"tensors": {"q": [[1, 2]], "k": [[1, 2], [3, 4]]}}, "/tensors/k"),
    ({"tensors": {"q": [[1, 2]], "k": [[1, 2, 3, 4]]}}, "/tensors/k"),
    ({"tensors": {"q": [[1, 2]]}, "positions": [0, 1]}, "/positions"),
    ({"tensors": {"q": [[1, 2]]}, "positions": [[[[0], [1]]]]}, "/positions"),
    ({"tensors": {"q": [[1, 2], [3, 1e300]]}}, "/tensors/q/1/1"),
    ({"tensors": {"q": [[[]]]}}, "/tensors/q"),
]


@pytest.mark.parametrize(("body", "pointer"), WRONG_TENSORS, ids=range(len(WRONG_TENSORS)))
def test_what_is_wrong_with_vectors_is_pointed_at(client: Client, body: dict[str, Any], pointer: str) -> None:
    assert fault(refused(client.post(ROPE, json=body), "invalid-parameters"), pointer)["pointer"] == pointer


def test_a_misspelt_key_names_the_nearest(client: Client) -> None:
    found = fault(refused(client.post(AT, json={"position": [1]}), "invalid-parameters"), "/position")
    assert found["did_you_mean"] == "positions"
    found = fault(refused(client.post(ROPE, json={"tensor": {}}), "invalid-parameters"), "/tensor")
    assert found["did_you_mean"] == "tensors"


def test_a_large_wrong_body_does_not_come_back(client: Client) -> None:
    """http.md 3, 2: neither a megabyte of text nor 80 KB of bad items."""
    for body in (b'{"positions": "' + b"x" * 2**20 + b'"}', b'{"positions": [' + b'"x",' * 20_000 + b'"x"]}',
                 b'{"' + b"y" * 2**20 + b'": 1}'):  # fmt: skip
        reply = client.post(AT, content=body, headers=JSON)
        refused(reply, "invalid-parameters")
        assert "x" * 65 not in reply.text
        assert "y" * 65 not in reply.text


# The query beside a body


def test_positions_are_given_once(client: Client) -> None:
    reply = client.post(AT + "&positions=1", json={"positions": [0]})
    assert fault(refused(reply, "invalid-parameters"), "positions")["code"] == "repeated"
    reply = client.post(f"{ROPE}?positions=1", json={"tensors": {"q": [1, 2]}, "positions": [0]})
    assert fault(refused(reply, "invalid-parameters"), "positions")["code"] == "repeated"


@pytest.mark.parametrize(("name", "value"), [("length", "2"), ("offset", "3")])
def test_positions_say_everything(client: Client, name: str, value: str) -> None:
    reply = client.post(f"{AT}&{name}={value}", json={"positions": [0]})
    assert fault(refused(reply, "invalid-parameters"), name)["code"] == "conflict"


def test_the_reply_parameters_hold_for_post_too(client: Client) -> None:
    body = {"tensors": {"q": [[1, 2]], "k": [[3, 4]]}}
    assert list(client.post(f"{ROPE}?tensor=k", json=body).json()["tensors"]) == ["k"]
    assert client.post(f"{ROPE}?revision=1", json=body).headers["cache-control"] == "no-store"
    refused(client.post(f"{ROPE}?revision=2", json=body), "invalid-parameters")
    refused(client.post(f"{ROPE}?tensor=x", json=body), "invalid-parameters")
    large = {"tensors": {"q": [[6e4, -6e4], [-6e4, 6e4]]}, "positions": [1, 1]}
    refused(client.post(f"{ROPE}?dtype=float16", json=large), "not-acceptable")
    reply = client.post(f"{ROPE}?dtype=float16&nonfinite=string", json=large)
    assert [row[0] for row in reply.json()["tensors"]["q"]["data"]] == ["Infinity", "-Infinity"]


def test_infinite_scores_stay_infinite(client: Client) -> None:
    """S01: JSON refuses or writes strings; files keep the bits."""
    mask = np.array([[[0, -np.inf], [1, 0]]], np.float32)
    send = {"content": npy(mask), "headers": BINARY}
    document = refused(client.post("/v1/apply/alibi", **send), "not-acceptable")
    assert "npz, safetensors, npy, bin or csv can hold it" in document["detail"]
    assert "nonfinite=string" in document["detail"]
    shown = client.post("/v1/apply/alibi?nonfinite=string", **send)
    json.loads(shown.content, parse_constant=pytest.fail)
    assert shown.json()["tensors"]["x"]["data"][0][0] == [0.0, "-Infinity"]
    found = np.load(io.BytesIO(client.post("/v1/apply/alibi.npy", **send).content))
    assert found[0, 0, 1].tobytes() == np.float32(-np.inf).tobytes()
    assert client.post("/v1/apply/alibi.csv", **send).text.splitlines()[1] == "0,0,0.0,-inf"


def test_a_post_for_positions_agrees_with_a_get(client: Client) -> None:
    listed = client.get(f"{AT}&positions=0,-2.5,7").json()
    posted = client.post(AT, json={"positions": [0, -2.5, 7]}).json()
    assert posted["tensors"] == listed["tensors"]
    document = refused(client.post(AT, json={"positions": 7}), "invalid-parameters")
    assert "a list is needed" in fault(document, "/positions")["detail"]


# Media types


@pytest.mark.parametrize(
    "given",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "application/json; charset=utf-16",
     "application/jsonx", "json", "application/vnd.api+json", "application/zip", "é", "x" * 4000, ";",
     "application/json, text/csv"],
)  # fmt: skip
def test_other_media_types_are_415(client: Client, given: str | None) -> None:
    headers = {} if given is None else {"content-type": given.encode()}
    reply = client.post(AT, content=b'{"positions": [0]}', headers=headers)
    document = refused(reply, "unsupported-media-type")
    assert "application/json (UTF-8), or application/octet-stream" in document["detail"]


@pytest.mark.parametrize(
    "given",
    ["application/json", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"', "application/json;"],
)
def test_json_may_say_its_charset(client: Client, given: str) -> None:
    assert client.post(AT, content=b'{"positions": [0]}', headers={"content-type": given}).status_code == 200


@pytest.mark.parametrize("given", ["application/octet-stream", "application/x-npy"])
def test_files_have_two_media_types(client: Client, given: str) -> None:
    reply = client.post(AT, content=npy(np.arange(2)), headers={"content-type": given})
    assert reply.json()["tensors"]["encoding"]["data"][0] == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "zstd", "gzip, identity", "é"])
def test_coded_bodies_are_415(client: Client, coding: str) -> None:
    reply = client.post(AT, content=b'{"positions": [0]}', headers={**JSON, "content-encoding": coding.encode()})
    refused(reply, "unsupported-media-type")


def test_the_identity_coding_is_none(client: Client) -> None:
    headers = {**JSON, "content-encoding": "Identity"}
    assert client.post(AT, content=b'{"positions": [0]}', headers=headers).status_code == 200


# Size and time


async def _parts(count: int) -> Any:
    for _ in range(count):
        yield b" " * 2**16


def test_a_body_over_the_limit_is_413() -> None:
    with in_process(settings(body_bytes=100_000)) as client:
        whole = client.post(AT, content=b" " * 100_001, headers=JSON)
        found = fault(refused(whole, "content-too-large"), "body")
        assert (found["requested"], found["limit"]) == (100_001, 100_000)
        assert "connection" not in whole.headers  # the rest is dropped, so that every client gets to read this
        chunked = client.post(AT, content=_parts(10), headers=JSON)
        found = fault(refused(chunked, "content-too-large"), "body")
        assert (found["requested"], found["limit"]) == (2 * 2**16, 100_000)
        lying = client.post(AT, content=_parts(10), headers={**JSON, "content-length": "10"})
        assert lying.status_code == 413
        for declared in ("9" * 5000, "9" * 20, "100001"):
            refused(
                client.post(AT, content=_parts(1), headers={**JSON, "content-length": declared}), "content-too-large"
            )
        fits = client.post(AT, content=b'{"positions": [0]}'.ljust(100_000), headers=JSON)
        assert fits.status_code == 200
        assert client.resources.budget.in_use == 0


def test_a_body_counts_against_the_memory() -> None:
    with in_process(settings(memory_bytes=2**20)) as client:
        # What there is no memory for is not read, although the settings would allow it.
        refused(client.post(AT, content=b" " * 2**21, headers=BINARY), "content-too-large")
        refused(client.post(AT, content=b" " * 200_000, headers=JSON), "content-too-large")
        client.resources.budget.in_use = 2**20
        refused(client.post(AT, content=b'{"positions": [0]}', headers=JSON), "overloaded")
        client.resources.budget.in_use = 0
        assert client.post(AT, content=b'{"positions": [0]}', headers=JSON).status_code == 200
        assert client.resources.budget.in_use == 0


def test_an_unread_body_does_not_harm_the_next_request(client: Client) -> None:
    """Refused before the body was read; the connection goes on, or ends, cleanly."""
    for _ in range(3):
        reply = client.post(AT + "&bogus=1", content=b"x" * 300_000, headers=BINARY)
        refused(reply, "invalid-parameters")
        assert client.get("/health/live").json() == {"status": "live"}


@pytest.mark.parametrize(
    ("target", "arrays", "said"),
    [
        ("masks/padding", {"attention_mask": [[1, 0], [1, 1]]}, {"attention_mask": [[True, False], [True, True]]}),
        ("masks/combined", {"a": [[1, 0]], "b": [1, 1]}, {"a": [[True, False]], "b": [1, 1]}),
        ("apply/mask", {"x": [[1, 2]], "mask": [[0, 1]]}, {"x": [[1, 2]], "mask": [[False, True]]}),
        ("encodings/detr?dim=4", {"mask": [[1, 1], [1, 0]]}, {"mask": [[True, True], [True, False]]}),
        (
            "learned/lookup?offset_rule=opt",
            {"x": [[0], [1], [2], [3]], "attention_mask": [[0, 1, 1]]},
            {"x": [[0], [1], [2], [3]], "attention_mask": [[False, True, True]]},
        ),
    ],
)
def test_a_mask_may_say_true_and_false(client: Client, target: str, arrays: Any, said: Any) -> None:
    answers = [client.post(f"/v1/{target}", json={"tensors": each}) for each in (arrays, said)]
    assert [reply.status_code for reply in answers] == [200, 200]
    assert answers[0].content == answers[1].content


@pytest.mark.parametrize(
    ("target", "arrays", "pointer"),
    [
        ("masks/causal", {"attention_mask": [[1, 0], [0, True]]}, "/tensors/attention_mask/1/1"),
        ("masks/combined", {"a": [[True, 0]], "b": [1, 1]}, "/tensors/a/0/1"),
        ("apply/mask", {"x": [[1, True]], "mask": [[0, 1]]}, "/tensors/x/0/1"),
        ("masks/segments", {"segment_ids": [True, False]}, "/tensors/segment_ids/0"),
    ],
)
def test_truth_values_among_numbers_are_refused(client: Client, target: str, arrays: Any, pointer: str) -> None:
    document = refused(client.post(f"/v1/{target}", json={"tensors": arrays}), "invalid-parameters")
    assert fault(document, pointer)["code"] == "type"


@pytest.fixture
def empty_budget(client: Client) -> Iterator[Client]:
    """Whatever happens within, the memory that was admitted is given back."""
    assert client.resources.budget.in_use == 0
    yield client
    assert client.resources.budget.in_use == 0


def test_every_refusal_gives_its_memory_back(empty_budget: Client) -> None:
    for body in (b"{}", b"[", b'{"positions": [1e16]}', b'{"positions": [0]}'):
        for target in (
            AT,
            AT + "&length=1",
            "/v1/encodings/rope.npz?dim=8&dtype=bfloat16",
            "/v1/encodings/rope.npz?dim=7",
        ):
            empty_budget.post(target, content=body, headers=JSON)
