"""The values of the cells that a picture shows: pulled in blocks, reduced as they come, so that memory is bounded."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.formats.blocks import block, width
from service.formats.format import Answer, Rows, type_of
from service.formats.pictures.plan import Group, Steps

Values = NDArray[np.float64]
# Rows nearer to each other than this are computed together with those between them; further apart, one by one.
NEAR_BYTES = 1 << 15
RUN_BYTES = 1 << 18
# Few rows are computed in steps of microseconds, each of which lets go of the interpreter and takes it back before
# another thread has woken up: that thread would wait for all of them. After so many reads it is let go of for longer.
BREATH_READS, BREATH_SECONDS = 8, 1e-4


def panels(answer: Answer, group: Group) -> Iterator[Values]:
    """The cells of each panel, in the order in which they are shown."""
    of_one = _planes if group.is_plane else _panel
    answer = replace(answer, rows=_breathing(answer.rows))
    for name in group.names:
        for index in range(0, group.leading.length, group.leading.stride):
            yield from of_one(answer, group, name, index)


def _breathing(rows: Rows) -> Rows:
    """The same rows, with a pause now and then in which other threads run."""
    reads = itertools.count(1)

    def read(name: str, start: int, stop: int) -> NDArray[Any]:
        if next(reads) % BREATH_READS == 0:
            time.sleep(BREATH_SECONDS)
        return rows(name, start, stop)

    return read


def _panel(answer: Answer, group: Group, name: str, index: int) -> Iterator[Values]:
    """The tensor's rows are those of the panel, or the values of a profile."""
    if group.is_profile and len(group.spec.shape) > 1:
        yield np.concatenate(list(_every(answer, name, 0, group.panels.columns)), dtype=np.float64).T
        return
    # A profile is one row of values, however high it is drawn.
    rows = Steps(1, 1) if group.is_profile else group.panels.rows
    columns = group.panels.columns
    cells = np.empty((rows.shown, columns.shown))
    at = 0
    for part in _every(answer, name, index * rows.length, rows):
        cells[at : at + len(part)] = part[:, :: columns.stride]
        at += len(part)
    yield cells


def _planes(answer: Answer, group: Group, name: str, index: int) -> Iterator[Values]:
    """The tensor's rows are what follows one cell of a plane: a value for each panel."""
    rows, columns, after = group.panels.rows, group.panels.columns, group.trailing
    cells = np.empty((after.shown, rows.shown, columns.shown))
    for number in range(rows.shown):
        at, start = 0, (index * rows.length + number * rows.stride) * columns.length
        for part in _every(answer, name, start, columns):
            cells[:, number, at : at + len(part)] = part[:, :: after.stride].T
            at += len(part)
    yield from cells


def _every(answer: Answer, name: str, start: int, rows: Steps) -> Iterator[NDArray[Any]]:
    """Every `stride`-th row from `start` on, some at a time."""
    spec = answer.tensors[name]
    row_bytes = width(spec) * type_of[spec.dtype].itemsize
    if rows.stride * row_bytes > NEAR_BYTES and rows.stride > 1:
        for row in range(0, rows.length, rows.stride):
            yield block(answer, name, start + row, start + row + 1)
        return
    run = max(1, min(RUN_BYTES, answer.block_bytes) // (rows.stride * row_bytes)) * rows.stride
    for first in range(0, rows.length, run):
        yield block(answer, name, start + first, start + min(first + run, rows.length))[:: rows.stride]
