"""What is known of every model type: two tables, one read from transformers by a script, one kept by hand.

`transformers.json` has a row for each configuration class: its fields and their defaults, other names of fields, the
configurations within. `rules.json` has a row for what cannot be read there: the order of layer types, how pairs turn.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from service.models.nearest import nearest


@dataclass(frozen=True, slots=True)
class ModelType:
    """A row of both tables."""

    name: str
    fields: Mapping[str, Any]
    aliases: Mapping[str, str]
    parts: Mapping[str, Mapping[str, Any]]
    theta: Any
    rope_type: str
    labels: tuple[str, ...]
    rotary: str
    rule: Mapping[str, Any]
    backbone: bool = False
    nullable: tuple[str, ...] = ()


@lru_cache(maxsize=6)
def _table(name: str) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((files("service.models.facts") / f"{name}.json").read_text("utf-8"))
    return content


@lru_cache(maxsize=1)
def rules() -> Mapping[str, Any]:
    """The table kept by hand."""
    return _table("rules")


@lru_cache(maxsize=1)
def roles() -> Mapping[str, str]:
    """What a type is for, where neither a key nor its sizes say so."""
    return {name: role for role, types in rules()["roles"].items() for name in types}


def vllm() -> Mapping[str, Any]:
    """What was read in vLLM's code: the types that it has a class of its own for, and what is different there."""
    return _table("vllm")


def llama_cpp() -> Mapping[str, Mapping[str, Any]]:
    """What llama.cpp's converter makes of each type that it has a class for."""
    found: Mapping[str, Mapping[str, Any]] = _table("llama_cpp")["types"]
    return found


def rotation(name: str) -> Mapping[str, Any]:
    """How a type turns pairs; that of the type whose code it runs."""
    measured = _table("rotations")["types"]
    found: Mapping[str, Any] = measured.get(name) or measured.get(_rule(name).get("like", ""), {})
    return found


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """Every model type that has a row."""
    return tuple(sorted(name for name in _table("transformers")["types"] if known(name)))


def known(name: str) -> bool:
    """Whether a file may name the type: not a part without a name of its own, and not code of a repository's own."""
    row = _table("transformers")["types"].get(name)
    return row is not None and not row.get("nameless")


@lru_cache(maxsize=1)
def assumable() -> tuple[str, ...]:
    """What a configuration can be read as: every known type, and families whose code transformers does not have."""
    own = (name for name, rule in rules()["types"].items() if rule.get("remote"))
    return tuple(sorted([*names(), *own]))


# What repositories with code of their own called a family before transformers had it, or call a copy of one.
CALLED: Mapping[str, str] = {
    "refinedweb": "falcon",
    "refinedwebmodel": "falcon",
    "phi-msft": "phi",
    "mixformer-sequential": "phi",
    "rw": "falcon",
    "xverse": "llama",
}
CLASS = re.compile(r"(For[A-Z]\w*|LMHeadModel|PreTrainedModel|Model)$")


def nearest_types(name: str) -> list[str]:
    """Known model types that the name may mean: its kin by how it begins, then those that are spelt alike.

    >>> nearest_types("phi4mm"), nearest_types("lama")
    (['phi4_multimodal', 'phi4_multimodal_audio', 'phi4_multimodal_vision'], ['llama', 'mllama', 'llama4'])
    """
    plain = CLASS.sub("", name[:128])
    called = CALLED.get(plain.lower(), CALLED.get(name.lower()))
    if called is not None:
        return [called]
    return list(dict.fromkeys([*_kin(plain), *nearest(name, assumable())]))[:3]


def _kin(name: str) -> list[str]:
    """Known types that begin with the first word of the name, or that the name begins with; most in common first."""
    plain = _plain(name[:64])
    word = re.match("[a-z]*", re.split("[-_. ]", name.lower())[0])
    first = len(word.group()) if word is not None else 0
    found = []
    for each in assumable():
        other = _plain(each)
        common = next((at for at, pair in enumerate(zip(plain, other, strict=False)) if pair[0] != pair[1]), -1)
        common = min(len(plain), len(other)) if common < 0 else common
        if common >= max(first, 3) or (common == len(other) and common > 3):
            found.append((-common, common < len(other), abs(len(other) - len(plain)), each))
    return [each for _, _, _, each in sorted(found)]


def _plain(name: str) -> str:
    return re.sub("[-_. ]", "", name).lower()


def type_of_class(architecture: object) -> str | None:
    """The type whose class a file's `architectures` names.

    >>> type_of_class("DeepseekV3ForCausalLM"), type_of_class("MyModel")
    ('deepseek_v3', None)
    """
    if not isinstance(architecture, str):
        return None
    return _by_class().get(CLASS.sub("", architecture[:128]).lower()) if CLASS.search(architecture[:128]) else None


def type_of_config(name: object) -> str | None:
    """The type whose configuration class a file's `auto_map` names.

    >>> type_of_config("configuration_deepseek.DeepseekV3Config"), type_of_config("my.Config")
    ('deepseek_v3', None)
    """
    plain = name[:256].rpartition(".")[2] if isinstance(name, str) else ""
    return _by_class().get(plain.removesuffix("Config").lower()) if plain.endswith("Config") else None


@lru_cache(maxsize=1)
def _by_class() -> Mapping[str, str]:
    return {_plain(name): name for name in names()}


@lru_cache(maxsize=1024)
def model_type(name: str) -> ModelType:
    """The row of a known type.

    >>> model_type("llama").fields["hidden_size"], model_type("gpt2").aliases["hidden_size"]
    (4096, 'n_embd')
    """
    own = _rule(name)
    rows = _table("transformers")["types"]
    row = rows.get(name) or rows.get(own.get("like", ""), {})
    kin = rows.get(own.get("like", ""), {})
    rotary = (row.get("rotary") or kin.get("rotary") or [["", ""]])[0][1]
    return ModelType(
        name=name,
        fields=row.get("fields", {}) | own.get("fields", {}),
        aliases=row.get("aliases", {}) | own.get("aliases", {}),
        parts=row.get("parts", {}) | own.get("parts", {}),
        theta=row.get("theta", 10_000.0),
        rope_type=row.get("rope_type", "default"),
        labels=tuple(row.get("labels", ())),
        rotary=own.get("rotary", rotary),
        rule=own,
        backbone=bool(row.get("backbone")),
        nullable=tuple(row.get("nullable", ())),
    )


def _rule(name: str) -> dict[str, Any]:
    """The hand-kept row, over that of the type it is `like`."""
    own = dict(rules()["types"].get(name, {}))
    base = own.get("like")
    return _rule(base) | own if base else own
