"""Values that a hand-kept row takes from the file: numbers of the right kind, and words that the code knows."""

import re
from collections.abc import Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.nearest import echo
from service.models.plan import Value
from service.models.reading import Reading, numeric, whole
from service.models.sizes import numbers

# Numbers that need not be whole: bases of sinusoids by any name.
BASES = re.compile(r"(temperature|timescale|base)$")


def number_of(reading: Reading, key: str, default: Any) -> Value:
    """A number, or a list of as many as the default has; null is what the code holds."""
    found = reading.find(key)
    if found is None or found.value is None:
        return Value(default, "class default", reading.at(key))
    if isinstance(default, list):
        place, listed = numbers(reading, key)
        if len(listed) != len(default):
            raise Refusal(place, "shape", f"{key} has {len(listed)} entries; {len(default)} are needed")
        return Value(list(listed), found.source, place)
    return numeric(found) if BASES.search(key) else whole(found, 1)


WORD = "position_embeddings_type"


def odd_word(reading: Reading, group: Mapping[str, Any]) -> list[str]:
    """A type of relative positions that the class has no code for, and takes without a word."""
    wanted = [row["when"][WORD] for row in group.get("uses", ()) if WORD in row.get("when", {})]
    known = {word for each in wanted for word in (each if isinstance(each, list) else [each])}
    found = reading.document.get(WORD)
    if not known or found is None or found in known:
        return []
    named = ", ".join(sorted(known))
    return [f"{reading.at(WORD)} is {echo(found)}, which no code reads: attention has no positions; known are {named}"]
