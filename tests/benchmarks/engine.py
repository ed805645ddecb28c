"""The engine against what one would write without it: PyTorch, transformers, x-transformers, and plain memory.

    python -m tests.benchmarks.engine [--alone] [ROW ...]

Needs torch, transformers and x-transformers. Theirs has two threads, ours one and the second process that the service
computes large tables with (`service/partner.py`; not with --alone); rotations of given vectors have two threads too.
Each pair of runs follows one another in one process, so that a busy machine slows both; what counts is the median of
their ratios, of elapsed time and, where other work takes turns on the cores, of processor time, the second process'
included. "whole" is one array in fresh memory, as the peer makes it; "blocks" is what the service does with a table
that large: blocks of 2 MiB, each let go once sent.

Threads do not do what the second process does. A call of numpy's on a block that stays in cache takes some ten
microseconds; a thread that finds the interpreter's lock taken when its call returns sleeps, and to be woken costs some
50 microseconds of processor time. Tried, 131072 x 128 float32, milliseconds of one thread and of two:

    blocks of 256 KiB of float64, as they are           53    60
    blocks of 1 MiB, four base rows at a time           55    75    fewer calls, but out of the second-level cache
    blocks of 8 MiB                                     60    61    hardly a call waits, and each takes twice as long
    multiply and round in one buffered call, twice      41    25    the blocks alone, for which the first line takes 27
"""

import argparse
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.engine import by_key
from service.engine.rounding import DTYPES
from service.engine.scheme import Tensor
from service.engine.tables import TableCache
from service.formats import FORMATS
from service.formats.format import BLOCK_BYTES
from service.partner import Partner
from tests.benchmarks.machine import machine

Array = NDArray[Any]
Work = Callable[[], object]

THREADS = 2
LENGTH, DIM = 131_072, 128
PAIRS = 9
REST = 0.3  # seconds before each run: PyTorch's idle threads spin for a while, which would count as ours

pool = ThreadPoolExecutor(THREADS)
partner = Partner()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a piece of work, its peer, and how many times as fast it should be."""

    name: str
    peer: str
    least: float
    ours: Callable[[], Work]
    theirs: Callable[[], Work]


@dataclass(frozen=True, slots=True)
class Times:
    """What each run took, in seconds: elapsed, and of the processor in all threads."""

    elapsed: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def run(self, work: Work) -> None:
        time.sleep(REST)
        elapsed, processor = time.perf_counter(), processor_seconds()
        result = work()
        self.elapsed.append(time.perf_counter() - elapsed)
        self.processor.append(processor_seconds() - processor)
        del result


def processor_seconds() -> float:
    """Of this process and of the second one."""
    if partner.pid is None:
        return time.process_time()
    return time.process_time() + time.clock_gettime(~partner.pid << 3 | 2)  # Linux's clock of another process


# Ours.


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the engine: `family/name`, the parameters as in a query, the caller's arrays."""

    address: str
    query: Mapping[str, str]
    inputs: Mapping[str, Array] = field(default_factory=dict)

    def each_block(self, use: Callable[[str, int, Array], None]) -> Mapping[str, Tensor]:
        """Compute every block and use it: tensor, first row, rows. Given vectors are turned by two threads."""
        scheme = by_key(*self.address.split("/"))
        params = scheme.params(**self.query)
        tensors = scheme.tensors(params, self.inputs)
        call = TableCache(0).call(scheme, params, self.inputs, tensors)
        places = []
        for name, tensor in tensors.items():
            step = max(1, BLOCK_BYTES * tensor.rows // tensor.nbytes)
            places += [(name, start, min(start + step, tensor.rows)) for start in range(0, tensor.rows, step)]
        with partner.helping(call) as helped:

            def compute(place: tuple[str, int, int]) -> None:
                use(*place[:2], helped.compute(*place))

            list((pool.map if self.inputs else map)(compute, places))
        return tensors


def in_blocks(request: Request) -> Callable[[], Work]:
    """An answer computed block by block, each let go when it is there."""
    return lambda: lambda: request.each_block(lambda _name, _start, _rows: None)


def in_one_array(request: Request) -> Callable[[], Work]:
    """An answer of one array for each tensor, put together from blocks."""
    scheme = by_key(*request.address.split("/"))

    def work() -> Mapping[str, Array]:
        tensors = scheme.tensors(scheme.params(**request.query), request.inputs)
        out = {name: np.empty((spec.rows, spec.width), DTYPES[spec.dtype]) for name, spec in tensors.items()}

        def put(name: str, start: int, rows: Array) -> None:
            out[name][start : start + len(rows)] = rows

        request.each_block(put)
        return out

    return lambda: work


# Theirs.


def torch() -> Any:
    module = import_module("torch")
    module.set_num_threads(THREADS)
    return module


def module_table(dtype: str) -> Callable[[], Work]:
    """The table of the usual PyTorch module, written from its formula."""
    t = torch()

    def work() -> object:
        position = t.arange(LENGTH, dtype=t.float32).unsqueeze(1)
        div_term = t.exp(t.arange(0, DIM, 2).float() * (-log(10000.0) / DIM))
        table = t.zeros(LENGTH, DIM)
        table[:, 0::2] = t.sin(position * div_term)
        table[:, 1::2] = t.cos(position * div_term)
        return table.to(getattr(t, dtype))

    return lambda: work


def fresh_memory() -> Work:
    """Fill as much memory, fresh from the system."""
    return lambda: np.empty((LENGTH, DIM), np.float32).fill(1.0)


def llama_tables() -> Work:
    t = torch()
    llama = import_module("transformers.models.llama.modeling_llama")
    config = import_module("transformers").LlamaConfig(
        hidden_size=DIM, num_attention_heads=1, max_position_embeddings=LENGTH
    )
    rotary, x, positions = llama.LlamaRotaryEmbedding(config), t.zeros(1, 1, DIM), t.arange(LENGTH)[None]
    return lambda: rotary(x, positions)


HEADS, PLACES = 32, 4096


def vectors() -> dict[str, Array]:
    random = np.random.default_rng(3)
    return {name: random.standard_normal((1, HEADS, PLACES, DIM)).astype(np.float32) for name in "qk"}


def llama_rotation() -> Work:
    t = torch()
    llama = import_module("transformers.models.llama.modeling_llama")
    q, k = (t.from_numpy(array) for array in vectors().values())
    angles = t.arange(PLACES).float()[:, None] * 10000.0 ** (-t.arange(0, DIM, 2).float() / DIM)
    cos, sin = (t.cat((wave, wave), -1)[None] for wave in (angles.cos(), angles.sin()))
    return lambda: llama.apply_rotary_pos_emb(q, k, cos, sin)


def gptj_rotation() -> Work:
    """GPT-J holds (batch, length, heads, dim)."""
    t = torch()
    gptj = import_module("transformers.models.gptj.modeling_gptj")
    q, k = (t.from_numpy(array).transpose(1, 2).contiguous() for array in vectors().values())
    angles = t.arange(PLACES).float()[:, None] * 10000.0 ** (-t.arange(0, DIM, 2).float() / DIM)
    cos, sin = angles.cos()[None], angles.sin()[None]
    return lambda: [gptj.apply_rotary_pos_emb(x, sin, cos) for x in (q, k)]


SIDE = 2048


def x_transformers_alibi() -> Work:
    torch()
    bias = import_module("x_transformers.x_transformers").AlibiPositionalBias(HEADS, HEADS)

    def work() -> object:
        bias.register_buffer("bias", None, persistent=False)  # or it would be kept
        return bias(SIDE, SIDE)

    return work


def rotation(pairing: str) -> Callable[[], Work]:
    """Ready q and k, rotated; their layout is that of the peer."""

    def ready() -> Work:
        given = vectors()
        axes = "heads-length"
        if pairing == "interleaved":
            axes = "length-heads"
            given = {name: np.ascontiguousarray(array.swapaxes(1, 2)) for name, array in given.items()}
        return in_one_array(Request("apply/rope", {"pairing": pairing, "axes": axes}, given))()

    return ready


SINUSOIDAL = {"length": str(LENGTH), "dim": str(DIM)}
ALIBI = {"heads": str(HEADS), "length": str(SIDE), "form": "symmetric"}
MODULE, LLAMA, ROTARY = "PyTorch module's table", "LlamaRotaryEmbedding.forward", "eager apply_rotary_pos_emb"


def both(key: str, name: str, peer: str, least: float, request: Request, theirs: Callable[[], Work]) -> dict[str, Row]:
    """The same work as one array, and in blocks."""
    return {
        key: Row(f"{name}, whole", peer, least, in_one_array(request), theirs),
        f"{key}-blocks": Row(f"{name}, blocks", peer, least, in_blocks(request), theirs),
    }


def table_of_rows() -> dict[str, Row]:
    """Every line, by the name that the command line knows it by."""
    sinusoidal = Request("encodings/sinusoidal", SINUSOIDAL)
    table = both("float32", "sinusoidal 131072 x 128 float32", MODULE, 2.0, sinusoidal, module_table("float32"))
    table |= both("memory", "the same", "filling fresh memory", 0.2, sinusoidal, fresh_memory)
    for dtype, least in (("bfloat16", 1.5), ("float16", 1.3)):
        narrow = Request("encodings/sinusoidal", {**SINUSOIDAL, "dtype": dtype})
        table |= both(dtype, f"the same in {dtype}", f"{MODULE}, then cast", least, narrow, module_table(dtype))
    rope = Request("encodings/rope", SINUSOIDAL)
    table |= both("rope", "rope cos and sin 131072 x 128", LLAMA, 2.0, rope, llama_tables)
    name = "rotation of q and k, 32 x 4096 x 128"
    table["half"] = Row(f"{name}, half", f"{ROTARY}, Llama", 2.0, rotation("half"), llama_rotation)
    table["interleaved"] = Row(f"{name}, interleaved", f"{ROTARY}, GPT-J", 3.0, rotation("interleaved"), gptj_rotation)
    alibi, peer = Request("biases/alibi", ALIBI), "x-transformers AlibiPositionalBias"
    return table | both("alibi", "alibi 32 x 2048 x 2048", peer, 2.0, alibi, x_transformers_alibi)


def measure(row: Row, pairs: int = PAIRS) -> str:
    """A line of the table."""
    ours, theirs = row.ours(), row.theirs()
    for work in (ours, theirs):
        work()  # memory and threads warm up; this is not counted
    us, them = Times(), Times()
    gc.disable()
    for _ in range(pairs):
        us.run(ours)
        them.run(theirs)
    gc.enable()
    ratios = [
        statistics.median(b / a for a, b in zip(left, right, strict=True))
        for left, right in ((us.elapsed, them.elapsed), (us.processor, them.processor))
    ]
    ms = [1e3 * statistics.median(times) for times in (us.elapsed, them.elapsed, us.processor, them.processor)]
    return (
        f"| {row.name} | {row.peer} | {ms[0]:.0f} | {ms[1]:.0f} | **{ratios[0]:.2f}** | "
        f"{ms[2]:.0f} | {ms[3]:.0f} | {ratios[1]:.2f} | {row.least:g} |"
    )


def warm_microseconds() -> float:
    """Rows of a cached table, asked for again: 1000 rows of 2048."""
    cache, scheme = TableCache(256 << 20), by_key("encodings", "sinusoidal")
    params = scheme.params(length=2048, dim=DIM)
    tensors = scheme.tensors(params, {})
    cache.rows(cache.call(scheme, params, {}, tensors), "encoding", 0, 2048)
    took = []
    for start in range(1000):
        begun = time.perf_counter()
        found = cache.rows(cache.call(scheme, params, {}, tensors), "encoding", start, start + 1000)
        took.append(time.perf_counter() - begun)
        if found.base is None:
            raise RuntimeError("a copy")
    return 1e6 * statistics.median(took)


def streamed_megabytes() -> float:
    """Peak memory above idle of a million rows written as npy, in a process of its own."""
    program = "from tests.benchmarks.engine import stream; stream()"
    return float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


def stream() -> None:
    """What `streamed_megabytes` runs."""
    scheme, cache = by_key("encodings", "sinusoidal"), TableCache(256 << 20)
    params = scheme.params(length=1_000_000, dim=DIM)
    tensors = scheme.tensors(params, {})
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far counts no more
    before = _peak_kilobytes()
    call = cache.call(scheme, params, {}, tensors)
    for _ in FORMATS["npy"].stream({}, tensors, lambda name, start, stop: cache.rows(call, name, start, stop)):
        pass
    print((_peak_kilobytes() - before) / 1024)


def _peak_kilobytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def main(alone: bool, names: list[str]) -> None:
    """Print the table."""
    print(f"{machine()}\n")
    table = table_of_rows()
    if alone:
        partner.close()
    else:
        partner.wait()
    print("| work | peer | ms | peer's ms | times as fast | CPU ms | peer's CPU ms | by CPU time | at least |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names or table:
        if name in table:
            print(measure(table[name]), flush=True)
    if not names or "warm" in names:
        print(f"\na warm sub-range: {warm_microseconds():.1f} microseconds, a view (at most 50)")
    if not names or "stream" in names:
        print(f"\n1,000,000 rows x 128, streamed: {streamed_megabytes():.1f} MB above idle at most (64)")
    partner.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("rows", nargs="*")
    given = parser.parse_args()
    main(given.alone, given.rows)
