"""Which positions a request means: consecutive integers from an offset, or the caller's own real numbers."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

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
    """The positions of the rows: their shape (without the channel axis) and their values in C order.

    >>> consecutive(7, 2)
    Where(shape=(2,), values=range(7, 9))
    """

    shape: tuple[int, ...]
    values: Values

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of those axes."""
        return ("position",) if len(self.shape) == 1 else (*batch_axes(len(self.shape) - 1), "position")

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest position."""
        if isinstance(self.values, range):
            return float(self.values[0]), float(self.values[-1])
        return float(self.values.min()), float(self.values.max())

    @property
    def farthest(self) -> float:
        """The largest distance from position 0."""
        return max(abs(end) for end in self.ends)


def batch_axes(count: int) -> tuple[str, ...]:
    """Names for `count` leading axes.

    >>> batch_axes(1), batch_axes(2)
    (('batch',), ('batch_0', 'batch_1'))
    """
    return ("batch",) if count == 1 else tuple(f"batch_{axis}" for axis in range(count))


def where(params: Positioned, inputs: Inputs) -> Where:
    """The positions a request means; refuses none, several ways at once, and what float64 cannot count."""
    if "positions" in inputs or params.positions is not None:
        _refuse_beside_positions(params)
        return _explicit(*given_positions(params.positions, inputs))
    if params.length is None:
        raise Refusal("length", "missing", "length is missing: give length=, or positions=")
    return consecutive(params.offset, params.length)


def part(params: Positioned, inputs: Inputs, start: int, stop: int) -> Values:
    """The positions of rows `start` to `stop`, after `where` has checked them all.

    Consecutive integers have rows beyond the request's own as well: rows of one endless table.

    >>> part(Positioned(length=2, offset=7), {}, -1, 3)
    range(6, 10)
    """
    given = inputs["positions"].flat if "positions" in inputs else params.positions
    if given is None:
        return range(params.offset + start, params.offset + stop)
    return np.asarray(given[start:stop]).astype(np.float64) + 0.0


def given_positions(listed: Positions | None, inputs: Inputs) -> tuple[NDArray[Any], str]:
    """Explicit positions, and the name that a refusal gives them; refuses them in both places at once."""
    if "positions" not in inputs:
        return np.asarray(listed, np.float64), "positions"
    if listed is not None:
        raise Refusal("positions", "repeated", "positions are given in the address and in the body; give them once")
    return inputs["positions"], "/positions"


def consecutive(offset: int, length: int) -> Where:
    """`length` integers from `offset`."""
    last = offset + length - 1
    if last > LARGEST_EXACT_INTEGER:
        raise Refusal(
            "offset",
            "out_of_range",
            f"the last position, offset + length - 1, is {last}; it can be 2^53 at most",
            limit=LARGEST_EXACT_INTEGER,
            requested=last,
        )
    return Where((length,), range(offset, offset + length))


def sequence(params: Positioned, inputs: Inputs) -> Sequence | None:
    """Consecutive positions lie in one endless table per set of other parameters."""
    if "positions" in inputs or params.positions is not None or params.length is None:
        return None
    key: Hashable = params.model_copy(update={"length": None, "offset": 0})
    return Sequence(key, params.offset)


def as_positions(array: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Real positions as float64, in C order; refuses what is not a finite number within 2^53.

    >>> as_positions(np.array([3, -0.0]), "/positions").tolist()
    [3.0, 0.0]
    """
    if array.ndim == 0:
        raise Refusal(name, "shape", "positions is a single number; a list is needed, such as [7]")
    if array.size == 0:
        raise Refusal(name, "empty", "positions is empty; at least one position is needed")
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise Refusal(name, "type", f"positions are {array.dtype.name}; integers or real numbers are needed")
    # Integers are compared before they become float64: 2^53 + 1 would round to 2^53 and pass.
    exact = array if array.dtype.kind in "iu" else array.astype(np.float64)
    inside = (exact >= -LARGEST_EXACT_INTEGER) & (exact <= LARGEST_EXACT_INTEGER)
    if not inside.all():
        raise _outside(exact, int(np.argmin(inside)), name)
    return np.asarray(exact, np.float64, order="C") + 0.0


def _outside(array: NDArray[Any], index: int, name: str) -> Refusal:
    place = "/".join(str(int(axis)) for axis in np.unravel_index(index, array.shape))
    pointer = f"{name}/{place}" if name.startswith("/") else name
    return Refusal(
        pointer,
        "out_of_range",
        f"position {place} is {array.flat[index]}; positions are finite numbers between -2^53 and 2^53, "
        "where every integer is a float64",
        limit=LARGEST_EXACT_INTEGER,
    )


def _explicit(array: NDArray[Any], name: str) -> Where:
    values = as_positions(array, name)
    return Where(values.shape, values.reshape(-1))


def _refuse_beside_positions(params: Positioned) -> None:
    for name in ("length", "offset"):
        if getattr(params, name):
            raise Refusal(name, "conflict", f"{name} and positions exclude each other; positions say everything")
