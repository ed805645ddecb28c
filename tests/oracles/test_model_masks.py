"""Which tokens a token sees: each model of one layer, asked by its own answers, against the mask of its plan.

A token's states are changed; those positions whose answer changes have seen it. The masks of plans are not read off the
models' code anywhere: windows, both ways or one, chunks, all come out of the numbers.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_model_tables import classes, model_class
from tests.models.fixtures import fetched, resolved
from tests.oracles.live_models import Array

pytestmark = pytest.mark.oracle

TOKENS = 14
SMALL: Mapping[str, Any] = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128, "n_embd": 64, "n_head": 4, "n_layer": 1,
    "dim": 64, "n_heads": 4, "n_layers": 1, "d_model": 64, "ffn_dim": 32, "word_embed_proj_dim": 64,
    "num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "sliding_window": 3, "local_attention": 6, "attention_window": 4, "embedding_size": 64,
}  # fmt: skip
FULL, SLIDING = {"layer_types": ["full_attention"]}, {"layer_types": ["sliding_attention"]}
LOCAL = {"num_layers": 1, "window_size": 3, "attention_types": [[["local"], 1]], "num_heads": 4}
CHUNKED = {**SMALL, "attention_chunk_size": 4, "layer_types": ["chunked_attention"], "no_rope_layers": [1]}
SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
V4 = {
    "q_lora_rank": 16, "o_lora_rank": 16, "o_groups": 2, "moe_intermediate_size": 16, "n_routed_experts": 2,
    "mlp_layer_types": ["moe"], "index_n_heads": 2, "index_head_dim": 16, "num_key_value_heads": 1,
    "partial_rotary_factor": 0.5,
}  # fmt: skip
FLAT = {"has_relative_attention_bias": False, "has_spatial_attention_bias": False}
WIDE = {"global_head_dim": 16, "hidden_size_per_layer_input": 0}
TYPES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "albert": ("albert", {}),
    "beam, sliding": ("beam", SLIDING),
    "bert": ("bert", {}),
    "biogpt": ("biogpt", {}),
    "bloom": ("bloom", {}),
    "cohere2, sliding": ("cohere2", SLIDING),
    "ctrl": ("ctrl", {"dff": 32}),
    "deepseek_v4, sliding": ("deepseek_v4", {**V4, **SLIDING}),
    "deepseek_v4, sparse": ("deepseek_v4", {**V4, "layer_types": [SPARSE], "compress_rates": {SPARSE: 16, HEAVY: 128}}),
    "deepseek_v4, heavy": ("deepseek_v4", {**V4, "layer_types": [HEAVY]}),
    "distilbert": ("distilbert", {}),
    "doge": ("doge", {}),
    "electra": ("electra", {}),
    "esm": ("esm", {"position_embedding_type": "rotary"}),
    "eurobert": ("eurobert", {}),
    "exaone4, full": ("exaone4", FULL),
    "exaone4, sliding": ("exaone4", SLIDING),
    "EmbeddingGemma": ("gemma3_text", {**FULL, "use_bidirectional_attention": True}),
    "EmbeddingGemma, sliding": ("gemma3_text", {**SLIDING, "use_bidirectional_attention": True, "sliding_window": 4}),
    "gemma, both ways": ("gemma", {"use_bidirectional_attention": True}),
    "gemma2, full": ("gemma2", FULL),
    "gemma2, sliding": ("gemma2", SLIDING),
    "gemma3, sliding": ("gemma3_text", SLIDING),
    "funnel": ("funnel", {"block_sizes": [1], "num_decoder_layers": 1, "d_head": 16, "d_inner": 32}),
    "git, words alone": ("git", {}),
    "gpt2": ("gpt2", {}),
    "gpt_neo, local": ("gpt_neo", LOCAL),
    "gpt_oss, sliding": ("gpt_oss", SLIDING),
    "gte": ("gte", {}),
    "gemma4, both ways": ("gemma4_text", {**FULL, **WIDE, "use_bidirectional_attention": "all"}),
    "gemma4, vision": ("gemma4_text", {**FULL, **WIDE, "use_bidirectional_attention": "vision"}),
    "layoutlmv3": ("layoutlmv3", {"visual_embed": False, "coordinate_size": 10, "shape_size": 12, **FLAT}),
    "lilt": ("lilt", {"channel_shrink_ratio": 4, "hidden_size": 96}),
    "llama": ("llama", {}),
    "llama, both ways": ("llama", {"is_causal": False}),
    "llama, layer_types": ("llama", {**SLIDING, "sliding_window": 3}),
    "llama4, chunked": ("llama4_text", {**CHUNKED, "intermediate_size_mlp": 32, "num_local_experts": 1}),
    "longformer": ("longformer", {}),
    "minimax": ("minimax", FULL),
    "mistral": ("mistral", {}),
    "mistral, both ways": ("mistral", {"is_causal": False, "sliding_window": 4}),
    "mistral, layer_types": ("mistral", FULL),
    "modernbert, full": ("modernbert", FULL),
    "modernbert, sliding": ("modernbert", SLIDING),
    "mpt": ("mpt", {}),
    "nomic_bert": ("nomic_bert", {}),
    "olmo3, sliding": ("olmo3", SLIDING),
    "openai-gpt": ("openai-gpt", {}),
    "openai_privacy_filter": ("openai_privacy_filter", {}),
    "opt": ("opt", {}),
    "phi3": ("phi3", {}),
    "roberta": ("roberta", {}),
    "starcoder2": ("starcoder2", {}),
    "ultrabert, sliding": ("ultrabert", SLIDING),
    "xlm-roberta": ("xlm-roberta", {}),
}


def seen(model: Any, width: int) -> Array:
    """Whether the answer at a row changes with the token of a column."""
    torch = library("torch")
    torch.manual_seed(1)
    states = torch.randn(1, TOKENS, width)

    def answer(states: Any) -> Any:
        return model(inputs_embeds=states.clone())[0][0]  # some scale them where they are

    with torch.no_grad():
        plain = answer(states)
        found = np.zeros((TOKENS, TOKENS), bool)
        for column in range(TOKENS):
            other = states.clone()
            other[0, column] += torch.randn(width)
            found[:, column] = ((answer(other) - plain).abs().amax(-1) > 1e-6).numpy()
    return found


@pytest.mark.parametrize("case", TYPES)
def test_a_layer_sees_what_the_mask_of_its_plan_says(direct: Client, case: str) -> None:
    name, more = TYPES[case]
    config_class = library("transformers").CONFIG_MAPPING[name]
    known = {*config_class.__dataclass_fields__, *getattr(config_class, "attribute_map", {})}
    given = {**{key: value for key, value in SMALL.items() if key in known}, **more}
    config = config_class(**json.loads(json.dumps(given)))
    library("torch").manual_seed(0)
    model = model_class(name, config, classes())(config).eval()
    plan = resolved(direct, {"model_type": name, **given}, length=str(TOKENS))
    [address] = [use["addresses"]["mask"] for use in plan["uses"] if "mask" in use["addresses"]]
    if "/padding" in address["href"]:
        address = {**address, "body": {"tensors": {"attention_mask": [1] * TOKENS}}}
    change = {} if "length=14" in address["href"] else {"length": str(TOKENS)}
    [mask] = fetched(direct, address, **change).values()
    theirs = seen(model, model.get_input_embeddings().weight.shape[1])
    assert np.array_equal(mask.astype(bool).reshape(TOKENS, TOKENS), theirs), (mask.astype(int), theirs.astype(int))


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize(("label", "rate", "back"), [(SPARSE, 4, 4), (HEAVY, 4, 0), (HEAVY, 5, 0)])
def test_the_compressed_entries_of_deepseek_v4(direct: Client, label: str, rate: int, back: int, most: int) -> None:
    """Beside its window a query sees the tokens of the entries that the note counts, or as many as are chosen."""
    config_class = library("transformers").DeepseekV4Config
    given = {key: value for key, value in SMALL.items() if key in config_class.__dataclass_fields__}
    given |= {**V4, "layer_types": [label], "compress_rates": {SPARSE: 4, HEAVY: 128, label: rate}, "index_topk": most}
    config = config_class(**json.loads(json.dumps(given)))
    library("torch").manual_seed(0)
    model = model_class("deepseek_v4", config, classes())(config).eval()
    [use] = resolved(direct, {"model_type": "deepseek_v4", **given}, length=str(TOKENS))["uses"]
    assert use["facts"]["compress_rate"] == rate
    assert any(f"floor((p + 1) / {rate}) compressed entries" in note for note in use["notes"])
    [window] = fetched(direct, use["addresses"]["mask"]).values()
    theirs, wanted = seen(model, config.hidden_size), window.astype(bool)
    for query in range(TOKENS):
        entries = [range(max(0, rate * i - back), rate * (i + 1)) for i in range((query + 1) // rate)]
        if label == HEAVY or most >= len(entries):
            for entry in entries:
                wanted[query, entry] = True
            assert np.array_equal(theirs[query], wanted[query]), query
        else:
            beyond = {int(key) for key in np.flatnonzero(theirs[query] & ~wanted[query])}
            assert any(beyond <= set(entry) for entry in entries), query


STATES = 7
# Encoders and decoders of one configuration, whose decoder is handed the encoder's states.
CROSSING = ("bart", "bigbird_pegasus", "blenderbot", "led", "m2m_100", "marian", "mbart", "mvp", "pegasus", "pegasus_x",
            "plbart", "prophetnet", "speech_to_text", "t5", "mt5", "longt5", "whisper")  # fmt: skip


@pytest.mark.parametrize("name", CROSSING)
def test_cross_attention_knows_no_order(direct: Client, name: str) -> None:
    """The encoder's states in another order: the decoder says the same. Other states: it does not."""
    torch, transformers = library("torch"), library("transformers")
    config_class = transformers.CONFIG_MAPPING[name]
    known = {*config_class.__dataclass_fields__, *getattr(config_class, "attribute_map", {})}
    layers = {"encoder_layers": 1, "decoder_layers": 1, "num_layers": 1, "encoder_attention_heads": 4, "d_ff": 32,
              "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "num_heads": 4, "d_kv": 16,
              "num_encoder_layers": 1, "num_decoder_layers": 1}  # fmt: skip
    given = {key: value for key, value in {**SMALL, **layers}.items() if key in known}
    config = config_class(**given)
    torch.manual_seed(0)
    model = model_class(name, config, classes())(config).eval()
    states = torch.randn(1, STATES, config.hidden_size)
    order = torch.tensor([3, 1, 6, 0, 2, 5, 4])
    ids = torch.tensor([[6, 7, 8, 9, 10]])

    def answer(states: Any) -> Any:
        outputs = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=states)
        return model(encoder_outputs=outputs, decoder_input_ids=ids)[0]

    with torch.no_grad():
        plain, other, reordered = answer(states), answer(torch.randn_like(states)), answer(states[:, order])
    assert (plain - reordered).abs().max() <= 1e-5 < (plain - other).abs().max() / 100
    uses = resolved(direct, {"model_type": name})["uses"]
    assert [use["encoding"] for use in uses if use["role"] == "cross-attention"] == ["none"]


IMAGES = np.array([0, 0, 1, 1, 1, 0, 2, 2, 0, 0, 0, 3, 3, 0])  # 0 is text, others the number of a picture


PICTURES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "gemma3": ("gemma3", {}),
    "gemma4": ("gemma4", {"use_bidirectional_attention": "vision"}),
    "gemma4_unified": ("gemma4_unified", {}),
    "gemma4_unified, called": ("gemma4_unified", {}),
    "diffusion_gemma": ("diffusion_gemma", {"use_bidirectional_attention": "vision"}),
}


def by_pictures(name: str, text: Any, called: bool) -> dict[str, Array]:
    """The masks that the whole model makes for its kinds of layers, by the function that it calls."""
    torch, masking = library("torch"), library("transformers.masking_utils")
    owner = library(f"transformers.models.{name}.modeling_{name}")
    make = masking.create_masks_for_generate
    if not called:
        make = getattr(owner, "create_masks_for_vision_model", make)
    text._attn_implementation = "eager"
    masks = make(
        config=text,
        inputs_embeds=torch.zeros(1, TOKENS, 8),
        attention_mask=torch.ones(1, TOKENS, dtype=torch.long),
        cache=None,
        position_ids=torch.arange(TOKENS)[None],
        block_sequence_ids=torch.tensor(np.where(IMAGES, IMAGES, -1)[None]),
    )
    return {label: np.asarray((mask[0, 0] == 0).numpy()) for label, mask in masks.items()}


@pytest.mark.parametrize("window", [2, 4, 5])
@pytest.mark.parametrize("case", PICTURES)
def test_the_tokens_of_one_picture(direct: Client, case: str, window: int) -> None:
    """What the notes say of masks and pictures, done word by word with the masks of the plan's addresses."""
    name, more = PICTURES[case]
    text = {"num_hidden_layers": 6, "sliding_window": window, **more}
    config, called = library("transformers").CONFIG_MAPPING[name](text_config=dict(text)), "called" in case
    theirs = by_pictures(name, config.text_config, called)
    uses = resolved(direct, {"model_type": name, "text_config": text}, length=str(TOKENS))["uses"]
    same = (IMAGES[:, None] == IMAGES) & (IMAGES > 0)
    [causal] = fetched(direct, {"method": "GET", "href": f"/v1/masks/causal?length={TOKENS}"}).values()
    for use in (use for use in uses if use["scope"] == "/text_config"):
        [mask] = fetched(direct, use["addresses"]["mask"]).values()
        said = next((note for note in use["notes"] if "image" in note), "")
        said = said.rpartition("call of the model alone")[2] if called else said.partition("call of the model alone")[0]
        wanted = mask.astype(bool)
        if "AND the window" in said:
            behind = np.arange(TOKENS)[:, None] - np.arange(TOKENS) < use["window"]["size"]
            wanted = (causal.astype(bool) | same) & behind
        elif "this mask OR" in said or "operator=or" in said:
            wanted = wanted | same
        assert np.array_equal(theirs[use["layer_type"]], wanted), (use["layer_type"], said)


def test_patches_and_queries_of_deepseek_ocr_2(direct: Client) -> None:
    torch, masking = library("torch"), library("transformers.masking_utils")
    config = library("transformers").CONFIG_MAPPING["deepseek_ocr2_vision"]().encoder_config
    config._attn_implementation = "eager"
    mask = masking.create_causal_mask(
        config=config, inputs_embeds=torch.zeros(1, TOKENS, 8), attention_mask=None, cache=None,
        block_sequence_ids=torch.tensor([[0] * (TOKENS // 2) + [-1] * (TOKENS // 2)]))  # fmt: skip
    uses = resolved(direct, {"model_type": "deepseek_ocr2_vision"}, length=str(TOKENS))["uses"]
    [use] = [use for use in uses if use["scope"] == "/encoder_config"]
    [ours] = fetched(direct, use["addresses"]["mask"]).values()
    assert np.array_equal(ours.astype(bool), (mask[0, 0] == 0).numpy())


@pytest.mark.parametrize("prefix", [3, 9])
def test_the_actions_of_pi0(direct: Client, prefix: int) -> None:
    """State and actions behind a prefix: all see all, but for the state, which does not see the actions."""
    torch, masking = library("torch"), library("transformers.masking_utils")
    config = library("transformers").CONFIG_MAPPING["pi0"]().dit_config
    config._attn_implementation = "eager"
    blocks = torch.tensor([[0] * (prefix + 1) + [1] * (TOKENS - prefix - 1)])
    mask = masking.create_causal_mask(
        config=config, inputs_embeds=torch.zeros(1, TOKENS, 8), cache=None, block_sequence_ids=blocks,
        attention_mask=torch.ones(1, TOKENS, dtype=torch.long))  # fmt: skip
    theirs = (mask[0, 0, prefix:] == 0).numpy()
    [use] = [use for use in resolved(direct, {"model_type": "pi0"})["uses"] if use["scope"] == "/dit_config"]
    body = {"tensors": {"attention_mask": [1] * TOKENS}}
    [full] = fetched(direct, {**use["addresses"]["mask"], "body": body}, length=str(TOKENS)).values()
    wanted = full.astype(bool).reshape(TOKENS, TOKENS)[prefix:].copy()
    wanted[0, prefix + 1 :] = False
    assert np.array_equal(theirs, wanted)
