"""A second process that computes blocks of a large table, so that two cores work on one.

Threads do not do that here: numpy's calls on blocks that fit a core's cache take some ten microseconds, and each hands
over the interpreter's lock, which takes longer. A process has a lock of its own.

It starts when a large table is first asked for, and ends when nothing was asked of it for a minute, or when the service
does. What it computes it leaves in memory that both share. Whatever it does not do, because it is busy, or not there
yet, or no more, the service does itself.
"""

import logging
import math
import mmap
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np

from service.child import BROKEN, Child, Line, answer
from service.engine import by_key
from service.engine.scheme import Array, Scheme
from service.engine.tables import Call, TableCache

SLOTS = 2  # blocks that it is asked for at a time: one to compute, and one that waits, so that it never does
SLOT_BYTES = 2 << 20
IDLE_SECONDS = 60.0
HUNG_SECONDS = 60.0  # no block takes as long
WORTH_SECONDS = 1.2e-3  # what a block must take for its way through shared memory, and another core, to be worth it
READY = ["ready"]

log = logging.getLogger("posenc.partner")

Place = tuple[str, int, int]  # tensor, first row, end


class Partner:
    """The service's side. One table at a time is computed with it.

    >>> partner = Partner()
    >>> partner.close()
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS, hung_seconds: float = HUNG_SECONDS) -> None:
        self.idle_seconds, self.hung_seconds = idle_seconds, hung_seconds
        self._lent = Lock()
        self._child: Child | None = None
        self._ready = self._closed = False
        self._asked = self._taken = 0

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._child is None else self._child.pid

    def wait(self) -> None:
        """Have it there."""
        while not self._closed and self._available() is None:
            time.sleep(0.01)

    @contextmanager
    def helping(self, call: Call) -> Iterator[Call]:
        """The same call, whose blocks are computed by both in turns; as it was where the partner helps another."""
        if call.inputs or not self._lent.acquire(blocking=False):
            yield call
            return
        try:
            while self._taken < self._asked:  # for a reader who left
                self.take()
            yield replace(call, by=Turns(self, call).rows)
        finally:
            self._lent.release()

    def close(self) -> None:
        """End the process; it is not started again."""
        self._closed = True
        if self._child is not None:
            self._child.end()

    def ask(self, call: Call, place: Place) -> bool:
        """Have a block computed, beside SLOTS - 1 others at most; whether that is under way."""
        child = self._available()
        if child is None:
            return False
        try:
            stated = call.params.model_dump(mode="json", exclude_defaults=True)
            child.line.tell(self._asked % SLOTS, call.scheme.key, stated, place)
        except OSError:
            self._end()
            return False
        self._asked += 1
        return True

    def take(self) -> Array | None:
        """The block asked for first of those not taken; None if it was not computed."""
        if self._child is None:
            return None
        slot, self._taken = self._taken % SLOTS, self._taken + 1
        try:
            if self._child.line.hears(self.hung_seconds):
                found = self._child.line.told()
                return self._read(slot, *found) if found else None
        except BROKEN:
            pass
        self._end()
        return None

    def _read(self, slot: int, shape: list[int], dtype: str) -> Array:
        return np.frombuffer(self._memory, np.dtype(dtype), math.prod(shape), slot * SLOT_BYTES).reshape(shape).copy()

    def _available(self) -> Child | None:
        """The process, if it runs; if not, one starts, and will be there for a later block."""
        if self._child is not None and self._child.has_ended:
            self._end()
        if self._child is None:
            self._start()
            return None
        try:
            self._ready = self._ready or (self._child.line.hears() and self._child.line.told() == READY)
        except BROKEN:
            self._end()
        return self._child if self._ready else None

    def _start(self) -> None:
        if self._closed:
            return
        try:
            with ExitStack() as stack:
                self._child = self._started(stack)
        except OSError as error:
            log.warning("no second process: %s", error)
            self._closed = True

    def _started(self, stack: ExitStack) -> Child:
        """The process; what is only for its start is let go with the stack."""
        shared = os.memfd_create("posenc")
        stack.callback(os.close, shared)
        os.ftruncate(shared, SLOTS * SLOT_BYTES)
        self._memory = mmap.mmap(shared, SLOTS * SLOT_BYTES)
        return Child(__name__, shared, self.idle_seconds, files=(shared,))

    def _end(self) -> None:
        assert self._child is not None
        self._child.leave()
        self._child, self._ready = None, False
        self._asked = self._taken = 0


class Turns:
    """A table computed in turns: a block here, while the next one is computed by the partner."""

    def __init__(self, partner: Partner, call: Call) -> None:
        self._partner, self._call = partner, call
        self._due: deque[Place] = deque()  # what the partner was asked for, every second block
        self._worth = True

    def rows(self, tensor: str, start: int, stop: int) -> Array:
        """That block, by whose turn it is; here if the partner failed."""
        size = stop - start
        if self._due and self._due[0] == (tensor, start, stop):
            self._due.popleft()
            rows = self._partner.take()
            if rows is not None:
                self._ask(tensor, stop + size, size)
                return rows
        elif self._due and self._due[0][:2] != (tensor, stop):  # the reader went elsewhere
            while self._due:
                self._due.popleft()
                self._partner.take()
        self._ask(tensor, stop, size)
        begun = time.perf_counter()
        rows = self._call.compute(tensor, start, stop)
        self._worth = time.perf_counter() - begun > WORTH_SECONDS
        return rows

    def _ask(self, tensor: str, start: int, size: int) -> None:
        """For the block there, or behind what is due, and the next but one."""
        spec = self._call.tensors[tensor]
        wanted = self._worth and size * spec.nbytes <= SLOT_BYTES * spec.rows
        start = self._due[-1][1] + 2 * size if self._due else start
        while wanted and start < spec.rows and len(self._due) < SLOTS:
            place = (tensor, start, min(start + size, spec.rows))
            if not self._partner.ask(self._call, place):
                return
            self._due.append(place)
            start += 2 * size


class Work:
    """The partner's side: blocks of the table asked for last, whose state it keeps."""

    def __init__(self) -> None:
        self._asked: tuple[list[str], dict[str, Any]] | None = None
        self._call: Call

    def rows(self, key: list[str], stated: dict[str, Any], place: list[Any]) -> Array:
        """A block of rows."""
        if self._asked != (key, stated):
            scheme: Scheme[Any, Any] = by_key(*key)
            params = scheme.params.model_validate(stated)
            self._call = TableCache(0).call(scheme, params, {}, scheme.tensors(params, {}))
            self._asked = key, stated
        return self._call.compute(*place)

    def answer(self, line: Line, memory: mmap.mmap, idle_seconds: float) -> None:
        """Compute what is asked for until nothing is any more, or nobody is there to ask."""
        line.tell(*READY)
        while line.hears(idle_seconds):
            slot, *job = line.told()
            try:
                rows = self.rows(*job)
            except Exception:
                line.tell()  # the service will meet the same, and say it
                continue
            np.frombuffer(memory, rows.dtype, rows.size, slot * SLOT_BYTES)[:] = rows.reshape(-1)
            line.tell(rows.shape, rows.dtype.name)


def main(line: int, memory: int, idle_seconds: float) -> None:
    """What the second process runs."""
    shared = mmap.mmap(memory, SLOTS * SLOT_BYTES)
    answer(line, lambda opened: Work().answer(opened, shared, idle_seconds))
