"""The kinds of layers of a model, and which layers are of which kind.

`layer_types` of the file wins; where it is missing, the model's class follows a rule, which `rules.json` names:

- `every`: layer i is `on` where (i + 1) % n == 0 (`phase` last) or i % n == 0 (`phase` first), else `off`;
- `all`: one kind; `from`: sliding from `max_window_layers` on (Qwen); `cycle`: a list that repeats;
- `no-rope`: by `no_rope_layers`, whose 1 means that a layer does turn.
"""

from collections.abc import Callable, Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.nearest import echo, nearest
from service.models.reading import Reading, kind
from service.models.plan import Value

Rule = Mapping[str, Any]
FULL, SLIDING = "full_attention", "sliding_attention"
KNOWN = (
    FULL,
    SLIDING,
    "chunked_attention",
    "linear_attention",
    "conv",
    "mamba",
    "attention",
    "hybrid",
    "hybrid_sliding",
    "indexed_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
    "reference_sliding_attention",
    "window_attention",
    "minimax_m3_sparse",
    "recurrent",
    "moe",
    "mlp",
)
# What older files call them.
RENAMED: Mapping[str, str] = {"attention": FULL, "mamba": "linear_attention", "mamba2": "linear_attention"}
# Layers without attention: nothing turns there.
WITHOUT_ATTENTION = ("linear_attention", "conv", "recurrent", "moe", "mlp")


def layer_types(reading: Reading) -> list[str] | None:
    """The kind of every layer; None where the model has one kind."""
    rule: Rule | None = reading.type.rule.get("layers")
    key = rule.get("key_of_types", "layer_types") if rule else "layer_types"
    stated = _stated(reading, key, rule)
    if stated is not None:
        return _mended(stated, rule)
    if rule is None or "rule" not in rule:
        return None
    return _mended(RULES[rule["rule"]](reading, rule), rule)


def _mended(labels: list[str], rule: Rule | None) -> list[str]:
    if rule and "last" in rule and labels:
        return [*labels[:-1], rule["last"]]
    return labels


def _stated(reading: Reading, key: str, rule: Rule | None) -> list[str] | None:
    if rule and rule.get("ignored"):
        return None
    stated = reading.list_of(key, None)
    if stated is None:
        return None
    count = reading.layers() if (rule or {}).get("counted", True) else None
    if count is not None and len(stated.value) != count:
        detail = (
            f"{key} has {len(stated.value)} entries and num_hidden_layers is {count}: one for each layer is needed"
        )
        raise Refusal(stated.key, "shape", detail, limit=count, requested=len(stated.value))
    return [_label(stated, place, each) for place, each in enumerate(stated.value)]


def _label(stated: Value, place: int, label: object) -> str:
    where = f"{stated.key}/{place}"
    if not isinstance(label, str):
        raise Refusal(where, "type", f"a type of layer is {kind(label)}; a string is needed")
    if label not in KNOWN and label not in RENAMED:
        near = nearest(label, KNOWN, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(KNOWN)}"
        raise Refusal(where, "choice", f"{echo(label)} is no type of layer{hint}")
    return RENAMED.get(label, label)


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


def _from(reading: Reading, rule: Rule) -> list[str]:  # noqa: ARG001
    if not _slides(reading):
        return [FULL] * reading.layers()
    first = reading.integer("max_window_layers", 0)
    return [SLIDING if layer >= (first.value if first else 0) else FULL for layer in range(reading.layers())]


def _slides(reading: Reading) -> bool:
    used = reading.find("use_sliding_window")
    return (used is None or reading.flag("use_sliding_window")) and reading.integer("sliding_window", 0) is not None


def _alternate_until(reading: Reading, rule: Rule) -> list[str]:  # noqa: ARG001
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
    listed = reading.list_of(rule["key"], None)
    chosen = range(count) if listed is None else listed.value
    return [rule["on"] if layer in chosen else rule["off"] for layer in range(count)]


def _chunked(reading: Reading, rule: Rule) -> list[str]:  # noqa: ARG001
    """Llama 4: layers that turn are chunked."""
    chunk = reading.integer("attention_chunk_size")
    return ["chunked_attention" if turns and chunk else FULL for turns in turning(reading) or []]


def _unturned_slide(reading: Reading, rule: Rule) -> list[str]:  # noqa: ARG001
    """SmolLM3: layers that do not turn slide, if any do."""
    slides = reading.flag("use_sliding_window") and reading.integer("sliding_window", 0) is not None
    return [SLIDING if slides and not turns else FULL for turns in turning(reading) or []]


def _from_end(reading: Reading, rule: Rule) -> list[str]:
    count, n = reading.layers(), rule["n"]
    return [FULL if (count - 1 - layer) % n == 0 else SLIDING for layer in range(count)]


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
}


def turning(reading: Reading) -> list[bool] | None:
    """Which layers turn queries and keys, of models that have a list of them; None where all do.

    The list is called `no_rope_layers`, and its 1 means that a layer does turn.
    """
    rule: Rule | None = reading.type.rule.get("no_rope")
    if rule is None:
        return None
    count = reading.layers()
    listed = reading.list_of("no_rope_layers", None)
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
