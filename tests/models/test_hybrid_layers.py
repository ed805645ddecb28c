"""Attention without positions among other layers: which layers attend, and what contradicts their number."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.models import resolve
from tests.models.plans import refused


def layers(**config: Any) -> dict[str | None, list[int]]:
    """By type of layer; those that attend have a mask, and nothing else has."""
    uses = resolve(config).uses
    for use in uses:
        attends = use.layer_type in ("full_attention", "hybrid")
        assert list(use.addresses) == (["mask"] if attends and use.encoding == "none" else list(use.addresses))
        assert bool(use.addresses) is attends
    return {use.layer_type: list(use.layers or ()) for use in uses}


def test_jamba_attends_by_period_and_offset() -> None:
    found = layers(model_type="jamba", num_hidden_layers=8, attn_layer_period=8, attn_layer_offset=4)
    assert found == {"linear_attention": [0, 1, 2, 3, 5, 6, 7], "full_attention": [4]}
    assert layers(model_type="jamba")["full_attention"] == [4, 12, 20, 28]


def test_zamba_counts_anew_behind_three_layers() -> None:
    assert layers(model_type="zamba", num_hidden_layers=14) == {
        "linear_attention": [0, 1, 3, 4, 5, 6, 8, 9, 10, 11, 12],
        "hybrid": [2, 7, 13],
    }
    listed = layers(model_type="zamba", num_hidden_layers=2, layers_block_type=["mamba", "hybrid"])
    assert listed == {"linear_attention": [0], "hybrid": [1]}


def test_nemotron_h_has_a_letter_for_each_layer() -> None:
    assert layers(model_type="nemotron_h") == {"linear_attention": [0], "moe": [1], "full_attention": [2], "mlp": [3]}
    found = layers(model_type="nemotron_h", hybrid_override_pattern="M-M*-E", num_hidden_layers=6)
    assert found == {"linear_attention": [0, 2], "mlp": [1, 4], "full_attention": [3], "moe": [5]}
    listed = layers(model_type="nemotron_h", layers_block_type=["attention", "mamba"], hybrid_override_pattern="M")
    assert listed == {"full_attention": [0], "linear_attention": [1]}


def test_kimi_linear_counts_from_one() -> None:
    assert layers(model_type="kimi_linear", num_hidden_layers=6) == {
        "linear_attention": [0, 1, 2, 3, 5],
        "full_attention": [4],
    }
    lists = {"full_attn_layers": [4], "kda_layers": [1, 2, 3]}
    found = layers(model_type="kimi_linear", num_hidden_layers=4, linear_attn_config=lists)
    assert found == {"linear_attention": [0, 1, 2], "full_attention": [3]}


def test_zamba_2_counts_as_many_as_it_lists() -> None:
    kinds = ["mamba", "hybrid", "mamba"]
    config = {"model_type": "zamba2", "num_hidden_layers": 3, "layers_block_type": kinds, "use_mem_rope": True}
    assert layers(**config, hybrid_layer_ids=[1])["hybrid"] == [1]
    assert refused({**config, "hybrid_layer_ids": [0]})[0] == "/hybrid_layer_ids"
    assert refused({**config, "num_hidden_layers": 12})[0] == "/layers_block_type"
    place, detail = refused({"model_type": "zamba2", "hybrid_layer_ids": [6, 11], "use_mem_rope": True})
    assert (place, "the list that the class assumes" in detail) == ("/hybrid_layer_ids", True)
    place, detail = refused({"model_type": "zamba2", "num_hidden_layers": 12, "use_mem_rope": True})
    assert (place, "layers_block_type is missing, for which zamba2 assumes 54" in detail) == (
        "/num_hidden_layers",
        True,
    )


DOTS = "dots3_note_vision_encoder"

REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "offset": ({"model_type": "jamba", "attn_layer_offset": 8}, "/attn_layer_offset"),
    "a list for Jamba": ({"model_type": "jamba", "layer_types": ["full_attention"] * 32}, "/layer_types"),
    "two layers of Zamba": ({"model_type": "zamba", "num_hidden_layers": 2}, "/num_hidden_layers"),
    "a letter": ({"model_type": "nemotron_h", "hybrid_override_pattern": "MX"}, "/hybrid_override_pattern"),
    "no letter": ({"model_type": "nemotron_h", "hybrid_override_pattern": ""}, "/hybrid_override_pattern"),
    "no list": (
        {"model_type": "kimi_linear", "linear_attn_config": {"full_attn_layers": 4, "kda_layers": []}},
        "/linear_attn_config/full_attn_layers",
    ),
    "layer 0": (
        {"model_type": "kimi_linear", "linear_attn_config": {"full_attn_layers": [0], "kda_layers": []}},
        "/linear_attn_config/full_attn_layers/0",
    ),
    "a layer of no kind": (
        {
            "model_type": "kimi_linear",
            "num_hidden_layers": 2,
            "linear_attn_config": {"full_attn_layers": [1], "kda_layers": []},
        },
        "/linear_attn_config",
    ),
    "Olmo without linear attention": ({"model_type": "olmo_hybrid", "num_hidden_layers": 1}, "/num_hidden_layers"),
    # Its class makes rows for 17 layers with experts, the last of them 41: per_layer_config of no such layer fails.
    "experts by layer": ({"model_type": DOTS, "num_hidden_layers": 40}, "/num_hidden_layers"),
    "experts of more layers": ({"model_type": DOTS, "num_hidden_layers": 43}, "/num_hidden_layers"),
    "kinds of fewer layers": (
        {"model_type": DOTS, "num_hidden_layers": 4, "mlp_layer_types": ["dense"] * 3},
        "/mlp_layer_types",
    ),
    "experts of no layer": (
        {"model_type": DOTS, "num_hidden_layers": 4, "pyramid_num_routed": [-1] * 5 + [4]},
        "/pyramid_num_routed",
    ),
    "experts that are words": (
        {"model_type": DOTS, "num_hidden_layers": 2, "pyramid_num_routed": [-1, "4"]},
        "/pyramid_num_routed/1",
    ),
    "sizes by layer": ({"model_type": "muse_spark_audio", "num_hidden_layers": 3}, "/num_hidden_layers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_layers_that_contradict_their_number(name: str) -> None:
    config, place = REFUSED[name]
    assert refused(config)[0] == place


@pytest.mark.parametrize(
    "keys",
    [
        {"mlp_layer_types": ["dense"] * 4},
        {"mlp_layer_types": ["sparse"] * 6},
        {"pyramid_num_routed": [-1] * 6},
        {"pyramid_num_routed": [4] * 4, "mlp_layer_types": None},
        {"pyramid_num_routed": None, "mlp_layer_types": ["dense"] * 4},
    ],
)
def test_experts_by_layer_that_are_stated(keys: dict[str, Any]) -> None:
    assert resolve({"model_type": DOTS, "num_hidden_layers": 4, **keys}).uses
    assert resolve({"model_type": DOTS, "num_hidden_layers": 42}).uses


def test_sizes_by_layer_that_are_stated() -> None:
    sizes = {"patch_sizes": [16] * 3, "hidden_sizes": [8] * 3, "depths": [1] * 3}
    assert resolve({"model_type": "muse_spark_audio", "num_hidden_layers": 3, **sizes}).uses


def test_olmo_attends_in_its_last_layer_at_least() -> None:
    found = [
        (use.layer_type, use.layers) for use in resolve({"model_type": "olmo_hybrid", "num_hidden_layers": 2}).uses
    ]
    assert found == [("linear_attention", (0,)), ("full_attention", (1,))]


def test_windows_of_the_first_layers() -> None:
    """Layers take their windows by number: three of the six that the class assumes are enough, seven are not there."""
    uses = resolve({"model_type": "moonshine_streaming_encoder", "num_hidden_layers": 3}).uses
    assert sorted(layer for use in uses for layer in use.layers or ()) == [0, 1, 2]
    place, detail = refused({"model_type": "moonshine_streaming_encoder", "num_hidden_layers": 7})
    assert place == "/num_hidden_layers"
    assert "sliding_windows that the class assumes has 6 entries" in detail
    short = {"model_type": "moonshine_streaming_encoder", "sliding_windows": [[16, 4]]}
    assert refused(short)[0] == "/sliding_windows"
