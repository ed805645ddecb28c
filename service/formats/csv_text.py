"""`.csv`: one tensor as a table that numpy, pandas and spreadsheets read, one line a row of the last axis.

The first line names the columns: the last axis with its index (`channel_0,channel_1,...`), and before it,
for more than two axes, one index column for each leading axis (`head,query,key_0,...`). Values are the
shortest decimals that read back equal, and `inf`, `-inf`, `nan` as numpy and pandas read them; booleans are
0 and 1. Lines end in a line feed alone, as numpy and pandas write them on Unix, so that line tools see
clean last columns. `numpy.loadtxt(file, delimiter=",", skiprows=1, dtype="float32")` gives a table of two
axes back as it was.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import orjson

from service.formats.blocks import blocks, count, width
from service.formats.decimals import LONGEST, Spelling, in_steps, nested
from service.formats.format import Answer, Chunk, Document, Tensors, TensorSpec, Text
from service.formats.json_text import gathered

COLUMNS = 4096
_WORDS: Spelling = (b"inf", b"-inf", b"nan")


def longest(document: Document, tensors: Tensors) -> int:  # noqa: ARG001 - a table has no place for it
    """An upper bound of the length: every value as long as its dtype can get, and every index."""
    (spec,) = tensors.values()
    indices = sum(len(str(length)) + 1 for length in _leading(spec))
    digits = 1 if spec.dtype == "bool" else LONGEST[spec.dtype]
    return _longest_titles(spec) + count(spec) * (indices + width(spec) * (digits + 1))


def write(answer: Answer) -> Iterator[Chunk]:
    """The lines in blocks of about `block_bytes`."""
    yield from gathered(_pieces(answer), answer.block_bytes)


def _pieces(answer: Answer) -> Iterator[bytes]:
    ((name, spec),) = answer.tensors.items()
    yield from _titles(spec)
    labels = map(_label, product(*map(range, _leading(spec))))
    steps = (part for rows in blocks(answer, name, 0, count(spec)) for part in in_steps(rows))
    for rows in steps:
        text = nested(rows.view(np.uint8) if spec.dtype == "bool" else rows, _WORDS)[2:-2]
        if _leading(spec):
            yield b"".join(next(labels) + line + b"\n" for line in text.split(b"],["))
        else:
            yield text.replace(b"],[", b"\n") + b"\n"


def _titles(spec: TensorSpec) -> Iterator[bytes]:
    """The first line, some columns at a time: a row may be wider than a line of text should ever be."""
    if not spec.shape:
        yield b"value\n"
        return
    yield "".join(f"{axis}," for axis in spec.axes[: len(_leading(spec))]).encode()
    for first in range(0, spec.shape[-1], COLUMNS):
        columns = range(first, min(first + COLUMNS, spec.shape[-1]))
        text = ",".join(f"{spec.axes[-1]}_{index}" for index in columns)
        yield text.encode() + (b"," if columns.stop < spec.shape[-1] else b"\n")


def _longest_titles(spec: TensorSpec) -> int:
    """An upper bound of the first line's length, every column as long as the last."""
    if not spec.shape:
        return len("value\n")
    longest_column = len(f"{spec.axes[-1]}_{spec.shape[-1]},")
    return sum(len(axis) + 1 for axis in spec.axes) + spec.shape[-1] * longest_column


def _leading(spec: TensorSpec) -> tuple[int, ...]:
    """The lengths of the axes that have an index column: all but the last, where there are more than two."""
    return spec.shape[:-1] if len(spec.shape) > 2 else ()


def _label(indices: tuple[int, ...]) -> bytes:
    return "".join(f"{index}," for index in indices).encode()


CSV = Text("csv", "text/csv", f"1-orjson-{orjson.__version__}", "none", longest, write)
