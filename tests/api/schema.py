"""Enough of JSON Schema to hold an answer against the OpenAPI document, and to say where it differs."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

KINDS: dict[str, Any] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
BOUNDS: dict[str, Any] = {
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
    "minItems": lambda value, bound: len(value) >= bound,
    "maxItems": lambda value, bound: len(value) <= bound,
    "minProperties": lambda value, bound: len(value) >= bound,
    "pattern": lambda value, pattern: re.search(pattern, value) is not None,
}
ANNOTATIONS = {"description", "format", "default", "examples", "discriminator"}
UNDERSTOOD = ANNOTATIONS | {
    *BOUNDS,
    *(
        "$ref",
        "anyOf",
        "oneOf",
        "type",
        "pattern",
        "enum",
        "const",
        "items",
        "properties",
        "required",
        "additionalProperties",
    ),
}


def resolved(document: Mapping[str, Any], part: Any) -> Any:
    """What a part of the document means, its reference followed."""
    while isinstance(part, dict) and "$ref" in part:
        target: Any = document
        for step in part["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        part = target
    return part


def faults(document: Mapping[str, Any], schema: Any, value: Any, place: str = "") -> Iterator[str]:
    """Where the value is not what the schema says."""
    schema = resolved(document, schema)
    assert set(schema) <= UNDERSTOOD, set(schema) - UNDERSTOOD
    if "anyOf" in schema:
        branches = [list(faults(document, branch, value, place)) for branch in schema["anyOf"]]
        if all(branches):
            yield f"{place}: {value!r} is none of {schema['anyOf']}"
        return
    if "oneOf" in schema:
        branches = [list(faults(document, branch, value, place)) for branch in schema["oneOf"]]
        if branches.count([]) != 1:
            yield f"{place}: {value!r} is {branches.count([])} of {schema['oneOf']}"
        return
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(KINDS[kind](value) for kind in kinds):
        yield f"{place}: {value!r} is not {kinds}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is not in {schema['enum']}"
    if "pattern" in schema and value is not None and not re.search(schema["pattern"], value):
        yield f"{place}: {value!r} does not match {schema['pattern']}"
    if "const" in schema and value != schema["const"]:
        yield f"{place}: {value!r} is not {schema['const']!r}"
    if value is not None:
        yield from (
            f"{place}: {name}" for name, holds in BOUNDS.items() if name in schema and not holds(value, schema[name])
        )
    if isinstance(value, list) and "items" in schema:
        for index, entry in enumerate(value):
            yield from faults(document, schema["items"], entry, f"{place}/{index}")
    if isinstance(value, dict):
        yield from _object_faults(document, schema, value, place)


def _object_faults(document: Mapping[str, Any], schema: Any, value: dict[str, Any], place: str) -> Iterator[str]:
    yield from (f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value)
    others = schema.get("additionalProperties", True)
    for name, entry in value.items():
        inner = schema.get("properties", {}).get(name, others)
        if inner is False:
            yield f"{place}: {name} is not foreseen"
        elif inner is not True:
            yield from faults(document, inner, entry, f"{place}/{name}")
