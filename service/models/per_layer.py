"""What a file says of single layers: `per_layer_config`, as transformers 5 writes it beside the keys of all layers.

Keys are numbers of layers, with zeros in front or without; what an entry says stands for that layer alone. Classes that
have such entries of their own, where the file has none, are told by `rules.json`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from service.engine.errors import Refusal
from service.models.nearest import echo
from service.models.plan import Value
from service.models.reading import Reading, kind, pointer

Entry = Mapping[str, Value]

KEY = "per_layer_config"
# What changes the positions of a layer: the rest is about experts, widths of MLPs, heads of keys.
WIDTHS = ("head_dim", "hidden_size", "num_attention_heads", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
TAKEN = (*WIDTHS, "sliding_window")
WORDS_OF_ROPE = ("rope", "rotary", "layer_type")


def entries(reading: Reading, labels: Sequence[str] | None, count: int) -> dict[int, Entry]:
    """By layer: the keys that are its own."""
    given = reading.object(KEY)
    if given is None:
        return _of_the_class(reading, labels)
    found: dict[int, Entry] = {}
    for name, entry in given.items():
        where = pointer(reading.at(KEY), str(name))
        if not str(name).isdecimal() or int(str(name)[:9]) >= count:
            raise Refusal(where, "out_of_range", f"{echo(name)} is no layer: they are 0 to {count - 1}")
        if not isinstance(entry, Mapping):
            raise Refusal(where, "type", f"{name} is {kind(entry)}; a JSON object is needed")
        for key in entry:
            if any(word in str(key) for word in WORDS_OF_ROPE):
                detail = f"{echo(key)} for a single layer is not read here: state it for its type of layer"
                raise Refusal(pointer(where, str(key)), "unsupported", detail)
        found[int(name)] = {key: Value(entry[key], "config", pointer(where, key)) for key in TAKEN if key in entry}
    return found


def _of_the_class(reading: Reading, labels: Sequence[str] | None) -> dict[int, Entry]:
    """NeoMME: every second of the layers that slide sees farther, whatever `sliding_window` says."""
    farther = reading.type.rule.get("second_window")
    if farther is None or labels is None:
        return {}
    sliding = [layer for layer, label in enumerate(labels) if label == "sliding_attention"]
    said = Value(farther, "class default", reading.at(KEY))
    return {layer: {"sliding_window": said} for layer in sliding[1::2]}


def of_layer(reading: Reading, entry: Entry) -> Reading:
    """The configuration as that layer reads it."""
    return replace(reading, fixed={**reading.fixed, **entry}) if entry else reading


def same(entry: Entry, label: str | None) -> tuple[tuple[str, object], ...]:
    """What tells layers of one type apart: their windows and widths."""
    seen = {key: value for key, value in entry.items() if key != "sliding_window" or label == "sliding_attention"}
    return tuple((key, repr(value.value)) for key, value in seen.items())
