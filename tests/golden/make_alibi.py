"""ALiBi slopes and biases of three libraries, frozen: `python -m tests.golden.make_alibi`.

`bloom.H.slopes`, `mpt.H.slopes`, `x_transformers.H.slopes` (H,) for every head count H, and for a few of
them `bloom.H.bias` (H, 1, keys), the key-only form; `mpt.H.bias` (H, 1, keys), the relative form of the
last query; `x_transformers.H.bias` (H, queries, keys), the symmetric form. All float32.

With `mask` (batch, keys): `bloom.H.padded.DTYPE` and `falcon.H.padded.DTYPE` (batch, H, 1, keys), rounded to that
number format and written as float32; `falcon.H.scaled.DTYPE`, the last divided by sqrt(head width), as Falcon joins it
with its mask; `falcon.H.far`, float32, over positions that bfloat16 does not hold; `x_transformers.H.counted` (batch,
H, keys, keys), from the positions of the mask's tokens; `x_transformers.3_of_5.bias`, two of five heads without a bias.
"""

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save

HEADS = (1, 2, 3, 6, 7, 8, 12, 16, 40, 71, 112)
BIAS_HEADS = (1, 2, 6, 7, 12)
QUERIES, KEYS = 3, 5
MASK = ((1, 1, 1, 1, 1, 1), (0, 0, 1, 1, 0, 1), (0, 0, 0, 0, 0, 0))
PADDED_HEADS = (3, 12, 71)
DTYPES = ("float32", "bfloat16", "float16")
HEAD_DIM, FAR_HEADS, FAR = 64, 7, 600


def bloom(heads: int, keys: int) -> NDArray[np.float32]:
    """BLOOM's bias over a sequence without padding: slope times key position, (heads, 1, keys)."""
    torch = library("torch")
    build_alibi_tensor = library("transformers.models.bloom.modeling_bloom").build_alibi_tensor
    return np.asarray(build_alibi_tensor(torch.ones(1, keys, dtype=torch.int64), heads, torch.float32))


def padded(model: str, heads: int, dtype: str, mask: NDArray[np.int64], head_dim: int = 1) -> NDArray[np.float32]:
    """BLOOM's or Falcon's bias of tokens behind padding, (batch, heads, 1, keys), written as float32."""
    torch = library("torch")
    build_alibi_tensor = library(f"transformers.models.{model}.modeling_{model}").build_alibi_tensor
    bias = build_alibi_tensor(torch.from_numpy(mask), heads, getattr(torch, dtype))
    bias = bias.reshape(len(mask), heads, 1, mask.shape[1])
    return np.asarray((bias if head_dim == 1 else bias / head_dim**0.5).float())


def mpt(heads: int, keys: int) -> NDArray[np.float32]:
    """MPT's bias: slope times distance to the last key, (heads, 1, keys)."""
    return np.asarray(library("transformers.models.mpt.modeling_mpt").build_mpt_alibi_tensor(heads, keys))


def x_transformers(heads: int, queries: int, keys: int, total_heads: int | None = None) -> NDArray[np.float32]:
    """x-transformers' bias: minus slope times distance in either direction, (heads, queries, keys)."""
    bias = library("x_transformers.x_transformers").AlibiPositionalBias(heads, total_heads)
    return np.asarray(bias(queries, keys))


def counted(heads: int, positions: NDArray[np.int64]) -> NDArray[np.float32]:
    """The same, between positions (batch, keys) of any order."""
    bias = library("x_transformers.x_transformers").AlibiPositionalBias(heads)
    return np.asarray(bias.forward_custom_pos(library("torch").from_numpy(positions)))


def build() -> Numbers:
    """Everything the file holds, by name."""
    arrays: Numbers = {"heads": np.array(HEADS)}
    for heads in HEADS:
        # The slope is the bias at distance one, which each library reaches at another place and with
        # another sign.
        arrays[f"bloom.{heads}.slopes"] = bloom(heads, 2)[:, 0, 1]
        arrays[f"mpt.{heads}.slopes"] = -mpt(heads, 2)[:, 0, 0]
        arrays[f"x_transformers.{heads}.slopes"] = -x_transformers(heads, 1, 2)[:, 0, 0]
    for heads in BIAS_HEADS:
        arrays[f"bloom.{heads}.bias"] = bloom(heads, KEYS)
        arrays[f"mpt.{heads}.bias"] = mpt(heads, KEYS)
        arrays[f"x_transformers.{heads}.bias"] = x_transformers(heads, QUERIES, KEYS)
    arrays["mask"] = mask = np.array(MASK)
    for heads in PADDED_HEADS:
        for dtype in DTYPES:
            for model in ("bloom", "falcon"):
                arrays[f"{model}.{heads}.padded.{dtype}"] = padded(model, heads, dtype, mask)
            arrays[f"falcon.{heads}.scaled.{dtype}"] = padded("falcon", heads, dtype, mask, HEAD_DIM)
        arrays[f"x_transformers.{heads}.counted"] = counted(heads, np.where(mask, mask.cumsum(1) - 1, 0))
    arrays[f"falcon.{FAR_HEADS}.far"] = padded("falcon", FAR_HEADS, "float32", np.ones((1, FAR), np.int64))
    arrays["x_transformers.3_of_5.bias"] = x_transformers(3, QUERIES, KEYS, 5)
    return arrays


if __name__ == "__main__":
    save("alibi", build(), "torch", "transformers", "x-transformers", "numpy")
