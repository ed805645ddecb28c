"""Blocks computed ahead: the same rows, each computed once, by whoever is free."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from service.engine import by_key
from service.engine.ahead import Ahead
from service.engine.scheme import whole
from tests.engine.answers import Array


class Recorder:
    """Rows that are their own numbers; remembers which thread computed which block."""

    def __init__(self) -> None:
        self.threads: dict[tuple[int, int], int] = {}
        self.lock = threading.Lock()

    def __call__(self, _tensor: str, start: int, stop: int) -> Array:
        with self.lock:
            assert (start, stop) not in self.threads, "computed twice"
            self.threads[start, stop] = threading.get_ident()
        return np.arange(start, stop)


def blocks(rows: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_block_is_computed_once_and_comes_in_order(threads: int) -> None:
    recorder = Recorder()
    with ThreadPoolExecutor(threads) as executor:
        ahead = Ahead(recorder, {"x": 1000}, executor)
        got = [ahead("x", *block) for block in blocks(1000, 7)]
    assert np.concatenate(got).tolist() == list(range(1000))
    assert sorted(recorder.threads) == blocks(1000, 7)


def test_the_block_after_is_computed_by_another_thread_meanwhile() -> None:
    both = threading.Barrier(2, timeout=20)  # passed only if two blocks are under way at once

    def rows(_tensor: str, start: int, stop: int) -> Array:
        both.wait()
        return np.arange(start, stop)

    with ThreadPoolExecutor(2) as executor:
        ahead = Ahead(rows, {"x": 4}, executor)
        assert [ahead("x", 0, 2).tolist(), ahead("x", 2, 4).tolist()] == [[0, 1], [2, 3]]


def test_a_reader_on_a_full_executor_computes_for_itself() -> None:
    """One thread, which is the reader's own: waiting for it would never end."""
    recorder = Recorder()
    with ThreadPoolExecutor(1) as executor:
        ahead = Ahead(recorder, {"x": 30}, executor)
        got = executor.submit(lambda: [ahead("x", *block).tolist() for block in blocks(30, 4)]).result(20)
    assert [number for block in got for number in block] == list(range(30))
    assert len(set(recorder.threads.values())) == 1


def test_what_was_not_foreseen_is_computed_when_asked() -> None:
    with ThreadPoolExecutor(2) as executor:
        ahead = Ahead(lambda _, start, stop: np.arange(start, stop), {"x": 100, "y": 3}, executor)
        asked = [("x", 0, 10), ("x", 50, 60), ("x", 60, 65), ("x", 65, 75), ("y", 0, 3), ("x", 0, 1)]
        for tensor, start, stop in asked:
            assert ahead(tensor, start, stop).tolist() == list(range(start, stop))


def test_a_failure_is_the_readers() -> None:
    def rows(_tensor: str, start: int, _stop: int) -> Array:
        if start:
            raise ArithmeticError("no such rows")
        return np.arange(2)

    with ThreadPoolExecutor(2) as executor:
        ahead = Ahead(rows, {"x": 4}, executor)
        ahead("x", 0, 2)
        with pytest.raises(ArithmeticError):
            ahead("x", 2, 4)


def test_a_reader_that_leaves_lets_go_of_the_block_under_way() -> None:
    begun, go_on = threading.Event(), threading.Event()
    recorder = Recorder()

    def busy() -> None:
        begun.set()
        go_on.wait(20)

    with ThreadPoolExecutor(1) as executor:
        executor.submit(busy)
        begun.wait(20)
        ahead = Ahead(recorder, {"x": 9}, executor)
        ahead("x", 0, 3)
        ahead.close()
        ahead.close()
        go_on.set()
    assert list(recorder.threads) == [(0, 3)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_bytes_of_a_large_table_do_not_change(dtype: str) -> None:
    scheme = by_key("encodings", "sinusoidal")
    params = scheme.params(length=5000, offset=-2000, dim=34, dtype=dtype)
    state = scheme.prepare(params, {})
    with ThreadPoolExecutor(2) as executor:
        ahead = Ahead(lambda *block: scheme.rows(params, {}, state, *block), {"encoding": 5000}, executor)
        got = b"".join(ahead("encoding", *block).tobytes() for block in blocks(5000, 333))
    assert got == whole(scheme, params)["encoding"].tobytes()
