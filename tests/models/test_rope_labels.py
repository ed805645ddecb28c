"""Objects by type of layer: what reaches them from the top of the file, and classes that read no such objects."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.models import Options, Use
from tests.models.plans import plan, refusal, said, use, values

LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e6}
PLAIN = {"rope_type": "default", "rope_theta": 1e4}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}
BOTH = {"full_attention": LINEAR, "sliding_attention": PLAIN}


def turning(model_type: str, **keys: Any) -> dict[str | None, Use]:
    return {each.layer_type: each for each in plan(model_type, **keys).uses if each.encoding == "rope"}


def widths(model_type: str, **keys: Any) -> dict[str | None, int]:
    return {label: each.facts["rotary_dim"] for label, each in turning(model_type, **keys).items()}


def test_a_share_that_unscaled_objects_alone_have() -> None:
    """MiMo's code turns 0.334 of a head where an unscaled object says nothing, a scaled one all of it."""
    assert widths("mimo_v2_flash", head_dim=96) == {"full_attention": 32, "sliding_attention": 32}
    assert widths("mimo_v2_flash", head_dim=96, rope_parameters=BOTH) == {
        "full_attention": 96,
        "sliding_attention": 32,
    }


def test_scaling_hands_the_top_down() -> None:
    """From the first object that scales, in the order of their names."""
    first = {**BOTH, "full_attention": {**LINEAR, "rope_theta": 7.0}}
    last = {"full_attention": PLAIN, "sliding_attention": {"rope_type": "linear", "factor": 2.0}}
    share = {"head_dim": 96, "partial_rotary_factor": 0.5}
    assert widths("mimo_v2_flash", rope_parameters=first, **share) == {"full_attention": 48, "sliding_attention": 48}
    found = turning("mimo_v2_flash", rope_parameters=last, rope_theta=7.0, **share)
    assert {label: each.facts["rotary_dim"] for label, each in found.items()} == {
        "full_attention": 32,
        "sliding_attention": 48,
    }
    assert values(found["sliding_attention"])["base"] == 7.0
    assert not said(found["sliding_attention"], "rope_theta has no effect")
    assert refusal("mimo_v2_flash", rope_parameters=last).parameter == "/rope_parameters/sliding_attention/rope_theta"


def test_a_share_at_the_top_reaches_diffusion_gemma() -> None:
    """Its full layers are scaled as the class has them; Gemma 4's unscaled ones read no share."""
    assert widths("diffusion_gemma_text", head_dim=64, partial_rotary_factor=0.5)["sliding_attention"] == 32
    assert widths("gemma4_text", head_dim=64, partial_rotary_factor=0.5)["sliding_attention"] == 64
    found = turning("laguna", layer_types=["full_attention"] * 6, head_dim=64, partial_rotary_factor=0.25)
    assert said(found["full_attention"], "/partial_rotary_factor has no effect: the class reads the objects")


def test_a_base_at_the_top_is_handed_to_every_object() -> None:
    found = turning("neomme", head_dim=64, rope_theta=5e5)
    assert {label: values(each)["base"] for label, each in found.items()} == dict.fromkeys(found, 5e5)
    assert not any("rope_theta" in note for each in found.values() for note in each.notes)
    some = turning("neomme", head_dim=64, rope_parameters={"full_attention": {"type": "linear", "factor": 2.0}})
    assert values(some["full_attention"])["base"] == 1e6
    assert values(some["full_attention"])["rope_type"] == "default"
    assert said(some["full_attention"], "full_attention has type and not rope_type")
    lfm3 = {"full_attention": {"rope_type": "linear", "factor": 2.0}, "sliding_attention": PLAIN}
    layers = {"layer_types": ["full_attention", "sliding_attention"] * 3}
    assert values(turning("lfm3", rope_theta=7.0, rope_parameters=lfm3, **layers)["full_attention"])["base"] == 7.0
    assert values(turning("lfm3", rope_parameters=lfm3, **layers)["full_attention"])["base"] == 1e6
    assert said(
        turning("lfm3", rope_theta=None, rope_parameters=lfm3, **layers)["full_attention"], "/rope_theta is null"
    )


@pytest.mark.parametrize("keys", [{"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, {"rope_scaling": BOTH}])
def test_neomme_takes_objects_alone(keys: Mapping[str, Any]) -> None:
    assert refusal("neomme", head_dim=64, **keys).code == "conflict"


def test_objects_in_rope_scaling_win() -> None:
    other = {"full_attention": {**PLAIN, "rope_theta": 9.0}, "sliding_attention": PLAIN}
    found = turning("mellum", rope_scaling=other, rope_parameters=BOTH, layer_types=["full_attention"] * 6)
    assert values(found["full_attention"])["base"] == 9.0
    assert said(found["full_attention"], "transformers takes rope_scaling")


def test_ultrabert_lists_its_bases() -> None:
    bases = [7.0, 7.0, 9.0] * 2
    found = turning("ultrabert", rope_theta=bases)
    assert values(found["sliding_attention"])["base"] == 7.0
    assert values(found["full_attention"])["base"] == 9.0
    assert found["full_attention"].parameters["base"].key.startswith("/rope_theta")
    for wrong, code in ((5e5, "type"), (bases[1:], "shape"), ([*bases[1:], "9"], "type")):
        fault = refusal("ultrabert", rope_theta=wrong)
        assert (fault.parameter.split("/")[1], fault.code) == ("rope_theta", code)


def test_the_attention_factor_of_deepseek_v4() -> None:
    keys: dict[str, Any] = {"head_dim": 64, "qk_rope_head_dim": 8, "compress_ratios": [0, 0, 4, 128, 4, 128]}
    label = "compressed_sparse_attention"
    assert use("deepseek_v4", label, rope_scaling=YARN, **keys).facts["attention_factor"] == 1.0
    assert use("deepseek_v4", label, rope_scaling={**YARN, "attention_factor": 1.5}, **keys).facts[
        "attention_factor"
    ] == (1.5)


def test_objects_of_deepseek_v4() -> None:
    keys: dict[str, Any] = {"head_dim": 64, "compress_ratios": [0, 0, 4, 128, 4, 128], "partial_rotary_factor": 0.25}
    plain = {"main": {}, "compress": {"rope_type": "default"}}
    found = turning("deepseek_v4", rope_theta=7.0, rope_parameters=plain, **keys)
    assert {(values(each)["base"], each.facts["rotary_dim"]) for each in found.values()} == {(7.0, 16)}
    scaled = {"main": {**YARN, "rope_theta": 9.0}, "compress": {"rope_theta": 9.0}}
    assert turning("deepseek_v4", rope_parameters=scaled, head_dim=64, compress_ratios=[0, 4] * 3)
    fault = refusal("deepseek_v4", rope_parameters=plain, head_dim=64, compress_ratios=[0, 4] * 3)
    assert fault.parameter == "/rope_parameters/main/partial_rotary_factor"


def test_the_share_of_dots3_note_follows_from_its_widths() -> None:
    keys: dict[str, Any] = {"partial_rotary_factor": 0.5, "qk_rope_head_dim": 16}
    for scaling in ({"rope_type": "linear", "factor": 2.0}, YARN):
        assert widths("dots3_note_text", rope_scaling=scaling, **keys)["indexed_attention"] == 16


def test_the_length_that_phimoe_was_trained_for_stands_in_the_block() -> None:
    """Its code puts the block's, or the longest context, over the one at the top of the file."""
    scaling = {
        "type": "longrope",
        "short_factor": [1.0] * 8,
        "long_factor": [2.0] * 8,
        "short_mscale": 1.243,
        "long_mscale": 2.0,
    }
    for length, block, wanted in ((4097, {}, 1.243), (4097, {"original_max_position_embeddings": 4096}, 2.0)):
        found = use(
            "phimoe",
            options=Options(length=length),
            max_position_embeddings=131072,
            original_max_position_embeddings=4096,
            rope_scaling={**scaling, **block},
        )
        assert found.facts["attention_factor"] == wanted


# Classes that read one block


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "cohere2", "qwen3", "lfm2", "smollm3", "lfm2_moe", "llama"])
@pytest.mark.parametrize("key", ["rope_parameters", "rope_scaling"])
def test_objects_that_a_class_does_not_read(name: str, key: str) -> None:
    given: dict[str, Any] = {key: BOTH}
    fault = refusal(name, **given)
    assert fault.parameter == f"/{key}/full_attention"
    assert "full_attention" in fault.detail


def test_modernbert_takes_nothing_beside_its_objects() -> None:
    fault = refusal("modernbert", rope_parameters={**BOTH, "rope_type": "default"})
    assert (fault.parameter, fault.code) == ("/rope_parameters/rope_type", "conflict")


@pytest.mark.parametrize(("name", "label"), [("beam", "sliding_attention"), ("laguna", "full_attention")])
def test_a_trained_length_that_no_class_fills_in(name: str, label: str) -> None:
    bare = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
    blocks: dict[str, Any] = {"full_attention": PLAIN, "sliding_attention": PLAIN, label: bare}
    fault = refusal(name, rope_parameters=blocks)
    assert fault.parameter == f"/rope_parameters/{label}/original_max_position_embeddings"
    fault = refusal("step3p5", rope_scaling={"rope_type": "yarn", "factor": 4.0})
    assert fault.parameter == "/rope_scaling/original_max_position_embeddings"


def test_a_block_that_a_fixed_rotation_reads_past() -> None:
    gptj: dict[str, Any] = {"n_embd": 64, "n_head": 4, "rotary_dim": 8}
    found = use("gptj", rope_scaling=YARN, rope_theta=7.0, **gptj)
    assert said(found, "/rope_scaling, /rope_theta have no effect")
    assert values(found)["base"] == 1e4
    assert not any("no effect" in note for note in use("gptj", **gptj).notes)
    assert refusal("gptj", rope_parameters={"rope_type": "yarn", "factor": 2.0}, **gptj).code == "missing"


# Null


NULL_BASES: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "llama": ("llama", {"rope_theta": None}, "/rope_theta"),
    "a block": ("llama", {"rope_parameters": {"rope_theta": None}}, "/rope_parameters/rope_theta"),
    "gemma 3": ("gemma3_text", {"rope_theta": None}, "/rope_theta"),
    "an object": (
        "gemma3_text",
        {"rope_parameters": {"full_attention": {"rope_theta": None}}},
        "/rope_parameters/full_attention/rope_theta",
    ),
    "dots3.note": ("dots3_note_text", {"rope_theta": None}, "/rope_theta"),
    "deepseek v4": ("deepseek_v4", {"rope_theta": None, "head_dim": 64}, "/rope_theta"),
    "step 3.5": ("step3p5", {"rope_theta": None}, "/rope_theta"),
    "a tower": ("qwen2_5_vl_vision", {"rope_theta": None}, "/rope_theta"),
    "dinov3": ("dinov3_vit", {"rope_theta": None}, "/rope_theta"),
}


@pytest.mark.parametrize("name", NULL_BASES)
def test_a_base_of_null_is_said(name: str) -> None:
    model_type, keys, place = NULL_BASES[name]
    wanted = f"{place} is null: transformers fails on it; the plan is as if it were left out"
    assert any(wanted in each.notes for each in plan(model_type, **keys).uses)


def test_a_null_that_nothing_reads() -> None:
    block = {"rope_type": "default", "rope_theta": 7.0}
    assert not said(use("llama", rope_theta=None, rope_parameters=block), "is null")
    for options in (Options(preset="vllm"), Options(preset="llama.cpp")):
        assert not said(use("llama", rope_theta=None, options=options), "is null")


@pytest.mark.parametrize("name", ["gpt_neox", "cohere", "granite", "olmo"])
def test_a_head_of_null_that_scaling_reads(name: str) -> None:
    assert said(use(name, head_dim=None, rope_scaling=YARN), "transformers fails on yarn here")
    linear = {"rope_type": "linear", "factor": 2.0}
    assert not said(use(name, head_dim=None, rope_scaling=linear), "transformers fails")
    assert not said(use(name, rope_scaling=YARN), "transformers fails")


def test_a_head_of_null_that_the_class_fills_in() -> None:
    theirs = use("granite", head_dim=None, rope_scaling=YARN, options=Options(preset="vllm"))
    assert not said(theirs, "transformers fails")
    assert not said(use("llama", head_dim=None, rope_scaling=YARN), "transformers fails")


def test_a_share_of_null_is_the_whole_head() -> None:
    assert use("glm").facts["rotary_dim"] == 64
    assert use("glm", head_dim=16).facts["rotary_dim"] == 8
    assert use("glm", head_dim=16, partial_rotary_factor=None).facts["rotary_dim"] == 16
    assert said(use("phi3", partial_rotary_factor=None), "transformers fails on partial_rotary_factor null")


def test_a_type_of_layer_that_has_no_rope_of_its_own() -> None:
    fault = refusal("gemma3_text", layer_types=["hybrid"] * 6)
    assert (fault.parameter, fault.code) == ("/rope_parameters/hybrid", "missing")
