"""Nulls that the configuration class of transformers fails on, where the plan reads on with what the class assumes."""

from collections.abc import Iterator, Mapping
from typing import Any

from service.models.heads import of_three_widths
from service.models.known import ModelType, known, model_type, rules
from service.models.nearest import echo
from service.models.reading import pointer

BLOCKS = ("rope_parameters", "rope_scaling")
# Keys of a RoPE block that a module computes with, whatever the type.
COMPUTED = ("rope_theta", "partial_rotary_factor", "rope_type")
TRAINED = "original_max_position_embeddings"
# Which bases stand beside the block, by how a class reads it.
BASES: Mapping[str, tuple[str, ...]] = {"plain": ("rope_theta",), "two-bases": ("rope_theta", "rope_local_base_freq")}
MOST_DEPTH, MOST_NAMED = 4, 8


def failing_nulls(config: Mapping[str, Any], name: str) -> list[str]:
    """A note that names them, where there are any.

    >>> failing_nulls({"model_type": "llama", "hidden_size": None, "head_dim": None}, "llama")
    ['transformers fails on null at /hidden_size: the plan has what the class assumes there']
    """
    found = list(_of_object(config, name, "", 0))
    if not found:
        return []
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    named = ", ".join(found[:MOST_NAMED])
    return [f"transformers fails on null at {named}{more}: the plan has what the class assumes there"]


def _of_object(config: Mapping[str, Any], name: str, where: str, depth: int) -> Iterator[str]:
    row = model_type(name)
    for key, value in config.items():
        if value is None and _strict(config, name, str(key)):
            yield echo(pointer(where, str(key)))
        elif key in BLOCKS and isinstance(value, Mapping) and row.rotary:
            yield from _of_block(config, value, name, pointer(where, str(key)))
        elif isinstance(value, Mapping) and depth < MOST_DEPTH:
            part = _type_of(row, str(key), value)
            if part is not None:
                yield from _of_object(value, part, pointer(where, str(key)), depth + 1)


def _type_of(row: ModelType, key: str, part: Mapping[str, Any]) -> str | None:
    """The type of a configuration within: the one it names, else the one that the class gives it there."""
    named = part.get("model_type")
    if named is not None:
        return str(named) if known(str(named)) else None
    own = row.parts.get(key)
    return None if own is None else str(row.rule.get("retype", {}).get(own["type"], own["type"]))


def _strict(config: Mapping[str, Any], name: str, key: str) -> bool:
    """Whether the class takes no null for a key of the file, or its model computes with it."""
    row = model_type(name)
    real = row.aliases.get(key, key)
    if key == "sliding_window" and name in rules()["masks of both kinds"]:
        return True  # its model makes a mask for layers that slide, whether there are any or not
    if key == "head_dim" and of_three_widths(row):
        return True  # every class holds it against the other two
    default = row.fields.get(real)
    if default is not None:
        return real not in row.nullable and not isinstance(default, list)
    if key in (row.rule.get("theta_key"), row.rule.get("partial_key")):
        return True
    if key not in BASES.get(row.rule.get("block", "plain"), ()) or not row.rotary:
        return False
    blocks = [config[each] for each in BLOCKS if isinstance(config.get(each), Mapping)]
    return not any(_has_bases(block) for block in blocks)


def _has_bases(block: Mapping[str, Any]) -> bool:
    """Whether a block states its bases itself."""
    inner = [each for each in block.values() if isinstance(each, Mapping)]
    return bool(inner) or block.get("rope_theta") is not None


def _of_block(config: Mapping[str, Any], block: Mapping[str, Any], name: str, where: str) -> Iterator[str]:
    row = model_type(name)
    partial = row.rotary.startswith("partial")
    kind = block.get("rope_type", block.get("type"))
    for key, value in block.items():
        if isinstance(value, Mapping):
            yield from _of_block(config, value, name, pointer(where, str(key)))
            continue
        if value is not None or (key not in COMPUTED and key != TRAINED):
            continue
        scaled = kind not in (None, "default")
        if key == TRAINED and (TRAINED in row.fields or kind not in ("yarn", "llama3", "longrope")):
            continue
        if key == "partial_rotary_factor" and not (partial or scaled):
            continue
        yield echo(pointer(where, str(key)))
