"""Families: what reads a configuration of a model type and says its uses.

A row of `rules.json` names its family; a type with a rotary module that names none is of the family `rope`. A family is
a function from (reading, context) to uses, registered here by name.
"""

from collections.abc import Callable, Mapping

from service.models.context import Context
from service.models.families.axial import AXIAL, axial
from service.models.known import ModelType
from service.models.plan import Use
from service.models.reading import Reading
from service.models.rope_uses import rope_uses

Family = Callable[[Reading, Context], list[Use]]

FAMILIES: Mapping[str, Family] = {
    "axial": axial,
    "rope": rope_uses,
}


def family_of(row: ModelType) -> Family | None:
    """The family of a type; None for one that only holds others, or is not known here."""
    name = row.rule.get("family")
    if name is None and row.rotary and not row.parts:
        name = "axial" if row.rotary.startswith("axial") else "rope"
    if row.name in AXIAL:
        name = "axial"
    return FAMILIES.get(name) if name else None
