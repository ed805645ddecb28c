"""From a configuration to a plan: types, parts, sizes, presets."""

import json
import math
import sys
from typing import Any

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Options, Use, resolve
from service.models.known import assumable, names
from tests.models.plans import answers, frequencies, inv_freq, plan, refusal, refused, sources, use, values

VLLM, GGML = Options(preset="vllm"), Options(preset="llama.cpp")


# Model types


def test_an_unknown_type_is_refused_with_the_nearest() -> None:
    place, detail = refused({"model_type": "lama"})
    assert place == "/model_type"
    assert "lama is not known; nearest are llama" in detail
    place, detail = refused({"model_type": "qqqqqqqq"})
    assert "nearest" not in detail
    assert "assume=llama" in detail


@pytest.mark.parametrize(
    ("name", "near"),
    [("RefinedWeb", "falcon"), ("phi-msft", "phi"), ("mixformer-sequential", "phi"), ("xverse", "llama")],
)
def test_a_type_that_repositories_call_otherwise(name: str, near: str) -> None:
    assert f"nearest are {near};" in refused({"model_type": name})[1]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("phi4mm", "phi4_multimodal"),
        ("llava_llama", "llava,"),
        ("kimi_vl", "kimi_"),
        ("bailing_moe", "bailing_"),
        ("jina_bert", "jina_embeddings_v3"),
        ("deepseek_vl_v2", "deepseek_vl,"),
        ("mpt-7b", "mpt"),
        ("InternVLChatModel", "internvl"),
        ("RWForCausalLM", "falcon;"),
        ("qwen2.5", "qwen2_5_"),
    ],
)
def test_the_kin_of_a_type_come_first(name: str, near: str) -> None:
    assert f"is not known; nearest are {near}" in refused({"model_type": name})[1]


def test_the_name_of_a_class_is_no_type() -> None:
    for name, of in (("Qwen2ForCausalLM", "qwen2"), ("BertModel", "bert")):
        detail = refused({"model_type": name})[1]
        assert f"model_type {name} is not known: it is the name of a class, whose model_type is {of};" in detail


def test_a_type_that_architectures_tells() -> None:
    kimi = {"model_type": "kimi_zz", "architectures": ["MyOwn", "DeepseekV3ForCausalLM"]}
    assert "architectures names DeepseekV3ForCausalLM, as of deepseek_v3" in refused(kimi)[1]
    assert refused({"architectures": ["UMT5ForConditionalGeneration"]})[1].endswith("as of umt5")
    for strange in (3, ["MyOwn"], [3], [], None):
        assert "architectures names" not in refused({"architectures": strange})[1]


@pytest.mark.parametrize(
    ("config", "assume", "place"),
    [
        ({}, None, "/model_type"),
        ({"model_type": 3}, None, "/model_type"),
        ({"model_type": "llama"}, "mistral", "assume"),
        ({"model_type": "zzzz"}, "lama", "assume"),
        ([], None, "/"),
        ({"model_type": "llava", "text_config": {"model_type": "lama"}}, None, "/text_config/model_type"),
        ({"model_type": "llava", "text_config": [1]}, None, "/text_config"),
        ({"model_type": "llava", "text_config": {"model_type": 3}}, None, "/text_config/model_type"),
    ],
)
def test_types_that_are_refused(config: object, assume: str | None, place: str) -> None:
    assert refused(config, Options(assume=assume))[0] == place


def test_a_type_that_is_assumed_is_said() -> None:
    keys = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 7.0}
    found = resolve({"model_type": "my_llama", **keys}, Options(assume="llama"))
    assert (found.assumed, found.model_type) == ("llama", "my_llama")
    assert "my_llama is not known: read by the keys alone, as llama" in found.notes[0]
    assert values(found.uses[0])["base"] == 7.0
    assert resolve({"model_type": "llama", **keys}, Options(assume="llama")).assumed is None
    assert resolve(keys, Options(assume="llama")).assumed == "llama"
    assert "repository's own" in resolve({"model_type": "llama", "auto_map": {}, **keys}).notes[0]


def test_every_known_type_has_a_plan_or_a_reason() -> None:
    plans, reasons = 0, []
    for name in names():
        try:
            document = resolve({"model_type": name}).document()
            plans += 1
            assert json.loads(json.dumps(document)) == document
        except Refusal as error:
            reasons.append(str(error))
    assert plans >= 0.95 * len(names())
    assert all(len(reason) > 20 for reason in reasons)
    assert set(names()) < set(assumable())


# Parts


def test_parts_are_walked() -> None:
    text = {"model_type": "mistral", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    found = resolve({"model_type": "llava", "text_config": text, "vision_config": {"model_type": "clip_vision_model"}})
    roles = {(each.role, each.scope, each.model_type) for each in found.uses}
    assert ("text-attention", "/text_config", "mistral") in roles
    assert ("vision-tower", "/vision_config", "clip_vision_model") in roles
    (words,) = [each for each in found.uses if each.scope == "/text_config"]
    assert sources(words)["dim"] == ("rewritten", "/text_config/hidden_size")


def test_a_part_that_is_missing_is_the_classes_own() -> None:
    (words,) = [each for each in resolve({"model_type": "llava"}).uses if each.encoding == "rope"]
    assert (words.scope, words.model_type, values(words)["dim"]) == ("/text_config", "llama", 128)
    (null,) = [each for each in resolve({"model_type": "llava", "text_config": None}).uses if each.encoding == "rope"]
    assert values(null) == values(words)


def test_an_old_file_with_the_texts_keys_at_the_top() -> None:
    keys = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    sections = {"type": "mrope", "mrope_section": [2, 3, 3]}
    found = resolve({"model_type": "qwen2_vl", **keys, "rope_scaling": sections}).uses
    (words,) = [each for each in found if each.role == "text-attention"]
    assert (words.scope, words.model_type, words.facts["mrope_section"]) == ("", "qwen2_vl_text", [2, 3, 3])


def test_what_the_whole_tells_a_part() -> None:
    found = {each.scope: each for each in resolve({"model_type": "blt", "local_attention_window_len": 7}).uses}
    assert found["/encoder_config"].window is not None
    assert found["/encoder_config"].window.size == 7
    assert found["/decoder_config"].window is None


def test_a_part_under_an_older_name_of_its_type() -> None:
    text = {"model_type": "exaone4_5_text", "num_hidden_layers": 2, "sliding_window": None}
    found = resolve({"model_type": "exaone4_5", "text_config": text})
    assert {each.model_type for each in found.uses if each.scope == "/text_config"} == {"exaone4"}


def test_a_part_that_is_not_known_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one may be of a model that a later transformers brings."""
    unknown = "EsmFold2MsaEncoderConfig"
    monkeypatch.setattr(sys.modules["service.models.resolve"], "has_positions", lambda name: name != unknown)
    monkeypatch.setattr(sys.modules["service.models.resolve"], "positions", lambda *_: [])
    (part,) = [each for each in resolve({"model_type": "esmfold2"}).uses if each.scope == "/msa_encoder"]
    assert (part.encoding, part.scheme, part.layers) == ("unknown", None, None)
    assert "not known here yet" in part.notes[0]


def test_a_whole_model_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a type is that a later transformers brings, until its positions are read."""
    monkeypatch.setattr(sys.modules["service.models.resolve"], "has_positions", lambda _name: False)
    place, detail = refused({"model_type": "convnext"})
    assert place == "/model_type"
    assert "its positions are not known here yet" in detail


def test_parts_within_parts_end() -> None:
    nest: dict[str, Any] = {"model_type": "llava"}
    for _ in range(9):
        nest = {"model_type": "llava", "text_config": nest}
    assert refused(nest) == ("/text_config" * 7, "configurations are nested more than 6 deep")


def test_an_older_name_is_read_where_no_other_stands() -> None:
    config = {"model_type": "chameleon_vqgan"}
    assert resolve(config).uses[0].encoding == "none"
    clap = {"model_type": "musicflamingo", "audio_config": {"model_type": "audioflamingo3_encoder", "d_model": 640}}
    (frames,) = [each for each in resolve(clap).uses if each.encoding == "rope-axes"]
    assert sources(frames)["dim"] == ("config", "/audio_config/d_model")


# Sizes


@pytest.mark.parametrize(
    ("keys", "place", "words"),
    [
        ({"hidden_size": "64"}, "/hidden_size", "is a string (64); a whole number is needed"),
        ({"hidden_size": True}, "/hidden_size", "a truth value"),
        ({"hidden_size": 64.5}, "/hidden_size", "a whole number is needed"),
        ({"hidden_size": -64}, "/hidden_size", "at least 1"),
        ({"hidden_size": 2**40}, "/hidden_size", "at most 2147483647"),
        ({"hidden_size": None}, "/hidden_size", "hidden_size is missing"),
        ({"hidden_size": 65}, "/num_attention_heads", "hidden_size is 65 and num_attention_heads is 4"),
        ({"num_attention_heads": 128}, "/num_attention_heads", "no whole width"),
        ({"head_dim": 15}, "/head_dim", "must be even"),
        ({"head_dim": 2**30}, "/head_dim", "head_dim is 1073741824"),
    ],
)
def test_what_is_wrong_with_sizes(keys: dict[str, Any], place: str, words: str) -> None:
    found = refusal("llama", **keys)
    assert found.parameter == place
    assert words in found.detail


def test_widths_of_heads() -> None:
    assert values(use("llama", hidden_size=64.0))["dim"] == 16
    assert values(use("llama", head_dim=None))["dim"] == 16
    assert refusal("gemma", head_dim=None).parameter == "/head_dim"
    assert values(use("deepseek_v3", qk_rope_head_dim=8))["dim"] == 8
    # The class sets its own width, and then takes the file's all the same.
    assert values(use("deepseek_v3", qk_rope_head_dim=8, head_dim=8))["dim"] == 8
    assert values(use("falcon", head_dim=8))["dim"] == 16
    assert values(use("jetmoe", kv_channels=32))["dim"] == 32
    found = use("mixtral", rope_scaling={"type": "yarn", "factor": 2.0})
    assert any("transformers fails on yarn here" in note for note in found.notes)


def test_two_names_of_one_thing_must_agree() -> None:
    config = {"model_type": "gptj", "n_embd": 64, "n_head": 4, "n_layer": 2, "rotary_dim": 8}
    assert refused({**config, "hidden_size": 32})[0] == "/hidden_size"
    assert "two names of one thing" in refused({**config, "num_hidden_layers": 3})[1]
    assert resolve({**config, "hidden_size": 64, "num_hidden_layers": None}).uses
    # An older name that the class does not know is read where the known one is missing.
    older = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "seq_length": 99}
    assert resolve({**older, "rope_scaling": {"type": "dynamic", "factor": 2.0}}).uses


def test_flags_and_texts_are_checked() -> None:
    assert refusal("qwen2", use_sliding_window="yes").parameter == "/use_sliding_window"
    assert refusal("gemma3_text", rope_scaling="x").parameter == "/rope_scaling"
    assert refusal("patchtst", positional_encoding_type=3).parameter == "/positional_encoding_type"
    assert plan("patchtst", positional_encoding_type=None).uses


# How pairs turn


def test_rotations() -> None:
    def turn(found: Use) -> dict[str, Any]:
        known = ("pairing", "output_pairing", "table_dtype", "compute_dtype", "angle_sign")
        return {name: value for name, value in values(found).items() if name in known}

    assert turn(use("llama")) == {"pairing": "half"}
    assert turn(use("cohere")) == {"pairing": "interleaved", "compute_dtype": "float32"}
    assert turn(use("deepseek_v3")) == {"pairing": "interleaved", "output_pairing": "half"}
    assert turn(use("deepseek_v3", rope_interleave=False)) == {"pairing": "half"}
    assert turn(use("olmo2"))["table_dtype"] == "float32"
    assert turn(use("nanochat"))["angle_sign"] == "negative"
    assert values(use("roformer", embedding_size=64))["arithmetic"] == "exact"


def test_the_softmax_factor_is_told_where_the_class_has_one() -> None:
    yarn: dict[str, Any] = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 64}
    yarn |= {"mscale": 1.0, "mscale_all_dim": 1.0}
    factor = use("deepseek_v3", rope_scaling=yarn).facts["softmax_factor"]
    assert factor == pytest.approx((1 + 0.1 * np.log(40)) ** 2)
    assert "softmax_factor" not in use("llama", rope_scaling=yarn).facts


# Sections


def test_sections() -> None:
    sections = {"type": "mrope", "mrope_section": [2, 3, 3]}
    found = use("qwen2_vl_text", rope_scaling=sections)
    table = answers(found.addresses["axes"])["cos"]
    # Row 23 of the grid 2 x 3 x 4 stands at (1, 2, 3): two pairs follow time, three rows, three columns.
    position = np.array([1, 1, 2, 2, 2, 3, 3, 3])
    np.testing.assert_allclose(table[23, :8], np.cos(position * inv_freq(1e6, 16)), atol=1e-6)
    assert "axes" not in use("llama").addresses
    assert refusal("qwen2_vl_text").parameter == "/rope_parameters/mrope_section"
    wrong = refusal("qwen2_vl_text", rope_scaling={"type": "mrope", "mrope_section": [2, 3, 4]})
    assert wrong.parameter == "/rope_scaling/mrope_section"
    assert refusal("qwen2_vl_text", rope_scaling={"mrope_section": 3}).code == "type"
    found = use("glm4v_text", rope_parameters={"partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]})
    assert answers(found.addresses["axes"])["cos"].shape == (24, 8)
    assert "state mrope_section" in refusal("glm4v_text").detail
    # Transformers cuts off what is interleaved, and splits by the others.
    cut = use("qwen3_vl_text", head_dim=16)
    assert "axes" not in cut.addresses
    assert any("state mrope_section" in note for note in cut.notes)
    ggml = use("qwen3_vl_text", rope_scaling={"mrope_section": [24, 20, 20]}, head_dim=128, options=GGML)
    assert "section_rule=interleaved-ggml" in ggml.addresses["axes"].href


# Presets


def test_vllm() -> None:
    linear = use("llama", rope_scaling={"type": "linear", "factor": 2.0}, options=VLLM)
    assert values(linear)["linear_scaling"] == "position"
    lists = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8, "original_max_position_embeddings": 1024}
    long = use("llama", rope_scaling={"type": "longrope", **lists, "factor": 2.0}, options=VLLM)
    assert (values(long)["seq_len"], values(long)["longrope_attention"]) == (4096, "ratio")
    assert long.facts["attention_factor"] == pytest.approx((1 + np.log(4) / np.log(1024)) ** 0.5)
    dynamic = use("llama", rope_scaling={"type": "dynamic", "factor": 2.0}, options=VLLM)
    assert values(dynamic)["seq_len"] == 4096
    assert any("one table" in note for note in dynamic.notes)
    yarn = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 64, "mscale": 0.7}
    assert values(use("deepseek_v2", rope_scaling=yarn, options=VLLM))["mscale_rule"] == "each"


def test_llama_cpp() -> None:
    found = use("llama", options=GGML)
    assert (values(found)["arithmetic"], values(found)["pairing"]) == ("ggml", "interleaved")
    assert any("permutes the rows" in note for note in found.notes)
    assert values(use("qwen2", options=GGML))["pairing"] == "half"
    yarn = {"type": "yarn", "factor": 2.0, "truncate": False}
    assert values(use("llama", rope_scaling=yarn, options=GGML))["truncate"] is True
    assert "output_pairing" not in values(use("deepseek_v3", options=GGML))
    dynamic = {"type": "dynamic", "factor": 2.0}
    assert refusal("helium", rope_scaling=dynamic, options=GGML).code == "conflict"
    dropped = use("llama", rope_scaling=dynamic, options=GGML)
    assert values(dropped)["rope_type"] == "default"
    assert any("writes no dynamic for llama: its files turn unscaled" in note for note in dropped.notes)


def test_addresses_answer_with_what_the_model_computes() -> None:
    found = use("llama", rope_theta=1e5, options=Options(length=5))
    tables = answers(found.addresses["tables"])
    angle = (np.arange(5, dtype=np.float32)[:, None] * frequencies(found)).astype(np.float64)
    np.testing.assert_allclose(tables["cos"], np.cos(np.tile(angle, 2)), atol=6e-8)
    rotation = found.addresses["rotation"]
    assert rotation.method == "POST"
    assert rotation.href.startswith("/v1/apply/rope?base=100000.0&rope_type=default&pairing=half&arithmetic=float32")
    assert plan("llama").document() == plan("llama").document()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_not_finite(value: float) -> None:
    """As Python's JSON has them: nothing to say where nothing positional reads them, else refused by their pointers."""
    assert plan("falcon_h1", time_step_limit=[0.0, value], x={"y": value}).uses
    for key, block in (("rope_theta", {}), ("factor", {"rope_type": "linear"})):
        fault = refusal("llama", rope_parameters={"rope_theta": 1e4, **block, key: value})
        assert fault.parameter == f"/rope_parameters/{key}"
        assert "a finite number is needed" in fault.detail
    listed = {"rope_type": "longrope", "short_factor": [value] * 8, "long_factor": [1.0] * 8}
    assert refusal("phi3", rope_scaling=listed).parameter == "/rope_scaling/short_factor/0"
    for key in ("hidden_size", "num_attention_heads", "max_position_embeddings", "partial_rotary_factor"):
        keys: dict[str, Any] = {key: value}
        assert refusal("phi", **keys).parameter == f"/{key}"
    assert refusal("mistral", sliding_window=value).parameter == "/sliding_window"
    assert refusal("dab-detr", sine_position_embedding_scale=value).parameter == "/sine_position_embedding_scale"
    header = {"general.architecture": "llama", "llama.rope.freq_base": value, "llama.embedding_length": 64,
              "llama.attention.head_count": 4, "llama.block_count": 2}  # fmt: skip
    assert refused(header)[0] == "/llama.rope.freq_base"
