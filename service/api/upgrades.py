"""Requests that wish for another protocol, and are answered in this one (RFC 9110, 7.8)."""

from collections.abc import Iterable

UPGRADE_FIELDS = (b"upgrade", b"http2-settings")

Field = tuple[bytes, bytes]


def written_plain(method: bytes, target: bytes, version: bytes, fields: Iterable[Field]) -> bytes:
    r"""The header of a request as it would be without that wish.

    >>> written_plain(b"GET", b"/", b"1.1", [(b"host", b"x"), (b"connection", b"upgrade"), (b"upgrade", b"h2c")])
    b'GET / HTTP/1.1\r\nhost: x\r\n\r\n'
    """
    lines = [method + b" " + target + b" HTTP/" + version]
    lines += [name + b": " + value for name, value in map(_without_wish, fields) if value is not None]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _without_wish(field: Field) -> tuple[bytes, bytes | None]:
    """A field without it; without a value it is to be left out."""
    name, value = field
    if name in UPGRADE_FIELDS:
        return name, None
    if name != b"connection":
        return field
    options = [each for each in value.split(b",") if each.strip(b" \t").lower() not in UPGRADE_FIELDS]
    return name, b",".join(options) or None
