"""A file whose sizes are all in an object that its type does not read: the class's own would pass for the file's."""

import re
from collections.abc import Mapping

from service.engine.errors import Refusal
from service.models.nearest import echo
from service.models.older_parts import stated_as
from service.models.reading import OLDER, Reading

SIZES = ("hidden_size", "num_attention_heads", "num_hidden_layers")
OF_ROPE = ("rope_theta", "rope_scaling", "rope_parameters")
# Towers and what they are trained with say nothing of a text model.
OTHERS = re.compile(r"vision|visual|image|audio|speech|quant|generation|draft|projector")
MOST = 512


def refuse_sizes_elsewhere(reading: Reading) -> None:
    """Refuses an object without sizes of its own beside one that has some and is no part of its type."""
    row = reading.type
    parts = {*row.parts, *(stated_as(reading, key) for key in row.parts)}
    if any(reading.says(key) for key in (*SIZES, *OF_ROPE)) or any(reading.document.get(key) for key in parts):
        return
    for key, part in list(reading.document.items())[:MOST]:
        known = key in parts or key in row.fields or key in OF_ROPE or f"{key}".removesuffix("_dict") in parts
        if known or not isinstance(part, Mapping) or OTHERS.search(f"{key}"):
            continue
        found = [name for name in (*SIZES, *OF_ROPE) if any(each in part for each in (name, *OLDER.get(name, ())))]
        if any(name in found for name in SIZES):
            detail = (
                f"{row.name} does not read {echo(key)}, which has {', '.join(found)}, and the file states none of them "
                f"beside it: send that object alone"
            )
            raise Refusal(reading.at(key), "conflict", detail)
