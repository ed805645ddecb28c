"""Keys that decide positions for another model: refused where a type is assumed, told where it is known."""

from typing import Any

import pytest

from service.engine.errors import Fault, Refusal
from service.models import Options, Plan, resolve
from service.models.deciding import DECIDES
from tests.models.plans import said, values

SIZES: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
# What llama does not read, with values that would make another model of it.
CONTRARY = [
    ("alibi", True),
    ("use_alibi", True),
    ("alibi_bias_max", 8),
    ("position_embedding_type", "alibi"),
    ("pos_emb", "learned"),
    ("no_rope_layers", [1, 0]),
    ("no_rope_layers", "none"),
    ("no_rope_layer_interval", 4),
    ("relative_attention_num_buckets", "many"),
    ("use_logn_attn", True),
    ("use_dynamic_ntk", True),
    ("attention_chunk_size", 8),
    ("qk_rope_head_dim", 8),
    ("rotary_dim", 8),
    ("head_size", 32),
    ("global_rope_theta", 5.0),
    ("layer_rope_theta", [10000.0, 0]),
    ("rotary_base", 500000),
    ("theta", 5.0),
    ("rope_percent", 0.5),
    ("rotary_pct", 0.5),
    ("rope_ratio", 2),
    ("rope", {"theta": 5.0}),
    ("rotary", {"base": 5.0}),
    ("rope", "none"),
    ("use_rope", False),
    ("is_neox_style", False),
    ("rope_interleave", True),
    ("rope_scaling_type", "linear"),
    ("sinusoidal_pos_embds", True),
    ("learned_pos_emb", True),
]
NEUTRAL: list[tuple[str, Any]] = [
    ("alibi", False),
    ("use_alibi", None),
    ("position_embedding_type", "rope"),
    ("position_embedding_type", "rotary-gptj"),
    ("pos_emb", 1),
    ("no_rope_layers", [1, 1]),
    ("no_rope_layers", []),
    ("no_rope_layer_interval", 0),
    ("use_logn_attn", False),
    ("rotary_dim", 16),
    ("head_size", 16),
    ("rotary_base", 10000),
    ("layer_rope_theta", [10000, 10000.0]),
    ("rotary_pct", 1.0),
    ("rope_ratio", 1),
    ("rope", True),
    ("rotary", {}),
    ("rope", "rotary"),
    ("is_neox_style", True),
    ("rope_interleave", False),
    ("rope_scaling_type", "default"),
]


def read(name: str, assume: str | None = None, **keys: Any) -> Plan:
    return resolve({"model_type": name, **SIZES, **keys}, Options(assume=assume))


def refused(name: str, assume: str | None = None, **keys: Any) -> Fault:
    with pytest.raises(Refusal) as found:
        read(name, assume, **keys)
    (fault,) = found.value.faults
    return fault


@pytest.mark.parametrize(("key", "value"), CONTRARY)
def test_a_value_that_would_make_another_model(key: str, value: Any) -> None:
    fault = refused("foo", "llama", **{key: value})
    assert (fault.parameter, fault.code) == (f"/{key}", "conflict")
    assert "and llama does not read it" in fault.detail
    plain, odd = read("llama").uses[0], read("llama", **{key: value}).uses[0]
    assert odd.notes == (*plain.notes, f"/{key} is read by nothing in llama")
    assert values(odd) == values(plain)


@pytest.mark.parametrize(("key", "value"), NEUTRAL)
def test_a_value_that_changes_nothing(key: str, value: Any) -> None:
    assert read("foo", "llama", **{key: value}).uses[0].notes == read("llama").uses[0].notes
    assert read("llama", **{key: value}).uses[0].notes == read("llama").uses[0].notes


@pytest.mark.parametrize("key", DECIDES)
@pytest.mark.parametrize("assume", ["llama", "bert", "bloom"])
def test_no_key_of_the_list_is_there_where_it_is_null(key: str, assume: str) -> None:
    keys: dict[str, Any] = {key: None, "max_position_embeddings": 32}
    assert read("foo", assume, **keys).uses[0].encoding == read(assume).uses[0].encoding


@pytest.mark.parametrize(
    ("assume", "keys", "pointer"),
    [
        ("llama", {"partial_rotary_factor": 0.5}, "/partial_rotary_factor"),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "/rope_parameters/partial_rotary_factor"),
        ("gpt_neox", {"partial_rotary_factor": 0.5}, "/partial_rotary_factor"),
        ("phi", {"rotary_pct": 1.0}, "/rotary_pct"),
        ("deepseek_v2", {"rope_interleave": False, "qk_rope_head_dim": 8}, "/rope_interleave"),
        ("bloom", {"rope_theta": 5.0}, "/rope_theta"),
        ("bloom", {"partial_rotary_factor": 0.5}, "/partial_rotary_factor"),
        ("bloom", {"use_rope": True}, "/use_rope"),
        ("bloom", {"rotary_pct": 0.5}, "/rotary_pct"),
        ("bert", {"position_embedding_type": "alibi", "max_position_embeddings": 32}, "/position_embedding_type"),
    ],
)
def test_what_other_types_do_not_read(assume: str, keys: dict[str, Any], pointer: str) -> None:
    fault = refused("foo", assume, **keys)
    assert (fault.parameter, fault.code) == (pointer, "conflict")


@pytest.mark.parametrize(
    ("assume", "keys"),
    [
        ("bloom", {"alibi": True, "alibi_bias_max": 8, "position_embedding_type": "alibi", "head_size": 3}),
        ("phi", {"rotary_pct": 0.5, "partial_rotary_factor": 0.5}),
        ("gpt_neox", {"partial_rotary_factor": 1.0}),
        ("gptj", {"rotary_dim": 8, "is_neox_style": False, "n_positions": 32}),
        ("bert", {"position_embedding_type": "absolute", "max_position_embeddings": 32, "rotary_pct": 1}),
        ("t5", {"position_embedding_type": "relative", "d_kv": 16, "num_layers": 2, "num_decoder_layers": 2}),
    ],
)
def test_what_says_the_model_itself(assume: str, keys: dict[str, Any]) -> None:
    assert read("foo", assume, **keys).uses


def test_keys_of_a_known_type() -> None:
    stable = read("stablelm", rope_pct=0.5).uses[0]
    assert values(stable)["partial_rotary_factor"] == 0.25
    assert said(stable, "/rope_pct is read by nothing in stablelm")
    assert values(read("foo", "stablelm", rope_pct=0.5).uses[0])["partial_rotary_factor"] == 0.5
    assert said(read("bloom", rope_theta=5.0).uses[0], "/rope_theta is read by nothing in bloom")
    # vLLM turns by the share; transformers' class does not: the note stands where the share is read.
    [note] = [note for note in read("llama", partial_rotary_factor=0.5).uses[0].notes if "partial" in note]
    assert "has no effect" in note
    wide = read("llama", kv_channels=32).uses[0]
    assert (values(wide)["dim"], said(wide, "/kv_channels is read by nothing in llama")) == (16, True)
    strange: dict[str, Any] = {f"rope_x{place}": 1 for place in range(12)}
    many = read("llama", **strange).uses[0]
    assert len([note for note in many.notes if "is read by nothing" in note]) == 8


def test_keys_of_a_part_and_of_a_whole() -> None:
    text = {"model_type": "llama", **SIZES, "alibi": True}
    words = "/text_config/alibi is read by nothing in llama"
    whole = resolve({"model_type": "llava", "alibi": True, "text_config": text})
    assert [said(use, words) for use in whole.uses] == [True, False]
    # The whole has no positions of its own: a key beside its parts is none of theirs.
    assert not [note for use in whole.uses for note in use.notes if note.startswith("/alibi ")]
    # Parts that are read from one object with the whole.
    flat = resolve({"model_type": "paddleocr_vl", "rope_odd": 1})
    said_of = {note for use in flat.uses for note in use.notes if "rope_odd" in note}
    assert said_of == {"/rope_odd is read by nothing in paddleocr_vl"}


@pytest.mark.parametrize(
    ("key", "near"),
    [("ropeTheta", "rope_theta"), ("ropeScaling", "rope_scaling"), ("RopeParameters", "rope_parameters")],
)
def test_camel_case(key: str, near: str) -> None:
    for name, assume in (("llama", None), ("foo", "llama")):
        fault = refused(name, assume, **{key: 5.0})
        assert (fault.parameter, fault.code) == (f"/{key}", "unknown")
        assert f"did you mean {near}?" in fault.detail
    assert said(read("llama", maxPositionEmbeddings=5).uses[0], "did you mean max_position_embeddings?")
