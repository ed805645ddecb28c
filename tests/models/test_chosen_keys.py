"""Layers whose queries see a part of what a mask lets through: compressed entries, keys that an indexer chooses."""

from typing import Any

import pytest

from service.models.plan import Window
from tests.models.plans import refusal, said, use

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
