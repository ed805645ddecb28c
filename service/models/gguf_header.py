"""The keys of a GGUF header, read as those of one architecture."""

from collections.abc import Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.gguf_architectures import DEFAULT_BASE, KNOWN, READ_BY
from service.models.known import ModelType
from service.models.nearest import echo, nearest
from service.models.plan import Use, Value
from service.models.reading import Reading, numeric, whole

# Keys whose value may be a list by layer.
BY_LAYER = ("attention.head_count", "attention.head_count_kv")
# Keys of llama.cpp that speak of rotation, behind an architecture's name.
ROTARY = (
    "dimension_count",
    "dimension_count_swa",
    "dimension_sections",
    "freq_base",
    "freq_base_swa",
    "scale_linear",
    "scaling.type",
    "scaling.factor",
    "scaling.alpha",
    "scaling.attn_factor",
    "scaling.original_context_length",
    "scaling.finetuned",
    "scaling.yarn_log_multiplier",
    "scaling.yarn_ext_factor",
    "scaling.yarn_attn_factor",
    "scaling.yarn_beta_fast",
    "scaling.yarn_beta_slow",
)


class Header(Reading):
    """Keys of one architecture, without its name before them."""

    def __init__(self, document: Mapping[str, Any], where: str, name: str) -> None:
        row = ModelType(name, {}, {}, {}, DEFAULT_BASE, "default", (), "", {})
        super().__init__(document, where, row)

    def value(self, key: str) -> Value | None:
        full = f"{self.type.name}.{key}"
        if self.document.get(full) is None:
            return None
        return Value(self.document[full], "config", self.at(full))

    def count(self, key: str, low: int = 1) -> Value | None:
        found = self.value(key)
        if found is not None and key in BY_LAYER and isinstance(found.value, list):
            found = found.replaced(max(self.by_layer(found)))
        return None if found is None else whole(found, low)

    def by_layer(self, found: Value) -> list[int]:
        """Whole numbers, one for each block: llama.cpp loads no file with more or fewer."""
        entries, blocks = found.value, self.count("block_count")
        if blocks is not None and len(entries) != blocks.value:
            detail = (
                f"{found.key[1:]} has {len(entries)} entries, and block_count is {blocks.value}: one a layer is needed"
            )
            raise Refusal(found.key, "shape", detail, limit=blocks.value, requested=len(entries))
        if not entries:
            raise Refusal(found.key, "shape", f"{found.key[1:]} is an empty list; a number for each layer is needed")
        return [whole(Value(each, found.source, f"{found.key}/{at}"), 0).value for at, each in enumerate(entries)]

    def real(self, key: str) -> Value | None:
        found = self.value(key)
        return None if found is None else numeric(found)

    def wanted(self, key: str) -> Value:
        found = self.count(key)
        if found is None:
            full = f"{self.type.name}.{key}"
            raise Refusal(self.at(full), "missing", f"{full} is missing: the architecture cannot do without it")
        return found

    def code(self, value: Any) -> Value:
        """What llama.cpp has in its code for this architecture."""
        return Value(value, "class default", self.at("general.architecture"))


def unread(header: Header) -> list[str]:
    """Notes on keys of rotation that llama.cpp does not read; refuses one that is misspelt or of another architecture.

    llama.cpp passes over both in silence, and turns by what it assumes.
    """
    name = header.type.name
    notes: list[str] = []
    for full in header.document:
        of, _, key = str(full).partition(".rope.")
        if not key or (of == name and key in ROTARY) or of.startswith(f"{name}."):
            if of == name and name not in READ_BY.get(key, (name,)):
                notes.append(f"llama.cpp does not read {echo(full)} for this architecture")
            continue
        if of == name:
            near = nearest(key, ROTARY, 1) if len(notes) < MOST_COMPARED else []
            if near:
                detail = f"{echo(full)} is no key of llama.cpp; did you mean {name}.rope.{near[0]}?"
                raise Refusal(header.at(full), "unknown", detail)
        elif of in KNOWN and key in ROTARY and header.value(f"rope.{key}") is None:
            detail = f"{echo(full)} is of {of}, and general.architecture is {name}, which reads {name}.rope.{key}"
            raise Refusal(header.at(full), "conflict", detail)
        notes.append(f"{echo(full)} is read by nothing: the architecture is {name}")
    more = [f"{len(notes) - MOST_NOTES} more keys of rotation are read by nothing"] if len(notes) > MOST_NOTES else []
    return [*notes[:MOST_NOTES], *more]


# Keys that are held against the known ones, and those that are named.
MOST_COMPARED, MOST_NOTES = 64, 8


def refuse_other_prefix(header: Header) -> None:
    """Refuses a header whose keys are all of another architecture than it names: none of them would be read."""
    name = header.type.name
    prefixes = [str(key).partition(".")[0] for key in header.document if str(key) != "general.architecture"]
    other = next((each for each in prefixes if each != name and each in KNOWN), None)
    if other is not None and name not in prefixes:
        detail = f"general.architecture is {name}, whose keys begin with {name}., and the keys here are {other}.'s"
        raise Refusal(header.at("general.architecture"), "conflict", f"{detail}: one of the two is wrong")


def refuse_uneven_heads(header: Header) -> None:
    """Refuses heads that keys and values cannot be shared among; a layer of none has no attention."""
    found = [header.value(key) for key in BY_LAYER]
    if found[0] is None or found[1] is None:
        return
    lists = [
        header.by_layer(each) if isinstance(each.value, list) else [whole(each, 0).value] for each in found if each
    ]
    most = max(len(each) for each in lists)
    heads, shared = (each * most if len(each) == 1 else each for each in lists)
    for layer, (queries, keys) in enumerate(zip(heads, shared, strict=True)):
        if keys and queries % keys:
            at = f" of layer {layer}" if most > 1 else ""
            detail = (
                f"{queries} heads{at} cannot share {keys} heads of keys: head_count must be a multiple of head_count_kv"
            )
            raise Refusal(found[1].key, "conflict", detail)


def use_of(header: Header, encoding: str, **more: Any) -> Use:
    given = {"role": "text-attention", "scope": header.where, "model_type": header.type.name, "encoding": encoding}
    return Use(**(given | more))
