"""Rotary tables and rotations of transformers, frozen: `python -m tests.golden.make_rope`.

Tables are keyed `case.inv_freq` (float32), `case.cos` and `case.sin` (positions, pairs; float32),
`.cos_bfloat16` and `.sin_bfloat16` (bit patterns, uint16), at `positions`. Rotations are keyed
`rotation.case.q`, `.k`, `.cos`, `.sin` (the library's own tables, handed to its own rotation),
`.q_rotated`, `.k_rotated`, `.positions`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save

POSITIONS = np.array(
    [0, 1, 2, 17, 255, 256, 257, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 131071], dtype=np.int64
)


@dataclass(frozen=True, slots=True)
class Table:
    """One rotary module: the model it belongs to, and what its configuration says."""

    model: str
    head_dim: int
    base: float
    partial_rotary_factor: float = 1.0

    @property
    def rotary_dim(self) -> int:
        """How many channels turn (the library cuts the product off, it does not round it)."""
        return int(self.head_dim * self.partial_rotary_factor)


TABLES = {
    "llama31": Table("llama", 128, 500000.0),
    "llama_d64": Table("llama", 64, 10000.0),
    "llama_d80": Table("llama", 80, 10000.0),
    "llama_d96": Table("llama", 96, 10000.0),
    "llama_d34": Table("llama", 34, 10000.0),
    "phi_d80_0.4": Table("phi", 80, 10000.0, 0.4),
    "gpt_neox_d64_0.25": Table("gpt_neox", 64, 10000.0, 0.25),
}

CLASS_PREFIX = {"llama": "Llama", "phi": "Phi", "gpt_neox": "GPTNeoX", "cohere": "Cohere"}


@dataclass(frozen=True, slots=True)
class Rotation:
    """One rotation: whose, of how many query and key heads, in which order of the head and length axes."""

    model: str
    pairing: str
    axes: str
    head_dim: int
    query_heads: int
    key_heads: int
    positions: tuple[int, ...]
    partial_rotary_factor: float = 1.0

    @property
    def rotary_dim(self) -> int:
        """How many channels turn."""
        return int(self.head_dim * self.partial_rotary_factor)

    def shape(self, heads: int) -> tuple[int, int, int, int]:
        """(batch, heads, length, dim) or (batch, length, heads, dim), two sequences in the batch."""
        if self.axes == "heads-length":
            return 2, heads, len(self.positions), self.head_dim
        return 2, len(self.positions), heads, self.head_dim


ROTATIONS = {
    "llama": Rotation("llama", "half", "heads-length", 20, 6, 2, (3, 4, 5, 6, 7)),
    "llama_far": Rotation("llama", "half", "heads-length", 34, 7, 1, (0, 2, 17, 255, 4096, 131071)),
    "gptj": Rotation("gptj", "interleaved", "length-heads", 12, 7, 7, (2, 3, 4, 5)),
    "cohere": Rotation("cohere", "interleaved", "heads-length", 16, 6, 3, (9, 10, 11)),
    "gpt_neox": Rotation("gpt_neox", "half", "heads-length", 24, 7, 7, (1, 2, 3, 4, 5), 0.25),
}
ROTATION_BASE = 10000.0


def rotary_module(case: Table) -> Any:
    """The model's rotary module, built from a configuration as a checkpoint's would be."""
    prefix = CLASS_PREFIX[case.model]
    transformers = library("transformers")
    parameters = {
        "rope_type": "default",
        "rope_theta": case.base,
        "partial_rotary_factor": case.partial_rotary_factor,
    }
    # One head whose width is the hidden size, since not every configuration has a head_dim.
    width = {"hidden_size": case.head_dim, "num_attention_heads": 1, "head_dim": case.head_dim}
    config = getattr(transformers, f"{prefix}Config")(
        max_position_embeddings=131072, rope_parameters=parameters, **width
    )
    modeling = library(f"transformers.models.{case.model}.modeling_{case.model}")
    return getattr(modeling, f"{prefix}RotaryEmbedding")(config)


def tables(case: Table, positions: NDArray[np.int64]) -> Numbers:
    """Inverse frequencies, and the tables in both precisions that models run in."""
    torch = library("torch")
    module = rotary_module(case)
    ids = torch.from_numpy(positions)[None, :]
    cos, sin = module(torch.zeros(1, dtype=torch.float32), ids)
    cos16, sin16 = module(torch.zeros(1, dtype=torch.bfloat16), ids)
    answers = {"inv_freq": module.inv_freq.numpy()}
    for name, table in {"cos": cos, "sin": sin}.items():
        answers[name] = half_width(table[0].numpy())
    for name, table in {"cos_bfloat16": cos16, "sin_bfloat16": sin16}.items():
        answers[name] = half_width(table[0].view(torch.uint16).numpy())
    return answers


def half_width(table: NDArray[Any]) -> NDArray[Any]:
    """The left half of a table whose right half repeats it."""
    pairs = table.shape[-1] // 2
    if not np.array_equal(table[:, :pairs], table[:, pairs:]):
        raise ValueError("the table is not [cos | cos]")
    return np.ascontiguousarray(table[:, :pairs])


def gptj_tables(rotary_dim: int, positions: NDArray[np.int64]) -> Numbers:
    """GPT-J's own table [sin | cos], whose base is fixed at 10000."""
    modeling = library("transformers.models.gptj.modeling_gptj")
    table = modeling.create_sinusoidal_positions(int(positions.max()) + 1, rotary_dim).numpy()[positions]
    return {"sin": table[:, : rotary_dim // 2], "cos": table[:, rotary_dim // 2 :]}


def rotation(case: Rotation, seed: int) -> Numbers:
    """Random q and k, the library's tables, and what its rotation makes of them."""
    torch = library("torch")
    apply = library(f"transformers.models.{case.model}.modeling_{case.model}").apply_rotary_pos_emb
    generator = np.random.default_rng(seed)
    q = generator.standard_normal(case.shape(case.query_heads), dtype=np.float32)
    k = generator.standard_normal(case.shape(case.key_heads), dtype=np.float32)
    positions = np.array(case.positions, dtype=np.int64)
    rotate = rotate_gptj if case.model == "gptj" else rotate_by_tables
    cos, sin, q_rotated, k_rotated = rotate(case, apply, torch.from_numpy(q), torch.from_numpy(k), positions)
    return {
        "positions": positions,
        "q": q,
        "k": k,
        "cos": cos.numpy(),
        "sin": sin.numpy(),
        "q_rotated": q_rotated.numpy(),
        "k_rotated": k_rotated.numpy(),
    }


def rotate_by_tables(
    case: Rotation, apply: Callable[..., Any], q: Any, k: Any, positions: NDArray[np.int64]
) -> tuple[Any, Any, Any, Any]:
    """The call most models share: full-width tables of one sequence, broadcast over batch and heads."""
    torch = library("torch")
    module = rotary_module(Table(case.model, case.head_dim, ROTATION_BASE, case.partial_rotary_factor))
    cos, sin = module(q, torch.from_numpy(positions)[None, :])
    q_rotated, k_rotated = apply(q, k, cos, sin)
    pairs = slice(0, case.rotary_dim // 2) if case.pairing == "half" else slice(0, case.rotary_dim, 2)
    return cos[0, :, pairs], sin[0, :, pairs], q_rotated, k_rotated


def rotate_gptj(
    case: Rotation, apply: Callable[..., Any], q: Any, k: Any, positions: NDArray[np.int64]
) -> tuple[Any, Any, Any, Any]:
    """GPT-J's call: one tensor at a time, half-width tables, sine first."""
    torch = library("torch")
    table = gptj_tables(case.rotary_dim, positions)
    sin = torch.from_numpy(table["sin"])[None]
    cos = torch.from_numpy(table["cos"])[None]
    return cos[0], sin[0], apply(q, sin, cos), apply(k, sin, cos)


def build() -> Numbers:
    """Everything the file holds, by name."""
    arrays: Numbers = {"positions": POSITIONS}
    for name, case in TABLES.items():
        arrays |= {f"{name}.{key}": value for key, value in tables(case, POSITIONS).items()}
    near = POSITIONS[POSITIONS < 10000]
    arrays |= {f"gptj_d64.{key}": value for key, value in gptj_tables(64, near).items()}
    for seed, (name, turn) in enumerate(ROTATIONS.items()):
        arrays |= {f"rotation.{name}.{key}": value for key, value in rotation(turn, seed).items()}
    if not all(np.isfinite(value).all() for value in arrays.values() if value.dtype.kind == "f"):
        raise ValueError("a frozen value is not finite")
    if not math.isclose(float(arrays["llama31.inv_freq"][1]), 500000 ** (-1 / 64), rel_tol=1e-6):
        raise ValueError("the configuration's base did not reach the rotary module")
    return arrays


if __name__ == "__main__":
    save("rope", build(), "torch", "transformers", "numpy")
