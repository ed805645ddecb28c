"""Fourier features of transformers and diffusers, frozen: `python -m tests.golden.make_fourier`.

`perceiver` (points, 2 + 2 * 2 * 7) at `POINTS` and, with ImageNet's 64 bands, `perceiver.imagenet`; `gligen` (boxes,
4 * 2 * 8) at `BOXES`; `gaussian` (times, 2 * 12) at `TIMES` with the drawn `gaussian.weight` (12,); `log.0` and
`log.1`, flipped, (times, 24) of the logarithms of `LATE` with `log.weight`; `sam` (points, 24) at `UNIT_POINTS`, which
are in 0 to 1, with `sam.weight` (2, 12); float32.
"""

from types import SimpleNamespace

import numpy as np

from tests.golden.frozen import Numbers, library, save

POINTS = ((-1.0, 1.0), (0.3, -0.7), (0.0, 0.25))
BOXES = ((0.1, 0.2, 0.5, 0.9), (0.0, 0.0, 1.0, 1.0))
TIMES = (-1.5, 0.0, 0.25, 3.0)
LATE = (0.002, 0.7, 1.0, 80.0)
UNIT_POINTS = ((0.0, 1.0), (0.3, 0.75), (0.5, 0.625))


def build() -> Numbers:
    """Everything the file holds, by name."""
    torch = library("torch")
    perceiver = library("transformers.models.perceiver.modeling_perceiver").generate_fourier_features
    embeddings = library("diffusers.models.embeddings")
    torch.manual_seed(7)
    gaussian = embeddings.GaussianFourierProjection(12, scale=16.0, log=False, flip_sin_to_cos=True)
    logarithmic = [
        embeddings.GaussianFourierProjection(12, scale=16.0, flip_sin_to_cos=flipped) for flipped in (False, True)
    ]
    logarithmic[1].weight = logarithmic[0].weight
    sam = library("transformers.models.sam.modeling_sam").SamPositionalEmbedding(
        SimpleNamespace(scale=1.0, num_pos_feats=12)
    )
    late = torch.tensor(LATE)
    return {
        **{f"log.{flipped}": layer(late).detach().numpy() for flipped, layer in enumerate(logarithmic)},
        "log.weight": logarithmic[0].weight.detach().numpy(),
        "sam": sam(torch.tensor(UNIT_POINTS)).detach().numpy(),
        "sam.weight": sam.positional_embedding.detach().numpy(),
        "perceiver.imagenet": np.asarray(perceiver(torch.tensor([POINTS]), 64, (224, 224))[0]),
        "perceiver": np.asarray(perceiver(torch.tensor([POINTS]), 7, (224, 224))[0]),
        "gligen": np.asarray(embeddings.get_fourier_embeds_from_boundingbox(8, torch.tensor([BOXES]))[0]),
        "gaussian": gaussian(torch.tensor(TIMES)).detach().numpy(),
        "gaussian.weight": gaussian.weight.detach().numpy(),
    }


if __name__ == "__main__":
    save("fourier", build(), "torch", "transformers", "diffusers", "numpy")
