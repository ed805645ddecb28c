"""Lists, widths and prefixes of GGUF headers that llama.cpp loads no model from."""

from typing import Any

import pytest

from service.models import Options, resolve
from tests.models.plans import answers, refused, said, use, values
from tests.models.test_gguf_architectures import header, uses

SECTIONS = "rope.dimension_sections"


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        # llama-model-loader.cpp, get_key_or_arr: "has wrong array length; expected 4, got 2".
        ([16, 24], "has 2 entries; llama.cpp needs 4"),
        ([16, 24, 24], "has 3 entries; llama.cpp needs 4"),
        ([0, 0, 0, 0], "has no pairs"),
        (None, "qwen2vl.rope.dimension_sections is missing"),
        (5, "is a number; a list of four numbers"),
        ([2, 3, "x", 0], "a whole number is needed"),
    ],
)
def test_sections(sections: Any, words: str) -> None:
    place, detail = refused(header("qwen2vl", **{SECTIONS: sections}))
    assert place == f"/qwen2vl.{SECTIONS}"
    assert words in detail


def test_sections_that_do_not_fill_a_head() -> None:
    """n_rot is the head's width, whatever the sections: ggml begins them anew."""
    (found,) = uses("qwen2vl", **{SECTIONS: [2, 2, 2, 0]})
    assert found.facts["rotary_dim"] == 16
    (found,) = uses("qwen2vl", **{SECTIONS: [2, 3, 3, 0], "embedding_length": None})
    assert found.facts["rotary_dim"] == 16
    found = next(use for use in uses("qwen35", **{SECTIONS: [1, 1, 1, 0]}) if use.encoding == "rope")
    assert found.facts["rotary_dim"] == 6
    assert said(found, "of such a file llama.cpp would turn all 16")
    assert [use.encoding for use in uses("glm4", **{SECTIONS: [0, 0, 0, 0]})] == ["rope"]


@pytest.mark.parametrize(
    ("name", "keys", "place", "words"),
    [
        ("deci", {"attention.head_count": [4, 4]}, "head_count", "has 2 entries, and block_count is 8"),
        ("deci", {"attention.head_count": [], "block_count": None}, "head_count", "is an empty list"),
        ("deci", {"attention.head_count": [4] * 7 + ["x"]}, "head_count/7", "a whole number is needed"),
        ("qwen2", {"attention.head_count_kv": 3}, "head_count_kv", "4 heads cannot share 3 heads of keys"),
        (
            "deci",
            {"attention.head_count_kv": [4, 2, 1, 0, 3, 4, 4, 4]},
            "head_count_kv",
            "4 heads of layer 4 cannot share 3",
        ),
    ],
)
def test_heads(name: str, keys: dict[str, Any], place: str, words: str) -> None:
    parameter, detail = refused(header(name, **keys))
    assert parameter == f"/{name}.attention.{place}"
    assert words in detail


def test_heads_by_layer() -> None:
    lists = {"attention.head_count": [4, 2] * 4, "attention.head_count_kv": [2, 1] * 4}
    assert [use.facts["rotary_dim"] for use in uses("openelm", **lists)] == [16]


def test_keys_of_another_architecture() -> None:
    given = {**header("qwen2"), "general.architecture": "llama", "general.name": "x"}
    place, detail = refused(given)
    assert place == "/general.architecture"
    assert "whose keys begin with llama., and the keys here are qwen2.'s" in detail
    assert "llama.rope.dimension_count is missing" in refused({"general.architecture": "llama", "x.y": 1})[1]
    beside = {**header("llama"), "qwen2.block_count": 3}
    assert resolve(beside).uses[0].layers == tuple(range(8))


def test_llama_4_without_chunks() -> None:
    """models/llama4.cpp: the step is the number of layers, so that (il + 1) % step is 0 for the last alone."""
    note = "llama.cpp means all layers to turn where attention.sliding_window is 0; its code leaves out the last"
    plan = resolve(header("llama4", **{"attention.sliding_window": 0}))
    assert note in plan.notes
    assert [(use.encoding, use.layers, use.window) for use in plan.uses] == [
        ("rope", tuple(range(7)), None),
        ("none", (7,), None),
    ]
    assert note not in resolve(header("llama4")).notes
    assert note not in resolve(header("llama4", **{"attention.sliding_window": None})).notes


@pytest.mark.parametrize("preset", ["transformers-5.24", "vllm", "llama.cpp"])
def test_the_steepest_slope_of_mpt(preset: Any) -> None:
    """conversion/mpt.py writes alibi_bias_max, vLLM's mpt.py hands it to _get_alibi_slopes; transformers' has 8."""
    block = {"alibi": True, "alibi_bias_max": 16}
    found = use("mpt", options=Options(preset=preset), d_model=64, n_heads=4, attn_config=block)
    slopes = next(iter(answers(found.addresses["slopes"]).values()))
    most = 8 if preset == "transformers-5.24" else 16
    assert slopes.ravel() == pytest.approx([2 ** (-most * head / 4) for head in (1, 2, 3, 4)], rel=1e-6)
    assert values(found).get("alibi_bias_max", 8) == most
    assert said(found, "alibi_bias_max is read by nothing") == (most == 8)
    for other in ({"alibi": True}, {"alibi_bias_max": None}):
        found = use("mpt", options=Options(preset=preset), d_model=64, n_heads=4, attn_config=other)
        assert "alibi_bias_max" not in values(found)
        assert not said(found, "alibi_bias_max")
