"""Valid bodies with a few bytes changed: an answer or `Unreadable`, never anything else, in little memory."""

import io
import random
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from service.formats.errors import ECHOED, Unreadable
from service.formats.json_reader import read_json
from service.formats.lists import array_from_lists
from service.formats.npy import read_npy
from service.formats.reader import read_arrays
from service.formats.safetensors import read_safetensors
from tests.formats.samples import written

ROUNDS = 4000
TABLE = np.arange(24, dtype=np.float32).reshape(4, 6)
TOKENS = [
    b"[",
    b"]",
    b"{",
    b"}",
    b'"',
    b",",
    b"-",
    b"9" * 30,
    b"1e999",
    b"NaN",
    b"null",
    b"true",
    b"\0",
    b"\xff",
    b"(",
    b"'O'",
]


def _npy_bodies() -> list[bytes]:
    fortran = io.BytesIO()
    np.lib.format.write_array(fortran, np.asfortranarray(TABLE.astype(">f8")), (2, 0))
    return [written("npy", {"x": TABLE}), fortran.getvalue()]


def _json(body: bytes) -> Any:
    value = read_json(body)
    return array_from_lists(value["q"] if isinstance(value, dict) and "q" in value else value, "/tensors/q")


SAFE = written("safetensors", {"q": TABLE, "k": TABLE.astype(np.float16)})
TEXTS = [b'{"q": [[1, 2.5], [3, 4]], "positions": [0, 1]}', b"[[[0.5], [1e300]], [[-0.0], [7]]]"]
READERS: dict[str, tuple[Callable[[bytes], Any], list[bytes]]] = {
    "npy": (read_npy, _npy_bodies()),
    "safetensors": (read_safetensors, [SAFE]),
    "arrays": (read_arrays, [*_npy_bodies(), SAFE]),
    "json": (_json, TEXTS),
}


def _mutated(bodies: list[bytes], seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        body = bytearray(chance.choice(bodies))
        for _ in range(chance.randint(1, 3)):
            # Half of the changes near the front, where the headers are.
            at = chance.randrange(min(len(body), chance.choice([16, 200, len(body)])) or 1)
            kind = chance.randrange(5)
            if kind == 0 and body:
                body[at] ^= 1 << chance.randrange(8)
            elif kind == 1 and body:
                body[at] = chance.randrange(256)
            elif kind == 2:
                del body[at : at + chance.randint(1, 40)]
            elif kind == 3:
                body[at:at] = chance.choice(TOKENS)
            else:
                body[at:at] = body[: chance.randint(0, 64)]
        yield bytes(body)


def _refusal(reader: Callable[[bytes], Any], body: bytes) -> str | None:
    try:
        reader(body)
    except Unreadable as fault:
        return fault.detail
    return None


@pytest.mark.parametrize("name", READERS)
def test_mutations(name: str) -> None:
    reader, bodies = READERS[name]
    for body in bodies:
        reader(body)
    refused = 0
    tracemalloc.start()
    try:
        for body in _mutated(bodies, seed=len(name)):
            said = _refusal(reader, body)
            refused += said is not None
            assert len(said or "") < 150 + ECHOED
            assert (said or "").isprintable()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused > ROUNDS // 4
    assert peak < 4 << 20
