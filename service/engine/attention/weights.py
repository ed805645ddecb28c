"""Weights of an encoding: the caller's own, trained, or random ones that a seed decides."""

from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow
from service.engine.numbers.pairs import Floats, two_product
from service.engine.numbers.random_numbers import normal
from service.engine.quantities import Real, Seed
from service.engine.rounding import DTYPES, nearest_of_sum
from service.engine.scheme import Array, Inputs, Params, unused

LARGEST, SMALLEST = 2.0**50, 2.0**-300
MOST_DRAWN = 1 << 22  # numbers: about a second
FARTHEST_DRAWN = 9.0  # no normal number of `random_numbers` lies farther out


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


class Drawn(Params):
    """Parameters of a table that a seed draws, unless the body brings one."""

    seed: Annotated[
        Seed | None,
        Field(
            description="Seed of a table of random numbers (the same seed, the same bytes), where the body has none."
        ),
    ] = None
    scale: Annotated[
        Real,
        Field(ge=1e-9, le=1e9, description="It multiplies the table: for a drawn one it is the standard deviation."),
    ] = 1.0


def refuse_table(params: Drawn, inputs: Inputs, axes: tuple[str, ...], shape: tuple[int, int], dtype: str) -> None:
    """Refuse a `table` of another shape, none and no seed, one too large to be drawn, and numbers beyond the format."""
    if "table" in inputs:
        largest = float(np.abs(trained(inputs, "table", axes, shape)).max())
    else:
        seed_of(params.seed, inputs, ("table",))
        _refuse_many(axes, shape)
        largest = FARTHEST_DRAWN
    refuse_overflow(largest * params.scale, dtype, "the table")


def _refuse_many(axes: tuple[str, ...], shape: tuple[int, int]) -> None:
    rows, columns = shape
    if rows * columns > MOST_DRAWN:
        raise Refusal(
            axes[1],
            "out_of_range",
            f"{axes[0]} {rows} times {axes[1]} {columns} are {rows * columns} random numbers; {MOST_DRAWN} are drawn "
            f"at most: fewer {axes[1]} or {axes[0]} would do, or a table in the body",
            limit=MOST_DRAWN,
            requested=rows * columns,
        )


def table(params: Drawn, inputs: Inputs, axes: tuple[str, ...], shape: tuple[int, int], dtype: str) -> Array:
    """The body's `table`, or the one that the seed draws, times scale, rounded once.

    >>> table(Drawn(scale=0.1), {"table": np.array([[1, 2]])}, ("row", "head"), (1, 2), "float32").tolist()
    [[0.10000000149011612, 0.20000000298023224]]
    """
    if "table" in inputs:
        numbers = trained(inputs, "table", axes, shape)
    else:
        numbers = normal(params.seed or 0, range(shape[0]), shape[1])
    return nearest_of_sum(*two_product(numbers, np.array(params.scale)), DTYPES[dtype])


def table_notes(params: Drawn, inputs: Inputs) -> list[str]:
    """What was given and has no effect."""
    return unused(params, ("seed",) if "table" in inputs else (), "a table in the body")
