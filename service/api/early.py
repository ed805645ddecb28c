"""Refusals of requests that the app does not get to see: what is wrong with them, and the answer as bytes."""

from http import HTTPStatus

from service.api.caching import RawHeaders
from service.api.gate import Admitted
from service.api.inference_errors import written
from service.api.problems import Problem
from service.api.reply_cache import lines_of
from service.settings import Settings


def uri_too_long(settings: Settings) -> Problem:
    detail = f"the request target is longer than {settings.url_bytes} bytes: send long lists in the body of a POST"
    return Problem("uri-too-long", detail)


def header_too_large(settings: Settings) -> Problem:
    fields, size = settings.header_fields, settings.header_bytes
    return Problem("header-fields-too-large", f"the header has more than {fields} fields or {size} bytes")


def request_timeout(settings: Settings) -> Problem:
    detail = f"the header was not complete after {settings.header_seconds:g} seconds: send it in one go"
    return Problem("request-timeout", detail)


def not_http() -> Problem:
    return Problem("bad-request", "this is not HTTP/1.1: send a well-formed request")


def wrong_method(methods: str) -> Problem:
    detail = f"this method is not possible here; {methods} are"
    return Problem("method-not-allowed", detail, headers={"Allow": methods})


def no_host() -> Problem:
    return Problem("bad-request", "HTTP/1.1 requires one Host field: send it once")


def bad_host() -> Problem:
    return Problem("bad-request", "the Host field is no host: a name or an address, with or without :port, would do")


def bad_target() -> Problem:
    return Problem("bad-request", "the target has a scheme that is not spoken here: http, https or a path would do")


def no_length() -> Problem:
    detail = "a body has one Content-Length or, in HTTP/1.1, the one Transfer-Encoding `chunked`: send it so"
    return Problem("bad-request", detail)


def wasteful_chunks() -> Problem:
    return Problem(
        "bad-request", "the chunks of the body are too small, or too much is said between them: send larger ones"
    )


def too_large_chunk() -> Problem:
    return Problem("content-too-large", "a chunk of the body has more than 2^64 bytes")


def to_bytes(
    problem: Problem, admitted: Admitted, headers: RawHeaders, target: bytes, *, bodiless: bool = False
) -> bytes:
    """The whole HTTP answer to a request that the app does not get to see, of whose target this much arrived."""
    path = target.partition(b"?")[0].decode("latin-1")
    code, media_type, body = written(problem, path, admitted.request_id.decode("ascii"))
    status = HTTPStatus(code)
    fields = [
        *headers,
        (b"content-type", media_type),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in problem.headers.items()),
    ]
    return b"HTTP/1.1 %d %s\r\n%s%s\r\n%s" % (
        status,
        status.phrase.encode(),
        lines_of(fields),
        admitted.lines,
        b"" if bodiless else body,
    )
