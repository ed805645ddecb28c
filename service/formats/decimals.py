"""Numbers as decimal text: the shortest that reads back equal, and how long that can be.

float32 is written in the shortest form that a float32 reader reads back equal; float16 and bfloat16 are
widened to float32, which is exact, and written the same way. Nothing is ever widened to float64.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

# -0.000012345679 and -0.000020852143232985883 are as long as they come, not those with exponents.
LONGEST: Mapping[str, int] = {
    "float16": 16,
    "bfloat16": 16,
    "float32": 16,
    "float64": 24,
    "int8": 4,
    "uint8": 3,
    "int16": 6,
    "int32": 11,
    "int64": 20,
    "bool": 5,
}
Spelling = tuple[bytes, bytes, bytes]
# So many bytes of values are written at a time: orjson does not let go of the interpreter before it is done (2 ms),
# and whoever answers others waits for it.
WRITTEN_BYTES = 1 << 18


def in_steps(arrays: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Some of these arrays after the other, as many as are written at a time."""
    step = max(1, WRITTEN_BYTES * len(arrays) // max(1, arrays.nbytes))
    return (arrays[first : first + step] for first in range(0, len(arrays), step))


def nested(array: NDArray[Any], spelling: Spelling) -> bytes:
    """A C-contiguous array as nested JSON lists; `spelling` stands for infinity, minus infinity and NaN.

    >>> nested(np.array([[0.1, -np.inf]], np.float32), (b"inf", b"-inf", b"nan"))
    b'[[0.1,-inf]]'
    """
    if not _whole(array) and array.dtype.itemsize == 2:
        with np.errstate(invalid="ignore"):  # of signalling NaNs
            array = array.astype(np.float32)
    text = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
    proper = finite(array)
    return text if proper.all() else _spelled(text, array[~proper], spelling)


def finite(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Where the values are finite; for every dtype, and without a warning of signalling NaNs."""
    if _whole(array):
        return np.ones((), np.bool_)
    with np.errstate(invalid="ignore"):
        proper: NDArray[np.bool_] = np.isfinite(array)
    return proper


def _whole(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biu"


def _spelled(text: bytes, values: NDArray[Any], spelling: Spelling) -> bytes:
    """orjson writes null for each value that is not finite; they come in the order of the array."""
    which = np.where(np.isnan(values), 2, np.signbit(values).astype(int))
    if (which == which[0]).all():
        return text.replace(b"null", spelling[which[0]])
    words = iter([spelling[index] for index in which])
    return re.sub(b"null", lambda _: next(words), text)
