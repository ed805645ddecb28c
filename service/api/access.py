"""Who may ask, joined from the settings into the gate: the host's name first, then the key, then how often."""

from starlette.types import Scope

from service.access import read_hosts, read_networks, read_origins
from service.api.clients import Clients
from service.api.cors import Cors
from service.api.docs import is_page
from service.api.gate import Check, Gate, Noted
from service.api.health import is_probe
from service.api.hosts import Hosts
from service.api.keys import Keys, refusal, refusal_in_query
from service.api.problems import Problem
from service.api.quotas import Quota
from service.settings import Settings


def gate_of(settings: Settings) -> Gate:
    """The gate that the settings ask for; one without checks where they ask for none."""
    checks: list[Check] = []
    if settings.allowed_hosts:
        checks.append(Hosts(read_hosts(settings.allowed_hosts)))
    keys, quota = settings.keys(), None
    if settings.rate_limit:
        quota = Quota(settings.rate_limit, settings.rate_burst)
    cors = Cors(read_origins(settings.cors_origins)) if settings.cors_origins else None
    if keys or quota is not None:
        clients = Clients(read_networks(settings.trusted_proxies))
        checks.append(Access(Keys(keys) if keys else None, quota, clients, cors))
    return Gate(*checks, cors=cors, keyed=bool(keys))


class Access:
    """The check of keys and quotas. A quota is a key's where it is known, and an address's where there is none.

    Probes pass; so do pages and their files without a key, for they hold nothing but what is in the package, and a
    browser that opens one has no key to send; and the question of a browser whether it may ask, for the same reason.
    """

    def __init__(self, keys: Keys | None, quota: Quota | None, clients: Clients, cors: Cors | None) -> None:
        self._keys = keys
        self._quota = quota
        self._clients = clients
        self._cors = cors

    def __call__(self, scope: Scope, noted: Noted) -> Problem | None:
        if is_probe(scope):
            return None
        given = noted.get(b"authorization")
        name = None if self._keys is None else self._keys.name_of(given)
        if self._quota is not None:
            client = f"address {self._clients.name(scope, noted)}" if name is None else f"key {name}"
            problem = self._quota.refusal(client)
            if problem is not None:
                return problem
        if self._keys is None:
            return None
        in_query = refusal_in_query(scope)
        if in_query is not None or name is not None or self._is_open(scope, noted):
            return in_query
        return refusal(given)

    def _is_open(self, scope: Scope, noted: Noted) -> bool:
        return is_page(scope) or (self._cors is not None and self._cors.is_preflight(scope, noted))
