"""Before a process takes work it computes a few tables and compares them with values that are known.

What is expected was worked out with mpmath at 60 digits from the formulas, not with the engine, and rounded once to the
type; the tests do so again. A processor, a numpy or a build that computes anything else must not answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from service.engine import by_key
from service.engine.scheme import Array, whole


@dataclass(frozen=True, slots=True)
class Known:
    """A table, by its first tensor: its values in C order, or the BLAKE2b digest of its little-endian bytes."""

    family: str
    scheme: str
    query: Mapping[str, Any]
    expected: tuple[float, ...] | str

    def __str__(self) -> str:
        stated = ", ".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.family}/{self.scheme} ({stated})"


KNOWN = (
    # The sine and cosine of 131071 and of 131071/100.
    Known(
        "encodings",
        "sinusoidal",
        {"length": 1, "dim": 4, "offset": 131071},
        (-0.5752416849136353, -0.8179835081100464, -0.6177383661270142, -0.7863836884498596),
    ),
    # Of the largest position there is, 2^53 - 1: an argument that needs many digits of pi.
    Known(
        "encodings",
        "sinusoidal",
        {"length": 1, "dim": 2, "offset": 9007199254740991, "dtype": "float64"},
        (-0.013949324588032911, -0.9999027034384584),
    ),
    # A table of 131 rows: what goes through vector instructions, and what is left over beside them.
    Known("encodings", "sinusoidal", {"length": 131, "dim": 38}, "942d4c9f318d7dd5559abd372e6249ad"),
    # The cosines of 4095 and 40.95; of 1000003 and 1000003/500000^(1/2).
    Known(
        "encodings",
        "rope",
        {"length": 1, "dim": 4, "offset": 4095, "dtype": "float16"},
        (-0.06597900390625, -0.994140625, -0.06597900390625, -0.994140625),
    ),
    Known(
        "encodings",
        "rope",
        {"length": 1, "dim": 4, "offset": 1000003, "base": 500000, "dtype": "bfloat16"},
        (-0.87890625, 0.87890625, -0.87890625, 0.87890625),
    ),
    # 2^-1 to 2^-8, then 2^-0.5, 2^-1.5, 2^-2.5 and 2^-3.5.
    Known(
        "biases",
        "alibi-slopes",
        {"heads": 12},
        (
            *(0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625),
            *(0.7071067690849304, 0.3535533845424652, 0.1767766922712326, 0.0883883461356163),
        ),
    ),
    # By Raffel et al.: distances below 8 have buckets of their own, keys that lie ahead those from 16 on.
    Known("biases", "t5-buckets", {"length": 3}, (0, 17, 18, 1, 0, 17, 2, 1, 0)),
)


def failures(known: tuple[Known, ...] = KNOWN) -> list[str]:
    """What is not computed as it must be; nothing on a sound machine.

    >>> failures()
    []
    """
    return [found for each in known for found in _compared(each)]


def _compared(known: Known) -> Iterator[str]:
    try:
        values = computed(known)
    except Exception as error:  # a broken build can fail in any way, and each is a reason not to answer
        yield f"{known}: {type(error).__name__}: {error}"
        return
    if isinstance(known.expected, str):
        if digest(values) != known.expected:
            yield f"{known}: the digest is {digest(values)}, not {known.expected}"
    elif values.tobytes() != np.array(known.expected, values.dtype).tobytes():
        yield f"{known}: {values.ravel().tolist()}, not {list(known.expected)}"


def computed(known: Known) -> Array:
    """The first tensor, straight from the scheme."""
    scheme = by_key(known.family, known.scheme)
    return next(iter(whole(scheme, scheme.params(**known.query)).values()))


def digest(values: Array) -> str:
    """Of the bytes of a table, whatever the machine's own order."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return blake2b(little.tobytes(), digest_size=16).hexdigest()
