"""What a scheme can answer with: its examples, varied by every named choice of its parameters."""

from collections.abc import Mapping
from typing import Any

from service.api.parameters import Schema, parameters_schema
from service.api.query import textual
from service.engine.errors import Refusal
from service.engine.scheme import Example, Scheme, Tensors

AnyScheme = Scheme[Any, Any]


def choices(scheme: AnyScheme) -> dict[str, Schema]:
    """The parameters of a scheme that are named choices: components, so that clients get one type for each."""
    properties = parameters_schema(scheme)["properties"]
    return {
        name: {key: schema[key] for key in ("type", "enum")} for name, schema in properties.items() if "enum" in schema
    }


def variations(scheme: AnyScheme) -> list[Tensors]:
    """The tensors of every example, and of what it becomes with another value of each named choice."""
    found = []
    named = choices(scheme)
    for each in scheme.examples:
        plain = parameters_of(scheme, each)
        varied = [{**plain, name: value} for name, choice in named.items() for value in choice["enum"]]
        for query in (plain, *varied):
            try:
                found.append(scheme.tensors(scheme.params.model_validate(query), example_arrays(each)))
            except Refusal:
                # A choice that the rest of the example does not go with says nothing of tensors.
                continue
    return found


def parameters_of(scheme: AnyScheme, each: Example) -> dict[str, Any]:
    """The parameters of an example: its query, what its JSON body states, what an object pasted there stands for."""
    body: Mapping[str, Any] = each.body or {}
    found = {**textual(scheme), **each.query, **{name: body[name] for name in scheme.in_body if name in body}}
    if scheme.pasted is not None:
        for name in scheme.pasted.names:
            found |= scheme.pasted.parameters(body.get(name) or {})
    return found


def example_arrays(each: Example) -> dict[str, Any]:
    """The caller's arrays of an example."""
    import numpy as np  # noqa: PLC0415 - only whoever describes schemes needs it

    body: Mapping[str, Any] = each.body or {}
    arrays = {name: np.asarray(value) for name, value in body.get("tensors", {}).items()}
    if "positions" in body:
        arrays["positions"] = np.asarray(body["positions"])
    return arrays
