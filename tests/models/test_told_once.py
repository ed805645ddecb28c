"""Notes that say what is so, and spellings that make no difference."""

from typing import Any

import pytest

from service.models import Options, Use, resolve
from tests.models.plans import plan, refused, said, use


@pytest.mark.parametrize("name", ["deberta", "deberta-v2"])
def test_nothing_tells_tokens_apart(name: str) -> None:
    [found] = resolve({"model_type": name, "relative_attention": False, "position_biased_input": False}).uses
    assert found.encoding == "none"
    assert said(found, "relative_attention and position_biased_input are false")
    assert "mask" in found.addresses
    [table] = resolve({"model_type": name, "relative_attention": False}).uses
    assert table.encoding == "learned"


def test_mpts_rope_is_read_by_nothing() -> None:
    [found] = resolve({"model_type": "mpt", "attn_config": {"alibi": False, "rope": True, "rope_theta": 1e4}}).uses
    assert found.encoding == "none"
    assert said(found, "learned_pos_emb, attn_config.rope, attn_config.rope_theta are read by nothing")
    [found] = resolve({"model_type": "mpt", "attn_config": {"alibi": False, "rope": False}}).uses
    assert said(found, "attn_config.alibi is false, and learned_pos_emb is read by nothing")
    for keys, words in (
        ({"rope": True}, "rope is read"),
        ({"rope": True, "rope_impl": "hf"}, "attn_config.rope_impl are read"),
    ):
        [found] = resolve({"model_type": "mpt", "attn_config": keys}).uses
        assert (found.encoding, said(found, words)) == ("alibi", True)


def test_seamless_units_and_characters() -> None:
    """Both of the unit decoder's tables have a trained factor."""
    uses = resolve({"model_type": "seamless_m4t_v2"}).uses
    parts = {use.facts["part"]: use for use in uses if "part" in use.facts}
    assert said(parts["t2u decoder"], "multiplied by pos_emb_alpha, a trained number")
    assert said(parts["t2u decoder, characters"], "multiplied by pos_emb_alpha_char")
    assert "length=128&" in parts["t2u decoder"].addresses["tables"].href


@pytest.mark.parametrize(("name", "base"), [("muse_spark_text", "500000.0"), ("apertus", "12000000.0")])
def test_a_base_of_the_class_is_not_stated(name: str, base: str) -> None:
    for found in plan(name, rope_theta=12345).uses:
        assert said(found, f"/rope_theta is 12345 and has no effect: the class takes {base} of its own")
        assert not said(found, "is stated")
    [found] = plan("llama", rope_theta=1e5, rope_parameters={"rope_theta": 1e6}).uses
    assert said(found, "has no effect: /rope_parameters/rope_theta is stated")


def test_a_type_that_gemma_3_drops_is_told_once() -> None:
    found = use("gemma3_text", "full_attention", rope_scaling={"type": "linear", "factor": 2.0})
    assert said(found, "the class drops it, and does not scale: factor has no effect")
    assert not said(found, "names no rope_type")
    assert "factor" not in found.parameters
    found = use("gemma3_text", "full_attention", rope_scaling={"type": "linear"})
    assert said(found, "the class drops it, and does not scale")
    both = {"type": "yarn", "factor": 2.0, "beta_fast": 8.0}
    found = use("gemma3_text", "full_attention", rope_scaling=both)
    assert said(found, "does not scale: beta_fast, factor have no effect")


@pytest.mark.parametrize(
    ("whole", "real"),
    [
        ({"rope_theta": 10000}, {"rope_theta": 10000.0}),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, {"rope_scaling": {"type": "linear", "factor": 2.0}}),
    ],
)
def test_one_number_is_one_address(whole: dict[str, Any], real: dict[str, Any]) -> None:
    def hrefs(keys: dict[str, Any]) -> list[str]:
        return [address.href for use in plan("llama", **keys).uses for address in use.addresses.values()]

    assert hrefs(whole) == hrefs(real)
    assert any("10000.0" in href or "factor=2.0" in href for href in hrefs(whole))


def test_one_base_of_a_tower_is_one_address() -> None:
    def href(base: float) -> str:
        [found] = resolve({"model_type": "pixtral", "rope_theta": base}).uses
        return found.addresses["tables"].href

    assert href(10000) == href(10000.0)


def test_a_base_too_large_for_exactness_stays() -> None:
    found: Use = plan("llama", rope_theta=2**53 + 1).uses[0]
    assert found.parameters["base"].value == 2**53 + 1


def test_a_configuration_that_is_a_header_too() -> None:
    header = {"general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 64,
              "llama.attention.head_count": 4}  # fmt: skip
    assert resolve(header).uses
    place, detail = refused({"model_type": "bert", **header})
    assert (place, "leave one of them out" in detail) == ("/model_type", True)
    assert resolve({"model_type": "llama", "num_hidden_layers": 2}, Options()).uses
