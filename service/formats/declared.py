"""Checks what a header declares against the bytes that are there, before anything is made of it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.formats.errors import Unreadable, echo

Body = bytes | bytearray | memoryview
MOST_AXES = 32
_MOST_VALUES = 1 << 48


def shape_of(declared: object, what: str, pointer: str | None = None) -> tuple[int, ...]:
    """The declared shape, if it is one: at most 32 whole numbers that are not negative."""
    if not isinstance(declared, list | tuple) or not all(type(length) is int for length in declared):
        raise Unreadable("shape", f"{what}: {echo(declared)} is no shape", pointer)
    if len(declared) > MOST_AXES:
        raise Unreadable("shape", f"{what} has {len(declared)} axes; at most {MOST_AXES} are read", pointer)
    if any(length < 0 for length in declared):
        raise Unreadable("shape", f"{what}: the shape {echo(declared)} has a negative length", pointer)
    if math.prod(filter(None, declared)) > _MOST_VALUES:
        raise Unreadable("shape", f"{what}: the shape {echo(declared)} is beyond any memory", pointer)
    return tuple(declared)


def size_fits(shape: Sequence[int], dtype: np.dtype[Any], there: int, what: str, *, pointer: str | None = None) -> None:
    """Raise `Unreadable` unless the values of this shape and dtype take exactly the bytes that are there."""
    due = math.prod(shape) * dtype.itemsize
    if due != there:
        raise Unreadable("size", f"{what} declares {echo(tuple(shape))} {dtype}, {due} bytes, and has {there}", pointer)


def view(
    body: Body, offset: int, shape: Sequence[int], dtype: np.dtype[Any], *, pointer: str | None = None
) -> NDArray[Any]:
    """The values as an array: a view of the body, copied only where the machine could not read it there."""
    flat = np.frombuffer(body, dtype, math.prod(shape), offset) if math.prod(shape) else np.empty(0, dtype)
    if dtype == np.bool_ and flat.view(np.uint8).max(initial=0) > 1:
        raise Unreadable("value", "a boolean is neither 0 nor 1", pointer)
    return np.require(flat.reshape(shape), dtype.newbyteorder("="), ["ALIGNED"])
