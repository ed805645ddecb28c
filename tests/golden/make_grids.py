"""Sinusoidal tables on grids, frozen: `python -m tests.golden.make_grids`.

Each case is `name.table`, as the library answers (flattened to rows of channels where that is a reshape); `CASES` says
what the library and the service are asked. `MASK` (batch, height, width) goes with the DETR cases that take it,
`BOXES` (batch, box, 4) with those of its decoders.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save

SIDES = (4, 6)
MASK: NDArray[np.bool_] = np.ones((3, *SIDES), np.bool_)
MASK[1, 3:] = MASK[1, :, 5:] = False
MASK[2] = np.random.default_rng(5).random(SIDES) < 0.6  # holes, and lines without a pixel

BOXES: NDArray[np.float32] = np.random.default_rng(6).random((2, 3, 4)).astype(np.float32)
LOGITS: NDArray[np.float32] = np.array([[[-200.0, 0.0, 200.0, -200.0], [200.0, 200.0, 0.0, 0.0]]], np.float32)
SHARES = [[[0.0, 0.5, 1.0, 0.0], [1.0, 1.0, 0.5, 0.5]]]  # their sigmoids, exactly


@dataclass(frozen=True, slots=True)
class Case:
    """A call of a library, and what the service is asked for beside the usage's own parameters."""

    make: Callable[[], Any]
    query: dict[str, str] = field(default_factory=lambda: {"grid": "4,6", "dim": "24"})
    exact_angles: bool = False  # angles in float64, so that only the last rounding differs


def transformers(model: str) -> Any:
    return library(f"transformers.models.{model}.modeling_{model}")


def diffusers() -> Any:
    return library("diffusers.models.embeddings")


@cache
def timm() -> Any:
    """timm's sincos module alone: the package itself would import torchvision."""
    library("torch")  # here, for what is imported within the patch is forgotten after it, and torch loads only once
    spec = find_spec("timm")
    assert spec is not None
    assert spec.submodule_search_locations
    (root,) = spec.submodule_search_locations
    with patch.dict(sys.modules):
        for name, folder in (("timm", root), ("timm.layers", f"{root}/layers")):
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = [folder]
        return library("timm.layers.pos_embed_sincos")


def mae() -> Any:
    """The frozen embeddings of a small model; its images are square."""
    config = library("transformers").ViTMAEConfig(hidden_size=24, num_attention_heads=2, image_size=40, patch_size=8)
    embeddings = transformers("vit_mae").ViTMAEEmbeddings(config)
    embeddings.initialize_weights()
    return embeddings.position_embeddings.detach()[0]


def rt_detr(model: str, name: str) -> Any:
    torch = library("torch")
    return getattr(transformers(model), name)(24)(width=6, height=4, device=None, dtype=torch.float32)[0]


def stable_diffusion_3() -> Any:
    """SD3's own sizes; a picture of 8 x 12 latents, so of 4 x 6 patches."""
    embed = diffusers().PatchEmbed(
        height=128, width=128, patch_size=2, in_channels=1, embed_dim=24, pos_embed_max_size=192
    )
    return embed.cropped_pos_embed(8, 12)[0]


def cogvideox() -> Any:
    embed = diffusers().CogVideoXPatchEmbed(embed_dim=32, in_channels=1, text_embed_dim=4, max_text_seq_length=0)
    return embed._get_positional_embeddings(8, 12, 9)[0]


def timm_table(**choices: bool) -> Any:
    return timm().build_sincos2d_pos_embed(list(SIDES), 24, **choices)


def encodings(axes: int, channels: int) -> Any:
    module = getattr(library("positional_encodings.torch_encodings"), f"PositionalEncoding{axes}D")
    return module(channels)(library("torch").zeros(1, *(3, *SIDES)[3 - axes :], channels))[0]


def encodings_permuted(axes: int, channels: int) -> Any:
    module = getattr(library("positional_encodings.torch_encodings"), f"PositionalEncodingPermute{axes}D")
    return module(channels)(library("torch").zeros(1, channels, *(3, *SIDES)[3 - axes :]))[0]


def detr_module() -> Any:
    """DETR's own answer, (batch, channel, height, width)."""
    torch = library("torch")
    module = transformers("detr").DetrSinePositionEmbedding(12, normalize=True)
    return module(torch.Size((3, 24, *SIDES)), "cpu", torch.float32, torch.tensor(MASK))


def detr(model: str, name: str, *, normalize: bool = True) -> Any:
    torch = library("torch")
    module = getattr(transformers(model), name)(12, normalize=normalize)
    return rows(module(torch.Size((3, 24, *SIDES)), "cpu", torch.float32, torch.tensor(MASK)))


def detr_of_config(model: str, name: str, config: str) -> Any:
    """The modules that take the pixels themselves and the model's own temperature."""
    torch = library("torch")
    module = getattr(transformers(model), name)(getattr(library("transformers"), config)(d_model=24))
    return rows(module(torch.zeros(3, 1, *SIDES), torch.tensor(MASK)))


def dab_detr() -> Any:
    torch = library("torch")
    config = library("transformers").DabDetrConfig(hidden_size=24, temperature_height=20, temperature_width=30)
    module = transformers("dab_detr").DabDetrSinePositionEmbedding(config)
    return rows(module(torch.zeros(3, 1, *SIDES), torch.tensor(MASK)))


def table_transformer() -> Any:
    torch = library("torch")
    module = transformers("table_transformer").TableTransformerSinePositionEmbedding(12, normalize=True)
    return rows(module(torch.zeros(3, 1, *SIDES), torch.tensor(MASK)))


def boxes(model: str) -> Any:
    return transformers(model).encode_sinusoidal_position_embedding(library("torch").tensor(BOXES), 24)


def points() -> Any:
    """Conditional DETR's reference points."""
    module = transformers("conditional_detr")
    return module.encode_sinusoidal_position_embedding(library("torch").tensor(BOXES[..., :2]), 24)


def sam3_boxes() -> Any:
    return transformers("sam3").Sam3SinePositionEmbedding(24).encode_boxes(library("torch").tensor(BOXES))


def proposals() -> Any:
    """Deformable DETR's own function, which takes logits."""
    torch = library("torch")
    model = SimpleNamespace(config=SimpleNamespace(d_model=48))
    return transformers("deformable_detr").DeformableDetrModel.get_proposal_pos_embed(model, torch.tensor(LOGITS))


def rows(channels_first: Any) -> Any:
    """(batch, channel, height, width) as (batch, position, channel), which is what an encoder reads."""
    return channels_first.flatten(2).permute(0, 2, 1)


VIDEO = {"grid": "3,4,6", "dim": "32"}
MASKED = {"dim": "24"}
CASES = {
    "rt_detr": Case(lambda: rt_detr("rt_detr", "RTDetrSinePositionEmbedding"), exact_angles=True),
    "d_fine": Case(lambda: rt_detr("d_fine", "DFineSinePositionEmbedding"), exact_angles=True),
    "aimv2": Case(lambda: transformers("aimv2").build_2d_sinusoidal_position_embedding(4, 6, 24), exact_angles=True),
    "mae": Case(mae, {"grid": "5", "dim": "24"}, exact_angles=True),
    "granite_docling": Case(
        lambda: transformers("granite_docling").GraniteDoclingPositionEmbedding.build(24, 5),
        {"grid": "5", "dim": "24"},
        exact_angles=True,
    ),
    "diffusers": Case(lambda: diffusers().get_2d_sincos_pos_embed(24, SIDES), exact_angles=True),
    "diffusers_scaled": Case(
        lambda: diffusers().get_2d_sincos_pos_embed(
            24, SIDES, cls_token=True, extra_tokens=2, interpolation_scale=1.3, base_size=9
        ),
        {"grid": "4,6", "dim": "24", "class_tokens": "2", "interpolation_scale": "1.3", "base_size": "9"},
        exact_angles=True,
    ),
    "stable_diffusion_3": Case(stable_diffusion_3, exact_angles=True),
    "omdet_turbo": Case(
        lambda: transformers("omdet_turbo").OmDetTurboHybridEncoder.build_2d_sincos_position_embedding(6, 4, 24)[0]
    ),
    "timm": Case(timm_table),
    "timm_interleaved": Case(lambda: timm_table(interleave_sin_cos=True)),
    "timm_reversed": Case(lambda: timm_table(reverse_coord=True)),
    "positional_encodings_2d": Case(lambda: encodings(2, 24)),
    "positional_encodings_2d_cut": Case(lambda: encodings(2, 10), {"grid": "4,6", "dim": "10"}),
    "positional_encodings_2d_odd": Case(lambda: encodings(2, 7), {"grid": "4,6", "dim": "7"}),
    "positional_encodings_2d_permuted": Case(lambda: encodings_permuted(2, 10), {"grid": "4,6", "dim": "10"}),
    "positional_encodings_3d_permuted": Case(lambda: encodings_permuted(3, 20), {"grid": "3,4,6", "dim": "20"}),
    "diffusers_3d": Case(
        lambda: diffusers().get_3d_sincos_pos_embed(32, (6, 4), 3).flatten(0, 1), VIDEO, exact_angles=True
    ),
    "cogvideox": Case(cogvideox, VIDEO, exact_angles=True),
    "positional_encodings_3d": Case(lambda: encodings(3, 32), VIDEO),
    "positional_encodings_3d_cut": Case(lambda: encodings(3, 7), {"grid": "3,4,6", "dim": "7"}),
    "detr": Case(lambda: detr("detr", "DetrSinePositionEmbedding"), MASKED),
    "detr_module": Case(detr_module, MASKED),
    "conditional_detr": Case(lambda: detr("conditional_detr", "ConditionalDetrSinePositionEmbedding"), MASKED),
    "maskformer": Case(lambda: detr("maskformer", "MaskFormerSinePositionEmbedding"), MASKED),
    "mask2former": Case(lambda: detr("mask2former", "Mask2FormerSinePositionEmbedding"), MASKED),
    "oneformer": Case(lambda: detr("oneformer", "OneFormerSinePositionEmbedding"), MASKED),
    "sam2": Case(lambda: detr("sam2", "Sam2SinePositionEmbedding"), MASKED),
    "sam3": Case(lambda: detr("sam3", "Sam3SinePositionEmbedding"), MASKED),
    "table_transformer": Case(table_transformer, MASKED),
    "detr_not_normalized": Case(lambda: detr("detr", "DetrSinePositionEmbedding", normalize=False), MASKED),
    "deformable_detr": Case(lambda: detr("deformable_detr", "DeformableDetrSinePositionEmbedding"), MASKED),
    "dab_detr": Case(dab_detr, {"dim": "24", "base": "20,30"}),
    "grounding_dino": Case(
        lambda: detr_of_config("grounding_dino", "GroundingDinoSinePositionEmbedding", "GroundingDinoConfig"), MASKED
    ),
    "mm_grounding_dino": Case(
        lambda: detr_of_config("mm_grounding_dino", "MMGroundingDinoSinePositionEmbedding", "MMGroundingDinoConfig"),
        MASKED,
    ),
}


MODULES = {
    "dab_detr_boxes": lambda: boxes("dab_detr"),
    "conditional_detr_boxes": lambda: boxes("conditional_detr"),
    "grounding_dino_boxes": lambda: boxes("grounding_dino"),
    "lw_detr_boxes": lambda: boxes("lw_detr"),
    "rf_detr_boxes": lambda: boxes("rf_detr"),
    "sam3_boxes": sam3_boxes,
    "conditional_detr_points": points,
    "deformable_detr_proposals": proposals,
}


def build() -> Numbers:
    """Everything the file holds, by name."""
    makers = {name: case.make for name, case in CASES.items()} | MODULES
    return {f"{name}.table": np.asarray(make()) for name, make in makers.items()}


if __name__ == "__main__":
    save("grids", build(), "torch", "transformers", "diffusers", "timm", "positional-encodings", "numpy")
