"""A configuration as a typed, located object: every value knows the JSON Pointer it stands at.

A key that the file does not have takes the default of the model's class. Wrong types, sizes out of range and keys that
contradict each other are refused with their pointers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Any

from service.engine.errors import Refusal
from service.models.known import ModelType, llama_cpp, vllm
from service.models.nearest import echo
from service.models.plan import Value
from service.models.told import Told

MOST = 2**31 - 1
MOST_LAYERS = 4096
LARGEST = 2**1023
# Names of older families, where a class does not map them itself.
OLDER: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "n_embed", "dim"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "max_position_embeddings": ("n_positions", "n_ctx", "seq_length", "max_seq_len", "max_sequence_length"),
    "head_dim": ("kv_channels",),
}


def pointer(where: str, key: str) -> str:
    """The pointer of a key within an object.

    >>> pointer("/text_config", "a/b")
    '/text_config/a~1b'
    """
    return f"{where}/{key.replace('~', '~0').replace('/', '~1')}"


def kind(value: object) -> str:
    names = {type(None): "null", bool: "a truth value", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


@dataclass(frozen=True)
class Reading:
    """One object of a configuration, read as the class of a model type reads it."""

    document: Mapping[str, Any]
    where: str
    type: ModelType
    given: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Value] = field(default_factory=dict)
    preset: str = ""

    @property
    def vllm(self) -> Mapping[str, Any] | None:
        """What vLLM's own class of this type does differently; None where another preset is asked for, or there is no
        such class."""
        if self.preset != "vllm" or self.type.name not in vllm()["own"]:
            return None
        found: Mapping[str, Any] = vllm()["types"].get(self.type.name, {})
        return found

    @property
    def llama_cpp(self) -> Mapping[str, Any] | None:
        """What llama.cpp's converter does with this type; None for another preset, or a type without a class there."""
        found: Mapping[str, Any] | None = llama_cpp().get(self.type.name) if self.preset == "llama.cpp" else None
        return found

    def has(self, key: str) -> bool:
        return key in self.document

    def at(self, key: str) -> str:
        return pointer(self.where, key)

    def names_of(self, key: str) -> list[str]:
        """The key, and the names by which the file may call it."""
        real = self.type.aliases.get(key, key)
        mapped = [alias for alias, name in self.type.aliases.items() if name == real]
        return list(dict.fromkeys([key, real, *mapped]))

    def find(self, key: str) -> Value | None:
        """What the file says, or the class: None where neither knows the key. JSON's null is a value."""
        if key in self.fixed:
            return self.fixed[key]
        found = [(name, self.document[name]) for name in self.names_of(key) if name in self.document]
        if found:
            self._refuse_two_values(found)
            return Value(found[0][1], "config", self.at(found[0][0]))
        for table in (self.given, self.type.fields):
            for name in self.names_of(key):
                if name in table:
                    return self._of_the_class(key, name, table[name])
        return self._older(key)

    def _of_the_class(self, key: str, name: str, value: Any) -> Value:
        """A default of the class; of a type that is only assumed, an older name of the file comes first."""
        if isinstance(self.document, Told):
            older = self._older(key)
            if older is not None:
                return older
            self.document.take(self.at(name), name, value)
        return Value(value, "class default", self.at(name))

    def says(self, key: str) -> bool:
        """Whether the file itself has the key, by any of its names."""
        return any(name in self.document for name in (*self.names_of(key), *OLDER.get(key, ())))

    def older(self, word: str) -> str | None:
        """The key by which the code of a repository's own calls a thing, where a file is only assumed to be of the
        type: the class of transformers reads no such key."""
        key = self.type.rule.get("older", {}).get(word) if isinstance(self.document, Told) else None
        return key if key is not None and self.document.get(key) is not None else None

    def _older(self, key: str) -> Value | None:
        """What an older family calls the same thing, where the class knows no such key."""
        for name in OLDER.get(key, ()):
            if name in self.document:
                return Value(self.document[name], "config", self.at(name))
        return None

    def _refuse_two_values(self, found: list[tuple[str, Any]]) -> None:
        (first, value), *others = found
        for name, other in others:
            if other != value and None not in (other, value):
                detail = (
                    f"{first} is {echo(value)} and {name} is {echo(other)}: they are two names of one thing; "
                    "leave one of them out"
                )
                raise Refusal(self.at(name), "conflict", detail)

    def integer(self, key: str, low: int = 1, high: int = MOST) -> Value | None:
        """A whole number within bounds; None where there is none, or null."""
        value = self.find(key)
        return None if value is None or value.value is None else whole(value, low, high)

    def needed(self, key: str, low: int = 1, high: int = MOST) -> Value:
        value = self.integer(key, low, high)
        if value is None:
            detail = f"{key} is missing: {self.type.name} cannot do without it"
            raise Refusal(self.at(key), "missing", detail)
        return value

    def number(self, key: str) -> Value | None:
        value = self.find(key)
        return None if value is None or value.value is None else numeric(value)

    def text(self, key: str) -> Value | None:
        value = self.find(key)
        if value is None or value.value is None:
            return None
        if not isinstance(value.value, str):
            raise Refusal(value.key, "type", f"{key} is {kind(value.value)}; a string is needed")
        return value

    def flag(self, key: str) -> bool:
        """A truth value; false where there is none, or null."""
        value = self.find(key)
        if value is None or value.value is None:
            return False
        if not isinstance(value.value, bool):
            raise Refusal(value.key, "type", f"{key} is {kind(value.value)}; true or false is needed")
        return value.value

    def object(self, key: str) -> Mapping[str, Any] | None:
        """A JSON object of the file itself; None where there is none, or null."""
        value = self.document.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Refusal(self.at(key), "type", f"{key} is {kind(value)}; a JSON object is needed")
        return value

    def layers(self) -> int:
        """How many layers there are."""
        return int((self.counted() or self.needed("num_hidden_layers", 1, MOST_LAYERS)).value)

    def counted(self) -> Value | None:
        """The layers that the file counts; a class may keep the number under a name of its own once it is built."""
        own = self.type.rule.get("layer_count")
        found = self.integer(own, 1, MOST_LAYERS) if own else None
        found = found or self.integer("num_hidden_layers", 1, MOST_LAYERS)
        passes = (self.llama_cpp or {}).get("passes")
        if passes is None or found is None:
            return found
        stated = [self.integer(key, 1, MOST_LAYERS) for key in passes]
        high, low = (own.value if own else usual for own, usual in zip(stated, passes.values(), strict=True))
        return whole(found.replaced(found.value * high * (low + 1)), 1, MOST_LAYERS)

    def list_of(self, key: str) -> Value | None:
        """A list; None where there is none, or null."""
        value = self.find(key)
        if value is None or value.value is None:
            return None
        entries = value.value
        if not isinstance(entries, list):
            raise Refusal(value.key, "type", f"{key} is {kind(entries)}; a list is needed")
        return value


def name_of(value: Value) -> str:
    """What a message calls it: the key, or the place in a list of that key.

    >>> name_of(Value(1, "config", "/rope_scaling/short_factor/3"))
    'entry 3 of short_factor'
    """
    above, _, name = value.key.rpartition("/")
    return f"entry {name} of {above.rpartition('/')[2]}" if name.isdecimal() and above else name


def whole(value: Value, low: int = 1, high: int = MOST) -> Value:
    """The value if it is a whole number within bounds."""
    given = value.value
    name = name_of(value)
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int):
        detail = f"{name} is {kind(given)} ({echo(given)}); a whole number is needed"
        raise Refusal(value.key, "type", detail)
    if not low <= given <= high:
        detail = f"{name} is {echo(given)}; it must be at least {low} and at most {high}"
        raise Refusal(value.key, "out_of_range", detail, limit=low if given < low else high)
    return Value(given, value.source, value.key)


def numeric(value: Value) -> Value:
    """The value if it is a number."""
    given = value.value
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise Refusal(value.key, "type", f"{name_of(value)} is {kind(given)} ({echo(given)}); a number is needed")
    if isinstance(given, float) and not isfinite(given):
        detail = f"{name_of(value)} is {'NaN' if isnan(given) else 'infinite'}; a finite number is needed"
        raise Refusal(value.key, "out_of_range", detail)
    if abs(given) > LARGEST:
        raise Refusal(value.key, "out_of_range", f"{name_of(value)} is {echo(given)}; it is too large for float64")
    return value


def real(value: Value) -> Value:
    """The value as a number of one spelling: 10000 and 10000.0 are one base.

    >>> real(Value(10000, "config", "/rope_theta")).value
    10000.0
    """
    given = value.value
    return Value(float(given), value.source, value.key) if type(given) is int and abs(given) <= EXACT else value


EXACT = 2**53
