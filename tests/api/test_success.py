"""What a success says of itself: http.md's table of headers, for every scheme."""

import re

import pytest
from starlette.types import Message, Receive, Scope, Send

from service.api.door import Door
from service.engine import SCHEMES
from tests.api.problems import refused
from tests.api.requests import EXAMPLES, GETS, GETS_IN_EVERY_FORMAT, IN_EVERY_FORMAT, Asked
from tests.clients import Client

ROPE = "/v1/encodings/rope"
TIMING = re.compile(r"queue;dur=\d+\.\d\d, compute;dur=\d+\.\d\d, encode;dur=\d+\.\d\d")
BINARY = ("npy", "npz", "safetensors", "bin")


@pytest.mark.parametrize("asked", IN_EVERY_FORMAT, ids=str)
def test_no_answer_varies_or_says_more_than_it_should(client: Client, asked: Asked) -> None:
    reply = asked.send(client, headers={"accept": "application/x-npy", "accept-encoding": "gzip, br"})
    # Only text that is large enough to gain by it is coded, and says so.
    coded = reply.headers.get("content-encoding")
    assert coded in ((None, "gzip") if asked.extension in ("json", "csv", "svg") else (None,))
    assert reply.headers.get("vary", "Accept-Encoding") == "Accept-Encoding"
    assert coded is None or "vary" in reply.headers
    assert "server" not in reply.headers
    if reply.status_code == 406:
        return
    assert reply.status_code == 200
    if asked.method == "POST":
        assert reply.headers["cache-control"] == "no-store"
        assert "etag" not in reply.headers
        assert TIMING.fullmatch(reply.headers["server-timing"])
    else:
        assert reply.headers["cache-control"] == "public, max-age=3600"
        assert re.fullmatch(r'"[0-9a-f]{32}"', reply.headers["etag"])


@pytest.mark.parametrize("asked", GETS_IN_EVERY_FORMAT, ids=str)
def test_files_say_their_name_and_ranges(client: Client, asked: Asked) -> None:
    reply = asked.send(client)
    if reply.status_code == 406:
        return
    assert reply.headers.get("accept-ranges") == ("bytes" if asked.extension in BINARY else None)
    if asked.extension == "json":
        assert "content-disposition" not in reply.headers
    else:
        named = re.fullmatch(r'attachment; filename="([\w.-]+)"', reply.headers["content-disposition"])
        assert named is not None
        assert named[1].startswith(f"{asked.scheme.name}_")
        assert named[1].endswith(f".{asked.extension}")


@pytest.mark.parametrize(
    ("target", "filename", "shape", "dtype"),
    [
        (f"{ROPE}.npy?length=3&dim=8", "rope_3x8_float32.npy", "2, 3, 8", "float32"),
        (f"{ROPE}.npy?length=3&dim=8&tensor=sin", "rope-sin_3x8_float32.npy", "3, 8", "float32"),
        (f"{ROPE}.bin?length=3&dim=8&tensor=cos&dtype=float16", "rope-cos_3x8_float16.bin", "3, 8", "float16"),
        ("/v1/biases/alibi.bin?heads=3&queries=2&keys=5", "alibi_3x2x5_float32.bin", "3, 2, 5", "float32"),
        ("/v1/biases/alibi-slopes.npy?heads=3&dtype=float64", "alibi-slopes_3_float64.npy", "3", "float64"),
    ],
)
def test_a_file_is_named_by_what_it_holds(client: Client, target: str, filename: str, shape: str, dtype: str) -> None:
    for reply in (client.get(target), client.get(target), client.head(target)):
        assert reply.headers["content-disposition"] == f'attachment; filename="{filename}"'
        assert (reply.headers["array-shape"], reply.headers["array-dtype"]) == (shape, dtype)


def test_naming_the_only_tensor_changes_nothing(client: Client) -> None:
    plain = client.get("/v1/biases/alibi.npy?heads=5&length=2")
    named = client.head("/v1/biases/alibi.npy?heads=5&length=2&tensor=bias")
    assert plain.headers["content-disposition"] == named.headers["content-disposition"]
    assert plain.headers["etag"] == named.headers["etag"]


def test_raw_bytes_are_described_by_their_headers(client: Client) -> None:
    """S28."""
    reply = client.get("/v1/encodings/sinusoidal.bin?length=3&dim=5&dtype=float16")
    assert reply.headers["content-type"] == "application/octet-stream"
    assert len(reply.content) == 3 * 5 * 2
    assert reply.headers["content-length"] == "30"
    assert reply.headers["array-shape"] == "3, 5"
    assert reply.headers["array-dtype"] == "float16"


@pytest.mark.parametrize("asked", EXAMPLES, ids=str)
def test_a_pinned_address_is_kept_for_a_year(client: Client, asked: Asked) -> None:
    pinned = Asked(asked.scheme, asked.example, "json", f"&revision={asked.scheme.revision}")
    plain, reply = asked.send(client), pinned.send(client)
    assert reply.status_code == 200
    assert reply.content == plain.content
    assert reply.headers.get("etag") == plain.headers.get("etag")
    kept = "no-store" if asked.method == "POST" else "public, max-age=31536000, immutable"
    assert reply.headers["cache-control"] == kept
    assert asked.send(client).headers["cache-control"] == plain.headers["cache-control"]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(scheme.key))
@pytest.mark.parametrize("given", ["0", "-1", "01", "1.0", "", "99", "x" * 500])
def test_another_revision_is_refused(client: Client, scheme: object, given: str) -> None:
    (asked,) = [each for each in EXAMPLES if each.scheme is scheme][:1]
    other = Asked(asked.scheme, asked.example, "json", f"&revision={given}")
    document = refused(other.send(client), "invalid-parameters")
    assert document["errors"][0]["code"] == "revision"
    assert document["errors"][0]["limit"] == asked.scheme.revision
    assert f"this build computes revision {asked.scheme.revision}" in document["detail"]


@pytest.mark.parametrize(
    "accept", ["application/x-npy", "image/png;q=0.5, application/json", "text/csv", "*/*", "", "?"]
)
def test_the_address_alone_chooses_the_format(client: Client, accept: str) -> None:
    """S27: Accept is not read, so that caches need not vary by it."""
    json_reply = client.get(f"{ROPE}?length=1&dim=2", headers={"accept": accept})
    npz_reply = client.get(f"{ROPE}.npz?length=1&dim=2", headers={"accept": accept})
    assert json_reply.headers["content-type"] == "application/json"
    assert npz_reply.content[:2] == b"PK"


@pytest.mark.parametrize("given", ["a", "0f8fad5b-d9cb-469f-a165-70867728950e", "Root=1-5f", "x" * 65, "ü", "a b", ""])
def test_a_plain_request_id_comes_back(client: Client, given: str) -> None:
    plain = re.fullmatch(r"[A-Za-z0-9._:-]{1,64}", given) is not None
    for target in (f"{ROPE}?length=1&dim=4", f"{ROPE}?length=1&dim=4", "/health/live", "/nothing", f"{ROPE}?dim=x"):
        reply = client.get(target, headers={"x-request-id": given.encode()})
        assert (reply.headers["x-request-id"] == given) is plain
        assert re.fullmatch(r"[A-Za-z0-9._:-]{1,64}", reply.headers["x-request-id"])
        assert len(reply.headers.get_list("x-request-id")) == 1


def test_every_request_has_an_id_of_its_own(client: Client) -> None:
    seen = {client.get(f"{ROPE}?length=1&dim=4").headers["x-request-id"] for _ in range(20)}
    assert len(seen) == 20


def test_server_timing_names_the_stages(client: Client) -> None:
    reply = client.get(f"{ROPE}.npy?length=3&dim=4&base=4321.5")
    assert TIMING.fullmatch(reply.headers["server-timing"])


@pytest.mark.parametrize("asked", GETS, ids=str)
def test_a_cached_answer_is_the_same_answer(client: Client, asked: Asked) -> None:
    """By its address, by another spelling of it, and computed anew: the same bytes and headers."""
    changing = {"server-timing", "x-request-id", "date"}
    first = asked.send(client)
    again = asked.send(client)
    other = Asked(asked.scheme, asked.example, "json", "&nonfinite=refuse").send(client)
    shown = [
        {name: value for name, value in reply.headers.items() if name not in changing}
        for reply in (first, again, other)
    ]
    assert shown[0] == shown[1] == shown[2]
    assert first.content == again.content == other.content


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/v1/biases/alibi.npy?heads=2&length=3", "/v1/biases/alibi.npy?heads=2&queries=3&keys=3&offset=0"),
        ("/v1/biases/alibi.npy?heads=2&queries=3", "/v1/biases/alibi.npy?heads=2&queries=3&keys=3"),
        ("/v1/encodings/rope.npy?length=3&dim=8", "/v1/encodings/rope.npy?length=3&dim=8&rotary_dim=8"),
        (
            "/v1/encodings/rope.npy?length=3&dim=8&rotary_dim=4",
            "/v1/encodings/rope.npy?length=3&dim=8&partial_rotary_factor=0.5",
        ),
        ("/v1/encodings/rope.npy?length=3&dim=8", "/v1/encodings/rope.npy?length=3&dim=8&nonfinite=string"),
    ],
)
def test_what_one_parameter_says_of_another_makes_no_second_request(client: Client, one: str, other: str) -> None:
    assert client.head(one).headers["etag"] == client.head(other).headers["etag"]
    assert client.get(one).content == client.get(other).content


@pytest.mark.parametrize("mask", ["causal?", "sliding?window=2&"])
def test_masks_state_the_sizes_that_were_used(client: Client, mask: str) -> None:
    stated = client.get(f"/v1/masks/{mask}queries=2&keys=5").json()["parameters"]
    assert [stated[name] for name in ("length", "queries", "keys", "offset")] == [None, 2, 5, 3]
    spellings = ("queries=2&keys=5&alignment=top-left", "queries=2&keys=5&offset=0")
    assert len({client.head(f"/v1/masks/{mask}{spelling}").headers["etag"] for spelling in spellings}) == 1


def test_a_reply_states_what_was_used_and_what_had_no_effect(client: Client) -> None:
    stated = client.get("/v1/biases/alibi?heads=2&queries=1&keys=4").json()["parameters"]
    assert (stated["queries"], stated["keys"], stated["offset"]) == (1, 4, 3)
    reply = client.get("/v1/encodings/rope?length=3&dim=8&output=frequencies&columns=half").json()
    assert reply["parameters"]["rotary_dim"] == 8
    assert reply["notes"] == [
        "length has no effect with output=frequencies",
        "columns has no effect with output=frequencies",
    ]


def test_a_bias_that_is_too_large_names_what_is_smaller(client: Client) -> None:
    reply = client.get("/v1/biases/alibi?heads=4&length=1000000")
    assert reply.status_code == 422
    assert "biases/alibi-slopes only the slopes" in reply.json()["detail"]
    assert ".npy" not in reply.json()["detail"]


def test_an_answer_that_is_cut_short_breaks_its_connection(direct: Client) -> None:
    """Swallowed, the failure would leave a client with half an answer that looks whole."""
    sent: list[str] = []

    async def failing(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("the second half")

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/cut", "raw_path": b"/cut", "query_string": b"", "headers": []}
    with pytest.raises(RuntimeError, match="the second half"):
        direct.run(Door(failing, direct.resources)(scope, receive, send))
    assert sent == ["http.response.start", "http.response.body"]
