"""DeepSeek V4: beside the keys of a window a query sees entries that each stand for many tokens further back."""

from collections.abc import Mapping
from typing import Any

from service.models.plan import Value
from service.models.reading import Reading, pointer, whole

SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
# What older files call the tokens of an entry, and what the class has.
OLDER: Mapping[str, str] = {SPARSE: "compress_rate_csa", HEAVY: "compress_rate_hca"}
RATES: Mapping[str, int] = {SPARSE: 4, HEAVY: 128}


def compressed(reading: Reading, label: str | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """How many tokens an entry of layers of this kind stands for, and which entries a query sees."""
    if label is None or label not in RATES:
        return {}, ()
    rate = _rate(reading, label).value
    facts = {"compress_rate": rate}
    also = f", and of the {rate} before," if label == SPARSE else ""
    said = (
        f"a query at position p sees, appended to the keys of its window, floor((p + 1) / {rate}) compressed entries: "
        f"entry i is made of the {rate} tokens from {rate} i on{also} and turns as position {rate} i"
    )
    of_mask = "the mask is that of the window"
    if label == HEAVY:
        return facts, (f"{said}; {of_mask}",)
    most = reading.needed("index_topk").value
    return {**facts, "index_topk": most}, (f"{said}; of these an indexer chooses {most} (index_topk); {of_mask}",)


def _rate(reading: Reading, label: str) -> Value:
    """The tokens of an entry: the older key by itself comes after the object that newer files have."""
    older = reading.integer(OLDER[label])
    if older is not None:
        return older
    given = (reading.object("compress_rates") or {}).get(label)
    if given is None:
        return Value(RATES[label], "class default", reading.at("compress_rates"))
    return whole(Value(given, "config", pointer(reading.at("compress_rates"), label)))
