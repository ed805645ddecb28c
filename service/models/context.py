"""What a caller wants of a plan, and what a family of models is told besides the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
    """The options, and of the part of the model that is being read its role and what the whole does with it."""

    options: Options
    role: str = "text-attention"
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def length(self) -> str:
        return str(self.options.length)
