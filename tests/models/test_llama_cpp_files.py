"""What is not in the files of llama.cpp's converter, or is not as the class has it: heads, shares of them, layers."""

from typing import Any

import pytest

from service.models import Options, Plan, resolve
from service.models.plan import Window
from tests.models.plans import frequencies, plan, refusal, said, use, values

GGML = Options(preset="llama.cpp")
S, F, C = "sliding_attention", "full_attention", "chunked_attention"
LINEAR: dict[str, Any] = {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.5}


def kinds(found: Plan) -> list[str | None]:
    by_layer = {layer: each for each in found.uses for layer in each.layers or ()}
    return [by_layer[layer].layer_type for layer in sorted(by_layer)]


def still(found: Plan) -> list[int]:
    return sorted(layer for each in found.uses if each.encoding == "none" for layer in each.layers or ())


def test_no_share_is_written_for_most_types() -> None:
    """conversion/base.py writes no rope.dimension_count, conversion/llama.py that of the whole head."""
    for name in ("llama", "qwen2", "gpt_oss", "afmoe"):
        found = use(name, {"gpt_oss": F, "afmoe": S}.get(name), rope_parameters=LINEAR, options=GGML)
        assert found.facts["rotary_dim"] == values(found)["dim"], name
        assert said(found, f"writes no partial_rotary_factor for {name}: whole heads turn")
    assert use("llama", rope_parameters=LINEAR).facts["rotary_dim"] == 8
    assert not said(use("llama", options=GGML), "partial_rotary_factor")


@pytest.mark.parametrize(("name", "turned"), [("nemotron", 8), ("phi", 8), ("stablelm", 4), ("glm", 8)])
def test_a_share_of_what_the_heads_share(name: str, turned: int) -> None:
    """conversion/phi.py: int(rot_pct * n_embd) // n_head, whatever head_dim is."""
    assert use(name, head_dim=32, options=GGML).facts["rotary_dim"] == turned


def test_no_width_of_a_head_is_written_for_granite() -> None:
    """conversion/granite.py pops head_dim."""
    found = use("granite", head_dim=32, options=GGML)
    assert values(found)["dim"] == 16
    assert said(found, "/head_dim is 32; llama.cpp's converter writes no head_dim for granite")
    assert not said(use("granite", head_dim=16, options=GGML), "head_dim")
    assert values(use("granite", head_dim=32))["dim"] == 32


def test_a_share_that_the_converter_assumes() -> None:
    """conversion/glm.py and qwen.py: rope_parameters.get("partial_rotary_factor", 0.5), or 0.25."""
    found = use("solar_open", head_dim=16, options=GGML)
    assert (found.facts["rotary_dim"], found.parameters["rotary_dim"].source) == (8, "class default")
    assert said(found, "takes a partial_rotary_factor of 0.5 where solar_open states none")
    assert use("solar_open", head_dim=16).facts["rotary_dim"] == 16
    stated = use("solar_open", head_dim=16, partial_rotary_factor=0.25, options=GGML)
    assert stated.facts["rotary_dim"] == 4


def test_sections_that_are_in_no_file() -> None:
    found = use("qwen2_vl_text", options=GGML, hidden_size=512)
    assert said(found, "without which llama.cpp loads no qwen2vl")
    block = {"rope_type": "default", "mrope_section": [16, 24, 24]}
    assert not said(use("qwen2_vl_text", options=GGML, hidden_size=512, rope_scaling=block), "loads no")
    asr: dict[str, Any] = {"model_type": "qwen3_asr", "text_config": {"model_type": "qwen3"}}
    assert any("loads no qwen3vl" in note for note in resolve(asr, GGML).notes)
    asr["text_config"] = {"model_type": "qwen3", "rope_scaling": block}
    assert not any("loads no qwen3vl" in note for note in resolve(asr, GGML).notes)


def test_glm_4_turns_neighbours_without_sections() -> None:
    """llama-model.cpp: use_mrope ? LLAMA_ROPE_TYPE_MROPE : LLAMA_ROPE_TYPE_NORM; rows are permuted for the first."""
    plain = use("glm_ocr_text", options=GGML)
    assert (values(plain)["pairing"], "axes" in plain.addresses) == ("interleaved", False)
    block = {"rope_type": "default", "mrope_section": [1, 1, 2]}
    sectioned = use("glm_ocr_text", options=GGML, rope_parameters=block)
    assert (values(sectioned)["pairing"], "axes" in sectioned.addresses) == ("half", True)


def test_sections_beyond_the_pairs_are_told() -> None:
    """qwen35's converter writes [11, 11, 10] of any width; ggml goes on with the first."""
    found = use("qwen4_exp_text", "indexed_attention", head_dim=96, options=GGML)
    assert said(found, "the sections that the class assumes do not fit")


def test_layers_that_the_code_has_slide() -> None:
    """models/laguna.cpp: load_swa_pattern(ml, 4, true), and the converter writes no pattern."""
    assert kinds(plan("laguna", options=GGML)) == [F, S, S, S, F, S]
    assert kinds(plan("laguna", layer_types=[S, S, F, F, F, F], options=GGML)) == [F, S, S, S, F, S]
    assert kinds(plan("laguna")) == [F] * 6
    sliding = use("laguna", S, options=GGML)
    assert (values(sliding)["base"], sliding.window) == (10000.0, Window("sliding", 512))
    full = {F: {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 0.5}}
    assert values(use("laguna", S, rope_parameters=full, options=GGML))["base"] == 5e5
    assert kinds(plan("gpt_oss", layer_types=[F] * 6, options=GGML)) == [S, F] * 3
    assert kinds(plan("modernbert", layer_types=[F] * 6, global_attn_every_n_layers=2, options=GGML)) == [F, S] * 3
    of_the_code = plan("modernbert", global_attn_every_n_layers=None, layer_types=[F] * 6, options=GGML)
    assert kinds(of_the_code) == [F, S, S] * 2
    assert kinds(plan("lfm2", layer_types=["conv", S] * 3, sliding_window=8, options=GGML))[:2] == ["conv", F]


def test_layers_that_a_file_lists() -> None:
    assert kinds(plan("olmo3", layer_types=[F, S, S, F, S, S], sliding_window=8, options=GGML)) == [F, S, S, F, S, S]
    assert kinds(plan("mellum", layer_types=[S] * 6, options=GGML)) == [S] * 6


def test_llama_4_by_llama_cpp() -> None:
    """conversion/llama.py writes a window of 0 where every layer is full, and no no_rope_layers."""
    given: dict[str, Any] = {"head_dim": 16, "options": GGML, "num_hidden_layers": 8}
    full = plan("llama4_text", layer_types=[F] * 8, **given)
    assert (kinds(full), still(full)) == ([F] * 8, [7])
    (last,) = [each for each in full.uses if each.encoding == "none"]
    assert "temperature_parameters" not in last.facts
    chunked = plan("llama4_text", no_rope_layers=[1] * 8, floor_scale=16, **given)
    assert (kinds(chunked), still(chunked)) == ([C, C, C, F] * 2, [3, 7])
    (last,) = [each for each in chunked.uses if each.encoding == "none"]
    assert last.facts["temperature_parameters"]["floor_scale"] == 8192
    assert still(plan("smollm3", no_rope_layers=[1] * 6, options=GGML)) == [3]


def test_layers_counted_for_each_pass() -> None:
    """conversion/hrm_text.py: layers_per_stack * h_cycles * (l_cycles + 1)."""
    assert use("hrm_text", options=GGML).layers == tuple(range(48))
    assert use("hrm_text", H_cycles=1, L_cycles=1, options=GGML).layers == tuple(range(12))
    assert use("hrm_text").layers == tuple(range(6))
    assert refusal("hrm_text", H_cycles="2", options=GGML).parameter == "/H_cycles"


def test_one_scaling_of_a_file() -> None:
    """models/gemma3.cpp: sliding layers turn unscaled, with the amplitude that cancels YaRN's."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    sliding = use("gemma3_text", S, rope_scaling=yarn, options=GGML, head_dim=16)
    assert sliding.facts["attention_factor"] == pytest.approx(1 / (1 + 0.1 * 1.3862943611198906))
    share = {F: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}, S: {"rope_theta": 1e4}}
    local = use("gemma4_text", S, rope_parameters=share, options=GGML)
    assert len(set(frequencies(local))) == len(frequencies(local))


def test_tables_whose_first_rows_are_left_out() -> None:
    """conversion/bert.py: data_torch[self._position_offset:], but for Camembert, which is converted as BERT."""
    tables = {name: use(name, options=GGML, max_position_embeddings=514) for name in ("roberta", "camembert")}
    assert {name: (values(of)["rows"], values(of)["offset_rule"]) for name, of in tables.items()} == {
        "roberta": (512, "none"),
        "camembert": (514, "none"),
    }
    assert said(tables["roberta"], "leaves out the first 2 rows")
    assert said(tables["camembert"], "looks up rows from 0")
    assert values(use("roberta", max_position_embeddings=514))["offset_rule"] == "roberta"


def test_keys_of_a_whole_that_its_text_model_has_not() -> None:
    whole = {"model_type": "qwen2_audio", "head_dim": 96}
    words = "/head_dim is read by no class here; llama.cpp's converter takes it"
    assert any(words in note for note in resolve(whole, GGML).notes)
    assert not any(words in note for note in resolve(whole).notes)
    part = {"model_type": "qwen2", "head_dim": 96}
    assert not any(words in note for note in resolve({**whole, "text_config": part}, GGML).notes)
    assert not any(words in note for note in resolve({"model_type": "janus", "head_dim": 96}, GGML).notes)


def test_a_header_tells_what_it_lacks() -> None:
    header: dict[str, Any] = {
        "embedding_length": 512,
        "attention.head_count": 4,
        "block_count": 8,
        "attention.sliding_window": 64,
    }
    (found, *_) = resolve({"general.architecture": "gemma2"} | {f"gemma2.{k}": v for k, v in header.items()}).uses
    for words in (
        "attention.key_length is missing: heads of 128 channels are assumed, embedding_length / attention.head_count",
        "rope.dimension_count is missing: all 128 channels of a head are assumed to turn",
        "rope.freq_base is missing: 10000 is assumed",
        "attention.sliding_window_pattern is missing: the last of every 2 layers is assumed to see everything",
    ):
        assert said(found, words), words
    more = {"attention.key_length": 64, "rope.dimension_count": 64, "rope.freq_base": 1e6}
    header |= more | {"attention.sliding_window_pattern": 2}
    (found, *_) = resolve({"general.architecture": "gemma2"} | {f"gemma2.{k}": v for k, v in header.items()}).uses
    assert not said(found, "assumed")


def test_a_header_of_t5_has_a_decoder() -> None:
    keys = {"t5.embedding_length": 64, "t5.attention.head_count": 4, "t5.block_count": 2}
    roles = [each.role for each in resolve({"general.architecture": "t5", **keys}).uses]
    assert roles == ["encoder-attention", "decoder-attention", "cross-attention"]


def test_a_drafter_sees_what_is_drafted() -> None:
    """create_bidirectional_sliding_window_mask in transformers; llama.cpp's mask is of each call."""
    found = use("muse_glimmer_assistant", S)
    assert found.window == Window("bidirectional", 2048)
    assert "direction=bidirectional" in found.addresses["mask"].href
    ggml = use("muse_glimmer_assistant", S, options=GGML)
    assert (ggml.window, "mask" in ggml.addresses) == (Window("sliding", 2048), False)


def test_layers_of_muse_glimmer_that_do_not_turn() -> None:
    """transformers: position_embeddings if config.layer_rope_theta[i] else None, 0 for every fourth from the end."""
    assert still(plan("muse_glimmer_text")) == [1, 5]
    assert still(plan("muse_glimmer_text", layer_rope_theta=[0, 1e4, 1e4, 0.0, 1e4, 1e4])) == [0, 3]
    assert refusal("muse_glimmer_text", layer_rope_theta=[1e4] * 5).parameter == "/layer_rope_theta"
    assert refusal("muse_glimmer_text", layer_rope_theta=[1e4, "0"] * 3).parameter == "/layer_rope_theta/1"
    # models/muse-glimmer.cpp: use_rope = hparams.is_swa(il), whatever the bases.
    assert still(plan("muse_glimmer_text", layer_rope_theta=[1e4] * 6, options=GGML)) == [1, 5]


def test_a_window_of_modernbert_by_its_other_name() -> None:
    """Its class has a property: sliding_window = n sets local_attention = 2 n."""
    assert use("modernbert", S, sliding_window=96).window == Window("bidirectional", 96)
    assert use("modernbert", S, sliding_window=96, local_attention=50).window == Window("bidirectional", 96)
    assert use("modernbert", S, local_attention=50).window == Window("bidirectional", 25)
