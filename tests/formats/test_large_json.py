"""Large JSON bodies: none holds up the others for long, and none takes more memory than is counted for it."""

import subprocess
import sys
from typing import Any

import orjson
import pytest

from service.formats.errors import Unreadable
from service.formats.json_reader import MOST_CONTAINERS, MOST_PARTS, read_json
from service.formats.long_lists import PIECE

NAMES = ("x", "q")
M = 1 << 23
# The largest bodies that are read, by what they are made of, and those that would be next.
HEAVY = {
    "lists in lists": b"[[[[[1]]]]],",
    "lists": b"[],",
    "objects": b'{"a":1},',
    "pairs": b"[1.25,2.5],",
    "floats": b"1.5,",
    "strings": b'"ab",',
}


@pytest.mark.parametrize("unit", HEAVY.values(), ids=HEAVY)
def test_a_body_that_would_hold_up_everybody_is_refused(unit: bytes) -> None:
    body = b'{"tensors":{"x":[' + unit * (M // len(unit)) + b"null]}}"
    with pytest.raises(Unreadable) as caught:
        read_json(body, NAMES)
    assert caught.value.code == "json_size"
    assert f"at most {MOST_PARTS}, in {MOST_CONTAINERS}, are read" in caught.value.detail


# What is read apart.
ARRAYS = [HEAVY["floats"], HEAVY["pairs"], HEAVY["lists in lists"], b"true,", b"1,"]


@pytest.mark.parametrize("unit", ARRAYS)
def test_tensors_are_read_however_many_numbers_they_have(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Piece by piece: nothing long is given to the parser."""
    given: list[int] = []
    loads = orjson.loads

    def watched(body: bytes) -> Any:
        given.append(len(body.replace(b" ", b"")))
        return loads(body)

    monkeypatch.setattr(orjson, "loads", watched)
    count = M // len(unit)
    found: Any = read_json(b'{"tensors":{"x":[' + unit * (count - 1) + unit[:-1] + b"]}}", NAMES)
    assert len(found["tensors"]["x"]) == count
    assert max(given) <= PIECE + 100


GROWTH = """
import resource, sys
from service.formats.json_reader import object_bytes, read_json
peak = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
unit, count = sys.argv[1], int(sys.argv[2])
body = ('{"tensors":{"x":[' + unit * count + unit[:-1] + "]}}").encode()
read_json(body[:17] + b"1]}}", "x")
before = peak()
read_json(body, "x")
print(peak() - before, object_bytes(body))
"""


@pytest.mark.parametrize("unit", [b"1,", *HEAVY.values(), b"{},", '"\u0100",'.encode()])
def test_reading_takes_no_more_memory_than_is_counted(unit: bytes) -> None:
    """Of a body that is read; what is refused takes less."""
    containers = unit.count(b"[") + unit.count(b"{")
    parts = unit.count(b",") + containers + 4 * unit.count(b":")
    most = min(MOST_PARTS // parts, MOST_CONTAINERS // max(containers, 1)) - 10
    count = M // len(unit) if unit in ARRAYS else most
    run = subprocess.run([sys.executable, "-c", GROWTH, unit.decode(), str(count)], capture_output=True, check=True)
    took, counted = map(int, run.stdout.split())
    assert took <= counted
