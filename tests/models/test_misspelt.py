"""Keys that are misspelt within what speaks of rotation: refused with the nearest, never passed over."""

from typing import Any

import pytest

from service.models import resolve
from tests.models.plans import plan, refusal
from tests.models.test_families import header, only, refused

PLAIN = {"rope_type": "default", "rope_theta": 1234}
NESTED = {"full_attention": PLAIN, "slding_attention": PLAIN}
STEP = {"layer_types": ["full_attention", *["sliding_attention"] * 5]}


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("gemma3_text", {}),
        ("modernbert", {}),
        ("gemma4_text", {}),
        ("step3p5", STEP),
        ("dots3_note_text", {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8}),
    ],
)
def test_a_label_that_is_misspelt(name: str, keys: dict[str, Any]) -> None:
    fault = refusal(name, rope_parameters=NESTED, **keys)
    assert (fault.parameter, fault.code) == ("/rope_parameters/slding_attention", "unknown")
    assert "did you mean sliding_attention?" in fault.detail


def test_a_label_of_deepseek_v4() -> None:
    fault = refusal("deepseek_v4", rope_parameters={"main": PLAIN, "compres": PLAIN}, head_dim=64, qk_rope_head_dim=8)
    assert fault.parameter == "/rope_parameters/compres"
    assert "did you mean compress?" in fault.detail


def test_a_label_that_is_like_none() -> None:
    fault = refusal("gemma3_text", rope_parameters={"full_attention": PLAIN, "zzz": PLAIN})
    assert "zzz is no type of layer of rope_parameters; known are full_attention, sliding_attention" in fault.detail


def test_keys_beside_the_types_of_layer() -> None:
    nested = {"full_attention": PLAIN, "sliding_attention": PLAIN, "factor": 2.0, "truncate": None}
    found = plan("gemma3_text", rope_parameters=nested)
    assert "/rope_parameters/factor beside the types of layer have no effect" in found.uses[0].notes


# GGUF


def test_a_key_of_a_header_that_is_misspelt() -> None:
    place, detail = refused(**header("llama", rope__freq_bse=500000))
    assert place == "/llama.rope.freq_bse"
    assert "did you mean llama.rope.freq_base?" in detail


def test_keys_of_another_architecture() -> None:
    place, detail = refused(**header("llama"), **{"qwen2.rope.freq_base": 1e6})
    assert place == "/qwen2.rope.freq_base"
    assert "general.architecture is llama, which reads llama.rope.freq_base" in detail
    both = resolve({**header("llama", rope__freq_base=5e5), "qwen2.rope.freq_base": 1e6})
    assert "qwen2.rope.freq_base is read by nothing: the architecture is llama" in both.notes
    strange = resolve(header("llama", rope__zzzzzzzzzz=1))
    assert "llama.rope.zzzzzzzzzz is read by nothing: the architecture is llama" in strange.notes


def test_widths_of_a_header_that_contradict_each_other() -> None:
    place, detail = refused(**header("llama", rope__dimension_count=10))
    assert place == "/llama.rope.dimension_count"
    assert "llama.rope.dimension_count is 10, and a head has 8 channels" in detail
    assert only(header("llama", rope__dimension_count=8)).facts["rotary_dim"] == 8


def test_numbers_that_no_float_holds() -> None:
    yarn = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}
    place, detail = refused(**header("deepseek2", **yarn, rope__scaling__yarn_log_multiplier=10**400))
    assert place == "/deepseek2.rope.scaling.yarn_log_multiplier"
    assert detail.endswith("too large for float64")
