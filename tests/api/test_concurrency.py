"""Many at once: computed once, off the event loop, whoever leaves in between."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.api.gates import Gate, watched
from tests.api.problems import refused
from tests.clients import Call, Client
from tests.live import wait_until

ROPE = "/v1/encodings/rope.npy"


def open_when_joined(client: Client, gate: Gate, others: int) -> None:
    """Let the computing go on when so many more wait for what one has asked for."""
    meters = client.resources.gate.meters
    before = meters.joined

    def look() -> None:
        if meters.joined - before < others:
            client.loop.call_later(0.01, look)
        else:
            gate.open()

    client.loop.call_soon_threadsafe(look)


def test_two_hundred_at_once_compute_once(client: Client) -> None:
    spellings = [
        "length=64&dim=32&base=71",
        "dim=32&length=64&base=71.0",
        "length=64&dim=32&base=71&offset=0",
        "base=7.1e1&length=64&dim=32",
    ]
    calls: list[Call] = [("GET", f"{ROPE}?{spellings[number % 4]}", {}) for number in range(200)]
    with watched("encodings", "rope") as gate:
        gate.shut()
        open_when_joined(client, gate, 199)
        replies = client.together(calls)
        assert gate.prepared == 1
        assert gate.blocks == 2  # cos and sin
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.content for reply in replies}) == 1
    assert len({reply.headers["etag"] for reply in replies}) == 1
    assert client.resources.under_way == {}
    assert client.resources.budget.in_use == 0


@pytest.mark.parametrize("stay", [True, False])
def test_a_client_that_leaves_takes_nothing_from_the_others(client: Client, stay: bool) -> None:
    target = f"{ROPE}?length=8&dim=4&base=72{int(stay)}"

    async def leave(gate: Any) -> int | None:
        first = asyncio.ensure_future(client.http.get(target))
        await asyncio.to_thread(gate.entered.wait, 10)
        second = asyncio.ensure_future(client.http.get(target)) if stay else None
        await asyncio.sleep(0.1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(0.1)
        gate.open()
        return (await second).status_code if second else None

    with watched("encodings", "rope") as gate:
        gate.shut()
        status = client.run(leave(gate))
        wait_until(lambda: client.resources.under_way == {})
        assert status == (200 if stay else None)
        assert gate.prepared == 1
        assert client.get(target).status_code == 200
        assert gate.prepared == 1, "what was begun is finished and kept"
    assert client.resources.budget.in_use == 0


def test_a_failure_is_told_to_all_and_not_kept(client: Client) -> None:
    target = f"{ROPE}?length=8&dim=4&base=73"
    with watched("encodings", "rope") as gate:
        gate.shut()
        gate.failing = True
        open_when_joined(client, gate, 4)
        replies = client.together([("GET", target, {})] * 5)
        assert gate.prepared == 1
        gate.failing = False
        assert client.get(target).status_code == 200
    for reply in replies:
        refused(reply, "internal-error")
    assert len({reply.headers["x-request-id"] for reply in replies}) == 5
    assert client.resources.budget.in_use == 0


def test_health_and_known_answers_wait_for_no_work(client: Client) -> None:
    """S16: every thread of the pool is busy, and the event loop is not."""
    known = f"{ROPE}?length=8&dim=4&base=74"
    client.get(known)
    with watched("encodings", "sinusoidal") as gate:
        gate.shut()

        async def hold() -> list[httpx.Response]:
            held = [
                asyncio.ensure_future(client.http.get(f"/v1/encodings/sinusoidal?length=8&dim=4&base=74{n}"))
                for n in range(8)
            ]
            await asyncio.to_thread(gate.entered.wait, 10)
            for target in ("/health/live", "/health/ready", known, known + "&offset=0", "/nothing", known + "x"):
                await client.http.get(target)
            # All of them were answered while not one of those before them could be.
            assert not any(task.done() for task in held)
            gate.open()
            return list(await asyncio.gather(*held))

        replies = client.run(hold())
        assert {reply.status_code for reply in replies} == {200}
        assert all(name.startswith("work") for name in gate.threads)


def test_health_answers_while_large_tables_are_written(client: Client) -> None:
    """S16 with real work: on the event loop, four answers would let at most four health checks in between."""

    async def measure() -> tuple[int, list[int]]:
        targets = [f"/v1/encodings/sinusoidal?length=2000&dim=512&base=75{number}" for number in range(4)]
        # Without a coding: this client would decode 50 MB between its health checks.
        plain = {"accept-encoding": "identity"}
        work = [asyncio.ensure_future(client.http.get(target, headers=plain)) for target in targets]
        answered = 0
        while not all(task.done() for task in work):
            await client.http.get("/health/live")
            await asyncio.sleep(0.001)  # in process the check alone would not let the loop turn
            answered += 1
        return answered, [task.result().status_code for task in work]

    answered, statuses = client.run(measure())
    assert statuses == [200] * 4
    assert answered > 8


def test_the_arrays_of_a_post_are_understood_on_the_pool(client: Client) -> None:
    with watched("apply", "rope") as gate:
        reply = client.post("/v1/apply/rope", json={"tensors": {"q": [1, 2]}})
    assert reply.status_code == 200
    assert gate.tensors == 1
    assert gate.threads
    assert all(name.startswith("work") for name in gate.threads)
