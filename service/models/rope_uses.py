"""The uses of rotary models: one for each kind of layer, with the tables, the rotation and the mask it computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import Asked, ask
from service.models.chosen_keys import chosen, indexer
from service.models.compressed_keys import compressed
from service.models.context import Context
from service.models.layer_rules import FULL, failing, numbers_of
from service.models.layers import WITHOUT_ATTENTION, layer_types, of_kinds
from service.models.llama_cpp import Converted, converted
from service.models.llama_cpp_layers import in_file
from service.models.nearest import echo, nearest
from service.models.per_layer import Entry, entries, of_layer, same
from service.models.plan import Address, Use, Value
from service.models.reading import Reading
from service.models.rope_blocks import rope_blocks
from service.models.rope_keys import Block
from service.models.rope_parameters import parameters_of, refuse_heads_of_keys
from service.models.sections import assumed, sections_address
from service.models.stacks import CROSS, cross_attention, of_stacks
from service.models.temperatures import temperature_of
from service.models.windows import asked_for, mask_addresses, window_of

# What only the rotation knows, and tables have no use for.
OF_ROTATION = ("output_pairing", "table_dtype", "compute_dtype", "rotary_channels")


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that do the same."""

    label: str | None
    turns: bool
    layers: tuple[int, ...] | None
    own: Entry = field(default_factory=dict)


def rope_uses(reading: Reading, context: Context) -> list[Use]:
    """A use for each kind of layer; none where a key turns RoPE off for positions that stand beside it (ALiBi)."""
    condition = reading.type.rule.get("turns_if", {})
    if condition.get("else") == "beside" and not _condition(reading, condition):
        return _beside(reading, condition, context)
    refuse_heads_of_keys(reading)
    labels = layer_types(reading)
    found = rope_blocks(reading, list(dict.fromkeys(labels or ())))
    stored, turns = in_file(reading, labels)
    blocks = {**_more_blocks(reading, {*(stored or ()), FULL} - {*found.blocks}), **found.blocks}
    failures = failing(reading)
    uses = []
    for group in _groups(reading, stored, turns):
        layer = of_layer(reading, group.own)
        block = _block_of(reading, blocks, group)
        notes = (*failures, *found.notes, *(block.notes if block else ()), *_unread(reading))
        notes = tuple(dict.fromkeys(notes))
        if group.label == CROSS:
            uses.append(cross_attention(reading, context, group.layers))
        elif block is None or not group.turns:
            uses.append(_without(layer, context, group))
        else:
            told = converted(layer, block, group.label, blocks.get(FULL))
            uses.append(_with(layer, context, group, told, notes))
    return of_stacks(reading, context, uses)


def _beside(reading: Reading, condition: Mapping[str, Any], context: Context) -> list[Use]:
    """No rotation, but what a flag or a word asks for; null is nothing, and other words the class has no code for."""
    if isinstance(condition["value"], bool):
        return []
    word = reading.text(condition["key"])
    if word is None or word.value is None:
        return [_without(reading, context, Group(None, turns=False, layers=None))]
    known = (condition["value"], *condition["known"])
    if word.value not in known:
        near = nearest(str(word.value), known, 1)
        hint = f"did you mean {near[0]}?" if near else f"{' and '.join(known)} are known"
        detail = f"{condition['key']} is {echo(word.value)}, which no code reads, so that nothing has positions; {hint}"
        raise Refusal(word.key, "choice", detail)
    return []


def _more_blocks(reading: Reading, labels: set[str]) -> Mapping[str | None, Block | None]:
    """The blocks of kinds of layers that llama.cpp's code has and the file has not, as far as it states them."""
    try:
        return rope_blocks(reading, sorted(labels)).blocks if labels and reading.llama_cpp is not None else {}
    except Refusal:
        return {}


def _unread(reading: Reading) -> list[str]:
    """Kinds of layers, and their window, in the file of a class that has one kind."""
    if of_kinds(reading):
        return []
    read = "slides" in reading.type.rule or "sliding_window" in reading.type.fields
    keys = ("layer_types",) if read else ("layer_types", "sliding_window")
    given = [key for key in keys if reading.document.get(key) is not None]
    return [f"{key} is read by nothing in this class: all its layers are of one kind" for key in given]


def _groups(reading: Reading, labels: Sequence[str] | None, turns: Sequence[bool] | None) -> list[Group]:
    stated = reading.counted()
    crossing = _crossing(reading)
    own = entries(reading, labels, len(labels) if labels is not None else stated.value if stated else 0)
    if labels is None and turns is None and not own and not crossing:
        return [Group(None, True, None if stated is None else tuple(range(stated.value)))]
    count = len(labels) if labels is not None else len(turns) if turns is not None else reading.layers()
    groups: dict[Any, list[int]] = {}
    for layer in range(count):
        label = CROSS if layer in crossing else labels[layer] if labels else None
        key = (label, turns[layer] if turns else True, same(own.get(layer, {}), label))
        groups.setdefault(key, []).append(layer)
    return [
        Group(label, turned, tuple(layers), own.get(layers[0], {})) for (label, turned, _), layers in groups.items()
    ]


def _crossing(reading: Reading) -> tuple[int, ...]:
    """Layers of the decoder's stack that attend to another stack only (Mllama)."""
    rule = reading.type.rule.get("cross_layers")
    listed = reading.list_of(rule) if rule else None
    return () if listed is None else tuple(numbers_of(listed))


def _block_of(reading: Reading, blocks: Mapping[str | None, Block | None], group: Group) -> Block | None:
    rule = reading.type.rule
    if group.label in WITHOUT_ATTENTION or _still(reading, group):
        return None
    if rule.get("turns") == "none":
        return None
    if rule.get("turns_if") and not _condition(reading, rule["turns_if"]):
        return None
    label = rule.get("label_of", {}).get(group.label, group.label)
    if label in blocks:
        return blocks[label]
    if None in blocks:
        return blocks[None]
    if reading.llama_cpp is not None and FULL in blocks:
        return blocks[FULL]  # its code has layers slide that the file has not
    detail = f"the RoPE block has no {label}: it has {', '.join(str(each) for each in blocks)}"
    raise Refusal(reading.at("rope_parameters") + f"/{label}", "missing", detail)


def _still(reading: Reading, group: Group) -> bool:
    """Whether layers of this kind do not turn beside others that slide; llama.cpp has its own rule."""
    if reading.llama_cpp is not None:
        return False
    rule = reading.type.rule
    if group.label in rule.get("unturned_if_sliding", ()):
        return reading.integer("sliding_window", 0) is not None
    return group.label in rule.get("unturned", ())


def _condition(reading: Reading, condition: Mapping[str, Any]) -> bool:
    """Whether a flag or a word of the file is what turning needs."""
    key, wanted = condition["key"], condition["value"]
    if isinstance(wanted, bool):
        return reading.flag(key) is wanted
    value = reading.text(key)
    return value is not None and value.value == wanted


def _without(reading: Reading, context: Context, group: Group) -> Use:
    """Layers that know no positions."""
    attends = group.label not in WITHOUT_ATTENTION
    window, size = window_of(reading, group.label, context) if attends else (None, None)
    facts, addresses, notes = temperature_of(reading, None, context, turned=False)
    if attends:
        addresses = {**addresses, **mask_addresses(reading, window, size, context)}
    sizes, beside = _seen(reading, group.label)
    said = "these layers have no positional encoding" if attends else f"{group.label}: no attention, nothing turns"
    return Use(
        role=context.role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding="none",
        layer_type=group.label,
        layers=group.layers,
        facts={**sizes, **facts} if attends else {},
        notes=(said, *beside, *notes) if attends else (said,),
        window=window,
        addresses=addresses if attends else {},
    )


def _seen(reading: Reading, label: str | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What queries of these layers see less or more than the mask says."""
    (entries, beside), (sizes, picked) = compressed(reading, label), chosen(reading, label)
    return {**entries, **sizes}, (*beside, *picked)


def _with(reading: Reading, context: Context, group: Group, told: Converted, notes: tuple[str, ...]) -> Use:
    block, notes = told.block, (*notes, *told.notes)
    parameters, extra = parameters_of(reading, group.label, block, context)
    if "offset" in context.whole:
        parameters = {**parameters, "offset": Value(context.whole["offset"], "class default", reading.where or "/")}
    shared = {name: value for name, value in parameters.items() if name not in OF_ROTATION}
    tables = _asked(shared, context)
    window, size = window_of(reading, group.label, context)
    facts, addresses, more = temperature_of(reading, block, context, turned=True)
    axes, said = sections_address(reading, block, shared, context)
    sizes, beside = _seen(reading, group.label)
    own, turned = indexer(reading, group.label, parameters, tables.facts()["rotary_dim"])
    said = [*said, *beside, *turned]
    addresses = {
        **_addresses(shared, parameters, tables),
        **axes,
        **own,
        **mask_addresses(reading, window, size, context),
        **addresses,
    }
    return Use(
        role=context.role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding="rope",
        scheme=("encodings", "rope"),
        layer_type=group.label,
        layers=group.layers,
        parameters=parameters,
        facts={**_facts(reading, tables, block, axes), **told.facts, **_label(reading, group), **sizes, **facts},
        notes=(*notes, *extra, *said, *more, *_told(reading, context, group), *_notes(reading, tables)),
        window=window,
        addresses=addresses,
    )


def _asked(shared: Mapping[str, Value], context: Context) -> Asked:
    """The tables; what is missing is missing in the block."""
    try:
        return ask("encodings", "rope", shared, length=context.length)
    except Refusal as error:
        (fault,) = error.faults
        if fault.code != "missing":
            raise
        block = shared["rope_type"].key.rpartition("/")[0]
        raise Refusal(block + fault.parameter, fault.code, fault.detail) from None


def _addresses(shared: Mapping[str, Value], parameters: Mapping[str, Value], tables: Asked) -> dict[str, Address]:
    unplaced = {name: value for name, value in shared.items() if name not in ("pairing", "offset")}
    rotation = {name: value for name, value in parameters.items() if name != "dim"}
    return {
        "tables": tables.address(),
        "frequencies": ask("encodings", "rope", unplaced, output="frequencies").address(),
        "rotation": ask("apply", "rope", rotation).address(),
    }


def _facts(reading: Reading, tables: Asked, block: Block, axes: Mapping[str, Address]) -> dict[str, Any]:
    facts: dict[str, Any] = dict(tables.facts())
    if not reading.type.rule.get("softmax_factor"):
        facts.pop("softmax_factor", None)
    if axes and "sections" in reading.type.rule["mrope"]:
        facts["mrope_section"] = assumed(reading.type.rule["mrope"], facts["rotary_dim"])
    for name in ("mrope_section", "xdrope_section"):
        if block.value(name) is not None:
            facts["mrope_section"] = block.value(name)
    return facts


def _label(reading: Reading, group: Group) -> dict[str, Any]:
    """What the class calls the RoPE of these layers, where that is another word."""
    label = reading.type.rule.get("label_of", {}).get(group.label)
    return {} if label is None else {"rope_label": label}


def _notes(reading: Reading, tables: Asked) -> list[str]:
    own = reading.type.rule.get("notes", [])
    asked = [reading.type.rule["asked_note"]] if "asked_note" in reading.type.rule and asked_for(reading) else []
    return [*own, *asked, *tables.notes()]


def _told(reading: Reading, context: Context, group: Group) -> list[str]:
    """What the whole model does with the masks of its text model."""
    told = context.whole
    for key, wanted in told.get("when", {}).items():
        found = reading.find(key)
        if found is None or found.value != wanted:
            return []
    return [*told.get("notes", ()), *told.get("notes_of", {}).get(group.label or "null", ())]
