"""The word in the log when descriptors run out."""

import logging
import os
import resource
import sys
from typing import NoReturn

import pytest

from service.descriptors import KEPT, QUIET_SECONDS, Descriptors, unused


def test_they_are_counted_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    before = unused()
    with open(__file__):
        after = unused()
    assert before is not None
    assert after == before - 1
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert unused() is None
    monkeypatch.setattr(sys, "platform", "win32")
    assert unused() is None


def test_without_proc_there_is_no_telling(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> NoReturn:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "listdir", missing)
    assert unused() is None


def test_it_is_told_once_a_minute_while_they_are_few(caplog: pytest.LogCaptureFixture) -> None:
    descriptors = Descriptors(50)
    times = [(50 - KEPT - 1, 1000.0), (50 - KEPT, 1001.0), (50, 1002.0), (50, 1001.0 + QUIET_SECONDS)]
    told = []
    with caplog.at_level(logging.WARNING, "posenc.descriptors"):
        for connections, now in times:
            caplog.clear()
            descriptors.watch(connections, now)
            told.append(len(caplog.records))
        Descriptors(None).watch(10**6, 2000.0)
    assert told == [0, 1, 0, 1]
    assert caplog.messages[0].startswith("50 connections are open, and descriptors for 50 are all there are")
