"""Kinds of layers by the keys of older files: the list that each class makes of them, against the plan."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import resolve
from service.models.known import known
from tests.golden.make_model_facts import all_types

pytestmark = pytest.mark.oracle

LAYERS = 6
FLAGS = [0, 1, 1, 1, 0, 1]
SLIDES = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}
# Keys by which some class says which layer is of which kind, with values for six layers.
SPELLINGS: tuple[Mapping[str, Any], ...] = (
    *({"sliding_window_pattern": n, **more} for n in (1, 2, 3) for more in ({}, SLIDES)),
    *({"full_attention_interval": n} for n in (2, 3)),
    *({"global_attn_every_n_layers": n} for n in (2, 3)),
    *({"layer_group_size": n} for n in (2, 3)),
    *({"no_rope_layer_interval": n} for n in (2, 3)),
    *({"use_sliding_window": flag} for flag in (True, False)),
    *({"use_dsa": flag} for flag in (True, False)),
    *({"attention_chunk_size": size} for size in (None, 8)),
    *({"sliding_window": size} for size in (None, 8)),
    *({"attention_windows": list(sizes)} for sizes in ((0, 8, 8, 0, 8, 8), (5, 8, 8, 0, 8, 8))),
    {"attn_layer_indices": [0, 2]},
    {"attn_layer_period": 3},
    {"attn_layer_offset": 1},
    {"block_types": ["recurrent", "attention"]},
    {"compress_ratios": [0, 4, 128] * 2},
    {"first_k_dense_replace": 2},
    {"full_attn_idxs": [1, 4]},
    {"hybrid_override_pattern": "M-M*-E"},
    {"layers_block_type": ["mamba", "attention"] * 3},
    {"layers_block_type": ["linear_attention", "hybrid"] * 3},
    {"linear_attn_config": {"full_attn_layers": [2, 5], "kda_layers": [1, 3, 4, 6]}},
    {"max_window_layers": 2},
    {"no_rope_layers": [1, 0] * 3},
    {"num_kv_shared_layers": 2},
    {"num_nextn_predict_layers": 1},
    {"prefix_dense_sliding_window_pattern": 2, "first_k_dense_replace": 3},
    {"sparse_attention_config": {"sparse_attention_freq": FLAGS, "sparse_topk_blocks": 4, "sparse_block_size": 64}},
    {"sparse_attention_config": {}},
    SLIDES,
)
OLDER: Mapping[str, tuple[str, ...]] = {
    "full_attention": ("attention",),
    "linear_attention": ("mamba",),
    "indexed_attention": ("deepseek_sparse_attention", "qwen_sparse_attention", "full_attention"),
}


# Their RoPE block must name the kinds of layers, which these files do not.
CANNOT_TURN = ("cohere_compass_text",)


def made(cls: Any, given: Mapping[str, Any]) -> list[str] | None:
    """The kinds of layers that the class makes; None where it fails, or has none."""
    try:
        found = getattr(cls(**json.loads(json.dumps(given))), "layer_types", None)
    except Exception:  # whatever stops the library
        return None
    return list(found) if found else None


def planned(name: str, given: Mapping[str, Any]) -> list[str | None]:
    uses = [use for use in resolve({"model_type": name, **given}).uses if use.scope == ""]
    found = {layer: use.layer_type for use in uses for layer in use.layers or ()}
    return [found[layer] for layer in sorted(found)]


@lru_cache(maxsize=1)
def classes() -> dict[str, Any]:
    """Every class that has kinds of layers, by the type that a file names."""
    found = {name: cls for name, cls in all_types().items() if known(name)}
    return {name: cls for name, cls in found.items() if hasattr(cls, "layer_types") or "layer_types" in vars(cls)}


def cases(cls: Any) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Keys that change what the class makes, and older names of what it makes without them."""
    plain = made(cls, {"num_hidden_layers": LAYERS})
    for spelling in SPELLINGS:
        given = {"num_hidden_layers": LAYERS, **spelling}
        theirs = made(cls, given)
        if theirs is not None and theirs != plain:
            yield given, theirs
    for newer, names in OLDER.items():
        for older in names if newer in (plain or ()) else ():
            labels = [older if label == newer else label for label in plain or ()]
            given = {"num_hidden_layers": LAYERS, "layer_types": labels}
            theirs = made(cls, given)
            if theirs is not None:
                yield given, theirs


def test_older_spellings_make_the_same_layers() -> None:
    compared, kinds = 0, set[str]()
    for name, cls in classes().items():
        for given, theirs in cases(cls):
            ours = None if name in CANNOT_TURN else planned(name, given)
            if not ours:  # a plan that tells no kinds of layers apart
                continue
            compared += 1
            kinds.update(key for key in given if key != "num_hidden_layers")
            assert ours == theirs, (name, given)
    print(f"{compared} spellings of {len(kinds)} keys")
    assert compared >= 120
    assert kinds >= {"sparse_attention_config", "attention_windows", "compress_ratios", "layer_types", "use_dsa"}


@pytest.mark.parametrize("name", ["bamba", "falcon_h1", "jamba", "recurrent_gemma"])
@pytest.mark.parametrize("key", ["layer_types", "layers_block_type"])
@pytest.mark.parametrize("value", [None, ["linear_attention", "full_attention"] * 3])
def test_lists_that_a_class_cannot_be_given(name: str, key: str, value: Any) -> None:
    given = {"num_hidden_layers": LAYERS, key: value}
    with pytest.raises(AttributeError, match="no setter"):
        all_types()[name](**given)
    with pytest.raises(Refusal, match=key):
        resolve({"model_type": name, **given})
