"""Sparse attention: of the keys that a mask lets through a query sees those that an indexer chooses.

Which they are depends on the states, so that no mask of this service says it: the plan states how many, and how the
indexer's own queries and keys turn. `indexer` of `rules.json` has a row for each type with such layers.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.models.addresses import ask
from service.models.plan import Address, Value
from service.models.reading import Reading, pointer, whole

# What is chosen, and the keys that say how much of it.
CHOSEN: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "keys": ("the {} (index_topk) keys that an indexer scores highest", ("index_topk",)),
    "pools": (
        "{} (index_topk) keys in pools of {} (index_kpool) in a row, by an indexer's scores, and the keys behind the "
        "last whole pool unless index_kpool_always_select_tail is false",
        ("index_topk", "index_kpool"),
    ),
    "groups": (
        "{} (indexer_budget) keys in blocks of {} (indexer_compress_ratio) in a row, by an indexer's scores, and the "
        "keys behind the last whole block",
        ("indexer_budget", "indexer_compress_ratio"),
    ),
    "blocks": (
        "{} (index_topk_blocks) blocks of {} (index_block_size) keys, by an indexer's scores and for each head of keys "
        "anew; the last {} (index_local_blocks) up to its own are always among them",
        ("index_topk_blocks", "index_block_size", "index_local_blocks"),
    ),
}
# MiniMax-M3's published files have an object of older names, which come before the others.
BLOCK = "sparse_attention_config"
OLDER: Mapping[str, str] = {
    "index_head_dim": "sparse_index_dim",
    "index_block_size": "sparse_block_size",
    "index_topk_blocks": "sparse_topk_blocks",
    "index_local_blocks": "sparse_local_block",
}
SHARES = ("indexer_types", "index_topk_freq", "index_topk_pattern")
TURNS: Mapping[str, str] = {"half": "in halves", "interleaved": "in pairs of neighbours"}


def chosen(reading: Reading, label: str | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """How many keys the indexer of layers of this kind chooses; nothing where they have none."""
    row = _row(reading, label)
    if row is None or "chooses" not in row:
        return {}, ()
    words, keys = CHOSEN[row["chooses"]]
    facts = {key: found.value for key in keys if (found := _stated(reading, key, 0)) is not None}
    if len(facts) < len(keys):
        lacking = next(key for key in keys if key not in facts)
        return facts, (
            f"each query sees only the keys that an indexer chooses: {lacking} is not stated, without which "
            "transformers builds no such layer",
        )
    said = f"of what the mask lets through each query sees {words.format(*facts.values())}"
    shared = row.get("shares") and any(reading.document.get(key) is not None for key in SHARES)
    more = ("layers that indexer_types calls shared take the choice of the layer before",) if shared else ()
    return facts, (f"{said}: which they are depends on the states", *more)


def indexer(
    reading: Reading, label: str | None, parameters: Mapping[str, Value], width: Any
) -> tuple[dict[str, Address], tuple[str, ...]]:
    """How the indexer turns its own queries and keys: by the tables of its layer, `width` channels of another head."""
    row = _row(reading, label)
    if row is None or reading.vllm is not None or reading.preset == "llama.cpp":
        return {}, ()
    head = _stated(reading, row["width"], 1)
    if head is None:
        return {}, ()
    if head.value < width:
        return {}, (
            f"{row['width']} is {head.value}, and the indexer turns {width} channels by the tables of its layer: "
            "transformers fails on that",
        )
    code = Value("half", "class default", f"{reading.where}/model_type")
    turn = {name: value for name, value in parameters.items() if name not in ("dim", "partial_rotary_factor")}
    turn["rotary_dim"] = replace(parameters["dim"], value=width)
    own = row.get("pairing")
    if own is not None:
        turn["pairing"] = code.replaced(own)
        turn.pop("output_pairing", None)
    if row.get("channels") == "last":
        turn["rotary_channels"] = code.replaced("last")
    how = TURNS[str(turn["pairing"].value)]
    unlike = ", unlike the attention" if own not in (None, parameters["pairing"].value) else ""
    place = "last" if "rotary_channels" in turn else "first"
    said = f"the indexer turns the {place} {width} of its {head.value} ({row['width']}) channels {how}{unlike}"
    starts = f"; {row['keys']}" if "keys" in row else ""
    return {"indexer": ask("apply", "rope", turn).address()}, (f"{said}: the address indexer{starts}",)


def _row(reading: Reading, label: str | None) -> Mapping[str, Any] | None:
    row: Mapping[str, Any] | None = reading.type.rule.get("indexer")
    return row if row is not None and label == row["of"] else None


def _stated(reading: Reading, key: str, low: int) -> Value | None:
    """A number of the file, MiniMax-M3's within its object."""
    block = reading.object(BLOCK) if key in OLDER else None
    if block is not None and OLDER[key] in block:
        return whole(Value(block[OLDER[key]], "config", pointer(reading.at(BLOCK), OLDER[key])), low)
    return reading.integer(key, low)
