"""The component schemas of the OpenAPI document that belong to no single scheme, and what all are written with."""

from typing import Any, get_args

from service.api.schemes import EXTENSIONS
from service.engine.scheme import ITEMSIZE
from service.formats.format import Nonfinite, PictureWidth, Theme

Schema = dict[str, Any]

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
OBJECT = {"type": ["object", "null"], "additionalProperties": True}
NUMBERS = {"type": "array", "items": {}}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


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
    "explanation": {**TEXT, "description": "What it is and what for, in plain words."},
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
    "PictureWidth": {"type": "string", "enum": list(get_args(PictureWidth))},
    "Usage": _USAGE,
}
