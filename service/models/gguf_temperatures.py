"""Factors on queries that grow with the position, of the architectures whose code or header has them."""

from service.models.context import Context
from service.models.gguf_header import Header
from service.models.gguf_layers import Kind, pattern_of
from service.models.plan import Value
from service.models.temperatures import NONE, Found, answered

# Which key has the length of a step: llama.cpp takes the trained length for Mistral's.
LENGTHS = {
    "mistral3": ("rope.scaling.original_context_length", "context_length"),
    "deepseek2": ("attention.temperature_length",),
    "mistral4": ("attention.temperature_length",),
}


def temperature(header: Header, kind: Kind, context: Context) -> Found:
    """Facts, the address of the factors, and notes."""
    name = header.type.name
    if name == "llama4" and not kind.turns and pattern_of(header) is not None:
        found = {"schedule": "llama4", "floor_scale": 8192, "attn_scale": 0.1}
        formula = "1 + attn_scale ln(1 + floor((p + 1) / floor_scale))"
        return answered({key: header.code(value) for key, value in found.items()}, context, formula)
    scale = header.real("attention.temperature_scale") if name in LENGTHS else None
    if scale is None or not scale.value:
        return NONE
    given = [each for each in map(header.count, LENGTHS[name]) if each is not None]
    length: Value = given[0] if given else header.wanted(LENGTHS[name][0])
    parameters = {"schedule": header.code("ministral3"), "floor_scale": length, "attn_scale": scale}
    return answered(parameters, context, "1 + attn_scale ln(1 + floor(p / floor_scale)), after the rotation")
