"""Refusals of requests that the app does not get to see: what is wrong with them, and the answer as bytes."""

import uuid
from http import HTTPStatus

from service.api.caching import RawHeaders
from service.api.problems import MEDIA_TYPE, Problem
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


def no_host() -> Problem:
    return Problem("bad-request", "HTTP/1.1 requires one Host field: send it once")


def to_bytes(problem: Problem, headers: RawHeaders, lines: bytes) -> bytes:
    """The whole HTTP answer to a request that the app does not get to see, with the lines of every answer."""
    request_id = uuid.uuid4().hex
    body = problem.body(request_id)
    status = HTTPStatus(problem.status)
    fields = [
        *headers,
        (b"content-type", MEDIA_TYPE),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        (b"x-request-id", request_id.encode()),
    ]
    return b"HTTP/1.1 %d %s\r\n%s%s\r\n%s" % (status, status.phrase.encode(), lines_of(fields), lines, body)
