"""What single families and headers do with keys that few files have."""

import re
from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import Options, Plan, Use, resolve
from tests.models.plans import answers, refusal, sources, values


def plan(**keys: Any) -> Plan:
    return resolve(keys)


def refused(**keys: Any) -> tuple[str, str]:
    with pytest.raises(Refusal) as found:
        plan(**keys)
    (fault,) = found.value.faults
    return fault.parameter, fault.detail


def header(architecture: str, **keys: Any) -> dict[str, Any]:
    """A GGUF header: keys with the architecture in front."""
    sizes = {"attention.head_count": 4, "embedding_length": 32}
    named = {f"{architecture}.{name.replace('__', '.')}": value for name, value in {**sizes, **keys}.items()}
    return {"general.architecture": architecture, **named}


def only(document: dict[str, Any]) -> Use:
    (use,) = resolve(document).uses
    return use


def test_sizes_of_a_tower_that_are_no_sizes() -> None:
    key = "memory_attention_rope_feat_sizes"
    for sizes in (["a", "b"], [16, True], [16, 0], [16, 1.5], [16], None):
        place, detail = refused(model_type="edgetam_video", **{key: sizes})
        assert place == f"/{key}"
        assert "such as [64, 64]" in detail
    tower = next(use for use in plan(model_type="edgetam_video", **{key: [16, 24]}).uses if use.encoding == "rope-axes")
    assert "16 rows and 24 columns" in tower.notes[0]


def test_heads_without_a_width() -> None:
    place, detail = refused(model_type="pixtral", hidden_size=4, num_attention_heads=16, head_dim=None)
    assert place == "/hidden_size"
    assert "the heads have no width" in detail


def test_dinov3_turns_unscaled() -> None:
    scaled = {"rope_type": "yarn", "factor": 2}
    assert refused(model_type="dinov3_vit", rope_parameters=scaled)[0] == "/rope_parameters"
    tower = plan(model_type="dinov3_vit", rope_theta=50, rope_parameters={"rope_type": "default"}).uses[-1]
    assert values(tower)["base"] == 50


def test_mpt_reads_no_maximum_of_its_bias() -> None:
    said = only({"model_type": "mpt", "attn_config": {"alibi": True, "alibi_bias_max": 16}})
    assert said.notes == ("alibi_bias_max is read by nothing: the class uses 8",)
    assert "alibi_bias_max" not in values(said)


def test_the_slopes_of_ggml() -> None:
    (ours,) = resolve({"model_type": "mpt"}, Options(preset="llama.cpp")).uses
    of_header = only(header("mpt", attention__head_count=values(ours)["heads"], attention__max_alibi_bias=8.0))
    assert values(of_header) == {**values(ours), "alibi_bias_max": 8.0}
    assert values(ours)["form"] == "symmetric"
    tables = [answers(use.addresses["tables"])["bias"].tobytes() for use in (ours, of_header)]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(("name", "keys"), [("mpt", {}), ("jais", {"attention__max_alibi_bias": 0.0})])
def test_no_bias_without_a_steepest_slope(name: str, keys: dict[str, float]) -> None:
    """llama.cpp has no default for these two: models/mpt.cpp, models/jais.cpp."""
    bias = only(header(name, **keys))
    assert bias.encoding == "none"
    assert "llama.cpp adds no bias" in bias.notes[0]
    assert "mask" in bias.addresses


def test_deberta_by_its_own_distance() -> None:
    bias = plan(model_type="deberta", relative_attention=True, max_relative_positions=100).uses[-1]
    longest = plan(model_type="deberta", relative_attention=True, max_position_embeddings=300).uses[-1]
    assert (values(bias)["left"], values(longest)["left"]) == (100, 300)


def test_yolos_with_and_without_tables_between_layers() -> None:
    assert len(plan(model_type="yolos").uses) == 2
    (one,) = plan(model_type="yolos", use_mid_position_embeddings=False).uses
    assert values(one)["rows"] == 32 * 54 + 1 + 100


def test_a_picture_of_too_many_patches() -> None:
    place, detail = refused(model_type="vit", image_size=100_000_000, patch_size=1)
    assert place == "/image_size"
    assert "makes a table of 10000000000000001 rows" in detail


def test_a_table_without_rows_is_refused() -> None:
    assert refusal("bert", max_position_embeddings=0).parameter == "/max_position_embeddings"


def test_a_key_of_null_is_what_the_code_holds() -> None:
    bias = plan(model_type="t5", relative_attention_max_distance=None).uses[0]
    assert (values(bias)["max_distance"], bias.parameters["max_distance"].source) == (128, "class default")


# GGUF


def test_heads_of_a_header_that_differ_by_layer() -> None:
    bias = only(header("bloom", attention__head_count=[8, 16, 4]))
    # A bias of minus the distance (llama-kv-cache.cpp), by slopes of 8 octaves whatever is stated (models/bloom.cpp).
    assert values(bias) == {"heads": 16, "form": "symmetric", "arithmetic": "float32-powers"}
    assert "alibi_bias_max" not in values(only(header("bloom", attention__max_alibi_bias=16.0)))
    assert values(only(header("jais", attention__max_alibi_bias=16.0)))["alibi_bias_max"] == 16.0


@pytest.mark.parametrize(
    ("name", "masks"),
    [
        ("bloom", ["causal"]),
        ("jina-bert-v2", ["padding"]),
        ("gpt2", ["causal"]),
        ("bert", ["padding"]),
        ("t5", ["padding", "causal", "padding"]),
    ],
)
def test_masks_of_a_header_without_rotation(name: str, masks: list[str]) -> None:
    uses = resolve(header(name, context_length=64)).uses
    assert [use.addresses["mask"].href.split("?")[0] for use in uses] == [f"/v1/masks/{mask}" for mask in masks]
    seen = resolve(header(name, context_length=64, attention__causal=False)).uses[0]
    assert "/masks/padding" in seen.addresses["mask"].href


def test_an_encoder_has_no_decoder() -> None:
    assert [use.role for use in resolve(header("t5encoder")).uses] == ["encoder-attention"]
    roles = [use.role for use in resolve(header("t5")).uses]
    assert {"encoder-attention", "decoder-attention"} <= set(roles)


def test_the_divisors_of_a_header() -> None:
    given = only({**header("llama"), "rope_freqs.weight": [1, 1, 2, 8]})
    assert (values(given)["rope_type"], values(given)["divisors"]) == ("divisors", [1, 1, 2, 8])
    named = only({**header("llama"), "rope_freqs.sha256": "00"})
    assert "the file has a tensor rope_freqs: give its values as rope_freqs.weight, a list" in named.notes


def sectioned(name: str, sections: list[int], **keys: Any) -> Use:
    return only(header(name, embedding_length=512, rope__dimension_sections=sections, **keys))


def test_the_axes_of_a_header() -> None:
    config = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 1, "head_dim": 128}
    for name, kin, sections in (("qwen2vl", "qwen2_vl_text", [16, 24, 24]), ("qwen3vl", "qwen3_vl_text", [24, 20, 20])):
        found = sectioned(name, [*sections, 0])
        block = {"rope_type": "default", "mrope_section": sections, "rope_theta": 1e4}
        (theirs,) = resolve({"model_type": kin, **config, "rope_parameters": block}, Options(preset="llama.cpp")).uses
        ours, others = (
            answers(replace(use.addresses["axes"], href=re.sub("grid=[0-9,]*", grid, use.addresses["axes"].href)))
            for use, grid in (
                (found, "grid=2,3,4,1"),
                (theirs, "grid=2,3,4" if name == "qwen2vl" else "grid=2,3,4,1"),
            )
        )
        assert {key: array.tobytes() for key, array in ours.items()} == {
            key: array.tobytes() for key, array in others.items()
        }
    assert "axes" not in sectioned("qwen2vl", [16, 24, 24, 0], rope__scale_linear=2.0).addresses
    odd = sectioned("qwen2vl", [16, 24, 4, 0], rope__dimension_count=128)
    assert any("no address has these sections" in note for note in odd.notes)


def test_longrope_of_a_header_is_before_its_tensors() -> None:
    for keys in ({"rope__scaling__type": "longrope"}, {}):
        use = only(header("phi3", **keys))
        assert values(use)["rope_type"] == "default"
        assert any("rope_factors_short" in note for note in use.notes)
    louder = header("phi3", rope__scaling__attn_factor=1.25)
    use = only(louder)
    assert sources(use)["divisors"] == ("rewritten", "/phi3.rope.scaling.attn_factor")
    assert any("rope_factors_short" in note for note in use.notes)
    use = only({**louder, "rope_freqs.weight": [1, 1, 2, 8]})
    assert (values(use)["divisors"], values(use)["attention_factor"]) == ([1, 1, 2, 8], 1.25)
    assert not any("rope_factors_short" in note for note in use.notes)


def test_a_tensor_that_a_header_does_not_tell_of() -> None:
    words = "before the tensor rope_freqs, where the file has one"
    assert any(words in note for note in only(header("llama", rope__freq_base=5e5)).notes)
    assert not any(words in note for note in only(header("qwen2")).notes)
    vision = resolve(header("llama4", **{"vision.rope.freq_base": 1e4}))
    assert len(vision.notes) == 1


def test_yarn_of_a_header() -> None:
    scaled = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}
    place, detail = refused(**header("llama", **scaled))
    assert "original_max_position_embeddings is missing" in detail
    assert refused(**header("llama", rope__scaling__type="yarn"))[0] == "/llama.rope.scaling.factor"
    use = only(header("llama", **scaled, rope__scaling__original_context_length=2048, rope__scaling__attn_factor=0.8))
    with localcontext(prec=40):
        expected = Decimal("0.8") * (1 + Decimal("0.1") * Decimal(4).ln())
    assert values(use)["attention_factor"] == pytest.approx(float(expected), rel=1e-15)
    plain = only(header("llama", **scaled, rope__scaling__original_context_length=2048, rope__scaling__attn_factor=1.0))
    assert "attention_factor" not in values(plain)
    assert place


def test_the_softmax_factor_of_a_header() -> None:
    keys = {"rope__scaling__type": "yarn", "rope__scaling__factor": 40.0, "rope__dimension_count": 8}
    keys |= {"rope__scaling__yarn_log_multiplier": 0.0707, "rope__scaling__original_context_length": 4096}
    use = only(header("deepseek2", **keys))
    assert values(use)["attention_factor"] == 1.0
    with localcontext(prec=40):
        expected = (1 + Decimal("0.0707") * Decimal(40).ln()) ** 2
    assert use.facts["softmax_factor"] == pytest.approx(float(expected), rel=1e-14)
