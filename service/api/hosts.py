"""The names that requests may be for, and what a name can be at all (RFC 9110, 7.2; RFC 3986, 3.2.2).

A page elsewhere whose own name is made to lead to this machine (DNS rebinding) asks under that name.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from starlette.types import Scope

from service.api.gate import Noted
from service.api.health import is_probe
from service.api.problems import Problem, echo

_HOST = re.compile(rb"(\[[0-9A-Za-z:.~_-]+\]|([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?")


@lru_cache(maxsize=256)
def is_host(value: bytes) -> bool:
    """Whether a Host field says one host, with or without a port.

    >>> [is_host(value) for value in (b"example.org:80", b"[::1]", b"", b"a b", b"a/b", b"a@b", b"a:b")]
    [True, True, True, False, False, False, False]
    """
    return _HOST.fullmatch(value) is not None


class Hosts:
    """The check of the Host header; its port is not looked at. Probes go by addresses, and are let through."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._names = frozenset(each for each in allowed if not each.startswith("*"))
        self._endings = tuple(each[1:] for each in allowed if each.startswith("*"))

    def __call__(self, scope: Scope, noted: Noted) -> Problem | None:
        given = noted.get(b"host", b"")
        name = _name(given.decode("latin-1")) if is_host(given) else ""
        if name in self._names or (self._endings and name.endswith(self._endings)) or is_probe(scope):
            return None
        return Problem("misdirected-request", f"this server does not go by the name of {echo(name) or 'nothing'}")


def _name(host: str) -> str:
    """The name of a host, which can be an IPv6 address in brackets, without port and final dot."""
    name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")
