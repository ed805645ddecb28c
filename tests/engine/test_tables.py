"""The table cache: bounded by bytes at every moment, one computation a row, and never a different result."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine import by_key
from service.engine.positions import Positioned, sequence
from service.engine.scheme import Example, Inputs, Scheme, Tensor, Tensors
from service.engine.tables import CHUNK_BYTES, ENTRY_BYTES, TOGETHER_BYTES, Call, Lookups, TableCache
from tests.engine.answers import Array


class Counted(Positioned):
    """Parameters of a scheme that counts its work."""

    width: int = 4
    kind: int = 0


class Counter:
    """A scheme whose row p holds p and the kind, and which remembers every block that it computed."""

    def __init__(self, state_bytes: int = 0) -> None:
        self.blocks: list[tuple[int, int]] = []
        self.prepared = 0
        self.before: Callable[[], object] = lambda: None
        self.scheme: Scheme[Counted, int] = Scheme(
            family="encodings",
            name="counted",
            title="Counted",
            explanation="Counted.",
            description="",
            reference="",
            params=Counted,
            rounding="integer",
            tensors=lambda params, _: {
                "rows": Tensor(("position", "channel"), (params.length or 0, params.width), "float64")
            },
            prepare=self._prepare,
            rows=self._rows,
            sequence=sequence,
            state_bytes=lambda *_: state_bytes,
            examples=(Example("", {}),),
        )

    def _prepare(self, params: Counted, _inputs: Inputs) -> int:
        self.prepared += 1
        return params.kind

    def _rows(self, params: Counted, _inputs: Inputs, kind: int, _tensor: str, start: int, stop: int) -> Array:
        self.before()
        first = params.offset
        self.blocks.append((first + start, first + stop))
        return expected(stop - start, first + start, params.width, kind)

    @property
    def computed(self) -> int:
        return sum(stop - start for start, stop in self.blocks)

    def call(self, cache: TableCache, **parameters: Any) -> Call:
        params = Counted(**parameters)
        return cache.call(self.scheme, params, {}, self.scheme.tensors(params, {}))

    def ask(self, cache: TableCache, **parameters: Any) -> Array:
        length = Counted(**parameters).length
        assert length is not None
        return cache.rows(self.call(cache, **parameters), "rows", 0, length)


@pytest.fixture
def counter() -> Counter:
    return Counter()


def expected(length: int, offset: int = 0, width: int = 4, kind: int = 0) -> Array:
    rows: Array = np.arange(offset, offset + length)[:, None] + np.full(width, 1e6 * kind)
    return rows


def entries(cache: TableCache) -> int:
    """The bytes of everything that is really held."""
    chunks = cache._chunks.values()
    return sum(ENTRY_BYTES + (0 if chunk.rows is None else chunk.rows.nbytes) for chunk in chunks)


def test_a_shorter_request_is_a_view_and_computes_nothing(counter: Counter) -> None:
    cache = TableCache(1 << 20)
    longer = counter.ask(cache, length=100)
    shorter, inside = counter.ask(cache, length=10), counter.ask(cache, length=5, offset=90)
    assert counter.blocks == [(0, 100)]
    assert np.shares_memory(longer, shorter)
    assert np.shares_memory(longer, inside)
    np.testing.assert_array_equal(inside, expected(5, 90))


def test_a_longer_request_computes_what_is_missing(counter: Counter) -> None:
    cache = TableCache(1 << 20)
    counter.ask(cache, length=10, offset=100)
    np.testing.assert_array_equal(counter.ask(cache, length=30, offset=90), expected(30, 90))
    assert counter.blocks == [(100, 110), (90, 100), (110, 120)]


def test_a_gap_is_bridged_if_it_is_narrow(counter: Counter) -> None:
    cache = TableCache(1 << 20)
    counter.ask(cache, length=10, offset=0)
    counter.ask(cache, length=10, offset=30)
    assert counter.blocks == [(0, 10), (10, 40)]


def test_a_request_far_off_does_not_fill_the_gap(counter: Counter) -> None:
    cache = TableCache(1 << 20)
    for offset in (0, 1000, 0):
        np.testing.assert_array_equal(counter.ask(cache, length=10, offset=offset), expected(10, offset))
    assert counter.computed == 30
    assert cache.held_bytes == entries(cache) == ENTRY_BYTES + 10 * 32


def test_negative_offsets_lie_on_the_same_grid(counter: Counter) -> None:
    cache = TableCache(1 << 20)
    np.testing.assert_array_equal(counter.ask(cache, length=20, offset=-10), expected(20, -10))
    np.testing.assert_array_equal(counter.ask(cache, length=5, offset=-10), expected(5, -10))
    np.testing.assert_array_equal(counter.ask(cache, length=4, offset=-2), expected(4, -2))
    assert counter.computed == 20


def test_what_spans_chunks_is_joined_and_computed_once(counter: Counter) -> None:
    cache = TableCache(16 * CHUNK_BYTES)
    rows = 3 * CHUNK_BYTES // 32
    for _ in range(2):
        np.testing.assert_array_equal(counter.ask(cache, length=rows, offset=-5), expected(rows, -5))
    height = CHUNK_BYTES // 32
    assert counter.blocks == [(-5, 0), (0, height), (height, 2 * height), (2 * height, 3 * height - 5)]


def test_answers_are_read_only(counter: Counter) -> None:
    for limit in (0, 1 << 20, 64 << 20):
        cache = TableCache(limit)
        for length in (3, 60_000):
            with pytest.raises(ValueError, match="read-only"):
                counter.ask(cache, length=length)[0, 0] = 1


def test_a_limit_of_0_keeps_nothing(counter: Counter) -> None:
    cache = TableCache(0)
    for _ in range(2):
        np.testing.assert_array_equal(counter.ask(cache, length=5), expected(5))
    assert counter.computed == 10
    assert counter.prepared == 2
    assert cache.held_bytes == entries(cache) == 0


def test_explicit_positions_are_not_kept(counter: Counter) -> None:
    cache = TableCache(1 << 20)
    params = Counted(positions=(1, 2), width=4)
    call = cache.call(counter.scheme, params, {}, {"rows": Tensor(("position", "channel"), (2, 4), "float64")})
    assert call.sequence is None
    cache.rows(call, "rows", 0, 2)
    assert cache.held_bytes == 0


def test_no_rows_of_a_table(counter: Counter) -> None:
    cache = TableCache(1 << 20)
    assert cache.rows(counter.call(cache, length=5), "rows", 3, 3).shape == (0, 4)
    assert cache.held_bytes == 0


def test_a_table_larger_than_half_the_cache_passes_through(counter: Counter) -> None:
    cache = TableCache(64 * 1024)
    counter.ask(cache, length=100, kind=1)
    held = cache.held_bytes
    for _ in range(2):
        call = counter.call(cache, length=1025)
        for start in range(0, 1025, 205):
            np.testing.assert_array_equal(cache.rows(call, "rows", start, start + 205), expected(205, start))
    assert cache.held_bytes == held
    counter.blocks.clear()
    counter.ask(cache, length=100, kind=1)
    assert counter.blocks == []


def test_the_oldest_chunk_goes_first(counter: Counter) -> None:
    cache = TableCache(3 * (ENTRY_BYTES + 320))
    for kind in (1, 2, 3, 1, 4):
        counter.ask(cache, length=10, kind=kind)
    counter.blocks.clear()
    for kind in (1, 3, 4):
        counter.ask(cache, length=10, kind=kind)
    assert counter.blocks == []
    counter.ask(cache, length=10, kind=2)
    assert counter.computed == 10


def test_a_cache_too_small_for_an_entry_answers_all_the_same(counter: Counter) -> None:
    cache = TableCache(ENTRY_BYTES // 2)
    for _ in range(2):
        np.testing.assert_array_equal(counter.ask(cache, length=5), expected(5))
    assert cache.held_bytes == entries(cache) == 0


def test_states_are_shared_and_bounded() -> None:
    counter = Counter(state_bytes=10_000)
    cache = TableCache(8 * 3 * (ENTRY_BYTES + 10_000))  # an eighth of it: three states
    for kind in (1, 2, 3, 1, 4, 1, 4, 3):
        counter.call(cache, length=kind, kind=kind)
        assert cache.states.held_bytes <= cache.states.limit_bytes
    assert counter.prepared == 4
    assert cache.states.lookups == Lookups(hits=4, misses=4, evictions=1)
    counter.call(cache, length=9, kind=2)
    assert counter.prepared == 5


def test_a_state_larger_than_its_share_is_not_kept() -> None:
    counter, cache = Counter(state_bytes=1 << 20), TableCache(1 << 20)
    for _ in range(2):
        counter.call(cache, length=1)
    assert counter.prepared == 2
    assert cache.states.held_bytes == 0


def test_two_that_prepare_one_state_keep_one() -> None:
    cache = TableCache(1 << 20)
    cache.states.keep("key", "first", 10)
    cache.states.keep("key", "second", 10)
    assert cache.states.get("key") == "first"
    assert cache.states.held_bytes == ENTRY_BYTES + 10


def test_one_thread_computes_while_others_wait(counter: Counter) -> None:
    cache = TableCache(1 << 20)
    everyone, waiting = threading.Barrier(8), threading.Event()
    counter.before = lambda: waiting.wait(0.05)

    def ask(_: int) -> Array:
        everyone.wait()
        return counter.ask(cache, length=50)

    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(ask, range(8)):
            np.testing.assert_array_equal(got, expected(50))
    assert counter.blocks == [(0, 50)]


def test_a_chunk_let_go_while_it_grows_serves_its_request(counter: Counter) -> None:
    cache = TableCache(2 * (ENTRY_BYTES + 320))

    def crowd() -> None:
        counter.before = lambda: None
        for kind in (7, 8, 9):
            counter.ask(cache, length=10, kind=kind)

    counter.before = crowd
    np.testing.assert_array_equal(counter.ask(cache, length=10), expected(10))
    assert cache.held_bytes == entries(cache) <= cache.limit_bytes


def test_a_computation_that_fails_leaves_the_cache_sound(counter: Counter) -> None:
    cache = TableCache(1 << 20)

    def fail() -> None:
        raise MemoryError

    counter.before = fail
    with pytest.raises(MemoryError):
        counter.ask(cache, length=10)
    counter.before = lambda: None
    np.testing.assert_array_equal(counter.ask(cache, length=10), expected(10))
    assert cache.held_bytes == entries(cache)


REQUESTS = st.lists(
    st.tuples(st.integers(-300, 300), st.integers(1, 200), st.sampled_from([1, 4, 9]), st.integers(0, 2)), max_size=25
)


@settings(deadline=None, max_examples=60)
@given(REQUESTS, st.sampled_from([0, 3000, 9000, 40_000, 1 << 20]))
def test_bounded_and_right_whatever_is_asked(requests: list[tuple[int, int, int, int]], limit: int) -> None:
    counter, cache = Counter(), TableCache(limit)
    for offset, length, width, kind in requests:
        got = counter.ask(cache, offset=offset, length=length, width=width, kind=kind)
        np.testing.assert_array_equal(got, expected(length, offset, width, kind))
        assert cache.held_bytes == entries(cache) <= limit


@settings(deadline=None, max_examples=15)
@given(REQUESTS, st.sampled_from([0, 9000, 40_000]))
def test_bounded_and_right_on_threads(requests: list[tuple[int, int, int, int]], limit: int) -> None:
    counter, cache = Counter(), TableCache(limit)

    def ask(request: tuple[int, int, int, int]) -> bool:
        offset, length, width, kind = request
        got = counter.ask(cache, offset=offset, length=length, width=width, kind=kind)
        assert cache.held_bytes <= limit
        return np.array_equal(got, expected(length, offset, width, kind))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, requests))
    assert cache.held_bytes == entries(cache) <= limit


def ask_real(
    cache: TableCache, address: tuple[str, str], parameters: dict[str, Any]
) -> tuple[dict[str, Array], Tensors]:
    scheme = by_key(*address)
    params = scheme.params(**parameters)
    tensors = scheme.tensors(params, {})
    call = cache.call(scheme, params, {}, tensors)
    return {name: cache.rows(call, name, 0, spec.rows) for name, spec in tensors.items()}, tensors


@pytest.mark.parametrize(("family", "name"), [("encodings", "rope"), ("encodings", "sinusoidal")])
def test_frequencies_do_not_mix_with_rows(family: str, name: str) -> None:
    cache = TableCache(1 << 20)
    plain, _ = ask_real(cache, (family, name), {"dim": 8, "output": "frequencies"})
    for offset in (0, 5, -3):
        again, _ = ask_real(cache, (family, name), {"dim": 8, "output": "frequencies", "length": 4, "offset": offset})
        np.testing.assert_array_equal(again["frequencies"], plain["frequencies"])
    assert cache.held_bytes == 0


def test_a_state_is_shared_by_lengths_and_offsets() -> None:
    scheme, cache = by_key("encodings", "rope"), TableCache(1 << 24)
    prepared: list[int] = []

    def prepare(params: Any, inputs: Inputs) -> Any:
        prepared.append(1)
        return scheme.prepare(params, inputs)

    counting = replace(scheme, prepare=prepare)
    for length, offset in ((4, 0), (400, 0), (4, 10)):
        params = counting.params(dim=8, length=length, offset=offset)
        cache.call(counting, params, {}, counting.tensors(params, {}))
    assert prepared == [1]


def test_tables_made_together_are_computed_once() -> None:
    """Of small tables, each block of the first is computed with that of the second, which is held until asked for."""
    scheme = by_key("encodings", "rope")
    params = scheme.params(length=100, dim=8)
    tensors = scheme.tensors(params, {})
    call = TableCache(0).call(scheme, params, {}, tensors)
    waves: list[range] = []

    class Watched:
        def write(self, at: range, cos: Array | None, sin: Array | None) -> None:
            waves.append(at)
            call.state.write(at, cos, sin)

    watched = replace(call, state=Watched())
    made = {name: [watched.compute(name, 0, 60), watched.compute(name, 60, 100)] for name in tensors}
    assert waves == [range(60), range(60, 100)]
    assert not watched.made
    for name, blocks in made.items():
        np.testing.assert_array_equal(np.concatenate(blocks), scheme.rows(params, {}, call.state, name, 0, 100))
    watched.compute("sin", 0, 60)  # alone, for nothing behind it would be asked for
    assert waves[2:] == [range(60)]
    assert not watched.made


def test_of_large_tables_nothing_is_held_for_later() -> None:
    scheme = by_key("encodings", "rope")
    params = scheme.params(length=TOGETHER_BYTES // 32 + 1, dim=8)
    call = TableCache(0).call(scheme, params, {}, scheme.tensors(params, {}))
    call.compute("cos", 0, 50)
    assert not call.made


class Pairs(Counter):
    """Two tensors, of which the second is computed with the first."""

    def __init__(self) -> None:
        super().__init__()
        shape = self.scheme.tensors
        self.scheme = replace(
            self.scheme,
            tensors=lambda params, inputs: {name: shape(params, inputs)["rows"] for name in ("rows", "others")},
            together=self._together,
        )
        self.alone: list[str] = []

    def _rows(self, params: Counted, inputs: Inputs, kind: int, tensor: str, start: int, stop: int) -> Array:
        self.alone.append(tensor)
        rows: Array = super()._rows(params, inputs, kind, tensor, start, stop) + (tensor == "others")
        return rows

    def _together(self, params: Counted, inputs: Inputs, kind: int, start: int, stop: int) -> dict[str, Array]:
        rows = super()._rows(params, inputs, kind, "rows", start, stop)
        return {"rows": rows, "others": rows + 1}


def test_what_is_computed_together_is_kept_for_whoever_asks_next() -> None:
    pairs, cache = Pairs(), TableCache(1 << 20)
    pairs.ask(cache, length=50)
    for length in (50, 30):
        call = pairs.call(cache, length=length)
        np.testing.assert_array_equal(cache.rows(call, "others", 0, length), expected(length) + 1)
    assert (pairs.blocks, pairs.alone) == ([(0, 50)], [])
    assert cache.held_bytes == entries(cache) == 2 * (ENTRY_BYTES + 50 * 32)


def test_what_is_there_already_is_not_replaced() -> None:
    pairs, cache = Pairs(), TableCache(1 << 20)
    call = pairs.call(cache, length=50)
    before = cache.rows(call, "others", 0, 50)
    cache.rows(call, "rows", 0, 40)
    assert np.shares_memory(cache.rows(call, "others", 0, 50), before)
    assert cache.held_bytes == entries(cache) == 2 * ENTRY_BYTES + 90 * 32


def test_tables_of_threads_are_computed_once_together() -> None:
    pairs, cache = Pairs(), TableCache(1 << 20)
    everyone, waiting = threading.Barrier(6), threading.Event()
    pairs.before = lambda: waiting.wait(0.05)

    def ask(_: int) -> bool:
        everyone.wait()
        call = pairs.call(cache, length=50)
        found = [cache.rows(call, name, 0, 50) for name in call.tensors]
        return all(np.array_equal(rows, expected(50) + more) for more, rows in enumerate(found))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(ask, range(6)))
    assert (pairs.blocks, pairs.alone) == ([(0, 50)], [])


def test_only_what_is_asked_for_is_computed_together() -> None:
    pairs, cache = Pairs(), TableCache(1 << 20)
    params = Counted(length=20)
    call = cache.call(pairs.scheme, params, {}, pairs.scheme.tensors(params, {}), ("rows",))
    cache.rows(call, "rows", 0, 20)
    assert pairs.alone == ["rows"]


PIECES = st.lists(st.tuples(st.integers(-60, 60), st.integers(1, 70), st.sampled_from(["rows", "others"])), max_size=12)


@settings(deadline=None, max_examples=80)
@given(PIECES, st.sampled_from([0, 3000, 9000, 1 << 20]))
def test_bounded_and_right_whatever_is_asked_of_two(pieces: list[tuple[int, int, str]], limit: int) -> None:
    pairs, cache = Pairs(), TableCache(limit)
    for offset, length, name in pieces:
        call = pairs.call(cache, offset=offset, length=length)
        got = cache.rows(call, name, 0, length)
        np.testing.assert_array_equal(got, expected(length, offset) + (name == "others"))
        assert cache.held_bytes == entries(cache) <= limit
