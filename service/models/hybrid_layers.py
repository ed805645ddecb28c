"""Which layers attend among state-space layers and others: Jamba, Zamba, Nemotron-H, Kimi Linear.

Rules of `layer_rules`, named in `rules.json`; each follows the class of one family where the file lists no types.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from service.engine.errors import Refusal
from service.models.nearest import echo
from service.models.plan import Value
from service.models.reading import MOST_LAYERS, Reading, kind, pointer, whole

FULL, LINEAR, HYBRID = "full_attention", "linear_attention", "hybrid"


def _every(reading: Reading) -> tuple[int, int]:
    """Every how manieth layer attends, and which is the first."""
    period, offset = reading.needed("attn_layer_period"), reading.needed("attn_layer_offset", 0)
    return period.value, offset.value


def _jamba(reading: Reading, _rule: Mapping[str, Any]) -> list[str]:
    """By period and offset alone."""
    period, offset = _every(reading)
    if offset >= period:
        detail = f"attn_layer_offset is {offset} and attn_layer_period {period}: the first must be smaller"
        raise Refusal(reading.at("attn_layer_offset"), "conflict", detail)
    return [FULL if layer % period == offset else LINEAR for layer in range(reading.layers())]


def _zamba(reading: Reading, _rule: Mapping[str, Any]) -> list[str]:
    """Two state-space layers, one with attention, and then by period and offset, counted anew."""
    count, (period, offset) = reading.layers(), _every(reading)
    _refuse_count(reading, "layers_block_type", 3, count < 3)
    return [LINEAR, LINEAR, HYBRID, *(HYBRID if layer % period == offset else LINEAR for layer in range(count - 3))]


def _zamba2(reading: Reading, _rule: Mapping[str, Any]) -> list[str]:
    """The 54 layers that the class assumes."""
    m, h = LINEAR, HYBRID
    labels = [m, *([m] * 5 + [h]) * 7, *[m] * 4, h, *[m] * 3, h, m, m]
    _refuse_count(reading, "layers_block_type", len(labels), reading.layers() != len(labels))
    return labels


def _refuse_count(reading: Reading, key: str, entries: int, wrong: bool) -> None:
    if wrong:
        detail = (
            f"num_hidden_layers is {reading.layers()} and {key} is missing, for which {reading.type.name} assumes "
            f"{entries} entries: state {key}, an entry for each layer"
        )
        raise Refusal(reading.at("num_hidden_layers"), "conflict", detail, limit=entries, requested=reading.layers())


def refuse_other_count(reading: Reading, key: str, entries: int) -> None:
    """A list by layer that the class assumes, and that is longer or shorter than the layers of the file."""
    if not reading.has(key):
        _refuse_count(reading, key, entries, reading.layers() != entries)


def refuse_short_lists(reading: Reading, keys: Sequence[str], entries: int) -> None:
    """dots3.note's tower: experts by layer, in the first of these lists that the file has, else so many entries of the
    class; the numbers of `pyramid_num_routed` above 0 make rows of their own, of layers that must be there."""
    listed = next((found for key in keys if (found := reading.list_of(key)) is not None), None)
    count = reading.layers()
    if listed is None:
        _refuse_count(reading, keys[-1], entries, count != entries)
        return
    name, given = listed.key.rpartition("/")[2], listed.value
    routed = (
        [whole(Value(each, listed.source, f"{listed.key}/{at}"), -1).value for at, each in enumerate(given)]
        if (name == keys[0])
        else []
    )
    if len(given) < count or any(each > 0 for each in routed[count:]):
        detail = f"{name} has {len(given)} entries for {count} layers: one for each is needed"
        raise Refusal(listed.key, "shape", detail, limit=count, requested=len(given))


def refuse_other_ids(reading: Reading, labels: list[str]) -> None:
    """Zamba 2: `hybrid_layer_ids` of the file that are not those of the list of types, by which the class goes."""
    given = reading.list_of("hybrid_layer_ids")
    own = [layer for layer, label in enumerate(labels) if label == HYBRID]
    if given is not None and given.value != own:
        stated = "layers_block_type" if reading.says("layers_block_type") else "the list that the class assumes"
        detail = f"hybrid_layer_ids is {echo(given.value)}, and {stated} has hybrid layers {echo(own)}: the list counts"
        raise Refusal(given.key, "conflict", detail)


LETTERS: Mapping[str, str] = {"M": LINEAR, "E": "moe", "*": FULL, "-": "mlp"}


def _nemotron_h(reading: Reading, _rule: Mapping[str, Any]) -> list[str]:
    """A letter for each layer in `hybrid_override_pattern`; four layers where the file says nothing."""
    pattern = reading.text("hybrid_override_pattern")
    if pattern is None:
        return [LINEAR, "moe", FULL, "mlp"]
    if not 1 <= len(pattern.value) <= MOST_LAYERS:
        detail = f"hybrid_override_pattern has {len(pattern.value)} letters; 1 to {MOST_LAYERS} would do"
        raise Refusal(pattern.key, "shape", detail, limit=MOST_LAYERS, requested=len(pattern.value))
    odd = next((letter for letter in pattern.value if letter not in LETTERS), None)
    if odd is not None:
        raise Refusal(pattern.key, "choice", f"{echo(odd)} is no type of layer; known are {', '.join(LETTERS)}")
    return [LETTERS[letter] for letter in pattern.value]


def _kimi_linear(reading: Reading, _rule: Mapping[str, Any]) -> list[str]:
    """By two lists that count from 1, else every fourth layer but the first attends."""
    count, place = reading.layers(), reading.at("linear_attn_config")
    block = reading.object("linear_attn_config") or {}
    if not {"full_attn_layers", "kda_layers"} <= set(block):
        return [FULL if layer and layer % 4 == 0 else LINEAR for layer in range(count)]
    labels: dict[int, str] = {}
    for key, label in (("full_attn_layers", FULL), ("kda_layers", LINEAR)):
        for layer in _numbered(block[key], pointer(place, key), count):
            labels[layer - 1] = label
    missing = [layer for layer in range(count) if layer not in labels]
    if missing:
        detail = f"layer {missing[0] + 1} is in neither full_attn_layers nor kda_layers, which count from 1"
        raise Refusal(place, "conflict", detail)
    return [labels[layer] for layer in range(count)]


def _numbered(listed: Any, place: str, count: int) -> list[int]:
    """Numbers of layers, counted from 1."""
    if not isinstance(listed, list) or len(listed) > MOST_LAYERS:
        raise Refusal(place, "type", f"a list of at most {MOST_LAYERS} layers is needed, and this is {kind(listed)}")
    return [whole(Value(each, "config", f"{place}/{at}"), 1, count).value for at, each in enumerate(listed)]


HYBRIDS: Mapping[str, Callable[[Reading, Mapping[str, Any]], list[str]]] = {
    "jamba": _jamba,
    "zamba": _zamba,
    "zamba2": _zamba2,
    "nemotron-h": _nemotron_h,
    "kimi-linear": _kimi_linear,
}
