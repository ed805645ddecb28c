"""One RoPE in every spelling gives one plan; what a class ignores is said, and what is misspelt refused."""

from typing import Any

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Options, resolve
from tests.models.plans import answers, frequencies, inv_freq, plan, refusal, said, sources, use, values

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
        {"rope_theta": 5e5, "rope_scaling": {"type": "llama3", **LLAMA3}},
        {"rope_theta": 5e5, "rope_scaling": {"type": "llama3", "rope_type": "llama3", **LLAMA3}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}},
        {"rope_scaling": {"rope_type": "llama3", "rope_theta": 5e5, "attention_factor": None, **LLAMA3}},
        {"rope_theta": 5e5, "rope_scaling": None, "rope_parameters": {"rope_type": "llama3", **LLAMA3}},
    ],
)
def test_every_spelling_gives_one_plan(keys: dict[str, Any]) -> None:
    found = use("llama", **keys)
    assert values(found) == {
        "dim": 16,
        "base": 5e5,
        "rope_type": "llama3",
        **LLAMA3,
        "pairing": "half",
        "arithmetic": "float32",
    }
    wavelength = 2 * np.pi / inv_freq(5e5, 16)
    smooth = np.clip((1024 / wavelength - 1) / 3, 0, 1)
    wanted = inv_freq(5e5, 16) * ((1 - smooth) / 8 + smooth)
    np.testing.assert_allclose(frequencies(found), wanted, rtol=3e-7)


def test_parameters_say_where_they_come_from() -> None:
    stated = sources(use("llama", rope_scaling={"type": "linear", "factor": 2.0}))
    assert stated["dim"] == ("rewritten", "/hidden_size")
    assert stated["base"] == ("class default", "/rope_theta")
    assert stated["rope_type"] == ("config", "/rope_scaling/type")
    assert stated["factor"] == ("config", "/rope_scaling/factor")
    assert sources(use("llama", head_dim=32))["dim"] == ("config", "/head_dim")
    assert sources(use("gemma"))["dim"] == ("class default", "/head_dim")


def test_nothing_stated_is_the_class() -> None:
    assert values(use("llama"))["base"] == 10_000.0
    assert values(use("exaone"))["base"] == 500_000.0
    assert values(use("cohere"))["pairing"] == "interleaved"
    np.testing.assert_allclose(frequencies(use("llama")), inv_freq(1e4, 16), rtol=3e-7)


def test_a_class_with_a_block_of_its_own() -> None:
    found = use("gpt_oss", "full_attention", head_dim=64)
    assert values(found)["rope_type"] == "yarn"
    assert values(found)["truncate"] is False
    assert values(found)["base"] == 150_000.0
    assert sources(found)["factor"] == ("class default", "/rope_parameters/factor")
    # rope_scaling of null is no block; an empty object of the new name is one without anything in it.
    assert values(use("apertus", rope_scaling=None))["rope_type"] == "llama3"
    assert values(use("apertus", rope_parameters={}))["rope_type"] == "default"
    # Its own base stands in its own block, and the file's beside it is not read.
    found = use("apertus", rope_theta=7e5)
    assert values(found)["base"] == 12_000_000.0
    assert said(found, "/rope_theta is 700000.0 and has no effect")


def test_of_two_blocks_the_older_wins() -> None:
    found = use("llama", rope_scaling={"type": "linear", "factor": 2.0}, rope_parameters={"rope_theta": 7.0})
    assert values(found)["rope_type"] == "linear"
    assert values(found)["base"] == 10_000.0
    assert said(found, "transformers takes rope_scaling")
    assert not said(use("llama", rope_scaling={"type": "default"}, rope_parameters={"type": "default"}), "takes")


def test_a_base_within_the_block_wins_over_one_beside_it() -> None:
    found = use("llama", rope_theta=3.0, rope_parameters={"rope_theta": 5.0})
    assert values(found)["base"] == 5.0
    assert said(found, "/rope_theta is 3.0 and has no effect")


@pytest.mark.parametrize(
    ("keys", "place", "words"),
    [
        ({"rope_scaling": {"type": "linear", "facotr": 2}}, "/rope_scaling/facotr", "did you mean factor?"),
        ({"rope_parameters": {"rope_tehta": 2}}, "/rope_parameters/rope_tehta", "did you mean rope_theta?"),
        ({"rope_scaling": {"type": "liner", "factor": 2}}, "/rope_scaling/type", "did you mean linear?"),
        ({"rope_scaling": {"type": "zzz"}}, "/rope_scaling/type", "default, linear"),
        ({"rope_scaling": {"type": 5}}, "/rope_scaling/type", "a string is needed"),
        ({"rope_scaling": {"type": "linear"}}, "/rope_scaling/factor", "factor is missing"),
        ({"rope_scaling": {"type": "linear", "factor": "2x"}}, "/rope_scaling/factor", "factor is a string (2x)"),
        ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "/rope_scaling/factor", "factor is 0.5"),
        ({"rope_scaling": [1]}, "/rope_scaling", "a JSON object is needed"),
        ({"rope_theta": "big"}, "/rope_theta", "a number is needed"),
        ({"rope_theta": True}, "/rope_theta", "a number is needed"),
        ({"rope_theta": -1.0}, "/rope_theta", "rope_theta is -1.0"),
        ({"rope_parameters": {"full_attention": {}}}, "/rope_parameters/full_attention", "all its layers are of one"),
        (
            {"rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.0] * 7}},
            "/rope_scaling/long_factor",
            "expected 8, got 7",
        ),
    ],
)
def test_what_is_wrong_with_a_block(keys: dict[str, Any], place: str, words: str) -> None:
    found = refusal("llama", **keys)
    assert found.parameter == place
    assert words in found.detail


def test_a_key_like_no_other_is_ignored_aloud() -> None:
    found = use("llama", rope_scaling={"type": "linear", "factor": 2.0, "xyzzy": 1})
    assert said(found, "/rope_scaling/xyzzy is no key that transformers knows")


def test_the_trained_length() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0}
    length = "original_max_position_embeddings"
    assert values(use("llama", rope_scaling=yarn))[length] == 4096
    assert values(use("llama", rope_scaling={**yarn, length: 512}))[length] == 512
    # Beside the block it wins over the one within.
    both = use("llama", rope_scaling={**yarn, length: 512}, original_max_position_embeddings=256)
    assert values(both)[length] == 256
    found = use("llama", rope_scaling={**yarn, "factor": None, length: 512})
    assert values(found)["max_position_embeddings"] == 4096
    assert found.facts["attention_factor"] == pytest.approx(1 + 0.1 * np.log(8))


def test_dynamic_and_longrope_take_the_length_of_the_call() -> None:
    found = use("llama", rope_scaling={"type": "dynamic", "factor": 2.0})
    assert values(found)["seq_len"] == 128
    assert values(found)["max_position_embeddings"] == 4096
    assert said(found, "grows with the longest call")
    lists = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8, "original_max_position_embeddings": 64}
    found = use("llama", rope_scaling={"type": "longrope", **lists})
    assert found.facts["list_used"] == "long"
    np.testing.assert_allclose(frequencies(found), inv_freq(1e4, 16) / 4, rtol=3e-7)


def test_long_lists_go_into_a_body() -> None:
    short, long = ([1.0 + step * k / 7 for k in range(128)] for step in (1e-9, 1e-7))
    lists = {"short_factor": short, "long_factor": long}
    found = use("llama", head_dim=256, rope_scaling={"type": "longrope", **lists, "factor": 2.0})
    tables = found.addresses["tables"]
    assert (tables.method, len(tables.href) < 1000) == ("POST", True)
    assert tables.document()["body"]["rope_parameters"] == {"rope_type": "longrope", **lists}
    assert answers(tables)["cos"].shape == (128, 256)


# Shares of the head


def test_a_share_of_the_head() -> None:
    assert use("stablelm").facts["rotary_dim"] == 4
    assert use("stablelm", partial_rotary_factor=0.5).facts["rotary_dim"] == 8
    assert use("phi", rope_parameters={"partial_rotary_factor": 0.25}).facts["rotary_dim"] == 4
    assert use("minimax_m2", head_dim=16, rotary_dim=8).facts["rotary_dim"] == 8
    assert use("bamba", "full_attention", attn_layer_indices=[1], partial_rotary_factor=1.0).facts["rotary_dim"] == 8
    (gptj,) = resolve({"model_type": "gptj", "n_embd": 64, "n_head": 4, "n_layer": 2, "rotary_dim": 8}).uses
    assert (gptj.facts["rotary_dim"], gptj.layers, values(gptj)["dim"]) == (8, (0, 1), 16)


def test_most_classes_ignore_a_share_unless_they_scale() -> None:
    found = use("llama", partial_rotary_factor=0.5)
    assert found.facts["rotary_dim"] == 16
    assert said(found, "/partial_rotary_factor has no effect")
    scaled = use("llama", partial_rotary_factor=0.5, rope_scaling={"type": "linear", "factor": 2})
    assert scaled.facts["rotary_dim"] == 8


def test_an_odd_share_turns_a_channel_more() -> None:
    odd = use("stablelm", partial_rotary_factor=0.2)
    assert (values(odd)["rotary_dim"], values(odd)["rope_type"]) == (4, "frequencies")
    assert len(values(odd)["frequencies"]) == 2
    assert said(odd, "/partial_rotary_factor makes the odd width 3: 4 channels turn")
    assert refusal("stablelm", partial_rotary_factor=0.2, rope_theta=0).parameter == "/rope_theta"


def test_a_rotary_share_by_another_name() -> None:
    found = use("gpt_neox", rotary_pct=0.5, rotary_emb_base=2e4, rope_theta=7.0)
    assert (found.facts["rotary_dim"], values(found)["base"]) == (8, 2e4)
    assert said(found, "/rope_theta is ignored")


def test_a_share_that_scaling_loses() -> None:
    keys: dict[str, Any] = {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8}
    assert use("mistral4", **keys).facts["rotary_dim"] == 8
    assert use("mistral4", rope_scaling={"type": "linear", "factor": 2.0}, **keys).facts["rotary_dim"] == 16


# Blocks by type of layer


def test_two_bases() -> None:
    found = {each.layer_type: each for each in plan("gemma3_text", rope_theta=5e5, rope_local_base_freq=777.0).uses}
    assert values(found["full_attention"])["base"] == 5e5
    assert values(found["sliding_attention"])["base"] == 777.0
    linear = {"rope_type": "linear", "factor": 8.0}
    found = {each.layer_type: each for each in plan("gemma3_text", rope_scaling=linear).uses}
    assert values(found["full_attention"])["rope_type"] == "linear"
    assert values(found["sliding_attention"])["rope_type"] == "default"
    found = {each.layer_type: each for each in plan("modernbert", rope_scaling=linear).uses}
    assert values(found["sliding_attention"])["factor"] == 8.0


def test_two_bases_drop_the_older_type() -> None:
    found = use("gemma3_text", "full_attention", rope_scaling={"type": "linear", "factor": 8.0})
    assert values(found)["rope_type"] == "default"
    assert said(found, "the class drops it")
    nested = {"full_attention": {"rope_type": "yarn", "factor": 2.0}}
    found = use("gemma3_text", "full_attention", rope_scaling={"type": "linear", "factor": 8.0}, rope_parameters=nested)
    assert (values(found)["rope_type"], values(found)["factor"]) == ("yarn", 8.0)


def test_olmo3_keeps_the_default_base_of_sliding_layers() -> None:
    found = {each.layer_type: each for each in plan("olmo3", rope_theta=123456.0).uses}
    assert values(found["full_attention"])["base"] == 123456.0
    assert values(found["sliding_attention"])["base"] == 500_000.0
    assert said(found["sliding_attention"], "sliding attention keeps the default")
    assert not said(use("olmo3", "full_attention", rope_theta=500_000), "keeps")


def test_nested_blocks() -> None:
    nested = {"full_attention": {"rope_theta": 7.0}, "sliding_attention": None}
    layers: dict[str, Any] = {"layer_types": ["full_attention", "sliding_attention"] * 3}
    blocks = {**nested, "rope_type": "linear"}
    found = {each.layer_type: each for each in plan("mellum", rope_parameters=blocks, **layers).uses}
    assert values(found["full_attention"])["base"] == 7.0
    assert found["sliding_attention"].encoding == "none"
    assert said(found["full_attention"], "rope_type beside the types of layer has no effect")
    number = {"full_attention": {"rope_theta": 7.0}, "sliding_attention": 3}
    assert refusal("mellum", rope_parameters=number, **layers).parameter == "/rope_parameters/sliding_attention"
    assert refusal("mellum", rope_parameters={"full_attention": {"rope_theta": 7.0}}, **layers).code == "missing"
    assert refusal("gemma3_text", rope_parameters={"full_attention": 3}).code == "type"


def test_yarn_truncation_is_not_read_within_a_nest() -> None:
    yarn = {"rope_type": "yarn", "factor": 2.0, "truncate": False}
    nest = {"full_attention": yarn, "sliding_attention": {"rope_type": "default"}}
    found = use("gemma3_text", "full_attention", rope_parameters=nest)
    assert "truncate" not in found.parameters
    assert said(found, "truncate is ignored")


def test_flat_blocks_of_nested_classes() -> None:
    found = use("gemma3_text", "full_attention", rope_parameters={"rope_theta": 7.0})
    assert values(found)["base"] == 1e6
    assert said(found, "has no object for a type of layer")
    assert refusal("modernbert", rope_parameters={"rope_theta": 7.0}).parameter == "/rope_parameters"


def test_blocks_by_label_alone() -> None:
    found = {each.layer_type: each for each in plan("gemma4_text", rope_theta=7.0).uses}
    assert values(found["full_attention"])["rope_type"] == "proportional"
    assert values(found["full_attention"])["dim"] == 512
    assert found["full_attention"].facts["turning_pairs"] == 64
    assert said(found["sliding_attention"], "/rope_theta has no effect: the class reads the objects of its types")
    assert refusal("gemma4_text", rope_scaling={"type": "linear", "factor": 2.0}).parameter == "/rope_scaling"
    assert refusal("gemma4_text", rope_parameters={"full_attention": {}}).parameter == (
        "/rope_parameters/sliding_attention"
    )
    found = {each.layer_type: each for each in plan("beam").uses}
    assert found["full_attention"].encoding == "none"


def test_main_and_compressed() -> None:
    yarn = {"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 256}
    keys: dict[str, Any] = {"head_dim": 64, "qk_rope_head_dim": 8, "compress_ratios": [0, 0, 4, 128, 4, 128]}
    found = {each.layer_type: each for each in plan("deepseek_v4", rope_scaling=yarn, **keys).uses}
    main, compressed = found["sliding_attention"], found["compressed_sparse_attention"]
    assert (main.facts["rope_label"], values(main)["rope_type"], values(main)["base"]) == ("main", "default", 1e4)
    assert (compressed.facts["rope_label"], values(compressed)["base"]) == ("compress", 160_000.0)
    assert compressed.facts["attention_factor"] == 1.0
    assert (main.facts["rotary_dim"], values(main)["rotary_channels"]) == (8, "last")
    part = {"partial_rotary_factor": 0.125}
    nest = {"main": {"rope_theta": 5.0, **part}, "compress": {"rope_theta": 7.0, **part}}
    found = {each.layer_type: each for each in plan("deepseek_v4", rope_parameters=nest, **keys).uses}
    assert values(found["heavily_compressed_attention"])["base"] == 7.0


def test_rewritten_types() -> None:
    lists = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    found = use("phi3", rope_scaling={"type": "su", **lists, "factor": 2.0})
    assert found.parameters["rope_type"].document() == {
        "value": "longrope",
        "source": "rewritten",
        "key": "/rope_scaling/type",
    }
    assert refusal("phi3", rope_scaling={"type": "linear", "factor": 2.0}).parameter == "/rope_scaling/type"
    alpha = use("hunyuan_v1_dense", head_dim=16, rope_scaling={"type": "dynamic", "alpha": 1000.0, "factor": 1.0})
    assert values(alpha)["rope_type"] == "ntk_alpha"
    assert alpha.facts["effective_base"] == pytest.approx(1e4 * 1000 ** (16 / 14))
    assert values(use("hunyuan_v1_dense", rope_scaling={"type": "dynamic", "factor": 2.0}))["rope_type"] == "dynamic"
    sections = {"type": "mrope", "mrope_section": [2, 3, 3]}
    assert values(use("qwen2_vl_text", rope_scaling=sections))["rope_type"] == "default"


def test_a_null_base_is_no_rope() -> None:
    found = use("olmo_hybrid", "full_attention", rope_parameters={"rope_theta": None, "rope_type": "default"})
    assert found.encoding == "none"


def test_a_class_that_does_not_read_rope_scaling() -> None:
    found = use("cohere2_moe", "sliding_attention", rope_scaling={"type": "linear", "factor": 2.0})
    assert values(found)["rope_type"] == "default"
    assert said(found, "rope_scaling has no effect")


def test_without_any_length() -> None:
    keys = {
        "model_type": "dbrx",
        "d_model": 64,
        "n_heads": 4,
        "n_layers": 2,
        "rope_scaling": {"type": "yarn", "factor": None},
    }
    with pytest.raises(Refusal, match="original_max_position_embeddings is missing"):
        resolve({**keys, "max_position_embeddings": None, "max_seq_len": None})


YARN_IN: dict[str, dict[str, Any]] = {
    "llama": {"rope_scaling": {"rope_type": "yarn"}},
    "qwen3": {"rope_parameters": {"type": "yarn", "rope_theta": 1e6, "original_max_position_embeddings": 1024}},
    "gpt_oss": {"rope_parameters": {"rope_type": "yarn"}},
    "gemma3_text": {"rope_scaling": {"rope_type": "yarn"}},
    "deepseek_v3": {"rope_scaling": {"type": "yarn", "mscale": 1.0}},
}


@pytest.mark.parametrize("name", YARN_IN)
def test_yarn_needs_a_factor_or_null(name: str) -> None:
    [(key, block)] = YARN_IN[name].items()
    fault = refusal(name, **{key: block})
    assert (fault.parameter, fault.code) == (f"/{key}/factor", "missing")
    null: dict[str, Any] = {key: {**block, "factor": None, "original_max_position_embeddings": 1024}}
    found = [each for each in plan(name, **null).uses if values(each).get("rope_type") == "yarn"]
    assert found
    assert all("factor" not in values(each) for each in found)


def test_yarn_of_a_type_of_layer_needs_a_factor() -> None:
    block = {"full_attention": {"rope_type": "yarn"}, "sliding_attention": {"rope_theta": 1e4}}
    fault = refusal("gemma3_text", rope_parameters=block)
    assert fault.parameter == "/rope_parameters/full_attention/factor"


def test_code_of_repositories_on_request() -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_layers": 2, "seq_length": 128}
    glm = {"model_type": "chatglm", "kv_channels": 16, "rope_ratio": 50, **sizes}
    (found,) = resolve(glm, Options(assume="chatglm")).uses
    assert values(found)["base"] == 500_000.0
    assert sources(found)["base"] == ("rewritten", "/rope_ratio")
    assert (found.facts["rotary_dim"], values(found)["pairing"]) == (8, "interleaved")
    refused = refusal("chatglm")
    assert refused.parameter == "/model_type"
    assert "assume=chatglm" in refused.detail


def test_scaling_that_the_library_fails_on() -> None:
    """dots3.note: longrope asks all layers for a number that theirs differ in; what the file says is told."""
    block = {"rope_type": "longrope", "original_max_position_embeddings": 2048, "factor": 4.0, "rope_theta": 1e4}
    lists = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    found = plan("dots3_note_text", rope_parameters={**block, **lists}, hidden_size=4096, num_attention_heads=32)
    assert all(any("transformers fails on longrope here" in note for note in use.notes) for use in found.uses)


def test_a_block_that_dinov3_does_not_read() -> None:
    base = plan("dinov3_vit", rope_scaling={"rope_type": "linear", "factor": 2.0}, rope_theta=77.0).uses[-1]
    assert values(base)["base"] == 77.0
    assert refusal("dinov3_vit", rope_scaling={"rope_type": "proportional"}).parameter == "/rope_scaling"
