"""ALiBi slopes and biases of three libraries, frozen: `python -m tests.golden.make_alibi`.

`bloom.H.slopes`, `mpt.H.slopes`, `x_transformers.H.slopes` (H,) for every head count H, and for a few of
them `bloom.H.bias` (H, 1, keys), the key-only form; `mpt.H.bias` (H, 1, keys), the relative form of the
last query; `x_transformers.H.bias` (H, queries, keys), the symmetric form. All float32.
"""

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save

HEADS = (1, 2, 3, 6, 7, 8, 12, 16, 40, 71, 112)
BIAS_HEADS = (1, 2, 6, 7, 12)
QUERIES, KEYS = 3, 5


def bloom(heads: int, keys: int) -> NDArray[np.float32]:
    """BLOOM's bias over a sequence without padding: slope times key position, (heads, 1, keys)."""
    torch = library("torch")
    build_alibi_tensor = library("transformers.models.bloom.modeling_bloom").build_alibi_tensor
    return np.asarray(build_alibi_tensor(torch.ones(1, keys, dtype=torch.int64), heads, torch.float32))


def mpt(heads: int, keys: int) -> NDArray[np.float32]:
    """MPT's bias: slope times distance to the last key, (heads, 1, keys)."""
    return np.asarray(library("transformers.models.mpt.modeling_mpt").build_mpt_alibi_tensor(heads, keys))


def x_transformers(heads: int, queries: int, keys: int) -> NDArray[np.float32]:
    """x-transformers' bias: minus slope times distance in either direction, (heads, queries, keys)."""
    bias = library("x_transformers.x_transformers").AlibiPositionalBias(heads)
    return np.asarray(bias(queries, keys))


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
    return arrays


if __name__ == "__main__":
    save("alibi", build(), "torch", "transformers", "x-transformers", "numpy")
