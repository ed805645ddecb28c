"""The parameters of a scheme as JSON Schema: what the catalogue and the OpenAPI document say of them.

pydantic's own schema is corrected in two ways. Bounds behind our strict readers come out under pydantic's names (`ge`,
`le`, and string lengths for lists), which JSON Schema does not know. And a parameter that may be left out is drawn as a
union with null, which no query can say: the union is flattened.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic.json_schema import DEFAULT_REF_TEMPLATE

from service.engine.quantities import LONGEST_LIST
from service.engine.scheme import Params, Scheme

Schema = dict[str, Any]

_NAMES = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_ITEMS = {"minLength": "minItems", "maxLength": "maxItems"}
_FORMATS = {"integer": "int64", "number": "double"}


def parameters_schema(scheme: Scheme[Any, Any]) -> Schema:
    """All parameters that a query can state, as one closed object."""
    given = _schema_of(scheme)
    properties = {name: schema for name, schema in given["properties"].items() if name not in scheme.structured}
    flat = {name: _flattened(schema) for name, schema in properties.items()}
    for name in scheme.listed:
        flat[name]["maxItems"] = LONGEST_LIST  # of an address
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": flat,
        "required": scheme.required,
    }


def query_schema(params: type[Params]) -> dict[str, Schema]:
    """The schema of each parameter, of which none is required."""
    return {name: _flattened(schema) for name, schema in _generated(params, DEFAULT_REF_TEMPLATE)["properties"].items()}


def structured_schema(scheme: Scheme[Any, Any], components: str) -> tuple[Schema, Schema]:
    """The parameters that a JSON body states, by name; and the schemas that they refer to, as components whose names
    begin with `components`.
    """
    if not scheme.structured:
        return {}, {}
    given = _schema_of(scheme, "#/components/schemas/" + components + "{model}")
    within = {components + name: _titleless(schema) for name, schema in given.get("$defs", {}).items()}
    properties = {name: _titleless(given["properties"][name]) for name in scheme.structured}
    for schema in properties.values():
        schema.pop("default", None)
    return properties, within


def listed_schema(scheme: Scheme[Any, Any]) -> Schema:
    """The parameters that a JSON body may state as lists, by name."""
    given = _schema_of(scheme)["properties"]
    return {name: _titleless(_flattened(given[name])) for name in scheme.listed}


def answered_schema(scheme: Scheme[Any, Any]) -> Schema:
    """The parameters as an answer states them, but for the structured: every one, and null for what was left out."""
    given = _schema_of(scheme)["properties"]
    properties = {
        name: _nullable(schema) if _may_be_null(schema) else _flattened(schema)
        for name, schema in given.items()
        if name not in scheme.structured
    }
    return {"type": "object", "properties": properties, "required": list(given)}


# Whoever describes a scheme asks for its schema dozens of times in a row, and for no earlier one again.
def _schema_of(scheme: Scheme[Any, Any], ref_template: str = DEFAULT_REF_TEMPLATE) -> Schema:
    params: type[Params] = scheme.params
    return _generated(params, ref_template)


@cache
def _generated(params: type[Params], ref_template: str) -> Schema:
    """pydantic's own schema, which takes tens of milliseconds; not to be changed."""
    return params.model_json_schema(ref_template=ref_template)


def _titleless(schema: Any) -> Any:
    """A schema without pydantic's titles."""
    if isinstance(schema, list):
        return [_titleless(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _titleless(each) for name, each in schema.items() if name != "title" or not isinstance(each, str)}


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
