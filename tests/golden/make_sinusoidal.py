"""Sinusoidal tables of transformers and diffusers, frozen: `python -m tests.golden.make_sinusoidal`.

Each case is `case.positions` (float64) and `case.table` (positions, dim; float32); `CASES` says which
parameters of the service name the same table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save

ROWS = (0, 1, 2, 7, 31, 255, 256, 511)
TIMESTEPS = (0.0, 0.5, 1.0, 10.0, 249.75, 981.0, 999.0)


@dataclass(frozen=True, slots=True)
class Case:
    """A library's table: how it is made, and the same in the words of the service."""

    make: Callable[["Case"], NDArray[np.float32]]
    dim: int
    positions: tuple[float, ...]
    layout: str
    odd_width: str = "extra-sine"
    frequency_shift: int = 0
    padding_idx: int | None = None
    arithmetic: str = "float32"
    """`float32`: the frequencies come from a float32 exponential; `float64`: numpy, rounded at the end."""

    @property
    def length(self) -> int:
        """Rows of a table that reaches the last position."""
        return int(max(self.positions)) + 1

    def rows(self, table: Any) -> NDArray[np.float32]:
        """The rows at the positions, out of a table that begins at 0."""
        chosen: NDArray[np.float32] = np.asarray(table)[[int(position) for position in self.positions]]
        return chosen


def m2m100(case: Case) -> NDArray[np.float32]:
    """fairseq's table: shift 1, sines then cosines, a zero column for odd widths, a zero row for padding."""
    module = library("transformers.models.m2m_100.modeling_m2m_100").M2M100SinusoidalPositionalEmbedding
    return case.rows(module.get_embedding(case.length, case.dim, case.padding_idx))


def whisper(case: Case) -> NDArray[np.float32]:
    """Whisper's encoder table: shift 1, sines then cosines."""
    return case.rows(library("transformers.models.whisper.modeling_whisper").sinusoids(case.length, case.dim))


def marian(case: Case) -> NDArray[np.float32]:
    """Marian's table: numpy, sines then cosines, one sine more than cosines for odd widths."""
    module = library("transformers.models.marian.modeling_marian").MarianSinusoidalPositionalEmbedding
    return case.rows(module(case.length, case.dim).create_weight())


def xlm(case: Case) -> NDArray[np.float32]:
    """XLM's table: numpy, interleaved."""
    out = library("torch").empty(case.length, case.dim)
    library("transformers.models.xlm.modeling_xlm").create_sinusoidal_embeddings(case.length, case.dim, out)
    return case.rows(out)


def distilbert(case: Case) -> NDArray[np.float32]:
    """DistilBERT's table: numpy, interleaved."""
    out = library("torch").empty(case.length, case.dim)
    modeling = library("transformers.models.distilbert.modeling_distilbert")
    modeling.create_sinusoidal_embeddings(case.length, case.dim, out)
    return case.rows(out.detach())


def diffusers_timestep(case: Case) -> NDArray[np.float32]:
    """diffusers' timestep embedding: any real time, either order, a zero column for odd widths."""
    embedding = library("diffusers.models.embeddings").get_timestep_embedding
    times = library("torch").tensor(case.positions, dtype=library("torch").float32)
    flip = case.layout == "cos-sin"
    table = embedding(times, case.dim, flip_sin_to_cos=flip, downscale_freq_shift=case.frequency_shift)
    return np.asarray(table)


def introduction(case: Case) -> NDArray[np.float32]:
    """The module of the PyTorch introductions, written from its formula: exp(-2k ln(10000)/d) in float32."""
    torch = library("torch")
    times = torch.arange(case.length).float().unsqueeze(1)
    frequencies = torch.exp(torch.arange(0, case.dim, 2) * (-math.log(10000.0) / case.dim))
    table = torch.zeros(case.length, case.dim)
    table[:, 0::2] = torch.sin(times * frequencies)
    table[:, 1::2] = torch.cos(times * frequencies)
    return case.rows(table)


CASES = {
    "m2m100_d8": Case(m2m100, 8, (0, 1, 2, 3, 4, 5), "sin-cos", "zero-column", 1, padding_idx=1),
    "m2m100_d9": Case(m2m100, 9, (0, 1, 2, 3, 4, 5, 6), "sin-cos", "zero-column", 1),
    "m2m100_d128": Case(m2m100, 128, (0, 1, 2, 511, 512, 1025), "sin-cos", "zero-column", 1, padding_idx=1),
    "whisper_d8": Case(whisper, 8, (0, 1, 2, 3, 9), "sin-cos", frequency_shift=1),
    "whisper_d384": Case(whisper, 384, (0, 1, 2, 749, 1499), "sin-cos", frequency_shift=1),
    "marian_d7": Case(marian, 7, ROWS, "sin-cos", arithmetic="float64"),
    "marian_d128": Case(marian, 128, ROWS, "sin-cos", arithmetic="float64"),
    "xlm_d6": Case(xlm, 6, ROWS, "interleaved", arithmetic="float64"),
    "xlm_d5": Case(xlm, 5, ROWS, "interleaved", arithmetic="float64"),
    "distilbert_d96": Case(distilbert, 96, ROWS, "interleaved", arithmetic="float64"),
    "diffusers_d9": Case(diffusers_timestep, 9, TIMESTEPS, "sin-cos", "zero-column", 0),
    "diffusers_d9_shift1": Case(diffusers_timestep, 9, TIMESTEPS, "sin-cos", "zero-column", 1),
    "diffusers_d8_shift1": Case(diffusers_timestep, 8, TIMESTEPS, "sin-cos", "zero-column", 1),
    "diffusers_d320_flip": Case(diffusers_timestep, 320, TIMESTEPS, "cos-sin", "zero-column", 0),
    "introduction_d8": Case(introduction, 8, ROWS, "interleaved"),
    "introduction_d64": Case(introduction, 64, ROWS, "interleaved"),
}


def build() -> Numbers:
    """Everything the file holds, by name."""
    arrays: Numbers = {}
    for name, case in CASES.items():
        table = case.make(case)
        if table.shape != (len(case.positions), case.dim) or not np.isfinite(table).all():
            raise ValueError(f"{name} is no table of that shape")
        arrays[f"{name}.positions"] = np.array(case.positions, dtype=np.float64)
        arrays[f"{name}.table"] = table
    return arrays


if __name__ == "__main__":
    save("sinusoidal", build(), "torch", "transformers", "diffusers", "numpy")
