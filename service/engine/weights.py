"""Weights of an encoding: the caller's own, trained, or random ones that a seed decides."""

import numpy as np

from service.engine.errors import Refusal
from service.engine.pairs import Floats
from service.engine.quantities import Seed
from service.engine.scheme import Inputs

LARGEST, SMALLEST = 2.0**50, 2.0**-300


def trained(inputs: Inputs, name: str, axes: tuple[str, ...], sizes: tuple[int | None, ...]) -> Floats:
    """An array of weights of that shape (None: any size), as float64; refuses others, and numbers beyond 2^50.

    >>> trained({"weights": np.array([1, 2])}, "weights", ("channel",), (None,)).tolist()
    [1.0, 2.0]
    """
    array, pointer = inputs[name], f"/tensors/{name}"
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise Refusal(pointer, "type", f"{name} holds {array.dtype.name}; numbers are needed")
    fits = array.ndim == len(sizes) and all(size in (None, had) for size, had in zip(sizes, array.shape, strict=True))
    if not fits or array.size == 0:
        wanted = ", ".join(f"{axis} {size or ''}".strip() for axis, size in zip(axes, sizes, strict=True))
        raise Refusal(pointer, "shape", f"{name} has the shape {array.shape}; ({wanted}) is needed, not empty")
    numbers = np.asarray(array, np.float64)
    size = np.abs(numbers)
    if not ((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))).all():
        raise Refusal(
            pointer, "out_of_range", f"{name} holds numbers that are not 0 nor between 2^-300 and 2^50 in size"
        )
    return numbers


def seed_of(seed: Seed | None, inputs: Inputs, names: tuple[str, ...]) -> int | None:
    """The seed, or None where the caller brings the weights; refuses neither and both.

    >>> seed_of(7, {}, ("weights",))
    7
    """
    brought = [name for name in names if name in inputs]
    if brought and seed is not None:
        raise Refusal("seed", "conflict", f"seed draws weights, and the body brings {brought[0]}; give one of them")
    if not brought and seed is None:
        wanted = " and ".join(f"/tensors/{name}" for name in names)
        raise Refusal("seed", "missing", f"seed is missing: give seed=0, say, or the weights in the body as {wanted}")
    return seed
