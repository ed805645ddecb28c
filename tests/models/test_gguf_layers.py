"""Kinds of layers of GGUF headers: patterns of llama.cpp's code, and what headers say over them."""

from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import Use, resolve
from tests.models.plans import values


def header(name: str, **keys: Any) -> dict[str, Any]:
    sizes = {"block_count": 6, "embedding_length": 64, "attention.head_count": 4, "attention.sliding_window": 32}
    return {"general.architecture": name, **{f"{name}.{key}": value for key, value in {**sizes, **keys}.items()}}


def by_kind(name: str, **keys: Any) -> dict[str | None, Use]:
    return {each.layer_type: each for each in resolve(header(name, **keys)).uses}


def test_layers_that_slide_in_turn() -> None:
    found = by_kind("gpt-oss")
    assert found["sliding_attention"].layers == (0, 2, 4)
    assert found["full_attention"].layers == (1, 3, 5)
    assert "/v1/masks/sliding?window=32" in found["sliding_attention"].addresses["mask"].href
    assert "/v1/masks/causal" in found["full_attention"].addresses["mask"].href


def test_a_base_of_its_own_in_the_code_or_the_header() -> None:
    found = by_kind("gemma3n", **{"rope.freq_base": 1e6})
    assert (values(found["full_attention"])["base"], values(found["sliding_attention"])["base"]) == (1e6, 1e4)
    stated = by_kind("gemma3n", **{"rope.freq_base": 1e6, "rope.freq_base_swa": 7.0})
    assert values(stated["sliding_attention"])["base"] == 7.0
    assert values(by_kind("gemma2", **{"rope.freq_base": 9.0})["sliding_attention"])["base"] == 9.0


def test_widths_of_sliding_layers() -> None:
    widths = {"attention.key_length": 32, "attention.key_length_swa": 16, "rope.dimension_count_swa": 8}
    found = by_kind("gemma4", **widths, **{"attention.sliding_window_pattern": [True, False] * 3})
    assert values(found["full_attention"])["dim"] == 32
    assert (values(found["sliding_attention"])["dim"], values(found["sliding_attention"])["rotary_dim"]) == (16, 8)
    assert found["sliding_attention"].layers == (0, 2, 4)


def test_full_layers_that_do_not_turn() -> None:
    found = by_kind("exaone4", block_count=64)
    assert found["full_attention"].encoding == "none"
    assert found["full_attention"].layers == tuple(range(3, 64, 4))
    assert "mask" in found["full_attention"].addresses
    (every,) = resolve(header("exaone4")).uses
    assert (every.layers, every.encoding, every.window) == ((0, 1, 2, 3, 4, 5), "rope", None)
    first = by_kind("smallthinker")
    assert first["full_attention"].layers == (0, 4)
    (plain,) = resolve(header("exaone4", **{"attention.sliding_window": 0})).uses
    assert plain.layers == (0, 1, 2, 3, 4, 5)
    turning, still = resolve(header("smollm3")).uses
    assert (turning.layers, still.layers) == ((0, 1, 2, 4, 5), (3,))


def test_scaling_of_full_layers_alone() -> None:
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 512}
    found = by_kind("olmo2", **yarn)
    assert values(found["full_attention"])["rope_type"] == "yarn"
    assert values(found["sliding_attention"])["rope_type"] == "default"


def test_a_pattern_of_the_header() -> None:
    key = "attention.sliding_window_pattern"
    assert by_kind("gemma2", **{key: 3})["full_attention"].layers == (2, 5)
    assert set(by_kind("llama", **{key: 2})) == {None}
    assert by_kind("mimo2", **{key: [False, True] * 3})["full_attention"].layers == (0, 2, 4)
    assert set(by_kind("gemma2", **{key: 0})) == {"sliding_attention"}
    with pytest.raises(Refusal, match="has 2 entries for 6 layers"):
        resolve(header("gemma2", **{key: [True, False]}))


def test_layers_that_do_not_attend() -> None:
    found = by_kind("lfm2", **{"attention.head_count_kv": [0, 2, 0, 2, 0, 0], "attention.sliding_window": 0})
    assert (found["full_attention"].layers, found["linear_attention"].layers) == ((1, 3), (0, 2, 4, 5))
    assert found["linear_attention"].encoding == "none"
    assert by_kind("qwen3next", full_attention_interval=3)["full_attention"].layers == (2, 5)
    assert by_kind("qwen3next")["full_attention"].layers == (3,)
    assert by_kind("qwen3next", full_attention_interval=1)["full_attention"].layers == (0, 1, 2, 3, 4, 5)
    assert set(by_kind("lfm2", **{"attention.head_count_kv": [0] * 6})) == {"linear_attention"}
    with pytest.raises(Refusal, match=r"attention\.head_count_kv has 2 entries"):
        resolve(header("lfm2", **{"attention.head_count_kv": [0, 1]}))


def test_both_sides() -> None:
    found = by_kind("modern-bert")
    assert found["full_attention"].layers == (0, 3)
    assert found["sliding_attention"].window is not None
    assert found["sliding_attention"].window.size == 16
    assert found["full_attention"].addresses["mask"].method == "POST"
    (plain,) = resolve(header("nomic-bert", **{"attention.causal": False})).uses
    assert plain.addresses["mask"].method == "POST"


def test_windows_of_the_code() -> None:
    found = by_kind("llama4")
    assert found["chunked_attention"].window is not None
    assert found["chunked_attention"].window.size == 8192
    uncounted = resolve(header("gemma3", block_count=None, **{"attention.sliding_window": None})).uses
    assert {each.layers for each in uncounted} == {None}
    assert {each.window for each in uncounted} == {None}
    with pytest.raises(Refusal, match="at most 4096"):
        resolve(header("gemma3", block_count=5000))


def test_sections_make_halves() -> None:
    sections = {"rope.dimension_sections": [2, 3, 3, 0]}
    assert values(resolve(header("glm4", **sections)).uses[0])["pairing"] == "half"
    assert values(resolve(header("glm4")).uses[0])["pairing"] == "interleaved"


def test_a_factor_below_one() -> None:
    for factor, words in ((0.5, "1 or more would do"), (-1, "more than 0 would do")):
        with pytest.raises(Refusal, match=words):
            resolve(header("llama", **{"rope.scaling.type": "yarn", "rope.scaling.factor": factor}))


def test_leading_layers_of_cohere_2_moe_turn_though_they_see_everything() -> None:
    """The first of each four sees everything and does not turn; those before the experts do."""
    uses = resolve(header("cohere2moe", leading_dense_block_count=1)).uses
    found = {(use.layer_type, use.encoding): use.layers for use in uses}
    assert found == {
        ("sliding_attention", "rope"): (1, 2, 3, 5),
        ("full_attention", "rope"): (0,),
        ("full_attention", "none"): (4,),
    }
    assert {values(use)["pairing"] for use in uses if use.encoding == "rope"} == {"interleaved"}
    listed = {"attention.sliding_window_pattern": [False, True] * 3}
    layers = [use.layers for use in resolve(header("cohere2moe", leading_dense_block_count=4, **listed)).uses]
    assert layers == [(1, 3, 5), (0, 2), (4,)]
    every = {"attention.sliding_window_pattern": [False, False, True, True, True, True]}
    assert [use.layers for use in resolve(header("cohere2moe", leading_dense_block_count=2, **every)).uses] == [
        (2, 3, 4, 5),
        (0, 1),
    ]
    assert [use.encoding for use in resolve(header("cohere2moe")).uses] == ["rope", "none"]


@pytest.mark.parametrize(
    ("name", "pairing", "keys", "width"),
    [
        ("hy_v3", "half", {}, 16),
        ("talkie", "half", {}, 16),
        ("deepseek32", "interleaved", {"rope.dimension_count": 8, "attention.key_length": 40}, 8),
    ],
)
def test_newer_architectures(name: str, pairing: str, keys: dict[str, Any], width: int) -> None:
    (use,) = resolve(header(name, **keys)).uses
    assert (values(use)["pairing"], use.facts["rotary_dim"], use.layers) == (pairing, width, (0, 1, 2, 3, 4, 5))
    assert "/v1/masks/causal" in use.addresses["mask"].href
