"""The second process: tables that both compute are the same; whatever becomes of it, the service goes on without."""

import json
import logging
import mmap
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Pipe
from typing import Any

import numpy as np
import pytest

from service import child, main, partner
from service.api.variations import example_arrays, parameters_of
from service.child import Line
from service.engine import by_key
from service.engine.scheme import Array
from service.engine.tables import Call, TableCache
from service.partner import SLOT_BYTES, SLOTS, Partner, Turns, Work
from tests.api.requests import EXAMPLES, Asked
from tests.clients import TRANSPORTS, settings

ROWS = 1000


def a_call(address: str, **query: Any) -> Call:
    scheme = by_key(*address.split("/"))
    params = scheme.params(**query)
    return TableCache(0).call(scheme, params, {}, scheme.tensors(params, {}))


SINUSOIDAL = a_call("encodings/sinusoidal", length=10_500, dim=16)


@pytest.fixture(autouse=True)
def _every_block_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partner, "WORTH_SECONDS", -1.0)


@pytest.fixture(scope="module")
def shared() -> Iterator[Partner]:
    """One that is there, for tests that leave it so."""
    opened = ready(Partner())
    yield opened
    opened.close()


@pytest.fixture
def own() -> Iterator[Partner]:
    """One for tests that do something to it."""
    opened = ready(Partner())
    yield opened
    opened.close()


def ready(opened: Partner) -> Partner:
    opened.wait()
    assert opened.pid is not None
    return opened


def process(opened: Partner) -> subprocess.Popen[bytes]:
    assert opened._child is not None
    return opened._child.process


def line(opened: Partner) -> Line:
    assert opened._child is not None
    return opened._child.line


class Watched:
    """A partner's blocks, counted."""

    def __init__(self, opened: Partner, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[Array | None] = []
        take = opened.take

        def counted() -> Array | None:
            self.taken.append(take())
            return self.taken[-1]

        monkeypatch.setattr(opened, "take", counted)


def computed(call: Call, tensor: str, rows: int = ROWS) -> Array:
    """All rows of a tensor, block by block."""
    count = call.tensors[tensor].rows
    return np.concatenate([call.compute(tensor, start, min(start + rows, count)) for start in range(0, count, rows)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("address", ["encodings/sinusoidal", "encodings/rope"])
def test_what_both_compute_is_what_one_computes(
    address: str, dtype: str, shared: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, watched = a_call(address, length=10_500, dim=16, dtype=dtype), Watched(shared, monkeypatch)
    for tensor in call.tensors:
        watched.taken.clear()
        with shared.helping(call) as helped:
            both = computed(helped, tensor)
        alone = computed(call, tensor)
        assert both.dtype == alone.dtype
        assert both.tobytes() == alone.tobytes()
        assert [len(block) for block in watched.taken if block is not None] == [
            ROWS
        ] * 5  # blocks 1, 3, 5, 7 and 9 of 11


def test_other_numbers_pass_through_the_shared_memory_too(shared: Partner, monkeypatch: pytest.MonkeyPatch) -> None:
    call, watched = a_call("masks/causal", length=2000), Watched(shared, monkeypatch)
    (tensor,) = call.tensors
    with shared.helping(call) as helped:
        assert np.array_equal(computed(helped, tensor), computed(call, tensor))
    assert [block.dtype for block in watched.taken if block is not None] == [np.dtype(bool)]


def test_a_reader_may_go_anywhere(shared: Partner, monkeypatch: pytest.MonkeyPatch) -> None:
    call, watched = a_call("encodings/rope", length=5000, dim=16), Watched(shared, monkeypatch)
    places = [("cos", 0, 500), ("cos", 500, 1000), ("sin", 0, 100), ("sin", 900, 1000), ("sin", 1000, 1100)]
    places += [("sin", 0, 100), ("cos", 700, 1000), ("cos", 1000, 1300), ("cos", 4990, 5000), ("sin", 4999, 5000)]
    with shared.helping(call) as helped:
        for place in places:
            assert np.array_equal(helped.compute(*place), call.compute(*place))
    assert len(watched.taken) > 4
    assert all(block is not None for block in watched.taken)


def test_a_reader_who_left_is_no_concern_of_the_next(shared: Partner) -> None:
    with shared.helping(SINUSOIDAL) as helped:
        helped.compute("encoding", 0, ROWS)
        helped.compute("encoding", ROWS, 2 * ROWS)  # and the next is asked for
    assert shared._asked == shared._taken + 2
    other = a_call("encodings/sinusoidal", length=10_500, dim=16, base=500.0)
    with shared.helping(other) as helped:
        assert np.array_equal(computed(helped, "encoding"), computed(other, "encoding"))


def test_it_helps_one_table_at_a_time(shared: Partner) -> None:
    with shared.helping(SINUSOIDAL) as helped, shared.helping(SINUSOIDAL) as other:
        assert helped is not SINUSOIDAL
        assert other is SINUSOIDAL
    with shared.helping(SINUSOIDAL) as helped:
        assert helped is not SINUSOIDAL


def test_the_callers_own_arrays_stay_here(shared: Partner) -> None:
    call = replace(SINUSOIDAL, inputs={"positions": np.zeros(3)})
    with shared.helping(call) as helped:
        assert helped is call


def test_blocks_that_are_quick_or_too_large_are_computed_here(shared: Partner, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(shared, monkeypatch)
    wide = a_call("masks/causal", length=10_000)
    (tensor,) = wide.tensors
    with shared.helping(wide) as helped:
        helped.compute(tensor, 0, 500)
        helped.compute(tensor, 500, 1000)
    assert watched.taken == []
    monkeypatch.setattr(partner, "WORTH_SECONDS", 60.0)
    with shared.helping(SINUSOIDAL) as helped:
        computed(helped, "encoding")
    assert len(watched.taken) == 2  # asked for before it was known how quick they are


def test_it_joins_in_when_it_is_there() -> None:
    opened, turns = Partner(), None
    try:
        turns = Turns(opened, SINUSOIDAL)
        for start in range(0, 3000, 1000):  # it takes longer to start than these
            assert np.array_equal(
                turns.rows("encoding", start, start + 1000), SINUSOIDAL.compute("encoding", start, start + 1000)
            )
        assert opened._asked == 0
        ready(opened)
        turns.rows("encoding", 3000, 4000)
        assert opened._asked == 2
    finally:
        opened.close()


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_when_it_is_killed_the_service_goes_on_and_starts_another(
    sig: int, own: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, watched = process(own), Watched(own, monkeypatch)
    with own.helping(SINUSOIDAL) as helped:
        helped.compute("encoding", 0, ROWS)
        helped.compute("encoding", ROWS, 2 * ROWS)
        first.send_signal(sig)
        first.wait()
        assert np.array_equal(computed(helped, "encoding"), computed(SINUSOIDAL, "encoding"))
    ready(own)
    assert process(own).pid != first.pid
    watched.taken.clear()
    with own.helping(SINUSOIDAL) as helped:
        assert np.array_equal(computed(helped, "encoding"), computed(SINUSOIDAL, "encoding"))
    assert len(watched.taken) == 5


def test_when_its_connection_breaks_before_it_is_asked(own: Partner) -> None:
    line(own).close()
    assert not own.ask(SINUSOIDAL, ("encoding", 0, 1))
    assert own._child is None


def test_one_that_dies_while_it_starts_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Partner()
    try:
        opened._available()
        first = process(opened)
        monkeypatch.setattr(first, "poll", lambda: None)  # not known to be dead yet
        first.kill()
        first.wait()
        assert not opened._available()
        assert opened._child is None
        assert not opened._available()
        assert process(opened) is not first
    finally:
        opened.close()


def test_one_that_hangs_is_ended() -> None:
    opened = ready(Partner(hung_seconds=0.05))
    hung = process(opened)
    os.kill(hung.pid, signal.SIGSTOP)
    try:
        with opened.helping(SINUSOIDAL) as helped:
            assert np.array_equal(computed(helped, "encoding"), computed(SINUSOIDAL, "encoding"))
        assert hung.wait(10) == -signal.SIGKILL
    finally:
        opened.close()


def test_what_it_cannot_compute_is_no_end_of_it(own: Partner) -> None:
    first = process(own)
    assert own.ask(SINUSOIDAL, ("no such tensor", 5, 4))
    assert own.take() is None
    assert own.ask(SINUSOIDAL, ("encoding", 5, 9))
    assert np.array_equal(own.take(), SINUSOIDAL.compute("encoding", 5, 9))  # type: ignore[arg-type]
    assert process(own) is first


def test_it_ends_when_nobody_asks() -> None:
    opened = ready(Partner(idle_seconds=0.05))
    try:
        ended = process(opened)
        assert ended.wait(10) == 0
        assert not opened.ask(SINUSOIDAL, ("encoding", 0, 1))
        assert process(opened) is not ended  # another starts
    finally:
        opened.close()


def test_it_ends_with_the_service(own: Partner) -> None:
    """However that ends: the connection is closed."""
    line(own).close()
    assert process(own).wait(10) == 0


def test_once_closed_it_stays_so(own: Partner) -> None:
    ended = process(own)
    own.close()
    assert ended.wait(10) == -signal.SIGKILL
    with own.helping(SINUSOIDAL) as helped:
        assert np.array_equal(computed(helped, "encoding"), computed(SINUSOIDAL, "encoding"))
    assert own.pid is None
    assert own.take() is None
    own.wait()


def test_where_no_process_can_start_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def refuse(*_: Any, **__: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    opened = Partner()
    with opened.helping(SINUSOIDAL) as helped:
        assert np.array_equal(computed(helped, "encoding"), computed(SINUSOIDAL, "encoding"))
    assert caplog.messages == ["no second process: [Errno 11] Resource temporarily unavailable"]


@pytest.mark.parametrize(("module", "name"), [(child, "Pipe"), (os, "memfd_create")])
def test_where_there_are_no_descriptors_left_it_does_without(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(module, name, refuse)
    opened = Partner()
    with opened.helping(SINUSOIDAL) as helped:
        assert np.array_equal(computed(helped, "encoding"), computed(SINUSOIDAL, "encoding"))
    opened.close()


def test_its_own_side() -> None:
    """What the process runs, here in a thread."""
    ours, theirs = Pipe()
    memory = os.memfd_create("test")
    os.ftruncate(memory, SLOTS * SLOT_BYTES)
    thread = threading.Thread(target=partner.main, args=(os.dup(theirs.fileno()), memory, 30.0))
    thread.start()
    theirs.close()
    with ours, mmap.mmap(memory, SLOTS * SLOT_BYTES) as view:
        assert ours.recv_bytes() == b'["ready"]'
        key, params = SINUSOIDAL.scheme.key, SINUSOIDAL.params.model_dump(mode="json")
        for place in (("encoding", 7, 10), ("encoding", 300, 400)):
            slot = place[1] % SLOTS
            ours.send_bytes(json.dumps((slot, key, params, place)).encode())
            shape, dtype = json.loads(ours.recv_bytes())
            size = shape[0] * shape[1] * np.dtype(dtype).itemsize
            rows = np.frombuffer(view[slot * SLOT_BYTES : slot * SLOT_BYTES + size], dtype).reshape(shape)
            assert np.array_equal(rows, SINUSOIDAL.compute(*place))
        ours.send_bytes(json.dumps((0, key, params, ("no such tensor", 5, 4))).encode())
        assert ours.recv_bytes() == b"[]"
    thread.join(10)
    assert not thread.is_alive()


def test_its_side_ends_when_idle() -> None:
    ours, theirs = Pipe()
    with ours, theirs, mmap.mmap(-1, SLOTS * SLOT_BYTES) as view:
        Work().answer(Line(theirs), view, 0.01)
        assert ours.recv_bytes() == b'["ready"]'


@pytest.mark.parametrize("asked", EXAMPLES, ids=str)
def test_every_request_reads_back_as_it_was_sent(asked: Asked) -> None:
    """As JSON, without what is not stated."""
    model = asked.scheme.params
    given = model.model_validate(parameters_of(asked.scheme, asked.example))
    params = asked.scheme.resolve(given, example_arrays(asked.example))
    sent = json.dumps(params.model_dump(mode="json", exclude_defaults=True))
    assert model.model_validate(json.loads(sent)) == params


@pytest.mark.parametrize("transport", list(TRANSPORTS))
@pytest.mark.parametrize("ending", ["", ".npy", ".npz"])
def test_an_answer_computed_by_both_has_the_same_bytes(
    transport: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"/v1/encodings/sinusoidal{ending}?dim=64&length=35000"
    monkeypatch.setattr(main, "cores", lambda: 2)
    with TRANSPORTS[transport](settings(stream_bytes=1000)) as client:
        assert client.resources.partner is None
        alone = client.get(target)
    with TRANSPORTS[transport](settings(stream_bytes=1000, partner="on", table_cache_bytes=0)) as client:
        opened = client.resources.partner
        assert opened is not None
        ready(opened)
        ended, watched = process(opened), Watched(opened, monkeypatch)
        both = client.get(target)
        blocks = len(watched.taken)
        part = client.get(target, headers={"Range": "bytes=100-300000"})
        assert len(watched.taken) == blocks  # of a part only the rows in it are computed
    assert both.status_code == 200
    assert both.content == alone.content
    assert part.content in (alone.content[100:300001], alone.content)
    assert ended.wait(10) == -signal.SIGKILL
    assert [block is None for block in watched.taken] == [False] * {"": 0, ".npy": 2, ".npz": 4}[ending]


@pytest.mark.parametrize(
    ("cores", "given", "has"),
    [
        (2, {}, True),
        (1, {}, False),
        (2, {"workers": 2}, False),
        (4, {"workers": 3}, True),
        (4, {"threads": 1}, False),
        (1, {"threads": 8}, False),
        (2, {"partner": "off"}, False),
    ],
)
def test_there_is_one_where_a_core_is_left(
    cores: int, given: dict[str, Any], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "cores", lambda: cores)
    resources = main.make_resources(settings(partner="on").model_copy(update=given))
    resources.pool.shutdown()
    assert (resources.partner is not None) == has
