"""The answer: for each use of positions in a model the scheme, its parameters with their origin, and addresses.

    Plan
    └── Use                one place where positions enter: the attention of some layers, a table added to tokens, ...
        ├── Value          a parameter, and where it came from
        ├── Window         which keys a query may see, where that is limited
        └── Address        a request to this service that answers with what the model computes

>>> plan = Plan(model_type="llama", preset="transformers-5.24", uses=(), notes=())
>>> plan.document()["uses"]
[]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Source = Literal["config", "class default", "rewritten"]


@dataclass(frozen=True, slots=True)
class Value:
    """A parameter and where it came from: `key` is the JSON Pointer of the configuration's key that decides it.

    `config`: the file says so; `class default`: the file says nothing, the model's code does; `rewritten`: it was
    computed from other keys, of which `key` names the first.
    """

    value: Any
    source: Source
    key: str

    def document(self) -> dict[str, Any]:
        return {"value": self.value, "source": self.source, "key": self.key}

    def replaced(self, value: Any) -> "Value":
        """Another value that follows from this one."""
        return Value(value, "rewritten", self.key)

    def within(self, config: Mapping[str, Any]) -> "Value":
        """The same, whose origin is the class where what it was computed from is no key of the file."""
        stated = self.source != "rewritten" or not self.key or _has(config, self.key)
        return self if stated else Value(self.value, "class default", self.key)


def _has(config: Any, pointer: str) -> bool:
    """Whether a file has what a JSON Pointer leads to."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(config, list) and key.isdecimal() and int(key) < len(config):
            config = config[int(key)]
        elif isinstance(config, Mapping) and key in config:
            config = config[key]
        else:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Address:
    """A request to this service."""

    href: str
    method: Literal["GET", "POST"] = "GET"
    body: Mapping[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        request: dict[str, Any] = {"method": self.method, "href": self.href}
        return request if self.body is None else request | {"body": dict(self.body)}


@dataclass(frozen=True, slots=True)
class Window:
    """Which keys a query sees: `sliding` the last `size`, itself included; `chunked` those of its chunk of `size`;
    `bidirectional` `size` on either side, or `ahead` on the later one."""

    kind: Literal["sliding", "chunked", "bidirectional"]
    size: int
    ahead: int | None = None

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": self.size} | ({} if self.ahead is None else {"ahead": self.ahead})


@dataclass(frozen=True, kw_only=True)
class Use:
    """One place where positions enter, or where they do not (`encoding` is `none`)."""

    role: str
    scope: str
    model_type: str
    encoding: str
    scheme: tuple[str, str] | None = None
    layer_type: str | None = None
    layers: tuple[int, ...] | None = None
    parameters: Mapping[str, Value] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    window: Window | None = None
    addresses: Mapping[str, Address] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "scope": self.scope,
            "model_type": self.model_type,
            "layer_type": self.layer_type,
            "layers": None if self.layers is None else list(self.layers),
            "encoding": self.encoding,
            "scheme": None if self.scheme is None else "/".join(self.scheme),
            "parameters": {name: value.document() for name, value in self.parameters.items()},
            "facts": dict(self.facts),
            "window": None if self.window is None else self.window.document(),
            "notes": list(self.notes),
            "addresses": {name: address.document() for name, address in self.addresses.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything positional about a model."""

    model_type: str
    preset: str
    uses: tuple[Use, ...]
    notes: tuple[str, ...] = ()
    assumed: str | None = None

    def document(self) -> dict[str, Any]:
        """The plan as JSON has it."""
        return {
            "model_type": self.model_type,
            "assumed": self.assumed,
            "preset": self.preset,
            "uses": [use.document() for use in self.uses],
            "notes": list(self.notes),
        }
