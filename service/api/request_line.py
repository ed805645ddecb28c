"""A request line whose method the parser does not know: HTTP all the same, or not."""

import re
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from service.api.early import not_http, uri_too_long, wrong_method
from service.api.problems import Problem
from service.settings import Settings

# As much of one as is there (RFC 9112, 3); several spaces are taken as one, as the parser does.
_LINE = re.compile(
    rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?: +(?P<target>[\x21-\x7e]*)(?: +(?P<version>[HTP/0-9.]*)(?P<end>\r?\n?))?)?"
)
_PATH = re.compile(rb"(?:https?://[^/?#]*)?(/[^?#]*)", re.IGNORECASE)
_VERSIONS = (b"HTTP/1.1", b"HTTP/1.0")


def target_and_fault(text: bytes, settings: Settings, methods: Callable[[bytes], str]) -> tuple[bytes, Problem | None]:
    r"""The target as far as it is there, and why the request is refused: nothing where that is not known yet.

    `methods` tells of a target those that it takes.

    >>> def fault(text: bytes) -> str:
    ...     target, problem = target_and_fault(text, Settings(), lambda _: "GET")
    ...     return f"{target.decode()}: {problem and problem.slug}"
    >>> fault(b"FROB /v1 HTTP/1.1\r\nHost: x"), fault(b"FROB /v"), fault(b"nonsense\r\n")
    ('/v1: method-not-allowed', '/v: None', ': bad-request')
    """
    line = text[: text.find(b"\n") + 1] or text
    found = _LINE.fullmatch(line)
    if found is None or len(line) > 2 * settings.url_bytes:
        return b"", not_http()
    target = found["target"] or b""
    if len(target) > settings.url_bytes:
        return target, uri_too_long(settings)
    if not line.endswith(b"\n"):
        return target, None
    is_http = target and found["version"] in _VERSIONS and found["end"] == b"\r\n"
    return target, wrong_method(methods(target)) if is_http else not_http()


def path_in(target: bytes) -> str:
    """The path of a target, decoded; none of one that has no path.

    >>> path_in(b"/v1%2Fa?b=c"), path_in(b"http://x/v1"), path_in(b"x:80")
    ('/v1/a', '/v1', '')
    """
    found = _PATH.match(target)
    return unquote_to_bytes(found[1]).decode("utf-8", "replace") if found else ""
