"""Kinds of layers that older files list by other keys than `layer_types`: MiniMax-M3's flags, UltraBERT's windows.

Rules of `layer_rules`, named in `rules.json`; each follows the class of one family where the file lists no types.
"""

from collections.abc import Callable, Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.plan import Value
from service.models.reading import Reading, kind, pointer, whole

FULL, SLIDING = "full_attention", "sliding_attention"
BLOCK, FLAGS, WINDOWS = "sparse_attention_config", "sparse_attention_freq", "attention_windows"


def _minimax_m3(reading: Reading, _rule: Mapping[str, Any]) -> list[str]:
    """A flag for each layer within `sparse_attention_config`: sparse where it is set; full without the list."""
    count, block = reading.layers(), reading.object(BLOCK) or {}
    if FLAGS not in block:
        return [FULL] * count
    listed = _numbers(Value(block[FLAGS], "config", pointer(reading.at(BLOCK), FLAGS)), count, 1)
    return ["minimax_m3_sparse" if flag else FULL for flag in listed]


def _ultrabert(reading: Reading, rule: Mapping[str, Any]) -> list[str]:
    """A window for each layer, 0 for none; else every third layer is full."""
    count, given = reading.layers(), reading.list_of(WINDOWS)
    if given is None:
        return [SLIDING if (layer + 1) % rule["n"] else FULL for layer in range(count)]
    return [SLIDING if window else FULL for window in _numbers(given, count)]


def window_of_list(reading: Reading) -> Value | None:
    """The window that all of UltraBERT's layers get: the first in its list that is one; None without such a list."""
    given = reading.list_of(WINDOWS) if reading.type.rule.get("layers", {}).get("rule") == "ultrabert" else None
    if given is None:
        return None
    listed = _numbers(given, reading.layers())
    place = next((place for place, window in enumerate(listed) if window), None)
    return None if place is None else Value(listed[place], "config", f"{given.key}/{place}")


def _numbers(given: Value, count: int, high: int = 2**31 - 1) -> list[int]:
    """An entry for each layer."""
    name = given.key.rpartition("/")[2]
    if not isinstance(given.value, list):
        raise Refusal(given.key, "type", f"{name} is {kind(given.value)}; a list is needed")
    if len(given.value) != count:
        detail = f"{name} has {len(given.value)} entries for {count} layers: one for each is needed"
        raise Refusal(given.key, "shape", detail, limit=count, requested=len(given.value))
    entries = enumerate(given.value)
    return [
        int(each) if isinstance(each, bool) else whole(Value(each, "config", f"{given.key}/{at}"), 0, high).value
        for at, each in entries
    ]


LISTED: Mapping[str, Callable[[Reading, Mapping[str, Any]], list[str]]] = {
    "minimax-m3": _minimax_m3,
    "ultrabert": _ultrabert,
}
