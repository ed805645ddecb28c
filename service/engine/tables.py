"""The table cache: rows that were computed once serve every shorter, longer or later request.

Rows of one endless table (`Scheme.sequence`) are kept in chunks on an absolute grid, so what a request finds there does
not depend on what was asked before. A chunk holds the contiguous part of its rows that was asked for so far. The bytes
held never exceed the limit; the chunk used longest ago goes first; a chunk is computed by one thread while others wait.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from service.engine.scheme import Array, Inputs, Params, Scheme, Sequence, Tensor, Tensors

# Large enough that numpy's per-call cost vanishes, small enough to stay in a core's second-level cache.
CHUNK_BYTES = 1 << 20
STATES_KEPT = 256


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a scheme: its parameters, the caller's arrays, the prepared state."""

    scheme: Scheme[Any, Any]
    params: Params
    inputs: Inputs
    tensors: Tensors
    state: Any
    sequence: Sequence | None

    def compute(self, tensor: str, start: int, stop: int) -> Array:
        """That block of rows, read-only, straight from the scheme."""
        rows = self.scheme.rows(self.params, self.inputs, self.state, tensor, start, stop)
        rows.flags.writeable = False
        return rows


@dataclass(slots=True)
class _Chunk:
    """Rows `first` ... of the endless table, contiguous; empty until computed."""

    lock: Lock = field(default_factory=Lock)
    first: int = 0
    rows: Array | None = None
    counted: int = 0

    def holds(self, start: int, stop: int) -> bool:
        return self.rows is not None and self.first <= start and stop <= self.first + len(self.rows)


class TableCache:
    """Chunks of rows, bounded by bytes; with a limit of 0 nothing is kept."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._chunks: OrderedDict[Hashable, _Chunk] = OrderedDict()
        self._states: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def call(self, scheme: Scheme[Any, Any], params: Params, inputs: Inputs, tensors: Tensors) -> Call:
        """Prepare a request, with the state of an earlier one where they share a table."""
        sequence = scheme.sequence(params, inputs)
        if sequence is None:
            return Call(scheme, params, inputs, tensors, scheme.prepare(params, inputs), None)
        key = (scheme.key, sequence.key)
        with self._lock:
            state = self._states.get(key)
        if state is None:
            state = scheme.prepare(params, inputs)
            with self._lock:
                self._states[key] = state
                while len(self._states) > STATES_KEPT:
                    self._states.popitem(last=False)
        return Call(scheme, params, inputs, tensors, state, sequence)

    def rows(self, call: Call, tensor: str, start: int, stop: int) -> Array:
        """Rows `start` to `stop` of a tensor: a view where one chunk holds them all."""
        spec = call.tensors[tensor]
        if call.sequence is None or 2 * spec.nbytes > self.limit_bytes or not spec.nbytes:
            return call.compute(tensor, start, stop)
        height = _chunk_rows(spec)
        base = call.sequence.start
        first, last = (base + start) // height, (base + stop - 1) // height
        parts = [
            self._part(
                call, tensor, chunk, max(base + start, chunk * height), min(base + stop, (chunk + 1) * height)
            )
            for chunk in range(first, last + 1)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _part(self, call: Call, tensor: str, index: int, start: int, stop: int) -> Array:
        assert call.sequence is not None
        key = (call.scheme.key, call.sequence.key, tensor, index)
        with self._lock:
            chunk = self._chunks.setdefault(key, _Chunk())
            self._chunks.move_to_end(key)
        with chunk.lock:
            if not chunk.holds(start, stop):
                self._extend(call, tensor, chunk, start, stop, key)
            assert chunk.rows is not None
            return chunk.rows[start - chunk.first : stop - chunk.first]

    def _extend(self, call: Call, tensor: str, chunk: _Chunk, start: int, stop: int, key: Hashable) -> None:
        """Compute what is missing between the rows held and the rows wanted, and keep it all."""
        assert call.sequence is not None
        base = call.sequence.start
        if chunk.rows is None:
            rows, first = call.compute(tensor, start - base, stop - base), start
        else:
            first = min(chunk.first, start)
            end = chunk.first + len(chunk.rows)
            parts = [chunk.rows]
            if start < chunk.first:
                parts.insert(0, call.compute(tensor, start - base, chunk.first - base))
            if stop > end:
                parts.append(call.compute(tensor, end - base, stop - base))
            rows = np.concatenate(parts)
            rows.flags.writeable = False
        chunk.first, chunk.rows = first, rows
        self._account(key, chunk, rows.nbytes)

    def _account(self, key: Hashable, chunk: _Chunk, nbytes: int) -> None:
        """Count the bytes of a chunk that grew, and let the oldest go until the limit holds."""
        with self._lock:
            if self._chunks.get(key) is not chunk:
                return  # it was let go while it grew: its rows serve this request and are gone
            self.held_bytes += nbytes - chunk.counted
            chunk.counted = nbytes
            while self.held_bytes > self.limit_bytes:
                _, oldest = self._chunks.popitem(last=False)
                self.held_bytes -= oldest.counted


def _chunk_rows(spec: Tensor) -> int:
    """Rows a chunk: a power of two, so that the grid is the same for every request of the table."""
    row_bytes = max(1, spec.nbytes // spec.rows)
    return 1 << max(0, (CHUNK_BYTES // row_bytes).bit_length() - 1)
