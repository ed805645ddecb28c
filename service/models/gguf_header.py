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
        if found is not None and key in BY_LAYER and isinstance(found.value, list) and found.value:
            found = Value(
                max(found.value, key=lambda each: each if isinstance(each, int) else 0), found.source, found.key
            )
        return None if found is None else whole(found, low)

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


def use_of(header: Header, encoding: str, **more: Any) -> Use:
    given = {"role": "text-attention", "scope": header.where, "model_type": header.type.name, "encoding": encoding}
    return Use(**(given | more))
