"""Making an answer: rows computed, written and coded on the work pool; one making for all who ask at once."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from numpy.typing import NDArray

from service.api.codings import REVISION, Coding, gzipped
from service.api.flights import Flight, next_block, while_there
from service.api.limits import Share, overloaded
from service.api.reply_cache import Body, Reply
from service.api.resources import Resources
from service.api.timing import Timing
from service.api.wanted import Wanted, block_bytes, whole_bytes
from service.drawer import Drawer, Order, Undrawn
from service.engine.tables import Call
from service.formats.format import Binary, Chunk


class Making:
    """A request that was understood, in the coding that it is answered in; `key` is the one spelling of both."""

    def __init__(self, wanted: Wanted, coding: Coding, request: bytes) -> None:
        self.wanted = wanted
        self.coding = coding
        self.uncoded = request
        self.key = request if coding == "identity" else request + b" gzip"

    @property
    def revision(self) -> str:
        """What the bytes depend on besides the request."""
        revision = self.wanted.form.revision
        return revision if self.coding == "identity" else f"{revision}|{REVISION}"


def under_way(
    making: Making,
    stream: bool,
    resources: Resources,
    timing: Timing,
    finished: Callable[[Body], Reply],
) -> Flight:
    """The making of this answer, begun unless it is under way; kept, if anyone waits to the end."""
    flight = resources.under_way.get(making.key)
    if flight is not None and not flight.abandoned:
        resources.gate.meters.joined += 1
    else:
        resources.replies.lookups.misses += 1
        flight = resources.under_way[making.key] = Flight()
        # A task of its own: if this client leaves, those who wait for the same answer still get it.
        # Asked for here: who comes next sees how many wait.
        place = nullcontext() if stream else turn(making.wanted, resources)
        work = _fly(flight, making, stream, place, resources, timing, finished)
        task = asyncio.ensure_future(work)
        resources.tasks.add(task)
        task.add_done_callback(resources.tasks.discard)
    return flight


async def _fly(
    flight: Flight,
    making: Making,
    stream: bool,
    place: AbstractAsyncContextManager[Any],
    resources: Resources,
    timing: Timing,
    finished: Callable[[Body], Reply],
) -> None:
    try:
        async with place:
            with Share(resources.budget) as share:
                share.take(making.wanted.bound + block_bytes(making.wanted) if stream else whole_bytes(making.wanted))
                await _add_blocks(flight, making, stream, resources, timing)
        timing.count(resources.gate.meters)
        body = tuple(flight.blocks)
        resources.replies.keep(making.key, finished(body))
        flight.end()
    except Exception as error:
        flight.end(error)
    finally:
        if resources.under_way.get(making.key) is flight:
            del resources.under_way[making.key]


async def _add_blocks(flight: Flight, making: Making, stream: bool, resources: Resources, timing: Timing) -> None:
    made = _from_known(making, resources) or blocks_of(making, resources, timing)
    chunks = while_there(made, lambda: flight.abandoned)
    if not stream:
        flight.add(await whole(making.wanted, chunks, resources, timing))
        return
    take = next_block(chunks)
    while (block := await resources.work(timing.on_pool(take))) is not None:
        if block:
            flight.add(block)


async def whole(wanted: Wanted, chunks: Iterator[Chunk], resources: Resources, timing: Timing) -> bytes:
    """The bytes of an answer in one piece. What another process draws is waited for on a thread that does no work."""
    run = resources.draw if wanted.is_picture and resources.drawer is not None else resources.work
    return await run(timing.on_pool(lambda: b"".join(chunks)))


def is_streamed(wanted: Wanted, resources: Resources) -> bool:
    """Whether an answer is sent while it is made; a picture is there at once or not at all."""
    return wanted.bound > resources.stream_bytes and not wanted.is_picture


def turn(wanted: Wanted, resources: Resources) -> AbstractAsyncContextManager[Any]:
    """Pictures are drawn one at a time: letters and places are Python, of which a process runs one thread anyway, and
    for more processes there are no cores. Of all else a few are made at a time."""
    return resources.drawing if wanted.is_picture else resources.entrance.place()


def _from_known(making: Making, resources: Resources) -> Iterator[Chunk] | None:
    """The coded form of an answer whose uncoded form is in the cache: nothing is computed for it."""
    plain = None if making.coding == "identity" else resources.replies.by_request(making.uncoded)
    return None if plain is None or plain.body is None else gzipped(plain.body)


def blocks_of(making: Making, resources: Resources, timing: Timing) -> Iterator[Chunk]:
    """The bytes of the answer in its coding."""
    plain = _chunks(making.wanted, resources, timing)
    return plain if making.coding == "identity" else gzipped(plain)


def part_of(wanted: Wanted, resources: Resources, timing: Timing, window: tuple[int, int]) -> Iterator[Chunk]:
    """The bytes of a window of the answer."""
    return _chunks(wanted, resources, timing, window)


def _chunks(
    wanted: Wanted, resources: Resources, timing: Timing, window: tuple[int, int] | None = None
) -> Iterator[Chunk]:
    """The bytes of the answer, or of a window of it, as its format writes them from rows. Runs on the work pool."""
    if wanted.is_picture and resources.drawer is not None:
        yield _drawn(wanted, resources.drawer, timing)
        return
    call = resources.tables.call(wanted.scheme, wanted.params, wanted.inputs, wanted.everything, wanted.tensors)
    # Text takes ten times longer to write than most tables to compute: a second process would cost memory for nothing.
    alone = window is not None or wanted.bound <= resources.stream_bytes or not isinstance(wanted.form, Binary)
    if resources.partner is None or alone:
        yield from _written_by(call, wanted, resources, timing, window or (0, None))
        return
    with resources.partner.helping(call) as helped:
        yield from _written_by(helped, wanted, resources, timing, (0, None))


def _drawn(wanted: Wanted, drawer: Drawer, timing: Timing) -> bytes:
    order = Order(
        wanted.scheme, wanted.params, wanted.inputs, tuple(wanted.tensors), wanted.form.extension, wanted.captions
    )
    try:
        drawn = drawer.draw(order)
    except Undrawn as error:
        raise overloaded(str(error)) from error
    timing.compute += drawn.compute_seconds
    return drawn.content


def _written_by(
    call: Call, wanted: Wanted, resources: Resources, timing: Timing, window: tuple[int, int | None]
) -> Iterator[Chunk]:
    def rows(name: str, start: int, stop: int) -> NDArray[Any]:
        return timing.computing(lambda: resources.tables.rows(call, name, start, stop))

    start, stop = window
    yield from wanted.form.stream(
        wanted.document,
        wanted.tensors,
        rows,
        start=start,
        stop=stop,
        nonfinite=wanted.asked.nonfinite,
        captions=wanted.captions,
    )
