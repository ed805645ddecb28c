"""Which layers are of which type, which of them turn, and how far they see."""

from typing import Any

import numpy as np
import pytest

from service.models import Options, resolve
from service.models.plan import Window
from tests.models.plans import answers, plan, refusal, use

F, S, L = "full_attention", "sliding_attention", "linear_attention"


def labels(model_type: str, count: int = 6, **keys: Any) -> list[str | None]:
    """The type of every layer, as the uses have them."""
    found: dict[int, str | None] = {}
    for each in plan(model_type, num_hidden_layers=count, **keys).uses:
        if each.encoding in ("rope", "none"):
            found |= dict.fromkeys(each.layers or (), each.layer_type)
    assert sorted(found) == list(range(count))
    return [found[layer] for layer in range(count)]


@pytest.mark.parametrize(
    ("model_type", "keys", "wanted"),
    [
        ("llama", {}, [None] * 6),
        ("gemma2", {}, [S, F, S, F, S, F]),
        ("gemma3_text", {}, [S, S, S, S, S, F]),
        ("gemma3_text", {"sliding_window_pattern": 2}, [S, F, S, F, S, F]),
        ("gemma4_text", {"layer_types": [S] * 6}, [S, S, S, S, S, F]),
        ("modernbert", {}, [F, S, S, F, S, S]),
        ("cohere2", {}, [S, S, S, F, S, S]),
        ("cohere2_moe", {"first_k_dense_replace": 2, "sliding_window_pattern": 3}, [F, F, S, S, F, S]),
        ("qwen2", {}, [F] * 6),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 4}, [F, F, F, F, S, S]),
        ("qwen2_moe", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 4}, [S, F, S, F, F, F]),
        ("dots1", {"sliding_window": 8, "max_window_layers": 5}, [F, F, F, F, F, S]),
        ("ministral", {"sliding_window": 8}, [S] * 6),
        ("ministral", {"sliding_window": None}, [F] * 6),
        ("minimax", {}, [F, L, F, L, F, L]),
        ("qwen3_next", {}, [L, L, L, F, L, L]),
        ("lfm2", {"full_attn_idxs": [2, 4]}, ["conv", "conv", F, "conv", F, "conv"]),
        ("lfm2", {}, [F] * 6),
        ("bamba", {"attn_layer_indices": [1]}, [L, F, L, L, L, L]),
        ("mimo_v2_flash", {}, [F, S, S, S, S, F]),
        ("exaone4", {"sliding_window": 8, "sliding_window_pattern": 3}, [S, S, F, S, S, F]),
        ("exaone4", {"sliding_window": 8, "sliding_window_pattern": "LLG"}, [S, S, F, S, S, F]),
        ("exaone4", {"sliding_window": None}, [F] * 6),
        ("recurrent_gemma", {}, [L, L, S, L, L, S]),
        ("flint", {}, [F, F, S, S, S, F]),
        ("muse_glimmer_text", {}, [S, F, S, S, S, F]),
        ("llama4_text", {}, ["chunked_attention"] * 3 + [F] + ["chunked_attention"] * 2),
        ("llama4_text", {"attention_chunk_size": None}, [F] * 6),
        ("llama4_text", {"no_rope_layers": [0, 1, 0, 1, 0, 1]}, [F, "chunked_attention"] * 3),
        ("smollm3", {"no_rope_layer_interval": 3}, [F] * 6),
        ("smollm3", {"use_sliding_window": True, "sliding_window": 4}, [F, F, F, S, F, F]),
        ("gpt_oss", {"layer_types": ["attention", "mamba", F, S, "deepseek_sparse_attention", F]},
         [F, L, F, S, "indexed_attention", F]),
    ],
)  # fmt: skip
def test_the_types_of_layers(model_type: str, keys: dict[str, Any], wanted: list[str | None]) -> None:
    assert labels(model_type, **keys) == wanted


def test_more_layers() -> None:
    assert labels("lfm3", 5) == ["conv", "conv", F, "conv", S]
    assert labels("deepseek_v4", 4) == ["heavily_compressed_attention"] * 3 + ["compressed_sparse_attention"]
    assert labels("lara_mini", 5) == [L, S, L, F, S]
    hybrids = [layer for each in resolve({"model_type": "zamba2"}).uses for layer in each.layers or ()]
    assert sorted(hybrids) == list(range(54))


@pytest.mark.parametrize(
    ("model_type", "keys", "place", "words"),
    [
        ("gemma2", {"layer_types": [F] * 5}, "/layer_types", "5 entries and num_hidden_layers is 6"),
        ("gemma2", {"layer_types": [F, "full_atention", F, F, F, F]}, "/layer_types/1", "did you mean full_attention?"),
        ("gemma2", {"layer_types": [F, "zzzz", F, F, F, F]}, "/layer_types/1", "known are full_attention"),
        ("gemma2", {"layer_types": [F, 3, F, F, F, F]}, "/layer_types/1", "a string is needed"),
        ("gemma2", {"layer_types": "all"}, "/layer_types", "a list is needed"),
        ("gemma3_text", {"sliding_window_pattern": 0}, "/sliding_window_pattern", "1 or more"),
        ("llama4_text", {"no_rope_layers": [1] * 5}, "/no_rope_layers", "5 entries for 6 layers"),
        ("llama4_text", {"no_rope_layers": [1, 1, 1, 1, 1, 2]}, "/no_rope_layers/5", "0 or 1 would do"),
        ("smollm3", {"no_rope_layers": []}, "/no_rope_layers", "0 entries for 6 layers"),
        ("deepseek_v4", {"compress_ratios": [0, 3, 4, 4, 4, 4]}, "/compress_ratios/1", "0, 4 and 128"),
        ("deepseek_v4", {"compress_ratios": [0]}, "/compress_ratios", "1 entries for 6 layers"),
        ("llama", {"num_hidden_layers": 5000}, "/num_hidden_layers", "at most 4096"),
        ("gemma2", {"num_hidden_layers": -3}, "/num_hidden_layers", "at least 1"),
    ],
)
def test_what_is_wrong_with_layers(model_type: str, keys: dict[str, Any], place: str, words: str) -> None:
    found = refusal(model_type, **keys)
    assert found.parameter == place
    assert words in found.detail


def test_layers_that_do_not_turn() -> None:
    turned = {each.layers: each.encoding for each in plan("smollm3").uses}
    assert turned == {(0, 1, 2, 4, 5): "rope", (3,): "none"}
    assert use("cohere2", F).encoding == "none"
    assert use("exaone4", F, sliding_window=8).encoding == "none"
    assert use("exaone4", sliding_window=None).encoding == "rope"
    assert use("llama4_text", F, no_rope_layers=[]).layers == (3,)
    still = use("qwen3_next", L)
    assert (still.encoding, dict(still.addresses), still.window) == ("none", {}, None)
    assert "no attention" in still.notes[0]


def test_positions_on_request() -> None:
    keys: dict[str, Any] = {"layer_types": [F] * 6}
    assert use("granitemoehybrid", **keys).encoding == "none"
    assert use("granitemoehybrid", position_embedding_type="rope", **keys).encoding == "rope"
    (memory,) = [each for each in resolve({"model_type": "zamba2", "use_mem_rope": True}).uses if each.layer_type != L]
    assert memory.encoding == "rope"
    assert memory.parameters["dim"].value == 160


# Windows and masks


def test_a_sliding_window() -> None:
    found = use("mistral", sliding_window=3, options=Options(length=6))
    assert found.window is not None
    assert found.window.document() == {"kind": "sliding", "size": 3}
    query, key = np.indices((6, 6))
    np.testing.assert_array_equal(answers(found.addresses["mask"])["mask"], (key <= query) & (key > query - 3))


def test_no_window() -> None:
    for keys in ({"sliding_window": None}, {}):
        found = use("mistral", options=Options(length=5), **({"sliding_window": None} | keys))
        assert found.window is None
        np.testing.assert_array_equal(answers(found.addresses["mask"])["mask"], np.tri(5, dtype=bool))
    assert use("qwen3_moe", use_sliding_window=False, sliding_window=8).window is None


FAILING = [
    ("gemma2", {"sliding_window": None}, "sliding_window is null, and gemma2 has layers that slide"),
    ("gpt_oss", {"sliding_window": 0}, "sliding_window is 0, and gpt_oss has layers that slide"),
    ("cohere2", {"sliding_window": None, "layer_types": [S] * 6}, "is null, and layer_types has sliding_attention"),
    ("gemma3_text", {"sliding_window": None, "layer_types": [F] * 5 + [S]}, "is null, and layer_types has"),
    ("gemma3n_text", {"sliding_window": None}, "sliding_window is null, and gemma3n_text has"),
    ("lara_mini", {"sliding_window": None, "layer_types": [S] * 6}, "sliding_window is null, and layer_types has"),
    ("flint", {"sliding_window": None}, "sliding_window is null, and flint has"),
    ("mimo_v2_flash", {"sliding_window": None}, "sliding_window is null, and mimo_v2_flash has"),
    ("mistral", {"sliding_window": 0}, "sliding_window is 0, and mistral has layers that slide"),
    ("starcoder2", {"sliding_window": 0}, "sliding_window is 0, and starcoder2 has layers that slide"),
    ("olmo3", {"sliding_window": 0, "layer_types": [S] * 6}, "sliding_window is 0, and layer_types has"),
]


@pytest.mark.parametrize(("name", "keys", "words"), FAILING)
def test_a_window_without_a_size_is_refused(name: str, keys: dict[str, Any], words: str) -> None:
    fault = refusal(name, **keys)
    assert (fault.parameter, fault.code) == ("/sliding_window", "conflict")
    assert words in fault.detail
    assert "transformers fails on a window without a size; state sliding_window" in fault.detail


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_a_flag_that_takes_the_window_away(name: str) -> None:
    said: tuple[dict[str, Any], ...] = ({"use_sliding_window": False}, {})
    for keys in said:
        fault = refusal(name, layer_types=[S] * 6, sliding_window=8, **keys)
        assert fault.parameter == "/use_sliding_window"
        assert "use_sliding_window is false, and layer_types has sliding_attention" in fault.detail


def test_a_window_without_a_size_elsewhere() -> None:
    """vLLM's code sees all there; llama.cpp's has a size of its own for some, and loads no file of others."""
    assert use("gemma2", S, sliding_window=None, options=Options(preset="vllm")).window is None
    ggml = Options(preset="llama.cpp")
    assert use("gemma2", S, sliding_window=None, options=ggml).window == Window("sliding", 4096)
    assert refusal("gpt_oss", sliding_window=None, options=ggml).parameter == "/sliding_window"
    for preset in ("vllm", "llama.cpp"):
        assert use("mistral", sliding_window=0, options=Options(preset=preset)).window is None


def test_windows_both_ways() -> None:
    for keys in ({"model_type": "modernbert", "local_attention": 4},):
        (found,) = [each for each in resolve(keys, Options(length=7)).uses if each.layer_type == S]
        query, key = np.indices((7, 7))
        np.testing.assert_array_equal(answers(found.addresses["mask"])["mask"], abs(query - key) <= 2)
    found = use("gemma3_text", S, use_bidirectional_attention=True, sliding_window=4, options=Options(length=7))
    np.testing.assert_array_equal(answers(found.addresses["mask"])["mask"], abs(query - key) <= 2)
    assert use("modernbert", F).addresses["mask"].method == "POST"
    found = use("modernbert-decoder", S, local_attention=8)
    assert found.window is not None
    assert found.window.document() == {"kind": "sliding", "size": 4}


def test_chunks() -> None:
    found = use("llama4_text", "chunked_attention", attention_chunk_size=3, options=Options(length=6))
    query, key = np.indices((6, 6))
    wanted = (key <= query) & (key // 3 == query // 3)
    np.testing.assert_array_equal(answers(found.addresses["mask"])["mask"], wanted)


# Temperatures


def test_llama4_warms_layers_that_do_not_turn() -> None:
    found = use("llama4_text", F, floor_scale=2, attn_scale=0.5, options=Options(length=8))
    wanted = 1 + 0.5 * np.log(1 + np.floor((np.arange(8) + 1) / 2))
    np.testing.assert_allclose(answers(found.addresses["temperature"])["temperature"][:, 0], wanted, rtol=1e-6)
    plainly = use("llama4_text", F, floor_scale=None, attn_scale=None)
    assert plainly.facts["temperature_parameters"] == {"schedule": "llama4"}
    assert "temperature" not in use("llama4_text", F, attn_temperature_tuning=False).addresses
    assert "temperature" not in use("llama4_text", "chunked_attention").addresses
    short = use("llama4_text", F, options=Options(preset="vllm"))
    assert "temperature" not in short.addresses
    assert "32768" in short.notes[1]
    assert "temperature" in use("llama4_text", F, max_position_embeddings=65536, options=Options(preset="vllm")).facts


def test_ministral_warms_all_layers() -> None:
    yarn = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4, "llama_4_scaling_beta": 0.1}
    found = use("ministral3", rope_parameters=yarn, sliding_window=None, options=Options(length=9))
    wanted = 1 + 0.1 * np.log(1 + np.floor(np.arange(9) / 4))
    np.testing.assert_allclose(answers(found.addresses["temperature"])["temperature"][:, 0], wanted, rtol=1e-6)
    cold = use("ministral3", rope_parameters={**yarn, "llama_4_scaling_beta": 0}, sliding_window=None)
    assert "temperature" not in cold.addresses


def test_other_temperatures() -> None:
    found = use("beam", S)
    assert found.facts["temperature_parameters"] == {"schedule": "beam"}
    keys = {"model_type": "qwen", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "seq_length": 64}
    (found,) = resolve({**keys, "use_logn_attn": True}, Options(assume="qwen")).uses
    assert found.facts["temperature_parameters"] == {"schedule": "log-n", "floor_scale": 64}
    (found,) = resolve(keys, Options(assume="qwen")).uses
    assert "temperature" not in found.facts
