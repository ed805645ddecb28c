"""How a body in chunks is told from one that is made to take the time of everybody, and how large it will be."""

import re

# So many chunks a body may have, and one more for so many of its bytes.
FREE_CHUNKS, CHUNK_BYTES = 4096, 64
# What a chunk may take besides its bytes: its size, two line breaks, and something to spare.
CHUNK_OVERHEAD = 32
_SIZE = re.compile(rb"([0-9A-Fa-f]+)(?:;.*)?\r\n", re.DOTALL)


class Chunks:
    """Counts what arrives of one body: its chunks, its bytes, and what they took on the wire; and reads the size of the
    chunk that is not all there, which the parser does not tell. `left` is what is missing of that, `declared` the size
    of the body by all sizes read so far, `line` what there is of the next.

    >>> chunks = Chunks(1000)
    >>> chunks.wire, chunks.count, chunks.body = 64 + 5 + 900, 1, 64
    >>> chunks.too_much_is_said()
    False
    >>> chunks.wire += 200
    >>> chunks.too_much_is_said()
    True
    >>> chunks.begin()
    >>> chunks.open()
    >>> chunks.look(b"F00000000\\r\\n", 0, 11)
    True
    >>> chunks.declared, chunks.left
    (64424509440, 64424509440)
    """

    def __init__(self, spare: int) -> None:
        self.spare = spare
        self.begin()

    def begin(self) -> None:
        self.count = self.body = self.wire = 0
        self.before = self.size = 0
        self.line = b""
        self.is_open = self.is_new = False

    def open(self) -> None:
        """A size has been read, of a chunk that begins."""
        self.count += 1
        self.before, self.size = self.body, 0
        self.is_open = self.is_new = True

    def close(self) -> None:
        """The chunk is complete."""
        self.is_open = self.is_new = False

    @property
    def declared(self) -> int:
        return self.before + self.size

    @property
    def left(self) -> int:
        return self.declared - self.body if self.is_open else 0

    def look(self, data: bytes, at: int, end: int) -> bool:
        """Note what that piece ends with, and say whether it is a size, and what there is of its chunk."""
        is_new, self.is_new = self.is_new, False
        if not self.is_open:
            last = data.rfind(b"\n", at, end) + 1
            self.line = data[last:end] if last else self.line + data[at:end]
        elif is_new:
            stop = end - (self.body - self.before)
            last = data.rfind(b"\n", at, stop - 1) + 1
            found = _SIZE.fullmatch(data[last:stop] if last else self.line + data[at:stop])
            # Otherwise the last size came, or all of the chunk, and the first byte behind that.
            self.size = int(found[1], 16) if found else self.body - self.before
        return is_new

    def too_many(self) -> bool:
        return self.count > FREE_CHUNKS + self.body // CHUNK_BYTES

    def too_much_is_said(self) -> bool:
        """In extensions of chunks, which nobody reads."""
        return self.count > 0 and self.wire - self.body - CHUNK_OVERHEAD * self.count > self.spare
