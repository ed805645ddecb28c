"""Learned tables of more models than `tests/golden/learned.npz` holds, against the installed libraries."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import library
from tests.golden.make_learned import LONGER, NEW, SQUARE, TABLE, TOKENS, VIT, WIDE, Build, modeling, timm
from tests.oracles.answers import Array, asked, posted
from tests.oracles.test_learned_tables import INITIAL, LOOKUP, RESAMPLE, close_to
from tests.oracles.usages import proves

pytestmark = pytest.mark.oracle

Resize = Callable[[Any], Any]
PIXELS = (10 * NEW[0], 10 * NEW[1])
PAIRS = frozenset({"internvl", "videoprism"})
HELD_IN_EMBEDDINGS = frozenset({"clip", "step3p7", "unlimited_ocr"})


def model_module(model: str) -> Any:
    """The module of a model, which does not always have its folder's name."""
    folder, _, name = model.partition("/")
    return library(f"transformers.models.{folder}.modeling_{name or folder}")


def embeddings(model: str, name: str) -> Resize:
    """A model's own method, on an object that has the table and nothing else it could differ by."""

    def resize(table: Any) -> Any:
        prefix = len(table) - 16
        # Some hold it as a parameter, others in an embedding; some know patches by one side, others by two.
        held = table[None]
        module = SimpleNamespace(
            position_embeddings=held,
            position_embedding=SimpleNamespace(weight=table) if model in HELD_IN_EMBEDDINGS else held,
            patch_size=(10, 10) if model in PAIRS else 10,
            patch_stride=(10, 10),
            patch_embeddings=SimpleNamespace(patch_size=(10, 10)),
            class_embedding=table[:1],
            config=SimpleNamespace(patch_size=10),
            n_cls_tokens=prefix,
        )
        tokens = library("torch").zeros(1, prefix + NEW[0] * NEW[1], 8)
        tables = (held,) if model == "hiera" else ()
        return getattr(model_module(model), name).interpolate_pos_encoding(module, tokens, *tables, *PIXELS)[0]

    return resize


def seggpt(table: Any) -> Any:
    module = SimpleNamespace(position_embeddings=table[None])
    cells = modeling("seggpt").SegGptEmbeddings.interpolate_pos_encoding(module, *NEW)
    return library("torch").cat((table[:1], cells.flatten(0, 2)))


def perceiver(table: Any) -> Any:
    module = SimpleNamespace(_num_channels=8)
    return modeling("perceiver").PerceiverTrainablePositionEncoding.interpolate_pos_encoding(module, table, *NEW)


def gathered(table: Any) -> Any:
    torch = library("torch")
    weigh = modeling("kimi_k25").get_vision_interpolation_indices_and_weights
    places, weights = weigh(torch.tensor([[1, *NEW]]), 4, mode="bicubic", align_corners=False)
    return (table[places] * weights[:, :, None]).sum(1)


def channels_last(model: str, name: str) -> Resize:
    def resize(table: Any) -> Any:
        module = SimpleNamespace(pos_embed=table.reshape(1, 4, 4, 8))
        return getattr(modeling(model), name).interpolate_pos_encoding(module, *NEW).flatten(0, 2)

    return resize


def timm_channels_last(table: Any) -> Any:
    return timm().resample_abs_pos_embed_nhwc(table.reshape(1, 4, 4, 8), list(NEW)).flatten(0, 2)


def cosmos(table: Any) -> Any:
    resize = modeling("cosmos3_edge").Cosmos3EdgeVisionEmbeddings.resize_positional_embeddings
    return resize(table.reshape(4, 4, 8), library("torch").tensor([[1, *NEW]]), 1)


RESIZED: dict[str, dict[str, Resize]] = {
    "vit": {
        "vit": embeddings("vit", "ViTEmbeddings"),
        "clip": embeddings("clip", "CLIPVisionEmbeddings"),
        "blip": embeddings("blip", "BlipVisionEmbeddings"),
        "blip-2": embeddings("blip_2", "Blip2VisionEmbeddings"),
        "msn": embeddings("vit_msn", "ViTMSNEmbeddings"),
        "beit": embeddings("beit", "BeitEmbeddings"),
        "data2vec": embeddings("data2vec/data2vec_vision", "Data2VecVisionEmbeddings"),
        "flava": embeddings("flava", "FlavaImageEmbeddings"),
        "internvl": embeddings("internvl", "InternVLVisionEmbeddings"),
        "dinov2": embeddings("dinov2", "Dinov2Embeddings"),
        "pixio": embeddings("pixio", "PixioEmbeddings"),
        "seggpt": seggpt,
    },
    "siglip": {
        "swin": embeddings("swin", "SwinEmbeddings"),
        "ijepa": embeddings("ijepa", "IJepaEmbeddings"),
        "groupvit": embeddings("groupvit", "GroupViTVisionEmbeddings"),
        "hiera": embeddings("hiera", "HieraEmbeddings"),
        "perceiver": perceiver,
        "kimi-k2.5": gathered,
    },
    "timm": {
        "rf-detr": embeddings("rf_detr", "RfDetrDinov2Embeddings"),
        "unlimited-ocr": embeddings("unlimited_ocr", "UnlimitedOcrVisionEmbeddings"),
    },
    "timm-nhwc": {
        "timm": timm_channels_last,
        "deepseek-ocr2": channels_last("deepseek_ocr2", "DeepseekOcr2SamVisionEncoder"),
        "unlimited-ocr": channels_last("unlimited_ocr", "UnlimitedOcrSamVisionEncoder"),
    },
    "step3p7": {"step3p7": embeddings("step3p7", "Step3p7VisionEmbeddings")},
    "siglip2": {"videoprism": embeddings("videoprism", "VideoPrismSpatialEmbeddings"), "cosmos": cosmos},
    "tipsv2": {"tipsv2": embeddings("tipsv2", "Tipsv2VisionEmbeddings")},
}


@proves("learned/resample", RESIZED)
def test_tables_are_resized_as_these_models_do(direct: Client, usage: Usage, oracle: dict[str, Resize]) -> None:
    table = SQUARE[: 16 + int(usage.parameters.get("prefix", "0"))]
    ours = posted(direct, RESAMPLE, {"x": table}, grid=NEW, **usage.parameters)["x"]
    for resize in oracle.values():
        close_to(ours, np.asarray(resize(library("torch").from_numpy(table))), table)


@proves("learned/resample", {"VideoPrism (time), with length=": "videoprism"})
def test_frames_are_resized_as_these_models_do(direct: Client, usage: Usage, oracle: str) -> None:
    torch = library("torch")
    embedding = modeling(oracle).VideoPrismTemporalEmbeddings
    for length in (5, LONGER):
        module = SimpleNamespace(position_embeddings=torch.from_numpy(SQUARE)[None])
        theirs = embedding.interpolate_pos_encoding(module, torch.zeros(1, length, 8))[0]
        ours = posted(direct, RESAMPLE, {"x": SQUARE}, length=length, **usage.parameters)["x"]
        close_to(ours, np.asarray(theirs), SQUARE)


@proves(
    "learned/resample",
    {
        "hunyuan-vl": ("hunyuan_vl", "HunYuanVLVisionPatchEmbed"),
        "hy-v4-vl": ("hy_v4_vl", "HYV4VLVisionPatchEmbed"),
    },
)
def test_hunyuan_drops_the_first_row(direct: Client, usage: Usage, oracle: tuple[str, str]) -> None:
    torch = library("torch")
    table = VIT.astype(np.float32)
    module = SimpleNamespace(
        position_embedding=SimpleNamespace(weight=torch.from_numpy(table)),
        position_edge=14,
        embed_dim=3,
        config=SimpleNamespace(interpolate_mode="bilinear"),
    )
    model, name = oracle
    resize = getattr(modeling(model), name).interpolate_pos_encoding
    ours = posted(direct, RESAMPLE, {"x": table}, grid=WIDE, **usage.parameters)["x"]
    close_to(ours[1:], np.asarray(resize(module, torch.zeros(1), *WIDE)[0]), table)


def _whisper(module: Any, length: int, cached: int) -> Any:
    return module(library("torch").zeros(1, length), cached)


def _by_shape(module: Any, length: int, cached: int) -> Any:
    return module((1, length), cached)


@proves(
    "learned/lookup",
    {
        "bert": {
            ("blenderbot", "BlenderbotLearnedPositionalEmbedding"): _by_shape,
            ("led", "LEDLearnedPositionalEmbedding"): _by_shape,
            ("whisper", "WhisperPositionalEmbedding"): _whisper,
        }
    },
)
def test_rows_come_after_those_that_are_cached(
    direct: Client, usage: Usage, oracle: dict[tuple[str, str], Any]
) -> None:
    ours = posted(direct, LOOKUP, {"x": TABLE}, length=5, offset=7, **usage.parameters)["encoding"]
    for (model, name), look_up in oracle.items():
        module = getattr(modeling(model), name)(*TABLE.shape)
        module.weight.data = library("torch").from_numpy(TABLE)
        np.testing.assert_array_equal(ours, look_up(module, 5, 7).detach().numpy())


def _siglip() -> Any:
    t = library("transformers")
    config = t.SiglipVisionConfig(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=224, patch_size=16
    )
    return t.SiglipVisionModel(config).get_parameter("embeddings.position_embedding.weight")


def _clip_class() -> Any:
    t = library("transformers")
    # Wide, as it is one row.
    config = t.CLIPVisionConfig(hidden_size=8192, num_hidden_layers=0, num_attention_heads=2, image_size=32)
    return t.CLIPVisionModel(config).get_parameter("embeddings.class_embedding")[None]


def _perceiver() -> Any:
    perceiver = modeling("perceiver")
    module = perceiver.PerceiverTrainablePositionEncoding(index_dims=10000, num_channels=64)
    model = perceiver.PerceiverPreTrainedModel.__new__(perceiver.PerceiverPreTrainedModel)
    vars(model)["config"] = library("transformers").PerceiverConfig()
    model._init_weights(module)
    return module.position_embeddings


def _x_transformers() -> Any:
    module = library("x_transformers.x_transformers").AbsolutePositionalEmbedding(64, 1024)
    return module(library("torch").zeros(1, 1024))


@proves(
    "encodings/learned",
    {"siglip": _siglip, "clip-class": _clip_class, "perceiver": _perceiver, "x-transformers": _x_transformers},
)
def test_these_tables_begin_as_the_models_do(direct: Client, usage: Usage, oracle: Build) -> None:
    library("torch").manual_seed(7)
    theirs: Array = oracle().detach().numpy()
    ours = asked(direct, INITIAL, dim=theirs.shape[1], seed=7, dtype="float64", **usage.parameters)["encoding"]
    assert ours.shape == theirs.shape
    # Kolmogorov and Smirnov: two samples of n each come apart by 1.95 sqrt(2 / n) once in a thousand times.
    found = np.linspace(theirs.min(), theirs.max(), 999)
    ours, theirs = (np.searchsorted(np.sort(each, axis=None), found) / each.size for each in (ours, theirs))
    assert np.abs(ours - theirs).max() < 1.95 * np.sqrt(2 / oracle().numel())


def _rows_after_padding(model: str, name: str = "") -> Callable[[Any], Any]:
    """Positions by a model's own rule: a function of its module, or a method of its embeddings."""

    def places(tokens: Any) -> Any:
        module = model_module(model)
        owner = getattr(module, name) if name else module
        static = owner.create_position_ids_from_input_ids
        return static(None, tokens, 1) if name == "LayoutLMv3TextEmbeddings" else static(tokens, 1)

    return places


@proves(
    "learned/lookup",
    {
        "roberta": [
            _rows_after_padding("camembert", "CamembertEmbeddings"),
            _rows_after_padding("longformer"),
            _rows_after_padding("mpnet"),
            _rows_after_padding("esm"),
            _rows_after_padding("layoutlmv3", "LayoutLMv3TextEmbeddings"),
            _rows_after_padding("data2vec/data2vec_text", "Data2VecTextEmbeddings"),
        ]
    },
)
def test_rows_begin_after_the_padding_row(direct: Client, usage: Usage, oracle: list[Callable[[Any], Any]]) -> None:
    # Token 1 is padding, and any other is none.
    tokens = library("torch").from_numpy(np.where(TOKENS == 1, 5, 1))
    ours = posted(direct, LOOKUP, {"x": TABLE, "attention_mask": TOKENS}, **usage.parameters)["encoding"]
    for places in oracle:
        np.testing.assert_array_equal(ours, TABLE[np.asarray(places(tokens))])


def test_prophetnets_predicting_stream_has_two_halves(direct: Client) -> None:
    """As `omissions.py` says."""
    positions = library("torch").arange(1, 301)[None]
    _, theirs = modeling("prophetnet").compute_all_stream_relative_buckets(32, 128, positions)
    halves = [
        asked(direct, "/v1/biases/t5-buckets", length=300, direction="causal", offset=offset)["index"]
        for offset in (1, 0)
    ]
    np.testing.assert_array_equal(np.concatenate(halves, -1), np.asarray(theirs)[0])
