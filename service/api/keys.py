"""API keys: given in the Authorization header and nowhere else, known by their SHA-256 alone."""

from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import unquote_plus

from starlette.types import Scope

from service.access import Key
from service.api.problems import Problem

HOW = "send Authorization: Bearer KEY with a key that the operator of this server gave you"
# The names under which callers put keys into addresses elsewhere.
IN_QUERY = frozenset(
    ("access_token", "api-key", "api_key", "apikey", "auth", "authorization", "bearer", "key", "token", "x-api-key")
)


class Keys:
    """The keys that may ask.

    A key is long and random, so that one round of SHA-256 hides it. Every digest is compared in constant time, whether
    one matched before it or not: the time says neither how near a guess was nor whose key it is.
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = keys

    def name_of(self, authorization: bytes | None) -> str | None:
        """Whose key a header has; None where it has none that is known. Two headers, joined, have none."""
        scheme, _, key = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        digest, name = sha256(key.strip(b" \t")).digest(), None
        for each, known in self._keys:
            if compare_digest(digest, known):
                name = each
        return name


def refusal(authorization: bytes | None) -> Problem:
    """401: a key is missing, or is none that is known; what was sent is not repeated."""
    if authorization is None:
        told, challenge = "an API key is missing", 'Bearer realm="posenc"'
    else:
        told, challenge = "the API key is not known here", 'Bearer realm="posenc", error="invalid_token"'
    return Problem("unauthorized", f"{told}: {HOW}", headers={"WWW-Authenticate": challenge})


def refusal_in_query(scope: Scope) -> Problem | None:
    """400 to an address with a key in it, whichever it is: addresses are logged on every way that they take."""
    names = {unquote_plus(part.partition(b"=")[0].decode("latin-1")).lower() for part in _parts(scope)}
    if IN_QUERY.isdisjoint(names):
        return None
    told = "a key in an address is not read, and whoever logged the address has it now: have it replaced, and then "
    return Problem("bad-request", told + HOW)


def _parts(scope: Scope) -> list[bytes]:
    query: bytes = scope.get("query_string", b"")
    return query.split(b"&") if query else []
