"""The RoPE block of a configuration in all its spellings, brought into one form.

A block is an object of Hugging Face's own keys, each with its origin. Old files have `rope_scaling` beside
`rope_theta`, new ones `rope_parameters`, some one object for each type of layer; null stands for nothing. Classes of
some models have a block of their own where the file says nothing, other names for the base, or ignore what the file
says: `rules.json` tells which.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from service.engine.errors import Refusal
from service.models.layers import layer_types, unpadded
from service.models.plan import Value
from service.models.reading import Reading, kind, numeric, pointer
from service.models.rope_checks import null_base, refuse_labels, refuse_without_length, without_old_type
from service.models.rope_keys import (
    Block,
    Found,
    Keys,
    completed,
    flat,
    located,
    object_at,
    raw_block,
    theta_of,
)
from service.models.rope_labels import by_label, from_top, of_label, scales
from service.models.rotary_blocks import WITHOUT, rotary_block


def rope_blocks(reading: Reading, labels: Sequence[str]) -> Found:
    """The RoPE of every label that the model tells apart."""
    name = reading.type.rule.get("block", "plain")
    return CONVERSIONS[name](reading, tuple(reading.type.labels or labels))


def _plain(reading: Reading, labels: Sequence[str]) -> Found:
    """One block for all layers."""
    notes: list[str] = []
    raw = raw_block(reading, notes)
    theta_key = reading.type.rule.get("theta_key", "rope_theta")
    theta = theta_of(
        reading, theta_key, reading.type.theta if isinstance(reading.type.theta, (int, float)) else 10_000.0
    )
    if reading.type.rule.get("theta_ignored") and reading.document.get("rope_theta") is not None:
        notes.append(f"{reading.at('rope_theta')} is ignored: the class reads {theta_key}")
    _refuse_labelled(reading, raw, labels)
    if raw.get("rope_theta") is not None and raw["rope_theta"].value is None and reading.type.rule.get("null_theta"):
        return Found({None: None}, [*notes, "rope_theta is null: the class builds no rotary module"])
    notes += null_base(reading, raw, theta_key)
    return Found({None: completed(reading, flat(raw, "the RoPE block", labels), theta, nested=False)}, notes)


def _refuse_labelled(reading: Reading, raw: Keys, labels: Sequence[str]) -> None:
    """Refuses objects for types of layer, where the class reads one block for all its layers."""
    named = next((key for key in raw if key in labels), None)
    if named is not None:
        detail = (
            f"{named} is a type of layer, and {reading.type.name} reads one block for all its layers, without objects "
            "for each type: transformers fails on them, or reads past them"
        )
        raise Refusal(raw[named].key, "conflict", detail)


TWO = ("full_attention", "sliding_attention")


def _two_bases(reading: Reading, _labels: Sequence[str]) -> Found:
    """Gemma 3, ModernBERT, Olmo 3: a base for full and one for sliding attention; old scaling goes to some."""
    rule = reading.type.rule["two_bases"]
    notes: list[str] = []
    parameters, scaling = object_at(reading, "rope_parameters"), object_at(reading, "rope_scaling")
    refuse_labels(parameters or {}, TWO, "rope_parameters")
    if scaling is not None:
        refuse_labels(scaling, TWO, "rope_scaling")
        lost = [scaling.pop(label).key for label in TWO if label in scaling]
        if lost:
            notes.append(f"{', '.join(lost)} have no effect: the class reads objects by layer in rope_parameters alone")
    blocks: dict[str | None, Block | None] = {}
    for label in TWO:
        inner = _stated(reading, (parameters or {}).get(label), label, notes)
        if scaling is not None and label in rule["scaled"]:
            inner |= without_old_type(flat(scaling, "rope_scaling", ()), inner, notes)
        if "rope_theta" not in inner:
            _refuse_null_base(reading, rule[label].get("key", ""))
            notes += null_base(reading, {}, rule[label].get("key"))
        blocks[label] = completed(reading, inner, _base_of(reading, rule[label]), nested=True)
    if parameters is not None:
        notes += _beside_two(reading, parameters, rule)
    note = rule.get("note")
    if note and reading.document.get("rope_theta") not in (None, reading.type.theta):
        notes.append(note)
    return Found(blocks, notes)


def _stated(reading: Reading, stated: Value | None, label: str, notes: list[str]) -> Keys:
    """The keys of the object of a type of layer, if there is one."""
    if stated is None or stated.value is None:
        return {}
    if not isinstance(stated.value, dict):
        raise Refusal(stated.key, "type", f"{label} is {kind(stated.value)}; a JSON object is needed, or null")
    whole = located(stated.value, stated.key, "config")
    notes += null_base(reading, whole, None)
    return flat(whole, label, ())


def _beside_two(reading: Reading, parameters: Keys, rule: Mapping[str, Any]) -> list[str]:
    """What is said of keys that stand beside the objects of the two types of layer, or in place of them."""
    beside = [value.key for key, value in parameters.items() if key not in TWO and value.value is not None]
    if not set(parameters) & set(TWO):
        if rule.get("nested_only"):
            detail = "rope_parameters must hold an object for each type of layer: full_attention, sliding_attention"
            raise Refusal(reading.at("rope_parameters"), "type", detail)
        return ["rope_parameters has no object for a type of layer: its keys have no effect"]
    if beside and rule.get("nested_only"):
        detail = "rope_parameters must hold objects for types of layer and nothing else: transformers fails on more"
        raise Refusal(beside[0], "conflict", detail)
    return [f"{', '.join(beside[:8])} beside the types of layer have no effect"] if beside else []


NEVER_NULL = ("local_rope_theta", "global_rope_theta")


def _refuse_null_base(reading: Reading, key: str) -> None:
    """ModernBERT: null for the base of a type of layer is what no release reads as another does."""
    if key in NEVER_NULL and reading.has(key) and reading.document[key] is None:
        detail = f"{key} is null: transformers 5.24 fails on it, and earlier releases took another base; state a number"
        raise Refusal(reading.at(key), "type", detail)


def _base_of(reading: Reading, names: Mapping[str, str]) -> Value:
    theta = reading.type.theta
    default = theta[names["default"]] if isinstance(theta, Mapping) else theta
    key = names.get("key")
    if key is None:
        return Value(default, "class default", reading.at("rope_theta"))
    return theta_of(reading, key, default)


def _main_and_compress(reading: Reading, _labels: Sequence[str]) -> Found:
    """DeepSeek V4: `main` is never scaled, `compress` has a base of its own and the scaling."""
    notes: list[str] = []
    raw = raw_block(reading, notes)
    refuse_labels(raw, ("main", "compress"), "the RoPE block")
    nested = all(isinstance(raw[label].value, dict) for label in ("main", "compress") if label in raw)
    if nested and {"main", "compress"} <= set(raw):
        top = {"rope_theta": theta_of(reading, "rope_theta", 10_000.0), **from_top(reading, ("partial_rotary_factor",))}
        _refuse_without_share(raw, top)
        return Found({label: of_label(reading, raw, label, top, notes) for label in ("main", "compress")}, notes)
    notes += null_base(reading, {})
    found = flat(raw, "the RoPE block", ("main", "compress"))
    main = completed(reading, {}, theta_of(reading, "rope_theta", 10_000.0), nested=True)
    scaled = {key: value for key, value in found.items() if key not in ("rope_theta", "partial_rotary_factor")}
    if "type" in scaled and "rope_type" not in scaled:
        scaled["rope_type"] = scaled.pop("type")
    named = "rope_type" in scaled and scaled["rope_type"].value == "yarn"
    if named and "attention_factor" not in raw:
        scaled["attention_factor"] = Value(1.0, "rewritten", scaled["rope_type"].key)
        notes.append("the class sets the attention factor of flat yarn to 1 where the block states none")
    compress = completed(reading, scaled, theta_of(reading, "compress_rope_theta", 160_000.0), nested=True)
    return Found({"main": main, "compress": compress}, notes)


def _refuse_without_share(raw: Keys, top: Keys) -> None:
    """Refuses an unscaled block without a share, which would turn the whole head: computing a scaled one gives all of
    them that of the class, from that one on."""
    for value in raw.values():
        if scales(value.value) or "partial_rotary_factor" in top:
            return
        if isinstance(value.value, dict) and "partial_rotary_factor" not in value.value:
            place = pointer(value.key, "partial_rotary_factor")
            raise Refusal(
                place, "missing", f"partial_rotary_factor is missing in {value.key}: it would turn the whole head"
            )


def _listed_bases(reading: Reading, labels: Sequence[str]) -> Found:
    """Step 3.5: lists by layer of bases and shares, on which layers of a kind agree; scaling is for full attention."""
    stated = object_at(reading, "rope_parameters") or {}
    refuse_labels(stated, labels, "rope_parameters")
    if all(label in stated and isinstance(stated[label].value, dict) for label in labels):
        notes: list[str] = []
        shared = from_top(reading, ("partial_rotary_factor",))
        return Found({label: of_label(reading, stated, label, shared, notes) for label in labels}, notes)
    notes = ["rope_parameters has no object for each type of layer: its keys have no effect"] if stated else []
    kinds = layer_types(reading) or []
    found: dict[str | None, Block | None] = {}
    for label in labels:
        place = kinds.index(label)
        base = _entry(reading, "rope_theta", place)
        notes += null_base(reading, {}) if base is None else []
        inner = {"rope_theta": base or Value(reading.type.theta, "class default", reading.at("rope_theta"))}
        share = _entry(reading, "partial_rotary_factors", place)
        inner |= {} if share is None else {"partial_rotary_factor": share}
        scaling = object_at(reading, "rope_scaling") if label == "full_attention" else None
        if scaling is not None:
            inner |= without_old_type(flat(scaling, "rope_scaling", ()), inner, notes)
            refuse_without_length(reading, inner, reading.at("rope_scaling"), "rope_scaling")
        found[label] = completed(reading, inner, None, nested=True)
    return Found(found, notes)


def _entry(reading: Reading, key: str, place: int) -> Value | None:
    """A layer's entry of a list by layer, or the number that all share."""
    value = reading.find(key)
    if value is None or value.value is None or value.value == []:
        return None
    if not isinstance(value.value, list):
        return numeric(value)
    value = unpadded(reading, value, "num_nextn_predict_layers")
    if len(value.value) != reading.layers():
        detail = f"{key} has {len(value.value)} entries for {reading.layers()} layers: one for each is needed"
        raise Refusal(value.key, "shape", detail, limit=reading.layers(), requested=len(value.value))
    return numeric(Value(value.value[place], value.source, f"{value.key}/{place}"))


def _sliding_base(reading: Reading, labels: Sequence[str]) -> Found:
    """dots3.note: without a block sliding attention has a base of its own; the share follows from the widths."""
    raw = object_at(reading, "rope_parameters") or object_at(reading, "rope_scaling")
    refuse_labels(raw or {}, labels, "the RoPE block")
    base = theta_of(reading, "rope_theta", reading.type.theta)
    notes = null_base(reading, {})
    found: dict[str | None, Block | None] = {}
    for label in labels:
        if raw is None:
            sliding = label == "sliding_attention"
            own = theta_of(reading, "swa_rope_theta", 50_000.0) if sliding else base
            found[label] = completed(reading, {}, own, nested=True)
            continue
        inner = raw if not any(key in labels for key in raw) else _keys_of(raw, label)
        notes += null_base(reading, inner, None)
        keys = flat(inner, "the RoPE block", labels)
        keys.pop("partial_rotary_factor", None)
        found[label] = completed(reading, keys, base, nested=True)
    return Found(found, notes)


def _keys_of(raw: Keys, label: str) -> Keys:
    """The keys of one type of layer."""
    value = raw.get(label)
    if value is None or not isinstance(value.value, dict):
        place = next(iter(raw.values())).key.rpartition("/")[0]
        what = "missing" if value is None else kind(value.value)
        detail = f"{label} is {what}: the class needs one object for each type of layer"
        raise Refusal(pointer(place, label), "missing", detail)
    return located(value.value, value.key, value.source)


def _fixed(reading: Reading, _labels: Sequence[str]) -> Found:
    """GPT-J, CodeGen, ESM: a base that is written into the code, or stands at the top."""
    key, code = reading.type.rule.get("theta_key"), reading.at("model_type")
    theta = theta_of(reading, key, 10_000.0) if key else Value(10_000.0, "class default", code)
    kind_of = Value("default", "class default", code)
    unread = [name for name in ("rope_parameters", "rope_scaling", "rope_theta") if name != key]
    given = [reading.at(name) for name in unread if reading.document.get(name)]
    for name in unread[:2]:
        block = object_at(reading, name)
        if block is not None and "factor" in block:
            refuse_without_length(reading, block, reading.at(name), name)
    notes = [f"{', '.join(given)} {'has' if len(given) == 1 else 'have'} no effect: the class turns as its code says"]
    return Found({None: Block({"rope_type": kind_of, "rope_theta": theta})}, notes if given else [])


def _rotary(reading: Reading, labels: Sequence[str]) -> Found:
    """InternLM: a block of its own, else the usual ones."""
    block = rotary_block(reading)
    if block is not None:
        return Found({None: block})
    found = _plain(reading, labels)
    scaled = reading.document.get("rope_scaling") or reading.document.get("rope_parameters")
    return Found(found.blocks, found.notes if scaled else [*found.notes, WITHOUT])


CONVERSIONS: Mapping[str, Callable[[Reading, Sequence[str]], Found]] = {
    "plain": _plain,
    "by-label": by_label,
    "two-bases": _two_bases,
    "main-and-compress": _main_and_compress,
    "fixed": _fixed,
    "listed-bases": _listed_bases,
    "sliding-base": _sliding_base,
    "rotary": _rotary,
}
