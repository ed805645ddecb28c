"""Keys that a model's own code does not read, reads another way, or that contradict each other."""

from math import log, sqrt
from typing import Any

import pytest

from service.models import Options, resolve
from service.models.plan import Value
from tests.models.plans import plan, refusal, said, sources, use, values

LISTS = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "original_max_position_embeddings": 4096}
AMPLITUDES = {"short_mscale": 1.3, "long_mscale": 1.4}


@pytest.mark.parametrize("name", ["llama", "phi3"])
def test_only_phimoe_reads_amplitudes_of_its_own(name: str) -> None:
    keys: dict[str, Any] = {
        "rope_scaling": {"type": "longrope", **LISTS, **AMPLITUDES},
        "max_position_embeddings": 131072,
    }
    found = use(name, **keys)
    assert found.facts["attention_factor"] == pytest.approx(sqrt(1 + log(32) / log(4096)), rel=1e-7)
    assert said(found, "/rope_scaling/short_mscale and /rope_scaling/long_mscale have no effect: only phimoe")
    assert not {"short_mscale", "long_mscale"} & set(values(found))
    # vLLM hands both on, whatever the type.
    assert use(name, options=Options(preset="vllm"), **keys).facts["attention_factor"] == 1.4


# Keys that contradict each other


@pytest.mark.parametrize(
    ("name", "keys", "pointer", "words"),
    [
        ("llama", {"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}}, "/rope_scaling/type", ""),
        ("phi3", {"rope_scaling": {"type": "su", "rope_type": "default"}}, "/rope_scaling/type", "is su"),
        ("deepseek_v3", {"qk_rope_head_dim": 64, "head_dim": 128}, "/head_dim", "qk_rope_head_dim 64"),
        ("llama", {"num_key_value_heads": -1}, "/num_key_value_heads", "at least 1"),
        ("llama", {"num_key_value_heads": "x"}, "/num_key_value_heads", "a whole number is needed"),
        ("llama", {"num_key_value_heads": 3}, "/num_key_value_heads", "num_attention_heads is 4"),
        ("gpt_neox", {"rotary_pct": 0.25, "partial_rotary_factor": 0.5}, "/partial_rotary_factor", "two names"),
    ],
)
def test_keys_that_contradict_each_other(name: str, keys: dict[str, Any], pointer: str, words: str) -> None:
    fault = refusal(name, **keys)
    assert fault.parameter == pointer
    assert words in fault.detail


@pytest.mark.parametrize(
    ("older", "newer"), [("mrope", "default"), ("su", "longrope"), ("yarn", "yarn"), ("linear", "linear")]
)
def test_two_spellings_of_one_type(older: str, newer: str) -> None:
    block = {"type": older, "rope_type": newer, "factor": 2.0, **(LISTS if newer == "longrope" else {})}
    assert values(use("llama", rope_scaling=block))["rope_type"] == newer


def test_heads_of_keys_that_say_nothing() -> None:
    for given in (None, 1, 2, 4, [3, 3]):
        assert use("llama", num_key_value_heads=given)
    # These classes do not share heads out, or have no such key.
    assert use("deepseek_v3", qk_rope_head_dim=8, num_key_value_heads=3)
    assert use("gpt_neox", num_key_value_heads=3)


@pytest.mark.parametrize("preset", ["vllm", "llama.cpp"])
def test_latent_heads_where_the_width_is_not_read(preset: Any) -> None:
    found = use("deepseek_v3", qk_rope_head_dim=8, head_dim=32, options=Options(preset=preset))
    assert sources(found)["dim"] == ("config", "/qk_rope_head_dim")


def test_a_share_under_the_wrong_name() -> None:
    found = use("gpt_neox", partial_rotary_factor=0.5)
    assert values(found)["partial_rotary_factor"] == 0.25
    assert said(found, "/partial_rotary_factor is read by nothing: gpt_neox reads rotary_pct")
    assert not said(use("gpt_neox", rotary_pct=0.5, partial_rotary_factor=0.5), "read by nothing")


@pytest.mark.parametrize(
    ("factor", "longest", "trained", "warned"),
    [(8.0, 32768, 8192, True), (4.0, 32768, 8192, False), (8.0, 8192, 8192, False), (8.0, None, 8192, False)],
)
def test_a_factor_that_is_not_the_ratio_of_lengths(factor: float, longest: Any, trained: int, warned: bool) -> None:
    block = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": trained}
    found = use("llama", rope_scaling=block, max_position_embeddings=longest)
    assert said(found, "/rope_scaling/factor is 8.0 and /max_position_embeddings over") == warned


def test_trained_lengths_that_are_none() -> None:
    for trained in (0, -4, 10**400, 1e-320):
        block = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": trained}
        assert refusal("llama", rope_scaling=block).parameter == "/rope_scaling/original_max_position_embeddings"


def test_origins_are_keys_of_the_file() -> None:
    (found,) = resolve({"model_type": "llama", "num_hidden_layers": 1}).uses
    assert sources(found)["dim"] == ("class default", "/hidden_size")
    (found,) = resolve({"model_type": "llama", "num_attention_heads": 8}).uses
    assert sources(found)["dim"] == ("rewritten", "/num_attention_heads")
    for name in ("gptj", "codegen", "roformer"):
        (turned,) = [each for each in resolve({"model_type": name}).uses if each.encoding == "rope"]
        assert sources(turned)["base"] == ("class default", "/model_type")
    (table,) = resolve({"model_type": "llava"}).uses[1:]
    assert {value.source for value in table.parameters.values()} == {"class default"}


def test_origins_within_lists() -> None:
    config = {"a/b": [{"c": 1}]}
    assert Value(1, "rewritten", "/a~1b/0/c").within(config).source == "rewritten"
    for pointer in ("/a~1b/1/c", "/a~1b/x", "/a~1b/0/c/d"):
        assert Value(1, "rewritten", pointer).within(config).source == "class default"
    assert Value(1, "rewritten", "").within(config).source == "rewritten"


# Keys that are dropped, or that the class fails on


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"factor": 8.0}, "/rope_scaling/factor has no effect: the block names no rope_type, and the class takes defa"),
        ({"rope_type": "default", "factor": 4.0}, "/rope_scaling/factor has no effect: the rope type is default"),
        (
            {"type": "linear", "factor": 4.0, "beta_fast": 3, "alpha": 2},
            "/rope_scaling/beta_fast, /rope_scaling/alpha have no effect: the rope type is linear",
        ),
    ],
)
def test_keys_of_another_type_of_rope(block: dict[str, Any], words: str) -> None:
    assert said(use("llama", rope_scaling=block), words)


def test_a_type_of_null() -> None:
    fault = refusal("llama", rope_scaling={"type": None, "factor": 2.0})
    assert (fault.parameter, fault.code) == ("/rope_scaling/type", "type")
    for block in ({"type": None}, {"type": None, "factor": None}, {"type": None, "rope_type": "linear", "factor": 2.0}):
        assert not said(use("llama", rope_scaling=block), "no effect")


def test_bert_without_relative_keys() -> None:
    assert said(use("bert", position_embedding_type="relative_key"), "position_embedding_type is read by nothing")
    for usual in ("absolute", None):
        assert not said(use("bert", position_embedding_type=usual), "read by nothing")


SU = {"type": "su", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}


def test_su_where_the_class_fails() -> None:
    words = "transformers fails on su without original_max_position_embeddings in the block"
    assert said(use("phi3", rope_scaling=SU, original_max_position_embeddings=2048), words)
    assert not said(use("phi3", rope_scaling={**SU, "original_max_position_embeddings": 2048}), words)
    vllm = use("phi3", rope_scaling=SU, original_max_position_embeddings=2048, options=Options(preset="vllm"))
    assert not said(vllm, words)


def test_a_base_of_null() -> None:
    assert refusal("modernbert", local_rope_theta=None).parameter == "/local_rope_theta"
    assert refusal("modernbert-decoder", global_rope_theta=None).parameter == "/global_rope_theta"
    stated: dict[str, Any] = {"rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 7.0}}}
    assert values(use("modernbert", "sliding_attention", local_rope_theta=None, **stated))["base"] == 7.0


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"sliding_window": None}, "transformers fails on sliding_window null"),
        ({"sliding_window_pattern": "LLLG"}, "transformers fails on sliding_window_pattern LLLG"),
        ({"sliding_window_pattern": "LLLG", "layer_types": ["full_attention"] * 6}, ""),
        ({"sliding_window_pattern": 4}, ""),
    ],
)
def test_patterns_that_exaone_fails_on(keys: dict[str, Any], words: str) -> None:
    for found in [each for each in plan("exaone4", **keys).uses if each.encoding == "rope"]:
        assert said(found, "transformers fails on") == bool(words)
        assert said(found, words) or not words
    assert not any(said(each, "fails") for each in plan("exaone4", options=Options(preset="vllm"), **keys).uses)


@pytest.mark.parametrize("name", ["gemma3_text", "modernbert", "olmo3"])
def test_objects_by_layer_in_rope_scaling(name: str) -> None:
    """Measured on transformers 5.24: the class puts the objects where nothing reads them."""
    nested = {"full_attention": {"type": "linear", "factor": 8.0}, "sliding_attention": {"type": "default"}}
    for found in plan(name, rope_scaling=nested).uses:
        assert values(found)["rope_type"] == "default"
        assert said(found, "/rope_scaling/full_attention, /rope_scaling/sliding_attention have no effect")
    assert refusal(name, rope_scaling={"ful_attention": {}}).parameter == "/rope_scaling/ful_attention"


def test_an_object_where_no_type_of_layer_is() -> None:
    plain = {"rope_theta": 7.0}
    nested = {"full_attention": {**plain, "full_attention": {}}, "sliding_attention": plain}
    fault = refusal("gemma4_text", rope_parameters=nested)
    assert fault.detail == "full_attention is an object, and full_attention has none within"
    fault = refusal("qwen2", rope_parameters={"zzz": {}})
    assert fault.detail.endswith("the model has no such type of layer; its types of layer are full_attention")


def test_an_entry_of_a_list_is_called_so() -> None:
    lists = {"short_factor": ["a"], "long_factor": [1.0]}
    fault = refusal("llama", rope_scaling={"type": "longrope", **lists})
    assert fault.detail == "entry 0 of short_factor is a string (a); a number is needed"


def test_falcon_with_alibi_has_positions() -> None:
    assert [use.encoding for use in plan("falcon", alibi=True).uses] == ["alibi"]


@pytest.mark.parametrize("name", ["ntk_alpha", "axial", "ntk"])
def test_types_of_rope_that_no_text_model_has(name: str) -> None:
    fault = refusal("llama", rope_scaling={"rope_type": name, "factor": 2.0, "alpha": 2.0})
    assert fault.parameter == "/rope_scaling/rope_type"
    assert fault.detail.endswith(": default, linear, dynamic, yarn, longrope, llama3, proportional")


def test_the_order_of_interleaved_tables_is_said() -> None:
    words = "the two of a pair side by side"
    for name in ("glm4", "helium", "deepseek_v3"):
        assert said(use(name), words)
    assert not said(use("llama"), words)
    assert not said(use("glm4", options=Options(preset="vllm")), words)
