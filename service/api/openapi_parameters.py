"""The parameters of the OpenAPI document: one component each, named for its scheme."""

from collections.abc import Iterator
from typing import Any

import orjson

from service.api.openapi_schemas import has_several, pascal
from service.api.openapi_shared import TEXT, Schema, ref
from service.api.parameters import parameters_schema, query_schema
from service.api.pasted import LAYER_TYPE, query_names
from service.api.query import PRESET, REPLY_PARAMETERS
from service.api.variations import AnyScheme, choices
from service.engine import SCHEMES
from service.engine.advice import Needs
from service.formats.format import KEPT_BYTES

JSON_OBJECT = {"type": "string", "pattern": r"^\s*(\{[\s\S]*\}|null)\s*$"}


RANGE = (
    "One range of bytes, such as `bytes=0-1023`. Only its rows are computed. An `.npz` of more than "
    f"{KEPT_BYTES >> 20} MiB of values is answered whole: its headers hold checksums of all rows."
)


def parameters(scheme: AnyScheme, names: list[str], kind: str) -> list[Schema]:
    required = [name for name in names if name in scheme.required]
    optional = [name for name in names if name not in required]
    preset = ["preset"] if scheme.presets else []
    own = [parameter_ref(_own(scheme, name)) for name in (*required, *optional, *preset)]
    tensor = [parameter_ref(_own(scheme, "tensor"))] if has_several(scheme) else []
    path = [parameter_ref("extension")] if kind == "file" else []
    spelling = [parameter_ref("nonfinite")] if kind == "json" and may_be_infinite(scheme) else []
    spelling += [parameter_ref("theme"), parameter_ref("picture_width")] if kind == "file" else []
    pasted = [parameter_ref(_own(scheme, name)) for name in query_names(scheme)]
    return [*path, *own, *pasted, *tensor, *spelling, parameter_ref(_own(scheme, "revision"))]


def _own(scheme: AnyScheme, name: str) -> str:
    return f"{scheme.family}.{scheme.name}.{name}"


def parameter_ref(name: str) -> Schema:
    return {"$ref": f"#/components/parameters/{name}"}


def parameter_components() -> Iterator[tuple[str, Schema]]:
    for scheme in SCHEMES:
        whole = parameters_schema(scheme)
        for name, schema in whole["properties"].items():
            yield _own(scheme, name), _parameter(scheme, name, schema, name in whole["required"])
        for name, description in query_names(scheme).items():
            schema = TEXT if name == LAYER_TYPE else JSON_OBJECT
            yield _own(scheme, name), _query(name, schema, description)
        if scheme.presets:
            yield _own(scheme, "preset"), _query("preset", ref(pascal(scheme.family, scheme.name, "preset")))
        if has_several(scheme):
            yield _own(scheme, "tensor"), _query("tensor", ref(pascal(scheme.family, scheme.name, "tensor")))
        yield _own(scheme, "revision"), _query("revision", {"type": "integer", "const": scheme.revision})
    yield "nonfinite", _query("nonfinite", ref("Nonfinite") | {"default": "refuse"})
    yield "theme", _query("theme", ref("Theme") | {"default": "light"})
    yield "picture_width", _query("picture_width", ref("PictureWidth") | {"default": "wide"})
    yield "extension", _extension()
    yield "If-None-Match", _header("If-None-Match", "ETags that the caller holds: 304 if the answer is one of them.")
    yield "Range", _header("Range", RANGE)
    yield "If-Range", _header("If-Range", "The ETag that `Range` is about: the whole file if it is another one.")


def _query(name: str, schema: Schema, description: str = "") -> Schema:
    description = description or (PRESET if name == "preset" else REPLY_PARAMETERS[name])
    return {"name": name, "in": "query", "description": description, "required": False, "schema": schema}


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
    if schema["type"] == "array":
        plain = _listed(schema)
    if name in choices(scheme):
        default = {key: plain[key] for key in ("default",) if key in plain}
        plain = ref(pascal(scheme.family, scheme.name, name)) | default
    description = schema["description"]
    if "default" in plain and scheme.pasted is not None and name in scheme.pasted.stated:
        # A form that sends every default would state twice what is pasted.
        description += f" (Default: {plain.pop('default')}.)"
    parameter: Schema = {
        "name": name,
        "in": "query",
        "description": description,
        "required": required,
        "schema": plain,
    }
    # A body's examples differ in what goes beside them, so only an example without a body fills in the form, or what
    # all of them say.
    first = scheme.examples[0]
    alike = len({each.query.get(name) for each in scheme.examples}) == 1
    given = first.query.get(name) if first.body is None or required or alike else None
    return parameter if given is None else parameter | {"example": _value(given, schema)}


def _listed(schema: Schema) -> Schema:
    """A list as the text that it is in an address: generators of clients take an array to repeat its parameter."""
    number = r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
    return {"type": "string", "pattern": f"^{number}(,{number}){{0,{schema['maxItems'] - 1}}}$"}


def _value(given: str, schema: Schema) -> Any:
    """An example's text as the value that its schema describes."""
    return given if schema["type"] in ("string", "array") else orjson.loads(given)


def may_be_infinite(scheme: AnyScheme) -> bool:
    """Whether an answer can hold what JSON cannot: where its record says so, and where callers bring numbers."""
    return scheme.infinite or (scheme.needs_body and bool(scheme.inputs) and scheme.rounding != "integer")


def needs_parameters() -> list[Schema]:
    """What `/v1/advice` may be told."""
    found = []
    for name, schema in query_schema(Needs).items():
        plain = {key: value for key, value in schema.items() if key != "description"}
        told = {"name": name, "in": "query", "description": schema["description"], "required": False, "schema": plain}
        found.append(told | {"example": plain["default"]} if "default" in plain else told)
    return found
