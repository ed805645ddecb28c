"""The component schemas of the OpenAPI document: answers and bodies of each scheme, tensors, catalogue, problems."""

from itertools import chain
from typing import Any, get_args

from service.api.parameters import answered_schema, listed_schema, structured_schema
from service.api.schemes import EXTENSIONS
from service.api.variations import AnyScheme, choices, variations
from service.engine import SCHEMES
from service.engine.attention.relative import QueryKeyPositions
from service.engine.positions import POSITIONS_INPUT, Positioned
from service.engine.rotation.patches import OF_GRIDS
from service.engine.scheme import ITEMSIZE
from service.formats.format import Nonfinite, Theme

Schema = dict[str, Any]

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
OBJECT = {"type": ["object", "null"], "additionalProperties": True}
NUMBERS = {"type": "array", "items": {}}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def pascal(*words: str) -> str:
    """A component's name.

    >>> pascal("biases", "alibi-slopes", "answer")
    'BiasesAlibiSlopesAnswer'
    """
    parts = chain.from_iterable(word.replace("-", "_").split("_") for word in words)
    return "".join(part[:1].upper() + part[1:] for part in parts)


def schemas() -> Schema:
    """Every component schema."""
    return SHARED | {name: schema for scheme in SCHEMES for name, schema in of_scheme(scheme).items()}


def of_scheme(scheme: AnyScheme) -> Schema:
    """A scheme's own components: named choices, answer, parameters as answered, tensors, and the body it takes."""
    name = pascal(scheme.family, scheme.name)
    found = {pascal(name, choice): schema for choice, schema in choices(scheme).items()}
    found[f"{name}Parameters"] = _answered(scheme, name)
    found[f"{name}Tensors"] = _tensors(scheme)
    found[f"{name}Answer"] = _answer(scheme, name)
    if scheme.presets:
        found[f"{name}Preset"] = {"type": "string", "enum": list(scheme.presets)}
    if has_several(scheme):
        found[f"{name}Tensor"] = {"type": "string", "enum": tensor_names(scheme)}
    if scheme.takes_body:
        found[f"{name}Body"] = _body(scheme)
    return found | structured_schema(scheme, name)[1]


def _answered(scheme: AnyScheme, name: str) -> Schema:
    whole = answered_schema(scheme)
    for choice in choices(scheme):
        given = whole["properties"][choice]
        reference = ref(pascal(name, choice))
        shape = {"anyOf": [reference, {"type": "null"}]} if None in given["enum"] else reference
        whole["properties"][choice] = shape | {"description": given["description"]}
    for schema in whole["properties"].values():
        schema.pop("default", None)
    whole["properties"] |= structured_schema(scheme, name)[0]
    described = "Every parameter, defaults filled in; null for what was left out."
    if scheme.pasted is not None:
        # One object with optional members: of a choice between two, clients in many languages make nothing usable.
        whole["properties"] |= _layers(name)
        del whole["required"]
        described += " Where a pasted block holds one object for each type of layer: layers and without, and no other."
    return whole | {"description": described}


def _answer(scheme: AnyScheme, name: str) -> Schema:
    properties = {
        "family": {"const": scheme.family, "type": "string"},
        "scheme": {"const": scheme.name, "type": "string"},
        "revision": {"type": "integer", "description": "Changes whenever the numbers of the scheme would."},
        "parameters": ref(f"{name}Parameters"),
        "facts": {"type": "object", "additionalProperties": True, "description": "What follows from the parameters."},
        "notes": {**TEXTS, "description": "What deserves saying about this convention."},
        "tensors": ref(f"{name}Tensors"),
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _layers(name: str) -> Schema:
    layers = {"type": "object", "additionalProperties": ref(f"{name}Parameters")}
    return {
        "layers": layers | {"description": "The parameters of each type of layer."},
        "without": {**TEXTS, "description": "Types of layer that have no encoding."},
    }


def _tensors(scheme: AnyScheme) -> Schema:
    properties = {name: ref("Tensor") for name in tensor_names(scheme)}
    description = "By name, in this order; which of them there are depends on the parameters."
    more: Schema = {"additionalProperties": False}
    if scheme.pasted is not None:
        more = {"additionalProperties": ref("Tensor")}
        description += (
            f" Of several types of layer: each under the type's name too, as `layer.{next(iter(properties))}`."
        )
    return {"type": "object", "properties": properties, **more, "description": description}


def tensor_names(scheme: AnyScheme) -> list[str]:
    """Every tensor that a scheme can answer with: those of its examples, varied by each named choice."""
    return list(dict.fromkeys(name for tensors in variations(scheme) for name in tensors))


def has_several(scheme: AnyScheme) -> bool:
    """Whether one answer can hold several tensors."""
    return any(len(tensors) > 1 for tensors in variations(scheme))


def _body(scheme: AnyScheme) -> Schema:
    positions = [array for array in scheme.inputs if array.name == POSITIONS_INPUT.name]
    others = [array for array in scheme.inputs if array.name != POSITIONS_INPUT.name]
    properties: Schema = structured_schema(scheme, pascal(scheme.family, scheme.name))[0]
    if others:
        properties["tensors"] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {array.name: {**NUMBERS, "description": array.description} for array in others},
            "required": [array.name for array in others if array.required],
            **({"minProperties": 1} if scheme.alternatives else {}),
        }
    properties |= listed_schema(scheme)
    for array in positions:
        properties[array.name] = {**NUMBERS, "description": array.description}
    if scheme.pasted is not None:
        properties |= {name: {**OBJECT, "description": scheme.pasted.description} for name in scheme.pasted.names}
    whole = {"type": "object", "additionalProperties": False, "properties": properties}
    return whole | _leading(scheme)


def _leading(scheme: AnyScheme) -> Schema:
    """What a body cannot do without: structured parameters, required tensors, or else the scheme's first array, a
    pasted object or a list.
    """
    if scheme.structured:
        return {"required": list(scheme.structured)}
    needed = [array.name for array in scheme.inputs if array.required] or [scheme.inputs[0].name]
    if needed != [POSITIONS_INPUT.name]:
        return {"required": ["tensors"]}
    return {"minProperties": 1} if scheme.pasted or scheme.listed else {"required": ["positions"]}


def body_parameters(scheme: AnyScheme) -> list[str]:
    """The query parameters beside a body: positions in the body leave nothing for those in the address to say."""
    at_positions = not scheme.needs_body and any(array.name == "positions" for array in scheme.inputs)
    of_positions = {*Positioned.model_fields, *QueryKeyPositions.model_fields, *OF_GRIDS}
    left_out = of_positions if at_positions else set()
    return [name for name in scheme.params.model_fields if name not in left_out and name not in scheme.in_body]


_TENSOR = {
    "type": "object",
    "description": "One array.",
    "properties": {
        "axes": {**TEXTS, "description": "A name for each axis."},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "dtype": {"type": "string", "enum": list(ITEMSIZE)},
        "data": {
            **NUMBERS,
            "description": "Nested lists of numbers, as deep as the shape is long, in the shortest form that reads "
            'back equal; with `nonfinite=string` also "Infinity", "-Infinity" and "NaN".',
        },
    },
    "required": ["axes", "shape", "dtype", "data"],
}
_FAULT = {
    "type": "object",
    "description": "One thing that is wrong, and what would do.",
    "properties": {
        "parameter": {**TEXT, "description": "The query parameter, `body`, `path` or `extension` at fault."},
        "pointer": {**TEXT, "description": "JSON Pointer to the place in the body."},
        "code": TEXT,
        "detail": TEXT,
        "requested": {"type": "number"},
        "limit": {"type": "number"},
        "did_you_mean": {**TEXT, "description": "The nearest known name."},
    },
    "required": ["code", "detail"],
}
_PROBLEM = {
    "type": "object",
    "description": "A refusal (RFC 9457).",
    "properties": {
        "type": {**TEXT, "format": "uri-reference", "description": "Where the kind of problem is explained."},
        "title": TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {**TEXT, "description": "What was given, and what would do."},
        "instance": {**TEXT, "description": "The request id."},
        "errors": {"type": "array", "maxItems": 20, "items": ref("Fault")},
    },
    "required": ["type", "title", "status", "detail", "instance", "errors"],
}
_EXAMPLE = {
    "type": "object",
    "properties": {
        "title": TEXT,
        "method": {"type": "string", "enum": ["GET", "POST"]},
        "href": {**TEXT, "format": "uri-reference"},
        "body": {"type": "object", "additionalProperties": True},
    },
    "required": ["title", "method", "href"],
}
_INPUT = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "description": TEXT,
        "required": {"type": "boolean"},
        "values": {
            "type": "string",
            "enum": ["numbers", "flags", "structured"],
            "description": "Flags are 0 and 1, or truth values; what is structured is a part of a JSON body.",
        },
    },
    "required": ["name", "description", "required", "values"],
}
_USAGE = {
    "type": "object",
    "properties": {
        "who": TEXT,
        "preset": {**TEXT, "description": "The name of these parameters, where they have one: `preset=` takes it."},
        "parameters": {"type": "object", "additionalProperties": TEXT},
    },
    "required": ["who", "parameters"],
}
_ENTRY_PROPERTIES = {
    "family": TEXT,
    "name": TEXT,
    "title": TEXT,
    "revision": {"type": "integer"},
    "description": {**TEXT, "description": "Formula and channel order, in Markdown."},
    "reference": TEXT,
    "rounding": {"type": "string", "enum": ["correct", "faithful", "integer"]},
    "href": {**TEXT, "format": "uri-reference"},
    "methods": {"type": "array", "items": {"type": "string", "enum": ["GET", "POST"]}},
    "extensions": TEXTS,
    "parameters": {"type": "object", "additionalProperties": True, "description": "JSON Schema of the query."},
    "inputs": {"type": "array", "items": ref("Input")},
    "tensors": {
        "type": "object",
        "additionalProperties": {"type": "array", "items": TEXTS},
        "description": "The tensors that an answer can hold, and the axes that each can have.",
    },
    "properties": {"type": "object", "additionalProperties": TEXT},
    "used_by": {"type": "array", "items": ref("Usage")},
    "examples": {"type": "array", "items": ref("Example")},
}
SHARED: Schema = {
    "Tensor": _TENSOR,
    "Advice": {
        "type": "object",
        "properties": {
            "needs": {"type": "object", "additionalProperties": True, "description": "Every need, defaults filled in."},
            "considered": {**TEXTS, "description": "What rules were called for."},
            "advice": {"type": "array", "items": ref("Advised")},
            "ruled_out": {"type": "array", "items": ref("Advised")},
        },
        "required": ["needs", "considered", "advice", "ruled_out"],
    },
    "Advised": {
        "type": "object",
        "properties": {
            "rank": {"type": "integer", "description": "1 is the best; what is ruled out has none."},
            **dict.fromkeys(("family", "scheme", "name", "reference"), TEXT),
            "points": {"type": ["integer", "null"]},
            "method": {"type": "string", "const": "GET"},
            "href": {**TEXT, "format": "uri-reference"},
            "reasons": {"type": "array", "items": ref("Reason")},
        },
        "required": ["family", "scheme", "name", "points", "method", "href", "reference", "reasons"],
    },
    "Reason": {
        "type": "object",
        "properties": {
            "need": TEXT,
            "points": {"type": ["integer", "null"], "description": "null rules the scheme out."},
            "property": {**TEXT, "description": "Of the scheme, in the catalogue."},
            "says": {**TEXT, "description": "What the catalogue says of it."},
            "because": TEXT,
        },
        "required": ["need", "points", "property", "says", "because"],
    },
    "Problem": _PROBLEM,
    "Fault": _FAULT,
    "Catalogue": {
        "type": "object",
        "properties": {
            "schemes": {"type": "array", "items": ref("CatalogueEntry")},
            "left_out": {
                "type": "array",
                "items": ref("Omission"),
                "description": "What no scheme answers, and why; of the whole catalogue only.",
            },
        },
        "required": ["schemes"],
    },
    "CatalogueEntry": {"type": "object", "properties": _ENTRY_PROPERTIES, "required": list(_ENTRY_PROPERTIES)},
    "Example": _EXAMPLE,
    "Extension": {"type": "string", "enum": list(EXTENSIONS)},
    "Input": _INPUT,
    "Nonfinite": {"type": "string", "enum": list(get_args(Nonfinite))},
    "Omission": {
        "type": "object",
        "properties": {"name": TEXT, "topic": TEXT, "reason": TEXT},
        "required": ["name", "topic", "reason"],
    },
    "Theme": {"type": "string", "enum": list(get_args(Theme))},
    "Usage": _USAGE,
}
