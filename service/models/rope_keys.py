"""One RoPE of a configuration: its keys with their origin, in the form that every spelling is brought into.

A block is an object of Hugging Face's own keys. Here it is found, its keys are checked, and what the file leaves out is
filled in as the class does: the type, the base, the share of the head, the trained length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.engine.errors import Refusal
from service.engine.rotation.rope_block import KEYS
from service.models.nearest import echo, nearest
from service.models.plan import Value
from service.models.reading import Reading, kind, numeric, pointer
from service.models.rope_checks import (
    SCALED_FOR,
    WORDS,
    failing,
    no_object,
    other_share,
    refuse_null_type,
    refuse_two_types,
    unused,
)
from service.models.rope_shares import share_of

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
LISTS = ("short_factor", "long_factor", "divisors", "frequencies", "mrope_section", "xdrope_section")
FLAGS = ("truncate", "mrope_interleaved", "interleaved", "finetuned")
TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
# Keys of a block that are held against the known ones, those that are named, and pairs of the widest head.
MOST_UNKNOWN, MOST_NOTES, MOST_PAIRS = 64, 8, 512


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


def object_at(reading: Reading, key: str) -> Keys | None:
    """The keys of a block of the file; None where it is missing, null or empty."""
    given = reading.object(key)
    refuse_null_type(reading, key)
    return located(given, reading.at(key), "config") if given else None


def located(given: Mapping[str, Any], where: str, source: Any) -> Keys:
    return {key: Value(value, source, pointer(where, key)) for key, value in given.items()}


def class_block(reading: Reading) -> Keys | None:
    told = reading.given.get("rope_parameters")
    own = told or reading.type.rule.get("rope_default") or reading.type.fields.get("rope_parameters")
    return located(own, reading.at("rope_parameters"), "class default") if own else None


def raw_block(reading: Reading, notes: list[str]) -> Keys:
    """The block that the class takes: `rope_scaling`, else `rope_parameters`, else its own."""
    scaling, parameters = object_at(reading, "rope_scaling"), object_at(reading, "rope_parameters")
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
    return class_block(reading) or {}


def flat(block: Keys, where: str, labels: Sequence[str]) -> Keys:
    """The block without what is null; refuses keys that are misspelt, and objects where none belongs.

    A factor of null stays, which is another thing than none: `completed` takes it away. A `truncate` of null is false:
    transformers asks only whether it is true.
    """
    for key, value in block.items():
        if isinstance(value.value, dict):
            raise Refusal(value.key, "unknown", f"{echo(key)} is an object, and {no_object(where, labels)}")
        if key in KNOWN and value.value is not None:
            _refuse_type(key, value)
    for key in _unknown(block)[:MOST_UNKNOWN]:
        near = nearest(key, KNOWN, 1)
        if near:
            raise Refusal(block[key].key, "unknown", f"{echo(key)} is not a key of {where}; did you mean {near[0]}?")
    kept = {key: value for key, value in block.items() if value.value is not None or key == "factor"}
    untrue = {key: value.replaced(False) for key, value in block.items() if key == "truncate" and value.value is None}
    return kept | untrue


def _refuse_type(key: str, value: Value) -> None:
    """Refuses a value of another kind than the key has."""
    if key in LISTS:
        if not isinstance(value.value, list):
            raise Refusal(value.key, "type", f"{key} is {kind(value.value)}; a list of numbers is needed")
        if len(value.value) > MOST_PAIRS:
            detail = f"{key} has {len(value.value)} entries; an entry for each pair that turns is needed"
            raise Refusal(value.key, "shape", detail, limit=MOST_PAIRS, requested=len(value.value))
        for place, each in enumerate(value.value):
            numeric(Value(each, value.source, f"{value.key}/{place}"))
    elif key in FLAGS:
        if not isinstance(value.value, bool):
            raise Refusal(value.key, "type", f"{key} is {kind(value.value)}; true or false is needed")
    elif key not in WORDS:
        numeric(value)


def _unknown(block: Keys) -> list[str]:
    return [key for key in block if key not in KNOWN]


def _ignored(block: Keys) -> list[str]:
    """A note for each of the first keys that nothing reads, and how many more there are."""
    unknown = _unknown(block)
    said = [f"{echo(block[key].key)} is no key that transformers knows: ignored" for key in unknown[:MOST_NOTES]]
    more = len(unknown) - MOST_NOTES
    return [*said, f"{more} more keys of the block are none that transformers knows: ignored"] if more > 0 else said


def _named_type(reading: Reading, block: Keys) -> Value:
    """The type by either name, with the rewriting of the class; refuses a type that is not known."""
    given = block.get("rope_type") or block.get("type")
    if given is None:
        return Value(reading.type.rope_type, "class default", reading.at("rope_parameters") + "/rope_type")
    name = given.value
    if not isinstance(name, str):
        raise Refusal(given.key, "type", f"the type is {kind(name)}; a string is needed")
    refuse_two_types(reading, given, block.get("type"))
    rewritten = reading.type.rule.get("rewrites", {}).get(name)
    if name == "dynamic" and "alpha" in block and block["alpha"].value and reading.type.rule.get("alpha"):
        rewritten = "ntk_alpha"
    if reading.vllm is not None:
        rewritten = rewritten or VLLM_RENAMES.get(name)
        if name == "dynamic" and "alpha" in block:
            rewritten = "ntk_alpha"
    if name == "default" and reading.type.rope_type != "default":
        rewritten = reading.type.rope_type
    if rewritten:
        return given.replaced(rewritten)
    allowed = _allowed(reading)
    if name not in allowed:
        near = nearest(name, allowed, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        who = f"{reading.type.name} turns by in {'transformers' if reading.vllm is None else 'vLLM'}"
        detail = f"rope type {echo(name)} is none that {who}{hint}: {', '.join(allowed)}"
        raise Refusal(given.key, "choice", detail)
    return given


# What vLLM calls older names, whatever the type.
VLLM_RENAMES: Mapping[str, str] = {"su": "longrope", "mrope": "default"}


def _allowed(reading: Reading) -> Sequence[str]:
    """The types of RoPE that a class takes."""
    own: Sequence[str] = reading.type.rule.get("rope_types", TYPES)
    if reading.vllm is None:
        return own if reading.type.rope_type in own else (*own, reading.type.rope_type)
    if reading.vllm.get("yarn") == "deepseek":
        return ("default", "yarn")  # every scaled RoPE is read as YaRN there
    theirs: Sequence[str] = reading.vllm.get("rope_types", TYPES)
    return theirs


def theta_of(reading: Reading, key: str, default: Any) -> Value:
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


def completed(reading: Reading, block: Keys, theta: Value | None, *, nested: bool) -> Block:
    """A flat block with its type, its base, its share of the head and its trained length filled in."""
    stated = "factor" in block
    block = {key: value for key, value in block.items() if value.value is not None}
    notes = _ignored(block)
    found = {key: value for key, value in block.items() if key in KNOWN and key != "type"}
    found["rope_type"] = _named_type(reading, block)
    notes += unused(block, found["rope_type"])
    notes += failing(reading, block, found["rope_type"])
    if not stated and found["rope_type"].value == "yarn":
        _refuse_yarn_without_factor(found["rope_type"])
    if theta is not None:
        name = theta.key.rpartition("/")[2]
        beside = reading.document.get(name) if theta.key == reading.at(name) else None
        if "rope_theta" not in found:
            found["rope_theta"] = theta
        elif beside is not None and beside != found["rope_theta"].value:
            taken = found["rope_theta"]
            why = (
                f"{taken.key} is stated"
                if taken.source == "config"
                else f"the class takes {echo(taken.value)} of its own"
            )
            notes.append(f"{theta.key} is {echo(beside)} and has no effect: {why}")
    notes += other_share(reading)
    share = share_of(reading, nested=nested)
    if share is not None:
        found.setdefault("partial_rotary_factor", share)
    if found["rope_type"].value != "default":
        _refuse_lacking(reading, found)
    if found["rope_type"].value in SCALED_FOR:
        _trained_length(reading, found, nested=nested)
    if nested and reading.vllm is None and "truncate" in found and found["truncate"].value is False:
        notes.append("truncate is ignored: transformers reads it beside the types of layer, not within one")
        del found["truncate"]
    return Block(found, nested, tuple(notes))


def _refuse_yarn_without_factor(named: Value) -> None:
    detail = (
        "factor is missing: yarn is not built without it; null makes it max_position_embeddings over "
        "original_max_position_embeddings"
    )
    raise Refusal(pointer(named.key.rpartition("/")[0], "factor"), "missing", detail)


def _refuse_lacking(reading: Reading, found: Keys) -> None:
    """Keys that the class demands of every scaled block."""
    for key in reading.type.rule.get("scaled_needs", ()):
        if key not in found:
            place = found["rope_type"].key.rpartition("/")[0]
            detail = f"{key} is missing: {reading.type.name} demands it of every scaled RoPE"
            raise Refusal(pointer(place, key), "missing", detail)


def _trained_length(reading: Reading, found: Keys, *, nested: bool) -> None:
    lost = nested or reading.type.rule.get("trained_in_block")
    top = None if lost else reading.integer("original_max_position_embeddings")
    if top is not None:
        found["original_max_position_embeddings"] = top
    elif "original_max_position_embeddings" not in found:
        longest = reading.integer("max_position_embeddings")
        if longest is not None:
            found["original_max_position_embeddings"] = longest
