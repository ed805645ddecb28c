"""The OpenAPI document, generated from the scheme records and the route families.

FastAPI's own generator is not used: it adds application/json to binary answers and a refusal of its own shape. The
generated document is committed as openapi/openapi.json, and that file is what the service serves.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from service import __version__
from service.api.catalogue import example_arrays
from service.api.openapi_responses import header_refs, headers, refusals, responses
from service.api.openapi_schemas import (
    TEXT,
    AnyScheme,
    Schema,
    body_parameters,
    choices,
    has_several,
    pascal,
    ref,
    schemas,
)
from service.api.parameters import parameters_schema
from service.api.query import REPLY_PARAMETERS
from service.api.schemes import EXTENSIONS, address
from service.engine import SCHEMES
from service.engine.scheme import Example
from service.formats import FORMATS
from service.formats.format import Text

BINARY = {"type": "string", "format": "binary"}
MOST_EXAMPLE_VALUES = 64

DESCRIPTION = """\
Tables, attention biases, and encodings applied to your own vectors: exact, in the convention of your library, with the
same bytes on every machine.

The address alone decides the format: without an extension the answer is JSON; `.npy`, `.npz`, `.safetensors`, `.bin`
(raw little-endian) and `.csv` are files. Parameters are in the query, the caller's arrays in the body. Unknown and
repeated parameters are refused. Lists are comma-separated. In an address a `+` means a space: write exponents as `1e4`.

Answers to GET have a strong `ETag` and may be cached; with `revision` in the address they never change. HEAD answers
every GET without its body. Every refusal is a problem document (RFC 9457)."""

TAGS = {
    "encodings": "A table of one row for each position.",
    "biases": "What is added to attention scores, and what it is made of.",
    "apply": "Encodings applied to your own vectors, embeddings or scores.",
    "catalogue": "What the service knows: derived from the same records as everything else.",
    "operations": "Health, this document, and what problem types mean.",
}


def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document of the service.

    >>> document()["openapi"]
    '3.1.0'
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Posenc",
            "version": __version__,
            "summary": "Positional encodings over HTTP.",
            "description": DESCRIPTION,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [],
        "tags": [{"name": name, "description": TAGS[name]} for name in _tag_names()],
        "paths": dict(_scheme_paths()) | _catalogue_paths() | _operations_paths(),
        "components": {
            "schemas": schemas(),
            "parameters": dict(_parameter_components()),
            "headers": headers(),
            "responses": responses(),
        },
    }


def text() -> str:
    """The document as the committed file holds it: what `posenc openapi` prints."""
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _tag_names() -> list[str]:
    families = dict.fromkeys(scheme.family for scheme in SCHEMES)
    return [*families, "catalogue", "operations"]


# Paths of the schemes


def _scheme_paths() -> Iterator[tuple[str, Schema]]:
    for scheme in SCHEMES:
        for path, kind in ((address(scheme), "json"), (address(scheme) + ".{extension}", "file")):
            item: Schema = {}
            if not scheme.needs_body:
                item["get"] = _get(scheme, kind)
            if scheme.inputs:
                item["post"] = _post(scheme, kind)
            yield path, item


def operation_id(scheme: AnyScheme, method: str, kind: str) -> str:
    """The plain name of an operation.

    >>> from service.engine import by_key
    >>> operation_id(by_key("encodings", "rope"), "post", "file")
    'encodings_rope_at_file'
    """
    words = [scheme.family, scheme.name.replace("-", "_")]
    words += ["at"] if method == "post" and not scheme.needs_body else []
    words += ["file"] if kind == "file" else []
    return "_".join(words)


def _get(scheme: AnyScheme, kind: str) -> Schema:
    names = list(scheme.params.model_fields)
    conditional = ["If-None-Match"] + (["Range", "If-Range"] if kind == "file" else [])
    partial = {"206": _partial()} if kind == "file" else {}
    refused = [422, 503, *_unheld(scheme, kind)] + ([404, 416] if kind == "file" else [])
    return {
        **_about(scheme, "get", kind),
        "parameters": [*_parameters(scheme, names, kind), *(_parameter_ref(name) for name in conditional)],
        "responses": {
            "200": _success(scheme, "get", kind),
            **partial,
            "304": {"$ref": "#/components/responses/NotModified"},
            **refusals(refused),
        },
    }


def _post(scheme: AnyScheme, kind: str) -> Schema:
    refused = [413, 415, 422, 503, *_unheld(scheme, kind)] + ([404] if kind == "file" else [])
    return {
        **_about(scheme, "post", kind),
        "parameters": _parameters(scheme, body_parameters(scheme), kind),
        "requestBody": _request_body(scheme),
        "responses": {"200": _success(scheme, "post", kind), **refusals(refused)},
    }


def may_be_infinite(scheme: AnyScheme) -> bool:
    """Whether an answer can hold what JSON cannot: tables are finite, or refused; what callers bring need not be."""
    return scheme.needs_body


def _unheld(scheme: AnyScheme, kind: str) -> list[int]:
    return [406] if kind == "file" or may_be_infinite(scheme) else []


def _about(scheme: AnyScheme, method: str, kind: str) -> Schema:
    at = ", at positions in the body" if method == "post" and not scheme.needs_body else ""
    return {
        "operationId": operation_id(scheme, method, kind),
        "tags": [scheme.family],
        "summary": f"{scheme.title}{at}{', as a file' if kind == 'file' else ''}",
        "description": "\n\n".join(_paragraphs(scheme, method, kind)),
    }


def _paragraphs(scheme: AnyScheme, method: str, kind: str) -> Iterator[str]:
    yield scheme.description
    if kind == "file":
        yield (
            "The extension is the format: `.npy` stacks several tensors of one shape on a leading axis; `.npz` and "
            "`.safetensors` hold all of them by name; `.bin` and `.csv` hold one."
        )
    usages = [f"- {usage.who}: {_setting(usage.parameters)}" for usage in scheme.used_by]
    if usages:
        yield "**Conventions**\n\n" + "\n".join(usages)
    examples = [f"- {each.title}: `{_address(scheme, each, kind)}`" for each in _examples(scheme, method)]
    yield "**Examples**\n\n" + "\n".join(examples)
    yield f"**Reference**: {scheme.reference}. Rounding: {scheme.rounding}."


def _setting(parameters: Any) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in parameters.items()) or "the defaults"


def _examples(scheme: AnyScheme, method: str) -> list[Example]:
    return [each for each in scheme.examples if (each.body is not None) == (method == "post")]


def _address(scheme: AnyScheme, each: Example, kind: str) -> str:
    query = "&".join(f"{name}={value}" for name, value in each.query.items())
    extension = ".safetensors" if kind == "file" else ""
    return address(scheme) + extension + (f"?{query}" if query else "")


# Parameters


def _parameters(scheme: AnyScheme, names: list[str], kind: str) -> list[Schema]:
    required = [name for name in names if scheme.params.model_fields[name].is_required()]
    optional = [name for name in names if name not in required]
    own = [_parameter_ref(_own(scheme, name)) for name in (*required, *optional)]
    tensor = [_parameter_ref(_own(scheme, "tensor"))] if has_several(scheme) else []
    path = [_parameter_ref("extension")] if kind == "file" else []
    spelling = [_parameter_ref("nonfinite")] if kind == "json" and may_be_infinite(scheme) else []
    return [*path, *own, *tensor, *spelling, _parameter_ref(_own(scheme, "revision"))]


def _own(scheme: AnyScheme, name: str) -> str:
    return f"{scheme.family}.{scheme.name}.{name}"


def _parameter_ref(name: str) -> Schema:
    return {"$ref": f"#/components/parameters/{name}"}


def _parameter_components() -> Iterator[tuple[str, Schema]]:
    for scheme in SCHEMES:
        whole = parameters_schema(scheme.params)
        for name, schema in whole["properties"].items():
            yield _own(scheme, name), _parameter(scheme, name, schema, name in whole["required"])
        if has_several(scheme):
            yield _own(scheme, "tensor"), _query("tensor", ref(pascal(scheme.family, scheme.name, "tensor")))
        yield _own(scheme, "revision"), _query("revision", {"type": "integer", "const": scheme.revision})
    yield "nonfinite", _query("nonfinite", ref("Nonfinite") | {"default": "refuse"})
    yield "extension", _extension()
    yield "If-None-Match", _header("If-None-Match", "ETags that the caller holds: 304 if the answer is one of them.")
    yield "Range", _header("Range", "One range of bytes, such as `bytes=0-1023`. Only its rows are computed.")
    yield "If-Range", _header("If-Range", "The ETag that `Range` is about: the whole file if it is another one.")


def _query(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": REPLY_PARAMETERS[name], "required": False, "schema": schema}


def _header(name: str, description: str) -> Schema:
    return {"name": name, "in": "header", "description": description, "required": False, "schema": TEXT}


def _extension() -> Schema:
    return {
        "name": "extension",
        "in": "path",
        "description": "The format of the file.",
        "required": True,
        "schema": ref("Extension"),
        "example": "safetensors",
    }


def _parameter(scheme: AnyScheme, name: str, schema: Schema, required: bool) -> Schema:
    plain = {key: value for key, value in schema.items() if key != "description"}
    if name in choices(scheme):
        default = {key: plain[key] for key in ("default",) if key in plain}
        plain = ref(pascal(scheme.family, scheme.name, name)) | default
    parameter: Schema = {
        "name": name,
        "in": "query",
        "description": schema["description"],
        "required": required,
        "schema": plain,
    }
    if schema["type"] == "array":
        parameter |= {"style": "form", "explode": False}
    # A body's examples differ in what goes beside them, so only an example without a body fills in the form.
    first = scheme.examples[0]
    given = first.query.get(name) if first.body is None or required else None
    return parameter if given is None else parameter | {"example": _value(given, schema)}


def _value(given: str, schema: Schema) -> Any:
    """An example's text as the value that its schema describes."""
    if schema["type"] == "array":
        return [_value(part, schema["items"]) for part in given.split(",")]
    return given if schema["type"] == "string" else orjson.loads(given)


# Bodies and answers


def _request_body(scheme: AnyScheme) -> Schema:
    first = scheme.inputs[0].name
    names = ", ".join(f"`{array.name}`" for array in scheme.inputs)
    return {
        "description": f"JSON; or one npy ({first}) or a safetensors file with {names}, told apart by its first bytes.",
        "required": True,
        "content": {
            "application/json": {
                "schema": ref(pascal(scheme.family, scheme.name, "body")),
                "examples": {_slug(each): _body_example(each) for each in _examples(scheme, "post")},
            },
            "application/octet-stream": {"schema": BINARY},
        },
    }


def _body_example(each: Example) -> Schema:
    beside = f" (beside {_setting(each.query)} in the query)" if each.query else ""
    return {"summary": each.title, "description": f"{each.title}{beside}.", "value": dict(each.body or {})}


def _slug(each: Example) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in each.title.lower()).split()
    return "-".join(words)


def _success(scheme: AnyScheme, method: str, kind: str) -> Schema:
    named = ["Cache-Control", "X-Request-ID", "Server-Timing"]
    named += ["ETag"] if method == "get" else []
    if kind == "file":
        named += ["Content-Disposition", "Accept-Ranges", "Array-Shape", "Array-Dtype"]
        content = {form.media_type: {"schema": TEXT if isinstance(form, Text) else BINARY} for form in _files()}
    else:
        content = {"application/json": _json_content(scheme, method)}
    description = "The file." if kind == "file" else "The tensors, and the convention they are in."
    return {"description": description, "headers": header_refs(*named), "content": content}


def _files() -> list[Any]:
    return [FORMATS[extension] for extension in EXTENSIONS]


def _json_content(scheme: AnyScheme, method: str) -> Schema:
    content: Schema = {"schema": ref(pascal(scheme.family, scheme.name, "answer"))}
    answers = {_slug(each): answer for each in _examples(scheme, method) if (answer := _answered(scheme, each))}
    return content | ({"examples": answers} if answers else {})


def _answered(scheme: AnyScheme, each: Example) -> Schema | None:
    """What the service answers to an example, where that is short enough to be read."""
    inputs = example_arrays(each)
    textual = {"dtype": "float32"} if each.body is not None else {}
    params = scheme.params.model_validate({**textual, **each.query})
    tensors = scheme.tensors(params, inputs)
    if sum(tensor.rows * tensor.width for tensor in tensors.values()) > MOST_EXAMPLE_VALUES:
        return None
    state = scheme.prepare(params, inputs)
    stated = {
        "family": scheme.family,
        "scheme": scheme.name,
        "revision": scheme.revision,
        "parameters": params.model_dump(mode="json"),
        "facts": scheme.facts(params, inputs),
        "notes": scheme.notes(params, inputs),
    }
    written = FORMATS["json"].stream(
        stated, tensors, lambda name, start, stop: scheme.rows(params, inputs, state, name, start, stop)
    )
    return {"summary": each.title, "value": orjson.loads(b"".join(written))}


def _partial() -> Schema:
    named = ("ETag", "Cache-Control", "Content-Range", "Accept-Ranges", "Content-Disposition", "X-Request-ID")
    return {
        "description": "The bytes that `Range` asks for.",
        "headers": header_refs(*named),
        "content": {"application/octet-stream": {"schema": BINARY}},
    }


# Everything that is no scheme


def _catalogue_paths() -> Schema:
    name = {
        "name": "scheme",
        "in": "path",
        "description": "The name of a scheme; it can live in several families.",
        "required": True,
        "schema": TEXT,
        "example": "rope",
    }
    known = "The whole catalogue: titles, formulas, parameters (JSON Schema), axes, conventions, examples."
    one = "What the catalogue says of the schemes of one name: `rope` is an encoding and an operation."
    return {
        "/v1/schemes": {"get": _document("schemes_list", "catalogue", "Every scheme", known, ref("Catalogue"), 422)},
        "/v1/schemes/{scheme}": {
            "get": {
                **_document("schemes_get", "catalogue", "The schemes of one name", one, ref("Catalogue"), 404, 422),
                "parameters": [name, _parameter_ref("If-None-Match")],
            }
        },
    }


def _operations_paths() -> Schema:
    slug = {
        "name": "slug",
        "in": "path",
        "description": "The last part of a problem's `type`.",
        "required": True,
        "schema": TEXT,
        "example": "invalid-parameters",
    }
    page = {"text/html": {"schema": TEXT}}
    anything = {"type": "object", "additionalProperties": True}
    listed = _document("problems_list", "operations", "Every problem type", "A page that lists them.", TEXT)
    explained = _document("problems_get", "operations", "What a problem type means", "A page for a person.", TEXT, 404)
    for each in (listed, explained):
        each["responses"]["200"]["content"] = page
    explained["parameters"] = [slug, _parameter_ref("If-None-Match")]
    return {
        "/health/live": {"get": _health("health_live", "Whether the process answers", "live")},
        "/health/ready": {"get": _health("health_ready", "Whether the process wants requests", "ready", 503)},
        "/openapi.json": {"get": _document("openapi", "operations", "This document", "OpenAPI 3.1.", anything)},
        "/problems": {"get": listed},
        "/problems/{slug}": {"get": explained},
    }


def _document(name: str, tag: str, summary: str, description: str, schema: Schema, *refused: int) -> Schema:
    """An operation that answers with a document which does not change while the process runs."""
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "description": description,
        "parameters": [_parameter_ref("If-None-Match")],
        "responses": {
            "200": {
                "description": summary + ".",
                "headers": header_refs("ETag", "Cache-Control", "X-Request-ID"),
                "content": {"application/json": {"schema": schema}},
            },
            "304": {"$ref": "#/components/responses/NotModified"},
            **refusals(refused),
        },
    }


def _health(name: str, summary: str, status: str, *refused: int) -> Schema:
    draining = " 503 while the server drains." if refused else ""
    schema = {"type": "object", "properties": {"status": {"type": "string", "const": status}}, "required": ["status"]}
    return {
        "operationId": name,
        "tags": ["operations"],
        "summary": summary,
        "description": f"For probes: answered at once, whatever else is going on.{draining}",
        "responses": {
            "200": {
                "description": "It does.",
                "headers": header_refs("Cache-Control", "X-Request-ID"),
                "content": {"application/json": {"schema": schema}},
            },
            **refusals(refused),
        },
    }
