"""What a format is: tensors known by axes, shape and dtype in; bytes out, in blocks.

A format knows the size of its answer before anything is computed, says which tensors it cannot hold, and
pulls the rows it needs through a callback, so that a table of any length streams in constant memory.
`Binary` formats have a layout of parts of known length and serve any byte window; `Text` formats know their
length only by writing.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from service.formats.errors import CannotHold

type_of: Mapping[str, np.dtype[Any]] = {
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "int8": np.dtype("i1"),
    "uint8": np.dtype("u1"),
    "int16": np.dtype("<i2"),
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
    "bool": np.dtype("?"),
}
BLOCK_BYTES = 2 << 20
# Answers with as many bytes of values are small: computing all of one costs little more than computing some.
KEPT_BYTES = 4 << 20


class TensorSpec(Protocol):
    """What is known of a tensor before it is computed."""

    @property
    def axes(self) -> tuple[str, ...]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...


Tensors = Mapping[str, TensorSpec]
Rows = Callable[[str, int, int], NDArray[Any]]
Document = Mapping[str, object]
Chunk = bytes | memoryview
Nonfinite = Literal["refuse", "string"]
Theme = Literal["light", "dark"]
PictureWidth = Literal["wide", "narrow"]


@dataclass(frozen=True, slots=True)
class Captions:
    """What a picture says beside the values.

    `first` is the number of an axis' first index where it is not 0; None where its indices are not numbered in a row.
    `named` says what the indices of an axis are called; `lines` are values that heights are compared with; `notes` are
    sentences about how the values are meant.
    `quantities` says what a tensor's values are; those of one quantity are shown side by side with one scale. `shares`
    are tensors of parts of a whole, shown from 0 to 100 percent.
    `uniform` has for a tensor the value that all would have if they were alike: its picture shows how many times that
    each of them is, and its last row once more, as heights.
    """

    title: str = ""
    parameters: str = ""
    first: Mapping[str, int | None] = field(default_factory=dict)
    named: Mapping[str, Sequence[str]] = field(default_factory=dict)
    theme: Theme = "light"
    lines: Mapping[str, float] = field(default_factory=dict)
    width: PictureWidth = "wide"
    uniform: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    quantities: Mapping[str, str] = field(default_factory=dict)
    shares: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to be written; `rows(name, start, stop)` gives those C-order rows of a tensor."""

    document: Document
    tensors: Tensors
    rows: Rows
    block_bytes: int = BLOCK_BYTES
    nonfinite: Nonfinite = "refuse"
    captions: Captions = Captions()


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a binary file: how long it is, and how to read any window of it."""

    length: int
    read: Callable[[int, int], Iterator[Chunk]]


@dataclass(frozen=True, slots=True)
class Format(ABC):
    """A way to write tensors. `revision` changes whenever the bytes of the same answer would.

    `ranges` says which answers have byte windows: all, small ones, or none.
    """

    extension: str
    media_type: str
    revision: str
    ranges: Literal["bytes", "small", "none"]

    def check(self, tensors: Tensors) -> None:
        """Raise `CannotHold`, naming the formats that can, if these tensors have no place in this format."""
        can = holders(tensors)
        if self.extension not in can:
            raise CannotHold(*_reason(self.extension, tensors), can)

    @abstractmethod
    def size(self, document: Document, tensors: Tensors) -> int | None:
        """The exact number of bytes, from the specs alone; None where only writing would tell."""

    @abstractmethod
    def bound(self, document: Document, tensors: Tensors) -> int:
        """No answer of these specs is longer than this many bytes."""

    def has_ranges(self, tensors: Tensors) -> bool:
        """Whether a byte window of this answer costs no more than its own rows, or the answer is a small one."""
        if self.ranges == "small":
            return sum(map(nbytes, tensors.values())) <= KEPT_BYTES
        return self.ranges == "bytes"

    def working(self, tensors: Tensors) -> int:  # noqa: ARG002 - most formats write blocks as they come
        """How much memory writing takes besides a block of rows and the bytes themselves."""
        return 0

    def stream(
        self,
        document: Document,
        tensors: Tensors,
        rows: Rows,
        *,
        start: int = 0,
        stop: int | None = None,
        block_bytes: int = BLOCK_BYTES,
        nonfinite: Nonfinite = "refuse",
        captions: Captions = Captions(),
    ) -> Iterator[Chunk]:
        """The answer's bytes from `start` to `stop`, in blocks; a window only where `ranges` is "bytes"."""
        self.check(tensors)
        return self.chunks(Answer(document, tensors, rows, block_bytes, nonfinite, captions), start, stop)

    @abstractmethod
    def chunks(self, answer: Answer, start: int, stop: int | None) -> Iterator[Chunk]:
        """The bytes of an answer whose tensors this format can hold."""


@dataclass(frozen=True, slots=True)
class Binary(Format):
    """A format whose every byte has its place before anything is computed."""

    parts: Callable[[Answer], Sequence[Part]]

    def size(self, document: Document, tensors: Tensors) -> int:
        self.check(tensors)
        return sum(part.length for part in self.parts(Answer(document, tensors, _no_rows)))

    def bound(self, document: Document, tensors: Tensors) -> int:
        return self.size(document, tensors)

    def chunks(self, answer: Answer, start: int, stop: int | None) -> Iterator[Chunk]:
        parts = self.parts(answer)
        size = sum(part.length for part in parts)
        stop = size if stop is None else stop
        if not 0 <= start <= stop <= size:
            raise ValueError(f"the window {start}:{stop} is not within 0:{size}")
        return window(parts, start, stop)


@dataclass(frozen=True, slots=True)
class Text(Format):
    """A format whose length depends on the digits of its values."""

    longest: Callable[[Document, Tensors], int]
    write: Callable[[Answer], Iterator[Chunk]]

    def size(self, document: Document, tensors: Tensors) -> None:  # noqa: ARG002 - only writing would tell
        self.check(tensors)

    def bound(self, document: Document, tensors: Tensors) -> int:
        self.check(tensors)
        return self.longest(document, tensors)

    def chunks(self, answer: Answer, start: int, stop: int | None) -> Iterator[Chunk]:
        if start or stop is not None:
            raise ValueError(f"{self.extension} has no byte windows")
        return self.write(answer)


def holders(tensors: Tensors) -> tuple[str, ...]:
    """The formats that can hold these tensors, the most faithful first.

    One table for every format, so that a refusal by one can name the others.
    """
    specs = list(tensors.values())
    single = len(specs) == 1
    brain = any(spec.dtype == "bfloat16" for spec in specs)
    can = {
        "npz": not brain,
        "safetensors": True,
        "npy": not brain and len({(spec.shape, spec.dtype) for spec in specs}) == 1,
        "bin": single,
        "csv": single and specs[0].shape[-1:] != (0,),
        "json": True,
    }
    return tuple(name for name, holds in can.items() if holds)


def _reason(extension: str, tensors: Tensors) -> tuple[str, str]:
    names = ", ".join(tensors)
    if extension in ("npy", "npz") and any(spec.dtype == "bfloat16" for spec in tensors.values()):
        return "dtype", f"{extension} has no bfloat16"
    if extension == "npy":
        return "shapes", f"npy holds one array, and {names} differ in shape or dtype; tensor=NAME picks one"
    if len(tensors) == 1:
        return "empty", f"{extension} has no way to write rows without columns"
    return "several", f"{extension} holds one tensor, and these are {names}; tensor=NAME picks one"


def nbytes(spec: TensorSpec) -> int:
    """The bytes of a tensor's values."""
    return math.prod(spec.shape) * type_of[spec.dtype].itemsize


def _no_rows(name: str, start: int, stop: int) -> NDArray[Any]:
    raise AssertionError(f"a size is known without computing rows {start}:{stop} of {name}")


def window(parts: Sequence[Part], start: int, stop: int) -> Iterator[Chunk]:
    """The bytes from `start` to `stop` of the parts laid end to end; parts outside are not read."""
    for part in parts:
        low, high = max(start, 0), min(stop, part.length)
        if low < high:
            yield from part.read(low, high)
        start -= part.length
        stop -= part.length
