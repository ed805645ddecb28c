"""Every known model type from its class defaults alone, and the families without RoPE in their variants."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.engine.errors import Refusal
from service.models.context import Options
from service.models.known import names
from service.models.plan import Use
from service.models.resolve import resolve
from tests.clients import Client
from tests.models.fixtures import resolved


def uses(config: Mapping[str, Any]) -> tuple[Use, ...]:
    return resolve(config, Options()).uses


def test_every_type_is_answered_or_refused_by_a_key() -> None:
    """Each address of each plan was tried by the engine when the plan was made."""
    answered, refused = 0, {}
    for name in names():
        try:
            found = uses({"model_type": name})
        except Refusal as refusal:
            refused[name] = refusal.faults[0].parameter
            continue
        answered += 1
        assert found, name
        for use in found:
            assert use.encoding in ("none", "unknown", "convolution", "relative") or use.addresses, (name, use)
            assert use.notes or use.encoding not in ("none", "unknown"), name
    assert all(pointer.startswith("/") for pointer in refused.values()), refused
    assert answered >= 0.95 * len(names())


@pytest.mark.parametrize(
    "name", ["bert", "m2m_100", "t5", "bloom", "deberta-v2", "swinv2", "dinov3_vit", "vit_mae", "detr"]
)
def test_addresses_answer(direct: Client, name: str) -> None:
    given = {"relative_attention": True, "position_buckets": 256} if name == "deberta-v2" else {}
    for use in resolved(direct, {"model_type": name, **given})["uses"]:
        for address in use["addresses"].values():
            if address["method"] == "GET":
                assert direct.head(address["href"]).status_code == 200, address


VARIANTS: Mapping[str, tuple[Mapping[str, Any], str, Mapping[str, Any]]] = {
    "patchtst random": (
        {"model_type": "patchtst", "positional_encoding_type": "random"},
        "learned",
        {"table": [32, 128]},
    ),
    "patchtsmixer off": ({"model_type": "patchtsmixer", "use_positional_encoding": False}, "none", {}),
    "mpt off": ({"model_type": "mpt", "attn_config": {"alibi": False}}, "none", {}),
    "reformer whole": ({"model_type": "reformer", "axial_pos_embds": False}, "learned", {"table": [4096, 256]}),
    "perceiver Fourier": (
        {"model_type": "perceiver", "architectures": ["PerceiverForImageClassificationFourier"]},
        "fourier",
        {"bands": 64},
    ),
    "beit added": (
        {"model_type": "beit", "use_absolute_position_embeddings": True},
        "learned",
        {"table": [197, 768]},
    ),
    "swin added": ({"model_type": "swin", "use_absolute_embeddings": True}, "learned", {"table": [3136, 96]}),
    "swinv2 added": ({"model_type": "swinv2", "use_absolute_embeddings": True}, "learned", {"table": [3136, 96]}),
    "yolos between": (
        {"model_type": "yolos", "use_mid_position_embeddings": True, "num_detection_tokens": 7},
        "learned",
        {"table": [1736, 768]},
    ),
    "deberta v2 clipped": (
        {"model_type": "deberta-v2", "relative_attention": True, "max_position_embeddings": 70},
        "deberta",
        {"table": [140, 1536], "pos_att_type": []},
    ),
    "dab-detr scaled": ({"model_type": "dab-detr", "sine_position_embedding_scale": 3.0}, "detr", {"scale": 3.0}),
    "levit": ({"model_type": "levit"}, "swin", {"table": [4, 196]}),
    "pvt": ({"model_type": "pvt"}, "learned", {"table": [3136, 64]}),
    "vivit": ({"model_type": "vivit"}, "learned", {"table": [3137, 768]}),
    "spectrogram": ({"model_type": "audio-spectrogram-transformer"}, "learned", {"table": [1214, 768]}),
    "gguf mpt": (
        {"general.architecture": "mpt", "mpt.attention.head_count": 6, "mpt.attention.max_alibi_bias": 4.0},
        "alibi",
        {},
    ),
    "gguf t5": (
        {"general.architecture": "t5", "t5.attention.head_count": 6, "t5.attention.relative_buckets_count": 16},
        "t5",
        {"table": [16, 6]},
    ),
    "gguf mamba": ({"general.architecture": "mamba"}, "none", {}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant(name: str) -> None:
    config, encoding, facts = VARIANTS[name]
    found = [use for use in uses(config) if use.encoding == encoding]
    assert found
    assert any({key: use.facts.get(key) for key in facts} == dict(facts) for use in found), [use.facts for use in found]


REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "no patch": ({"model_type": "vit", "image_size": 8}, "/image_size"),
    "no size": ({"model_type": "vit", "image_size": None}, "/image_size"),
    "too many sizes": ({"model_type": "vit", "image_size": [1] * 65}, "/image_size"),
    "text for a size": ({"model_type": "bert", "max_position_embeddings": "many"}, "/max_position_embeddings"),
    "axial product": ({"model_type": "reformer", "axial_pos_shape": [3, 5]}, "/axial_pos_shape"),
    "axial sum": ({"model_type": "reformer", "axial_pos_embds_dim": [1, 2]}, "/axial_pos_embds_dim"),
    "patch longer than the series": ({"model_type": "patchtst", "context_length": 1}, "/context_length"),
    "stages of Swin": ({"model_type": "swin", "num_heads": [1, 2]}, "/num_heads"),
    "trained windows": ({"model_type": "swinv2", "pretrained_window_sizes": [1]}, "/pretrained_window_sizes"),
    "stages of PVT": ({"model_type": "pvt", "patch_sizes": [4]}, "/patch_sizes"),
    "a stage without patches": ({"model_type": "pvt", "image_size": 16}, "/image_size"),
    "LeViT without patches": ({"model_type": "levit", "image_size": 8}, "/image_size"),
    "kinds of products": (
        {"model_type": "deberta", "relative_attention": True, "pos_att_type": "c2x"},
        "/pos_att_type",
    ),
    "heads of a tower": ({"model_type": "qwen2_vl_vision", "embed_dim": 24, "num_heads": 12}, "/embed_dim"),
    "a tower that is scaled": (
        {"model_type": "pixtral", "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
        "/rope_parameters/rope_type",
    ),
    "GGUF without a name": ({"gguf": {}}, "/gguf/general.architecture"),
    "GGUF of no kind": ({"general.architecture": "qwen22"}, "/general.architecture"),
    "GGUF name of a kind": ({"general.architecture": 7}, "/general.architecture"),
    "GGUF without width": ({"general.architecture": "llama"}, "/llama.rope.dimension_count"),
    "GGUF widths": (
        {"general.architecture": "llama", "llama.embedding_length": 10, "llama.attention.head_count": 3},
        "/llama.attention.head_count",
    ),
    "GGUF sections": (
        {"general.architecture": "qwen35", "qwen35.rope.dimension_sections": 5, "qwen35.attention.key_length": 64},
        "/qwen35.rope.dimension_sections",
    ),
    "GGUF scaling": (
        {"general.architecture": "llama", "llama.rope.dimension_count": 8, "llama.rope.scaling.type": "ntk"},
        "/llama.rope.scaling.type",
    ),
    "GGUF yarn": (
        {"general.architecture": "llama", "llama.rope.dimension_count": 8, "llama.rope.scaling.type": "yarn"},
        "/llama.rope.scaling.factor",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_key(name: str) -> None:
    config, pointer = REFUSED[name]
    with pytest.raises(Refusal) as raised:
        uses(config)
    assert raised.value.faults[0].parameter == pointer
