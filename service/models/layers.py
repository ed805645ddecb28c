"""The kinds of layers of a model, and which layers are of which kind.

`layer_types` of the file wins; where it is missing, the model's class follows a rule of `layer_rules`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from service.engine.errors import Refusal
from service.models.hybrid_layers import refuse_other_ids
from service.models.layer_rules import FULL, RULES, SLIDING, Rule
from service.models.nearest import echo, nearest
from service.models.plan import Value
from service.models.reading import Reading, kind

KNOWN = (
    FULL,
    SLIDING,
    "chunked_attention",
    "linear_attention",
    "conv",
    "hybrid",
    "hybrid_sliding",
    "indexed_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
    "reference_sliding_attention",
    "window_attention",
    "minimax_m3_sparse",
    "recurrent",
    "moe",
    "mlp",
)
# What older files call them.
RENAMED: Mapping[str, str] = {
    "attention": FULL,
    "mamba": "linear_attention",
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
# Layers without attention: nothing turns there.
WITHOUT_ATTENTION = ("linear_attention", "conv", "recurrent", "moe", "mlp")


def layer_types(reading: Reading) -> list[str] | None:
    """The kind of every layer; None where the model has one kind."""
    rule: Rule | None = reading.type.rule.get("layers")
    key = rule.get("key_of_types", "layer_types") if rule else "layer_types"
    stated = _stated(reading, key, rule)
    if stated is not None:
        return _mended(reading, stated, rule, stated=True)
    if rule is None or "rule" not in rule:
        return None
    return _mended(reading, RULES[rule["rule"]](reading, rule), rule)


def of_kinds(reading: Reading) -> bool:
    """Whether the class has kinds of layers at all: others read past a list of them, and all their layers are alike."""
    return "layers" in reading.type.rule or "layer_types" in reading.type.fields or reading.vllm is not None


def _mended(reading: Reading, labels: list[str], rule: Rule | None, *, stated: bool = False) -> list[str]:
    """The last layer as the class has it, of some even where the file states another, and kinds that a flag renames."""
    if rule and "last" in rule and labels and (rule.get("last_always") or not stated):
        labels = [*labels[:-1], rule["last"]]
    if rule and not stated and rule.get("some", labels[-1]) not in labels:
        labels = [*labels[:-1], rule["some"]]
    if rule and rule.get("rule") == "zamba2":
        refuse_other_ids(reading, labels)
    if rule and rule.get("needs") and rule["needs"] not in labels:
        detail = f"{len(labels)} layers without {rule['needs']}: {reading.type.name} expects at least one"
        raise Refusal(reading.at("layer_types" if stated else "num_hidden_layers"), "conflict", detail)
    if rule and "renamed" in rule and not stated:
        labels = _renamed(reading, labels, rule["renamed"])
    return labels


def _renamed(reading: Reading, labels: list[Any], rule: Mapping[str, Any]) -> list[Any]:
    """Kinds by the names that the class has for them; a flag of some turns both names about."""
    old, new = rule["names"]
    flag = reading.find(rule["unless"]) if "unless" in rule else None
    if flag is not None and flag.value is False:
        old, new = new, old
    return [new if label == old else label for label in labels]


def _refuse_made(reading: Reading, made_of: str) -> None:
    """Refuses a list of types where the class makes it of other keys, and cannot be given one."""
    listed = next((key for key in ("layer_types", "layers_block_type") if reading.has(key)), None)
    if listed is not None:
        detail = f"{listed} follows from {made_of}: transformers fails where it is stated"
        raise Refusal(reading.at(listed), "conflict", detail)


def _stated(reading: Reading, key: str, rule: Rule | None) -> list[str] | None:
    if rule and "made_of" in rule:
        _refuse_made(reading, rule["made_of"])
        return None
    stated = reading.list_of(key)
    if stated is None:
        return None
    count = reading.layers() if (rule or {}).get("counted", True) else None
    if rule and "padded_by" in rule:
        stated = unpadded(reading, stated, rule["padded_by"])
    if count is not None and len(stated.value) != count:
        detail = f"{key} has {len(stated.value)} entries and num_hidden_layers is {count}: one for each layer is needed"
        raise Refusal(stated.key, "shape", detail, limit=count, requested=len(stated.value))
    if rule and "renamed" in rule:
        stated = Value(_renamed(reading, stated.value, rule["renamed"]), stated.source, stated.key)
    known = tuple(rule["only"]) if rule and "only" in rule else KNOWN
    labels = [_label(stated, place, each, known) for place, each in enumerate(stated.value)]
    # Dory's files count attention and the MLP behind it as two layers, the class as one.
    return labels[::2] if rule and rule.get("paired") in labels else labels


def _label(stated: Value, place: int, label: object, known: Sequence[str]) -> str:
    where = f"{stated.key}/{place}"
    if not isinstance(label, str):
        raise Refusal(where, "type", f"a type of layer is {kind(label)}; a string is needed")
    if RENAMED.get(label, label) not in known:
        other = label in KNOWN or label in RENAMED
        near = [] if other else nearest(label, known, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
        raise Refusal(where, "choice", f"{echo(label)} is no type of layer{' of this class' if other else ''}{hint}")
    return RENAMED.get(label, label)


def unpadded(reading: Reading, stated: Value, key: str) -> Value:
    """A list by layer without the entries of the layers that predict ahead, which some files append."""
    more, count = reading.integer(key, 0), reading.layers()
    if more is None or len(stated.value) != count + more.value:
        return stated
    return Value(stated.value[:count], stated.source, stated.key)
