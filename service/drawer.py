"""A process that draws pictures, so that the one that answers does nothing else meanwhile.

Letters and places are Python, and so is the computing of a few rows here and a few there: in one process with the
answers that takes the interpreter's lock from them a thousand times a second. Here matplotlib is loaded, the cells are
computed, and the bytes made; the service sends what the picture is of, and waits.

It starts with the first picture, draws one at a time, and ends when none was asked for a while, or when the service
does. One that ended is replaced, and the picture tried again, once; one that takes too long is ended.
"""

import logging
import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock, Timer
from typing import Any

import numpy as np

from service.child import BROKEN, Child, Line, answer
from service.engine import by_key
from service.engine.layered import Layered, layered
from service.engine.scheme import Array, Inputs, Params, Scheme
from service.engine.tables import TableCache
from service.formats import FORMATS
from service.formats.format import Captions
from service.formats.pictures.lettering import Lettering
from service.formats.pictures.palette import palette

IDLE_SECONDS = 300.0
HUNG_SECONDS = 60.0
TRIES = 2
# Answers go first where processes wait for a core: once it is loaded, for somebody waits for that. At 10, beside two
# other processes for each core, loading took 20 s.
NICENESS = 5

log = logging.getLogger("posenc.drawer")


class Undrawn(Exception):
    """There is no picture this time."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a picture is of: parameters with every default filled in, the caller's arrays, and the tensors shown."""

    scheme: Scheme[Any, Any]
    params: Params
    inputs: Inputs
    tensors: tuple[str, ...]
    extension: str
    captions: Captions

    def told(self) -> dict[str, Any]:
        """The same as JSON, but for the arrays' values."""
        return {
            "key": self.scheme.key,
            "layered": isinstance(self.params, Layered),
            "parameters": self.params.model_dump(mode="json", exclude_defaults=True),
            "inputs": {name: (array.dtype.name, array.shape) for name, array in self.inputs.items()},
            "tensors": self.tensors,
            "extension": self.extension,
            "captions": {
                "title": self.captions.title,
                "parameters": self.captions.parameters,
                "first": dict(self.captions.first),
                "named": dict(self.captions.named),
                "theme": self.captions.theme,
                "lines": dict(self.captions.lines),
                "width": self.captions.width,
                "uniform": dict(self.captions.uniform),
                "notes": self.captions.notes,
                "quantities": dict(self.captions.quantities),
                "shares": self.captions.shares,
            },
        }


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture, and how long its values took."""

    content: bytes
    compute_seconds: float


class Drawer:
    """The service's side.

    >>> drawer = Drawer()
    >>> drawer.close()
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS, hung_seconds: float = HUNG_SECONDS) -> None:
        self.idle_seconds, self.hung_seconds = idle_seconds, hung_seconds
        self._turn = Lock()
        self._child: Child | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._child is None else self._child.pid

    def draw(self, order: Order) -> Drawn:
        """One picture, when those before it are drawn; raises `Undrawn` where there is none to be had now."""
        with self._turn:
            for _ in range(TRIES):
                drawn = self._tried(self._there(), order)
                if drawn is not None:
                    return drawn
        raise Undrawn("the process that draws pictures ended while it drew this one")

    def close(self) -> None:
        """End the process; it is not started again."""
        self._closed = True
        if self._child is not None:
            self._child.end()

    def _there(self) -> Child:
        """The process: started, if there is none."""
        if self._child is not None and self._child.has_ended:
            self._leave()
        if self._closed:
            raise Undrawn("the service ends, and draws no more pictures")
        if self._child is None:
            try:
                self._child = Child(__name__, self.idle_seconds)
            except OSError as error:
                log.warning("no process to draw pictures: %s", error)
                raise Undrawn("no process could be started to draw pictures") from None
        return self._child

    def _tried(self, child: Child, order: Order) -> Drawn | None:
        """The picture; nothing where the process ended."""
        watch = Timer(self.hung_seconds, child.end)
        watch.daemon = True
        watch.start()
        begun = time.monotonic()
        try:
            return _asked(child.line, order)
        except BROKEN:
            self._leave()
        except MemoryError:
            self._leave()  # what is left on the line is no answer to the next
            raise
        finally:
            watch.cancel()
        if time.monotonic() - begun >= self.hung_seconds:
            log.warning("a picture was not drawn within %g s: %s", self.hung_seconds, order.captions.parameters)
            raise Undrawn(f"this picture takes longer than {self.hung_seconds:g} seconds to draw")
        return None

    def _leave(self) -> None:
        assert self._child is not None
        self._child.leave()
        self._child = None


def _asked(line: Line, order: Order) -> Drawn:
    arrays = [_plain(array) for array in order.inputs.values()]
    line.tell(order.told())
    for array in arrays:
        line.send(array)
    fault, seconds = line.told()
    if fault:
        raise RuntimeError(f"in the process that draws pictures:\n{fault}")
    return Drawn(line.received(), seconds)


def _plain(array: Array) -> memoryview:
    """Its values in C order and in this machine's byte order, as bytes."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1).view(np.uint8).data


class Work:
    """The drawer's side: one picture after another."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._seconds = 0.0

    def answer(self, idle_seconds: float) -> None:
        """Draw what is asked for until nothing is any more, or nobody is there to ask."""
        while self._line.hears(idle_seconds):
            (told,) = self._line.told()
            inputs = {name: _array(self._line, *each) for name, each in told["inputs"].items()}
            try:
                content = self._drawn(told, inputs)
            except Exception:
                self._line.tell(traceback.format_exc(), 0.0)
                continue
            self._line.tell("", self._seconds)
            self._line.send(content)

    def _drawn(self, told: Mapping[str, Any], inputs: Inputs) -> bytes:
        self._seconds = 0.0
        scheme, params = _understood(told["key"], told["parameters"], told["layered"])
        call = TableCache(0).call(scheme, params, inputs, scheme.tensors(params, inputs))

        def rows(name: str, start: int, stop: int) -> Array:
            begun = time.perf_counter()
            try:
                return call.compute(name, start, stop)
            finally:
                self._seconds += time.perf_counter() - begun

        tensors = {name: call.tensors[name] for name in told["tensors"]}
        captions = Captions(**told["captions"])
        return b"".join(FORMATS[told["extension"]].stream({}, tensors, rows, captions=captions))


def _array(line: Line, dtype: str, shape: list[int]) -> Array:
    return np.frombuffer(line.received(), np.dtype(dtype)).reshape(shape)


def _understood(key: list[str], stated: Mapping[str, Any], has_layers: bool) -> tuple[Scheme[Any, Any], Params]:
    scheme: Scheme[Any, Any] = by_key(*key)
    if not has_layers:
        return scheme, scheme.params.model_validate(stated)
    layers = {layer: scheme.params.model_validate(own) for layer, own in stated["layers"].items()}
    return layered(scheme), Layered(layers=layers, without=tuple(stated.get("without", ())))


def _prepare() -> None:
    """Load what every picture needs, before one is asked for."""
    Lettering()
    for theme in ("light", "dark"):
        palette(theme)


def main(line: int, idle_seconds: float) -> None:
    """What the process runs."""
    _prepare()
    os.nice(NICENESS)
    answer(line, lambda opened: Work(opened).answer(idle_seconds))
