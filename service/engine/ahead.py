"""Blocks of rows computed ahead: while one is used, another thread computes the one after it.

Rows stand alone, so blocks of one answer can be computed side by side, and which thread computes one never shows in it.
Whoever reads the blocks works too: a block that no thread has begun when it is wanted is computed at once, by the
reader. So a reader on the same executor cannot wait for itself, and a busy executor costs nothing.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future

from service.engine.scheme import Array

Block = tuple[str, int, int]
Rows = Callable[[str, int, int], Array]


class Ahead:
    """`rows`, with the block that follows the one asked for under way on `executor`; `counts` are the tensors' rows.

    What follows is as many rows of the same tensor. For one reader.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> with ThreadPoolExecutor(1) as executor:
    ...     rows = Ahead(lambda tensor, start, stop: np.arange(start, stop), {"x": 5}, executor)
    ...     [rows("x", start, min(start + 2, 5)).tolist() for start in (0, 2, 4)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, rows: Rows, counts: Mapping[str, int], executor: Executor) -> None:
        self.rows, self.counts, self.executor = rows, counts, executor
        self._next: tuple[Block, Future[Array]] | None = None

    def __call__(self, tensor: str, start: int, stop: int) -> Array:
        """Those rows; the following ones are begun first, so that both are computed at once."""
        expected, self._next = self._next, None
        following = stop, min(stop + stop - start, self.counts[tensor])
        if following[0] < following[1]:
            block = (tensor, *following)
            self._next = block, self.executor.submit(self.rows, *block)
        if expected is not None and not expected[1].cancel() and expected[0] == (tensor, start, stop):
            return expected[1].result()
        return self.rows(tensor, start, stop)

    def close(self) -> None:
        """Let go of the block under way."""
        if self._next is not None:
            self._next[1].cancel()
            self._next = None
