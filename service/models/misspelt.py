"""Keys of a file that nothing reads, and that look like one which decides something."""

from difflib import get_close_matches
from itertools import chain

from service.models.reading import OLDER, Reading

# Keys beside the RoPE block that decide something about positions in most classes.
WATCHED = (
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "head_dim",
    "hidden_size",
    "num_attention_heads",
    "num_hidden_layers",
    "max_position_embeddings",
    "original_max_position_embeddings",
    "sliding_window",
    "layer_types",
)
MOST_WATCHED = 512


def misspelt(reading: Reading) -> list[str]:
    """Keys that no class reads and that look like one that decides something: transformers ignores them silently."""
    known = {*reading.type.fields, *reading.type.aliases, *reading.given, *OLDER, *chain.from_iterable(OLDER.values())}
    found = []
    for key in list(reading.document)[:MOST_WATCHED]:
        if not isinstance(key, str) or key in known or key in WATCHED or len(key) > 64:
            continue
        near = get_close_matches(key, WATCHED, 1, 0.9)
        if near and near[0] not in reading.document:
            found.append(f"{reading.at(key)} is read by nothing: did you mean {near[0]}?")
    return found[:8]
