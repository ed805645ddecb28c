"""preset=vllm: what vLLM's own classes do differently, read in its release 0.33.0, and types that it has none for."""

from typing import Any

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Options, Use, resolve
from service.models.known import assumable, vllm
from tests.models.plans import answers, values

VLLM = Options(preset="vllm")
SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 4096}


def one(model_type: str, *, preset: str = "vllm", **keys: Any) -> Use:
    found = resolve({"model_type": model_type, **SMALL, **keys}, Options(preset=preset)).uses  # type: ignore[arg-type]
    return next(use for use in found if use.encoding == "rope")


def test_every_type_of_the_table_is_known() -> None:
    assert set(vllm()["own"]) <= set(assumable())
    assert set(vllm()["types"]) <= set(vllm()["own"])


@pytest.mark.parametrize(
    ("model_type", "theirs", "own"),
    [
        ("deepseek_v3", ("interleaved", "half"), ("interleaved", None)),
        ("llama4_text", ("interleaved", None), ("half", None)),
        ("hy_v4", ("half", None), ("interleaved", None)),
        ("llama", ("half", None), ("half", None)),
        ("cohere", ("interleaved", None), ("interleaved", None)),
    ],
)
def test_how_its_classes_turn(model_type: str, theirs: tuple[str, Any], own: tuple[str, Any]) -> None:
    for preset, wanted in (("transformers-5.24", theirs), ("vllm", own)):
        said = values(one(model_type, preset=preset))
        assert (said["pairing"], said.get("output_pairing")) == wanted
    assert "table_dtype" not in values(one(model_type))


def test_types_without_a_class_run_transformers_code() -> None:
    theirs, here = (values(one("gpt_neox", preset=preset)) for preset in ("transformers-5.24", "vllm"))
    assert here == theirs
    assert "vLLM 0.33.0 has no class of its own for gpt_neox: this is transformers'" in one("gpt_neox").notes
    scaled = {"rope_type": "linear", "factor": 4.0}
    assert "linear_scaling" not in values(one("olmo2", rope_parameters=scaled))
    assert values(one("llama", rope_parameters=scaled))["linear_scaling"] == "position"


def test_it_turns_the_share_of_every_model_that_states_one() -> None:
    """transformers turns the whole head of an unscaled Llama; dbrx and gpt-oss hand no share over."""
    assert "partial_rotary_factor" not in values(one("llama", preset="transformers-5.24", partial_rotary_factor=0.5))
    half = one("llama", partial_rotary_factor=0.5)
    assert half.facts["rotary_dim"] == 8
    wanted = 1 / np.float64(10_000) ** (np.arange(4) / 4)
    found = answers(half.addresses["frequencies"])["frequencies"].ravel()
    assert found == pytest.approx(wanted, rel=1e-6)
    block = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 1024,
             "partial_rotary_factor": 0.5, "attention_factor": 2.0}  # fmt: skip
    oss = one("gpt_oss", rope_parameters=block, head_dim=16)
    assert oss.facts["rotary_dim"] == 16
    assert "attention_factor" not in values(oss)


def test_gpt_oss_is_yarn_there() -> None:
    with pytest.raises(Refusal) as found:
        one("gpt_oss", rope_parameters={"rope_type": "linear", "factor": 2.0})
    assert found.value.faults[0].parameter == "/rope_parameters/rope_type"
    assert "turns by in vLLM" in found.value.faults[0].detail


def test_deepseeks_yarn() -> None:
    """Its amplitude is m(s, mscale) / m(s, mscale_all_dim), 1 and 0 unless said; the file's own factor is not read."""
    block = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.5}
    here = one("deepseek_v3", rope_scaling={**block, "attention_factor": 3.0})
    assert here.facts["attention_factor"] == pytest.approx(0.05 * np.log(40) + 1)
    with pytest.raises(Refusal):
        one("deepseek_v3", rope_scaling={"rope_type": "linear", "factor": 2.0})


def test_names_of_older_files() -> None:
    lists = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "original_max_position_embeddings": 1024}
    assert values(one("llama", rope_scaling={"type": "su", **lists}))["rope_type"] == "longrope"
    alpha = one("llama", rope_scaling={"type": "dynamic", "alpha": 8.0})
    assert (values(alpha)["rope_type"], values(alpha)["alpha"]) == ("ntk_alpha", 8.0)


def test_a_nested_truncate_is_honoured() -> None:
    scaled = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6, "truncate": False}
    full = {**scaled, "original_max_position_embeddings": 1024}
    nested = {"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    found = resolve({"model_type": "gemma3_text", **SMALL, "num_hidden_layers": 6, "rope_parameters": nested}, VLLM)
    [use] = [use for use in found.uses if use.layer_type == "full_attention"]
    assert values(use)["truncate"] is False
    theirs = resolve({"model_type": "gemma3_text", **SMALL, "num_hidden_layers": 6, "rope_parameters": nested})
    [use] = [use for use in theirs.uses if use.layer_type == "full_attention"]
    assert "truncate" not in values(use)


def test_windows_of_cohere_see_one_key_more() -> None:
    keys = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
    windows = [one("cohere2", preset=preset, **keys).window for preset in ("transformers-5.24", "vllm")]
    assert [window and window.size for window in windows] == [16, 17]


def test_the_base_of_dbrx() -> None:
    given = {"d_model": 64, "n_heads": 4, "attn_config": {"rope_theta": 500_000}}
    here, theirs = (resolve({"model_type": "dbrx", **given}, options).uses[0] for options in (VLLM, Options()))
    assert (here.parameters["base"].value, here.parameters["base"].key) == (500_000, "/attn_config/rope_theta")
    assert values(theirs)["base"] == 10_000.0
    assert values(resolve({"model_type": "dbrx", "d_model": 64, "n_heads": 4}, VLLM).uses[0])["base"] == 10_000.0


def test_the_temperature_of_mistrals_own_format() -> None:
    """Ministral 3: vLLM knows the key of params.json alone, transformers that of the RoPE block."""
    assert one("ministral3", preset="transformers-5.24").facts["temperature_parameters"]["attn_scale"] == 0.1
    without = one("ministral3")
    assert "temperature" not in without.facts
    assert any("none is stated here" in note for note in without.notes)
    scaling = {"beta": 0.2, "original_max_position_embeddings": 8192}
    tuned = one("ministral3", llama_4_scaling=scaling)
    assert tuned.facts["temperature_parameters"] == {
        "schedule": "ministral3", "floor_scale": 8192, "attn_scale": 0.2,
    }  # fmt: skip
    with pytest.raises(Refusal) as found:
        one("ministral3", llama_4_scaling={"beta": 0.2})
    assert found.value.faults[0].parameter == "/llama_4_scaling/original_max_position_embeddings"


def test_slopes_of_falcon() -> None:
    for preset, arithmetic in (("transformers-5.24", "bfloat16"), ("vllm", "float32")):
        config = {"model_type": "falcon", "alibi": True, "hidden_size": 64, "num_attention_heads": 4}
        uses = resolve(config, Options(preset=preset)).uses  # type: ignore[arg-type]
        assert [values(use)["arithmetic"] for use in uses if use.encoding == "alibi"] == [arithmetic]


@pytest.mark.parametrize(
    ("model_type", "pairing"),
    [
        *(
            (name, "interleaved")
            for name in ("llama", "mistral", "granite", "glm_moe_dsa", "youtu", "hy_v4", "cohere2_moe")
        ),
        *((name, "half") for name in ("qwen2", "minicpm3", "gemma2", "phi3", "gpt_neox", "falcon", "stablelm")),
    ],
)
def test_what_llama_cpp_turns(model_type: str, pairing: str) -> None:
    """The mode that `llama_model_rope_type` has for the architecture that its converter makes of the type."""
    found = one(model_type, preset="llama.cpp")
    assert (values(found)["pairing"], values(found)["arithmetic"]) == (pairing, "ggml")
    assert "output_pairing" not in values(found)
