"""The catalogue says what the records say, and what it hands out works as it stands."""

import re
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from service.engine import SCHEMES
from service.engine.omissions import OMISSIONS, Omission
from service.engine.scheme import Scheme
from tests.api.problems import fault, refused
from tests.clients import Client


def entries(client: Client, name: str = "") -> list[dict[str, Any]]:
    reply = client.get(f"/v1/schemes{name and '/' + name}")
    assert reply.status_code == 200
    found: list[dict[str, Any]] = reply.json()["schemes"]
    return found


def test_every_scheme_is_listed_in_the_order_of_the_registry(client: Client) -> None:
    assert [(entry["family"], entry["name"]) for entry in entries(client)] == [scheme.key for scheme in SCHEMES]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(scheme.key))
def test_an_entry_is_the_record(client: Client, scheme: Scheme[Any, Any]) -> None:
    (entry,) = [each for each in entries(client) if (each["family"], each["name"]) == scheme.key]
    assert entry["title"] == scheme.title
    assert entry["description"] == scheme.description
    assert entry["reference"] == scheme.reference
    assert entry["rounding"] == scheme.rounding
    assert entry["revision"] == scheme.revision
    assert entry["href"] == f"/v1/{scheme.family}/{scheme.name}"
    assert entry["methods"] == ([] if scheme.needs_body else ["GET"]) + (["POST"] if scheme.takes_body else [])
    reply = {"revision", "tensor", "theme", "picture_width", "nonfinite"} | ({"preset"} if scheme.presets else set())
    assert set(entry["parameters"]["properties"]) == set(scheme.params.model_fields) - set(scheme.structured) | reply
    assert [each["name"] for each in entry["inputs"]] == [*scheme.in_body, *(each.name for each in scheme.inputs)]
    assert entry["properties"] == dict(scheme.properties)
    assert [each["who"] for each in entry["used_by"]] == [each.who for each in scheme.used_by]
    named = {each["preset"]: each["parameters"] for each in entry["used_by"] if "preset" in each}
    assert named == scheme.presets
    assert entry["parameters"]["properties"].get("preset", {}).get("enum", []) == list(named)


@pytest.mark.parametrize("name", dict.fromkeys(scheme.name for scheme in SCHEMES))
def test_one_name_lists_every_family_that_has_it(client: Client, name: str) -> None:
    assert entries(client, name) == [entry for entry in entries(client) if entry["name"] == name]


def test_what_is_left_out_is_said_with_the_reason(client: Client) -> None:
    told = client.get("/v1/schemes").json()["left_out"]
    assert told == [asdict(omission) for omission in OMISSIONS]
    assert len({(each["topic"], each["name"]) for each in told}) == len(told)
    assert all(each["name"] and each["topic"] and len(each["reason"]) > 20 for each in told)
    assert "left_out" not in client.get("/v1/schemes/rope").json()


@pytest.mark.parametrize("omission", OMISSIONS, ids=lambda omission: omission.name)
def test_a_reason_names_only_what_there_is(omission: Omission) -> None:
    named = re.findall(
        r"\b(analyses|apply|biases|encodings|learned|masks|permutations|positions)/([a-z0-9-]+)", omission.reason
    )
    assert set(named) <= {scheme.key for scheme in SCHEMES}


def test_every_example_works_as_it_stands(client: Client) -> None:
    for entry in entries(client):
        assert len(entry["examples"]) > 0
        for example in entry["examples"]:
            options = {"json": example["body"]} if "body" in example else {}
            reply = client.request(example["method"], example["href"], **options)
            assert reply.status_code == 200, reply.text
            tensors = reply.json()["tensors"]
            assert all(tensor["axes"] in entry["tensors"][name] for name, tensor in tensors.items())
            query = parse_qs(urlsplit(example["href"]).query)
            assert set(query) <= set(entry["parameters"]["properties"])
            if example["method"] == "GET":
                assert reply.headers["cache-control"].endswith("immutable")


def test_every_verb_and_extension_that_is_listed_is_there(client: Client) -> None:
    for entry in entries(client):
        allowed = client.request("OPTIONS", entry["href"]).headers["allow"].split(", ")
        assert set(allowed) - {"HEAD", "OPTIONS"} == set(entry["methods"])
        for extension in entry["extensions"]:
            assert client.request("OPTIONS", f"{entry['href']}.{extension}").status_code == 204


@pytest.mark.parametrize("path", ["/v1/schemes", "/v1/schemes/rope"])
def test_the_catalogue_has_validators(client: Client, path: str) -> None:
    reply, head = client.get(path), client.head(path)
    assert reply.headers["cache-control"] == "public, max-age=3600"
    assert head.content == b""
    assert head.headers["content-length"] == reply.headers["content-length"] == str(len(reply.content))
    for given in (reply.headers["etag"], f"W/{reply.headers['etag']}", "*"):
        again = client.get(path, headers={"if-none-match": given})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == reply.headers["etag"]
    assert client.get(path, headers={"if-none-match": '"x"'}).status_code == 200


def test_the_catalogue_takes_no_parameters(client: Client) -> None:
    for path in ("/v1/schemes", "/v1/schemes/rope"):
        document = refused(client.get(f"{path}?family=encodings"), "invalid-parameters")
        assert fault(document, "family")["code"] == "unknown"
        refused(client.get(f"{path}?x"), "bad-request")


def test_a_document_is_made_once(direct: Client) -> None:
    """Asked for by many at the same time, before it was made."""
    names = sorted({scheme.name for scheme in SCHEMES})[::5]
    replies = direct.together([("GET", f"/v1/schemes/{name}", {}) for name in names for _ in range(20)])
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.headers["etag"] for reply in replies}) == len(names)
