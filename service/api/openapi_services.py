"""Bundles and the Open Inference Protocol in the OpenAPI document."""

from typing import Any

from service.api.bundle import EXTENSIONS, MOST_ENTRIES
from service.api.inference import LENGTH, MODELS
from service.api.inference_request import BYTES, DATATYPES
from service.api.openapi_responses import header_refs, refusals
from service.api.openapi_shared import TEXT, Schema, ref
from service.formats import FORMATS

BINARY = {"type": "string", "format": "binary"}
MODEL = "encodings.rope"
NUMBER_OR_TEXT = {"type": ["string", "number", "boolean"]}
PARAMETERS = {"type": "object", "additionalProperties": NUMBER_OR_TEXT}
VALUES = {"type": "array", "items": {}, "description": "Flat or nested, in row-major order."}
SHAPE = {"type": "array", "items": {"type": "integer"}}


def bundle_paths() -> Schema:
    """The one operation of bundles."""
    extension = {
        "name": "extension",
        "in": "path",
        "description": "The format of the file.",
        "required": True,
        "schema": {"type": "string", "enum": list(EXTENSIONS)},
        "example": EXTENSIONS[0],
    }
    entries = {"layers.0.rope": "/v1/encodings/rope?length=4&dim=8", "slopes": "/v1/biases/alibi-slopes?heads=8"}
    headers = header_refs("Cache-Control", "Content-Disposition")
    content = {FORMATS[name].media_type: {"schema": BINARY} for name in EXTENSIONS}
    operation = {
        "operationId": "bundle_file",
        "tags": ["bundle"],
        "summary": "Several answers in one file",
        "description": "Names, and addresses of this service as a GET takes them, without an extension. An answer of "
        "one tensor has the entry's name in the file; of several they are `name.cos`, `name.sin`. What each entry was "
        "answered with is in the metadata (`entries`). Faults are told by JSON Pointer into the body.",
        "parameters": [extension],
        "requestBody": {
            "description": "Addresses by name.",
            "required": True,
            "content": {
                "application/json": {"schema": ref("BundleBody"), "examples": {"two": {"value": entries}}},
            },
        },
        "responses": {
            "200": {"description": "The file.", "headers": headers, "content": content},
            **refusals([404, 406, 413, 415, 422, 503]),
        },
    }
    return {"/v1/bundle.{extension}": {"post": operation}}


def inference_paths() -> Schema:
    """The operations of the protocol; those of a model with and without its version."""
    paths: Schema = {
        "/v2": {"get": _told("inference_server", "What the server is", ref("InferenceServer"))},
        "/v2/health/live": {"get": _told("inference_live", "Whether the process answers", _state("live"))},
        "/v2/health/ready": {
            "get": _told("inference_ready", "Whether the process wants requests", _state("live", "ready"), 503)
        },
        "/v2/models": {"get": _told("inference_models", "The names of the models", ref("InferenceModels"))},
        "/v2/repository/index": {
            "post": _told("inference_index", "The models, as Triton lists them", ref("InferenceIndex"))
        },
    }
    for path, suffix, names in (
        ("/v2/models/{model}", "", ["model"]),
        ("/v2/models/{model}/versions/{version}", "_version", ["model", "version"]),
    ):
        where = [_PLACES[name] for name in names]
        metadata = _told(f"inference_model{suffix}", "What a model takes and gives", ref("InferenceModel"), 404)
        ready = _told(f"inference_model_ready{suffix}", "Whether a model is ready", ref("InferenceModelReady"), 404)
        for operation in (metadata, ready):
            operation["parameters"] = where
        paths[path] = {"get": metadata}
        paths[f"{path}/ready"] = {"get": ready}
        paths[f"{path}/infer"] = {"post": _infer(f"inference_infer{suffix}", where)}
    return paths


_PLACES: dict[str, Schema] = {
    "model": {
        "name": "model",
        "in": "path",
        "description": "`{family}.{scheme}`.",
        "required": True,
        "schema": {"type": "string", "enum": list(MODELS)},
        "example": MODEL,
    },
    "version": {
        "name": "version",
        "in": "path",
        "description": "The revision of the scheme.",
        "required": True,
        "schema": TEXT,
        "example": "1",
    },
}


def _infer(name: str, where: list[Schema]) -> Schema:
    length = {
        "name": LENGTH,
        "in": "header",
        "description": "How many bytes of the body are the JSON, where binary tensors follow it.",
        "required": False,
        "schema": {"type": "integer", "minimum": 0},
    }
    example = {"id": "1", "parameters": {"length": 2, "dim": 4}, "inputs": []}
    answered = header_refs("Cache-Control", LENGTH)
    return {
        "operationId": name,
        "tags": ["inference"],
        "summary": "Compute the tensors of a model",
        "description": "Parameters of the scheme are request parameters, or inputs of their name; the caller's arrays "
        "are inputs. With the binary tensor extension JSON is followed by the tensors that have `binary_data_size`, "
        "and outputs with `binary_data` (all of them with the request parameter `binary_data_output`) come the same "
        "way.",
        "parameters": [*where, length],
        "requestBody": {
            "description": "JSON, and the binary tensors after it.",
            "required": True,
            "content": {
                "application/json": {"schema": ref("InferenceRequest"), "examples": {"table": {"value": example}}},
                "application/octet-stream": {"schema": BINARY},
            },
        },
        "responses": {
            "200": {
                "description": "The tensors.",
                "headers": answered,
                "content": {
                    "application/json": {"schema": ref("InferenceResponse")},
                    "application/octet-stream": {"schema": BINARY},
                },
            },
            **_errors(404, 413, 415, 503),
        },
    }


def _told(name: str, summary: str, schema: Schema, *refused: int) -> Schema:
    return {
        "operationId": name,
        "tags": ["inference"],
        "summary": summary,
        "description": f"{summary} (Open Inference Protocol, version 2).",
        "responses": {
            "200": {
                "description": f"{summary}.",
                "headers": header_refs("Cache-Control"),
                "content": {"application/json": {"schema": schema}},
            },
            **_errors(*refused),
        },
    }


def _errors(*statuses: int) -> Schema:
    """The refusals of those statuses and of any request, as the protocol's error object."""
    shared = refusals(statuses)
    return {status: {"$ref": "#/components/responses/InferenceRefused"} for status in shared}


def _state(*names: str) -> Schema:
    properties = {name: {"type": "boolean", "const": True} for name in names}
    return {"type": "object", "properties": properties, "required": list(names)}


def service_responses() -> Schema:
    """The refusal of the protocol, for every status."""
    content = {"schema": ref("InferenceError"), "example": {"error": "there is no model encodings.rop"}}
    return {
        "InferenceRefused": {
            "description": "What is wrong, in one line.",
            "headers": header_refs("Cache-Control"),
            "content": {"application/json": content},
        }
    }


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> Schema:
    return {"type": "object", "properties": required | (optional or {}), "required": list(required)}


_DATATYPE = {"type": "string", "enum": [*DATATYPES, BYTES]}
_TENSOR = {"name": TEXT, "datatype": _DATATYPE, "shape": SHAPE}


def service_schemas() -> Schema:
    """The components of both."""
    names = {"pattern": r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}$"}
    metadata = {"type": "array", "items": ref("InferenceTensor")}
    entry = {"name": TEXT, "version": TEXT, "state": {"type": "string", "const": "READY"}, "reason": TEXT}
    response = {
        "model_name": TEXT,
        "model_version": TEXT,
        "parameters": PARAMETERS,
        "outputs": {"type": "array", "items": ref("InferenceOutput")},
    }
    tensors = {
        "inputs": {"type": "array", "items": ref("InferenceInput")},
        "outputs": {"type": "array", "items": ref("InferenceWanted")},
    }
    data = {"parameters": PARAMETERS, "data": VALUES}
    return {
        "BundleBody": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": MOST_ENTRIES,
            "propertyNames": names,
            "additionalProperties": {**TEXT, "format": "uri-reference"},
        },
        "InferenceError": _object({"error": TEXT}),
        "InferenceIndex": {"type": "array", "items": _object(entry)},
        "InferenceInput": _object(_TENSOR, data),
        "InferenceModel": _object(
            {
                "name": TEXT,
                "versions": {"type": "array", "items": TEXT},
                "platform": TEXT,
                "inputs": metadata,
                "outputs": metadata,
            }
        ),
        "InferenceModelReady": _object({"name": TEXT, "ready": {"type": "boolean"}}),
        "InferenceModels": _object({"models": {"type": "array", "items": TEXT}}),
        "InferenceOutput": _object(_TENSOR, data),
        "InferenceRequest": _object({}, {"id": TEXT, "parameters": PARAMETERS, **tensors}),
        "InferenceResponse": _object(response, {"id": TEXT}),
        "InferenceServer": _object({"name": TEXT, "version": TEXT, "extensions": {"type": "array", "items": TEXT}}),
        "InferenceTensor": _object(_TENSOR),
        "InferenceWanted": _object({"name": TEXT}, {"parameters": PARAMETERS}),
    }
