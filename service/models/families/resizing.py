"""What vision models do with a trained table where the picture is not of the size that the table is for.

`resizing.json` says by type how rows are resized, and how many in front (class tokens) stay as they are. The address is
that of a picture twice as high and wide; others by `grid=`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from math import isqrt
from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.families.uses import code
from service.models.nearest import echo
from service.models.plan import Use, Value
from service.models.reading import Reading
from service.models.sizes import grid

NOTE = "resample is for a picture of twice the height and width: POST the trained table as x, other sizes by grid="


@lru_cache(maxsize=1)
def _rules() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((files("service.models.facts") / "resizing.json").read_text("utf-8"))
    return content


@lru_cache(maxsize=512)
def _kind_of(name: str) -> str | None:
    return next((kind for kind, types in _rules()["types"].items() if name in types), None)


# Keys that say how many patches a table is for, or how many along one axis.
ROWS_OF_PATCHES = ("num_position_embeddings", "num_patches", "pos_emb_height")
SIDES = ("posemb_grid_size",)


def patches(shape: Sequence[Any]) -> tuple[int, Sequence[str]] | None:
    """(rows that are no patches, the keys of the picture and of a patch) of a table's sizes as the facts state them;
    None where its rows are no patches of a picture."""
    for each in shape:
        if isinstance(each, Mapping):
            if "grid" in each:
                return int(each.get("plus", 0)), tuple(each["grid"])
            places = each.get("key") in ROWS_OF_PATCHES or each.get("square") in SIDES
            if ("side" in each and "times" not in each) or places:
                return 0, ()
    return None


def resized(reading: Reading, use: Use, prefix: int, keys: Sequence[str]) -> Use:
    """The use of a table of patches with the address that resizes it, or with what the class does instead."""
    kind = _kind_of(reading.type.name)
    if kind is None:
        return replace(use, notes=(*use.notes, *_said(reading.type.name)))
    rule: Mapping[str, Any] = _rules()["of a picture of another size"][kind]
    parameters = {name: _parameter(reading, prefix if name == "prefix" else value) for name, value in rule.items()}
    besides = [_rules()["besides"][kind]] if kind in _rules()["besides"] else []
    rows, columns = grid(reading, *keys)[1] if keys else _grid(use, prefix)
    sizes = {"grid": f"{2 * rows},{2 * columns}", "old_grid": f"{rows},{columns}"}
    address = ask("learned", "resample", parameters, **sizes).address()
    return replace(use, notes=(*use.notes, NOTE, *besides), addresses={**use.addresses, "resample": address})


def _parameter(reading: Reading, spec: Any) -> Value:
    """What the class's code holds, or a word of the file."""
    if not isinstance(spec, Mapping):
        return code(reading, spec)
    found = reading.text(spec["value"]) or code(reading, spec["else"])
    if found.value not in spec["words"]:
        detail = f"{spec['value']} is {echo(found.value)}; {' or '.join(spec['words'])} can be computed"
        raise Refusal(found.key, "unsupported", detail)
    return found


def _said(name: str) -> tuple[str, ...]:
    """What a class does that no address of this service answers; nothing where its code was not read for that."""
    rules = _rules()
    if name in rules["none"]:
        return (rules["said of none"],)
    how = rules["otherwise"].get(name)
    return (rules["said"][how],) if how else ()


def _grid(use: Use, prefix: int) -> tuple[int, int]:
    """Rows and columns of patches: a table of one axis is square."""
    axes = [int(each) for each in use.facts["table"][:-1] if each != 1]
    if len(axes) == 2:
        return axes[0], axes[1]
    side = isqrt(max(1, axes[0] - prefix)) if axes else 1
    return side, side
