"""A scheme asked for several types of layer at once: the tensors of each, by its name and their own.

    full_attention.cos, full_attention.sin, sliding_attention.cos, sliding_attention.sin

Models whose layers differ (Gemma 3: a base for local and a base for global attention) have one set of parameters for
each type. What a scheme answers to each of them apart, it answers here together.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pydantic import SerializeAsAny

from service.engine.errors import Refusal
from service.engine.scheme import Array, Facts, Inputs, Params, Scheme, Tensors, no_sequence

MOST_LAYERS = 16


class Layered(Params):
    """The parameters of each type of layer, and the types that have no encoding."""

    layers: dict[str, SerializeAsAny[Params]]
    without: tuple[str, ...] = ()


@contextmanager
def _about(layer: str) -> Iterator[None]:
    """Refusals say which type of layer they are about."""
    try:
        yield
    except Refusal as refusal:
        (fault,) = refusal.faults
        detail = f"{layer}: {fault.detail}"
        raise Refusal(
            fault.parameter, fault.code, detail, limit=fault.limit, requested=fault.requested, layer=layer
        ) from None


def layered(scheme: Scheme[Any, Any]) -> Scheme[Layered, dict[str, Any]]:
    """The scheme with `Layered` parameters.

    >>> from service.engine import by_key
    >>> rope = by_key("encodings", "rope")
    >>> layers = {name: rope.params(length=2, dim=4, base=base) for name, base in (("local", 1e4), ("global", 1e6))}
    >>> list(layered(rope).tensors(Layered(layers=layers), {}))
    ['local.cos', 'local.sin', 'global.cos', 'global.sin']
    """

    def tensors(params: Layered, inputs: Inputs) -> Tensors:
        found: Tensors = {}
        for layer, own in params.layers.items():
            with _about(layer):
                found |= {f"{layer}.{name}": tensor for name, tensor in scheme.tensors(own, inputs).items()}
        return found

    def prepare(params: Layered, inputs: Inputs) -> dict[str, Any]:
        return {layer: scheme.prepare(own, inputs) for layer, own in params.layers.items()}

    def rows(params: Layered, inputs: Inputs, state: dict[str, Any], tensor: str, start: int, stop: int) -> Array:
        layer, _, name = tensor.rpartition(".")
        return scheme.rows(params.layers[layer], inputs, state[layer], name, start, stop)

    def facts(params: Layered, inputs: Inputs) -> Facts:
        layers: Any = {layer: scheme.facts(own, inputs) for layer, own in params.layers.items()}
        return {"layers": layers}

    def notes(params: Layered, inputs: Inputs) -> list[str]:
        said = [f"{layer}: {note}" for layer, own in params.layers.items() for note in scheme.notes(own, inputs)]
        return said + [f"{layer} is null: those layers have no encoding" for layer in params.without]

    def resolve(params: Layered, inputs: Inputs) -> Layered:
        whole = {layer: scheme.resolve(own, inputs) for layer, own in params.layers.items()}
        return params.model_copy(update={"layers": whole})

    def state_bytes(params: Layered, inputs: Inputs) -> int:
        return sum(scheme.state_bytes(own, inputs) for own in params.layers.values())

    return replace(
        scheme,
        params=Layered,
        tensors=tensors,
        prepare=prepare,
        rows=rows,
        facts=facts,
        notes=notes,
        resolve=resolve,
        state_bytes=state_bytes,
        sequence=no_sequence,
        together=None,
    )
