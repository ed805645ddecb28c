"""Which layers slide and turn in the files of llama.cpp's converter: what it writes of them, and llama.cpp's code."""

from collections.abc import Mapping, Sequence
from typing import Any

from service.models.gguf_header import Header
from service.models.gguf_layers import Kind, kinds
from service.models.gguf_patterns import PATTERNS, STILL
from service.models.layer_rules import FULL, turning
from service.models.layers import WITHOUT_ATTENTION
from service.models.reading import Reading

Layers = tuple[list[str] | None, list[bool] | None]
SLIDE = ("sliding_attention", "chunked_attention")


def in_file(reading: Reading, labels: Sequence[str] | None) -> Layers:
    """The kind of each layer, and whether it turns; None where all are alike."""
    row, count = reading.llama_cpp, len(labels) if labels is not None else reading.counted()
    stated = list(labels) if labels is not None else None
    if row is None:
        return stated, turning(reading)
    name = row["architecture"]
    if count is None or name not in (*PATTERNS, *STILL):
        return stated, None
    counted = count if isinstance(count, int) else count.value
    found: dict[int, Kind] = {}
    for kind in kinds(_header(reading, row, stated, counted)):
        found |= dict.fromkeys(kind.layers or (), kind)
    turns = [found[layer].turns for layer in range(counted)]
    if stated is None and not any(kind.slides for kind in found.values()):
        return None, turns
    return [_label(found[layer], stated[layer] if stated else FULL) for layer in range(counted)], turns


def _header(reading: Reading, row: Mapping[str, Any], labels: list[str] | None, counted: int) -> Header:
    """What the file says of its layers."""
    name, told = row["architecture"], row.get("told")
    document: dict[str, object] = {f"{name}.block_count": counted}
    size = reading.integer(reading.type.rule.get("window", "sliding_window"), 0)
    off = bool(reading.type.rule.get("window_if")) and not reading.flag(reading.type.rule["window_if"])
    if name == "llama4":
        if labels is not None and all(label == FULL for label in labels):
            document[f"{name}.attention.sliding_window"] = 0
    elif size is not None and size.value and not off and not row.get("windowless"):
        document[f"{name}.attention.sliding_window"] = size.value
    pattern = f"{name}.attention.sliding_window_pattern"
    if told is True:
        document[pattern] = [label in SLIDE for label in labels or [FULL] * counted]
    elif told and (period := reading.integer(told, 0)) is not None:
        document[pattern] = period.value
    return Header(document, "", name)


def _label(kind: Kind, stated: str) -> str:
    """The kind of a layer by the name that the configuration has for it."""
    if stated in WITHOUT_ATTENTION or kind.slides == (stated in SLIDE):
        return stated
    return str(kind.label) if kind.slides else FULL
