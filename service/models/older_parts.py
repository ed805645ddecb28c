"""Parts that older files state under a second name, `text_config_dict` beside `text_config`.

Classes of the CLIP family build the part of that object alone, with the class's defaults for what it leaves out, and
lay it over the part of the usual name; other classes read nothing of it. `dicts` of `rules.json` says which do.
"""

from collections.abc import Mapping
from typing import Any

from service.models.known import ModelType, model_type
from service.models.nearest import echo
from service.models.reading import Reading

MOST_NAMED = 8


def stated_as(reading: Reading, key: str) -> str:
    """The key that a part is read from: the older name where the class takes it and the file has it."""
    older = f"{key}_dict"
    return older if key in reading.type.rule.get("dicts", ()) and reading.document.get(older) is not None else key


def of_older_names(reading: Reading) -> list[str]:
    """What deserves saying of parts by their older names: values that lose, and objects that nothing reads."""
    notes = []
    for key, part in reading.type.parts.items():
        older = f"{key}_dict"
        if reading.document.get(older) is None:
            continue
        if key not in reading.type.rule.get("dicts", ()):
            notes.append(f"{reading.at(older)} is read by nothing: {reading.type.name} reads {key}")
            continue
        lost = _lost(reading.document.get(key), reading.document[older], model_type(str(part["type"])))
        if lost:
            more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
            named = ", ".join(echo(name) for name in lost[:MOST_NAMED])
            said = "has" if len(lost) == 1 else "have"
            notes.append(
                f"{named}{more} of {key} {said} no effect: the class takes {older}, and its defaults for the rest"
            )
    return notes


def _lost(usual: Any, older: Any, row: ModelType) -> list[str]:
    """Keys of the usual object whose values are not those that the class takes."""
    if not isinstance(usual, Mapping) or not isinstance(older, Mapping):
        return []
    taken = {**row.fields, **older}
    return [key for key, value in usual.items() if key in taken and taken[key] != value]
