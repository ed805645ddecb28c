"""Timestep embeddings of diffusers, frozen: `python -m tests.golden.make_timestep`.

Each case is `case.table` (times, dim; float32) at `TIMES`; `CASES` says which arguments of the library and which
parameters of the service name it.
"""

from dataclasses import dataclass

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


def build() -> Numbers:
    """Everything the file holds, by name."""
    return {f"{name}.table": case.make() for name, case in CASES.items()}


if __name__ == "__main__":
    save("timestep", build(), "torch", "diffusers", "numpy")
