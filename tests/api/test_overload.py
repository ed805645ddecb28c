"""More requests than can be served: what does not fit is turned away at once, and costs next to nothing."""

import asyncio
import socket

import httpx
import pytest

from service.api.resources import LET_IN
from service.api.turns import Entrance, Place
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


def test_few_are_made_at_a_time_and_the_others_in_turn() -> None:
    with on_port(settings(threads=1)) as client, watched("encodings", "rope") as gate:
        gate.shut()
        waiting = [client.run(_begun(client, COLD.format(number))) for number in range(20, 20 + LET_IN + 3)]
        wait_until(lambda: waiting_in(client) == LET_IN + 3)
        wait_until(lambda: client.resources.entrance.waited() > 0)
        assert client.resources.pool._work_queue.qsize() == LET_IN - 1  # and one is with the thread
        gate.open()
        assert [client.run(_ended(task)).status_code for task in waiting] == [200] * (LET_IN + 3)
        assert client.resources.waited() == 0.0


def test_no_more_is_taken_while_someone_has_waited_outside_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_port(settings(threads=1, queue_seconds=0.2)) as client, watched("encodings", "rope") as gate:
        gate.shut()
        monkeypatch.setattr(client.resources.queue, "waited", lambda: 0.0)
        waiting = [client.run(_begun(client, COLD.format(number))) for number in range(20, 20 + LET_IN + 1)]
        wait_until(lambda: client.resources.entrance.waited() > 0.2)
        refused(client.get(COLD.format(40)), "overloaded")
        gate.open()
        assert [client.run(_ended(task)).status_code for task in waiting] == [200] * (LET_IN + 1)


def test_who_is_let_in_leaves_whatever_happens(direct: Client) -> None:
    with watched("encodings", "rope") as gate:
        gate.failing = True
        places = LET_IN * direct.resources.threads
        for number in range(3 * places):
            assert direct.get(COLD.format(30 + number)).status_code == 500
            assert direct.get("/v1/encodings/rope.npy?length=8").status_code == 422
    assert direct.get(COLD.format(29)).status_code == 200

    async def give_up() -> None:
        entered = [direct.resources.entrance.place() for _ in range(places)]
        for place in entered:
            await place.__aenter__()
        task = asyncio.ensure_future(direct.resources.entrance.place().__aenter__())
        await asyncio.sleep(0)
        assert direct.resources.entrance.waited() > 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert direct.resources.entrance.waited() == 0
        for place in entered:
            await place.__aexit__()

    direct.run(give_up())
    assert direct.get(COLD.format(28)).status_code == 200


def test_what_is_behind_those_who_are_next_is_read_in_its_turn() -> None:
    with on_port(settings(threads=1)) as client, watched("encodings", "rope") as gate:
        gate.shut()
        waiting = [client.run(_begun(client, COLD.format(number))) for number in range(20, 20 + 2 * LET_IN)]
        wait_until(lambda: len(client.resources.entrance.next) == LET_IN)
        behind = [COLD.format(number) for number in (50, "none", 51, 20, 52)]
        later = [client.run(_begun(client, target)) for target in behind]
        wait_until(lambda: client.resources.entrance.behind.waited() > 0)
        wait_until(lambda: len(client.resources.entrance.behind) == len(later))
        with socket.create_connection(("127.0.0.1", client.http.base_url.port or 0)) as leaving:
            leaving.sendall(f"GET {COLD.format(53)} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            wait_until(lambda: len(client.resources.entrance.behind) == len(later) + 1)
        assert len(client.resources.entrance.next) == LET_IN
        gate.open()
        assert [client.run(_ended(task)).status_code for task in waiting] == [200] * 2 * LET_IN
        assert [client.run(_ended(task)).status_code for task in later] == [200, 422, 200, 200, 200]
        wait_until(lambda: waiting_in(client) == 0)
        assert (len(client.resources.entrance.behind), client.resources.waited()) == (0, 0.0)


def test_who_is_read_late_has_waited_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_port(settings(threads=1, queue_seconds=0.2)) as client, watched("encodings", "rope") as gate:
        gate.shut()
        for turns in (client.resources.queue, client.resources.entrance.next):
            monkeypatch.setattr(turns, "waited", lambda: 0.0)
        waiting = [client.run(_begun(client, COLD.format(number))) for number in range(20, 21 + 2 * LET_IN)]
        wait_until(lambda: client.resources.waited() > 0.2)
        detail = refused(client.get(COLD.format(40)), "overloaded")["detail"]
        assert detail == "who is next has waited for more than 0.2 seconds"
        gate.open()
        assert [client.run(_ended(task)).status_code for task in waiting] == [200] * (2 * LET_IN + 1)


def test_who_gives_up_behind_them_lets_the_next_through() -> None:
    async def come_and_go() -> list[str]:
        told: list[str] = []
        entrance = Entrance(1)

        async def come(name: str) -> None:
            await entrance.approach()
            told.append(name)

        inside, next_one = entrance.place(), entrance.place()
        await inside.__aenter__()
        tasks = [asyncio.ensure_future(come(name)) for name in "abcd"]
        await asyncio.sleep(0)
        assert (len(entrance.behind), told) == (4, [])
        tasks[0].cancel()
        await asyncio.sleep(0)
        await inside.__aexit__()
        await next_one.__aenter__()
        tasks[1].cancel()  # who has just been beckoned
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (len(entrance.behind), len(entrance.next)) == (0, 0)
        return told

    assert asyncio.run(come_and_go()) == ["c", "d"]


def test_known_answers_and_pictures_wait_for_no_place() -> None:
    with on_port(settings(threads=2)) as client, watched("encodings", "rope") as gate:
        known = client.get("/v1/encodings/rope.npy?length=8&dim=8")
        gate.shut()
        waiting = [client.run(_begun(client, COLD.format(number))) for number in range(20, 22 + 2 * LET_IN)]
        wait_until(lambda: client.resources.entrance.waited() > 0)
        assert client.get("/v1/encodings/rope.npy?dim=8&length=8").content == known.content
        assert client.head(COLD.format(60)).status_code == 200
        refused(client.get(COLD.format("none")), "invalid-parameters")
        drawn = client.run(_begun(client, "/v1/encodings/rope.svg?length=8&dim=8"))
        wait_until(client.resources.drawing.locked)
        gate.open()
        assert [client.run(_ended(task)).status_code for task in (*waiting, drawn)] == [200] * (2 * LET_IN + 3)


def test_what_is_made_in_blocks_needs_no_place() -> None:
    """It would hold one for as long as a hundred small answers take, and they could not be made between its blocks."""
    with on_port(settings(threads=1, stream_bytes="1MiB")) as client:

        async def enter() -> Place:
            places = [client.resources.entrance.place() for _ in range(LET_IN)]
            for place in places:
                await place.__aenter__()
            return places[0]

        entered = client.run(enter())
        small = client.run(_begun(client, COLD.format(20)))
        assert client.get("/v1/biases/alibi.npy?heads=32&length=200").status_code == 200
        assert not small.done()

        async def leave() -> None:
            await entered.__aexit__()

        client.run(leave())
        assert client.run(_ended(small)).status_code == 200


def test_who_is_still_sending_does_not_wait() -> None:
    """Slow clients would take the places of those who wait for an answer."""
    with on_port(settings(waiting_requests=1)) as client, watched("encodings", "rope") as gate:
        body = b'{"positions": [1, 2]}'
        head = f"POST /v1/encodings/rope.npy?dim=8 HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
        gate.shut()
        with socket.create_connection(("127.0.0.1", client.http.base_url.port or 0)) as sending:
            sending.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body[:5])
            wait_until(lambda: client.resources.gate.meters.in_flight == 1)
            assert waiting_in(client) == 0
            assert client.get("/v1/encodings/sinusoidal.npy?length=3&dim=4").status_code == 200
            sending.sendall(body[5:])
            wait_until(lambda: waiting_in(client) == 1)
            refused(client.get("/v1/encodings/sinusoidal.npy?length=3&dim=6"), "overloaded")
            gate.open()
            assert sending.recv(12) == b"HTTP/1.1 200"
        wait_until(lambda: waiting_in(client) == 0)


def test_a_post_without_a_body_waits_once() -> None:
    """Nothing in its header tells that a body will be read."""
    with on_port(settings()) as client:
        with socket.create_connection(("127.0.0.1", client.http.base_url.port or 0)) as asking:
            asking.sendall(b"POST /v1/models/resolve HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\r\n")
            assert asking.recv(12) == b"HTTP/1.1 400"
        wait_until(lambda: client.resources.gate.meters.in_flight == 0)
        assert waiting_in(client) == 0
