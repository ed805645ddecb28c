"""Content codings: gzip, for text that is large enough to gain by it, where the client takes it (RFC 9110, 12.5.3).

Digits shrink to less than half; the bytes of binary tables by a tenth, which does not pay. Level 1 is three times as
fast as level 6 and its result a sixth larger.
"""

import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal

Coding = Literal["identity", "gzip"]

LEVEL = 1
# Text that may have fewer bytes than this is sent as it is.
PAYS_BYTES = 8192
# Deflate in a gzip wrapper: no time and no name in its header, so equal bytes give equal bytes.
_GZIP = 16 + zlib.MAX_WBITS
# The coded bytes are the library's.
REVISION = f"gzip{LEVEL}-{zlib.ZLIB_RUNTIME_VERSION}"
_SHORT = 256


def accepted(header: bytes | None) -> Coding:
    """What an Accept-Encoding asks for: gzip where it is taken and identity is not preferred.

    >>> accepted(b"gzip, deflate, br"), accepted(b"gzip;q=0"), accepted(b"gzip;q=0.5, identity"), accepted(b"*")
    ('gzip', 'identity', 'identity', 'gzip')
    """
    if header is None:
        return "identity"
    return _known(header) if len(header) <= _SHORT else _read(header)


def _read(header: bytes) -> Coding:
    weights: dict[str, float] = {}
    for part in header.decode("latin-1").lower().split(","):
        name, _, options = part.partition(";")
        weights[name.strip()] = _weight(options)
    # An asterisk stands for what is not named (RFC 9110, 12.5.3).
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return "gzip" if gzip > 0 and gzip >= weights.get("identity", 0.0) else "identity"


_known = lru_cache(256)(_read)


def _weight(options: str) -> float:
    """The q of a coding; what is no number between 0 and 1 counts as not taken."""
    name, equals, value = options.partition("=")
    if not equals or name.strip() != "q":
        return 0.0 if options.strip() else 1.0
    try:
        weight = float(value)
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0


def gzipped(chunks: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The same in gzip, block by block. Runs on the work pool; zlib lets go of the interpreter."""
    coder = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    for chunk in chunks:
        # An empty one lets go of the thread, and is passed on for that.
        yield coder.compress(chunk)
    yield coder.flush()
