"""The table cache: rows that were computed once serve every shorter, longer or later request.

Rows of one endless table (`Scheme.sequence`) are kept in chunks on an absolute grid, so what a request finds there does
not depend on what was asked before. A chunk holds one contiguous run of its rows:

    rows wanted      within the run      a view of it, nothing computed
                     touching the run,   the missing rows are computed, and the run grows
                     or near it
                     far from it         they are computed alone and become the run

The bytes held never exceed the limit; the chunk used longest ago goes first; a chunk is computed by one thread while
others wait. Beside the chunks, prepared states take an eighth of the limit at most.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from service.engine.scheme import Array, Inputs, Params, Scheme, Sequence, Tensor, Tensors

# Large enough that numpy's per-call cost vanishes, small enough to stay in a core's second-level cache.
CHUNK_BYTES = 4 << 20
# Of tables up to this size, what is computed together is held until all of it was asked for.
TOGETHER_BYTES = 4 << 20
# What an entry takes beside its rows or its state: key, parameters, lock, array header (1.4 KB measured).
ENTRY_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a scheme: its parameters, the caller's arrays, the prepared state; who computes, if not the
    scheme here and now; which tensors are asked for, if not all; and blocks of small tables that were computed with
    others, which are asked for next."""

    scheme: Scheme[Any, Any]
    params: Params
    inputs: Inputs
    tensors: Tensors
    state: Any
    sequence: Sequence | None
    by: Callable[[str, int, int], Array] | None = None
    asked: Collection[str] | None = None
    made: dict[tuple[str, int, int], Array] = field(default_factory=dict)

    def compute(self, tensor: str, start: int, stop: int) -> Array:
        """That block of rows, read-only, straight from the scheme."""
        rows = None if self.by is not None else self.made.pop((tensor, start, stop), None)
        if rows is None:
            rows = self._computed(tensor, start, stop)
        rows.flags.writeable = False
        return rows

    def _computed(self, tensor: str, start: int, stop: int) -> Array:
        if self.by is not None:
            return self.by(tensor, start, stop)
        together, later = self.scheme.together, self._later(tensor)
        if together is None or not later:
            return self.scheme.rows(self.params, self.inputs, self.state, tensor, start, stop)
        blocks = together(self.params, self.inputs, self.state, start, stop)
        self.made.update({(name, start, stop): blocks[name] for name in later})
        return blocks[tensor]

    def _later(self, tensor: str) -> list[str]:
        """The tensors behind that one, whose blocks are asked for when all of its own were: none of large tables."""
        names = list(self.tensors)
        later = names[names.index(tensor) + 1 :] if self.tensors[tensor].nbytes <= TOGETHER_BYTES else []
        return [name for name in later if self.asked is None or name in self.asked]


@dataclass(slots=True)
class _Chunk:
    """Rows `first` ... of the endless table, contiguous; none until computed. `counted` is its part of the limit."""

    lock: Lock = field(default_factory=Lock)
    first: int = 0
    rows: Array | None = None
    counted: int = ENTRY_BYTES

    def part(self, start: int, stop: int) -> Array | None:
        """A view of those rows, if they are all here."""
        if self.rows is None or start < self.first or stop > self.first + len(self.rows):
            return None
        return self.rows[start - self.first : stop - self.first]

    def add(self, first: int, rows: Array) -> None:
        """These rows too, where they touch the run or have all of it; otherwise they become the run."""
        if self.rows is not None and first <= self.first + len(self.rows) and self.first <= first + len(rows):
            before, behind = (
                self.rows[: max(0, first - self.first)],
                self.rows[max(0, first + len(rows) - self.first) :],
            )
            rows, first = _joined([before, rows, behind]), min(first, self.first)
        rows.flags.writeable = False
        self.first, self.rows = first, rows


@dataclass(slots=True)
class Lookups:
    """How often a cache had what was looked for, how often not, and how often it let something go to make room."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0


class TableCache:
    """Chunks of rows, bounded by bytes; with a limit of 0 nothing is kept.

    >>> from service.engine import by_key
    >>> scheme = by_key("encodings", "sinusoidal")
    >>> params = scheme.params(length=4, dim=2)
    >>> cache = TableCache(1 << 20)
    >>> call = cache.call(scheme, params, {}, scheme.tensors(params, {}))
    >>> cache.rows(call, "encoding", 0, 2).round(2).tolist()
    [[0.0, 1.0], [0.8399999737739563, 0.5400000214576721]]
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.lookups = Lookups()
        self._chunks: OrderedDict[Hashable, _Chunk] = OrderedDict()
        self.states = States(limit_bytes // 8)
        self._lock = Lock()

    def call(
        self,
        scheme: Scheme[Any, Any],
        params: Params,
        inputs: Inputs,
        tensors: Tensors,
        asked: Collection[str] | None = None,
    ) -> Call:
        """Prepare a request for all tensors or those `asked` for, with the state of an earlier one where they share a
        table."""
        sequence = scheme.sequence(params, inputs)
        if sequence is None:
            return Call(scheme, params, inputs, tensors, scheme.prepare(params, inputs), None, asked=asked)
        key = (scheme.key, sequence.key)
        state = self.states.get(key)
        if state is None:
            state = scheme.prepare(params, inputs)
            self.states.keep(key, state, scheme.state_bytes(params, inputs))
        return Call(scheme, params, inputs, tensors, state, sequence, asked=asked)

    def rows(self, call: Call, tensor: str, start: int, stop: int) -> Array:
        """Rows `start` to `stop` of a tensor, read-only: a view where one chunk holds them all."""
        spec = call.tensors[tensor]
        # A table that would push out half of what is here passes through.
        if call.sequence is None or 2 * spec.nbytes > self.limit_bytes or stop <= start:
            return call.compute(tensor, start, stop)
        height = self._height(spec)
        first, last = call.sequence.start + start, call.sequence.start + stop
        parts = [
            self._part(call, tensor, grid // height, max(first, grid), min(last, grid + height))
            for grid in range(first - first % height, last, height)
        ]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _height(self, spec: Tensor) -> int:
        """Rows a chunk: a power of two, so that the grid is the same for every request of the table."""
        most = min(CHUNK_BYTES, self.limit_bytes // 4)
        row_bytes = max(1, spec.nbytes // spec.rows)
        return 1 << max(0, (most // row_bytes).bit_length() - 1)

    def _part(self, call: Call, tensor: str, index: int, start: int, stop: int) -> Array:
        """Rows `start` to `stop` of the endless table, all in one chunk."""
        assert call.sequence is not None
        key = (call.scheme.key, call.sequence.key, tensor, index)
        chunk = self._chunk(key)
        with chunk.lock:
            rows = chunk.part(start, stop)
            self._looked_up(rows is not None)
            if rows is None:
                chunk.first, chunk.rows = _grown(chunk, call, tensor, start, stop)
                self._count(key, chunk)
                rows = chunk.rows[start - chunk.first : stop - chunk.first]
                self._keep_beside(call)
        return rows

    def _keep_beside(self, call: Call) -> None:
        """Keep what was computed beside a block in the chunks of its own tensors, for whoever asks first.

        While this one's chunk is held: who waits for it asks for those next. Locks are taken in the order of the
        tensors, so none waits for another in a circle.
        """
        assert call.sequence is not None
        for (tensor, start, stop), rows in list(call.made.items()):
            call.made.pop((tensor, start, stop), None)
            first = call.sequence.start + start
            key = (call.scheme.key, call.sequence.key, tensor, first // self._height(call.tensors[tensor]))
            chunk = self._chunk(key)
            with chunk.lock:
                if chunk.part(first, first + stop - start) is None:
                    chunk.add(first, rows)
                    self._count(key, chunk)

    def _chunk(self, key: Hashable) -> _Chunk:
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is None:
                chunk = self._chunks[key] = _Chunk()
                self.held_bytes += chunk.counted
                self._shrink()
            else:
                self._chunks.move_to_end(key)
        return chunk

    def _looked_up(self, here: bool) -> None:
        with self._lock:
            self.lookups.hits += here
            self.lookups.misses += not here

    def _count(self, key: Hashable, chunk: _Chunk) -> None:
        """Count the bytes of a chunk that changed."""
        assert chunk.rows is not None
        with self._lock:
            if self._chunks.get(key) is not chunk:
                return  # it was let go while it grew: its rows serve this request and are gone
            counted = ENTRY_BYTES + chunk.rows.nbytes
            self.held_bytes += counted - chunk.counted
            chunk.counted = counted
            self._shrink()

    def _shrink(self) -> None:
        """Let the chunks used longest ago go until the limit holds."""
        while self.held_bytes > self.limit_bytes:
            _, oldest = self._chunks.popitem(last=False)
            self.held_bytes -= oldest.counted
            self.lookups.evictions += 1


class States:
    """Prepared states by key, the one used longest ago first to go."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.lookups = Lookups()
        self._states: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        with self._lock:
            if key not in self._states:
                self.lookups.misses += 1
                return None
            self.lookups.hits += 1
            self._states.move_to_end(key)
            return self._states[key][0]

    def keep(self, key: Hashable, state: Any, nbytes: int) -> None:
        counted = ENTRY_BYTES + nbytes
        with self._lock:
            if counted > self.limit_bytes or key in self._states:
                return
            self._states[key] = (state, counted)
            self.held_bytes += counted
            while self.held_bytes > self.limit_bytes:
                _, (_, freed) = self._states.popitem(last=False)
                self.held_bytes -= freed
                self.lookups.evictions += 1


def _grown(chunk: _Chunk, call: Call, tensor: str, start: int, stop: int) -> tuple[int, Array]:
    """The chunk's run of rows once it holds `start` to `stop` as well, and where it begins."""
    assert call.sequence is not None
    base = call.sequence.start
    if chunk.rows is None or _far(chunk.first, chunk.first + len(chunk.rows), start, stop):
        return start, call.compute(tensor, start - base, stop - base)
    end = chunk.first + len(chunk.rows)
    parts = [chunk.rows]
    if start < chunk.first:
        parts.insert(0, call.compute(tensor, start - base, chunk.first - base))
    if stop > end:
        parts.append(call.compute(tensor, end - base, stop - base))
    return min(chunk.first, start), _joined(parts)


def _far(first: int, end: int, start: int, stop: int) -> bool:
    """Whether the gap between two runs is wider than both together: then bridging it costs too much."""
    return max(first - stop, start - end) > (end - first) + (stop - start)


def _joined(parts: list[Array]) -> Array:
    rows = np.concatenate(parts)
    rows.flags.writeable = False
    return rows
