"""RoPE with mixed axes against timm and diffusers, live: their frequencies, drawn at random, handed to both sides."""

import warnings
from typing import Any

import numpy as np
import pytest

from service.engine.rounding import DTYPES
from service.engine.scheme import Usage
from tests.engine.answers import Array, answer
from tests.golden.frozen import library
from tests.golden.make_grids import timm
from tests.oracles.test_model_rotations import FORMATS, to_numpy, to_torch
from tests.oracles.usages import proves

pytestmark = pytest.mark.oracle

GRID = (3, 5)
HEADS, DIM = 3, 24
EPS = 2.0**-24


def of_timm() -> tuple[Array, Array, Array]:
    """The frequencies of the second of two blocks, the positions (x, y) of a grid, and the embedding sin | cos."""
    torch = library("torch")
    torch.manual_seed(5)
    module = timm().RotaryEmbeddingMixed(HEADS * DIM, depth=2, num_heads=HEADS, feat_shape=list(GRID))
    rows, columns = np.divmod(np.arange(GRID[0] * GRID[1]), GRID[1])
    embedding = module.get_embed(list(GRID))[1].detach().numpy()
    return module.freqs[:, 1].detach().numpy(), np.stack([columns, rows], axis=1), embedding


def of_mochi() -> tuple[Array, Array, tuple[Any, Any]]:
    """Frequencies as a checkpoint may hold them, the model's own positions, and its cosines and sines."""
    torch = library("torch")
    module = library("diffusers.models.transformers.transformer_mochi").MochiRoPE()
    frequencies = torch.tensor(np.random.default_rng(6).uniform(-1, 1, (3, HEADS, DIM // 2)).astype(np.float32))
    at = module._get_positions(2, *GRID, device=None, dtype=torch.float32)
    with warnings.catch_warnings():  # that a CPU has no autocast to float32
        warnings.simplefilter("ignore", UserWarning)
        return frequencies.numpy(), at.numpy(), module(frequencies, 2, *GRID, dtype=torch.float32)


@proves("encodings/rope-mixed", {"timm-mixed": 2})
def test_tables(usage: Usage, oracle: int) -> None:
    frequencies, at, embedding = of_timm()
    ours = answer("encodings/rope-mixed", {"frequencies": frequencies, "positions": at}, **usage.parameters)
    sin, cos = np.split(embedding, 2, axis=-1)
    for own, theirs in ((ours["cos"], cos), (ours["sin"], sin)):
        assert own.shape == theirs.shape
        assert np.abs(own - theirs).max() <= oracle * EPS  # an ulp of theirs: the angles are the same bits
    assert np.abs(cos).min() < 0.5

    frequencies, at, (cos, sin) = of_mochi()
    half = {**usage.parameters, "columns": "half"}
    ours = answer("encodings/rope-mixed", {"frequencies": frequencies, "positions": at}, **half)
    for own, theirs in ((ours["cos"], cos), (ours["sin"], sin)):
        # Its sum of three products may have another order, or be fused.
        difference = np.abs(own.swapaxes(0, 1) - theirs.numpy())
        assert difference.max() <= 8 * EPS * np.abs(at).max() * 3


@pytest.mark.parametrize("dtype", FORMATS)
@proves("apply/rope-mixed", {"timm-mixed": "apply_rot_embed_cat"})
def test_vectors(usage: Usage, oracle: str, dtype: str) -> None:
    """Tables, products and sums in float32, the answer in the format of the vectors."""
    frequencies, at, embedding = of_timm()
    q = np.random.default_rng(7).uniform(-4, 4, (2, HEADS, len(at), DIM)).astype(DTYPES[dtype])
    theirs = to_numpy(getattr(timm(), oracle)(to_torch(q), library("torch").tensor(embedding)))
    inputs = {"q": q, "frequencies": frequencies, "positions": at}
    ours = answer("apply/rope-mixed", inputs, **usage.parameters)["q"]
    assert ours.dtype == theirs.dtype
    wide = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    if dtype == "float32":
        assert wide.max() <= 8 * 6 * EPS
    else:
        assert (ours != theirs).mean() <= 1e-3
        assert wide.max() <= 8 * 2.0 ** {"float16": -11, "bfloat16": -8}[dtype]
    assert not np.array_equal(ours, q)
