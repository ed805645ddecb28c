"""Keys of null: what the class of transformers fails on is said, and what it makes of the others is done."""

from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import Options, resolve
from service.models.known import model_type
from service.models.nulls import failing_nulls
from service.models.plan import Window
from tests.models.plans import plan, refusal, use, values

YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("name", "keys", "named"),
    [
        ("llama", {"hidden_size": None}, "/hidden_size"),
        ("gpt2", {"hidden_size": None}, "/hidden_size"),
        ("llama", {"rope_theta": None}, "/rope_theta"),
        ("llama", {"rope_parameters": {"rope_theta": None}}, "/rope_parameters/rope_theta"),
        ("llama", {"rope_scaling": {"rope_type": None}}, "/rope_scaling/rope_type"),
        ("llama", {"rope_scaling": {**YARN, "partial_rotary_factor": None}}, "/rope_scaling/partial_rotary_factor"),
        (
            "llama",
            {"rope_scaling": {**YARN, "original_max_position_embeddings": None}},
            "/rope_scaling/original_max_position_embeddings",
        ),
        ("glm4", {"rope_parameters": {"partial_rotary_factor": None}}, "/rope_parameters/partial_rotary_factor"),
        ("gemma3_text", {"rope_local_base_freq": None}, "/rope_local_base_freq"),
        (
            "gemma3_text",
            {"rope_parameters": {"full_attention": {"rope_theta": None}}},
            "/rope_parameters/full_attention/rope_theta",
        ),
        ("gpt_neox", {"rotary_pct": None}, "/rotary_pct"),
        # Its model makes the mask of sliding layers, though with a window of null there are none.
        ("ministral", {"sliding_window": None}, "/sliding_window"),
        ("gemma3", {"text_config": {"model_type": "gemma3_text", "hidden_size": None}}, "/text_config/hidden_size"),
    ],
)
def test_a_null_that_the_class_fails_on(name: str, keys: dict[str, Any], named: str) -> None:
    (note,) = failing_nulls(keys, name)
    assert note == f"transformers fails on null at {named}: the plan has what the class assumes there"


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("llama", {"head_dim": None, "rope_scaling": None, "rope_parameters": None, "sliding_window": None}),
        ("llama", {"rope_theta": None, "rope_parameters": {"rope_theta": 5e5}}),
        ("llama", {"rope_scaling": {**YARN, "factor": None, "truncate": None}}),
        ("llama", {"rope_parameters": {"partial_rotary_factor": None, "original_max_position_embeddings": None}}),
        ("phi3", {"rope_scaling": {**YARN, "original_max_position_embeddings": None}}),
        ("gemma3_text", {"rope_theta": None, "rope_parameters": {"full_attention": {"rope_theta": 5.0}}}),
        ("laguna", {"rope_theta": None}),
        ("bert", {"rope_theta": None, "rope_parameters": {"rope_theta": None}}),
        ("mistral", {"sliding_window": None}),
        ("glm4", {"partial_rotary_factor": None}),
        ("mllama_text_model", {"cross_attention_layers": None}),
        ("llama", {"other": {"model_type": "no such type", "hidden_size": None}}),
    ],
)
def test_a_null_that_it_takes(name: str, keys: dict[str, Any]) -> None:
    assert failing_nulls(keys, name) == []


def test_many_nulls() -> None:
    row = model_type("laguna")
    fields = [name for name, value in row.fields.items() if value is not None and name not in row.nullable]
    (note,) = failing_nulls(dict.fromkeys(fields), "laguna")
    assert f" and {len(fields) - 8} more: the plan" in note
    assert note.count("/") == 8


def test_the_note_is_of_transformers_alone() -> None:
    config = {"model_type": "llama", "max_position_embeddings": None}
    assert any("fails on null" in note for note in resolve(config).notes)
    assert not resolve(config, Options(preset="vllm")).notes
    assert not any("fails on null" in note for note in resolve({"model_type": "llama"}).notes)


SHARES: tuple[dict[str, Any], ...] = ({"partial_rotary_factor": None}, {})


def test_a_share_of_null_turns_the_whole_head() -> None:
    """glm4, phi, stablelm, ...: null keeps the class's own share out (`kwargs.setdefault`)."""
    for name in ("glm4", "phi", "stablelm", "nemotron", "qwen3_next"):
        stated, assumed = (
            [values(each) for each in plan(name, **keys).uses if each.encoding == "rope"] for keys in SHARES
        )
        assert "partial_rotary_factor" not in stated[0], name
        assert "partial_rotary_factor" in assumed[0], name


def test_truncate_of_null_is_false() -> None:
    for key in ("rope_scaling", "rope_parameters"):
        untrue: dict[str, Any] = {key: {**YARN, "truncate": None}}
        plain: dict[str, Any] = {key: YARN}
        assert values(use("llama", **untrue))["truncate"] is False
        assert "truncate" not in values(use("llama", **plain))


def test_the_share_of_mistral_4_is_of_its_widths() -> None:
    widths: dict[str, Any] = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 24}
    assert values(use("mistral4", partial_rotary_factor=1.0, **widths))["partial_rotary_factor"] == 0.25
    scaled: dict[str, Any] = {"rope_scaling": YARN, "partial_rotary_factor": 0.5}
    assert values(use("mistral4", **widths, **scaled))["partial_rotary_factor"] == 0.5


def test_hunyuan_by_alpha_turns_the_whole_head() -> None:
    block: dict[str, Any] = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    found = use("hunyuan_v1_dense", rope_scaling=block, partial_rotary_factor=0.5, head_dim=16)
    assert "partial_rotary_factor" not in values(found)
    assert any("by alpha, the class turns the whole head" in note for note in found.notes)


def test_an_amplitude_that_deepseek_4_states() -> None:
    stated = plan("deepseek_v4", rope_scaling={**YARN, "attention_factor": 0.5}).uses
    plain = plan("deepseek_v4", rope_scaling=YARN).uses
    for uses, amplitude in ((stated, 0.5), (plain, 1.0)):
        scaled = [each for each in uses if values(each)["rope_type"] == "yarn"]
        assert {each.facts["attention_factor"] for each in scaled} == {amplitude}


def test_a_window_over_that_of_the_class() -> None:
    """ModernBERT's decoder halves local_attention, and a sliding_window of the file comes after."""
    sliding = use("modernbert-decoder", "sliding_attention", sliding_window=7)
    assert sliding.window == Window("sliding", 7)
    assert "window=7" in sliding.addresses["mask"].href
    assert use("modernbert-decoder", "sliding_attention", local_attention=10).window == Window("sliding", 5)
    assert refusal("modernbert-decoder", sliding_window=None).parameter == "/sliding_window"
    ggml = use("modernbert-decoder", "sliding_attention", sliding_window=None, options=Options(preset="llama.cpp"))
    assert ggml.window is None


def test_no_layer_of_dots_slides_where_the_switch_is_null() -> None:
    for said in (None, False):
        assert {each.window for each in plan("dots3_note_text", use_sliding_window=said).uses} == {None}
    with pytest.raises(Refusal):
        plan("dots3_note_text", sliding_window=None)
