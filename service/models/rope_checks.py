"""What a RoPE block says that its class does not do: refused where it contradicts itself, else told.

Types of layer that are misspelt, two types at once, a type of null, keys of other types, what transformers fails on.
"""

from collections.abc import Mapping, Sequence

from service.engine.errors import Refusal
from service.engine.rotation.rope_block import KEYS, SPELLINGS
from service.engine.rotation.scaling import TAKES
from service.models.layers import KNOWN as LABELS
from service.models.layers import RENAMED
from service.models.nearest import echo, nearest
from service.models.plan import Value
from service.models.reading import Reading, name_of, pointer
from service.models.told import Told

WORDS = ("rope_type", "type")
SCALED_FOR = ("llama3", "yarn", "longrope")
# Keys that scale, by any type; the amplitudes of PhiMoE have a note of their own.
SCALING = {name for names in TAKES.values() for name in names} & {*KEYS} - {"short_mscale", "long_mscale"}


def no_object(where: str, labels: Sequence[str]) -> str:
    """Why an object does not belong into a block."""
    if labels:
        return f"the model has no such type of layer; its types of layer are {', '.join(labels)}"
    if where == "the RoPE block":
        return "the model has no such type of layer: all its layers are of one type"
    return f"{where} has none within"


def refuse_labels(raw: Mapping[str, Value], labels: Sequence[str], where: str) -> None:
    """Refuses an object for a type of layer that no model has: a label that is misspelt."""
    known = tuple(dict.fromkeys([*labels, *LABELS, *RENAMED]))
    for key, value in raw.items():
        if isinstance(value.value, dict) and key not in known:
            near = nearest(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(labels)}"
            raise Refusal(value.key, "unknown", f"{echo(key)} is no type of layer of {where}{hint}")


def refuse_two_types(reading: Reading, given: Value, older: Value | None) -> None:
    """Refuses a block whose `type` is another than its `rope_type`, by any of their spellings."""
    if older is None:
        return
    rewrites = reading.type.rule.get("rewrites", {})
    first, second = (
        rewrites.get(name) or SPELLINGS.get(name, {"rope_type": name})["rope_type"]
        for name in (str(given.value), str(older.value))
    )
    if first != second:
        detail = (
            f"rope_type is {echo(given.value)} and type is {echo(older.value)}: they are two names of one thing; "
            "leave one of them out"
        )
        raise Refusal(older.key, "conflict", detail)


def unused(block: Mapping[str, Value], kind_of: Value) -> list[str]:
    """Keys of other types of RoPE than the block's own."""
    taken = TAKES.get(str(kind_of.value), ())
    unused = [value.key for key, value in block.items() if value.source == "config" and key in SCALING - {*taken}]
    if not unused:
        return []
    why = f"the rope type is {echo(kind_of.value)}"
    if "rope_type" not in block and "type" not in block:
        why = f"the block names no rope_type, and the class takes {echo(kind_of.value)}"
    return [f"{', '.join(unused)} {'has' if len(unused) == 1 else 'have'} no effect: {why}"]


def failing(reading: Reading, block: Mapping[str, Value], kind_of: Value) -> list[str]:
    """Phi 3: `su` is renamed after the trained length was looked for, which only the block itself then states."""
    said = block.get("rope_type") or block.get("type")
    named = said is not None and said.value == "su" and kind_of.value == "longrope"
    if not named or reading.vllm is not None or "original_max_position_embeddings" in block:
        return []
    return [
        "transformers fails on su without original_max_position_embeddings in the block; the plan is what longrope "
        "makes of the file"
    ]


def refuse_null_type(reading: Reading, key: str) -> None:
    """Refuses a block whose type is null though it scales: transformers fails on it."""
    given = reading.document.get(key)
    if not isinstance(given, dict):
        return
    for name in WORDS:
        scales = [each for each in SCALING if given.get(each) is not None]
        if name in given and given[name] is None and scales and not any(given.get(each) for each in WORDS):
            detail = f"{name} is null beside {', '.join(sorted(scales))}: say which type it is; default does not scale"
            raise Refusal(pointer(reading.at(key), name), "type", detail)


def refuse_of_another(reading: Reading, share: Value) -> None:
    """Refuses a share of the head that the class does not read, in a file that is only assumed to be of its type."""
    if isinstance(reading.document, Told):
        detail = f"{name_of(share)} is {echo(share.value)}, and {reading.type.name} does not read it"
        raise Refusal(share.key, "conflict", f"{detail}; leave it out if it has no effect")


def other_share(reading: Reading) -> list[str]:
    """`partial_rotary_factor` of a class that calls it otherwise: refused beside that name, and read by nothing."""
    key, other = reading.type.rule.get("partial_key"), reading.document.get("partial_rotary_factor")
    if other is None and reading.has("partial_rotary_factor") and reading.type.rule.get("null_share_fails"):
        return ["transformers fails on partial_rotary_factor null"]
    if key is None or other is None:
        return []
    stated, place = reading.document.get(key), reading.at("partial_rotary_factor")
    if stated is not None and stated != other:
        detail = f"{key} is {echo(stated)} and partial_rotary_factor {echo(other)}: they are two names of one thing"
        raise Refusal(place, "conflict", f"{detail}; {reading.type.name} reads {key}")
    if stated is None and other != 1:
        refuse_of_another(reading, Value(other, "config", place))
    return [] if stated is not None else [f"{place} is read by nothing: {reading.type.name} reads {key}"]


def without_old_type(
    scaling: dict[str, Value], inner: Mapping[str, Value], notes: list[str], where: str = "rope_scaling"
) -> dict[str, Value]:
    """The class has set `rope_type` before it reads the block: the older `type` comes too late."""
    if "type" in scaling and "rope_type" not in scaling:
        lost = sorted(key for key in scaling if key in SCALING) if "rope_type" not in inner else []
        more = f": {', '.join(lost)} {'has' if len(lost) == 1 else 'have'} no effect" if lost else ""
        notes.append(f"{where} has type and not rope_type: the class drops it, and does not scale{more}")
        return {key: value for key, value in scaling.items() if key != "type" and key not in lost} | (
            {"rope_type": inner["rope_type"]} if "rope_type" in inner else {}
        )
    return scaling


def null_base(reading: Reading, block: Mapping[str, Value], key: str | None = "rope_theta") -> list[str]:
    """A base of null, in the block or outside it under `key`: no class of transformers can compute with it."""
    if reading.vllm is not None or reading.preset == "llama.cpp" or not of_transformers(reading):
        return []
    stated = block.get("rope_theta")
    if stated is not None:
        place = stated.key if stated.value is None else None
    else:
        beside = key is not None and key in reading.document and reading.document[key] is None
        place = reading.at(str(key)) if beside else None
    return [] if place is None else [f"{place} is null: transformers fails on it; the plan is as if it were left out"]


def of_transformers(reading: Reading) -> bool:
    """Whether the code of the type is in transformers, and not in a repository's own."""
    return not reading.type.rule.get("remote")


def refuse_without_length(reading: Reading, block: Mapping[str, Value], where: str, name: str) -> None:
    """Refuses a block without the trained length, where the class does not fill it in before transformers checks."""
    named, key = block.get("rope_type") or block.get("type"), "original_max_position_embeddings"
    if named is None or named.value not in SCALED_FOR or key in block or reading.vllm is not None:
        return
    detail = f"{key} is missing in {name}: {reading.type.name} does not fill it in, and transformers fails without it"
    raise Refusal(pointer(where, key), "missing", detail)
