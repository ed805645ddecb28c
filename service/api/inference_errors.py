"""How a refusal is written: a problem document, or below `/v2` the Open Inference Protocol's error object."""

import orjson

from service.access import redacted
from service.api.problems import MEDIA_TYPE, Problem

PREFIX = "/v2"
PLACES = ("/id", "/inputs", "/outputs", "/parameters")


def written(problem: Problem, path: str, request_id: str) -> tuple[int, bytes, bytes]:
    """Status, media type and body. Triton's clients take 400 for what is wrong with a request that was understood."""
    if path != PREFIX and not path.startswith(f"{PREFIX}/"):
        return problem.status, MEDIA_TYPE, problem.body(request_id)
    status = 400 if problem.status in (406, 422) else problem.status
    return status, b"application/json", orjson.dumps({"error": redacted(_line(problem))})


def _line(problem: Problem) -> str:
    """The detail, after the place in the request where it is one of the protocol's."""
    pointer = problem.errors[0].get("pointer", "") if problem.errors else ""
    return f"{pointer}: {problem.detail}" if pointer.startswith(PLACES) else problem.detail
