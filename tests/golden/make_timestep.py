"""Timestep embeddings of diffusers and transformers, frozen: `python -m tests.golden.make_timestep`.

Each case is `case.table` (times, dim; float32) at `TIMES`; `CASES` says which arguments of the library and which
parameters of the service name it. `MODULES` are the embeddings inside the libraries' own models, at the same times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save

TIMES = (0.0, 0.25, 1.0, 10.0, 249.75, 500.0, 981.0, 999.0)


@dataclass(frozen=True, slots=True)
class Case:
    """Arguments of `get_timestep_embedding`."""

    dim: int
    layout: str = "sin-cos"
    frequency_shift: float = 1
    scale: float = 1
    base: float = 10000

    def make(self) -> NDArray[np.float32]:
        embedding = library("diffusers.models.embeddings").get_timestep_embedding
        return np.asarray(
            embedding(
                library("torch").tensor(TIMES, dtype=library("torch").float32),
                self.dim,
                flip_sin_to_cos=self.layout == "cos-sin",
                downscale_freq_shift=self.frequency_shift,
                scale=self.scale,
                max_period=self.base,
            )
        )


CASES = {
    "defaults": Case(34),
    "stable_diffusion": Case(320, "cos-sin", 0),
    "combined_labels": Case(256, "cos-sin"),
    "aura_flow": Case(256, "cos-sin", 0, 1000),
    "ernie": Case(64, "sin-cos", 0),
    "token2wav": Case(96, scale=1000),
    "odd": Case(7, "cos-sin", 0.5, 0.3, 500),
}


def unet() -> Any:
    """Stable Diffusion's network, made small."""
    blocks = {"block_out_channels": (32,), "down_block_types": ("DownBlock2D",), "up_block_types": ("UpBlock2D",)}
    return library("diffusers").UNet2DConditionModel(**blocks, cross_attention_dim=8).time_proj


def combined_labels() -> Any:
    return library("diffusers.models.embeddings").CombinedTimestepLabelEmbeddings(2, 8).time_proj


def qwen_image() -> Any:
    transformer = library("diffusers.models.transformers.transformer_qwenimage")
    return transformer.QwenTimestepProjEmbeddings(8).time_proj


def ernie_image() -> Any:
    """ERNIE-Image's transformer, made small."""
    model = library("diffusers.models.transformers.transformer_ernie_image").ErnieImageTransformer2DModel
    small = {"num_layers": 1, "ffn_hidden_size": 8, "in_channels": 2, "out_channels": 2, "text_in_dim": 4}
    return model(hidden_size=48, num_attention_heads=2, rope_axes_dim=(8, 8, 8), **small).time_proj


def token2wav() -> Any:
    return library("transformers.models.qwen2_5_omni.modeling_qwen2_5_omni").SinusPositionEmbedding(96)


def pi0() -> Any:
    """pi0's embedding at its default periods, 24 channels."""
    kind = library("transformers.models.pi0.modeling_pi0").PI0TimestepEmbeddings
    return kind(SimpleNamespace(dit_config=SimpleNamespace(hidden_size=24), min_period=4e-3, max_period=4.0))


MODULES: dict[str, Callable[[], Any]] = {
    "unet": unet,
    "combined_label_embeddings": combined_labels,
    "qwen_image": qwen_image,
    "ernie_image": ernie_image,
    "qwen2_5_omni": token2wav,
    "pi0": pi0,
}


def build() -> Numbers:
    """Everything the file holds, by name."""
    times = library("torch").tensor(TIMES, dtype=library("torch").float32)
    modules = {f"{name}.table": np.asarray(make()(times)) for name, make in MODULES.items()}
    return {f"{name}.table": case.make() for name, case in CASES.items()} | modules


if __name__ == "__main__":
    save("timestep", build(), "torch", "diffusers", "transformers", "numpy")
