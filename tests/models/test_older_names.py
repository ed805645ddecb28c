"""Names that repositories with code of their own have for what a class calls otherwise, and names that nobody has."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.models import Options, resolve
from service.models.plan import Plan
from tests.models.plans import plan, refusal, refused, said, use

SIZES: Mapping[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "max_position_embeddings": 128,
}


def assumed(as_type: str, **keys: Any) -> Plan:
    return resolve({"model_type": "my_own", **SIZES, **keys}, Options(assume=as_type))


def test_the_share_of_stablelm_epoch() -> None:
    found = assumed("stablelm", rope_pct=0.5)
    assert found.uses[0].facts["rotary_dim"] == 8
    assert found.uses[0].parameters["partial_rotary_factor"].key == "/rope_pct"
    assert use("stablelm", rope_pct=0.5).facts["rotary_dim"] == 4  # transformers' own class reads no such key


@pytest.mark.parametrize("as_type", ["phi", "minimax"])
def test_the_width_that_older_code_turns(as_type: str) -> None:
    found = assumed(as_type, rotary_dim=6, head_dim=16)
    turning = [each for each in found.uses if each.encoding == "rope"]
    assert {each.facts["rotary_dim"] for each in turning} == {6}
    assert {each.parameters["rotary_dim"].key for each in turning} == {"/rotary_dim"}


def test_a_share_that_is_taken_is_said() -> None:
    found = assumed("gpt_neox")
    assert found.uses[0].facts["rotary_dim"] == 4
    assert any("taken as in gpt_neox" in note and "/rotary_pct 0.25" in note for note in found.notes)
    assert not any("/rotary_pct" in note for note in assumed("gpt_neox", rotary_pct=1.0).notes)


def test_a_type_that_auto_map_tells() -> None:
    auto = {"AutoConfig": "configuration_deepseek.DeepseekV3Config"}
    detail = refused({"model_type": "kimi_k2", "auto_map": auto})[1]
    assert "auto_map names configuration_deepseek.DeepseekV3Config, as of deepseek_v3" in detail
    for strange in (3, {"AutoConfig": 3}, {"AutoConfig": "my.Config"}, {"AutoModel": "modeling.Model"}):
        assert "auto_map names" not in refused({"model_type": "kimi_zz", "auto_map": strange})[1]


@pytest.mark.parametrize(
    ("key", "value", "near"),
    [
        ("rope_scalling", {"rope_type": "linear", "factor": 2.0}, "rope_scaling"),
        ("rope_teta", 5e5, "rope_theta"),
        ("rope_parameter", {}, "rope_parameters"),
        ("partial_rotary_facto", 0.5, "partial_rotary_factor"),
    ],
)
def test_a_key_of_rope_that_is_misspelt(key: str, value: Any, near: str) -> None:
    given: dict[str, Any] = {key: value}
    fault = refusal("llama", **given)
    assert (fault.parameter, fault.code) == (f"/{key}", "unknown")
    assert f"did you mean {near}?" in fault.detail
    assert resolve({"model_type": "bert", key: value}).uses  # turns by nothing: no position changes


def test_a_key_of_rope_that_nothing_reads() -> None:
    assert said(use("llama", rope_base=5e5), "/rope_base is read by nothing in llama")
    assert not said(use("llama", rope_base=None, rope_interleaved=False), "is read by nothing")
    gptj: dict[str, Any] = {"n_embd": 64, "n_head": 4, "rotary_dim": 8}
    assert not said(use("gptj", **gptj), "read by nothing")
    odd = assumed("llama", rope_odd=5e5)
    assert odd.notes[1:] == ("llama does not read rope_odd",)
    assert not said(odd.uses[0], "is read by nothing")


def test_relative_positions_of_no_kind() -> None:
    notes = [
        note for each in plan("wav2vec2-conformer", position_embeddings_type="rotaryy").uses for note in each.notes
    ]
    assert any("/position_embeddings_type is rotaryy, which no code reads" in note for note in notes)
    for known in ("rotary", "relative", None):
        uses = plan("wav2vec2-conformer", position_embeddings_type=known).uses
        assert not any("which no code reads" in note for each in uses for note in each.notes)
