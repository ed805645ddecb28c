"""Addresses of this service, made from parameters whose origin is known, and tried before they are handed out.

What the engine refuses is refused here, with the JSON Pointer of the key that the parameter came from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError

from service.engine import by_key
from service.engine.errors import Refusal
from service.engine.scheme import Facts, Params, Scheme
from service.models.nearest import echo
from service.models.plan import Address, Value

Parameters = Mapping[str, Value]

# Addresses are read up to 8192 bytes; long lists make a POST.
LONGEST_QUERY = 4096
IN_BLOCK = ("short_factor", "long_factor", "divisors", "frequencies")


def text(value: Any) -> str:
    """A parameter as an address has it.

    >>> text(True), text(1e6), text([1.5, 2])
    ('true', '1000000.0', '1.5,2')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(text(each) for each in value)
    return repr(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Asked:
    """A scheme with parameters: checked when it is made."""

    scheme: Scheme[Any, Any]
    parameters: Parameters
    more: Mapping[str, str]
    params: Params

    def facts(self) -> Facts:
        return self.scheme.facts(self.params, {})

    def notes(self) -> list[str]:
        return self.scheme.notes(self.params, {})

    def address(self) -> Address:
        """GET, or POST with the long lists in the body."""
        path = f"/v1/{self.scheme.family}/{self.scheme.name}"
        query = {name: text(value.value) for name, value in self.parameters.items()} | dict(self.more)
        query["revision"] = str(self.scheme.revision)
        method, body = _method(self.scheme), None
        if sum(map(len, query.values())) > LONGEST_QUERY and self.scheme.pasted is not None:
            lists = {name: list(self.parameters[name].value) for name in IN_BLOCK if name in self.parameters}
            body = {"rope_parameters": {"rope_type": query.pop("rope_type"), **lists}}
            query = {name: value for name, value in query.items() if name not in lists}
            method = "POST"
        return Address(f"{path}?{urlencode(query, safe=',')}", method, body)


def _method(scheme: Scheme[Any, Any]) -> Any:
    return "POST" if scheme.needs_body else "GET"


def ask(family: str, name: str, parameters: Parameters, **more: str) -> Asked:
    """The scheme with these parameters; refuses what it cannot compute by the keys that the parameters came from."""
    scheme = by_key(family, name)
    given = {each: value.value for each, value in parameters.items()} | more
    # Lists are given as an address gives them, whose reader knows one spelling.
    query = {each: text(value) for each, value in given.items()}
    try:
        params = scheme.params.model_validate(query)
        if not scheme.needs_body:
            scheme.tensors(params, {})
            params = scheme.resolve(params, {})
    except ValidationError as error:
        raise _from_validation(error, parameters) from None
    except Refusal as error:
        raise _placed(error, parameters) from None
    return Asked(scheme, parameters, more, params)


def _from_validation(error: ValidationError, parameters: Parameters) -> Refusal:
    entry = error.errors(include_url=False)[0]
    name = str(entry["loc"][0]) if entry["loc"] else ""
    value = parameters.get(name)
    key = "" if value is None else value.key
    said = key.rpartition("/")[2] or name
    given = echo(entry["input"] if value is None else value.value)
    message = entry["msg"].replace("Input should be", "it must be")
    context = entry.get("ctx") or {}
    limit = next((context[bound] for bound in ("ge", "gt", "le", "lt") if bound in context), None)
    return Refusal(key or f"/{name}", "out_of_range", f"{said} is {given}; {message}", limit=limit)


def _placed(error: Refusal, parameters: Parameters) -> Refusal:
    """The same refusal with the pointer of the key in place of our name."""
    (fault,) = error.faults
    value = parameters.get(fault.parameter)
    place = fault.parameter if fault.parameter.startswith("/") else f"/{fault.parameter}"
    return Refusal(
        place if value is None else value.key,
        fault.code,
        fault.detail,
        limit=fault.limit,
        requested=fault.requested,
    )
