"""`.npz`: every tensor as a stored `.npy` member of a zip file, and last the member `parameters.json`.

Members are stored, not deflated, so that the size is known beforehand and
tools may map the file; dated 1980-01-01, so that the bytes of an answer do not change. Sizes and checksums
stand in the local headers, not in data descriptors, which simple readers (cnpy among them) do not follow; a
checksum therefore takes one pass over the rows before the pass that sends them, which yields empty chunks on the way:
whoever waits for the next may stop there. A window that touches a header would cost as much, so only small answers
have windows. ZIP64 (APPNOTE 4.5.3) is
used where a size or an offset needs it.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from service.formats.blocks import fixed, kept, raw
from service.formats.format import Answer, Binary, Chunk, Part, window
from service.formats.json_text import described
from service.formats.npy import header

_FULL = 0xFFFFFFFF
_STORED, _UTF8, _UNIX = 0, 0x800, 3
_DAY_ONE = (1 << 5) | 1  # 1980-01-01 in the zip's way of dates
_READABLE = 0o100644 << 16


class Checksum:
    """The CRC-32 of some data, taken once, in steps."""

    def __init__(self, data: Sequence[Part]) -> None:
        self.value = 0
        self._rest = self._taken(data)

    def steps(self) -> Iterator[Chunk]:
        """An empty chunk after every chunk of the data; when they end, `value` is known."""
        yield from self._rest

    def _taken(self, data: Sequence[Part]) -> Iterator[Chunk]:
        for chunk in window(data, 0, sum(part.length for part in data)):
            self.value = zlib.crc32(chunk, self.value)
            yield b""


@dataclass(frozen=True, slots=True)
class Member:
    """A stored file: its name, how long it is, where its local header begins, and its CRC-32."""

    name: bytes
    size: int
    offset: int
    checksum: Checksum

    @property
    def flags(self) -> int:
        return 0 if self.name.isascii() else _UTF8

    @property
    def local_length(self) -> int:
        return 30 + len(self.name) + (20 if self.size >= _FULL else 0)

    def local(self) -> bytes:
        """The header before the data (APPNOTE 4.3.7)."""
        wide = [self.size, self.size] if self.size >= _FULL else []
        extra = _zip64(wide)
        size = min(self.size, _FULL)
        head = (b"PK\3\4", 45 if wide else 20, self.flags, _STORED, 0, _DAY_ONE, self.checksum.value, size, size)
        return struct.pack("<4s5H3L2H", *head, len(self.name), len(extra)) + self.name + extra

    def central(self) -> bytes:
        """The entry in the directory at the end (APPNOTE 4.3.12)."""
        wide = [self.size, self.size] if self.size >= _FULL else []
        wide += [self.offset] if self.offset >= _FULL else []
        extra = _zip64(wide)
        version, size = 45 if wide else 20, min(self.size, _FULL)
        head = (b"PK\1\2", version, _UNIX, version, self.flags, _STORED, 0, _DAY_ONE, self.checksum.value, size, size)
        tail = (len(self.name), len(extra), 0, 0, 0, _READABLE, min(self.offset, _FULL))
        return struct.pack("<4sBB5H3L5H2L", *head, *tail) + self.name + extra


def parts(answer: Answer) -> list[Part]:
    """Every member's local header and data, then the directory."""
    answer = Answer(answer.document, answer.tensors, kept(answer.tensors, answer.rows), answer.block_bytes)
    contents = {f"{name}.npy": _npy(answer, name) for name in answer.tensors}
    contents["parameters.json"] = [fixed(described(answer.document))]
    laid: list[Part] = []
    members: list[Member] = []
    offset = 0
    for name, data in contents.items():
        member = Member(name.encode(), sum(part.length for part in data), offset, Checksum(data))
        members.append(member)
        laid += [_late(member.local_length, [member], member.local), *data]
        offset += member.local_length + member.size
    length = len(directory(members, offset))
    return [*laid, _late(length, members, lambda: directory(members, offset))]


def directory(members: Sequence[Member], offset: int) -> bytes:
    """The central directory, which begins at `offset`, and the end records (APPNOTE 4.3.14 to 4.3.16)."""
    entries = b"".join(member.central() for member in members)
    count, size = len(members), len(entries)
    wide = b""
    if offset >= _FULL:
        at = offset + size
        wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, offset)
        wide += struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, size, min(offset, _FULL), 0)
    return entries + wide + end


def _npy(answer: Answer, name: str) -> list[Part]:
    spec = answer.tensors[name]
    return [fixed(header(spec.shape, spec.dtype)), raw(answer, name)]


def _zip64(values: Sequence[int]) -> bytes:
    return struct.pack(f"<2H{len(values)}Q", 1, 8 * len(values), *values) if values else b""


def _late(length: int, members: Sequence[Member], build: Callable[[], bytes]) -> Part:
    """A part whose length is known now, and whose bytes are made when they are read: they need those checksums."""

    def read(start: int, stop: int) -> Iterator[Chunk]:
        for member in members:
            yield from member.checksum.steps()
        yield build()[start:stop]

    return Part(length, read)


NPZ = Binary("npz", "application/octet-stream", "1", "small", parts)
