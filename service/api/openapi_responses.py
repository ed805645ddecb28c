"""The shared headers and responses of the OpenAPI document, and the refusals as `PROBLEMS` knows them."""

from collections.abc import Iterable
from typing import Any

import orjson

from service.api.caching import FRESH
from service.api.problem_types import PROBLEMS
from service.api.problems import Problem

Schema = dict[str, Any]

PROBLEM_JSON = "application/problem+json"

# A server refuses these before it knows what is asked for, and a bug can be anywhere.
ANY_PROBE = (400, 408, 414, 431, 500)
# And these where it is told to; but no probe.
ANY_REQUEST = (*ANY_PROBE, 401, 421, 429)

_TEXT = {"type": "string"}
_HEADERS: dict[str, tuple[str, Schema, str]] = {
    "ETag": (
        "Strong validator, a hash of the canonical request: send it back in If-None-Match.",
        _TEXT,
        '"5d41402abc4b2a76b9719d911017c592"',
    ),
    "Cache-Control": ("How long the answer may be kept; a year with `revision` in the address.", _TEXT, FRESH),
    "Content-Disposition": (
        "A file name made of the canonical request.",
        _TEXT,
        'attachment; filename="rope_4x8_float32.npy"',
    ),
    "Array-Shape": ("Shape of the one array in the file (npy, bin).", _TEXT, "2, 4, 8"),
    "Array-Dtype": ("Number format of the one array in the file (npy, bin).", _TEXT, "float32"),
    "Accept-Ranges": ("`bytes` where a part of the file can be asked for.", _TEXT, "bytes"),
    "Content-Range": ("Which bytes of how many these are; `bytes */N` with 416.", _TEXT, "bytes 0-127/384"),
    "X-Request-ID": ("The request's id: the caller's own, or one made here. The log has it too.", _TEXT, "c0ffee-1"),
    "Server-Timing": (
        "Milliseconds waited for a thread, computed, and written; of an answer made for this request, not of one kept.",
        _TEXT,
        "queue;dur=0.05, compute;dur=0.31, encode;dur=0.08",
    ),
    "Inference-Header-Content-Length": (
        "How many bytes of the answer are the JSON, where binary tensors follow it.",
        {"type": "integer", "minimum": 0},
        "421",
    ),
    "WWW-Authenticate": ("How to send a key.", _TEXT, 'Bearer realm="posenc"'),
    "Retry-After": ("Seconds after which to try again.", {"type": "integer", "minimum": 0}, "1"),
    "X-Content-Type-Options": ("The type is what Content-Type says, whatever the bytes look like.", _TEXT, "nosniff"),
    "Cross-Origin-Resource-Policy": ("Any page may show the answer, a picture say.", _TEXT, "cross-origin"),
}
# Those of every answer.
EVERYWHERE = ("X-Request-ID", "X-Content-Type-Options", "Cross-Origin-Resource-Policy")

_UNKNOWN_FORMAT = ".np is no format; known are .npy, .npz, .safetensors, .bin, .csv, .png, .svg, and none for JSON"

_DETAILS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "bad-request": ("'length' in the query is not name=value", []),
    "unauthorized": (
        "an API key is missing: send Authorization: Bearer KEY with a key that the operator of this server gave you",
        [],
    ),
    "not-found": (
        _UNKNOWN_FORMAT,
        [
            {
                "parameter": "extension",
                "code": "unknown",
                "detail": _UNKNOWN_FORMAT,
                "did_you_mean": "npy",
            }
        ],
    ),
    "not-acceptable": (
        "npy has no bfloat16; safetensors, json can hold it",
        [{"parameter": "extension", "code": "dtype", "detail": "npy has no bfloat16; safetensors, json can hold it"}],
    ),
    "precondition-failed": ("If-Match names another ETag than this answer has", []),
    "request-timeout": ("7 bytes of the body arrived in 20 seconds; 20480 at least, or its end, would do", []),
    "content-too-large": (
        "the body has at least 134217729 bytes; the limit is 134217728",
        [
            {
                "parameter": "body",
                "code": "too_large",
                "detail": "the body has at least 134217729 bytes; the limit is 134217728",
                "requested": 134217729,
                "limit": 134217728,
            }
        ],
    ),
    "uri-too-long": (
        "the address has 9000 bytes; 8192 are read: send long lists in the body of a POST",
        [],
    ),
    "unsupported-media-type": (
        "Content-Type is text/plain; application/json (UTF-8), or application/octet-stream for npy and safetensors, "
        "would do",
        [],
    ),
    "range-not-satisfiable": ("the answer has 384 bytes, and the range lies outside", []),
    "invalid-parameters": (
        "lenght is not a parameter of encodings/rope; did you mean length?",
        [
            {
                "parameter": "lenght",
                "code": "unknown",
                "detail": "lenght is not a parameter of encodings/rope; known are length, offset, positions",
                "did_you_mean": "length",
            }
        ],
    ),
    "result-too-large": (
        "the answer would take 17179869184 bytes; the limit is 8589934592: ask for fewer rows at a time",
        [
            {
                "parameter": "query",
                "code": "too_large",
                "detail": "the answer would take 17179869184 bytes; the limit is 8589934592: "
                "ask for fewer rows at a time",
                "requested": 17179869184,
                "limit": 8589934592,
            }
        ],
    ),
    "misdirected-request": ("this server does not go by the name of example.org", []),
    "too-many-requests": ("this client asks more than 10 times a second: ask again after 1 s", []),
    "header-fields-too-large": ("the header has 101 fields of 2020 bytes; 100 fields of 32768 bytes are read", []),
    "internal-error": ("the server made a mistake; the log holds it under this request id", []),
    "overloaded": ("the memory for answers is in use at the moment", []),
    "self-test-failed": ("this process computes wrong values: ask another one; its log says which", []),
}


def headers() -> Schema:
    """Every response header, as components."""
    return {
        name: {"description": description, "schema": schema | {"examples": [_typed(schema, example)]}}
        for name, (description, schema, example) in _HEADERS.items()
    }


def _typed(schema: Schema, example: str) -> str | int:
    return int(example) if schema["type"] == "integer" else example


def header_refs(*names: str) -> Schema:
    """References to these headers, and to those of every answer."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in dict.fromkeys((*names, *EVERYWHERE))}


def refusals(statuses: Iterable[int], any_request: Iterable[int] = ANY_REQUEST) -> Schema:
    """References to the refusals of those statuses, and of those that any request can meet."""
    wanted = sorted({*statuses, *any_request})
    return {str(status): {"$ref": f"#/components/responses/{component(status)}"} for status in wanted}


def component(status: int) -> str:
    """The name of a status's shared response: that of its first problem type.

    >>> component(422)
    'InvalidParameters'
    """
    return "".join(word.capitalize() for word in _slugs(status)[0].split("-"))


def responses() -> Schema:
    """Every refusal, as components: one for each status that an operation can answer."""
    statuses = sorted({PROBLEMS[slug].status for slug in _DETAILS})
    return {component(status): _refusal(status) for status in statuses} | {"NotModified": not_modified()}


def not_modified() -> Schema:
    return {
        "description": "The answer is the one whose ETag the caller holds; nothing was computed.",
        "headers": header_refs("ETag", "Cache-Control"),
    }


def _refusal(status: int) -> Schema:
    slugs = _slugs(status)
    extra = {401: ("WWW-Authenticate",), 416: ("Content-Range",), 429: ("Retry-After",), 503: ("Retry-After",)}.get(
        status, ()
    )
    return {
        "description": " Or: ".join(f"{PROBLEMS[slug].title}. {PROBLEMS[slug].meaning}" for slug in slugs),
        "headers": header_refs("Cache-Control", *extra),
        "content": {
            PROBLEM_JSON: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": {slug: {"summary": PROBLEMS[slug].title, "value": example(slug)} for slug in slugs},
            }
        },
    }


def _slugs(status: int) -> list[str]:
    return [slug for slug, kind in PROBLEMS.items() if kind.status == status and slug in _DETAILS]


def example(slug: str) -> Any:
    """A problem document as the service writes it."""
    detail, errors = _DETAILS[slug]
    return orjson.loads(Problem(slug, detail, errors).body("c0ffee-1"))
