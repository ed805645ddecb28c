"""Whole models of transformers on PyTorch's meta device: their trained tables of positions, and their rotary modules.

Shapes come from the model itself, which has no numbers; a rotary module is made once more, with numbers, from the
configuration that the model gave it. Libraries that only towers without positions of their own need (timm, detectron2,
scipy) are stood in for.
"""

import copy
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.golden.frozen import library
from tests.golden.make_model_tables import LAYERS, classes, model_class
from tests.oracles.live_models import Array

RESNET = {"model_type": "resnet", "depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16], "out_features": ["stage4"]}
CONVOLUTIONS = {"use_timm_backbone": False, "backbone_config": RESNET}
SIGLIP = {"model_type": "siglip_vision_model", "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 32,
          "num_hidden_layers": 2, "image_size": 56, "patch_size": 14}  # fmt: skip
BASES = {
    "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
}
SERIES = {"prediction_length": 9, "context_length": 21}
EXPERTS = {"num_experts": 2, "top_k_experts": 1, "moe_intermediate_size": 16}
# Three axes of 64 pairs: the class's own sections do not fit its own width.
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [16, 24, 24]}
# What the class's own defaults lack or contradict: nothing that positions depend on but where they are missing.
GIVEN: dict[str, dict[str, Any]] = {
    "autoformer": SERIES,
    "aya_vision": {"vision_config": SIGLIP},
    "chameleon": {"vocabulary_map": {"<image>": 5}},
    "cohere_compass": {"text_config": {"num_hidden_layers": 2, "rope_parameters": BASES}},
    "cohere_compass_text": {"num_hidden_layers": 2, "rope_parameters": BASES},
    "conditional_detr": CONVOLUTIONS,
    "dab-detr": CONVOLUTIONS,
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 5000.0}},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense"], "num_hidden_layers": 1}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"], "num_hidden_layers": 1},
    "deformable_detr": CONVOLUTIONS,
    "detr": CONVOLUTIONS,
    "diffusion_gemma": {"text_config": EXPERTS},
    "diffusion_gemma_text": EXPERTS,
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "emu3": {"vocabulary_map": {"<image>": 5}},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "gemma4_assistant": {
        "text_config": {
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
            "num_kv_shared_layers": 30,
        }
    },
    "glm46v": {"text_config": {"rope_parameters": ROPE}},
    "glm4v": {"text_config": {"rope_parameters": ROPE}},
    "glm4v_text": {"rope_parameters": ROPE},
    "glm_image": {"text_config": {"rope_parameters": ROPE}},
    "glm_image_text": {"rope_parameters": ROPE},
    "glmga": {"text_config": {"rope_parameters": ROPE}},
    "granite4_vision": {"downsample_rate": "2/3", "deepstack_layer_map": [[0, 0]], "vision_config": SIGLIP},
    "hunyuan_v1_dense": {"head_dim": 32},
    "hunyuan_v1_moe": {"head_dim": 32},
    "hunyuan_vl": {"text_config": {"head_dim": 32}},
    "hunyuan_vl_text": {"head_dim": 32},
    "informer": SERIES,
    "lfm2_moe": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
    "ministral": {"head_dim": 32},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "musicgen": {"dropout": 0.0, "layerdrop": 0.0},
    "musicgen_melody": {"dropout": 0.0, "layerdrop": 0.0},
    "nemotron": {"num_key_value_heads": 8},
    "omdet-turbo": CONVOLUTIONS,
    "perception_lm": {"vision_config": {"architecture": "resnet50", "model_args": {"embed_dim": 64}}},
    "qwen3_omni_moe": {
        "talker_config": {"spatial_merge_size": 2, "text_config": {"shared_expert_intermediate_size": 32}},
        "thinker_config": {"text_config": {"head_dim": 64}},
    },
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 32},
    "qwen3_omni_moe_text": {"head_dim": 64},
    "qwen3_omni_moe_thinker": {"text_config": {"head_dim": 64}},
    "qwen4_exp": {
        "text_config": {
            "indexer_n_heads": 2,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 256,
            "indexer_budget": 8,
            "indexer_compress_ratio": 2,
        }
    },
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "table-transformer": CONVOLUTIONS,
    "time_series_transformer": SERIES,
    "vitmatte": {
        "backbone_config": {
            "model_type": "vitdet",
            "image_size": 64,
            "patch_size": 16,
            "hidden_size": 48,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "out_features": ["stage2"],
        },
        "convstream_hidden_sizes": [8, 8, 8],
        "fusion_hidden_sizes": [8, 8, 8, 8],
    },
}  # fmt: skip
# The class that holds all parts, where AutoModel has another.
CLASS = {"musicgen": "MusicgenForConditionalGeneration", "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
         "qwen3_omni_moe": "Qwen3OmniMoeForConditionalGeneration"}  # fmt: skip

TABLES = re.compile(
    r"pos_?emb|position|positional|rel_pos|level_embed|queries_embedder|reference_point_embed|wpe|time_embeddings|"
    r"row_embedder|column_embedder|relative_attention_bias"
)
NO_TABLES = re.compile(r"bias_[uv]$|bias_table$|query_pos_head|norm|gate$|proj|no_memory|conv|linear|_alpha|gru_")


@contextmanager
def without_libraries() -> Iterator[None]:
    """Lets models be built whose towers come from libraries that are not there."""
    torch = library("torch")

    class Tower(torch.nn.Module):  # type: ignore[misc, name-defined]
        num_features = 16

        def __init__(self, *_args: Any, **_keys: Any) -> None:
            super().__init__()

    timm = library("transformers.models.timm_wrapper.modeling_timm_wrapper")
    layoutlm = library("transformers.models.layoutlmv2.modeling_layoutlmv2")
    classes()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        for name, module in list(sys.modules.items()):
            if name.startswith("transformers.models.") and "requires_backends" in vars(module):
                stack.enter_context(patch.object(module, "requires_backends", lambda *_args, **_keys: None))
        for layer in (torch.nn.Linear, torch.nn.modules.conv._ConvNd, torch.nn.Embedding):
            stack.enter_context(patch.object(layer, "reset_parameters", lambda _self: None))  # no numbers: no time
        made = SimpleNamespace(create_model=Tower)
        stack.enter_context(patch.object(timm, "timm", made, create=True))
        stack.enter_context(patch.object(layoutlm, "LayoutLMv2VisualBackbone", Tower))
        yield


def whole_model(name: str) -> Any:
    """The model on the meta device: of one layer a stack where its class can be built so."""
    transformers, torch = library("transformers"), library("torch")
    config = transformers.CONFIG_MAPPING[name](**copy.deepcopy(GIVEN.get(name, {})))
    problems: list[Exception] = []
    for small in (True, False):
        own = copy.deepcopy(config)
        if small:
            cut(own)
        chosen = getattr(transformers, CLASS[name]) if name in CLASS else model_class(name, own, classes())
        if chosen is None:
            raise LookupError("no class takes this configuration alone")
        try:
            with torch.device("meta"):
                return chosen(own)
        except Exception as error:  # some classes cannot be that small
            problems.append(error)
    raise problems[-1]


def cut(config: Any) -> None:
    """One layer a stack, where all layers are alike."""
    for key in LAYERS:
        alike = not (getattr(config, "layer_types", None) or getattr(config, "global_attn_indexes", None))
        if alike and isinstance(getattr(config, key, None), int):
            setattr(config, key, 1)
    for key in config.sub_configs:
        if getattr(config, key, None) is not None:
            cut(getattr(config, key))


def trained_tables(model: Any) -> dict[tuple[int, ...], str]:
    """Trained tensors that speak of positions: their axes of more than one entry, and one of their names."""
    found: dict[tuple[int, ...], str] = {}
    for name, tensor in model.named_parameters():
        *above, last = name.split(".")
        own = ".".join([*above[-1:], last]) if last == "weight" else last
        shape = tuple(size for size in tensor.shape if size != 1)
        if last != "bias" and TABLES.search(own) and not NO_TABLES.search(own) and 0 not in shape and len(shape) > 1:
            found.setdefault(shape, name)
    return found


def shapes(model: Any) -> set[tuple[int, ...]]:
    tensors = [*model.parameters(), *model.buffers()]
    return {tuple(size for size in tensor.shape if size != 1) for tensor in tensors}


def rotary_frequencies(model: Any) -> Iterator[tuple[str, Array]]:
    """(name, values) of the inverse frequencies of every rotary module that is made from a configuration."""
    seen: set[Any] = set()
    for name, module in model.named_modules():
        owned = [key for key, _ in module.named_buffers(recurse=False) if key.endswith("inv_freq")]
        owned = [key for key in owned if "original" not in key]
        kind = type(module), id(getattr(module, "config", None))
        if owned and hasattr(module, "config") and kind not in seen and "RelPos" not in type(module).__name__:
            seen.add(kind)
            again = type(module)(module.config)
            yield from ((f"{name}.{key}", getattr(again, key).float().numpy().ravel()) for key in owned)
