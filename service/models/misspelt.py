"""Keys of a file that nothing reads, and that look like one which decides something."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from typing import Any

from service.engine.errors import Refusal
from service.models.deciding import DECIDES, matters, of_rotation, reads
from service.models.known import ModelType, assumable, model_type
from service.models.plan import Use
from service.models.reading import OLDER, Reading
from service.models.told import Told, Watched

# Keys of RoPE at the top of a file: read past, they change every position.
OF_ROPE = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor")
# Keys beside the RoPE block that decide something about positions in most classes.
WATCHED = (
    *OF_ROPE,
    "head_dim",
    "hidden_size",
    "num_attention_heads",
    "num_hidden_layers",
    "max_position_embeddings",
    "original_max_position_embeddings",
    "sliding_window",
    "layer_types",
)
MOST_WATCHED, LONGEST, MOST_NOTES = 512, 64, 8


@lru_cache(maxsize=1)
def _of_any_type() -> frozenset[str]:
    """Keys that a known family has."""
    fields = (each for name in assumable() for each in (*model_type(name).fields, *model_type(name).aliases))
    return frozenset({*fields, *DECIDES})


def misspelt(reading: Reading) -> list[str]:
    """Keys that no class reads and that look like one that decides something: transformers ignores them silently.

    Those that look like a key of RoPE are refused where the class turns by one.
    """
    known = {*reading.type.fields, *reading.type.aliases, *reading.given, *OLDER, *chain.from_iterable(OLDER.values())}
    turns = bool(reading.type.rotary)
    found = []
    for key in list(reading.document)[:MOST_WATCHED]:
        if not isinstance(key, str) or key in known or key in WATCHED or len(key) > LONGEST:
            continue
        near = get_close_matches(_snake(key), WATCHED, 1, 0.9)
        unread = f"{reading.at(key)} is read by nothing"
        missing = bool(near) and near[0] not in reading.document
        if missing and near[0] in OF_ROPE and turns and key not in _of_any_type():
            detail = f"{key} is no key of {reading.type.name}, and would be read past; did you mean {near[0]}?"
            raise Refusal(reading.at(key), "unknown", detail)
        if missing:
            found.append(f"{unread}: did you mean {near[0]}?")
    return found[:MOST_NOTES]


def _snake(key: str) -> str:
    """The key as Python spells it: ropeTheta is rope_theta."""
    return re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def without_effect(reading: Reading, uses: Sequence[Use]) -> list[str]:
    """Keys that decide how some other model encodes positions, with a value that this class does not read; of a file
    read as another type they are refused once all of it is read."""
    document = reading.document
    if isinstance(document, Told):
        document.uses = uses
        return []
    own = [use for use in uses if use.scope == reading.where]
    # A part that is read from the same object is not the one that owns it.
    if not isinstance(document, Watched) or document.row is not reading.type or not own:
        return []
    told = " ".join(note for use in own for note in use.notes)
    unread = [(key, value) for key, value in document.items() if key not in document.seen and len(key) <= LONGEST]
    found = [key for key, value in unread if _says(reading.type, key, value, own)]
    said = [f"{reading.at(key)} is read by nothing in {reading.type.name}" for key in found if key not in told]
    return said[:MOST_NOTES]


def _says(row: ModelType, key: str, value: Any, uses: Sequence[Use]) -> bool:
    """Whether a key that the type does not have has a value that would matter to another."""
    if reads(row, key):
        return False
    if key in DECIDES:
        return matters(key, value, uses)
    return bool(row.rotary) and of_rotation(key) and value not in (None, False)
