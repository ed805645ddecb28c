"""RoPE blocks with an object for each type of layer, and what reaches these objects from the top of the file.

Classes that convert old files hand `rope_theta` and `partial_rotary_factor` down to every object that lacks them
(`hands_down` of `rules.json`). Others hand nothing down, but computing scaled frequencies does: to every object, from
the first one that scales on, in the order of their names.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import or_

from service.engine.errors import Refusal
from service.models.layers import WITHOUT_ATTENTION, layer_types
from service.models.nearest import echo
from service.models.plan import Value
from service.models.reading import Reading, kind, numeric, pointer
from service.models.rope_checks import WORDS, null_base, refuse_labels, refuse_without_length, without_old_type
from service.models.rope_keys import Block, Found, Keys, class_block, completed, flat, located, object_at

HANDED = ("rope_theta", "partial_rotary_factor")
MOST_NAMED = 8


def by_label(reading: Reading, labels: Sequence[str]) -> Found:
    """An object for each label: a flat block is nothing that these classes read."""
    notes: list[str] = []
    raw = _raw(reading, labels, notes)
    unturned = (*WITHOUT_ATTENTION, *reading.type.rule.get("unturned", ()))
    wanted = sorted(label for label in set(labels) if label not in unturned)
    for label in wanted:
        if label not in raw and reading.type.rule.get("makes_labels"):
            raw[label] = Value({}, "class default", pointer(reading.at("rope_parameters"), label))
        elif label not in raw:
            detail = f"rope_parameters has no {label}: the class needs one object for each type of layer"
            raise Refusal(pointer(reading.at("rope_parameters"), label), "missing", detail)
    reached = _reached(reading, raw, wanted)
    top = from_top(reading, HANDED[1:] if reading.type.rule.get("theta_by_layer") else HANDED)
    found: dict[str | None, Block | None] = {}
    for label, handed in zip(wanted, reached, strict=True):
        found[label] = of_label(reading, raw, label, {key: top[key] for key in top if key in handed}, notes)
    return Found(found, [*notes, *_without_effect(raw, wanted, top, reached)])


def _raw(reading: Reading, labels: Sequence[str], notes: list[str]) -> Keys:
    """The objects: `rope_scaling` is the older name of the whole, and is set last."""
    parameters, scaling = object_at(reading, "rope_parameters"), object_at(reading, "rope_scaling")
    for given, where in ((parameters, "rope_parameters"), (scaling, "rope_scaling")):
        refuse_labels(given or {}, labels, where)
    makes = reading.type.rule.get("makes_labels")
    if scaling is not None and (makes or not any(label in scaling for label in labels)):
        alone = "in rope_parameters alone" if makes else f"for each type of layer: {', '.join(labels)}"
        raise Refusal(reading.at("rope_scaling"), "conflict", f"{reading.type.name} reads objects {alone}")
    beside = [value.key for key, value in (scaling or parameters or {}).items() if key not in labels]
    if beside and makes:
        detail = f"{reading.type.name} takes objects for its types of layer and nothing else: {', '.join(labels)}"
        raise Refusal(beside[0], "conflict", detail)
    notes += _beside(beside)
    if scaling is not None and parameters is not None and scaling.items() != parameters.items():
        notes.append("rope_scaling and rope_parameters are both there: transformers takes rope_scaling")
    listed = _listed(reading) if reading.type.rule.get("theta_by_layer") and not (scaling or parameters) else None
    return scaling or parameters or listed or class_block(reading) or {}


def _beside(keys: Sequence[str]) -> list[str]:
    """A note of the keys beside the objects."""
    if not keys:
        return []
    more = f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
    named = ", ".join(echo(key) for key in keys[:MOST_NAMED])
    return [f"{named}{more} beside the types of layer {'has' if len(keys) == 1 else 'have'} no effect"]


def _listed(reading: Reading) -> Keys | None:
    """UltraBERT: a base for each layer, of which the last one of a type counts."""
    bases = reading.document.get("rope_theta")
    if bases is None:
        return None
    where, kinds = reading.at("rope_theta"), layer_types(reading) or []
    if not isinstance(bases, list):
        detail = f"rope_theta is {kind(bases)}; {reading.type.name} needs a list with a base for each layer"
        raise Refusal(where, "type", detail)
    if len(bases) != len(kinds):
        detail = f"rope_theta has {len(bases)} entries for {len(kinds)} layers: one for each is needed"
        raise Refusal(where, "shape", detail, limit=len(kinds), requested=len(bases))
    numbers = [numeric(Value(each, "config", f"{where}/{place}")).value for place, each in enumerate(bases)]
    return {label: Value({"rope_theta": base}, "config", where) for label, base in zip(kinds, numbers, strict=True)}


def from_top(reading: Reading, keys: Sequence[str]) -> Keys:
    """What the top of the file says for all objects."""
    given = {key: reading.document.get(key) for key in keys}
    return {key: numeric(Value(value, "config", reading.at(key))) for key, value in given.items() if value is not None}


def _reached(reading: Reading, raw: Keys, wanted: Sequence[str]) -> list[Sequence[str]]:
    """By label, in their order: which keys of the top reach its object."""
    hands = reading.type.rule.get("hands_down")
    if hands is not None:
        return [hands] * len(wanted)
    scaled = accumulate((scales(raw[label].value) for label in wanted), or_)
    return [HANDED if each else () for each in scaled]


def scales(block: object) -> bool:
    """Whether an object is of another type than the unscaled one."""
    words = [block.get(word) for word in WORDS] if isinstance(block, dict) else []
    return next((word for word in words if word is not None), "default") != "default"


def _without_effect(raw: Keys, wanted: Sequence[str], top: Keys, reached: Sequence[Sequence[str]]) -> list[str]:
    """A note for each key of the top that no object takes."""
    lacking = {
        key
        for label, handed in zip(wanted, reached, strict=True)
        for key in handed
        if isinstance(raw[label].value, dict) and key not in raw[label].value
    }
    said = "has no effect: the class reads the objects of its types of layer"
    return [f"{value.key} {said}" for key, value in top.items() if key not in lacking]


def of_label(reading: Reading, raw: Keys, label: str, handed: Keys, notes: list[str]) -> Block | None:
    """The RoPE of one type of layer; None where its layers do not turn."""
    value = raw[label]
    if value.value is None:
        return None
    if not isinstance(value.value, dict):
        raise Refusal(value.key, "type", f"{label} is {kind(value.value)}; a JSON object is needed, or null")
    rule = reading.type.rule
    whole = located(value.value, value.key, value.source)
    handed_null = "rope_theta" in rule.get("hands_down", ()) and not rule.get("makes_labels")
    notes += null_base(reading, whole, "rope_theta" if handed_null else None)
    inner = flat(whole, label, ())
    if rule.get("older_type_lost"):
        inner = without_old_type(inner, {}, notes, label)
    if "hands_down" not in rule and rule.get("block") == "by-label":
        refuse_without_length(reading, inner, value.key, label)
    share = rule.get("label_partial", {}).get(label)
    if share is None and not scales(value.value) and "partial_rotary_factor" not in handed:
        share = rule.get("unscaled_partial")
    if share is not None:
        own = Value(share, "class default", pointer(value.key, "partial_rotary_factor"))
        inner.setdefault("partial_rotary_factor", own)
    inner = {**handed, **inner}
    return completed(reading, inner, _own_base(reading, value, label, inner), nested=True)


def _own_base(reading: Reading, block: Value, label: str, inner: Keys) -> Value | None:
    """The base that the class fills in for a type of layer; it fails where it has none."""
    own = reading.type.rule.get("label_theta", {}).get(label)
    if own is not None:
        return Value(own, "class default", pointer(block.key, "rope_theta"))
    if "rope_theta" not in inner:
        detail = f"rope_theta is missing in {label}: {reading.type.name} has no base of its own there"
        raise Refusal(pointer(block.key, "rope_theta"), "missing", detail)
    return None
