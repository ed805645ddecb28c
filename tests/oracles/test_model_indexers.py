"""Sparse attention of transformers, live: how its indexers turn their queries, and how many keys they choose."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_model_tables import classes, model_class
from tests.models.fixtures import resolved
from tests.oracles.live_models import Array
from tests.oracles.test_model_masks import SMALL, SPARSE, V4
from tests.oracles.test_model_uses import sent

pytestmark = pytest.mark.oracle

TOKENS, WIDTH = 14, 24  # no other array of these models is as wide as a head of the indexer
MLA = {
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 12,
    "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 2, "mlp_layer_types": ["dense"],
    "index_n_heads": 2, "index_head_dim": WIDTH, "index_topk": 5, "n_group": 1, "topk_group": 1,
    "layer_types": ["indexed_attention"],
}  # fmt: skip
QWEN = {
    "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": WIDTH, "indexer_budget": 4,
    "indexer_compress_ratio": 2, "layer_types": ["indexed_attention"], "num_experts": 2, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16, "ple_layer_ids": [],
    "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]},
}  # fmt: skip
MINIMAX = {
    "index_n_heads": 2, "index_head_dim": WIDTH, "index_block_size": 3, "index_topk_blocks": 2,
    "layer_types": ["minimax_m3_sparse"], "mlp_layer_types": ["dense"], "dense_intermediate_size": 16,
    "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5},
}  # fmt: skip
COMPRESSED = {**V4, "layer_types": [SPARSE], "index_head_dim": WIDTH}
TYPES: Mapping[str, Mapping[str, Any]] = {
    "axk2": MLA,
    "deepseek_v32": MLA,
    "deepseek_v4": COMPRESSED,
    "dots3_note_text": MLA,
    "glm_moe_dsa": MLA,
    "hy_v4": MLA,
    "hy_v4_vl_text": {**MLA, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1]}},
    "minimax_m3_vl_text": MINIMAX,
    "mistral_large4_text": {**MLA, "no_rope_layers": [1]},
    "qwen4_exp_text": QWEN,
}


def built(name: str) -> tuple[Any, dict[str, Any]]:
    """A model of one layer, and its configuration."""
    config_class = library("transformers").CONFIG_MAPPING[name]
    known = {*config_class.__dataclass_fields__, *getattr(config_class, "attribute_map", {})}
    given = {key: value for key, value in SMALL.items() if key in known and key != "sliding_window"}
    given |= {key: value for key, value in TYPES[name].items() if key in known or key == "no_rope_layers"}
    config = config_class(**json.loads(json.dumps(given)))
    config._attn_implementation = "eager"
    library("torch").manual_seed(0)
    return model_class(name, config, classes())(config).eval(), given


@contextmanager
def still(model: Any) -> Iterator[None]:
    """The model with rotary modules that turn nothing, and without the function that reorders pairs too."""
    torch, owner = library("torch"), library(type(model).__module__)
    modules = [each for each in model.modules() if type(each).__name__.endswith("RotaryEmbedding")]
    kept: list[Callable[..., Any]] = [each.forward for each in modules]

    def without(answer: Any) -> Any:
        return torch.ones_like(answer[0]), torch.zeros_like(answer[1])

    with pytest.MonkeyPatch.context() as patch:
        if hasattr(owner, INTERLEAVED):
            patch.setattr(owner, INTERLEAVED, lambda q, k, *_given, **_more: (q, k))
        for each, forward in zip(modules, kept, strict=True):
            patch.setattr(each, "forward", lambda *given, _own=forward, **more: without(_own(*given, **more)))
        yield


INTERLEAVED = "apply_rotary_pos_emb_interleave"


def queries(model: Any, states: Any) -> Array:
    """The queries of the indexer, as they are multiplied with its keys."""
    torch, found = library("torch"), list[Array]()
    plain = torch.matmul

    def matmul(first: Any, second: Any) -> Any:
        if first.shape[-1] == WIDTH:
            found.append(first.detach().numpy().copy())
        return plain(first, second)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch, "matmul", matmul)
        model(inputs_embeds=states)
    if found[0].ndim == 2:  # Qwen 4: a query at a time
        return np.stack(found, 1)
    [(only,)] = found
    heads: Array = only.transpose(1, 0, 2) if only.shape[0] == TOKENS else only
    return heads


@pytest.mark.parametrize("name", TYPES)
def test_how_an_indexer_turns(direct: Client, name: str) -> None:
    torch, (model, given) = library("torch"), built(name)
    states = torch.randn(1, TOKENS, model.config.hidden_size)
    theirs = queries(model, states)
    with still(model):
        plain = queries(model, states)
    [use] = resolved(direct, {"model_type": name, **given})["uses"]
    first = TOKENS - theirs.shape[1]  # Qwen 4 has no block before the second token
    address = use["addresses"]["indexer"]
    more = {**address, "href": f"{address['href']}&offset={first}"}
    ours = sent(direct, more, q=np.ascontiguousarray(plain))["q"]
    assert np.abs(ours - theirs).max() <= 1e-5 < np.abs(plain - theirs).max() / 100


def test_glm5_next_turns_nothing(direct: Client) -> None:
    [use] = [each for each in resolved(direct, {"model_type": "glm5_next_text"})["uses"] if each["facts"]]
    assert "indexer" not in use["addresses"]


CHOOSES = {name: keys for name, keys in TYPES.items() if name != "deepseek_v4"}


@pytest.mark.parametrize("name", CHOOSES)
def test_how_many_keys_an_indexer_chooses(direct: Client, name: str) -> None:
    """Weights of attention that are not zero, by query, against the numbers of the plan."""
    torch, (model, given) = library("torch"), built(name)
    states = torch.randn(1, TOKENS, model.config.hidden_size)
    with torch.no_grad():
        weights = model(inputs_embeds=states, output_attentions=True).attentions[-1]
    theirs = (weights[0] > 0).sum(-1).numpy()
    [use] = resolved(direct, {"model_type": name, **given})["uses"]
    facts, at = use["facts"], np.arange(TOKENS)
    if "index_topk" in facts:
        wanted = np.minimum(at + 1, facts["index_topk"])
    elif "indexer_budget" in facts:
        block = facts["indexer_compress_ratio"]
        wanted = np.minimum((at + 1) // block * block, facts["indexer_budget"]) + (at + 1) % block
    else:
        block = facts["index_block_size"]
        wanted = np.minimum(at // block, facts["index_topk_blocks"] - 1) * block + at % block + 1
    assert np.array_equal(theirs, np.broadcast_to(wanted, theirs.shape))
