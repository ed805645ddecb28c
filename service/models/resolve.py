"""From a configuration to a plan: the model type, the parts within, and the family that reads each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from service.engine.errors import Refusal
from service.models.context import Context, Options
from service.models.deciding import suspects
from service.models.families import family_of
from service.models.families.positions import has_positions, positions
from service.models.gguf import gguf_plan, is_gguf
from service.models.heads import refuse_other_width
from service.models.hybrid_layers import refuse_other_count, refuse_short_lists
from service.models.known import ModelType, assumable, known, model_type, nearest_types, type_of_class, type_of_config
from service.models.llama_cpp import of_the_whole, said_of
from service.models.misspelt import misspelt, without_effect
from service.models.multimodal import with_positions
from service.models.nearest import echo
from service.models.nulls import failing_nulls
from service.models.older_parts import of_older_names, stated_as
from service.models.plan import Plan, Use
from service.models.reading import Reading, kind, pointer
from service.models.roles import own_role, role_of_part
from service.models.stacks import cross_attention, of_stack
from service.models.told import Told, Watched
from service.models.unread_parts import refuse_sizes_elsewhere

MOST_DEPTH = 6


def resolve(config: object, options: Options = Options()) -> Plan:  # noqa: B008 - frozen
    """The plan of a configuration.

    >>> plan = resolve({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 2})
    >>> plan.uses[0].facts["rotary_dim"], plan.uses[0].parameters["base"].source
    (128, 'class default')
    """
    if not isinstance(config, Mapping):
        raise Refusal("/", "type", f"the body is {kind(config)}; the JSON object of a config.json is needed")
    if config.get("gguf") is not None and "model_type" not in config and not isinstance(config["gguf"], Mapping):
        detail = f"gguf is {kind(config['gguf'])}; the JSON object of a GGUF header's metadata is needed"
        raise Refusal("/gguf", "type", detail)
    if is_gguf(config):
        _refuse_both(config)
        return gguf_plan(config, Context(options))
    name, assumed = _type_of(config, options)
    row = model_type(name)
    # One type is assumed, of the whole or of parts: within what is assumed nothing more is.
    context = Context(replace(options, assume=None) if assumed else options)
    told = context.told
    document = config if assumed is None else Told(config, "", row, told)
    uses = _walk(Reading(document, "", row, preset=options.preset), context, 0)
    notes = _beside(config, name)
    if assumed is None and options.preset == "transformers-5.24":
        notes += failing_nulls(config, name)
    if options.preset == "llama.cpp":
        notes += [*said_of(name, {use.encoding for use in uses}), *of_the_whole(config, row)]
    if assumed is not None:
        notes.insert(0, _assumed(config.get("model_type"), name))
    elif options.assume not in (None, name) and not told:
        detail = f"model_type {echo(name)} is known; assume={echo(options.assume)} is for types that are not"
        raise Refusal("assume", "conflict", detail)
    return Plan(
        model_type=str(config.get("model_type", name))[:64],
        preset=options.preset,
        uses=tuple(_of_file(use, config) for use in uses),
        notes=(*notes, *_of_assumed(told)),
        assumed=options.assume if told else None,
    )


def _refuse_both(config: Mapping[str, Any]) -> None:
    """Refuses a file that is a configuration and a header at once: they may say different things."""
    if isinstance(config.get("model_type"), str) and "general.architecture" in config:
        detail = "model_type is of a config.json and general.architecture of a GGUF header: leave one of them out"
        raise Refusal("/model_type", "conflict", detail)


def _of_file(use: Use, config: Mapping[str, Any]) -> Use:
    """The use with origins that are keys of the file, or the class; the length of a call is the caller's."""
    found = {name: value if name == "seq_len" else value.within(config) for name, value in use.parameters.items()}
    return replace(use, parameters=found)


def _of_assumed(told: Sequence[Told]) -> list[str]:
    """What was not read of what is read as another type, and what was taken; refuses what contradicts that type."""
    for each in told:
        each.refuse_unread()
    return [note for each in told for note in each.notes()]


def _type_of(config: Mapping[str, Any], options: Options) -> tuple[str, str | None]:
    """The type to read by, and what was assumed; refuses what is not known."""
    if options.assume is not None and options.assume not in assumable():
        raise unknown_type("assume", options.assume)
    given = config.get("model_type")
    if given is not None and not isinstance(given, str):
        raise Refusal("/model_type", "type", f"model_type is {kind(given)}; a string is needed")
    if given is not None and known(given):
        return given, None
    if options.assume is not None:
        return options.assume, options.assume
    if given is None:
        raise Refusal(
            "/model_type",
            "missing",
            "model_type is missing: it decides what the keys mean; assume=llama (any known type) reads them as that"
            + _by_architecture(config),
        )
    raise unknown_type("/model_type", given, more=_by_architecture(config))


def _by_architecture(config: Mapping[str, Any]) -> str:
    """What `architectures` or `auto_map` says of the type, where it names a class of transformers."""
    listed = config.get("architectures")
    for each in listed[:4] if isinstance(listed, list) else ():
        found = type_of_class(each)
        if found is not None:
            return f"; architectures names {echo(each)}, as of {found}"
    mapped = config.get("auto_map")
    for each in list(mapped.values())[:8] if isinstance(mapped, dict) else ():
        found = type_of_config(each)
        if found is not None:
            return f"; auto_map names {echo(each)}, as of {found}"
    return ""


def unknown_type(where: str, name: str, within: str = "", more: str = "") -> Refusal:
    """The refusal of a type, with the nearest known ones; `within`: the type that the whole is already read as."""
    what = "assume" if where == "assume" else "model_type"
    if name in assumable():
        detail = f"{what} {name} is the code of a repository's own; assume={name} reads the keys as that code does"
        return Refusal(where, "unknown", detail)
    of_class = type_of_class(name)
    if of_class is not None:
        hint = f": it is the name of a class, whose model_type is {of_class}"
    else:
        near = nearest_types(name)
        hint = f"; nearest are {', '.join(near)}" if near else ""
    detail = f"{what} {echo(name)} is not known{hint}"
    if within:
        detail += f"; the whole is read as {within} already, and parts within must name a known type"
    elif what == "model_type":
        detail += f"{more}; assume=llama (any known type) answers from the keys alone"
    return Refusal(where, "unknown", detail)


def _assumed(given: object, name: str) -> str:
    if given == name:
        return f"{name} is the code of a repository's own: the keys are read as that code does"
    return f"model_type {echo(given)} is not known: read by the keys alone, as {name}"


def _beside(config: Mapping[str, Any], name: str) -> list[str]:
    if "auto_map" in config and known(name):
        return ["auto_map names code of the repository's own; the plan is that of transformers' class"]
    return []


def _walk(reading: Reading, context: Context, depth: int) -> list[Use]:
    """The uses of one object, and of those within."""
    if depth > MOST_DEPTH:
        raise Refusal(reading.where, "too_deep", f"configurations are nested more than {MOST_DEPTH} deep")
    if not isinstance(reading.document, Watched) and suspects(reading.type, reading.document):
        reading = replace(reading, document=Watched(reading.document, reading.type))
    if not isinstance(reading.document, Told):
        refuse_sizes_elsewhere(reading)
    _refuse_member(reading)
    uses: list[Use] = []
    parts: dict[str, Reading] = {}
    for key, part in reading.type.parts.items():
        inner = None if key in reading.type.rule.get("unused", ()) else _part(reading, key, part, context)
        if inner is not None:
            parts[key] = inner
            whole = context.whole.get(key) or reading.type.rule.get("tells", {}).get(key, {})
            found = _walk(inner, replace(context, role=role_of_part(key, context.role), whole=whole), depth + 1)
            uses += of_stack(found, reading.type.rule.get("stack_of", {}).get(key))
    family = family_of(reading.type)
    context = replace(context, role=own_role(reading, context.role))
    uses = [*positions(reading, context), *(family(reading, context) if family else ()), *uses]
    if family is None and not reading.type.parts and not has_positions(reading.type.name):
        uses.append(_unknown(reading, context, depth))
    if reading.type.rule.get("crosses") and all(use.role != "cross-attention" for use in uses):
        uses.append(cross_attention(reading, context))
    uses = with_positions(reading, parts, context, uses)
    said = [*misspelt(reading), *without_effect(reading, uses), *of_older_names(reading)]
    return [replace(uses[0], notes=(*uses[0].notes, *said)), *uses[1:]] if uses and said else uses


def _refuse_member(reading: Reading) -> None:
    """Refuses a model that the code of its type encodes another way than the plan would say."""
    refuse_other_width(reading)
    for key, (value, detail) in reading.type.rule.get("refuses", {}).items():
        found = reading.find(key)
        if found is not None and found.value == value:
            raise Refusal(found.key, "unsupported", f"{key} is {value}: {detail}")
    for key, entries in reading.type.rule.get("entries_by_layer", {}).items():
        refuse_other_count(reading, key, entries)
    if "experts_by_layer" in reading.type.rule:
        refuse_short_lists(reading, *reading.type.rule["experts_by_layer"])


def _unknown(reading: Reading, context: Context, depth: int) -> Use:
    """A part that is not known here is said to be; a whole model is refused."""
    why = reading.type.rule.get("unknown", "its positions are not known here yet")
    detail = f"{reading.type.name} is a model type of transformers: {why}"
    if depth == 0:
        raise Refusal("/model_type", "unsupported", detail)
    return Use(
        role=context.role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding="unknown",
        notes=(detail,),
    )


def _part(reading: Reading, key: str, part: Mapping[str, Any], context: Context) -> Reading | None:
    """The configuration within; a default one where the file has none; None where the class can do without."""
    stated = stated_as(reading, key)
    given = reading.document.get(stated)
    where = reading.at(stated)
    rule = reading.type.rule
    passed = _passed_down(reading, key)
    assumed = {**part.get("given", {}), **passed}
    if given is None:
        if key in rule.get("flat", ()):
            return _within(reading, reading.document, reading.where, _own_type(part, rule), passed)
        if part.get("optional"):
            return None
        return _within(reading, {}, where, _own_type(part, rule), assumed)
    if not isinstance(given, dict):
        raise Refusal(where, "type", f"{stated} is {kind(given)}; a JSON object is needed, or null")
    # What a class makes a part with stands for the whole part, unless the class merges it.
    kept = assumed if rule.get("merges") else passed
    row = _part_type(part, given, where, rule)
    if row is None:
        return _assumed_part(reading, given, where, kept, context)
    return _within(reading, given, where, row, kept)


def _within(
    reading: Reading, document: Mapping[str, Any], where: str, row: ModelType, given: Mapping[str, Any]
) -> Reading:
    """The part as a reading; that of a file which is read as another type is so too."""
    outer = reading.document
    if isinstance(outer, Told) and not isinstance(document, Told):
        document = Told(document, where, row, outer.all_of)
    return Reading(document, where, row, given, preset=reading.preset)


def _assumed_part(
    reading: Reading, given: dict[str, Any], where: str, kept: Mapping[str, Any], context: Context
) -> Reading:
    """A part of a type that is not known, read as the one that the caller says."""
    name, assume = given["model_type"], context.options.assume
    if assume is None:
        whole = reading.document if isinstance(reading.document, Told) else None
        raise unknown_type(pointer(where, "model_type"), name, within="" if whole is None else whole.row.name)
    said = f"{pointer(where, 'model_type')} {echo(name)} is not known: {where} is read by the keys alone, as {assume}"
    row = model_type(assume)
    return Reading(Told(given, where, row, context.told, said), where, row, kept, preset=reading.preset)


def _passed_down(reading: Reading, key: str) -> dict[str, Any]:
    """What the whole tells a part: numbers."""
    told = reading.type.rule.get("passes", {}).get(key, {})
    values = {name: reading.integer(own) for name, own in told.items()}
    return {name: value.value for name, value in values.items() if value is not None}


def _own_type(part: Mapping[str, Any], rule: Mapping[str, Any]) -> ModelType:
    """The type of a part that names none."""
    default = str(part["type"])
    return model_type(rule.get("retype", {}).get(default, default))


def _part_type(
    part: Mapping[str, Any], given: Mapping[str, Any], where: str, rule: Mapping[str, Any]
) -> ModelType | None:
    """The type of a part that may name one; None where that is not known."""
    name = given.get("model_type")
    if name is not None and not isinstance(name, str):
        raise Refusal(pointer(where, "model_type"), "type", f"model_type is {kind(name)}; a string is needed")
    if part.get("auto") and name:
        name = rule.get("retype", {}).get(name, name)
        return model_type(name) if known(name) else None
    return _own_type(part, rule)
