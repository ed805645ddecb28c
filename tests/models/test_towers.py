"""Tables of vision towers: pictures of another size, channels that come first, and timm's Perception Encoder."""

from typing import Any

import numpy as np
import pytest

from service.engine.errors import Refusal
from service.models import Use, resolve
from tests.models.plans import answers, refusal, values


def tables(model_type: str, **keys: Any) -> list[Use]:
    return [use for use in resolve({"model_type": model_type, **keys}).uses if use.encoding == "learned"]


@pytest.mark.parametrize(
    ("model_type", "keys", "wanted"),
    [
        ("vit", {"image_size": 32, "patch_size": 8}, "method=bicubic&prefix=1&grid=8,8&old_grid=4,4"),
        ("vit", {"image_size": [32, 48], "patch_size": 16}, "method=bicubic&prefix=1&grid=4,6&old_grid=2,3"),
        ("deit", {"image_size": 32, "patch_size": 16}, "method=bicubic&prefix=2&grid=4,4&old_grid=2,2"),
        ("siglip_vision_model", {"image_size": 32, "patch_size": 16}, "method=bicubic&grid=4,4&old_grid=2,2"),
        ("dpt", {"image_size": 32, "patch_size": 16}, "method=bilinear&prefix=1&grid=4,4&old_grid=2,2"),
        (
            "qwen3_vl_vision",
            {"num_position_embeddings": 9},
            "method=bilinear&sampling=align-corners&grid=6,6&old_grid=3,3",
        ),
        (
            "kimi_k25_vision",
            {"pos_emb_height": 3, "pos_emb_width": 5},
            "method=bicubic&grid=6,10&old_grid=3,5",
        ),
        (
            "swin",
            {"use_absolute_embeddings": True, "image_size": 16, "patch_size": 4},
            "method=bicubic&grid=8,8&old_grid=4,4",
        ),
    ],
)
def test_a_picture_of_another_size(model_type: str, keys: dict[str, Any], wanted: str) -> None:
    [use] = [use for use in tables(model_type, **keys) if "resample" in use.addresses]
    assert use.addresses["resample"].href == f"/v1/learned/resample?{wanted}&revision=1"
    assert use.addresses["resample"].method == "POST"
    assert any("other sizes by grid=" in note for note in use.notes)


def test_what_no_address_answers() -> None:
    assert any("refuses a picture of another size" in note for note in tables("sam_vision_model")[0].notes)
    assert any("take the row of their place" in note for note in tables("idefics3_vision")[0].notes)
    assert any("refuses a picture of another size" in note for note in tables("aimv2_vision_model")[0].notes)
    assert "resample" not in tables("bert")[0].addresses


def test_class_tokens_of_pixio() -> None:
    [use] = tables("pixio", image_size=32, patch_size=16, n_cls_tokens=3)
    assert use.facts["table"] == [1, 7, 1280]


def test_tables_of_sam_2_whose_channels_come_first() -> None:
    background, windows = tables("sam2_hiera_det_model", window_positional_embedding_background_size=[5, 6])
    assert background.facts["table"] == [1, 96, 5, 6]
    assert "old_grid=5,6" in background.addresses["tables"].href
    assert windows.facts["table"] == [1, 96, 8, 8]


def test_the_perception_encoder_by_its_name() -> None:
    table, turns = resolve({"model_type": "timm_wrapper", "architecture": "vit_pe_core_large_patch14_336.fb"}).uses
    assert table.facts["table"] == [577, 1024]
    assert (values(turns)["dim"], values(turns)["grid"], values(turns)["class_token"]) == (64, [24, 24], "first")
    found = answers(turns.addresses["tables"])["cos"]
    place, pair = 1 + 5 * 24 + 7, 3  # row 5, column 7, counted from 1; columns turn the first half of the pairs
    assert found[place, 2 * pair] == pytest.approx(np.cos(8 * 10_000 ** (-pair / 16)), abs=1e-6)
    assert found[place, 2 * (16 + pair)] == pytest.approx(np.cos(6 * 10_000 ** (-pair / 16)), abs=1e-6)
    assert (found[0] == 1).all()


def test_arguments_of_timm_change_what_the_name_says() -> None:
    named = {"model_type": "timm_wrapper", "architecture": "vit_pe_lang_gigantic_patch14_448"}
    table, turns = resolve({**named, "model_args": {"img_size": [448, 224], "ref_feat_shape": [32, 32]}}).uses
    assert table.facts["table"] == [512, 1536]
    assert (values(turns)["grid"], values(turns)["base_size"]) == ([32, 16], [32, 32])
    assert values(turns)["arithmetic"] == "exact"
    with_token = resolve({**named, "model_args": {"class_token": True}}).uses[0]
    assert with_token.facts["table"] == [1025, 1536]


@pytest.mark.parametrize(
    ("args", "place"),
    [
        ({"img_size": [1, 2, 3]}, "/model_args/img_size"),
        ({"img_size": "big"}, "/model_args/img_size"),
        ({"num_heads": 0}, "/model_args/num_heads"),
        ({"img_size": 8}, "/architecture"),
        ({"class_token": "yes"}, "/model_args/class_token"),
        ([], "/model_args"),
    ],
)
def test_arguments_of_timm_that_are_none(args: Any, place: str) -> None:
    found = refusal("timm_wrapper", architecture="vit_pe_core_tiny_patch16_384", model_args=args)
    assert found.parameter == place


def atoms(**keys: Any) -> dict[str, Any]:
    return {"model_type": "esmfold2", "atom_encoder": {"hidden_size": 96, "num_attention_heads": 4, **keys}}


def test_atoms_of_esmfold_2() -> None:
    """24 channels: 2 pairs an axis by 20^(-j/2), 5 of residues by 10000^(-j/5), one pair that does not turn."""
    [use] = [use for use in resolve(atoms(num_uid_rope_pairs=5)).uses if use.scope == "/atom_encoder"]
    found = answers(use.addresses["frequencies"])["frequencies"].ravel()
    spatial, residues = [20 ** (-j / 2) for j in range(2)], [10_000 ** (-j / 5) for j in range(5)]
    assert found == pytest.approx([*spatial * 3, *residues, 0.0], rel=1e-6)
    assert use.addresses["tables"].method == "POST"
    [relative] = [use for use in resolve({"model_type": "esmfold2"}).uses if use.encoding == "shaw"]
    assert (values(relative)["left"], relative.facts["rows"]) == (32, 66)


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"num_uid_rope_pairs": 50}, "/atom_encoder/num_spatial_rope_pairs_per_axis"),
        ({"num_spatial_rope_pairs_per_axis": 0}, "/atom_encoder/num_spatial_rope_pairs_per_axis"),
        ({"spatial_rope_base_frequency": 0.0, "num_uid_rope_pairs": 5}, "/atom_encoder/spatial_rope_base_frequency"),
        ({"uid_rope_base_frequency": 1e200, "num_uid_rope_pairs": 5}, "/atom_encoder/uid_rope_base_frequency"),
        ({"head_dim": 7}, "/atom_encoder/num_spatial_rope_pairs_per_axis"),
    ],
)
def test_atoms_that_do_not_fit(keys: dict[str, Any], place: str) -> None:
    with pytest.raises(Refusal) as found:
        resolve(atoms(**keys))
    assert found.value.faults[0].parameter == place


def test_the_sinusoids_of_xlnet() -> None:
    [plain] = resolve({"model_type": "xlnet", "attn_type": "uni"}).uses
    assert (values(plain)["span"], values(plain)["arithmetic"]) == ("xlnet-uni", "float32")
    [clamped] = resolve({"model_type": "xlnet", "clamp_len": 7, "bi_data": True}).uses
    assert values(clamped)["clamp_len"] == 7
    assert "direction=backward" in clamped.addresses["second_half_of_the_batch"].href
    assert refusal("xlnet", attn_type="tri").parameter == "/attn_type"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mobilevit", "attention that knows no order"),
        ("mobilevitv2", "attention that knows no order"),
        ("poolformer", "convolutions and pooling"),
        ("convnext", "convolutions: no positional encoding"),
    ],
)
def test_what_towers_without_positions_have_instead(name: str, words: str) -> None:
    (use,) = resolve({"model_type": name}).uses
    assert use.encoding == "none"
    assert any(words in note for note in use.notes)
