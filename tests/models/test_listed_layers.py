"""Kinds of layers by older keys: MiniMax-M3's flags, UltraBERT's windows, names that a class exchanges."""

from typing import Any

import pytest

from tests.models.plans import plan, refusal, said, use

F, S, L = "full_attention", "sliding_attention", "linear_attention"
SPARSE = "minimax_m3_sparse"


def kinds(name: str, **keys: Any) -> list[str | None]:
    found = {layer: each.layer_type for each in plan(name, **keys).uses for layer in each.layers or ()}
    return [found[layer] for layer in sorted(found)]


def test_the_published_spelling_of_minimax_m3() -> None:
    block: dict[str, Any] = {"sparse_attention_freq": [0, 1, 1, True, False, 1], "sparse_topk_blocks": 4}
    block |= {"sparse_block_size": 64, "sparse_local_block": 2, "sparse_index_dim": 256}
    assert kinds("minimax_m3_vl_text", sparse_attention_config=block) == [F, SPARSE, SPARSE, SPARSE, F, SPARSE]
    sparse = use("minimax_m3_vl_text", SPARSE, sparse_attention_config=block, index_topk_blocks=9)
    assert said(sparse, "4 (index_topk_blocks) blocks of 64 (index_block_size) keys")
    assert said(sparse, "the last 2 (index_local_blocks)")
    assert said(sparse, "of its 256 (index_head_dim) channels")
    assert kinds("minimax_m3_vl_text", sparse_attention_config={}) == [F] * 6
    stated = {"sparse_attention_config": block, "layer_types": [SPARSE] * 6}
    assert kinds("minimax_m3_vl_text", **stated) == [SPARSE] * 6


@pytest.mark.parametrize(
    ("flags", "where", "code"),
    [
        ([1], "", "shape"),
        (1, "", "type"),
        ([0, 2, 0, 0, 0, 0], "/1", "out_of_range"),
        ([0, "1", 0, 0, 0, 0], "/1", "type"),
    ],
)
def test_flags_that_are_none(flags: Any, where: str, code: str) -> None:
    fault = refusal("minimax_m3_vl_text", sparse_attention_config={"sparse_attention_freq": flags})
    assert (fault.parameter, fault.code) == (f"/sparse_attention_config/sparse_attention_freq{where}", code)


def test_the_windows_of_ultrabert() -> None:
    keys: dict[str, Any] = {"attention_windows": [0, 8, 8, 0, 8, 8]}
    assert kinds("ultrabert", **keys) == [F, S, S, F, S, S]
    found = use("ultrabert", S, **keys)
    assert found.window is not None
    assert (found.window.size, kinds("ultrabert")) == (8, [S, S, F] * 2)
    mask = found.addresses["mask"].href
    assert "window=8" in mask
    assert kinds("ultrabert", attention_windows=[0] * 6) == [F] * 6
    assert refusal("ultrabert", attention_windows=[8]).code == "shape"


def test_names_that_a_class_exchanges() -> None:
    labels = [L, F, "indexed_attention", L, F, "deepseek_sparse_attention"]
    for name in ("glm5_next_text", "qwen4_exp_text"):
        assert [each or "" for each in kinds(name, layer_types=labels)] == [L, *["indexed_attention"] * 2] * 2
    fault = refusal("qwen4_exp_text", layer_types=[S] * 6)
    assert (fault.parameter, fault.code) == ("/layer_types/0", "choice")
    assert fault.detail.endswith("of this class; known are linear_attention, indexed_attention")
    assert refusal("deepseek_v4", layer_types=[F] * 6).parameter == "/layer_types/0"


@pytest.mark.parametrize("name", ["bamba", "falcon_h1", "jamba", "recurrent_gemma"])
@pytest.mark.parametrize("key", ["layer_types", "layers_block_type"])
def test_lists_that_follow_from_other_keys(name: str, key: str) -> None:
    for value in (None, [F] * 6):
        keys: dict[str, Any] = {key: value}
        fault = refusal(name, **keys)
        assert (fault.parameter, fault.code) == (f"/{key}", "conflict")
        assert "transformers fails where it is stated" in fault.detail
