"""Turned vectors against MLX, live: both pairings, positions scaled, the attention factor on vectors as mlx-lm has it.

`mx.fast.rope` on a processor rounds cos and sin, the products and their sum to the number format of the vectors. From
`freqs` its frequencies are ours; from a base they come of an exponential of its own, of which each build has another.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from service.engine.rounding import DTYPES
from service.engine.scheme import Usage
from tests.engine.answers import Array, answer, only
from tests.golden.frozen import library
from tests.oracles.usages import proves

pytestmark = pytest.mark.oracle

TURN = "apply/rope"
FORMATS = ("float32", "float16", "bfloat16")
OFFSET = 50


def mx() -> Any:
    return library("mlx.core")


def vectors(dtype: str) -> Array:
    return np.random.default_rng(3).uniform(-4, 4, (1, 3, 40, 64)).astype(DTYPES[dtype])


def to_mlx(x: Array) -> Any:
    return mx().array(x.astype(np.float32)).astype(getattr(mx(), x.dtype.name))


def to_numpy(x: Any) -> Array:
    if x.dtype == mx().float32:
        return np.array(x)
    bits = np.array(x.view(mx().uint16))
    return bits.view(np.float16 if x.dtype == mx().float16 else ml_dtypes.bfloat16)


def compare(ours: Array, theirs: Any) -> None:
    """In 16 bits equal but for one in a thousand; in float32 within what angles below 100 may be wrong by."""
    library_s = to_numpy(theirs)
    assert ours.dtype == library_s.dtype
    if ours.dtype == np.float32:
        assert np.abs(ours - library_s).max() <= 16 * 100 * 2.0**-22
    else:
        assert (ours != library_s).mean() <= 1e-3


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("factor", [1.0, 3.0])
@proves(TURN, {"mlx": OFFSET})
def test_rope(usage: Usage, oracle: int, pairing: str, factor: float, dtype: str) -> None:
    """Positions are scaled: divided by 3 that shows in a last place, by a power of two it would not."""
    x = vectors(dtype)
    theirs = mx().fast.rope(
        to_mlx(x), 48, traditional=pairing == "interleaved", base=10_000.0, scale=1 / factor, offset=oracle
    )
    given: dict[str, Any] = {**usage.parameters, "rope_type": "linear", "factor": factor}
    compare(only(TURN, {"q": x}, **given, pairing=pairing, rotary_dim=48, offset=oracle), theirs)


@pytest.mark.parametrize("at", [1000, 100_000])
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@proves("encodings/rope", {"mlx": 64})
def test_cosines_far_out(usage: Usage, oracle: int, base: float, at: int) -> None:
    """From `freqs` they are ours. From a base they are not, by up to 8 ulp of a frequency, as the preset says."""
    x = np.zeros((1, 1, 1, oracle), np.float32)
    x[..., : oracle // 2] = 1  # turns into cosines and sines
    periods = base ** (mx().arange(0, oracle, 2, dtype=mx().float32) / oracle)
    given: dict[str, Any] = {"traditional": False, "scale": 1.0, "offset": at}
    listed = to_numpy(mx().fast.rope(to_mlx(x), oracle, base=None, freqs=periods, **given))[0, 0, 0]
    based = to_numpy(mx().fast.rope(to_mlx(x), oracle, base=base, **given))[0, 0, 0]
    tables = answer("encodings/rope", **usage.parameters, base=base, dim=oracle, positions=(at,), columns="half")
    ours = np.concatenate([tables["cos"][0], tables["sin"][0]])
    # Where both have the same bits of a period the cosine is within an ulp or two; a power may be an ulp off.
    assert (np.abs(ours - listed) <= 1.2e-7).mean() > 0.6
    assert np.abs(ours - listed).max() <= 2.0**-23 * at
    assert 2.0**-26 * at < np.abs(ours - based).max() <= 8 * 2.0**-23 * at


@pytest.mark.parametrize("dtype", FORMATS)
@proves(TURN, {"mlx": "mscale * x, then rope"})
def test_the_attention_factor_on_vectors(usage: Usage, oracle: str, dtype: str) -> None:
    """YaRN as mlx-lm has it: what multiplies x is rounded to its format, and so is the product."""
    assert oracle
    x = vectors(dtype)
    scaling: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    frequencies = only("encodings/rope", dim=64, **scaling, output="frequencies", dtype="float64")
    factor = 0.1 * float(np.log(4.0)) + 1
    theirs = mx().fast.rope(
        factor * to_mlx(x), 64, traditional=False, base=None, scale=1.0, offset=OFFSET,
        freqs=mx().array((1 / frequencies).astype(np.float32)),
    )  # fmt: skip
    read = {name: value for name, value in usage.parameters.items() if name != "truncate"}
    compare(only(TURN, {"q": x}, **read, **scaling, offset=OFFSET), theirs)
    on_tables = only(TURN, {"q": x}, **{**read, "attention_on": "tables"}, **scaling, offset=OFFSET)
    if dtype != "float32":
        assert (on_tables != to_numpy(theirs)).mean() > 0.1
