"""Which layers are of which kind where the file does not say: the rule of the model's class, named in `rules.json`.

- `every`: layer i is `on` where (i + 1) % n == 0 (`phase` last) or i % n == 0 (`phase` first), else `off`;
- `all`: one kind; `from`: sliding from `max_window_layers` on (Qwen); `cycle`: a list that repeats;
- others follow the code of one family, which their docstrings name.

Beside them `turning`: `no_rope_layers`, whose 1 means that a layer does turn.
"""

from collections.abc import Callable, Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.hybrid_layers import HYBRIDS
from service.models.listed_layers import LISTED
from service.models.nearest import echo
from service.models.plan import Value
from service.models.reading import MOST_LAYERS, Reading, numeric, whole

Rule = Mapping[str, Any]
FULL, SLIDING = "full_attention", "sliding_attention"


def turning(reading: Reading) -> list[bool] | None:
    """Which layers turn queries and keys, of models that have a list of them; None where all do.

    The list is called `no_rope_layers`, and its 1 means that a layer does turn.
    """
    rule: Rule | None = reading.type.rule.get("no_rope")
    if rule is None:
        return None
    count = reading.layers()
    if "bases" in rule:
        return _by_bases(reading, rule, count)
    listed = reading.list_of("no_rope_layers")
    if listed is not None and (listed.value or rule.get("empty") != "default"):
        if len(listed.value) != count:
            detail = f"no_rope_layers has {len(listed.value)} entries for {count} layers: one for each is needed"
            raise Refusal(listed.key, "shape", detail, limit=count, requested=len(listed.value))
        for place, each in enumerate(listed.value):
            if each not in (0, 1):
                raise Refusal(f"{listed.key}/{place}", "value", f"an entry is {echo(each)}; 0 or 1 would do")
        return [bool(each) for each in listed.value]
    interval = reading.integer("no_rope_layer_interval")
    n = interval.value if interval else 4
    return [(layer + 1) % n != 0 for layer in range(count)]


def _by_bases(reading: Reading, rule: Rule, count: int) -> list[bool]:
    """Muse Glimmer: a base for each layer, of which its model asks only whether it is 0; every n-th from the end is."""
    listed = reading.list_of(rule["bases"])
    if listed is None:
        return [(count - 1 - layer) % rule["n"] != 0 for layer in range(count)]
    if len(listed.value) < count:
        detail = f"{rule['bases']} has {len(listed.value)} entries for {count} layers: one for each is needed"
        raise Refusal(listed.key, "shape", detail, limit=count, requested=len(listed.value))
    bases = [numeric(Value(each, listed.source, f"{listed.key}/{at}")) for at, each in enumerate(listed.value[:count])]
    return [base.value != 0 for base in bases]


def _every(reading: Reading, rule: Rule) -> list[str]:
    n = rule.get("n", 1)
    if "key" in rule:
        given = reading.integer(rule["key"], 0)
        n = n if given is None else given.value
    first = rule.get("phase") == "first"
    on, off = rule.get("on", FULL), rule.get("off", SLIDING)
    if n == 0:
        raise Refusal(reading.at(rule["key"]), "out_of_range", f"{rule['key']} is 0; 1 or more would do", limit=1)
    return [on if (layer if first else layer + 1) % n == 0 else off for layer in range(reading.layers())]


def _all(reading: Reading, rule: Rule) -> list[str]:
    label = rule.get("on", FULL)
    if "key" in rule:  # sliding where the file has a window
        window = reading.integer(rule["key"], 0)
        label = rule["on"] if window is not None else rule["off"]
    return [label] * reading.layers()


def _from(reading: Reading, _rule: Rule) -> list[str]:
    if not _slides(reading):
        return [FULL] * reading.layers()
    first = reading.integer("max_window_layers", 0)
    return [SLIDING if layer >= (first.value if first else 0) else FULL for layer in range(reading.layers())]


def _slides(reading: Reading) -> bool:
    used = reading.find("use_sliding_window")
    return (used is None or reading.flag("use_sliding_window")) and reading.integer("sliding_window", 0) is not None


def _alternate_until(reading: Reading, _rule: Rule) -> list[str]:
    """Qwen2-MoE: even layers below `max_window_layers` slide, if any do."""
    last = reading.integer("max_window_layers", 0)
    slides = reading.flag("use_sliding_window")
    return [
        SLIDING if slides and (layer + 1) % 2 and layer < (last.value if last else 0) else FULL
        for layer in range(reading.layers())
    ]


def _cycle(reading: Reading, rule: Rule) -> list[str]:
    labels = rule["of"]
    return [labels[layer % len(labels)] for layer in range(reading.layers())]


def _list(reading: Reading, rule: Rule) -> list[str]:
    """Layers listed by number are `on`, others `off`."""
    count = reading.layers()
    listed = reading.list_of(rule["key"])
    chosen = (() if rule.get("none") == "off" else range(count)) if listed is None else numbers_of(listed)
    return [rule["on"] if layer in chosen else rule["off"] for layer in range(count)]


def numbers_of(listed: Value) -> list[int]:
    """The entries of a list of layers: whole numbers from 0."""
    if len(listed.value) > MOST_LAYERS:
        detail = f"{listed.key.rpartition('/')[2]} has {len(listed.value)} entries; {MOST_LAYERS} at most"
        raise Refusal(listed.key, "shape", detail, limit=MOST_LAYERS, requested=len(listed.value))
    entries = enumerate(listed.value)
    return [whole(Value(each, listed.source, f"{listed.key}/{place}"), 0, MOST_LAYERS).value for place, each in entries]


def _chunked(reading: Reading, _rule: Rule) -> list[str]:
    """Llama 4: layers that turn are chunked."""
    chunk = reading.integer("attention_chunk_size")
    return ["chunked_attention" if turns and chunk else FULL for turns in turning(reading) or []]


def _unturned_slide(reading: Reading, _rule: Rule) -> list[str]:
    """SmolLM3: layers that do not turn slide, if any do."""
    slides = reading.flag("use_sliding_window") and reading.integer("sliding_window", 0) is not None
    return [SLIDING if slides and not turns else FULL for turns in turning(reading) or []]


def _from_end(reading: Reading, rule: Rule) -> list[str]:
    count, n = reading.layers(), rule["n"]
    return [FULL if (count - 1 - layer) % n == 0 else SLIDING for layer in range(count)]


def _mimo(reading: Reading, _rule: Rule) -> list[str]:
    """MiMo V2 Flash: the first layer is full too."""
    return [FULL if layer == 0 or (layer + 1) % 6 == 0 else SLIDING for layer in range(reading.layers())]


COMPRESSED = {0: SLIDING, 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


def _deepseek_v4(reading: Reading, _rule: Rule) -> list[str]:
    """By `compress_ratios`, else two heavily compressed layers, and then in turn."""
    count = reading.layers()
    ratios = reading.list_of("compress_ratios")
    if ratios is None:
        turns = [
            "compressed_sparse_attention" if layer % 2 else "heavily_compressed_attention" for layer in range(count)
        ]
        return (["heavily_compressed_attention"] * 2 + turns)[:count]
    for place, ratio in enumerate(ratios.value):
        if isinstance(ratio, bool) or not isinstance(ratio, int) or ratio not in COMPRESSED:
            raise Refusal(f"{ratios.key}/{place}", "choice", f"a ratio is {echo(ratio)}; 0, 4 and 128 are known")
    if len(ratios.value) < count:
        detail = f"compress_ratios has {len(ratios.value)} entries for {count} layers: one for each is needed"
        raise Refusal(ratios.key, "shape", detail, limit=count, requested=len(ratios.value))
    return [COMPRESSED[ratio] for ratio in ratios.value[:count]]


def _exaone(reading: Reading, _rule: Rule) -> list[str]:
    """EXAONE 4: every `sliding_window_pattern`-th layer is full; without a window all are."""
    if reading.integer("sliding_window", 0) is None:
        return [FULL] * reading.layers()
    pattern = reading.find("sliding_window_pattern")
    n = 4 if pattern is None else pattern.value
    if pattern is not None and isinstance(n, str):
        odd = next((letter for letter in n if letter not in "LG"), None)
        if odd is not None or not n:
            raise Refusal(pattern.key, "choice", f"sliding_window_pattern is {echo(n)!r}; letters L and G would do")
        # "LLLG": one letter a layer, G for global.
        return [FULL if n[layer % len(n)] == "G" else SLIDING for layer in range(reading.layers())]
    whole = reading.needed("sliding_window_pattern") if pattern is not None else Value(4, "class default", "")
    return [SLIDING if (layer + 1) % whole.value else FULL for layer in range(reading.layers())]


def failing(reading: Reading) -> list[str]:
    """What the class of EXAONE 4 fails on where the file has no `layer_types`, and the plan reads all the same."""
    rule = reading.type.rule.get("layers", {}).get("rule")
    if rule != "exaone4" or reading.vllm is not None or reading.document.get("layer_types") is not None:
        return []
    pattern = reading.find("sliding_window_pattern")
    if reading.integer("sliding_window", 0) is None:
        return ["transformers fails on sliding_window null without layer_types; the plan is of full attention"]
    if pattern is not None and isinstance(pattern.value, str):
        return [
            f"transformers fails on sliding_window_pattern {echo(pattern.value)} without layer_types; the plan reads "
            "a letter for each layer in turn, G for full attention"
        ]
    return []


def _prefixed(reading: Reading, _rule: Rule) -> list[str]:
    """Cohere 2 MoE: dense layers in front have a pattern of their own."""
    count = reading.layers()
    dense = reading.integer("first_k_dense_replace", 0)
    before = min(count, dense.value if dense else 0)
    first, rest = (reading.integer(key) for key in ("prefix_dense_sliding_window_pattern", "sliding_window_pattern"))
    ns = (first.value if first else 1, rest.value if rest else 4)
    front = [SLIDING if (layer + 1) % ns[0] else FULL for layer in range(before)]
    return front + [SLIDING if (layer + 1) % ns[1] else FULL for layer in range(count - before)]


def _any_from(reading: Reading, _rule: Rule) -> list[str]:
    """dots.llm1: sliding from `max_window_layers` on where there is a window, whatever `use_sliding_window` says."""
    first = reading.integer("max_window_layers", 0)
    slides = reading.integer("sliding_window", 0) is not None
    return [SLIDING if slides and layer >= (first.value if first else 0) else FULL for layer in range(reading.layers())]


def _blocks(reading: Reading, _rule: Rule) -> list[str]:
    """Recurrent Gemma: `block_types` in turn; attention is local."""
    blocks = reading.list_of("block_types")
    names = ["recurrent"] if blocks is None or not blocks.value else blocks.value
    for place, each in enumerate(names):
        if each not in ("recurrent", "attention"):
            where = f"{blocks.key}/{place}" if blocks is not None else reading.at("block_types")
            raise Refusal(where, "choice", f"a block is {echo(each)}; recurrent and attention are known")
    count = reading.layers()
    return ["linear_attention" if names[layer % len(names)] == "recurrent" else SLIDING for layer in range(count)]


def _flint(reading: Reading, _rule: Rule) -> list[str]:
    count = reading.layers()
    return [FULL if layer < 2 or layer % 4 == 1 or layer == count - 1 else SLIDING for layer in range(count)]


def _lfm3(reading: Reading, _rule: Rule) -> list[str]:
    kinds = {2: FULL, 0: SLIDING}
    return [kinds.get(layer % 4, "conv") if layer else "conv" for layer in range(reading.layers())]


def _dots3(reading: Reading, _rule: Rule) -> list[str]:
    """dots3.note: the first two layers and every fourth are full, unless none slides."""
    slides = reading.find("use_sliding_window")
    none_slides = slides is not None and not slides.value  # null is false
    return [FULL if none_slides or layer < 2 or layer % 4 == 1 else SLIDING for layer in range(reading.layers())]


RULES: Mapping[str, Callable[[Reading, Rule], list[str]]] = {
    "every": _every,
    "all": _all,
    "from": _from,
    "alternate-until": _alternate_until,
    "cycle": _cycle,
    "list": _list,
    "chunked": _chunked,
    "unturned-slide": _unturned_slide,
    "from-end": _from_end,
    "mimo": _mimo,
    "deepseek-v4": _deepseek_v4,
    "exaone4": _exaone,
    "cohere2-moe": _prefixed,
    "from-any": _any_from,
    "blocks": _blocks,
    "flint": _flint,
    "lfm3": _lfm3,
    "dots3": _dots3,
    **HYBRIDS,
    **LISTED,
}
