"""Schemes whose computing can be watched and held up."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from service.engine import by_key
from service.engine.scheme import Scheme


class Gate:
    """What happened in a scheme's `prepare` and `rows`; while `shut`, they wait."""

    def __init__(self) -> None:
        self.tensors = 0
        self.prepared = 0
        self.blocks = 0
        self.threads: set[str] = set()
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.opened.set()
        self.failing = False

    def shut(self) -> None:
        self.entered.clear()
        self.opened.clear()

    def open(self) -> None:
        self.opened.set()

    def pass_through(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.entered.set()
        assert self.opened.wait(30)
        if self.failing:
            raise RuntimeError("told to fail")


@contextmanager
def watched(family: str, name: str) -> Iterator[Gate]:
    """Let every computation of a scheme pass a gate."""
    scheme: Scheme[Any, Any] = by_key(family, name)
    tensors, prepare, rows, together = scheme.tensors, scheme.prepare, scheme.rows, scheme.together
    gate = Gate()

    def watched_tensors(*arguments: Any) -> Any:
        gate.tensors += 1
        if scheme.needs_body:
            gate.threads.add(threading.current_thread().name)
        return tensors(*arguments)

    def watched_prepare(*arguments: Any) -> Any:
        gate.prepared += 1
        gate.pass_through()
        return prepare(*arguments)

    def watched_rows(*arguments: Any) -> Any:
        gate.blocks += 1
        gate.pass_through()
        return rows(*arguments)

    object.__setattr__(scheme, "tensors", watched_tensors)
    object.__setattr__(scheme, "prepare", watched_prepare)
    object.__setattr__(scheme, "rows", watched_rows)
    object.__setattr__(scheme, "together", None)  # so that every block passes
    try:
        yield gate
    finally:
        gate.open()
        object.__setattr__(scheme, "tensors", tensors)
        object.__setattr__(scheme, "prepare", prepare)
        object.__setattr__(scheme, "rows", rows)
        object.__setattr__(scheme, "together", together)
