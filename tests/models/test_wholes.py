"""Models of parts whose classes give a part another default, other masks or tables of their own."""

from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models import Use, resolve
from service.models.plan import Value
from tests.models.plans import plan, refusal, said


def within(model_type: str, scope: str, **keys: Any) -> list[Use]:
    return [use for use in plan(model_type, **keys).uses if use.scope == scope]


def test_the_protein_encoder_of_evolla_turns_or_has_a_table() -> None:
    [use] = within("evolla", "/protein_encoder_config")
    assert (use.encoding, use.facts["rotary_dim"], use.layers) == ("rope", 64, tuple(range(33)))
    assert use.addresses["mask"].href.startswith("/v1/masks/padding")
    [use] = within("evolla", "/protein_encoder_config", protein_encoder_config={"position_embedding_type": "absolute"})
    assert (use.encoding, use.facts["table"], use.facts["first_row"]) == ("learned", [1026, 1280], 2)


def test_the_backbone_that_rf_detr_builds_of_nothing() -> None:
    [use] = within("rf_detr", "/backbone_config")
    assert (use.model_type, use.facts["table"]) == ("rf_detr_dinov2", [1370, 384])


def test_pi0_sees_both_ways() -> None:
    [actions] = within("pi0", "/dit_config")
    [prompt] = within("pi0", "/vlm_config/text_config")
    for use in (actions, prompt):
        assert use.addresses["mask"].href.startswith("/v1/masks/padding")
    assert said(actions, "the state does not see the actions")
    assert said(prompt, "counted from 0")
    assert "offset" not in prompt.parameters


def test_the_windows_of_granites_projectors() -> None:
    vision = {"model_type": "siglip_vision_model", "hidden_size": 96, "num_attention_heads": 4}
    [use] = within("granite4_vision", "", downsample_rate="3/8", vision_config=vision)
    assert (use.encoding, use.facts["table"], use.parameters["rows"].key) == ("learned", [64, 96], "/downsample_rate")


@pytest.mark.parametrize("rate", [None, "half", "4/0", "-1/2"])
def test_a_rate_that_is_none(rate: str | None) -> None:
    fault = refusal("granite4_vision", downsample_rate=rate)
    assert fault.parameter == "/downsample_rate"


@pytest.mark.parametrize(
    ("model_type", "words"),
    [
        ("ovis2_vision", "refuses a picture of another size"),
        ("muse_spark_vision", "counts as zeros"),
        ("minicpm_ocr_vision", "the row of their place"),
        ("vivit", "refuses a picture of another size"),
        ("yolos", "(detection tokens) are resized"),
        ("vilt", "gets zeros"),
    ],
)
def test_what_a_class_does_with_another_picture(model_type: str, words: str) -> None:
    assert any(said(use, words) for use in resolve({"model_type": model_type}).uses)


def test_a_clip_of_one_tubelet_is_resized_by_nothing_that_is_stated() -> None:
    [use] = resolve({"model_type": "vivit", "num_frames": 2}).uses
    assert not said(use, "another size")


def test_how_hunyuan_resizes_is_in_the_file() -> None:
    table = resolve({"model_type": "hunyuan_vl_vision", "interpolate_mode": "bicubic"}).uses[0]
    assert "method=bicubic&prefix=1&grid=256,256&old_grid=128,128" in table.addresses["resample"].href
    assert "method=bilinear" in resolve({"model_type": "hunyuan_vl_vision"}).uses[0].addresses["resample"].href
    with pytest.raises(Refusal) as raised:
        resolve({"model_type": "hunyuan_vl_vision", "interpolate_mode": "area"})
    assert raised.value.faults[0].parameter == "/interpolate_mode"


def test_a_grid_that_follows_from_the_file() -> None:
    [use] = resolve({"model_type": "aimv2_vision_model", "is_native": True, "image_size": [28, 70]}).uses
    assert use.parameters["grid"] == Value([2, 5], "rewritten", "/image_size")


def test_keypoints_turn_by_frequencies_of_the_checkpoint() -> None:
    use = next(use for use in resolve({"model_type": "lightglue", "descriptor_dim": 96}).uses if use.scope == "")
    assert (use.encoding, use.facts["table"], use.parameters["pairing"].value) == ("rope-mixed", [12, 2], "interleaved")
    assert {address.method for address in use.addresses.values()} == {"POST"}
    assert said(resolve({"model_type": "superglue"}).uses[0], "a small network")
