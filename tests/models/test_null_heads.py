"""A head_dim of null, or one beside the other two widths: what each class of transformers makes of it."""

from typing import Any

import pytest

from service.models import resolve
from service.models.nulls import failing_nulls
from tests.models.plans import refusal, refused, use, values

SHARED = ("ernie4_5", "higgs_audio_v2", "seed_oss", "blt_patcher", "blt_global_transformer", "blt_local_decoder")


@pytest.mark.parametrize("name", SHARED)
def test_heads_that_share_the_width_where_theirs_is_null(name: str) -> None:
    """hidden_size // num_attention_heads, in the configuration or the module: their models run."""
    assert values(use(name, head_dim=None))["dim"] == 16


@pytest.mark.parametrize(
    "name", ["afmoe", "cohere2", "glm", "jetmoe", "recurrent_gemma", "glm4_moe_lite", "llama4_text"]
)
def test_models_that_cannot_do_with_null(name: str) -> None:
    """Rotary modules of some are built, and the attention is not."""
    assert refusal(name, head_dim=None).parameter == "/head_dim"


def test_null_that_is_read_by_nothing() -> None:
    for name in ("gptj", "codegen", "roformer"):
        assert values(use(name, head_dim=None, n_embd=64, n_head=4, rotary_dim=8))["dim"] == 16, name


def test_latent_attention_without_a_head() -> None:
    """DeepSeek V3 makes tables of what the heads share: its model runs where that is what turns."""
    for name in ("deepseek_v3", "youtu", "axk1"):
        assert values(use(name, head_dim=None, qk_rope_head_dim=16))["dim"] == 16
        fault = refusal(name, head_dim=None, qk_rope_head_dim=8)
        assert fault.parameter == "/head_dim"
        assert "tables are of 16 channels then, and 8 turn" in fault.detail


def test_sections_of_a_head_that_is_shared_out() -> None:
    """PaddleOCR-VL: [16, 24, 24] are 128 channels, and 1024 / 16 are 64."""
    assert values(use("paddleocr_vl_text", head_dim=None, hidden_size=512))["dim"] == 128
    assert refused({"model_type": "paddleocr_vl", "head_dim": None})[0] == "/rope_parameters/mrope_section"


NULL: dict[str, Any] = {"vision_config": {"head_dim": None}}


@pytest.mark.parametrize("name", ["gemma4", "qwen2_vl", "kosmos-2.5", "molmo2", "florence2"])
def test_towers_that_name_no_type(name: str) -> None:
    (note,) = failing_nulls(NULL, name)
    assert "null at /vision_config/head_dim: the plan" in note


def test_towers_that_take_null() -> None:
    assert failing_nulls({"vision_config": {"model_type": "no such type", "head_dim": None}}, "gemma4") == []
    assert failing_nulls({"audio_config": {"head_dim": None}}, "dots3_note") == []
    assert failing_nulls({"head_dim": None}, "hiera") == []
    assert failing_nulls({"no_part": {"hidden_size": None}}, "gemma4") == []


def test_three_widths() -> None:
    """PreTrainedConfig.validate_architecture: head_dim * num_heads != embed_dim fails."""
    for head, place in ((80, None), (64, "/vision_config/head_dim"), ("80", "/vision_config/head_dim")):
        config = {"model_type": "qwen2_vl", "vision_config": {"head_dim": head}}
        if place is None:
            assert resolve(config).uses
        else:
            assert refused(config)[0] == place
    assert refused({"model_type": "swin", "head_dim": 32})[0] == "/head_dim"
    assert resolve({"model_type": "hiera", "head_dim": 7}).uses
