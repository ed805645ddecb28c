"""Rows of a tensor in contiguous blocks of no more than so many bytes, and the same as raw bytes."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.formats.format import KEPT_BYTES, Answer, Chunk, Part, Rows, Tensors, TensorSpec, nbytes, type_of


def width(spec: TensorSpec) -> int:
    """The length of one row: the last axis, or 1 for a tensor without axes."""
    return spec.shape[-1] if spec.shape else 1


def count(spec: TensorSpec) -> int:
    """How many rows the tensor has, in C order; without axes, or with one, it is one row."""
    return math.prod(spec.shape[:-1])


def block(answer: Answer, name: str, start: int, stop: int) -> NDArray[Any]:
    """Rows `start` to `stop`, C-contiguous: what comes may be a transposed, strided or reversed view."""
    spec = answer.tensors[name]
    shape, dtype = (stop - start, width(spec)), type_of[spec.dtype]
    if 0 in shape:
        return np.empty(shape, dtype)
    rows = answer.rows(name, start, stop)
    if rows.shape != shape or rows.dtype != dtype:
        raise ValueError(f"{name}: rows of {shape} {dtype} were due, {rows.shape} {rows.dtype} came")
    return np.ascontiguousarray(rows)


def blocks(answer: Answer, name: str, start: int, stop: int) -> Iterator[NDArray[Any]]:
    """Rows `start` to `stop` in blocks of at most `block_bytes`, or of one row where a row is longer."""
    spec = answer.tensors[name]
    step = max(1, answer.block_bytes // max(1, width(spec) * type_of[spec.dtype].itemsize))
    for first in range(start, stop, step):
        yield block(answer, name, first, min(first + step, stop))


def kept(tensors: Tensors, rows: Rows) -> Rows:
    """The same rows, computed once if the answer is small: for formats that need to see them twice."""
    if sum(map(nbytes, tensors.values())) > KEPT_BYTES:
        return rows
    whole: dict[str, NDArray[Any]] = {}

    def slices(name: str, start: int, stop: int) -> NDArray[Any]:
        if name not in whole:
            whole[name] = rows(name, 0, count(tensors[name]))
        return whole[name][start:stop]

    return slices


def fixed(data: bytes) -> Part:
    """A part whose bytes are there already."""
    return Part(len(data), lambda start, stop: iter([data[start:stop]]))


def raw(answer: Answer, name: str) -> Part:
    """A tensor's values, little-endian in C order; a window computes only the rows it touches."""
    spec = answer.tensors[name]
    row_bytes = width(spec) * type_of[spec.dtype].itemsize

    def read(start: int, stop: int) -> Iterator[Chunk]:
        first, last = start // row_bytes, -(-stop // row_bytes)
        at = first * row_bytes
        for rows in blocks(answer, name, first, last):
            # Through uint8, because the buffer protocol does not know bfloat16.
            data = rows.reshape(-1).view(np.uint8).data
            yield data[max(start - at, 0) : stop - at]
            at += len(data)

    return Part(nbytes(spec), read)
