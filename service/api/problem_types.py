"""The table of problem types: what a kind of refusal means, wherever it occurs."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProblemType:
    """What a kind of refusal means, wherever it occurs."""

    slug: str
    status: int
    title: str
    meaning: str


PROBLEMS: Mapping[str, ProblemType] = {
    entry.slug: entry
    for entry in (
        ProblemType(
            "bad-request",
            400,
            "The request cannot be parsed",
            "The bytes are no valid query, JSON, npy or safetensors. The detail says what was seen.",
        ),
        ProblemType(
            "unauthorized",
            401,
            "This server wants an API key",
            "Send Authorization: Bearer KEY with a key that the operator of the server gave you. A key is read from "
            "that header alone; one that was put into an address is known to whoever logs addresses: have it replaced.",
        ),
        ProblemType(
            "not-found",
            404,
            "There is nothing at this address",
            "The path, the scheme in it or its extension is unknown. The nearest known names are given.",
        ),
        ProblemType(
            "method-not-allowed",
            405,
            "This address does not take that method",
            "The Allow header lists the methods it takes.",
        ),
        ProblemType(
            "not-acceptable",
            406,
            "This format cannot hold the answer",
            "For example bfloat16 in npy, or two tensors in one csv. The detail names the formats that can.",
        ),
        ProblemType(
            "request-timeout",
            408,
            "The request did not arrive in time",
            "Header or body paused for longer than the server waits. Send it again.",
        ),
        ProblemType(
            "precondition-failed",
            412,
            "The answer is another one than If-Match names",
            "Ask without If-Match for the answer of this version of the service.",
        ),
        ProblemType(
            "content-too-large",
            413,
            "The body is larger than the server takes",
            "The limit is given in bytes. Split the data, or ask the operator to raise --body-bytes.",
        ),
        ProblemType(
            "uri-too-long",
            414,
            "The address is longer than the server reads",
            "Long lists belong in the body of a POST.",
        ),
        ProblemType(
            "unsupported-media-type",
            415,
            "The body is of a type that is not read here",
            "JSON is application/json; npy and safetensors are application/octet-stream. Bodies are not compressed.",
        ),
        ProblemType(
            "range-not-satisfiable",
            416,
            "The range lies outside the answer",
            "Content-Range gives the size of the whole.",
        ),
        ProblemType(
            "misdirected-request",
            421,
            "This server does not go by that name",
            "The Host header names a server for which this one does not answer. The operator lists the names that it "
            "goes by in --allowed-hosts.",
        ),
        ProblemType(
            "invalid-parameters",
            422,
            "The request was understood and is invalid",
            "A parameter or array is out of range, unknown, repeated, missing or contradicts another one; "
            "each is listed with what would do.",
        ),
        ProblemType(
            "result-too-large",
            422,
            "The answer would be larger than the server's limit",
            "Requested size and limit are given in bytes, before anything was allocated.",
        ),
        ProblemType(
            "too-many-requests",
            429,
            "This client asks too often",
            "Retry after the seconds in Retry-After. Answers do not change: keep them, and ask with If-None-Match.",
        ),
        ProblemType(
            "header-fields-too-large",
            431,
            "The request's header is larger than the server reads",
            "Send fewer or shorter header fields.",
        ),
        ProblemType(
            "internal-error",
            500,
            "The server made a mistake",
            "This is a bug. The log holds the details under the request id.",
        ),
        ProblemType(
            "overloaded",
            503,
            "The server has no capacity at the moment",
            "It is overloaded, starting or draining. Retry after the seconds in Retry-After.",
        ),
        ProblemType(
            "self-test-failed",
            500,
            "The server computes wrong values and answers none",
            "Before it takes work a server compares a few tables with known values. On this machine, or in this build, "
            "they differ. Ask another server; the log of this one says which values.",
        ),
    )
}
