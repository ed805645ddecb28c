"""Position ids: what every rule that counts tokens shares."""

from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from service.engine.attention.relative import IndexDType
from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, ExactInteger
from service.engine.scheme import Params

FirstPosition = Annotated[
    ExactInteger, Field(description="Position of the first token (RoBERTa: padding_idx + 1 = 2).")
]
N = TypeVar("N", bound=np.generic)


class PositionIds(Params):
    """Parameters that all rules share."""

    dtype: IndexDType = "int64"


def refuse_uncountable(dtype: str, name: str, first: int, count: int) -> None:
    """Refuse positions from `first` on that float64 does not count, or that int32 cannot hold.

    >>> refuse_uncountable("int32", "offset", 2**31 - 4, 5)
    Traceback (most recent call last):
    service.engine.errors.Refusal: offset makes the position 2147483649; int32 reaches from -2147483648 to 2147483647
    """
    most = LARGEST_EXACT_INTEGER if dtype == "int64" else 2**31 - 1
    least = -most if dtype == "int64" else -(2**31)
    for position in (first, first + count):
        if not least <= position <= most:
            able = f"{dtype} reaches from {least} to {most}" if dtype == "int32" else "2^53 is the farthest"
            detail = f"{name.strip('/')} makes the position {position}; {able}"
            raise Refusal(name, "out_of_range", detail, limit=most, requested=position)


def id_rows(array: NDArray[N], start: int, stop: int) -> NDArray[N]:
    """Rows `start` to `stop` of what the caller brings, (rows, tokens).

    >>> id_rows(np.array([7, 7, 8]), 0, 1).tolist()
    [[7, 7, 8]]
    """
    return array.reshape(-1, array.shape[-1])[start:stop]
