"""The shared vocabulary: one annotated type for each quantity that parameters speak of.

Numbers arrive as text from a query or as numbers from code. Text is read strictly: an integer is an optional minus
and digits, a real number may have a fraction and an exponent, and nothing else is a number (no `1_0`, ` 5`, `+3`,
`5.0` for an integer, `inf`). What is read is the nearest float64; integers are exact up to 2^53.

>>> from pydantic import TypeAdapter
>>> TypeAdapter(Positions).validate_python("0,-3,.5,1e4")
(0.0, -3.0, 0.5, 10000.0)
"""

import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

LARGEST_EXACT_INTEGER = 2**53
LONGEST_LIST = 512

_INTEGER = re.compile(r"-?[0-9]{1,4000}", re.ASCII)
_REAL = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_PLUS_READ_AS_SPACE = re.compile(r"-?[0-9.]+[eE] [0-9]+", re.ASCII)


def _integer(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("integer", "an integer is needed, not a truth value")
    if not isinstance(value, str):
        return value
    if not _INTEGER.fullmatch(value):
        raise PydanticCustomError("integer", "an integer is needed: digits with an optional minus, such as 128")
    return int(value)


def _real(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "a number is needed, not a truth value")
    if not isinstance(value, str):
        return value
    if _PLUS_READ_AS_SPACE.fullmatch(value):
        raise PydanticCustomError("number", "a + in an address means a space: write the exponent as 1e4 or 1e%2B4")
    if not _REAL.fullmatch(value):
        raise PydanticCustomError("number", "a finite decimal number is needed, such as 10000, 0.5 or 1e4")
    number = float(value)
    if number in (float("inf"), float("-inf")):
        raise PydanticCustomError("number", "the number is too large for float64 (about 1.8e308)")
    return number + 0.0  # -0 is the number 0


def _position(value: object) -> object:
    """A real number; an integer beyond 2^53 is refused, for its float64 might be another integer."""
    number = _real(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value) and abs(int(value)) > LARGEST_EXACT_INTEGER:
        raise PydanticCustomError(
            "out_of_range", "positions lie between -2^53 and 2^53, where every integer is a float64"
        )
    return number


def _listed(read: Callable[[object], object], what: str, example: str = "0,5,7") -> Callable[[object], object]:
    def entries(value: object) -> object:
        if isinstance(value, list | tuple):
            return tuple(entry(index, part) for index, part in enumerate(value))
        if not isinstance(value, str):
            return value
        parts = value.split(",", LONGEST_LIST)
        if len(parts) > LONGEST_LIST:
            raise PydanticCustomError(
                "too_long",
                "a list in the address holds at most {limit} entries: send more in the body of a POST",
                {"limit": LONGEST_LIST},
            )
        if "" in parts:
            place = {"what": what, "example": example}
            raise PydanticCustomError("list", "a comma-separated list of {what} is needed, such as {example}", place)
        return tuple(entry(index, part) for index, part in enumerate(parts))

    def entry(index: int, part: object) -> object:
        try:
            return read(part)
        except PydanticCustomError as error:
            place = {"index": index, "why": error.message_template}
            raise PydanticCustomError(error.type, "entry {index}: {why}", place) from None

    return entries


def listed_reals(what: str) -> Callable[[object], object]:
    """A reader of comma-separated real numbers, which a refusal calls `what`."""
    return _listed(_real, what)


def listed_integers(what: str, example: str) -> Callable[[object], object]:
    """A reader of comma-separated integers."""
    return _listed(_integer, what, example)


def listed_texts(what: str, example: str) -> Callable[[object], object]:
    """A reader of comma-separated words."""
    return _listed(lambda text: text, what, example)


Integer = Annotated[int, BeforeValidator(_integer)]
ExactInteger = Annotated[Integer, Field(ge=-LARGEST_EXACT_INTEGER, le=LARGEST_EXACT_INTEGER)]
Real = Annotated[float, BeforeValidator(_real)]

Length = Annotated[
    Integer, Field(ge=1, le=LARGEST_EXACT_INTEGER, description="Number of positions, counted from `offset`.")
]
WIDEST = 65_536  # channels
Dim = Annotated[Integer, Field(ge=1, le=WIDEST, description="Width of the encoding: channels per position.")]
HeadDim = Annotated[
    Integer, Field(ge=2, le=WIDEST, description="Width of an attention head (even, unless only a part is rotated).")
]
RotaryDim = Annotated[
    Integer,
    Field(ge=2, le=WIDEST, description="How many channels of a head are rotated (even; all)."),
]
PartialRotaryFactor = Annotated[
    Real,
    Field(gt=0, le=1, description="The rotated share of a head: `rotary_dim` = int(dim * factor), truncated."),
]
Base = Annotated[
    Real,
    Field(ge=1e-19, le=1e100, description="Base of the geometric series of frequencies (theta, max period)."),
]
FrequencyShift = Annotated[Real, Field(ge=0, le=32_768)]
Offset = Annotated[ExactInteger, Field(description="Position of the first row (may be negative).")]
Positions = Annotated[
    tuple[float, ...],
    BeforeValidator(_listed(_position, "positions")),
    Field(
        min_length=1,
        max_length=LONGEST_LIST,
        description="The positions themselves, comma-separated: integers or real numbers, negative too.",
    ),
]
PerHead = Annotated[
    tuple[Annotated[float, Field(gt=0, le=1e6)], ...],
    BeforeValidator(_listed(_real, "numbers")),
    Field(min_length=1, max_length=LONGEST_LIST),
]
Window = Annotated[
    tuple[Annotated[int, Field(ge=1, le=65_536)], ...],
    BeforeValidator(_listed(_integer, "window sizes")),
    Field(
        min_length=2,
        max_length=3,
        description="Patches of an attention window: height,width, or frames,height,width for video.",
    ),
]
MOST_CELLS_ALONG = 2**40  # so that the centre of a cell, i + 1/2, is a float64
_side = BeforeValidator(_listed(_integer, "sizes", "4,6"))
GridSide = Annotated[int, Field(ge=1, le=MOST_CELLS_ALONG)]
Grid2D = Annotated[
    tuple[GridSide, ...],
    _side,
    Field(min_length=1, max_length=2, description="Cells of the grid: height,width; one number means a square."),
]
Grid3D = Annotated[
    tuple[GridSide, ...],
    _side,
    Field(min_length=1, max_length=3, description="Cells of the grid: frames,height,width; one number means a cube."),
]
GridSides = Annotated[tuple[GridSide, ...], _side, Field(min_length=1, max_length=3)]
BasePerAxis = Annotated[
    tuple[Annotated[float, Field(ge=1e-19, le=1e100)], ...],
    BeforeValidator(_listed(_real, "numbers", "20,30")),
    Field(
        min_length=1,
        max_length=2,
        description="Base of the geometric series of frequencies (temperature): one number, or height,width.",
    ),
]
PerAxis = Annotated[
    tuple[Annotated[float, Field(ge=1e-6, le=1e6)], ...],
    BeforeValidator(_listed(_real, "numbers", "1,1.875")),
    Field(min_length=1, max_length=3),
]
Origin = Annotated[
    float,
    BeforeValidator(_position),
    Field(
        ge=-LARGEST_EXACT_INTEGER,
        le=LARGEST_EXACT_INTEGER,
        description="The position that counts as 0: it is subtracted first, in float64.",
    ),
]
SegmentLengths = Annotated[
    tuple[Annotated[int, Field(ge=1, le=LARGEST_EXACT_INTEGER)], ...],
    BeforeValidator(_listed(_integer, "lengths")),
    Field(
        min_length=1,
        max_length=LONGEST_LIST,
        description="Lengths of the sequences that share a row, comma-separated; together they are the keys.",
    ),
]
Heads = Annotated[
    Integer, Field(ge=1, le=65_536, description="Number of attention heads (any, not only powers of two).")
]
Queries = Annotated[
    Integer,
    Field(ge=1, le=LARGEST_EXACT_INTEGER, description="Number of query positions; `length` gives both."),
]
Keys = Annotated[
    Integer,
    Field(ge=1, le=LARGEST_EXACT_INTEGER, description="Number of key positions (default: as many as queries)."),
]

DType = Annotated[
    Literal["float16", "bfloat16", "float32", "float64"],
    Field(description="Number format of the answer; every value is rounded to it once."),
]
Layout = Annotated[
    Literal["interleaved", "sin-cos", "cos-sin"],
    Field(
        description="Channel order: `interleaved` sin, cos, sin, cos, ...; `sin-cos` all sines then all cosines; "
        "`cos-sin` the reverse."
    ),
]
AngleFactor = Annotated[
    Literal["one", "pi", "two-pi"],
    Field(description="What multiplies every frequency: 1, pi or 2 pi."),
]
Seed = Annotated[
    Integer,
    Field(ge=0, le=LARGEST_EXACT_INTEGER, description="Seed of the random numbers: the same seed, the same bytes."),
]
OddWidth = Annotated[
    Literal["extra-sine", "zero-column", "truncate", "refuse"],
    Field(
        description="What an odd `dim` means: `extra-sine` one more sine than cosines (frequency exponents over dim); "
        "`zero-column` floor(dim/2) pairs and a last column of zeros; `truncate` the table of dim + 1 (exponents over "
        "dim + 1) without its last channel; `refuse` a 422."
    ),
]
Pairing = Annotated[
    Literal["half", "interleaved"],
    Field(description="Which channels turn together: `half` k with k + width/2; `interleaved` 2k with 2k + 1."),
]
Columns = Annotated[
    Literal["full", "half"],
    Field(
        description="`full`: one column a channel (pairing half: [c|c]; interleaved: c0, c0, c1, c1, ...); "
        "`half`: one column a pair."
    ),
]
Arithmetic = Annotated[
    Literal["exact", "float32", "ggml"],
    Field(
        description="`exact`: the real-number formula, rounded once; `float32`: step by step as PyTorch model code; "
        "`ggml`: the running float32 product of llama.cpp."
    ),
]
ExactOrFloat32 = Annotated[
    Literal["exact", "float32"],
    Field(description="`exact`: the real-number formula, rounded once; `float32`: step by step as PyTorch model code."),
]
BatchAxis = Annotated[
    Literal["none", "first", "second"],
    Field(description="`none` (length, dim); `first` (1, length, dim); `second` (length, 1, dim): the same numbers."),
]
