"""Models over HTTP: a configuration becomes a plan whose addresses work, and what is wrong is refused by pointer."""

import json
from typing import Any

import httpx
import numpy as np
import pytest

from service.api.models import MOST_BYTES
from service.models.catalogue import checkpoints
from service.models.known import names
from tests.api.problems import fault, refused
from tests.clients import Client

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "rope_theta": 500_000.0,
}


def resolve(client: Client, config: object, query: str = "") -> httpx.Response:
    return client.post(f"/v1/models/resolve{query}", json=config)


def raw(client: Client, body: bytes) -> httpx.Response:
    return client.post("/v1/models/resolve", content=body, headers={"Content-Type": "application/json"})


def test_a_configuration_becomes_a_plan(client: Client) -> None:
    reply = resolve(client, LLAMA, "?length=3")
    assert reply.status_code == 200
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["content-length"] == str(len(reply.content))
    (use,) = reply.json()["uses"]
    assert use["parameters"]["base"] == {"value": 500_000.0, "source": "config", "key": "/rope_theta"}
    tables = client.get(use["addresses"]["tables"]["href"]).json()["tensors"]
    frequency = np.float64(500_000.0) ** (-np.arange(8) / 8)
    wanted = np.cos(np.arange(3)[:, None] * np.tile(frequency, 2))
    np.testing.assert_allclose(np.array(tables["cos"]["data"]), wanted, atol=1e-6)
    assert raw(client, json.dumps(LLAMA).encode()).content == resolve(client, LLAMA).content


def test_every_address_of_a_plan_answers(direct: Client) -> None:
    for config in ({"model_type": "gemma3_text"}, {"model_type": "llama4_text"}, {"model_type": "qwen3_vl_text"}):
        for use in resolve(direct, config, "?length=2").json()["uses"]:
            for name, address in use["addresses"].items():
                if name == "rotation":
                    dim = use["parameters"]["dim"]["value"]
                    reply = direct.post(address["href"], json={"tensors": {"q": [[1.0] * dim] * 2}})
                elif address["method"] == "POST":
                    reply = direct.post(address["href"], json=address["body"])
                else:
                    reply = direct.get(address["href"])
                    assert "immutable" in reply.headers["cache-control"]
                assert reply.status_code == 200, (name, reply.text)


@pytest.mark.parametrize(
    ("body", "slug", "place"),
    [
        (b"", "bad-request", "body"),
        (b"{", "bad-request", "body"),
        (b"[" * 100_000, "bad-request", "body"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "bad-request", "body"),
        (b"[1]", "invalid-parameters", ""),
        (b'"llama"', "invalid-parameters", ""),
        (b"null", "invalid-parameters", ""),
        (b'{"model_type": "llama", "model_type": "gemma"}', "bad-request", "body"),
        (b"{}", "invalid-parameters", "/model_type"),
        (b'{"model_type": "lama"}', "invalid-parameters", "/model_type"),
        (b'{"model_type": "llama", "hidden_size": "4096"}', "invalid-parameters", "/hidden_size"),
        (b'{"model_type": "llama", "hidden_size": -1}', "invalid-parameters", "/hidden_size"),
        (b'{"model_type": "llama", "hidden_size": 1e300}', "invalid-parameters", "/hidden_size"),
        (b'{"model_type": "gemma2", "layer_types": []}', "invalid-parameters", "/layer_types"),
        (b'{"model_type": "llama", "rope_scaling": {"facotr": 2}}', "invalid-parameters", "/rope_scaling/facotr"),
    ],
)
def test_bad_bodies(client: Client, body: bytes, slug: str, place: str) -> None:
    reply = raw(client, body)
    # A name that comes twice has a pointer of its own.
    if b'"model_type": "gemma"' in body:
        assert reply.status_code in (400, 422)
        return
    document = refused(reply, slug)
    assert fault(document, place)["detail"]


def test_a_body_of_ten_megabytes_is_too_large(client: Client) -> None:
    body = b'{"model_type": "llama", "x": "' + b"x" * 10_000_000 + b'"}'
    assert fault(refused(raw(client, body), "content-too-large"), "body")["limit"] == MOST_BYTES


def test_only_json_is_read(client: Client) -> None:
    reply = client.post("/v1/models/resolve", content=b"{}", headers={"Content-Type": "application/octet-stream"})
    document = refused(reply, "unsupported-media-type")
    assert "application/json (UTF-8) would do" in document["detail"]


@pytest.mark.parametrize(
    ("query", "place", "near"),
    [
        ("?assumed=llama", "assumed", "assume"),
        ("?preset=vlm", "preset", "vllm"),
        ("?length=0", "length", None),
        ("?length=x", "length", None),
        ("?length=9999999999", "length", None),
        ("?assume=lama", "assume", None),
    ],
)
def test_bad_queries(client: Client, query: str, place: str, near: str | None) -> None:
    found = fault(refused(resolve(client, {"model_type": "zz"}, query), "invalid-parameters"), place)
    assert found.get("did_you_mean") == near


def test_a_type_that_is_assumed(client: Client) -> None:
    plan = resolve(client, {**LLAMA, "model_type": "my_own"}, "?assume=llama").json()
    assert (plan["model_type"], plan["assumed"]) == ("my_own", "llama")
    assert "read by the keys alone" in plan["notes"][0]


# By name


def test_the_list(direct: Client) -> None:
    reply = direct.get("/v1/models")
    assert direct.get("/v1/models").headers["etag"] == reply.headers["etag"]
    rows = {row["name"]: row for row in reply.json()["models"]}
    assert set(rows) == {*names(), *checkpoints()}
    assert len(checkpoints()) >= 60
    assert rows["llama"] == {
        "name": "llama",
        "kind": "model type",
        "model_type": "llama",
        "schemes": ["encodings/rope"],
        "encodings": ["rope"],
        "href": "/v1/models/llama",
    }
    assert rows["llama-3.1-8b"]["kind"] == "checkpoint"
    assert all(row["encodings"] or row["refused"] for row in rows.values())


def test_the_list_by_scheme(direct: Client) -> None:
    rows = direct.get("/v1/models?scheme=alibi").json()["models"]
    found = [row["name"] for row in rows]
    assert "bloom" in found
    assert "llama" not in found
    assert direct.get("/v1/models?scheme=biases/alibi").json()["models"] == rows
    without = [row["name"] for row in direct.get("/v1/models?scheme=none").json()["models"]]
    assert "mamba" in without
    assert "llama" not in without
    learned = [row["name"] for row in direct.get("/v1/models?scheme=learned").json()["models"]]
    assert "bert" in learned
    assert "llama" not in learned
    refusal = fault(refused(direct.get("/v1/models?scheme=alibbi"), "invalid-parameters"), "scheme")
    assert refusal["did_you_mean"] == "alibi"
    assert fault(refused(direct.get("/v1/models?schem=rope"), "invalid-parameters"), "schem")


def test_a_plan_by_name(client: Client) -> None:
    reply = client.get("/v1/models/llama-3.1-8b?length=4")
    plan = reply.json()
    published = resolve(client, checkpoints()["llama-3.1-8b"]["config"], "?length=4").json()
    assert plan == {"name": "llama-3.1-8b", **published}
    (use,) = plan["uses"]
    assert use["parameters"]["factor"] == {"value": 8.0, "source": "config", "key": "/rope_scaling/factor"}
    again = client.get("/v1/models/llama-3.1-8b?length=4", headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.request("HEAD", "/v1/models/llama").status_code == 200
    other = client.get("/v1/models/llama-3.1-8b?preset=llama.cpp&length=4").json()
    assert other["uses"][0]["parameters"]["arithmetic"]["value"] == "ggml"


def test_an_unknown_name(client: Client) -> None:
    found = fault(refused(client.get("/v1/models/lama"), "not-found"), "name")
    assert found["did_you_mean"] == "llama"
    assert "did_you_mean" not in fault(refused(client.get("/v1/models/qqqqqqqqq"), "not-found"), "name")


@pytest.mark.parametrize("name", list(checkpoints()))
def test_every_checkpoint_has_a_whole_plan(name: str, direct: Client) -> None:
    reply = direct.get(f"/v1/models/{name}?length=2")
    assert reply.status_code == 200, reply.text
    uses = reply.json()["uses"]
    assert uses
    for use in uses:
        if "frequencies" in use["addresses"]:
            assert direct.request("HEAD", use["addresses"]["frequencies"]["href"]).status_code == 200


def test_pythons_infinity(client: Client) -> None:
    """As transformers writes it for hybrids of Mamba; a key that positions follow from must be finite."""
    body = b'{"model_type": "falcon_h1", "time_step_limit": [0.0, Infinity], "note": "NaN", "x": [-Infinity, NaN]}'
    assert raw(client, body).status_code == 200
    answer = raw(client, b'{"model_type": "llama", "rope_theta": Infinity}')
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/rope_theta")
    for broken in (b'{"model_type": "llama", "x": Infinity', b'{"model_type": "llama", "x": infinity}'):
        assert raw(client, broken).status_code == 400
