"""The names that requests may be for.

A page elsewhere whose own name is made to lead to this machine (DNS rebinding) asks under that name.
"""

from collections.abc import Sequence

from starlette.types import Scope

from service.api.gate import Noted
from service.api.health import is_probe
from service.api.problems import Problem, echo


class Hosts:
    """The check of the Host header; its port is not looked at. Probes go by addresses, and are let through."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._names = frozenset(each for each in allowed if not each.startswith("*"))
        self._endings = tuple(each[1:] for each in allowed if each.startswith("*"))

    def __call__(self, scope: Scope, noted: Noted) -> Problem | None:
        name = _name(noted.get(b"host", b"").decode("latin-1"))
        if name in self._names or (self._endings and name.endswith(self._endings)) or is_probe(scope):
            return None
        return Problem("misdirected-request", f"this server does not go by the name of {echo(name) or 'nothing'}")


def _name(host: str) -> str:
    """The name of a host, which can be an IPv6 address in brackets, without port and final dot."""
    name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")
