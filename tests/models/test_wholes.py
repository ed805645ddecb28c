"""Models of parts whose classes give a part another default, other masks or tables of their own."""

import pytest

from service.models import Use
from tests.models.plans import plan, refusal, said


def within(model_type: str, scope: str, **keys: object) -> list[Use]:
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
