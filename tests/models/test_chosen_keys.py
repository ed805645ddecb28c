"""Layers whose queries see a part of what a mask lets through: compressed entries, keys that an indexer chooses."""

from typing import Any

import pytest

from service.models import Options
from service.models.plan import Window
from tests.models.plans import plan, refusal, said, use

SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
V4: dict[str, Any] = {"num_hidden_layers": 3, "compress_ratios": [0, 4, 128]}


def test_every_layer_of_deepseek_v4_slides() -> None:
    for label in (SPARSE, HEAVY, "sliding_attention"):
        found = use("deepseek_v4", label, **V4, sliding_window=32)
        assert found.window == Window("sliding", 32)
        assert "/v1/masks/sliding?window=32" in found.addresses["mask"].href
        assert said(found, "compressed entries") == (label != "sliding_attention")
    for only in (SPARSE, HEAVY):
        fault = refusal("deepseek_v4", layer_types=[only] * 6, sliding_window=None)
        assert (fault.parameter, fault.code) == ("/sliding_window", "conflict")
        assert "deepseek_v4 has layers that slide" in fault.detail


@pytest.mark.parametrize(
    ("keys", "sparse", "heavy"),
    [
        ({}, 4, 128),
        ({"compress_rate_csa": 8, "compress_rate_hca": 64}, 8, 64),
        ({"compress_rates": {SPARSE: 8, HEAVY: 64}}, 8, 64),
        ({"compress_rates": {SPARSE: 8}, "compress_rate_csa": 16}, 16, 128),
    ],
)
def test_how_many_tokens_an_entry_is_made_of(keys: dict[str, Any], sparse: int, heavy: int) -> None:
    first, second = (use("deepseek_v4", label, **V4, **keys) for label in (SPARSE, HEAVY))
    assert (first.facts["compress_rate"], second.facts["compress_rate"]) == (sparse, heavy)
    assert said(first, f"made of the {sparse} tokens from {sparse} i on, and of the {sparse} before,")
    assert said(first, "chooses 512 (index_topk)")
    assert said(second, f"made of the {heavy} tokens from {heavy} i on and turns as position {heavy} i")
    assert not said(second, "index_topk")


def test_entries_of_no_length() -> None:
    fault = refusal("deepseek_v4", **V4, compress_rates={HEAVY: 0})
    assert fault.parameter == f"/compress_rates/{HEAVY}"


# Keys that an indexer chooses


@pytest.mark.parametrize(
    ("name", "keys", "facts", "words"),
    [
        (
            "deepseek_v32",
            {"index_topk": 64},
            {"index_topk": 64},
            "sees the 64 (index_topk) keys that an indexer scores",
        ),
        ("glm5_next_text", {}, {"index_topk": 2048, "index_kpool": 16}, "2048 (index_topk) keys in pools of 16"),
        (
            "qwen4_exp_text",
            {"indexer_budget": 32, "indexer_compress_ratio": 4, "indexer_head_dim": 256},
            {"indexer_budget": 32, "indexer_compress_ratio": 4},
            "32 (indexer_budget) keys in blocks of 4",
        ),
        ("qwen4_exp_text", {}, {}, "indexer_budget is not stated, without which transformers builds no such layer"),
        (
            "minimax_m3_vl_text",
            {"layer_types": ["minimax_m3_sparse"] * 6, "index_local_blocks": 0},
            {"index_topk_blocks": 16, "index_block_size": 128, "index_local_blocks": 0},
            "16 (index_topk_blocks) blocks of 128 (index_block_size) keys",
        ),
    ],
)
def test_how_many_keys_are_chosen(name: str, keys: dict[str, Any], facts: dict[str, int], words: str) -> None:
    [found] = [
        each for each in plan(name, **keys).uses if each.layer_type in ("indexed_attention", "minimax_m3_sparse")
    ]
    assert len([note for note in found.notes if words in note]) == 1
    assert {key: value for key, value in found.facts.items() if key.startswith("index")} == facts


def test_layers_that_share_a_choice() -> None:
    words = "layers that indexer_types calls shared"
    assert said(use("glm_moe_dsa", index_topk_freq=2), words)
    assert not said(use("glm_moe_dsa"), words)
    assert not said(use("deepseek_v32", index_topk_freq=2), words)


def test_how_an_indexer_turns() -> None:
    halves = use("deepseek_v32", qk_rope_head_dim=8)
    assert said(halves, "turns the first 8 of its 128 (index_head_dim) channels in halves, unlike the attention")
    assert "pairing=half" in halves.addresses["indexer"].href
    assert "output_pairing" not in halves.addresses["indexer"].href
    alike = use("glm_moe_dsa", qk_rope_head_dim=8, index_head_dim=16)
    assert said(alike, "first 8 of its 16 (index_head_dim) channels in pairs of neighbours: the address indexer")
    assert "output_pairing=half&arithmetic=float32&rotary_dim=8" in alike.addresses["indexer"].href
    assert "rotary_channels=last" in use("hy_v4").addresses["indexer"].href
    assert said(use("deepseek_v4", SPARSE, **V4), "its keys are compressed entries")
    assert "indexer" not in use("deepseek_v4", HEAVY, **V4).addresses


@pytest.mark.parametrize("preset", ["vllm", "llama.cpp"])
def test_the_indexers_of_other_code_are_not_stated(preset: Any) -> None:
    found = use("deepseek_v32", options=Options(preset=preset))
    assert "indexer" not in found.addresses
    assert said(found, "that an indexer scores highest")


def test_an_indexer_that_is_too_narrow() -> None:
    found = use("deepseek_v32", qk_rope_head_dim=64, index_head_dim=32)
    assert said(found, "index_head_dim is 32, and the indexer turns 64 channels by the tables of its layer")
    assert "indexer" not in found.addresses
