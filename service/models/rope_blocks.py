"""The RoPE block of a configuration in all its spellings, brought into one form.

A block is an object of Hugging Face's own keys, each with its origin. Old files have `rope_scaling` beside
`rope_theta`, new ones `rope_parameters`, some one object for each type of layer; null stands for nothing. Classes of
some models have a block of their own where the file says nothing, other names for the base, or ignore what the file
says: `rules.json` tells which.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.engine.errors import Refusal
from service.engine.rotation.rope_block import KEYS
from service.models.nearest import echo, nearest
from service.models.plan import Value
from service.models.reading import Reading, kind, numeric, pointer

Keys = dict[str, Value]

# What files say beside the keys of the formulas.
BESIDE = (
    "max_position_embeddings",
    "mrope_section",
    "xdrope_section",
    "mrope_interleaved",
    "interleaved",
    "llama_4_scaling_beta",
    "original_max_position_embeddings",
    "finetuned",
)
KNOWN = tuple(dict.fromkeys([*KEYS, *BESIDE]))
TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "ntk_alpha", "axial")
SCALED_FOR = ("llama3", "yarn", "longrope")


@dataclass(frozen=True)
class Block:
    """One RoPE: keys and values; `nested` where the file has one for each type of layer."""

    keys: Mapping[str, Value]
    nested: bool = False
    notes: tuple[str, ...] = ()

    def value(self, key: str) -> Any:
        found = self.keys.get(key)
        return None if found is None else found.value

    @property
    def rope_type(self) -> str:
        return str(self.keys["rope_type"].value)


@dataclass
class Found:
    """Blocks by label (None: the only one); None for a label whose layers do not turn."""

    blocks: dict[str | None, Block | None]
    notes: list[str] = field(default_factory=list)


def rope_blocks(reading: Reading, labels: Sequence[str]) -> Found:
    """The RoPE of every label that the model tells apart."""
    name = reading.type.rule.get("block", "plain")
    return CONVERSIONS[name](reading, tuple(reading.type.labels or labels))


def _object_at(reading: Reading, key: str) -> Keys | None:
    """The keys of a block of the file; None where it is missing, null or empty."""
    given = reading.object(key)
    return _located(given, reading.at(key), "config") if given else None


def _located(given: Mapping[str, Any], where: str, source: Any) -> Keys:
    return {key: Value(value, source, pointer(where, key)) for key, value in given.items()}


def _class_block(reading: Reading) -> Keys | None:
    own = reading.type.rule.get("rope_default") or reading.type.fields.get("rope_parameters")
    return _located(own, reading.at("rope_parameters"), "class default") if own else None


def _raw(reading: Reading, notes: list[str]) -> Keys:
    """The block that the class takes: `rope_scaling`, else `rope_parameters`, else its own."""
    scaling, parameters = _object_at(reading, "rope_scaling"), _object_at(reading, "rope_parameters")
    if scaling is not None and reading.type.rule.get("scaling_ignored"):
        notes.append("rope_scaling has no effect: the class reads rope_parameters alone")
        scaling = None
    if (
        scaling is not None
        and parameters is not None
        and reading.document["rope_scaling"] != reading.document["rope_parameters"]
    ):
        notes.append("rope_scaling and rope_parameters are both there: transformers takes rope_scaling")
    if scaling is not None:
        return scaling
    if parameters is not None:
        return parameters
    if reading.document.get("rope_parameters") == {}:
        return {}
    return _class_block(reading) or {}


def _flat(block: Keys, where: str, labels: Sequence[str]) -> Keys:
    """The block without what is null; refuses keys that are misspelt, and objects where none belongs."""
    for key, value in block.items():
        if isinstance(value.value, dict):
            listed = f"; its types of layer are {', '.join(labels)}" if labels else ": all its layers are of one type"
            detail = f"{echo(key)} is an object, and the model has no such type of layer{listed}"
            raise Refusal(value.key, "unknown", detail)
        if key not in KNOWN:
            near = nearest(key, KNOWN, 1)
            if near:
                detail = f"{echo(key)} is not a key of {where}; did you mean {near[0]}?"
                raise Refusal(value.key, "unknown", detail)
    return {key: value for key, value in block.items() if value.value is not None}


def _ignored(block: Keys) -> list[str]:
    return [
        f"{value.key} is no key that transformers knows: ignored" for key, value in block.items() if key not in KNOWN
    ]


def _named_type(reading: Reading, block: Keys) -> Value:
    """The type by either name, with the rewriting of the class; refuses a type that is not known."""
    given = block.get("rope_type") or block.get("type")
    if given is None:
        return Value(reading.type.rope_type, "class default", reading.at("rope_parameters") + "/rope_type")
    name = given.value
    if not isinstance(name, str):
        raise Refusal(given.key, "type", f"the type is {kind(name)}; a string is needed")
    rewritten = reading.type.rule.get("rewrites", {}).get(name)
    if name == "dynamic" and "alpha" in block and block["alpha"].value and reading.type.rule.get("alpha"):
        rewritten = "ntk_alpha"
    if name == "default" and reading.type.rope_type != "default":
        rewritten = reading.type.rope_type
    if rewritten:
        return given.replaced(rewritten)
    allowed = reading.type.rule.get("rope_types", TYPES)
    if name not in allowed:
        near = nearest(name, allowed, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        detail = (
            f"rope type {echo(name)} is none that {reading.type.name} knows in transformers{hint}: {', '.join(allowed)}"
        )
        raise Refusal(given.key, "choice", detail)
    return given


def _theta(reading: Reading, key: str, default: Any) -> Value:
    """The base outside the block: the file's, or the default of the class."""
    ratio = reading.type.rule.get("theta_times")
    times = reading.number(ratio) if ratio else None
    if times is not None:
        return times.replaced(default * times.value)
    given = reading.document.get(key)
    if given is not None:
        return numeric(Value(given, "config", reading.at(key)))
    own = reading.given.get(key, reading.type.fields.get(key))
    return Value(default if own is None else own, "class default", reading.at(key))


def _completed(reading: Reading, block: Keys, theta: Value | None, *, nested: bool) -> Block:
    """A flat block with its type, its base, its share of the head and its trained length filled in."""
    notes = _ignored(block)
    found = {key: value for key, value in block.items() if key in KNOWN and key != "type"}
    found["rope_type"] = _named_type(reading, block)
    if theta is not None:
        stated = reading.document.get(theta.key.rpartition("/")[2])
        if "rope_theta" not in found:
            found["rope_theta"] = theta
        elif stated is not None and stated != found["rope_theta"].value:
            notes.append(f"{theta.key} is {echo(stated)} and has no effect: {found['rope_theta'].key} is stated")
    share = _share(reading, nested=nested)
    if share is not None:
        found.setdefault("partial_rotary_factor", share)
    if found["rope_type"].value in SCALED_FOR:
        _trained_length(reading, found, nested=nested)
    if nested and "truncate" in found and found["truncate"].value is False:
        notes.append("truncate is ignored: transformers reads it beside the types of layer, not within one")
        del found["truncate"]
    return Block(found, nested, tuple(notes))


def _share(reading: Reading, *, nested: bool) -> Value | None:
    """`partial_rotary_factor` from outside the block."""
    rule = reading.type.rule
    if nested and rule.get("block") == "by-label":
        return None
    if "partial_forced" in rule:
        return Value(rule["partial_forced"], "class default", reading.at("partial_rotary_factor"))
    key = rule.get("partial_key", "partial_rotary_factor")
    given = reading.document.get(key)
    if given is not None:
        return numeric(Value(given, "config", reading.at(key)))
    width = rule.get("partial_of")
    if width and not (rule.get("partial_lost") and reading.object("rope_scaling")):
        turned = reading.integer(width[0])
        parts = [reading.integer(each) for each in width[1:]]
        if turned is not None and all(parts):
            return turned.replaced(turned.value / sum(part.value for part in parts if part))
    own = reading.given.get(key, reading.type.fields.get(key))
    own = rule.get("partial") if own is None else own
    return None if own is None else Value(own, "class default", reading.at(key))


def _trained_length(reading: Reading, found: Keys, *, nested: bool) -> None:
    top = None if nested else reading.integer("original_max_position_embeddings")
    if top is not None:
        found["original_max_position_embeddings"] = top
    elif "original_max_position_embeddings" not in found:
        longest = reading.integer("max_position_embeddings")
        if longest is not None:
            found["original_max_position_embeddings"] = longest


def _plain(reading: Reading, labels: Sequence[str]) -> Found:
    """One block, or one for each label where the block has labels for keys."""
    notes: list[str] = []
    raw = _raw(reading, notes)
    theta_key = reading.type.rule.get("theta_key", "rope_theta")
    theta = _theta(reading, theta_key, reading.type.theta if isinstance(reading.type.theta, (int, float)) else 10_000.0)
    if reading.type.rule.get("theta_ignored") and reading.document.get("rope_theta") is not None:
        notes.append(f"{reading.at('rope_theta')} is ignored: the class reads {theta_key}")
    nested = [key for key in raw if key in labels]
    if not nested:
        if (
            raw.get("rope_theta") is not None
            and raw["rope_theta"].value is None
            and reading.type.rule.get("null_theta")
        ):
            return Found({None: None}, [*notes, "rope_theta is null: the class builds no rotary module"])
        return Found({None: _completed(reading, _flat(raw, "the RoPE block", labels), theta, nested=False)}, notes)
    beside = [key for key in raw if key not in nested and raw[key].value is not None]
    if beside:
        notes.append(f"{', '.join(beside)} beside the types of layer have no effect")
    return Found({label: _of_label(reading, raw, label, theta) for label in nested}, notes)


def _of_label(reading: Reading, raw: Keys, label: str, theta: Value | None) -> Block | None:
    value = raw[label]
    if value.value is None:
        return None
    if not isinstance(value.value, dict):
        raise Refusal(value.key, "type", f"{label} is {kind(value.value)}; a JSON object is needed, or null")
    inner = _flat(_located(value.value, value.key, value.source), label, ())
    return _completed(reading, inner, theta, nested=True)


def _by_label(reading: Reading, labels: Sequence[str]) -> Found:
    """A block for each label, in `rope_parameters` alone: the class reads neither `rope_scaling` nor `rope_theta`."""
    if reading.object("rope_scaling"):
        detail = f"{reading.type.name} reads rope_parameters alone, with an object for each type of layer"
        raise Refusal(reading.at("rope_scaling"), "conflict", detail)
    notes = []
    if reading.document.get("rope_theta") is not None:
        notes.append(f"{reading.at('rope_theta')} has no effect: the class reads rope_parameters alone")
    raw = _object_at(reading, "rope_parameters") or _class_block(reading) or {}
    wanted = [label for label in dict.fromkeys(labels) if label not in reading.type.rule.get("unturned", ())]
    for label in wanted:
        if label not in raw:
            detail = f"rope_parameters has no {label}: the class needs one object for each type of layer"
            raise Refusal(pointer(reading.at("rope_parameters"), label), "missing", detail)
    return Found({label: _of_label(reading, raw, label, None) for label in wanted}, notes)


def _two_bases(reading: Reading, labels: Sequence[str]) -> Found:  # noqa: ARG001
    """Gemma 3, ModernBERT, Olmo 3: a base for full and one for sliding attention; old scaling goes to some."""
    rule = reading.type.rule["two_bases"]
    notes: list[str] = []
    parameters, scaling = _object_at(reading, "rope_parameters"), _object_at(reading, "rope_scaling")
    blocks: dict[str | None, Block | None] = {}
    for label in ("full_attention", "sliding_attention"):
        stated = (parameters or {}).get(label)
        inner: Keys = {}
        if stated is not None and stated.value is not None:
            if not isinstance(stated.value, dict):
                raise Refusal(stated.key, "type", f"{label} is {kind(stated.value)}; a JSON object is needed, or null")
            inner = _flat(_located(stated.value, stated.key, "config"), label, ())
        if scaling is not None and label in rule["scaled"]:
            inner |= _without_old_type(_flat(scaling, "rope_scaling", ()), inner, notes)
        blocks[label] = _completed(reading, inner, _base_of(reading, rule[label]), nested=True)
    if parameters is not None and not set(parameters) & {"full_attention", "sliding_attention"}:
        if rule.get("nested_only"):
            detail = "rope_parameters must hold an object for each type of layer: full_attention, sliding_attention"
            raise Refusal(reading.at("rope_parameters"), "type", detail)
        notes.append("rope_parameters has no object for a type of layer: its keys have no effect")
    note = rule.get("note")
    if note and reading.document.get("rope_theta") not in (None, reading.type.theta):
        notes.append(note)
    return Found(blocks, notes)


def _without_old_type(scaling: Keys, inner: Keys, notes: list[str]) -> Keys:
    """The class has set `rope_type` before it reads the block: the older `type` comes too late."""
    if "type" in scaling and "rope_type" not in scaling:
        notes.append("rope_scaling has type and not rope_type: the class drops it, and does not scale")
        return {key: value for key, value in scaling.items() if key != "type"} | (
            {"rope_type": inner["rope_type"]} if "rope_type" in inner else {}
        )
    return scaling


def _base_of(reading: Reading, names: Mapping[str, str]) -> Value:
    theta = reading.type.theta
    default = theta[names["default"]] if isinstance(theta, Mapping) else theta
    key = names.get("key")
    if key is None:
        return Value(default, "class default", reading.at("rope_theta"))
    return _theta(reading, key, default)


def _main_and_compress(reading: Reading, labels: Sequence[str]) -> Found:  # noqa: ARG001
    """DeepSeek V4: `main` is never scaled, `compress` has a base of its own and the scaling."""
    notes: list[str] = []
    raw = _raw(reading, notes)
    nested = all(isinstance(raw[label].value, dict) for label in ("main", "compress") if label in raw)
    if nested and {"main", "compress"} <= set(raw):
        return Found({label: _of_label(reading, raw, label, None) for label in ("main", "compress")}, notes)
    flat = _flat(raw, "the RoPE block", ("main", "compress"))
    main = _completed(reading, {}, _theta(reading, "rope_theta", 10_000.0), nested=True)
    scaled = {key: value for key, value in flat.items() if key not in ("rope_theta", "partial_rotary_factor")}
    if "type" in scaled and "rope_type" not in scaled:
        scaled["rope_type"] = scaled.pop("type")
    if "rope_type" in scaled and scaled["rope_type"].value == "yarn":
        scaled["attention_factor"] = Value(1.0, "rewritten", scaled["rope_type"].key)
        notes.append("the class sets the attention factor of flat yarn to 1")
    compress = _completed(reading, scaled, _theta(reading, "compress_rope_theta", 160_000.0), nested=True)
    return Found({"main": main, "compress": compress}, notes)


def _fixed(reading: Reading, labels: Sequence[str]) -> Found:  # noqa: ARG001
    """GPT-J, CodeGen, ESM: a base that is written into the code, or stands at the top."""
    theta = _theta(reading, reading.type.rule.get("theta_key", "rope_theta"), 10_000.0)
    kind_of = Value("default", "class default", reading.at("rope_parameters") + "/rope_type")
    return Found({None: Block({"rope_type": kind_of, "rope_theta": theta})})


CONVERSIONS: Mapping[str, Callable[[Reading, Sequence[str]], Found]] = {
    "plain": _plain,
    "by-label": _by_label,
    "two-bases": _two_bases,
    "main-and-compress": _main_and_compress,
    "fixed": _fixed,
}
