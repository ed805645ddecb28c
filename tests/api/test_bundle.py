"""Bundles: several answers in one file, refused entry by entry, streamed, the same bytes every time."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load

from service.api.bundle import MOST_ENTRIES
from service.client import read_safetensors
from service.settings import Settings
from tests.clients import Client, in_process, settings

ROPE = "/v1/encodings/rope?length=7&dim=6&base=500000"
BIAS = "/v1/biases/alibi?heads=3&queries=2&keys=5"
INDEX = "/v1/biases/shaw?length=5&left=2&right=2"
ENTRIES = {"layers.0.rope": ROPE, "alibi": BIAS, "index": INDEX}


def bundle(client: Client, entries: Any, extension: str = "safetensors", **options: Any) -> Any:
    return client.post(f"/v1/bundle.{extension}", json=entries, **options)


def refusal(client: Client, entries: Any, extension: str = "safetensors") -> tuple[int, dict[str, Any]]:
    """Status and the one fault of a bundle that is refused."""
    answer = bundle(client, entries, extension)
    assert answer.headers["content-type"] == "application/problem+json"
    (fault,) = answer.json()["errors"]
    return answer.status_code, fault


def alone(client: Client, target: str) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return load(client.get(f"{path}.safetensors?{query}").content)


def test_every_entry_is_the_answer_of_its_address(client: Client) -> None:
    answer = bundle(client, ENTRIES)
    assert answer.status_code == 200
    found = load(answer.content)
    rope = alone(client, ROPE)
    expected = {"layers.0.rope.cos": rope["cos"], "layers.0.rope.sin": rope["sin"]}
    expected |= {"alibi": alone(client, BIAS)["bias"], "index": alone(client, INDEX)["index"]}
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
    assert found["alibi"].shape == (3, 2, 5)
    assert found["layers.0.rope.sin"][1, 0] == np.float32(np.sin(1.0))


def test_what_it_says_of_itself(direct: Client) -> None:
    answer = bundle(direct, ENTRIES)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(answer.content))
    assert answer.headers["content-disposition"] == 'attachment; filename="bundle.safetensors"'
    assert answer.headers["cache-control"] == "no-store"
    header = json.loads(answer.content[8 : 8 + int.from_bytes(answer.content[:8], "little")])
    stated = json.loads(header["__metadata__"]["posenc"])["entries"]
    assert list(stated) == sorted(ENTRIES)
    shown = direct.get(ROPE).json()
    del shown["tensors"]
    assert stated["layers.0.rope"] == shown


def test_npz_opens_with_numpy(client: Client) -> None:
    answer = bundle(client, ENTRIES, "npz")
    assert answer.headers["content-length"] == str(len(answer.content))
    with np.load(io.BytesIO(answer.content)) as found:
        assert set(found.files) == {"layers.0.rope.cos", "layers.0.rope.sin", "alibi", "index", "parameters.json"}
        assert np.array_equal(found["layers.0.rope.cos"], alone(client, ROPE)["cos"])
        assert np.array_equal(found["alibi"], alone(client, BIAS)["bias"])
    with zipfile.ZipFile(io.BytesIO(answer.content)) as members:
        assert members.testzip() is None
        assert json.loads(members.read("parameters.json"))["entries"]["alibi"]["parameters"]["heads"] == 3


def test_safetensors_open_lazily(direct: Client, tmp_path: Path) -> None:
    entries = {f"layers.{number}": f"/v1/encodings/rope?length=64&dim=32&base={number + 1}e4" for number in range(12)}
    (tmp_path / "b.safetensors").write_bytes(bundle(direct, entries).content)
    with safe_open(tmp_path / "b.safetensors", framework="numpy") as file:
        assert len(file.keys()) == 24
        part = file.get_slice("layers.7.sin")
        assert part.get_shape() == [64, 32]
        assert np.array_equal(part[5:7], alone(direct, entries["layers.7"])["sin"][5:7])


@pytest.mark.parametrize("extension", ["safetensors", "npz"])
def test_the_same_bytes_every_time(extension: str) -> None:
    found = []
    for _ in range(2):
        with in_process(settings()) as client:
            found.append(bundle(client, ENTRIES, extension).content)
    assert found[0] == found[1]


def test_every_number_format(direct: Client) -> None:
    dtypes = ["float64", "float32", "float16", "bfloat16"]
    entries = {dtype: f"/v1/encodings/sinusoidal?length=3&dim=4&dtype={dtype}" for dtype in dtypes}
    found, _ = read_safetensors(bundle(direct, entries).content)
    assert {name: str(array.dtype) for name, array in found.items()} == {dtype: dtype for dtype in dtypes}
    assert found["bfloat16"][1, 1] == ml_dtypes.bfloat16(np.cos(1.0))


def test_one_tensor_of_several_and_a_pinned_address(direct: Client) -> None:
    found = load(bundle(direct, {"sin": f"{ROPE}&tensor=sin&revision=1"}).content)
    assert found.keys() == {"sin"}
    assert np.array_equal(found["sin"], alone(direct, ROPE)["sin"])


def test_a_pasted_block_in_an_address(direct: Client) -> None:
    block = "%7B%22rope_type%22%3A%22linear%22%2C%22factor%22%3A4.0%7D"
    target = f"/v1/encodings/rope?length=9&dim=4&rope_scaling={block}"
    found = load(bundle(direct, {"scaled": target}).content)
    assert np.array_equal(
        found["scaled.sin"][8], load(direct.get("/v1/encodings/rope.safetensors?positions=2&dim=4").content)["sin"][0]
    )


def test_a_large_one_streams() -> None:
    """Eight times the memory that work may take, in blocks; the file is whole."""
    small: dict[str, Any] = {"memory_bytes": 40 << 20, "table_cache_bytes": 0, "stream_bytes": 1 << 20}
    entries = {f"t{number}": f"/v1/encodings/rope?length=16384&dim=128&base={number + 2}" for number in range(20)}
    with in_process(settings(**small)) as client:
        answer = bundle(client, entries)
        assert client.resources.budget.in_use == 0
    found = load(answer.content)
    assert sum(array.nbytes for array in found.values()) == 40 * 16384 * 128 * 4
    assert found["t19.sin"][16383, 0] == np.float32(np.sin(16383.0))


# Refusals


@pytest.mark.parametrize(
    ("target", "code", "detail"),
    [
        ("/v1/encodings/rope?lenght=7&dim=6", "unknown", "lenght is not a parameter of encodings/rope; nearest"),
        ("/v1/encodings/rope?length=7", "missing", "dim is missing"),
        ("/v1/encodings/rope?length=7&dim=6&dim=8", "repeated", "dim is given more than once"),
        ("/v1/encodings/rope?length", "bad-request", "'length' in the query is not name=value"),
        ("/v1/encodings/rope?length=\u00e9", "bad-request", "the query holds bytes that are not percent-encoded"),
        ("/v1/encodings/rope.npy?length=7&dim=6", "extension", "/v1/encodings/rope.npy: leave the ending out"),
        ("/v1/apply/rope?offset=1", "method", "/v1/apply/rope takes the caller's arrays (POST)"),
        ("http://127.0.0.1/v1/encodings/rope?dim=4", "unknown", "http://127.0.0.1/v1/encodings/rope is no address of"),
        ("//127.0.0.1/v1/encodings/rope", "unknown", "there is nothing at //127.0.0.1/v1/encodings/rope; nearest"),
        ("/v1/encodings/../encodings/rope?dim=4", "unknown", "there is nothing at /v1/encodings/../encodings/rope"),
        ("/v1/encodings/ropes?dim=4", "unknown", "there is nothing at /v1/encodings/ropes; nearest are"),
        ("/v1/bundle.safetensors", "unknown", "there is nothing at /v1/bundle.safetensors; "),
        ("/health/live", "unknown", "there is nothing at /health/live; "),
        ("/v1/encodings/rope?dim=4&length=2&revision=9", "revision", "revision is 9; this build computes revision 1"),
        ("", "unknown", " is no address of this service"),
        (7, "type", "an address is needed, as a string"),
        (None, "type", "an address is needed, as a string"),
        ("/v1/encodings/rope?" + "x" * 9000, "too_large", "the address has 9019 characters; 8192 are read"),
    ],
)
def test_a_fault_is_placed_in_its_entry(target: object, code: str, detail: str, direct: Client) -> None:
    status, fault = refusal(direct, {"fine": ROPE, "a.b": target})
    assert (status, fault["pointer"], fault["code"]) == (422, "/a.b", code)
    assert fault["detail"].startswith(detail)


def test_the_nearest_address_is_told(direct: Client) -> None:
    _, fault = refusal(direct, {"x": "/v1/encodings/ropes?dim=4"})
    assert fault["did_you_mean"] == "/v1/encodings/rope"


@pytest.mark.parametrize(
    "name", ["", "../x", "a/b", ".x", "-x", "a b", "\u00e9", "x" * 129, "__metadata__", "parameters.json"]
)
def test_names_that_are_no_names(name: str, direct: Client) -> None:
    status, fault = refusal(direct, {name: ROPE})
    assert (status, fault["code"]) == (422, "name")
    assert fault["pointer"] == "/" + (name if len(name) < 65 else name[:63] + "…").replace("/", "~1")


def test_names_that_come_twice(direct: Client) -> None:
    body = f'{{"a": "{ROPE}", "a": "{BIAS}"}}'
    answer = direct.post("/v1/bundle.npz", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["detail"] == "the name a comes twice in one object"
    status, fault = refusal(direct, {"a": ROPE, "a.sin": BIAS})
    assert (status, fault["pointer"]) == (422, "/a.sin")
    assert fault["detail"] == "a.sin has a tensor a.sin, which a has too: give it another name"


@pytest.mark.parametrize("body", [[], {}, "x", 3, True, [ROPE]])
def test_a_body_that_is_no_object_of_names(body: object, direct: Client) -> None:
    status, fault = refusal(direct, body)
    assert (status, fault["pointer"], fault["code"]) == (422, "", "type")


def test_too_many_entries(direct: Client) -> None:
    few = {f"n{number}": "/v1/biases/alibi-slopes?heads=2" for number in range(MOST_ENTRIES)}
    assert len(load(bundle(direct, few).content)) == MOST_ENTRIES
    status, fault = refusal(direct, few | {"more": ROPE})
    assert (status, fault["code"], fault["requested"], fault["limit"]) == (422, "too_many", 257, 256)


def test_bfloat16_in_npz(direct: Client) -> None:
    status, fault = refusal(direct, {"a": BIAS, "b": f"{ROPE}&dtype=bfloat16"}, "npz")
    assert (status, fault["pointer"]) == (406, "/b")
    assert fault["detail"] == "npz has no bfloat16; safetensors can hold it"


def test_sizes_are_refused_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    small = settings(result_bytes=100_000)
    with in_process(small) as client:
        monkeypatch.setattr(client.resources.tables, "rows", _never)
        big = "/v1/encodings/rope?length=64&dim=128"
        status, fault = refusal(client, {"a": big, "b": f"{big}&base=2"})
        assert (status, fault["requested"], fault["limit"]) == (422, 4 * 64 * 128 * 4, 100_000)
        status, fault = refusal(client, {"a": big, "b": "/v1/encodings/rope?length=200&dim=128"})
        assert (status, fault["pointer"], fault["requested"]) == (422, "/b", 2 * 200 * 128 * 4)


def _never(*_arguments: object) -> None:
    raise AssertionError("nothing is computed for an answer that is refused")


@pytest.mark.parametrize(
    ("send", "status", "says"),
    [
        (
            lambda c: c.post("/v1/bundle.npy", json=ENTRIES),
            404,
            ".npy is no format of a bundle; known are safetensors, npz",
        ),
        (
            lambda c: c.post("/v1/bundle.npz?dtype=float64", json=ENTRIES),
            422,
            "dtype is not known here: parameters stand in",
        ),
        (
            lambda c: c.post("/v1/bundle.npz", content=b"{}"),
            415,
            "Content-Type is missing; application/json (UTF-8) would do",
        ),
        (lambda c: c.get("/v1/bundle.npz"), 405, "GET is not possible here; OPTIONS, POST are"),
        (lambda c: c.post("/v1/bundle.npz", json={"a": "x" * (1 << 20)}), 413, "the body has at least 10485"),
    ],
)
def test_what_is_not_a_request_for_a_bundle(
    send: Callable[[Client], Any], status: int, says: str, direct: Client
) -> None:
    answer = send(direct)
    assert answer.status_code == status
    assert answer.json()["detail"].startswith(says)


def test_a_smaller_limit_of_bodies_holds_too() -> None:
    with in_process(Settings.model_validate({"body_bytes": 20})) as client:
        answer = bundle(client, ENTRIES)
    assert (answer.status_code, answer.json()["errors"][0]["limit"]) == (413, 20)


def test_no_memory_at_the_moment() -> None:
    with in_process(settings(memory_bytes=1 << 20)) as client:
        client.resources.budget.in_use = (1 << 20) - 3000
        answer = bundle(client, ENTRIES)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert client.resources.budget.in_use == (1 << 20) - 3000
