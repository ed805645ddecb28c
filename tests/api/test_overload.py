"""More requests than can be served: what does not fit is turned away at once, and costs next to nothing."""

import asyncio

import httpx
import pytest

from service.main import Service
from tests.api.gates import watched
from tests.api.problems import refused
from tests.clients import TRANSPORTS, Call, Client, on_port, settings
from tests.live import wait_until

COLD = "/v1/encodings/rope.npy?length=8&dim=8&base={}"
BODY = {"json": {"positions": [1, 2]}}


def waiting_in(client: Client) -> int:
    assert isinstance(client.app, Service)
    return client.app.door.waiting


@pytest.mark.parametrize("transport", list(TRANSPORTS))
def test_a_request_too_many_is_turned_away_and_the_others_are_answered(transport: str) -> None:
    with TRANSPORTS[transport](settings(waiting_requests=3)) as client, watched("encodings", "rope") as gate:
        known = client.get(COLD.format(7))
        gate.shut()
        client.loop.call_soon_threadsafe(client.loop.call_later, 20, gate.open)
        waiting = [client.run(_begun(client, COLD.format(number))) for number in (8, 9, 10)]
        wait_until(lambda: waiting_in(client) == 3)
        turned_away: list[Call] = [("GET", COLD.format(11), {}), ("HEAD", COLD.format(11), {})]
        turned_away += [("GET", COLD.format(11), {"headers": {"range": "bytes=0-9"}})]
        turned_away += [("POST", "/v1/encodings/rope?dim=8", BODY), ("GET", "/v1/schemes", {})]
        for method, target, options in turned_away:
            reply = client.request(method, target, **options)
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
            if method != "HEAD":
                assert refused(reply, "overloaded")["detail"] == "3 requests wait for their answers at the moment"
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 200
        again = client.get(COLD.format(7))
        assert (again.status_code, again.content) == (200, known.content)
        gate.open()
        assert [client.run(_ended(task)).status_code for task in waiting] == [200] * 3
        wait_until(lambda: waiting_in(client) == 0)
        assert client.get(COLD.format(11)).status_code == 200


Answer = asyncio.Task[httpx.Response]


async def _begun(client: Client, target: str) -> Answer:
    return asyncio.ensure_future(client.http.get(target))


async def _ended(task: Answer) -> httpx.Response:
    return await task


def test_no_more_is_taken_while_work_has_waited_too_long() -> None:
    with on_port(settings(threads=1, queue_seconds=0.2)) as client, watched("encodings", "rope") as gate:
        gate.shut()
        waiting = [client.run(_begun(client, COLD.format(number))) for number in (8, 9)]
        wait_until(lambda: client.resources.waited() > 0.2)
        refused(client.get(COLD.format(10)), "overloaded")
        assert client.get("/health/live").status_code == 200
        gate.open()
        assert [client.run(_ended(task)).status_code for task in waiting] == [200] * 2
        assert client.resources.waited() == 0.0
        assert client.get(COLD.format(10)).status_code == 200


def test_work_that_is_given_up_before_it_began_does_not_wait_for_ever() -> None:
    with on_port(settings(threads=1)) as client, watched("encodings", "rope") as gate:
        gate.shut()
        waiting = client.run(_begun(client, COLD.format(8)))
        assert gate.entered.wait(10)

        async def give_up() -> None:
            task = asyncio.ensure_future(client.resources.work(lambda: None))
            await asyncio.sleep(0.05)
            assert client.resources.waited() > 0
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert client.resources.waited() == 0

        client.run(give_up())
        gate.open()
        assert client.run(_ended(waiting)).status_code == 200


def test_whatever_becomes_of_requests_they_do_not_wait_for_ever(direct: Client) -> None:
    targets = [COLD.format(20), "/v1/encodings/rope.npy", "/nothing", "/v1/encodings/sinusoidal?length=200000&dim=8"]
    for target in targets:
        direct.get(target)
    with watched("encodings", "rope") as gate:
        gate.failing = True
        assert direct.get(COLD.format(21)).status_code == 500
    assert waiting_in(direct) == 0
