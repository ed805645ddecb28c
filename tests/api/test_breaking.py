"""Clients of the last released document go on working; and the check sees what would break them."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.breaking import bare, breaking, present, released

ROPE = "/v1/encodings/rope"
Document = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> Document:
    found: Document = bare(present())
    return found


def test_no_client_of_the_released_document_breaks(document: Document) -> None:
    assert breaking(released(), document) == [], (
        "this breaks clients: tell it in the version and CHANGELOG.md, and run python -m tests.breaking"
    )


def test_prose_is_left_out_and_names_are_not() -> None:
    given = {"description": "x", "properties": {"description": {"type": "string", "description": "y"}}}
    assert bare(given) == {"properties": {"description": {"type": "string"}}}


def operation(document: Document, method: str = "get", path: str = ROPE) -> Document:
    found: Document = document["paths"][path][method]
    return found


def parameter(document: Document, name: str) -> Document:
    found: Document = document["components"]["parameters"][name]
    return found


def schema(document: Document, name: str) -> Document:
    found: Document = document["components"]["schemas"][name]
    return found


def renamed(document: Document) -> None:
    document["paths"]["/v1/encodings/ropes"] = document["paths"].pop(ROPE)


Change = Callable[[Document], object]
BREAKING: list[tuple[str, Change]] = [
    (f"GET {ROPE}: the operation is gone", renamed),
    (
        f"GET {ROPE}: operationId, which names a generated method, was encodings_rope",
        lambda d: operation(d).update(operationId="rope"),
    ),
    (
        f"GET {ROPE}: the parameter query encodings_dim is gone".replace("encodings_dim", "dim"),
        lambda d: operation(d)["parameters"].remove({"$ref": "#/components/parameters/encodings.rope.dim"}),
    ),
    (
        f"GET {ROPE}: the parameter query base became required",
        lambda d: parameter(d, "encodings.rope.base").update(required=True),
    ),
    (
        f"GET {ROPE}: the new parameter query key is required",
        lambda d: operation(d)["parameters"].append(
            {"name": "key", "in": "query", "required": True, "schema": {"type": "string"}}
        ),
    ),
    (
        f"GET {ROPE}: query dim was integer and is string",
        lambda d: parameter(d, "encodings.rope.dim")["schema"].update(type="string"),
    ),
    (
        f"GET {ROPE}: query base was integer or number and is integer",
        lambda d: parameter(d, "encodings.rope.base")["schema"].update(type="integer"),
    ),
    (
        f"GET {ROPE}: query pairing no longer takes interleaved",
        lambda d: schema(d, "EncodingsRopePairing")["enum"].remove("interleaved"),
    ),
    (
        f"GET {ROPE}: query dim: maximum was 65536 and is 512",
        lambda d: parameter(d, "encodings.rope.dim")["schema"].update(maximum=512),
    ),
    (
        f"GET {ROPE}: query dim: minimum was 2 and is 4",
        lambda d: parameter(d, "encodings.rope.dim")["schema"].update(minimum=4),
    ),
    (
        f"GET {ROPE}: query columns: default was full and is half",
        lambda d: parameter(d, "encodings.rope.columns")["schema"].update(default="half"),
    ),
    (
        "POST /v1/apply/rope: a body of application/octet-stream is no longer taken",
        lambda d: operation(d, "post", "/v1/apply/rope")["requestBody"]["content"].pop("application/octet-stream"),
    ),
    (
        "POST /v1/apply/rope: the body/tensors/k became required",
        lambda d: schema(d, "ApplyRopeBody")["properties"]["tensors"]["required"].append("k"),
    ),
    (
        "POST /v1/apply/rope: the body/tensors/k is no longer taken",
        lambda d: schema(d, "ApplyRopeBody")["properties"]["tensors"]["properties"].pop("k"),
    ),
    (f"GET {ROPE}: the answer 200 is gone", lambda d: operation(d)["responses"].pop("200")),
    (
        f"GET {ROPE}: the header ETag of 200 is gone",
        lambda d: operation(d)["responses"]["200"]["headers"].pop("ETag"),
    ),
    (
        f"GET {ROPE}: the answer 200 is no longer application/json",
        lambda d: operation(d)["responses"]["200"].update(content={}),
    ),
    (
        f"GET {ROPE}: the answer/facts is gone",
        lambda d: schema(d, "EncodingsRopeAnswer")["properties"].pop("facts"),
    ),
    (
        f"GET {ROPE}: the answer/notes may be missing",
        lambda d: schema(d, "EncodingsRopeAnswer")["required"].remove("notes"),
    ),
    (
        f"GET {ROPE}: the answer/notes[] was string and is anything",
        lambda d: schema(d, "EncodingsRopeAnswer")["properties"]["notes"]["items"].pop("type"),
    ),
]


@pytest.mark.parametrize(("told", "change"), BREAKING, ids=[told for told, _ in BREAKING])
def test_a_change_that_breaks_clients_is_told(told: str, change: Change, document: Document) -> None:
    changed = copy.deepcopy(document)
    change(changed)
    assert told in breaking(document, changed)


COMPATIBLE: list[Change] = [
    lambda d: d["paths"].update({"/v1/encodings/new": {"get": {"operationId": "new", "responses": {}}}}),
    lambda d: operation(d)["parameters"].append({"name": "k", "in": "query", "schema": {"type": "string"}}),
    lambda d: schema(d, "EncodingsRopePairing")["enum"].append("spread"),
    lambda d: parameter(d, "encodings.rope.dim")["schema"].update(maximum=1 << 20, minimum=0),
    lambda d: parameter(d, "encodings.rope.dim")["schema"].update(type="number"),
    lambda d: parameter(d, "encodings.rope.revision")["schema"].update(const=2),
    lambda d: parameter(d, "encodings.rope.dim").update(required=False),
    lambda d: schema(d, "EncodingsRopeAnswer")["properties"].update(more={"type": "string"}),
    lambda d: operation(d)["responses"].pop("431"),
]


@pytest.mark.parametrize("change", COMPATIBLE)
def test_a_change_that_breaks_nobody_is_none(change: Change, document: Document) -> None:
    changed = copy.deepcopy(document)
    change(changed)
    assert changed != document
    assert breaking(document, changed) == []
