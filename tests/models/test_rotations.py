"""Rotations that no plain RoPE block describes: bases and widths by kind of layer, towers of clips, seconds, values."""

from typing import Any

import pytest

from service.models import resolve
from tests.models.plans import answers, plan, refusal, said, use, values

KINDS = ["full_attention", "sliding_attention", "full_attention"]


def step(**keys: Any) -> dict[str | None, dict[str, Any]]:
    given = {"layer_types": KINDS, "num_hidden_layers": 3, "head_dim": 16, "sliding_window": 8, **keys}
    return {each.layer_type: values(each) for each in plan("step3p5", **given).uses}


def test_a_base_for_each_layer() -> None:
    found = step(rope_theta=[7.0, 9.0, 7.0], partial_rotary_factors=[0.5, 1.0, 0.5])
    assert (found["full_attention"]["base"], found["full_attention"]["partial_rotary_factor"]) == (7.0, 0.5)
    assert found["sliding_attention"]["base"] == 9.0
    assert "partial_rotary_factor" not in found["sliding_attention"]
    assert {each["base"] for each in step(rope_theta=5.0).values()} == {5.0}
    assert {each["base"] for each in step().values()} == {10000.0}


def test_layers_that_predict_ahead_are_left_out() -> None:
    found = step(layer_types=[*KINDS, "sliding_attention"], num_nextn_predict_layers=1, rope_theta=[7.0, 9.0, 7.0, 9.0])
    assert {label: each["base"] for label, each in found.items()} == {"full_attention": 7.0, "sliding_attention": 9.0}


def test_scaling_is_for_full_attention() -> None:
    scaling = {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    found = step(rope_scaling={**scaling, "original_max_position_embeddings": 128})
    assert found["full_attention"]["rope_type"] == "llama3"
    assert found["sliding_attention"]["rope_type"] == "default"


def test_a_block_for_each_type_of_layer_wins_over_lists() -> None:
    nested = {"full_attention": {"rope_theta": 3.0}, "sliding_attention": {}}
    found = step(rope_parameters=nested, rope_theta=[7.0, 9.0, 7.0])
    assert {label: each["base"] for label, each in found.items()} == {"full_attention": 3.0, "sliding_attention": 1e4}
    flat = plan(
        "step3p5", layer_types=KINDS, num_hidden_layers=3, sliding_window=8, rope_parameters={"rope_theta": 3.0}
    ).uses[0]
    assert values(flat)["base"] == 1e4
    assert said(flat, "rope_parameters has no object for each type of layer")


@pytest.mark.parametrize(
    ("keys", "pointer"),
    [
        ({"rope_theta": [7.0, 9.0]}, "/rope_theta"),
        ({"rope_theta": [7.0, "9", 7.0]}, "/rope_theta/1"),
        ({"rope_theta": "many"}, "/rope_theta"),
        ({"partial_rotary_factors": [1.0]}, "/partial_rotary_factors"),
        ({"layer_types": KINDS[:2]}, "/layer_types"),
    ],
)
def test_lists_by_layer_that_are_refused(keys: dict[str, Any], pointer: str) -> None:
    given = {"layer_types": KINDS, "num_hidden_layers": 3, **keys}
    assert refusal("step3p5", **given).parameter == pointer


def dots(**keys: Any) -> dict[str | None, dict[str, Any]]:
    return {each.layer_type: values(each) for each in plan("dots3_note_text", **keys).uses}


def test_dots3_has_widths_and_bases_by_kind_of_layer() -> None:
    found = dots()
    assert (found["indexed_attention"]["base"], found["sliding_attention"]["base"]) == (8e7, 5e4)
    assert {each["dim"] for each in found.values()} == {64}
    assert dots(swa_head_dim=200, swa_qk_nope_head_dim=152)["sliding_attention"]["dim"] == 48
    assert dots(swa_qk_rope_head_dim=32)["sliding_attention"]["dim"] == 32
    assert set(dots(use_dsa=False)) == {"full_attention", "sliding_attention"}
    assert set(dots(use_sliding_window=False)) == {"indexed_attention"}
    assert {each["base"] for each in dots(rope_scaling={"rope_theta": 3.0}).values()} == {3.0}
    nested = {"indexed_attention": {"rope_theta": 3.0, "partial_rotary_factor": 0.1}, "sliding_attention": {}}
    assert {each["base"] for each in dots(rope_parameters=nested).values()} == {3.0, 8e7}


@pytest.mark.parametrize(
    ("keys", "pointer"),
    [
        ({"swa_head_dim": 10, "swa_qk_nope_head_dim": 10}, "/swa_qk_nope_head_dim"),
        ({"qk_rope_head_dim": 0}, "/qk_rope_head_dim"),
        ({"rope_parameters": {"sliding_attention": {}}}, "/rope_parameters/indexed_attention"),
        ({"rope_parameters": {"sliding_attention": {}, "indexed_attention": 3}}, "/rope_parameters/indexed_attention"),
    ],
)
def test_what_dots3_refuses(keys: dict[str, Any], pointer: str) -> None:
    assert refusal("dots3_note_text", **keys).parameter == pointer


def test_a_type_of_layer_needs_its_base() -> None:
    nested = {"full_attention": {"rope_theta": 3.0}, "sliding_attention": {"rope_type": "default"}}
    assert refusal("gemma4_text", rope_parameters=nested).parameter == "/rope_parameters/sliding_attention/rope_theta"


def test_a_type_of_layer_has_its_share() -> None:
    nested = {"full_attention": {"rope_theta": 3.0}, "sliding_attention": {"rope_theta": 5.0}}
    found = {each.layer_type: values(each) for each in plan("neomme", rope_parameters=nested).uses}
    assert found["full_attention"]["partial_rotary_factor"] == 0.25
    assert "partial_rotary_factor" not in found["sliding_attention"]


def test_phimoe_takes_the_short_list_at_any_length() -> None:
    lists = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "original_max_position_embeddings": 8}
    block = {"type": "longrope", **lists, "short_mscale": 1.25, "long_mscale": 1.5}
    found = use("phimoe", rope_scaling=block)
    assert (found.facts["list_used"], found.facts["attention_factor"]) == ("short", 1.5)
    assert said(found, "transformers 5.24 takes the short list at any length")
    assert refusal("phimoe", rope_scaling={"type": "longrope", **lists}).parameter == "/rope_scaling/short_mscale"


@pytest.mark.parametrize(
    ("block", "pointer"),
    [
        ({"rope_type": "yarn", "factor": 2.0, "truncate": "no"}, "/rope_scaling/truncate"),
        ({"rope_type": "yarn", "factor": [[2.0]]}, "/rope_scaling/factor"),
        ({"rope_type": "longrope", "factor": 2.0, "short_factor": 2.0}, "/rope_scaling/short_factor"),
        ({"rope_type": "longrope", "factor": 2.0, "short_factor": [1.0, "x"]}, "/rope_scaling/short_factor/1"),
    ],
)
def test_values_of_another_kind_in_a_block(block: dict[str, Any], pointer: str) -> None:
    assert refusal("llama", rope_scaling=block).parameter == pointer


def test_values_of_another_kind_beside_it() -> None:
    assert refusal("falcon", alibi=3).parameter == "/alibi"
    assert refusal("bamba", attn_layer_indices=[1], num_hidden_layers=0).code == "out_of_range"
    assert refusal("lfm2", layer_types=None, full_attn_idxs=["x"]).parameter == "/full_attn_idxs/0"
    assert refusal("deepseek_v4", compress_ratios=[[1]] * 6).parameter == "/compress_ratios/0"
    assert refusal("llama4_text", attn_temperature_tuning="yes").parameter == "/attn_temperature_tuning"
    assert use("llama4_text", "full_attention", attn_temperature_tuning=None).facts == {}
    assert refusal("detr", position_embedding_type=7).parameter == "/position_embedding_type"
    assert refusal("distilbert", sinusoidal_pos_embds="x").parameter == "/sinusoidal_pos_embds"


def test_clvp_turns_values_too() -> None:
    (found, *_) = resolve({"model_type": "clvp_encoder"}).uses
    assert (values(found)["dim"], values(found)["rotary_dim"]) == (64, 32)
    assert said(found, "values turn too")
    assert refusal("clvp_encoder", projection_dim=512).parameter == "/projection_dim"


def test_sections_that_nobody_states() -> None:
    assert "axes" not in use("hunyuan_vl_text").addresses


def test_clvp_without_rotation() -> None:
    assert use("clvp_encoder", use_rotary_embedding=False).encoding == "none"


def test_a_clips_tower_and_its_predictor() -> None:
    encoder, predictor = resolve({"model_type": "vjepa2"}).uses
    assert (encoder.facts["part"], predictor.facts["part"]) == ("encoder", "predictor")
    assert values(encoder)["rotary_dim"] == 60
    assert "turning=neighbours" in encoder.addresses["rotation"].href
    assert "grid=32,16,16" in encoder.addresses["tables"].href


@pytest.mark.parametrize(
    ("keys", "pointer"),
    [
        ({"frames_per_clip": 1}, "/frames_per_clip"),
        ({"hidden_size": 4, "num_attention_heads": 1}, "/hidden_size"),
        ({"hidden_size": 10, "num_attention_heads": 3}, "/num_attention_heads"),
    ],
)
def test_what_a_clips_tower_refuses(keys: dict[str, Any], pointer: str) -> None:
    assert refusal("vjepa2", **keys).parameter == pointer


def test_frames_that_turn_by_seconds() -> None:
    (frames,) = [each for each in resolve({"model_type": "musicflamingo"}).uses if each.encoding == "rope-axes"]
    assert (values(frames)["rotary_dim"], values(frames)["base"]) == (512, 1200.0)
    assert frames.addresses["tables"].method == "POST"
    assert answers(frames.addresses["frequencies"])["frequencies"].size == 256
    scaled = {"rope_type": "linear", "factor": 2.0}
    assert refusal("musicflamingo", rope_parameters=scaled).parameter == "/rope_parameters/rope_type"


@pytest.mark.parametrize(
    ("architecture", "encoding"),
    [
        ("resnet50", "none"),
        ("fastvit_mci3", "convolution"),
        ("vit_pe_core_large_patch14_336", "learned"),
        ("vit_base_patch16_224", "unknown"),
        (3, "unknown"),
    ],
)
def test_a_tower_of_timm(architecture: object, encoding: str) -> None:
    assert plan("timm_wrapper", architecture=architecture).uses[0].encoding == encoding
