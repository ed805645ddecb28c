"""Which layers of a GGUF file's model slide, turn, or do not attend: what llama.cpp has in its code, by architecture.

A header may say more than its architecture's code assumes: `attention.sliding_window_pattern` is a period or a list by
layer, `attention.head_count_kv` has 0 for layers without attention.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from service.engine.errors import Refusal
from service.models.gguf_architectures import BOTH_WAYS, SWITCHED
from service.models.gguf_header import Header
from service.models.gguf_patterns import (
    ATTENDS,
    COMPRESSED,
    COMPRESSING,
    DRAFTING,
    LEADING,
    PATTERNS,
    STILL,
    Pattern,
)
from service.models.plan import Value
from service.models.reading import MOST_LAYERS, whole

# Whether a layer is of a kind, by its number and how many there are.
Rule = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Kind:
    """Layers that do the same: `layers` is None for all where the header does not count them."""

    label: str | None
    layers: tuple[int, ...] | None
    turns: bool = True
    pattern: Pattern | None = None
    compressed: bool = False
    both_ways: bool = False

    @property
    def slides(self) -> bool:
        return self.label in ("sliding_attention", "chunked_attention")

    @property
    def scaled(self) -> bool:
        return not self.slides or self.pattern is None or self.pattern.scaled


def kinds(header: Header) -> list[Kind]:
    """The kinds of layers of a header, those that slide first."""
    counted = layers_of(header)
    if header.type.name in COMPRESSED:
        return list(_compressed(header, counted))
    recurrent = _recurrent(header, counted)
    pattern = pattern_of(header)
    both = header.type.name in BOTH_WAYS or (pattern is not None and pattern.both_ways)
    slides = _never if pattern is None else _slides(header, pattern, counted)
    labelled = pattern is not None or bool(recurrent) or header.type.name in ATTENDS
    full = Kind("full_attention" if labelled else None, None, pattern=pattern, both_ways=both)
    sliding = replace(full, label=pattern.kind) if pattern is not None else full
    if counted is None:
        return _uncounted(header, sliding, full)
    still = _still(header, pattern, slides, counted)
    attending = [layer for layer in range(counted) if layer not in recurrent]
    found = []
    for slid, turned in product((True, False), (True, False)):
        layers = tuple(each for each in attending if (slides(each), not still(each)) == (slid, turned))
        found += [replace(sliding if slid else full, layers=layers, turns=turned)] if layers else []
    return [*found, *([Kind("linear_attention", tuple(recurrent), turns=False)] if recurrent else [])]


def _never(_layer: int) -> bool:
    return False


def _always(_layer: int) -> bool:
    return True


def layers_of(header: Header) -> int | None:
    """How many layers make the model, without those that predict further tokens."""
    counted = header.count("block_count")
    if counted is None:
        return None
    further = header.count("nextn_predict_layers", 0)
    if further is None:
        return int(whole(counted, 1, MOST_LAYERS).value)
    whole(further, 0, counted.value - 1)
    return int(whole(counted, 1, MOST_LAYERS).value - further.value)


def _uncounted(header: Header, sliding: Kind, full: Kind) -> list[Kind]:
    """The kinds that there are where nobody knows which layer is of which."""
    pattern = sliding.pattern
    turns = _turning(header) and not (header.type.name in STILL or (pattern is not None and pattern.still))
    first = replace(sliding, turns=_turning(header))
    return [first, replace(full, turns=turns)] if pattern is not None or not turns else [first]


def pattern_of(header: Header) -> Pattern | None:
    """The pattern of an architecture whose layers slide in turn, where this file's do."""
    name = header.type.name
    drafts = name == "dflash" and header.count("hyper_connection.count", 0)
    pattern = DRAFTING if drafts and drafts.value else PATTERNS.get(name)
    size = header.count("attention.sliding_window", 0)
    if pattern is None or (size is None and pattern.wanted) or (size is not None and size.value == 0):
        return None
    counted = layers_of(header)
    return None if pattern.depth is not None and counted not in (None, pattern.depth) else pattern


def _turning(header: Header) -> bool:
    """Whether anything turns: Granite's files say it by a key of another name."""
    switch = header.value("rope.scaling.finetuned") if header.type.name in SWITCHED else None
    return switch is None or switch.value is not False


def _still(header: Header, pattern: Pattern | None, slides: Rule, counted: int) -> Rule:
    """Which layers do not turn."""
    name = header.type.name
    if not _turning(header):
        return _always
    if name == "granite_swa":
        marks = _marks(header, "attention.rope_pattern", counted)
        return _never if marks is None else lambda layer: not marks[layer]
    if name in STILL:
        period, first = STILL[name]
        if pattern is None and name == "smallthinker":
            return _never
        if pattern is None and name == "llama4":
            period = counted
        return lambda layer: layer % period == (0 if first else period - 1)
    if pattern is None or not pattern.still:
        return _never
    leading = header.count("leading_dense_block_count", 0) if name in LEADING else None
    first_still = 0 if leading is None else leading.value
    return lambda layer: not slides(layer) and layer >= first_still


def _marks(header: Header, key: str, counted: int | None) -> list[bool] | None:
    """A list by layer of the header; llama.cpp reads further entries for the layers that predict further tokens."""
    given = header.value(key)
    if given is None or not isinstance(given.value, list):
        return None
    blocks = header.count("block_count")
    if counted is not None and blocks is not None and len(given.value) not in (counted, blocks.value):
        detail = f"{key} has {len(given.value)} entries for {counted} layers"
        raise Refusal(given.key, "shape", detail, limit=counted, requested=len(given.value))
    return [bool(each) for each in given.value]


def _recurrent(header: Header, counted: int | None) -> list[int]:
    """Layers without attention."""
    heads = header.value("attention.head_count_kv")
    if heads is not None and isinstance(heads.value, list) and 0 in heads.value:
        marks = _marks(header, "attention.head_count_kv", counted) or []
        return [layer for layer, attends in enumerate(marks[:counted]) if not attends]
    every = ATTENDS.get(header.type.name)
    if every is None or counted is None:
        return []
    listed = _marks(header, "attention.recurrent_layers", counted)
    if listed is not None:
        return [layer for layer in range(counted) if listed[layer]]
    interval = header.count("full_attention_interval")
    n = every if interval is None else interval.value
    return [layer for layer in range(counted) if (layer + 1) % n]


def _slides(header: Header, pattern: Pattern, counted: int | None) -> Rule:
    """Whether a layer slides: a list by layer of the header, else a period."""
    key = "attention.sliding_window_pattern"
    stated = header.value(key) if pattern.told else None
    marks = None if stated is None else _marks(header, key, counted)
    if marks is not None:
        return lambda layer: marks[layer]
    if pattern.period is None:
        full = f"{header.type.name}.{key}"
        said = "is missing" if stated is None else "is no list"
        detail = f"{full} {said}: llama.cpp reads there, layer by layer, which of them slide"
        raise Refusal(header.at(full), "missing" if stated is None else "type", detail)
    period = pattern.period if stated is None else whole(stated, 0, MOST_LAYERS).value
    if period == 0:
        return _always
    turn = 0 if pattern.full_first else period - 1
    return lambda layer: layer % period != turn


def _compressed(header: Header, counted: int | None) -> Iterator[Kind]:
    """Layers of DeepSeek V4, by how many tokens they make one of: those of none slide, with a base of their own."""
    key = "attention.compress_ratios"
    full = f"{header.type.name}.{key}"
    ratios: Value | None = header.value(key)
    if ratios is None or not isinstance(ratios.value, list):
        detail = f"{full} is missing, or no list: it has, layer by layer, how many tokens are made one"
        raise Refusal(header.at(full), "missing", detail)
    numbers = [whole(Value(each, "config", ratios.key), 0).value for each in ratios.value]
    if counted is not None and len(numbers) < counted:
        detail = f"{key} has {len(numbers)} entries for {counted} layers"
        raise Refusal(ratios.key, "shape", detail, limit=counted, requested=len(numbers))
    for ratio in sorted(set(numbers[:counted])):
        layers = tuple(layer for layer, each in enumerate(numbers[:counted]) if each == ratio)
        label = COMPRESSING.get(ratio, f"compressed_attention_{ratio}") if ratio else "sliding_attention"
        yield Kind(label, layers, pattern=DRAFTING, compressed=bool(ratio))
