"""Replicas of the service, in processes of their own or in this one."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.deploy.proxied import Held, Replica, serving
from tests.live import free_port


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    """Three processes; whatever is left of them is killed."""
    found = [Replica(free_port()) for _ in range(3)]
    for each in found:
        each.start()
    yield found
    for each in found:
        if each.process is not None and each.process.poll() is None:
            each.process.kill()
            each.process.wait(10)


@pytest.fixture
def three() -> Iterator[list[Held]]:
    """Three of them."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(serving()) for _ in range(3)]
