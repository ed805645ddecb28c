"""What the OpenAPI document says of models: three operations and the schemas of their answers."""

from typing import Any

from service.api.models import LONGEST
from service.api.openapi_parameters import parameter_ref
from service.api.openapi_responses import header_refs, refusals
from service.models.context import PRESETS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
OBJECT: Schema = {"type": "object", "additionalProperties": True}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: Schema, *optional: str) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _nullable(kind: str, **more: Any) -> Schema:
    return {"type": [kind, "null"], **more}


_VALUE = _object(
    {
        "value": {"description": "The parameter."},
        "source": {"type": "string", "enum": ["config", "class default", "rewritten"]},
        "key": {"type": "string", "description": "JSON Pointer of the key of the configuration that decides it."},
    }
)
_ADDRESS = _object({"method": {"type": "string", "enum": ["GET", "POST"]}, "href": TEXT, "body": OBJECT}, "body")
_WINDOW = _object(
    {
        "kind": {"type": "string", "enum": ["sliding", "chunked", "bidirectional"]},
        "size": {"type": "integer"},
        "ahead": {"type": "integer", "description": "Keys ahead, where a window of both sides has more of them."},
    },
    "ahead",
)
_USE = _object(
    {
        "role": {"type": "string", "description": "What the positions are for: text-attention, vision-tower, ..."},
        "scope": {"type": "string", "description": "JSON Pointer of the object of the configuration that was read."},
        "model_type": TEXT,
        "layer_type": _nullable("string"),
        "layers": _nullable("array", items={"type": "integer"}),
        "encoding": {"type": "string", "description": "The scheme's name; `none` where there are no positions."},
        "scheme": _nullable("string", description="family/name, as the catalogue has it."),
        "parameters": {"type": "object", "additionalProperties": _ref("PlanValue")},
        "facts": OBJECT,
        "window": {"anyOf": [_ref("PlanWindow"), {"type": "null"}]},
        "notes": TEXTS,
        "addresses": {"type": "object", "additionalProperties": _ref("PlanAddress")},
    }
)
_PLAN = _object(
    {
        "name": TEXT,
        "model_type": TEXT,
        "assumed": _nullable("string", description="The type that the configuration was read by, where not its own."),
        "preset": {"type": "string", "enum": list(PRESETS)},
        "uses": {"type": "array", "items": _ref("PlanUse")},
        "notes": TEXTS,
    },
    "name",
)
_MODEL = _object(
    {
        "name": TEXT,
        "kind": {"type": "string", "enum": ["model type", "checkpoint"]},
        "model_type": TEXT,
        "schemes": TEXTS,
        "encodings": TEXTS,
        "refused": {"type": "string", "description": "Why the defaults of the class make no plan."},
        "href": TEXT,
    },
    "refused",
)
MODEL_SCHEMAS: Schema = {
    "Model": _MODEL,
    "Models": _object({"models": {"type": "array", "items": _ref("Model")}}),
    "Plan": _PLAN,
    "PlanAddress": _ADDRESS,
    "PlanUse": _USE,
    "PlanValue": _VALUE,
    "PlanWindow": _WINDOW,
}


def _query(name: str, schema: Schema, description: str, example: Any) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema, "example": example}


_PRESET = _query(
    "preset", {"type": "string", "enum": list(PRESETS)}, "Whose behaviour, where libraries differ.", PRESETS[0]
)
_LENGTH = _query(
    "length",
    {"type": "integer", "format": "int64", "minimum": 1, "maximum": LONGEST},
    "How many positions the addresses ask for (128).",
    128,
)
_ASSUME = _query(
    "assume",
    TEXT,
    "The model type to read the keys by where model_type is missing or not known, of the whole or of a part: the file "
    "must state its own sizes then, and what that type does not read of it is told, or refused where it decides.",
    "llama",
)
_SCHEME = _query(
    "scheme", TEXT, "Only models with this scheme, `rope` or `encodings/rope`, or encoding: `learned`, `none`.", "rope"
)
_NAME: Schema = {
    "name": "name",
    "in": "path",
    "description": "A model type of transformers, or a public checkpoint.",
    "required": True,
    "schema": TEXT,
    "example": "llama-3.1-8b",
}
RESOLVE = """\
Takes a Hugging Face `config.json` as it is and answers with a plan: for each use of positions the scheme, every
parameter with where it came from, what deserves saying, and addresses of this service that return what the model
computes. An unknown model type, a key that is misspelt and keys that contradict each other are refused by JSON Pointer.
"""


def model_paths() -> Schema:
    """The paths of models."""
    return {
        "/v1/models": {
            "get": _get(
                "models_list",
                "Every known model",
                "Model types with the defaults of their classes, and public checkpoints.",
                "Models",
                (_SCHEME,),
                422,
            )
        },
        "/v1/models/resolve": {"post": _resolve()},
        "/v1/models/{name}": {
            "get": _get(
                "models_get",
                "The plan of a known model",
                "As if its published configuration had been resolved.",
                "Plan",
                (_NAME, _PRESET, _LENGTH),
                404,
                422,
            )
        },
    }


def _get(
    name: str, summary: str, description: str, answer: str, parameters: tuple[Schema, ...], *refused: int
) -> Schema:
    return {
        "operationId": name,
        "tags": ["models"],
        "summary": summary,
        "description": description,
        "parameters": [*parameters, parameter_ref("If-None-Match")],
        "responses": {
            "200": {
                "description": summary + ".",
                "headers": header_refs("ETag", "Cache-Control"),
                "content": {"application/json": {"schema": _ref(answer)}},
            },
            "304": {"$ref": "#/components/responses/NotModified"},
            **refusals((412, *refused)),
        },
    }


def _resolve() -> Schema:
    example = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32}
    return {
        "operationId": "models_resolve",
        "tags": ["models"],
        "summary": "The plan of a config.json",
        "description": RESOLVE,
        "parameters": [_ASSUME, _PRESET, _LENGTH],
        "requestBody": {
            "description": "The configuration.",
            "required": True,
            "content": {"application/json": {"schema": OBJECT, "example": example}},
        },
        "responses": {
            "200": {
                "description": "The plan.",
                "headers": header_refs("Cache-Control"),
                "content": {"application/json": {"schema": _ref("Plan")}},
            },
            **refusals((413, 415, 422, 503)),
        },
    }
