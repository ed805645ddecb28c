"""What plans refuse, transformers fails on: as it reads the file, as it builds the model, or as the model runs."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_model_tables import classes, model_class
from tests.models.fixtures import JSON, resolved
from tests.oracles.test_model_masks import SMALL

pytestmark = pytest.mark.oracle

SLIDING, FULL = "sliding_attention", "full_attention"
NULL, NONE = {"sliding_window": None}, {"sliding_window": 0}
LISTED = {"layer_types": [SLIDING]}
WINDOWS: list[tuple[str, Mapping[str, Any]]] = [
    *((name, {**LISTED, **NULL}) for name in ("gemma2", "gemma3_text", "gpt_oss", "cohere2", "olmo3", "lara_mini",
                                              "flint", "mimo_v2_flash", "step3p5", "smollm3", "qwen2")),
    *((name, {**LISTED, **NONE}) for name in ("gemma2", "gpt_oss", "cohere2", "exaone4", "flint", "qwen3")),
    *((name, {**LISTED, "use_sliding_window": False, "sliding_window": 3}) for name in ("qwen2", "qwen3")),
    *((name, NONE) for name in ("mistral", "mixtral", "starcoder2", "phi3")),
    ("gemma3n_text", NULL),
]  # fmt: skip
YARN = {"rope_type": "yarn", "original_max_position_embeddings": 64}
YARNS = [(name, {"rope_parameters": {**YARN, "rope_theta": 1e4}}) for name in ("llama", "qwen3", "mistral")]

HEADS = [
    ("gpt2", {"n_embd": 768, "n_head": 7}), ("bert", {"hidden_size": 768, "num_attention_heads": 7}),
    ("opt", {"hidden_size": 768, "num_attention_heads": 7}), ("bart", {"encoder_attention_heads": 7}),
    ("whisper", {"decoder_attention_heads": 7}), ("wav2vec2", {"hidden_size": 96, "num_attention_heads": 9}),
    ("llama", {"head_dim": 0}),
]  # fmt: skip

# Heads of 16, for which the sections that the class assumes are too long.
SMALL_HEADS = {"hidden_size": 64, "num_attention_heads": 4}
SECTIONS = [
    *((name, SMALL_HEADS) for name in ("glm4v_text", "glm_ocr_text", "qwen2_vl_text", "qwen2_5_vl_text")),
    ("paddleocr_vl_text", {**SMALL_HEADS, "head_dim": 16}),
]


def run(name: str, keys: Mapping[str, Any]) -> Any:
    """What a model of one layer answers, or what it fails with."""
    torch, config_class = library("torch"), library("transformers").CONFIG_MAPPING[name]
    called = getattr(config_class, "attribute_map", {})
    small = {key: SMALL[key] for key in SMALL if key in {*config_class.__dataclass_fields__, *called}}
    small = {key: value for key, value in small.items() if called.get(key, key) not in keys}
    config = config_class(**json.loads(json.dumps({**small, **keys})))
    with torch.no_grad():
        return model_class(name, config, classes())(config).eval()(torch.tensor([[3, 4, 5, 6, 7, 8]]))[0]


@pytest.mark.parametrize(("name", "keys"), [*WINDOWS, *YARNS, *HEADS, *SECTIONS])
def test_both_refuse(direct: Client, name: str, keys: Mapping[str, Any]) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 2}
    sizes = sizes if "layer_types" in keys or "rope_parameters" in keys else {}
    body = json.dumps({"model_type": name, **sizes, **keys}).encode()
    answer = direct.post("/v1/models/resolve", content=body, headers=JSON)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith("/")
    strict = library("huggingface_hub.errors").StrictDataclassFieldValidationError
    with pytest.raises((KeyError, TypeError, ValueError, RuntimeError, ZeroDivisionError, strict)):
        run(name, keys)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("qwen2", NONE),
        ("mistral", NULL),
        ("qwen3_vl_text", {"head_dim": 16}),
        ("gpt_oss", {**LISTED, "use_sliding_window": False, "sliding_window": 3}),
        ("llama", {"rope_parameters": {**YARN, "factor": None, "rope_theta": 1e4}}),
    ],
)
def test_neither_refuses(direct: Client, name: str, keys: Mapping[str, Any]) -> None:
    assert resolved(direct, {"model_type": name, "num_hidden_layers": 1, **keys})["uses"]
    assert not run(name, keys).isnan().any()
