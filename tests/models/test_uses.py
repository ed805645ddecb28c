"""Uses of the parts of models that are easily overlooked, each with numbers that a model gave."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from service.models import Address, Use, resolve
from service.models.families.axial import AXIAL
from tests.engine.answers import answer, only
from tests.models.plans import refusal

QUADRUPLE = {"hidden_size": 128, "num_attention_heads": 2, "image_size": 64, "patch_size": 16}


def uses(model_type: str, **keys: Any) -> tuple[Use, ...]:
    return resolve({"model_type": model_type, **keys}).uses


def query(address: Address) -> dict[str, str]:
    """The parameters of an address."""
    found = dict(parse_qsl(urlsplit(address.href).query))
    assert found.pop("revision")
    return found


@pytest.mark.parametrize("name", sorted(AXIAL))
def test_the_rotation_of_a_tower_is_that_of_its_tables(name: str) -> None:
    found = [use for use in uses(name) if use.encoding == "rope-axes"]
    for use in found:
        tables, rotation = (query(use.addresses[each]) for each in ("tables", "rotation"))
        assert {each: value for each, value in tables.items() if each != "dim"} == rotation
    assert found


# The first pairs of transformers' DINOv3ViTRopePositionEmbedding with QUADRUPLE: rows, then columns, at patch (1, 3).
DINOV3 = {0: (-1.570796371, 4.712388992), 1: (-1.177931070, 3.533793211), 15: (-0.020946907, 0.062840723)}


@pytest.mark.parametrize("name", ["dinov3_vit", "eomt_dinov3", "sapiens2"])
def test_queries_turn_by_the_centres_of_patches(name: str) -> None:
    [use] = [use for use in uses(name, **QUADRUPLE) if use.encoding == "rope-axes"]
    q = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    turned = only("apply/rope-axes", {"q": q}, **query(use.addresses["rotation"]))
    first, second = q[7].astype(float).reshape(2, 32)
    for pair, angles in DINOV3.items():
        for place, angle in zip((pair, 16 + pair), angles, strict=True):
            wanted = first[place] * np.cos(angle) - second[place] * np.sin(angle)
            assert turned[7, place] == pytest.approx(wanted, abs=2e-6)
    assert any("do not turn" in note for note in use.notes)


# Trained tensors of positions that transformers 5.24 makes of class defaults, by name, layers' numbers left out.
TRAINED = {
    "llama4_vision_model": [[1025, 768]],
    "mllama_vision_model": [[9, 5120], [9, 5120], [1025, 1280], [9, 5248000]],
    "git": [[1024, 768], [197, 768]],
    "cohere_asr": [[1024, 1024]],
    "tvp": [[512, 768], [512, 768], [100, 768], [100, 768]],
    "moonshine_streaming": [[4096, 320]],
    "sam_vision_model": [[1, 64, 64, 768], [27, 64], [27, 64], [127, 64], [127, 64]],
    "sam_hq_vision_model": [[1, 64, 64, 768], [27, 64], [27, 64], [127, 64], [127, 64]],
    "slanext_vision": [[1, 32, 32, 768], [27, 64], [27, 64], [63, 64], [63, 64]],
    "clvp": [[404, 1024], [608, 1024]],
    "detr": [[100, 256]],
    "table-transformer": [[100, 256]],
    "conditional_detr": [[300, 256]],
    "deformable_detr": [[4, 256], [300, 512]],
    "grounding-dino": [[4, 256], [900, 256], [512, 768]],
    "maskformer": [[100, 256]],
    "mask2former": [[3, 256], [3, 256], [100, 256]],
    "lw_detr": [[3900, 4]],
    "xclip_vision_model": [[50, 768], [1, 8, 512]],
}


@pytest.mark.parametrize("name", TRAINED)
def test_trained_tables_of_models_with_parts(name: str) -> None:
    wanted = TRAINED[name]
    found = [use.facts["table"] for use in uses(name) if use.encoding == "learned"]
    assert found[: len(wanted)] == wanted
    for use in uses(name):
        lookup = use.addresses.get("lookup")
        if lookup is not None:
            assert int(query(lookup)["length"]) <= np.prod(use.facts["table"][:-1])


def test_tables_of_parts_follow_their_keys() -> None:
    [table] = [use for use in uses("moonshine_streaming", encoder_config={"hidden_size": 96}) if "tensor" in use.facts]
    assert (table.role, table.facts["table"], table.parameters["dim"].key) == (
        "cross-attention",
        [4096, 96],
        "/encoder_config/hidden_size",
    )
    clvp = uses("clvp", decoder_config={"max_text_tokens": 9, "hidden_size": 64, "num_attention_heads": 4})[0]
    assert clvp.facts["table"] == [9, 64]
    assert refusal("clvp", decoder_config=[]).parameter == "/decoder_config"


def test_layers_of_sam_that_see_the_whole_picture() -> None:
    keys = {"num_hidden_layers": 5, "global_attn_indexes": [1, 4], "window_size": 3, "image_size": [64, 96]}
    found = [use for use in uses("sam_vision_model", **keys) if use.layers]
    assert [(use.layer_type, use.layers, use.facts["axis"], use.facts["table"]) for use in found] == [
        ("window_attention", (0, 2, 3), "rows", [5, 64]),
        ("window_attention", (0, 2, 3), "columns", [5, 64]),
        ("full_attention", (1, 4), "rows", [7, 64]),
        ("full_attention", (1, 4), "columns", [11, 64]),
    ]
    rows = only("biases/shaw", None, **query(found[2].addresses["rows"]))
    assert rows.tolist() == [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]]
    everywhere = [use for use in uses("sam_vision_model", window_size=0) if use.layers]
    assert {use.layers for use in everywhere} == {tuple(range(12))}
    assert not [use for use in uses("sam_vision_model", use_rel_pos=False) if use.layers]
    assert not [use for use in uses("sam_vision_model", use_abs_pos=False) if not use.layers]


def test_what_queries_of_detectors_are_told_of_places() -> None:
    """DETR adds the map's sinusoid to the keys; deformable ones read at points; a two-stage one begins with boxes."""
    keys = [(use.encoding, sorted(use.addresses)) for use in uses("detr") if use.role == "cross-attention"]
    assert keys == [("detr", ["mask", "tables"])]
    learned = uses("detr", position_embedding_type="learned")
    assert [use.encoding for use in learned if use.role == "cross-attention"] == ["learned"]
    assert [use.encoding for use in uses("conditional_detr") if use.role == "cross-attention"] == ["detr", "detr-boxes"]
    decoder = {False: "learned", True: "detr-boxes"}
    for stages, encoding in decoder.items():
        found = uses("deformable_detr", two_stage=stages)
        assert [use.encoding for use in found if use.role == "decoder-attention"] == [encoding]
    assert {use.encoding for use in uses("grounding-dino", embedding_init_target=False)} & {"learned"}
    assert not [use for use in uses("maskformer") if use.scope.startswith("/decoder_config")]


SECTIONED = ("qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text", "qwen2_5_omni_talker", "paddleocr_vl_text")


@pytest.mark.parametrize("name", SECTIONED)
def test_sections_that_the_class_assumes(name: str) -> None:
    """Without mrope_section the first 16 pairs are of time, 24 of rows, 24 of columns."""
    use = uses(name, hidden_size=1024, num_attention_heads=8, head_dim=128)[0]
    assert use.facts["mrope_section"] == [16, 24, 24]
    cosines = answer("encodings/rope-axes", None, **query(use.addresses["axes"]))["cos"]
    place, base = 1 * 12 + 2 * 4 + 3, use.parameters["base"].value
    for pair, position in ((15, 1), (16, 2), (39, 2), (40, 3), (63, 3)):
        assert cosines[place, pair] == pytest.approx(np.cos(position * base ** (-pair / 64)), abs=1e-6)
    stated = uses(name, head_dim=128, rope_scaling={"type": "mrope", "mrope_section": [32, 16, 16]})[0]
    assert stated.facts["mrope_section"] == [32, 16, 16]
    narrow = uses(name, hidden_size=64, num_attention_heads=4, head_dim=16)[0]
    assert "axes" not in narrow.addresses
    assert any("state mrope_section" in note for note in narrow.notes)
