"""Rotary position embedding with mixed axes: learned frequencies, by which every axis turns every pair.

    angle of pair k at (p_1, p_2, ...) = p_1 w_1k + p_2 w_2k + ...

The frequencies are the caller's, one for each axis and pair, or one for each axis, head and pair.
"""

from collections.abc import Callable

import numpy as np

from service.engine.attention.weights import trained
from service.engine.errors import Refusal
from service.engine.frequencies import REAL_BYTES
from service.engine.numbers.pairs import Floats
from service.engine.numbers.reals import Reals
from service.engine.numbers.single import Singles, write_float32
from service.engine.numbers.sums import Sums
from service.engine.positions import as_positions
from service.engine.quantities import ExactOrFloat32, Pairing
from service.engine.scheme import Array, Input, Inputs, Params, Usage

MOST_AXES = 4
MOST_FREQUENCIES = 1 << 18  # each is prepared in some 15 microseconds

FREQUENCIES = Input(
    "frequencies",
    "Learned frequencies in radians per position: (axes, pairs), or (axes, heads, pairs), one layer of a model's.",
)
# cos and sin of one head at points (rows, axes), one column a pair, into two arrays.
Writer = Callable[[Floats, Array | None, Array | None], None]


class MixedRule(Params):
    """Parameters of a rotation with mixed axes."""

    pairing: Pairing = "interleaved"
    arithmetic: ExactOrFloat32 = "exact"


def frequencies_of(inputs: Inputs) -> Floats:
    """The frequencies as (heads, axes, pairs), of one head for all unless each has its own; refuses odd ones.

    >>> frequencies_of({"frequencies": np.array([[1.0, 0.5], [0.0, 2.0]])}).shape
    (1, 2, 2)
    """
    given, pointer = inputs["frequencies"], "/tensors/frequencies"
    heads = ("heads",) if given.ndim == 3 else ()
    numbers = trained(inputs, "frequencies", ("axes", *heads, "pairs"), (None,) * (2 + len(heads)))
    if len(numbers) > MOST_AXES:
        detail = f"frequencies are for {len(numbers)} axes; {MOST_AXES} is the most"
        raise Refusal(pointer, "shape", detail, limit=MOST_AXES, requested=len(numbers))
    if numbers.size > MOST_FREQUENCIES:
        detail = f"there are {numbers.size} frequencies; {MOST_FREQUENCIES} is the most"
        raise Refusal(pointer, "too_large", detail, limit=MOST_FREQUENCIES, requested=numbers.size)
    return np.moveaxis(numbers, 1, 0) if heads else numbers[None]


def each_its_own(inputs: Inputs) -> bool:
    """Whether every head has frequencies of its own."""
    return inputs["frequencies"].ndim == 3


def points_of(inputs: Inputs, axes: int) -> Floats:
    """The positions, (…, axes); refuses another number of axes."""
    points = as_positions(inputs["positions"], "/positions")
    if points.ndim < 2 or points.shape[-1] != axes:
        detail = f"positions have the shape {points.shape}; (…, {axes}) is needed, a position for each axis"
        raise Refusal("/positions", "shape", detail, limit=axes, requested=points.shape[-1])
    return points


def writers_of(params: MixedRule, inputs: Inputs) -> tuple[Writer, ...]:
    """What writes the waves of each head, or of all of them."""
    if params.arithmetic == "float32":
        return tuple(_in_float32(head.astype(np.float32)) for head in frequencies_of(inputs))
    return tuple(_exact(head) for head in frequencies_of(inputs))


def _exact(frequencies: Floats) -> Writer:
    sums = Sums([Reals.of(axis) for axis in frequencies.tolist()])
    return lambda points, cos, sin: sums.write(points, sin, cos)


def _in_float32(frequencies: Singles) -> Writer:
    """Products rounded to float32, added axis by axis, each sum rounded too."""

    def write(points: Floats, cos: Array | None, sin: Array | None) -> None:
        at = points.astype(np.float32)
        angles = at[:, 0, None] * frequencies[0]
        for axis in range(1, len(frequencies)):
            angles += at[:, axis, None] * frequencies[axis]
        write_float32(angles, sin, cos)

    return write


def state_bytes(inputs: Inputs) -> int:
    """The memory of the prepared frequencies."""
    return 2 * REAL_BYTES * inputs["frequencies"].size


FORMULA = """\
Pair k turns by the sum over the axes a of `p_a w_ak`: p_a the position on the axis, w_ak the learned frequency, which
may be another one in each head. With one axis, or with frequencies that are 0 on the others, this is the RoPE of
`rope_type=frequencies`."""
REFERENCE = "Heo et al., Rotary Position Embedding for Vision Transformer, 2024 (RoPE-Mixed); Mochi 1, 2024"


def usages(**formats: str) -> tuple[Usage, ...]:
    """Who turns so."""
    who = "timm RotaryEmbeddingMixed (RoPE-ViT, PE), positions (x, y); Mochi, positions (time, height, width)"
    return (Usage(who, {"arithmetic": "float32", "pairing": "interleaved", **formats}, preset="timm-mixed"),)
