"""The parameters of a scheme as JSON Schema: what the catalogue and the OpenAPI document say of them.

pydantic's own schema is corrected in two ways. Bounds behind our strict readers come out under pydantic's names (`ge`,
`le`, and string lengths for lists), which JSON Schema does not know. And a parameter that may be left out is drawn as a
union with null, which no query can say: the union is flattened.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from service.engine.scheme import Scheme

Schema = dict[str, Any]

_NAMES = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_ITEMS = {"minLength": "minItems", "maxLength": "maxItems"}
_FORMATS = {"integer": "int64", "number": "double"}


def parameters_schema(scheme: Scheme[Any, Any]) -> Schema:
    """All parameters of a scheme as one closed object."""
    given = scheme.params.model_json_schema()
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _flattened(schema) for name, schema in given["properties"].items()},
        "required": scheme.required,
    }


def answered_schema(model: type[BaseModel]) -> Schema:
    """The parameters as an answer states them: every one, and null for what was left out."""
    given = model.model_json_schema()["properties"]
    properties = {
        name: _nullable(schema) if _may_be_null(schema) else _flattened(schema) for name, schema in given.items()
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _may_be_null(schema: Mapping[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())


def _nullable(schema: Mapping[str, Any]) -> Schema:
    flat = _flattened(schema)
    if "enum" in flat:
        flat["enum"] = [*flat["enum"], None]
    return flat | {"type": [flat["type"], "null"]}


def _flattened(schema: Mapping[str, Any]) -> Schema:
    """A parameter's schema without its union with null, in the words of JSON Schema."""
    flat = {name: value for name, value in schema.items() if name not in ("anyOf", "title")}
    if _may_be_null(schema):
        flat.pop("default", None)
        (branch,) = (each for each in schema["anyOf"] if each != {"type": "null"})
        flat = branch | flat
    names = _NAMES | (_ITEMS if flat["type"] == "array" else {})
    renamed = {names.get(name, name): value for name, value in flat.items()}
    if flat["type"] in _FORMATS:
        renamed["format"] = _FORMATS[flat["type"]]
    return renamed
