"""The OpenAPI document: it is the committed one, it is complete, and what it says is true."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from service.access import new_key
from service.api.openapi import document, text
from service.api.openapi_operations import operation_id
from service.api.openapi_parameters import may_be_infinite
from service.api.openapi_responses import ANY_PROBE, ANY_REQUEST
from service.api.pasted import LAYER_TYPE, query_names
from service.api.problem_types import PROBLEMS
from service.api.query import REPLY_PARAMETERS
from service.api.schemes import address
from service.engine import SCHEMES, by_key
from service.engine.scheme import Example, Scheme
from tests.api.schema import faults, resolved
from tests.api.test_docs import ASSETS
from tests.clients import Client, in_process, on_port, settings
from tests.live import Client as Connection

COMMITTED = Path(__file__).parents[2] / "openapi" / "openapi.json"
DOCUMENT = document()
UNLISTED = {"/", "/docs", "/schemes", "/schemes/{name}", "/conventions", *ASSETS}

Operation = dict[str, Any]
AnyScheme = Scheme[Any, Any]


def operations() -> dict[str, tuple[str, str, Operation]]:
    """Every operation by id: method, path and the rest."""
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
    }


OPERATIONS = operations()
OF_SCHEMES = [
    (scheme, method, kind, operation_id(scheme, method, kind))
    for scheme in SCHEMES
    for method in ([] if scheme.needs_body else ["get"]) + (["post"] if scheme.takes_body else [])
    for kind in ("json", "file")
]
IDS = [name for _, _, _, name in OF_SCHEMES]


def parameters(operation: Operation, place: str = "query") -> dict[str, Any]:
    """The parameters of an operation in one place, by name."""
    found = [resolved(DOCUMENT, each) for each in operation.get("parameters", [])]
    return {each["name"]: each for each in found if each["in"] == place}


def shown(value: Any) -> str:
    """A value as the query spells it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def filled_in(operation: Operation) -> dict[str, str]:
    """What Swagger UI's form holds before anybody types: examples, else defaults."""
    query = {}
    for name, parameter in parameters(operation).items():
        schema = {**resolved(DOCUMENT, parameter["schema"]), **parameter["schema"]}
        value = parameter.get("example", schema.get("default"))
        if value is not None:
            query[name] = shown(value)
    return query


def problem(answer: httpx.Response) -> dict[str, Any]:
    """The problem document of an answer, which has the documented shape."""
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert not list(faults(DOCUMENT, {"$ref": "#/components/schemas/Problem"}, found))
    return found


def required_only(scheme: AnyScheme) -> dict[str, str]:
    """A query that works, as short as the first example."""
    return dict(scheme.examples[0].query)


# The document as a whole


def test_the_committed_document_is_the_generated_one() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == text(), (
        "openapi/openapi.json is out of date; regenerate it: posenc openapi > openapi/openapi.json"
    )


def test_it_is_served_as_it_is(client: Client) -> None:
    answer = client.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.content == COMMITTED.read_bytes()
    again = client.get("/openapi.json", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_every_route_is_an_operation_and_every_operation_a_route(direct: Client) -> None:
    known = [route for route in direct.app.router.routes if isinstance(route, Route)]
    assert len(known) == len(direct.app.router.routes)
    routes = {
        (method, route.path.replace(":path}", "}"))
        for route in known
        for method in route.methods or ()
        if method != "HEAD"
    }
    listed = {(method, path) for method, path, _ in OPERATIONS.values()}
    assert routes == listed | {("GET", path) for path in UNLISTED}


def test_operation_ids_are_plain_and_different() -> None:
    count = sum(len(item) for item in DOCUMENT["paths"].values())
    assert len(OPERATIONS) == count
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in OPERATIONS)
    wanted = {"encodings_rope", "encodings_rope_file", "encodings_rope_at", "encodings_rope_at_file"}
    wanted |= {"biases_alibi_slopes", "biases_alibi_slopes_file", "apply_rope", "apply_rope_file"}
    wanted |= {"advice", "schemes_list", "schemes_get", "health_live", "health_ready", "openapi"}
    assert wanted <= set(OPERATIONS)


def test_every_component_is_used_and_every_reference_resolves() -> None:
    references = set(re.findall(r'"\$ref":\s*"#/components/([^"]+)"', text()))
    components = {f"{kind}/{name}" for kind, entries in DOCUMENT["components"].items() for name in entries}
    # Schemes of security go by their names alone.
    assert references | {"securitySchemes/key"} == components


def test_every_operation_says_what_it_does() -> None:
    for method, path, operation in OPERATIONS.values():
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)
        assert operation["tags"][0] in {tag["name"] for tag in DOCUMENT["tags"]}


@pytest.mark.parametrize(("scheme", "method", "kind", "name"), OF_SCHEMES, ids=IDS)
def test_a_scheme_tells_formula_conventions_and_reference(scheme: AnyScheme, method: str, kind: str, name: str) -> None:
    _, path, operation = OPERATIONS[name]
    assert path == address(scheme) + (".{extension}" if kind == "file" else "")
    assert scheme.description in operation["description"]
    assert scheme.reference in operation["description"]
    assert all(usage.who in operation["description"] for usage in scheme.used_by)
    assert operation["summary"].startswith(scheme.title)
    assert ("requestBody" in operation) == (method == "post")


def test_a_scheme_that_nobody_uses_and_whose_first_example_has_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    sinusoidal = by_key("encodings", "sinusoidal")
    listed = next(each for each in sinusoidal.examples if "positions" in each.query)
    scheme = replace(sinusoidal, used_by=(), examples=(listed, *sinusoidal.examples))
    for module in ("openapi", "openapi_operations", "openapi_parameters", "openapi_schemas"):
        monkeypatch.setattr(f"service.api.{module}.SCHEMES", (scheme,))
    told = document()
    assert next(iter(told["components"]["parameters"])) == "encodings.sinusoidal.length"
    assert told["components"]["parameters"]["encodings.sinusoidal.positions"]["example"] == "0,0.5,-3"
    assert "**Conventions**" not in told["paths"]["/v1/encodings/sinusoidal"]["get"]["description"]


# Parameters


@pytest.mark.parametrize(("scheme", "method", "kind", "name"), OF_SCHEMES, ids=IDS)
def test_the_parameters_are_those_that_the_service_takes(scheme: AnyScheme, method: str, kind: str, name: str) -> None:
    told = set(parameters(OPERATIONS[name][2]))
    fields = set(scheme.params.model_fields) - set(scheme.structured)
    if method == "post" and [each.name for each in scheme.inputs][:1] == ["positions"]:
        fields -= {"length", "queries", "keys", "offset", "positions", *scheme.listed}
        fields -= {"grid", "coordinates", "base_size", "spatial_merge_size", "class_token"}
    assert told - set(REPLY_PARAMETERS) == fields | {*query_names(scheme)} | ({"preset"} if scheme.presets else set())
    assert "revision" in told
    assert ("nonfinite" in told) == (kind == "json" and may_be_infinite(scheme))


def test_tensor_is_offered_where_an_answer_holds_several() -> None:
    offered = {name for name in IDS if "tensor" in parameters(OPERATIONS[name][2])}
    several = ("precision", "decay", "shift", "norm", "permutation", "extrapolation")
    families = ("encodings_rope", "apply_rope", "biases_fire", *(f"analyses_{name}" for name in several))
    assert offered == {name for name in IDS if name.startswith(families)}
    schema = resolved(DOCUMENT, parameters(OPERATIONS["encodings_rope"][2])["tensor"]["schema"])
    assert schema["enum"] == ["cos", "sin", "complex", "angles", "frequencies", "divisors"]


def test_a_parameter_in_full() -> None:
    told = parameters(OPERATIONS["encodings_sinusoidal"][2])
    assert told["length"]["schema"] == {"type": "integer", "format": "int64", "minimum": 1, "maximum": 2**53}
    assert told["length"]["example"] == 4
    assert told["dim"]["required"] is True
    base = told["base"]["schema"]
    assert (base["type"], base["format"], base["default"]) == ("number", "double", 10_000.0)
    assert 1e30 < base["maximum"] < float("inf")
    factor = parameters(OPERATIONS["encodings_rope"][2])["partial_rotary_factor"]["schema"]
    assert factor == {"type": "number", "format": "double", "exclusiveMinimum": 0, "maximum": 1}
    positions = told["positions"]["schema"]
    assert positions["type"] == "string"  # generated clients would repeat the parameter of an array
    for good in ("7", "0,0.5,-3", "1e4,.5,2.", ",".join(["0"] * 512)):
        assert re.search(positions["pattern"], good)
    for bad in ("", ",", "1,", "1 ,2", "a", "1_0", "+1", ",".join(["0"] * 513)):
        assert not re.search(positions["pattern"], bad)
    assert told["layout"]["schema"] == {
        "$ref": "#/components/schemas/EncodingsSinusoidalLayout",
        "default": "interleaved",
    }
    assert told["revision"]["schema"] == {"type": "integer", "const": 1}


GETS = [(scheme, name) for scheme, method, kind, name in OF_SCHEMES if (method, kind) == ("get", "json")]


@pytest.mark.parametrize(("scheme", "name"), GETS, ids=[name for _, name in GETS])
def test_defaults_are_those_that_the_answer_states(scheme: AnyScheme, name: str, direct: Client) -> None:
    query = required_only(scheme)
    stated = direct.get(address(scheme), params=query).json()["parameters"]
    for parameter, told in parameters(OPERATIONS[name][2]).items():
        if parameter in stated and parameter not in query:
            # A width that is all of a head, say, depends on what else was asked: it is stated, and no default.
            assert stated[parameter] == told["schema"].get("default", stated[parameter]), parameter


@pytest.mark.parametrize(("scheme", "name"), GETS, ids=[name for _, name in GETS])
def test_the_service_refuses_what_the_schemas_exclude(scheme: AnyScheme, name: str, direct: Client) -> None:
    checked = set()
    for parameter, told in parameters(OPERATIONS[name][2]).items():
        for value in excluded(resolved(DOCUMENT, told["schema"])):
            answer = direct.get(address(scheme), params=required_only(scheme) | {parameter: value})
            assert answer.status_code == 422, (parameter, value)
            assert problem(answer)["errors"][0]["parameter"] == parameter
            checked.add(parameter)
    assert checked == set(parameters(OPERATIONS[name][2])) - {LAYER_TYPE}


def excluded(schema: dict[str, Any]) -> Iterator[str]:
    """Values just outside a schema."""
    outside: dict[str, Callable[[Any], Any]] = {
        "minimum": lambda bound: bound - 1,
        "maximum": lambda bound: bound + 1 if bound < 1e20 else bound * 2,
        "exclusiveMinimum": lambda bound: bound,
        "const": lambda value: value + 1,
        "pattern": lambda _pattern: ",".join(["0"] * 513),
    }
    yield from (str(value(schema[word])) for word, value in outside.items() if word in schema)
    if "enum" in schema or "pattern" in schema or schema["type"] == "boolean":
        yield "nonsense"


# Examples


@pytest.mark.parametrize(("scheme", "method", "kind", "name"), OF_SCHEMES, ids=IDS)
def test_the_form_works_as_it_is_filled_in(
    scheme: AnyScheme, method: str, kind: str, name: str, direct: Client
) -> None:
    _, path, operation = OPERATIONS[name]
    target = path.replace("{extension}", "safetensors")
    query = filled_in(operation)
    if method == "get":
        assert direct.get(target, params=query).status_code == 200
        return
    examples = operation["requestBody"]["content"]["application/json"]["examples"]
    assert len(examples) == sum(each.body is not None for each in scheme.examples)
    for example in examples.values():
        answer = direct.post(target, params=query, json=example["value"])
        assert answer.status_code == 200, (example["summary"], answer.text)
        if kind == "json":
            assert answer.json()["family"] == scheme.family


@pytest.mark.parametrize(("scheme", "method", "kind", "name"), OF_SCHEMES, ids=IDS)
def test_the_addresses_in_a_description_work(
    scheme: AnyScheme, method: str, kind: str, name: str, direct: Client
) -> None:
    examples = [each for each in scheme.examples if (each.body is not None) == (method == "post")]
    told = re.findall(r"^- (.+): `(/v1/[^`]+)`$", OPERATIONS[name][2]["description"], re.MULTILINE)
    assert [title for title, _ in told] == [each.title for each in examples]
    for (_, target), each in zip(told, examples, strict=True):
        answer = direct.request(method.upper(), target, json=each.body)
        assert answer.status_code == 200, answer.text
        assert (answer.headers["content-type"] == "application/json") == (kind == "json")


JSON_OPERATIONS = [(scheme, method, name) for scheme, method, kind, name in OF_SCHEMES if kind == "json"]


@pytest.mark.parametrize(("scheme", "method", "name"), JSON_OPERATIONS, ids=[name for _, _, name in JSON_OPERATIONS])
def test_example_answers_are_what_the_service_answers(
    scheme: AnyScheme, method: str, name: str, direct: Client
) -> None:
    content = OPERATIONS[name][2]["responses"]["200"]["content"]["application/json"]
    by_title = {each["summary"]: each["value"] for each in content["examples"].values()}
    assert by_title
    for each in scheme.examples:
        if (each.body is not None) == (method == "post"):
            answer = ask(direct, scheme, each)
            assert not list(faults(DOCUMENT, content["schema"], answer))
            if each.title in by_title:
                assert answer == by_title[each.title]


def ask(client: Client, scheme: AnyScheme, each: Example) -> Any:
    method = "GET" if each.body is None else "POST"
    return client.request(method, address(scheme), params=dict(each.query), json=each.body).json()


# Choices that go with another choice.
OF_OTHERS = (
    "preset",
    "rope_type",
    "tensor",
    "frequency_form",
    "spacing",
    "coordinates",
    "output",
    "channel_split",
    "of",
)
OF_AXES = {"encodings_rope_axes": ("section_rule", "frequencies", "arithmetic"), "analyses_decay": ("of",)}


@pytest.mark.parametrize(("scheme", "name"), GETS, ids=[name for _, name in GETS])
def test_the_answer_schema_holds_for_every_choice(scheme: AnyScheme, name: str, direct: Client) -> None:
    schema = OPERATIONS[name][2]["responses"]["200"]["content"]["application/json"]["schema"]
    for parameter, told in parameters(OPERATIONS[name][2]).items():
        for choice in resolved(DOCUMENT, told["schema"]).get("enum", ()):
            answer = direct.get(address(scheme), params=required_only(scheme) | {parameter: choice})
            if answer.status_code == 200:
                assert not list(faults(DOCUMENT, schema, answer.json())), (parameter, choice)
            else:
                # these go with another choice
                assert parameter in (*OF_OTHERS, *OF_AXES.get(name, ()))


def test_the_other_examples_work(direct: Client) -> None:
    for name in (
        "advice",
        "schemes_list",
        "schemes_get",
        "health_live",
        "health_ready",
        "problems_list",
        "problems_get",
    ):
        _, path, operation = OPERATIONS[name]
        target = path
        for parameter, told in parameters(operation, "path").items():
            target = target.replace(f"{{{parameter}}}", told["example"])
        answer = direct.get(target)
        content = operation["responses"]["200"]["content"]
        kind = answer.headers["content-type"].partition(";")[0]
        assert (answer.status_code, [kind]) == (200, list(content)), name
        if kind == "application/json":
            assert not list(faults(DOCUMENT, content[kind]["schema"], answer.json())), name


# Answers and refusals


def test_files_are_octet_streams_texts_and_pictures() -> None:
    for scheme, method, kind, name in OF_SCHEMES:
        success = OPERATIONS[name][2]["responses"]["200"]["content"]
        if kind == "json":
            assert list(success) == ["application/json"]
        else:
            assert success == {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                "text/csv": {"schema": {"type": "string"}},
                "image/png": {"schema": {"type": "string", "format": "binary"}},
                "image/svg+xml": {"schema": {"type": "string"}},
            }
        if method == "post":
            body = OPERATIONS[name][2]["requestBody"]["content"]
            assert list(body) == ["application/json", *(["application/octet-stream"] if scheme.inputs else [])]


def test_refusals_are_problem_documents_with_an_example_of_each_type() -> None:
    seen = set()
    for name, response in DOCUMENT["components"]["responses"].items():
        if name == "NotModified":
            assert "content" not in response
            continue
        (media_type,) = response["content"]
        if name == "InferenceRefused":
            assert media_type == "application/json"  # as its protocol has it
            continue
        assert media_type == "application/problem+json"
        for slug, example in response["content"][media_type]["examples"].items():
            seen.add(slug)
            value = example["value"]
            assert not list(faults(DOCUMENT, {"$ref": "#/components/schemas/Problem"}, value))
            assert (value["type"], value["status"]) == (f"/problems/{slug}", PROBLEMS[slug].status)
    # The router alone answers 405, to a verb that is no operation.
    assert seen == set(PROBLEMS) - {"method-not-allowed"}


def test_documented_headers_are_sent(direct: Client) -> None:
    answer = direct.get("/v1/encodings/rope.npy?dim=8&length=5&tensor=cos")
    told = set(OPERATIONS["encodings_rope_file"][2]["responses"]["200"]["headers"])
    sent = {name.lower() for name in answer.headers} - {"content-type", "content-length"}
    assert sent == {name.lower() for name in told}
    part = direct.get("/v1/encodings/rope.npy?dim=8&length=5", headers={"Range": "bytes=0-9"})
    assert "content-range" in part.headers
    told = set(OPERATIONS["encodings_rope_file"][2]["responses"]["206"]["headers"])
    assert {name.lower() for name in told} <= set(part.headers)


FILE = "/v1/encodings/rope.npy"
SMALL = f"{FILE}?dim=8&length=3"
QUERY = {"tensors": {"q": [60000, 60000]}}
POSITIONS = {"positions": [0, 1]}


def late(client: Client) -> httpx.Response:
    """A request whose header never ends, to a server that does not wait long."""
    del client
    return raw(b"GET /v1/schemes HTTP/1.1\r\nHost: x\r\n")


def malformed(client: Client) -> httpx.Response:
    """What is not HTTP."""
    del client
    return raw(b"GET /health/ready HTTP/1.1\r\n\r\n")


def raw(sent: bytes) -> httpx.Response:
    """What a real server that does not wait long says to these bytes."""
    with on_port(settings(header_seconds=0.05)) as server, Connection(server.http.base_url.port or 0) as connection:
        connection.send(sent)
        head, _, body = connection.read().partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    return httpx.Response(status, headers={"content-type": "application/problem+json"}, content=body)


def crowded(send: Callable[[Client], httpx.Response]) -> Callable[[Client], httpx.Response]:
    """The same request while all memory is in use."""

    def sent(client: Client) -> httpx.Response:
        budget = client.resources.budget
        budget.in_use, free = budget.limit_bytes, budget.in_use
        try:
            return send(client)
        finally:
            budget.in_use = free

    return sent


def broken(place: str, send: Callable[[Client], httpx.Response]) -> Callable[[Client], httpx.Response]:
    """The same request to a service with a bug."""

    def bug(*_arguments: object) -> None:
        raise RuntimeError("a bug")

    def sent(client: Client) -> httpx.Response:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, bug)
            return send(client)

    return sent


def draining(client: Client) -> httpx.Response:
    client.app.state.draining = True
    try:
        return client.get("/health/ready")
    finally:
        client.app.state.draining = False


def get(target: str, **headers: str) -> Callable[[Client], httpx.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda client: client.get(target, headers=named)


def post(target: str, **options: Any) -> Callable[[Client], httpx.Response]:
    return lambda client: client.post(target, **options)


def known(target: str) -> Callable[[Client], httpx.Response]:
    """A request that brings the ETag of its answer."""
    return lambda client: client.get(target, headers={"If-None-Match": client.get(target).headers["etag"]})


def stalled(client: Client) -> httpx.Response:
    """A body that pauses for longer than the server waits."""

    async def parts() -> Any:
        yield b"{"
        await asyncio.sleep(0.5)
        yield b"}"

    return client.post(FILE + "?dim=8", content=parts(), headers={"Content-Type": "application/json"})


LONG = "/v1/encodings/rope.npy?positions=" + "0," * 5000
WIDE = {f"x-{index}": "1" for index in range(101)}
LLAMA = {"model_type": "llama"}
SAMPLES: dict[str, dict[int, Callable[[Client], httpx.Response]]] = {
    "encodings_rope_file": {
        200: get(SMALL),
        206: get(SMALL, Range="bytes=0-9"),
        304: known(SMALL),
        400: get(FILE + "?dim"),
        404: get("/v1/encodings/rope.np?dim=8"),
        406: get(SMALL + "&dtype=bfloat16"),
        408: late,
        412: get(SMALL, If_Match='"x"'),
        414: get(LONG),
        416: get(SMALL, Range="bytes=999999-"),
        422: get(FILE + "?dim=7&length=3"),
        431: get(SMALL + "&offset=3", **WIDE),
        500: broken("service.api.answers.understand", get(SMALL + "&offset=1")),
        503: crowded(get(SMALL + "&offset=2")),
    },
    "encodings_rope_at_file": {
        200: post(FILE + "?dim=8", json=POSITIONS),
        400: post(FILE + "?dim=8", content=b"{", headers={"Content-Type": "application/json"}),
        404: post("/v1/encodings/rope.zip?dim=8", json=POSITIONS),
        406: post(FILE + "?dim=8&dtype=bfloat16", json=POSITIONS),
        408: stalled,
        413: post(FILE + "?dim=8", json={"positions": [0] * 3000}),
        414: post(LONG, json=POSITIONS),
        415: post(FILE + "?dim=8", content=b"0,1", headers={"Content-Type": "text/csv"}),
        422: post(FILE + "?dim=8", json={"position": [0]}),
        431: post(FILE + "?dim=8", json=POSITIONS, headers=WIDE),
        500: broken("service.api.answers.understand", post(FILE + "?dim=8", json=POSITIONS)),
        503: crowded(post(FILE + "?dim=8", json=POSITIONS)),
    },
    "encodings_rope": {
        200: get("/v1/encodings/rope?dim=8&length=3"),
        304: known("/v1/encodings/rope?dim=8&length=3"),
        400: get("/v1/encodings/rope?length"),
        408: late,
        412: get("/v1/encodings/rope?dim=8&length=3", If_Match='"x"'),
        414: get(LONG.replace(".npy", "")),
        422: get("/v1/encodings/rope?lenght=3"),
        431: get("/v1/encodings/rope?dim=8&length=4", **WIDE),
        500: broken("service.api.answers.understand", get("/v1/encodings/rope?dim=8&length=1")),
        503: crowded(get("/v1/encodings/rope?dim=8&length=2")),
    },
    "apply_rope": {
        200: post("/v1/apply/rope", json=QUERY),
        400: post("/v1/apply/rope", content=b"\x93NUMPY", headers={"Content-Type": "application/octet-stream"}),
        # cos 1 + sin 1 is about 1.38, which takes 60000 beyond float16.
        406: post("/v1/apply/rope?offset=1&dtype=float16", json=QUERY),
        408: stalled,
        413: post("/v1/apply/rope", json={"tensors": {"q": [0] * 3000}}),
        414: post(LONG.replace("encodings/rope.npy", "apply/rope"), json=QUERY),
        415: post("/v1/apply/rope", content=b"0,1", headers={"Content-Encoding": "gzip"}),
        422: post("/v1/apply/rope", json={"tensors": {}}),
        431: post("/v1/apply/rope", json=QUERY, headers=WIDE),
        500: broken("service.api.answers.understand", post("/v1/apply/rope", json=QUERY)),
        503: crowded(post("/v1/apply/rope", json=QUERY)),
    },
    "schemes_get": {
        200: get("/v1/schemes/rope"),
        304: known("/v1/schemes/rope"),
        400: get("/v1/schemes/rope?x"),
        404: get("/v1/schemes/rop"),
        408: late,
        412: get("/v1/schemes/rope", If_Match='"x"'),
        414: get("/v1/schemes/rope?" + "x" * 9000),
        422: get("/v1/schemes/rope?length=3"),
        431: get("/v1/schemes/rope", **WIDE),
        500: broken("service.api.catalogue.read_pairs", get("/v1/schemes/rope")),
    },
    "models_resolve": {
        200: post("/v1/models/resolve", json=LLAMA),
        400: post("/v1/models/resolve", content=b"{", headers={"Content-Type": "application/json"}),
        408: stalled,
        413: post("/v1/models/resolve", json={"model_type": "llama", "auto_map": "x" * 5000}),
        414: post("/v1/models/resolve?" + "x" * 9000, json=LLAMA),
        415: post("/v1/models/resolve", content=b"0,1", headers={"Content-Type": "text/csv"}),
        422: post("/v1/models/resolve", json={"model_type": "lama"}),
        431: post("/v1/models/resolve", json=LLAMA, headers=WIDE),
        500: broken("service.api.models.resolve", post("/v1/models/resolve", json=LLAMA)),
        503: crowded(post("/v1/models/resolve", json=LLAMA)),
    },
    "models_get": {
        200: get("/v1/models/llama"),
        304: known("/v1/models/llama"),
        400: get("/v1/models/llama?x"),
        404: get("/v1/models/lama"),
        408: late,
        412: get("/v1/models/llama", If_Match='"x"'),
        414: get("/v1/models/llama?" + "x" * 9000),
        422: get("/v1/models/llama?length=0"),
        431: get("/v1/models/llama", **WIDE),
        500: broken("service.api.models.plan_of", get("/v1/models/llama")),
    },
    "health_ready": {
        200: get("/health/ready"),
        400: malformed,
        408: late,
        414: get("/health/ready?" + "x" * 9000),
        431: get("/health/ready", **WIDE),
        503: draining,
    },
}


# What keeps a request out that is otherwise right: the second of two.
GUARDS: dict[int, dict[str, Any]] = {
    401: {"api_keys": new_key("ci")[1]},
    421: {"allowed_hosts": "example.org"},
    429: {"rate_limit": 0.001, "rate_burst": 1},
}


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_documented_statuses_can_be_reached(name: str) -> None:
    told = OPERATIONS[name][2]["responses"]
    reached = SAMPLES[name]
    # A health check does nothing in which a test could plant a bug, and no guard keeps it from being made.
    assert set(map(int, told)) == set(reached) | ({500} if name == "health_ready" else set(GUARDS))
    for status, guard in ({} if name == "health_ready" else GUARDS).items():
        with in_process(settings(**guard)) as client:
            answers = [reached[200](client) for _ in range(2)]
            assert answers[1].status_code == status
            assert problem(answers[1])["type"].removeprefix("/problems/") in examples(told, status)
    with in_process(settings(body_bytes=4096, body_idle_seconds=0.05)) as client:
        for status, send in reached.items():
            answer = send(client)
            assert answer.status_code == status, (status, answer.text)
            if status >= 400:
                assert problem(answer)["type"].removeprefix("/problems/") in examples(told, status)


def examples(told: dict[str, Any], status: int) -> Any:
    (content,) = resolved(DOCUMENT, told[str(status)])["content"].values()
    return content["examples"]


def test_a_key_is_a_matter_of_the_server() -> None:
    """Optional everywhere, and never asked of probes and of what every installation holds."""
    assert DOCUMENT["security"] == [{}, {"key": []}]
    assert DOCUMENT["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    open_ = {name for name, (_, _, operation) in OPERATIONS.items() if operation.get("security") == []}
    assert open_ == {"health_live", "health_ready", "openapi", "problems_list", "problems_get"}
    for name, (_, _, operation) in OPERATIONS.items():
        assert ("401" in operation["responses"]) == (name not in open_)


def test_every_operation_lists_what_any_request_can_meet() -> None:
    for name, (_, _, operation) in OPERATIONS.items():
        wanted = ANY_PROBE if name.startswith("health_") else set(ANY_REQUEST) - {401}
        assert {str(status) for status in wanted} <= set(operation["responses"])


def test_the_catalogue_has_the_same_parameters(direct: Client) -> None:
    rope = by_key("encodings", "rope")
    entries = direct.get("/v1/schemes/rope").json()["schemes"]
    schema = next(entry for entry in entries if entry["family"] == "encodings")["parameters"]
    assert schema["required"] == ["dim"]
    assert list(schema["properties"]) == [
        *rope.params.model_fields,
        "preset",
        "revision",
        "tensor",
        "theme",
        "picture_width",
        "nonfinite",
    ]
    assert schema["properties"]["dim"]["minimum"] == 2
    assert "anyOf" not in json.dumps(schema)


# The schema checker of these tests


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 1.5),
        ({"type": "integer"}, True),
        ({"type": ["string", "null"]}, 1),
        ({"enum": ["a"]}, "b"),
        ({"const": 1}, 2),
        ({"minimum": 3}, 2),
        ({"items": {"type": "string"}}, ["a", 1]),
        ({"required": ["a"]}, {}),
        ({"properties": {}, "additionalProperties": False}, {"a": 1}),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1),
    ],
)
def test_the_checker_finds_what_is_wrong(schema: dict[str, Any], value: Any) -> None:
    assert len(list(faults({}, schema, value))) == 1
