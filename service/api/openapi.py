"""The OpenAPI document, generated from the scheme records and the route families.

FastAPI's own generator is not used: it adds application/json to binary answers and a refusal of its own shape. The
generated document is committed as openapi/openapi.json, and that file is what the service serves.
"""

from typing import Any

import orjson

from service import __version__
from service.api.openapi_models import MODEL_SCHEMAS, model_paths
from service.api.openapi_operations import scheme_paths
from service.api.openapi_parameters import needs_parameters, parameter_components, parameter_ref
from service.api.openapi_responses import ANY_PROBE, header_refs, headers, refusals, responses
from service.api.openapi_schemas import schemas
from service.api.openapi_services import bundle_paths, inference_paths, service_responses, service_schemas
from service.api.openapi_shared import TEXT, Schema, ref
from service.api.schemes import FAMILIES
from service.engine import SCHEMES

DESCRIPTION = """\
Tables, attention biases, and encodings applied to your own vectors: exact, in the convention of your library, with the
same bytes on every machine.

The address alone decides the format: without an extension the answer is JSON; `.npy`, `.npz`, `.safetensors`, `.bin`
(raw little-endian) and `.csv` are files, `.png` and `.svg` are pictures of the same tensors. Parameters are in the
query, the caller's arrays in the body. Unknown and repeated parameters are refused. Lists are comma-separated. In an
address a `+` means a space: write exponents as `1e4`.

Answers to GET have a strong `ETag` and may be cached; with `revision` in the address they never change. HEAD answers
every GET without its body. Every refusal is a problem document (RFC 9457). A well-formed `X-Request-ID` is taken
over, and every answer has one; a W3C `traceparent` comes back as `traceresponse`."""

TAGS = {
    **FAMILIES,
    "bundle": "Several answers in one file.",
    "inference": "The Open Inference Protocol, version 2: each scheme is a model. Refusals are its error object.",
    "models": "A model's configuration, or its name, as a plan with addresses.",
    "catalogue": "What the service knows: derived from the same records as everything else.",
    "operations": "Health, metrics, this document, and what problem types mean.",
}


KEY = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, where the server wants one. Its operator gives it; it is read from this header alone.",
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
        # Without a key unless the server wants one.
        "security": [{}, {"key": []}],
        "tags": [{"name": name, "description": TAGS[name]} for name in _tag_names()],
        "paths": {
            **dict(scheme_paths()),
            **model_paths(),
            **bundle_paths(),
            **_catalogue_paths(),
            **_advice_path(),
            **inference_paths(),
            **_operations_paths(),
        },
        "components": {
            "schemas": schemas() | service_schemas() | MODEL_SCHEMAS,
            "parameters": dict(parameter_components()),
            "headers": headers(),
            "responses": responses() | service_responses(),
            "securitySchemes": {"key": KEY},
        },
    }


def text() -> str:
    """The document as the committed file holds it: what `posenc openapi` prints."""
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _tag_names() -> list[str]:
    families = dict.fromkeys(scheme.family for scheme in SCHEMES)
    return [*families, "models", "bundle", "catalogue", "inference", "operations"]


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
    known = "The whole catalogue: titles, formulas, parameters (JSON Schema), axes, conventions, what is left out."
    one = "What the catalogue says of the schemes of one name: `rope` is an encoding and an operation."
    return {
        "/v1/schemes": {"get": _document("schemes_list", "catalogue", "Every scheme", known, ref("Catalogue"), 422)},
        "/v1/schemes/{scheme}": {
            "get": {
                **_document("schemes_get", "catalogue", "The schemes of one name", one, ref("Catalogue"), 404, 422),
                "parameters": [name, parameter_ref("If-None-Match")],
            }
        },
    }


def _advice_path() -> Schema:
    told = _document(
        "advice",
        "catalogue",
        "Which scheme to use",
        "Schemes for stated needs, the best first, each with its reasons: the property of the catalogue that decides, "
        "its points, and an address that shows the scheme. What cannot do it at all is listed as ruled out.",
        ref("Advice"),
        400,
        422,
    )
    return {"/v1/advice": {"get": {**told, "parameters": [*needs_parameters(), parameter_ref("If-None-Match")]}}}


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
    described = _document("openapi", "operations", "This document", "OpenAPI 3.1.", anything)
    for each in (listed, explained, described):  # which hold nothing but what everyone has
        each["security"] = []
        del each["responses"]["401"]
    explained["parameters"] = [slug, parameter_ref("If-None-Match")]
    return {
        "/health/live": {"get": _health("health_live", "Whether the process answers", "live")},
        "/health/ready": {"get": _health("health_ready", "Whether the process wants requests", "ready", 503)},
        "/metrics": {"get": _metrics()},
        "/openapi.json": {"get": described},
        "/problems": {"get": listed},
        "/problems/{slug}": {"get": explained},
    }


def _metrics() -> Schema:
    text = {"schema": TEXT}
    return {
        "operationId": "metrics",
        "tags": ["operations"],
        "summary": "Metrics for Prometheus",
        "description": "Of this process. Text, or OpenMetrics where Accept prefers it.",
        "responses": {
            "200": {
                "description": "All metrics.",
                "headers": header_refs("Cache-Control"),
                "content": {"text/plain": text, "application/openmetrics-text": text},
            },
            **refusals([]),
        },
    }


def _document(name: str, tag: str, summary: str, description: str, schema: Schema, *refused: int) -> Schema:
    """An operation that answers with a document which does not change while the process runs."""
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "description": description,
        "parameters": [parameter_ref("If-None-Match")],
        "responses": {
            "200": {
                "description": summary + ".",
                "headers": header_refs("ETag", "Cache-Control"),
                "content": {"application/json": {"schema": schema}},
            },
            "304": {"$ref": "#/components/responses/NotModified"},
            **refusals((412, *refused)),
        },
    }


def _health(name: str, summary: str, status: str, *refused: int) -> Schema:
    draining = " 503 while the server starts or drains, and where its self-test failed." if refused else ""
    schema = {"type": "object", "properties": {"status": {"type": "string", "const": status}}, "required": ["status"]}
    return {
        "operationId": name,
        "tags": ["operations"],
        "summary": summary,
        "description": f"For probes: answered at once, whatever else is going on, and without a key.{draining}",
        "security": [],
        "responses": {
            "200": {
                "description": "It does.",
                "headers": header_refs("Cache-Control"),
                "content": {"application/json": {"schema": schema}},
            },
            **refusals(refused, ANY_PROBE),
        },
    }
