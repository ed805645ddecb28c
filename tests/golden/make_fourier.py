"""Fourier features of transformers and diffusers, frozen: `python -m tests.golden.make_fourier`.

`perceiver` (points, 2 + 2 * 2 * 7) at `POINTS`, `gligen` (boxes, 4 * 2 * 8) at `BOXES`, and `gaussian` (times, 2 * 12)
at `TIMES` with the drawn `gaussian.weight` (12,); float32.
"""

import numpy as np

from tests.golden.frozen import Numbers, library, save

POINTS = ((-1.0, 1.0), (0.3, -0.7), (0.0, 0.25))
BOXES = ((0.1, 0.2, 0.5, 0.9), (0.0, 0.0, 1.0, 1.0))
TIMES = (-1.5, 0.0, 0.25, 3.0)


def build() -> Numbers:
    """Everything the file holds, by name."""
    torch = library("torch")
    perceiver = library("transformers.models.perceiver.modeling_perceiver").generate_fourier_features
    embeddings = library("diffusers.models.embeddings")
    torch.manual_seed(7)
    gaussian = embeddings.GaussianFourierProjection(12, scale=16.0, log=False, flip_sin_to_cos=True)
    return {
        "perceiver": np.asarray(perceiver(torch.tensor([POINTS]), 7, (224, 224))[0]),
        "gligen": np.asarray(embeddings.get_fourier_embeds_from_boundingbox(8, torch.tensor([BOXES]))[0]),
        "gaussian": gaussian(torch.tensor(TIMES)).detach().numpy(),
        "gaussian.weight": gaussian.weight.detach().numpy(),
    }


if __name__ == "__main__":
    save("fourier", build(), "torch", "transformers", "diffusers", "numpy")
