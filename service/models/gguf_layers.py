"""Which layers of a GGUF file's model slide, turn, or do not attend: what llama.cpp has in its code, by architecture.

A header may say more than its architecture's code assumes: `attention.sliding_window_pattern` is a period or a list by
layer, `attention.head_count_kv` has 0 for layers without attention.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.gguf_header import Header
from service.models.plan import Address, Value, Window
from service.models.reading import MOST_LAYERS, whole


@dataclass(frozen=True, slots=True)
class Pattern:
    """How kinds of layers take turns: every `period`-th is full, the last of a period or the first (`full_first`).

    `wanted`: there are no sliding layers unless the header names a window. `local`: sliding layers have a base of their
    own, 10000 unless `rope.freq_base_swa` says more, and no scaling. `unturned`: full layers do not turn.
    """

    period: int
    full_first: bool = False
    wanted: bool = True
    local: bool = False
    unscaled: bool = False
    unturned: bool = False
    kind: str = "sliding_attention"
    window: int | None = None
    both_ways: bool = False


PATTERNS: Mapping[str, Pattern] = {
    "afmoe": Pattern(4, unturned=True),
    "cohere2": Pattern(4, wanted=False, unturned=True),
    "cohere2moe": Pattern(4, full_first=True, wanted=False, unturned=True),
    "exaone-moe": Pattern(4, unturned=True),
    "exaone4": Pattern(4, unturned=True),
    "gemma-embedding": Pattern(6, wanted=False, local=True, unscaled=True, both_ways=True),
    "gemma2": Pattern(2, wanted=False, window=4096),
    "gemma3": Pattern(6, wanted=False, local=True, unscaled=True),
    "gemma3n": Pattern(5, wanted=False, local=True, unscaled=True),
    "gemma4": Pattern(6, wanted=False, local=True, unscaled=True),
    "gpt-oss": Pattern(2, wanted=False),
    "llama4": Pattern(4, wanted=False, unturned=True, kind="chunked_attention", window=8192),
    "modern-bert": Pattern(3, full_first=True, local=True, unscaled=True, both_ways=True),
    "olmo2": Pattern(4, unscaled=True),
    "smallthinker": Pattern(4, full_first=True, unturned=True, window=4096),
}
# Those of which only the header says which layers slide.
STATED = ("laguna", "mellum", "mimo2", "plamo3", "step35")
# Every n-th layer does not turn; all see everything.
UNTURNED = {"smollm3": 4}
# Whose first layers, those that are no mixture of experts, turn though they see everything.
LEADING = ("cohere2moe",)
# Every n-th layer attends, the others are recurrent.
ATTENDS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}


@dataclass(frozen=True, slots=True)
class Kind:
    """Layers that do the same: None for all where the header does not count them."""

    label: str | None
    layers: tuple[int, ...] | None
    turns: bool = True
    local: bool = False
    scaled: bool = True
    both_ways: bool = False


def kinds(header: Header) -> list[Kind]:
    """The kinds of layers of a header, those that slide first."""
    name, counted = header.type.name, header.count("block_count")
    if counted is not None and counted.value > MOST_LAYERS:
        whole(counted, 1, MOST_LAYERS)
    recurrent = _recurrent(header, counted)
    if recurrent is not None and counted is not None:
        attending = [layer for layer in range(counted.value) if layer not in recurrent]
        found = [Kind("full_attention", tuple(attending))] if attending else []
        return [*found, Kind("linear_attention", tuple(recurrent), turns=False)] if recurrent else found
    if name in UNTURNED:
        return _split(counted, lambda layer: (layer + 1) % UNTURNED[name] != 0, Pattern(4, unturned=True), None)
    pattern = PATTERNS.get(name)
    stated = header.value("attention.sliding_window_pattern")
    if pattern is None and stated is not None and name in STATED:
        pattern = Pattern(0)
    if pattern is None or (pattern.wanted and _window_size(header) is None):
        return [Kind(None, None if counted is None else tuple(range(counted.value)))]
    found = _split(counted, _slides(stated, pattern, counted), pattern, pattern.kind)
    return _with_leading(header, found) if name in LEADING else found


def _with_leading(header: Header, found: list[Kind]) -> list[Kind]:
    """The kinds, of which full layers among the first turn all the same."""
    first = header.count("leading_dense_block_count", 0)
    if first is None:
        return found
    kinds_of: list[Kind] = []
    for kind in found:
        turned = () if kind.turns or kind.layers is None else tuple(n for n in kind.layers if n < first.value)
        still = kind.layers if kind.layers is None else tuple(n for n in kind.layers if n not in turned)
        kinds_of += [replace(kind, layers=turned, turns=True)] if turned else []
        kinds_of += [replace(kind, layers=still)] if still != () else []
    return kinds_of


def _recurrent(header: Header, counted: Value | None) -> list[int] | None:
    """Layers without attention; None where the architecture has none, or the header does not say."""
    heads = header.value("attention.head_count_kv")
    if heads is not None and isinstance(heads.value, list) and 0 in heads.value:
        if counted is not None and len(heads.value) != counted.value:
            detail = f"attention.head_count_kv has {len(heads.value)} entries for {counted.value} layers"
            raise Refusal(heads.key, "shape", detail, limit=counted.value, requested=len(heads.value))
        return [layer for layer, each in enumerate(heads.value) if each == 0]
    every = ATTENDS.get(header.type.name)
    if every is None or counted is None:
        return None
    interval = header.count("full_attention_interval")
    n = every if interval is None else interval.value
    return [layer for layer in range(counted.value) if (layer + 1) % n]


def _slides(stated: Value | None, pattern: Pattern, counted: Value | None) -> Callable[[int], bool]:
    """Whether a layer slides: a list by layer of the header, else a period."""
    if stated is not None and isinstance(stated.value, list):
        marks = stated.value
        if counted is not None and len(marks) != counted.value:
            detail = f"attention.sliding_window_pattern has {len(marks)} entries for {counted.value} layers"
            raise Refusal(stated.key, "shape", detail, limit=counted.value, requested=len(marks))
        return lambda layer: bool(marks[layer])
    period = pattern.period if stated is None else whole(stated, 0, MOST_LAYERS).value
    if period == 0:
        return lambda _layer: True
    full = 0 if pattern.full_first else period - 1
    return lambda layer: layer % period != full


def _split(counted: Value | None, slides: Callable[[int], bool], pattern: Pattern, label: str | None) -> list[Kind]:
    """Layers that slide, and the others."""
    often = rare = None
    if counted is not None:
        often = tuple(layer for layer in range(counted.value) if slides(layer))
        rare = tuple(layer for layer in range(counted.value) if not slides(layer))
    both = pattern.both_ways
    turning = Kind(label, often, local=pattern.local, scaled=not pattern.unscaled, both_ways=both)
    others = Kind(label and "full_attention", rare, turns=not pattern.unturned, both_ways=both)
    return [each for each in (turning, others) if each.layers != ()]


def _window_size(header: Header) -> Value | None:
    size = header.count("attention.sliding_window", 0)
    return None if size is None or size.value == 0 else size


def window_of(header: Header, kind: Kind) -> tuple[Window | None, Value | None]:
    """The window of a kind of layers, and where its size comes from."""
    pattern = PATTERNS.get(header.type.name)
    if kind.label not in ("sliding_attention", "chunked_attention"):
        return None, None
    key = "attention.chunk_size" if kind.label == "chunked_attention" else "attention.sliding_window"
    size = header.count(key)
    if size is None and pattern is not None and pattern.window is not None:
        size = header.code(pattern.window)
    if size is None:
        return None, None
    if kind.label == "chunked_attention":
        return Window("chunked", size.value), size
    if kind.both_ways:
        size = size.replaced(size.value // 2)
        return Window("bidirectional", size.value), size
    return Window("sliding", size.value), size


def mask_of(header: Header, kind: Kind, context: Context) -> Address:
    """The mask of llama.cpp: causal unless the header says `attention.causal` false."""
    window, size = window_of(header, kind)
    causal = header.value("attention.causal")
    if window is None or size is None:
        if kind.both_ways or (causal is not None and causal.value is False):
            return Address(f"/v1/masks/padding?length={context.length}&revision=1", "POST")
        return ask("masks", "causal", {}, length=context.length).address()
    if window.kind == "chunked":
        return ask("masks", "chunked", {"chunk_size": size}, length=context.length).address()
    if window.kind == "bidirectional":
        more = {"counting": "flash-left", "direction": "bidirectional", "length": context.length}
        return ask("masks", "sliding", {"window": size}, **more).address()
    return ask("masks", "sliding", {"window": size}, length=context.length).address()
