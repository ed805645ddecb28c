"""Pictures drawn by another process: the same bytes; whatever becomes of it, the service goes on and says so."""

import io
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Pipe
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

from service import child, drawer
from service.child import Line
from service.drawer import Drawer, Order, Undrawn, Work
from service.engine import SCHEMES, by_key
from service.engine.layered import Layered, layered
from service.engine.scheme import Array, Scheme
from service.formats.format import Captions
from tests.api.problems import refused
from tests.api.requests import PICTURES
from tests.clients import Client, in_process, on_port, settings

CLASSIC = "/v1/encodings/sinusoidal.png?length=50&dim=128"
LAYERS = {"full": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}, "near": {"rope_theta": 1e4}}


@pytest.fixture(scope="module")
def apart() -> Iterator[Client]:
    """A server whose pictures another process draws."""
    with in_process(settings(drawer="on")) as client:
        yield client


@pytest.fixture
def own() -> Iterator[Drawer]:
    """A drawer for tests that do something to it."""
    opened = Drawer()
    yield opened
    opened.close()


def order(extension: str = "png", **parameters: Any) -> Order:
    scheme = by_key("encodings", "sinusoidal")
    params = scheme.params(**{"length": 3, "dim": 4, **parameters})
    return Order(scheme, params, {}, ("encoding",), extension, Captions("A table", "so"))


def process(opened: Drawer) -> subprocess.Popen[bytes]:
    opened.draw(order())
    assert opened._child is not None
    return opened._child.process


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(scheme.key))
def test_every_scheme_has_the_picture_that_is_drawn_here(
    direct: Client, apart: Client, scheme: Scheme[Any, Any]
) -> None:
    asked = next(each for each in PICTURES if each.scheme is scheme and each.extension == "svg")
    here, there = asked.send(direct), asked.send(apart)
    assert here.status_code == there.status_code == 200, there.text
    assert there.content == here.content
    assert there.headers.get("etag") == here.headers.get("etag")


def npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


X = np.arange(24.0).reshape(2, 3, 4)
BLOCK = {"json": {"rope_parameters": LAYERS}}
BINARY = {"headers": {"Content-Type": "application/octet-stream"}}
ARRAYS = [X.astype(dtype) for dtype in (">f4", "<f8", "<f2", ">f8")] + [np.asfortranarray(X.astype("<f4"))]


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        ("/v1/encodings/rope.png?dim=8&length=9&theme=dark&picture_width=narrow", BLOCK),
        ("/v1/encodings/rope.png?dim=8&length=9&tensor=near.sin", BLOCK),
        ("/v1/encodings/sinusoidal.png?dim=8&base=1e-3&positions=0.1,2,1e15&dtype=bfloat16", None),
        ("/v1/apply/sinusoidal.svg?dtype=bfloat16", {"json": {"tensors": {"x": X.tolist()}}}),
        *(("/v1/apply/sinusoidal.png", {"content": npy(array), **BINARY}) for array in ARRAYS),
    ],
    ids=str,
)
def test_parameters_and_arrays_arrive_as_they_are(
    target: str, sent: dict[str, Any] | None, direct: Client, apart: Client
) -> None:
    here, there = (client.request("POST" if sent else "GET", target, **(sent or {})) for client in (direct, apart))
    assert here.status_code == there.status_code == 200, there.text
    assert there.content == here.content


def test_arrays_of_every_kind_pass_over_the_line() -> None:
    kinds = [np.dtype(each) for each in ("?", "i1", "u1", "<i8", ">i4", "<f2", ">f8", ml_dtypes.bfloat16)]
    arrays = [np.arange(6).reshape(2, 3).astype(kind)[:, ::2] for kind in kinds]
    arrays += [np.zeros((0, 3)), np.float32(4) * np.ones(())]
    for array in arrays:
        ours, theirs = Pipe()
        with ours, theirs:
            ours.send_bytes(drawer._plain(array))
            told = drawer._array(Line(theirs), array.dtype.name, list(array.shape))
        assert told.shape == array.shape
        assert told.astype(np.float64).tolist() == array.astype(np.float64).tolist()


def test_the_stages_are_those_of_the_other_process(apart: Client) -> None:
    timing = apart.get("/v1/encodings/sinusoidal.png?length=40&dim=128&base=99").headers["server-timing"]
    stages = dict(each.split(";dur=") for each in timing.split(", "))
    assert list(stages) == ["queue", "compute", "encode"]
    assert float(stages["compute"]) > 0


def test_the_server_itself_never_loads_what_draws() -> None:
    """In a process of its own, for this one has loaded it long since."""
    program = (
        "import sys; from tests.clients import in_process, settings\n"
        "with in_process(settings(drawer='on')) as client:\n"
        f"    assert client.get({CLASSIC!r}).status_code == 200\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_was_killed_is_replaced(sig: int, own: Drawer) -> None:
    before = own.draw(order())
    first = process(own)
    first.send_signal(sig)
    first.wait()
    assert own.draw(order()).content == before.content
    assert process(own) is not first


def test_one_that_ends_over_a_picture_is_tried_once_more(own: Drawer, monkeypatch: pytest.MonkeyPatch) -> None:
    started, asked = [], drawer._asked

    def ended(line: Line, wanted: Order) -> drawer.Drawn:
        assert own._child is not None
        started.append(own._child.process)
        if len(started) in (1, 3, 4):
            own._child.process.kill()
        return asked(line, wanted)

    monkeypatch.setattr(drawer, "_asked", ended)
    large = order(length=4000, dim=512, base=77.0)
    assert own.draw(large).content.startswith(b"\x89PNG")
    with pytest.raises(Undrawn, match="ended while it drew"):
        own.draw(large)
    assert len({each.pid for each in started}) == 3
    assert own.draw(large).content.startswith(b"\x89PNG")


def test_one_that_hangs_is_ended_and_another_draws(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    opened = Drawer()
    hung = process(opened)
    opened.hung_seconds = 0.05
    os.kill(hung.pid, signal.SIGSTOP)
    try:
        with pytest.raises(Undrawn, match=r"longer than 0\.05 seconds"):
            opened.draw(order())
        assert hung.wait(10) == -signal.SIGKILL
        assert caplog.messages == ["a picture was not drawn within 0.05 s: so"]
        opened.hung_seconds = 30.0
        assert opened.draw(order()).content
    finally:
        opened.close()


def test_what_cannot_be_drawn_is_told_and_no_end_of_it(own: Drawer) -> None:
    first = process(own)
    wrong = Order(by_key("encodings", "sinusoidal"), order().params, {}, ("no such",), "png", Captions())
    with pytest.raises(RuntimeError, match=r"(?s)in the process that draws pictures.*KeyError: 'no such'"):
        own.draw(wrong)
    assert own.draw(order()).content
    assert process(own) is first


def test_it_ends_when_nobody_asks_and_another_starts() -> None:
    opened = Drawer(idle_seconds=0.05)
    try:
        ended = process(opened)
        assert ended.wait(10) == 0
        assert opened.draw(order()).content
    finally:
        opened.close()


def test_it_ends_with_the_service(own: Drawer) -> None:
    """However that ends: the line breaks."""
    ended = process(own)
    assert own._child is not None
    own._child.line.close()
    assert ended.wait(10) == 0


def test_answers_go_before_pictures_but_not_before_the_drawer_is_there(own: Drawer) -> None:
    """Beside processes that are always busy it would be loaded for 20 seconds, and somebody waits for it."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    loading = own._there()
    assert os.getpriority(os.PRIO_PROCESS, loading.pid) == usual
    assert process(own).pid == loading.pid
    assert os.getpriority(os.PRIO_PROCESS, loading.pid) == usual + drawer.NICENESS


def test_pictures_that_are_asked_for_as_the_drawer_ends_are_drawn() -> None:
    """It ends between two of them, or while it is asked."""
    opened, expected = Drawer(idle_seconds=0.02), Drawer()
    wanted = [order(length=length) for length in (3, 4)]
    right = [expected.draw(each).content for each in wanted]
    found: list[tuple[int, bytes]] = []
    pids: set[int | None] = set()

    def ask(which: int) -> None:
        for pause in (0.0, 0.015, 0.02, 0.025):
            time.sleep(pause)
            found.append((which, opened.draw(wanted[which]).content))
            pids.add(opened.pid)

    asking = [threading.Thread(target=ask, args=(which,)) for which in (0, 1, 0)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    ended = process(opened)
    assert ended.wait(10) == 0
    assert opened.draw(wanted[0]).content == right[0]
    assert len({*pids, ended.pid, opened.pid}) > 1
    opened.close()
    expected.close()
    assert len(found) == 12
    assert all(content == right[which] for which, content in found)


def test_a_picture_that_there_is_no_memory_for_leaves_nothing_to_the_next(
    own: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = own.draw(order()), own.draw(order(length=5))
    with monkeypatch.context() as patched:
        patched.setattr(Line, "received", mock.Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            own.draw(order())
    assert own.draw(order(length=5)).content == second.content != first.content


def test_once_closed_it_stays_so(own: Drawer) -> None:
    ended = process(own)
    own.close()
    assert ended.wait(10) == -signal.SIGKILL
    with pytest.raises(Undrawn, match="the service ends"):
        own.draw(order())
    assert own.pid is None


@pytest.mark.parametrize(("module", "name"), [(subprocess, "Popen"), (child, "Pipe")])
def test_where_no_process_can_start_there_is_no_picture_now(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def refuse(*_: Any, **__: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with in_process(settings(drawer="on")) as client:
        with monkeypatch.context() as patched:
            patched.setattr(module, name, refuse)
            reply = client.get(CLASSIC)
            problem = refused(reply, "overloaded")
            assert problem["detail"] == "no process could be started to draw pictures"
            assert reply.headers["retry-after"] == "1"
            assert client.get(CLASSIC.replace(".png", ".npy")).status_code == 200
        assert caplog.messages == ["no process to draw pictures: [Errno 11] Resource temporarily unavailable"]
        assert client.get(CLASSIC).status_code == 200  # a moment later


def test_the_service_takes_it_along_when_it_ends() -> None:
    with on_port(settings(drawer="on")) as client:
        assert client.get(CLASSIC).status_code == 200
        opened = client.resources.drawer
        assert opened is not None
        assert opened._child is not None
        ended = opened._child.process
    assert ended.wait(10) == -signal.SIGKILL


def test_its_own_side() -> None:
    """What the process runs, here in a thread."""
    ours, theirs = Pipe()
    thread = threading.Thread(target=drawer.main, args=(os.dup(theirs.fileno()), 30.0))
    thread.start()
    theirs.close()
    line = Line(ours)
    rope = by_key("encodings", "rope")
    layers = Layered(layers={name: rope.params(length=2, dim=4, base=base) for name, base in (("a", 1e4), ("b", 1e6))})
    scheme, x = by_key("apply", "sinusoidal"), {"x": np.ones((2, 4), np.float32)}
    params = scheme.resolve(scheme.params(), x)
    dark = Captions("t", "p", {"position": 0}, {}, "dark")
    with ours:
        for wanted in (
            order("svg"),
            Order(layered(rope), layers, {}, ("a.cos", "b.sin"), "png", dark),
            Order(scheme, params, x, tuple(scheme.tensors(params, x)), "png", dark),
        ):
            drawn = drawer._asked(line, wanted)
            assert drawn.content.startswith((b"<svg", b"\x89PNG"))
            assert drawn.compute_seconds > 0
        with pytest.raises(RuntimeError, match="KeyError"):
            drawer._asked(line, Order(scheme, scheme.params(), x, ("none",), "png", Captions()))
    thread.join(10)
    assert not thread.is_alive()


def test_its_side_ends_when_idle() -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        Work(Line(theirs)).answer(0.01)
