"""Which positions a request means: consecutive integers from an offset, or the caller's own real numbers."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, Length, Offset, Positions
from service.engine.scheme import Input, Inputs, Params, Sequence

Values = range | NDArray[np.float64]

POSITIONS_INPUT = Input(
    "positions",
    "Positions of any shape: integers or real numbers, negative too. The answer has their shape and then the channels.",
    required=False,
)


class Positioned(Params):
    """Parameters that say where the rows of a table lie."""

    length: Length | None = None
    offset: Offset = 0
    positions: Positions | None = None


@dataclass(frozen=True, slots=True)
class Where:
    """The positions of the rows: their shape (without the channel axis) and their values in C order."""

    shape: tuple[int, ...]
    values: Values

    def part(self, start: int, stop: int) -> Values:
        """Positions of rows `start` to `stop`; for consecutive integers also beyond the request's own rows."""
        if isinstance(self.values, range):
            first = self.values.start
            return range(first + start, first + stop)
        return self.values[start:stop]

    @property
    def axes(self) -> tuple[str, ...]:
        return ("position",) if len(self.shape) == 1 else batch_axes(len(self.shape) - 1) + ("position",)


def batch_axes(count: int) -> tuple[str, ...]:
    """Names for `count` leading axes.

    >>> batch_axes(1), batch_axes(2)
    (('batch',), ('batch_0', 'batch_1'))
    """
    return ("batch",) if count == 1 else tuple(f"batch_{axis}" for axis in range(count))


def where(params: Positioned, inputs: Inputs) -> Where:
    """The positions a request means; refuses none, several ways at once, and what float64 cannot count."""
    if "positions" in inputs:
        _refuse_beside_positions(params, given_twice=params.positions is not None)
        return _explicit(inputs["positions"])
    if params.positions is not None:
        _refuse_beside_positions(params, given_twice=False)
        return _explicit(np.asarray(params.positions, np.float64))
    if params.length is None:
        raise Refusal("length", "missing", "length is missing: give length=, or positions=")
    return consecutive(params.offset, params.length)


def consecutive(offset: int, length: int) -> Where:
    """`length` integers from `offset`."""
    if offset + length - 1 > LARGEST_EXACT_INTEGER:
        raise Refusal(
            "offset",
            "out_of_range",
            f"the last position, offset + length - 1, is {offset + length - 1}; it can be 2^53 at most",
            limit=LARGEST_EXACT_INTEGER,
        )
    return Where((length,), range(offset, offset + length))


def sequence(params: Positioned, inputs: Inputs) -> Sequence | None:
    """Consecutive positions lie in one endless table per set of other parameters."""
    if "positions" in inputs or params.positions is not None or params.length is None:
        return None
    key: Hashable = params.model_copy(update={"length": None, "offset": 0})
    return Sequence(key, params.offset)


def as_positions(array: NDArray[np.generic], parameter: str = "/positions") -> NDArray[np.float64]:
    """Real positions as float64, in C order; refuses what is not a finite number within 2^53."""
    if array.size == 0:
        raise Refusal(parameter, "empty", "positions is empty; at least one position is needed")
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise Refusal(
            parameter, "type", f"positions are {array.dtype.name}; integers or real numbers are needed"
        )
    # Integers are compared before they become float64: 2^53 + 1 would round to 2^53 and pass.
    exact = array if array.dtype.kind in "iu" else array.astype(np.float64)
    inside = (exact >= -LARGEST_EXACT_INTEGER) & (exact <= LARGEST_EXACT_INTEGER)
    if not inside.all():
        index = int(np.argmin(inside.reshape(-1)))
        place = "/".join(str(int(i)) for i in np.unravel_index(index, array.shape))
        raise Refusal(
            f"{parameter}/{place}" if place else parameter,
            "out_of_range",
            "positions are finite numbers between -2^53 and 2^53, where every integer is a float64",
            limit=LARGEST_EXACT_INTEGER,
        )
    return np.ascontiguousarray(exact, np.float64)


def _explicit(array: NDArray[np.generic]) -> Where:
    values = as_positions(array)
    shape = values.shape or (1,)
    return Where(shape, values.reshape(-1))


def _refuse_beside_positions(params: Positioned, *, given_twice: bool) -> None:
    if given_twice:
        raise Refusal(
            "positions", "repeated", "positions are given in the address and in the body; give them once"
        )
    for name in ("length", "offset"):
        if getattr(params, name):
            raise Refusal(
                name, "conflict", f"{name} and positions exclude each other; positions say everything"
            )
