"""What a caller wants of a plan, and what a family of models is told besides the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from service.models.told import Told

Preset = Literal["transformers-5.24", "vllm", "llama.cpp"]
PRESETS: tuple[Preset, ...] = ("transformers-5.24", "vllm", "llama.cpp")


@dataclass(frozen=True, slots=True)
class Options:
    """`assume`: the model type to read a configuration by whose own is not known; `preset`: whose behaviour;
    `length`: how many positions the addresses ask for."""

    assume: str | None = None
    preset: Preset = "transformers-5.24"
    length: int = 128


@dataclass(frozen=True, slots=True)
class Context:
    """The options; of the part of the model that is being read its role and what the whole does with it; the objects
    that are read as another type."""

    options: Options
    role: str = "text-attention"
    whole: Mapping[str, Any] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)

    @property
    def length(self) -> str:
        return str(self.options.length)
