"""Who a client is, as far as its address says: the peer's, or what a trusted proxy says that its own peer's was."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.types import Scope

from service.access import Network
from service.api.gate import Noted

# Whoever has one address of IPv6 has as many as they like, of one network of this size at least.
ONE_CLIENTS_PREFIX = 64
FORWARDED_FOR = b"x-forwarded-for"


class Clients:
    """Tells clients apart. X-Forwarded-For is read from its end, and only as far as trusted proxies wrote it."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = trusted

    def name(self, scope: Scope, noted: Noted) -> str:
        """The same for all requests of one client; the address alone of IPv4, the network of IPv6."""
        return _network(self._place(scope, noted.get(FORWARDED_FOR, b"")))

    def address(self, scope: Scope) -> str | None:
        """The whole address by which that name goes, for the log; the header is looked through here, for few requests
        have a line."""
        said = b",".join(value for name, value in scope["headers"] if name == FORWARDED_FOR) if self._trusted else b""
        place = self._place(scope, said)
        return str(_read(place) or place) or None

    def _place(self, scope: Scope, forwarded_for: bytes) -> str:
        peer = scope.get("client")
        place: str = peer[0] if peer else ""
        if not self._trusted:
            return place
        hops = forwarded_for.decode("latin-1").split(",")
        while hops and self._is_trusted(place):
            said = _without_port(hops.pop().strip()[:64])
            if _read(said) is None:
                break
            place = said
        return place

    def _is_trusted(self, place: str) -> bool:
        address = _read(place)
        return address is not None and any(address in network for network in self._trusted)


def _without_port(hop: str) -> str:
    """Some proxies write the port too: `192.0.2.1:5000`, `[2001:db8::1]:5000`."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


@lru_cache(1024)
def _read(place: str) -> IPv4Address | IPv6Address | None:
    """The address; one of IPv4 also where it came through a socket of IPv6."""
    try:
        address = ip_address(place)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


@lru_cache(1024)
def _network(place: str) -> str:
    address = _read(place)
    if not isinstance(address, IPv6Address):
        return place if address is None else str(address)
    shift = address.max_prefixlen - ONE_CLIENTS_PREFIX
    return str(IPv6Address(int(address) >> shift << shift))
