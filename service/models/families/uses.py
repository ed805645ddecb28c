"""How a family says what it uses: a scheme's own tables, a trained table, nothing, or an address more."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from service.models.addresses import ask
from service.models.plan import Address, Use, Value
from service.models.reading import Reading


def code(reading: Reading, value: Any) -> Value:
    """What the model's code holds, whatever the configuration says."""
    return Value(value, "class default", reading.where or "/")


def use_of(
    reading: Reading,
    scheme: str,
    role: str,
    parameters: Mapping[str, Value],
    facts: Mapping[str, Any],
    notes: Sequence[str] = (),
    encoding: str = "",
    **more: str,
) -> Use:
    """A use whose tables are the scheme's own answer."""
    family, name = scheme.split("/")
    return Use(
        role=role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding=encoding or name,
        scheme=(family, name),
        parameters=parameters,
        facts=facts,
        notes=tuple(notes),
        addresses={"tables": ask(family, name, parameters, **more).address()},
    )


def learned(reading: Reading, role: str, table: Sequence[int], notes: Sequence[str], key: str) -> Use:
    """A trained table that is added as it is."""
    rows, dim = math.prod(table[:-1]), table[-1]
    rule = {"offset_rule": code(reading, "none")}
    return Use(
        role=role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding="learned",
        scheme=("learned", "lookup"),
        parameters={"rows": Value(rows, "rewritten", key), "dim": Value(dim, "rewritten", key), **rule},
        facts={"table": list(table), "first_row": 0},
        notes=tuple(notes),
        addresses={"lookup": ask("learned", "lookup", rule, length=str(rows)).address()},
    )


def none(reading: Reading, why: str, role: str = "token-embeddings") -> Use:
    return Use(role=role, scope=reading.where, model_type=reading.type.name, encoding="none", notes=(why,))


def also(use: Use, **addresses: Address) -> Use:
    return replace(use, addresses={**use.addresses, **addresses})
