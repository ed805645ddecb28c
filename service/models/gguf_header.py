"""The keys of a GGUF header, read as those of one architecture."""

from collections.abc import Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.gguf_architectures import DEFAULT_BASE
from service.models.known import ModelType
from service.models.plan import Use, Value
from service.models.reading import Reading, numeric, whole

# Keys whose value may be a list by layer.
BY_LAYER = ("attention.head_count", "attention.head_count_kv")


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


def use_of(header: Header, encoding: str, **more: Any) -> Use:
    given = {"role": "text-attention", "scope": header.where, "model_type": header.type.name, "encoding": encoding}
    return Use(**(given | more))
