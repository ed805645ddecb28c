"""Keys of a file that nothing reads, and that look like one which decides something."""

import json
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain

from service.engine.errors import Refusal
from service.models.known import assumable, model_type
from service.models.reading import OLDER, Reading
from service.models.told import DECIDES, Told

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
# Keys that some code really has, beside those of the tables.
ELSEWHERE = ("partial_rotary_factors", "swa_rope_theta", "rope_interleave", "rope_interleaved")


@lru_cache(maxsize=1)
def _of_any_type() -> frozenset[str]:
    """Keys that a known family has."""
    fields = (each for name in assumable() for each in (*model_type(name).fields, *model_type(name).aliases))
    return frozenset({*fields, *DECIDES, *ELSEWHERE})


@lru_cache(maxsize=1024)
def _of_rule(name: str) -> frozenset[str]:
    """Every word of the type's rules, among which are the keys that it reads under names of its own."""
    text = json.dumps([model_type(name).rule, *ELSEWHERE])
    return frozenset(text.replace('"', " ").replace(",", " ").split())


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
        near = get_close_matches(key, WATCHED, 1, 0.9)
        unread = f"{reading.at(key)} is read by nothing"
        missing = bool(near) and near[0] not in reading.document
        if missing and near[0] in OF_ROPE and turns and key not in _of_any_type():
            detail = f"{key} is no key of {reading.type.name}, and would be read past; did you mean {near[0]}?"
            raise Refusal(reading.at(key), "unknown", detail)
        if missing:
            found.append(f"{unread}: did you mean {near[0]}?")
        elif turns and key.startswith(("rope_", "rotary_")) and _says(reading, key):
            found.append(f"{unread} in {reading.type.name}")
    return found[:MOST_NOTES]


def _says(reading: Reading, key: str) -> bool:
    """Whether a key of RoPE has a value that would matter, and none of the type's rules reads it; of a file read as
    another type a note of all such keys is there already."""
    known = key in _of_rule(reading.type.name) or isinstance(reading.document, Told)
    return not known and reading.document[key] not in (None, False)
