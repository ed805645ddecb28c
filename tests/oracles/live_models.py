"""Rotary modules of transformers, built from a configuration, and what they compute."""

import importlib
import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import library

Array = NDArray[Any]


@dataclass
class Module:
    """A rotary module, and the configuration it was built from."""

    config: Any
    module: Any
    labels: tuple[str, ...] = ()

    def frequencies(self) -> dict[str | None, Array]:
        """Inverse frequencies by label of layers."""
        found: dict[str | None, Array] = {}
        for name, tensor in self.module.named_buffers():
            if name.endswith("inv_freq") and "original" not in name:
                found[name.removesuffix("inv_freq").rstrip("_") or None] = tensor.detach().float().numpy()
        return found

    def factor(self, label: str | None) -> float:
        name = "attention_scaling" if label is None else f"{label}_attention_scaling"
        return float(getattr(self.module, name, 1.0))

    def tables(self, label: str | None, positions: Array, widths: tuple[int, ...]) -> tuple[Array, Array] | None:
        """Cosines and sines of one of these widths; None where the module answers in another way."""
        torch = library("torch")
        x = torch.zeros(1, 1, 1, 8)
        takes = inspect.signature(self.module.forward).parameters
        more = {"layer_type": label} if label is not None and "layer_type" in takes else {}
        for at in shapes(positions):
            try:
                answer = self.module(x, torch.tensor(at), **more)
            except (IndexError, RuntimeError, TypeError, ValueError):
                continue
            if not isinstance(answer, tuple):
                answer = answer.real, answer.imag
            tables = [np.asarray(table.detach().float().numpy()).reshape(-1, table.shape[-1]) for table in answer]
            if tables[0].shape[0] == len(positions) and tables[0].shape[1] in widths:
                return tables[0], tables[1]
        return None


def shapes(positions: Array) -> Iterator[Array]:
    """One position a token, and alike on two or three axes, as modules take them."""
    yield positions[None]
    yield np.broadcast_to(positions, (3, 1, len(positions))).copy()
    yield positions[:, None].repeat(2, 1)
    yield positions[:, None].repeat(3, 1)
    yield positions[None, :, None].repeat(2, 2)


@dataclass(frozen=True)
class Known:
    """A configuration class and the rotary class that takes it."""

    config: Any
    rotary: Any
    defaults: dict[str, Any] = field(default_factory=dict)

    def build(self, **given: Any) -> Module:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = self.config(**given)
            return Module(config, self.rotary(config))


def rotary_classes() -> dict[str, Known]:
    """By model type: the class that makes its rotary tables, by the configuration it is annotated with."""
    configs = library("transformers").CONFIG_MAPPING
    found: dict[str, Known] = {}
    for name in sorted(configs):
        config = configs[name]
        place = config.__module__.replace(".configuration_", ".modeling_")
        try:
            owner = importlib.import_module(place)
        except ImportError:
            continue
        for rotary_name, rotary in vars(owner).items():
            if not inspect.isclass(rotary) or rotary.__module__ != owner.__name__:
                continue
            if not rotary_name.endswith(("RotaryEmbedding", "RopePositionEmbedding", "RotaryPositionalEmbedding")):
                continue
            stated = list(inspect.signature(rotary.__init__).parameters.values())[1:2]
            names = str(stated[0].annotation) if stated else ""
            if stated and (stated[0].annotation is config or config.__name__ in names.replace("|", " ").split()):
                for model_type, own in _takers(name, config):
                    found.setdefault(model_type, Known(own, rotary))
    return found


def _takers(name: str, config: Any) -> Iterator[tuple[str, Any]]:
    """The type, or where a whole model's configuration is annotated the parts that have RoPE of their own."""
    parts = [part for key, part in config.sub_configs.items() if "vision" not in key and hasattr(part, "model_type")]
    turning = [part for part in parts if "rope_parameters" in part.__dataclass_fields__ and part.model_type]
    if ("rope_parameters" in config.__dataclass_fields__ and name != "blt") or not config.sub_configs:
        yield name, config
    elif turning:
        yield from ((part.model_type, part) for part in turning)
    else:
        for part in parts:
            if part.sub_configs and part.model_type:
                yield from _takers(part.model_type, part)
