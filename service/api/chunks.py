"""How a body in chunks is told from one that is made to take the time of everybody, and how large it will be."""

import re

# So many chunks a body may have, and one more for so many of its bytes.
FREE_CHUNKS, CHUNK_BYTES = 4096, 64
# What a chunk may take besides its bytes: its size, two line breaks, and something to spare.
CHUNK_OVERHEAD = 32
_SIZE = re.compile(rb"([0-9A-Fa-f]+)(?:;.*)?\r\n", re.DOTALL)


class Chunks:
    """Counts what arrives of one body: its chunks, its bytes, and what they took on the wire; and reads the size of the
    chunk that is not all there, which the parser does not tell.

    `opened` has where that chunk begins in the body, `declared` the size of the body by all sizes read so far, `line`
    what there is of the next; `read` is the number of chunks whose size was looked for.

    >>> chunks = Chunks()
    >>> chunks.wire, chunks.count, chunks.body = 64 + 5 + 900, 1, 64
    >>> chunks.too_much_is_said(1000)
    False
    >>> chunks.wire += 200
    >>> chunks.too_much_is_said(1000)
    True
    >>> chunks.begin()
    >>> chunks.open()
    >>> chunks.look(b"F00000000\\r\\n", 0), chunks.declared
    (True, 64424509440)
    """

    def __init__(self) -> None:
        self.opened: list[int] = []
        self.begin()

    def begin(self) -> None:
        self.count = self.body = self.wire = self.read = self.declared = 0
        self.line = b""
        self.opened.clear()

    def open(self) -> None:
        """A size has been read, of a chunk that begins."""
        self.count += 1
        self.opened.append(self.body)

    def too_many(self) -> bool:
        return self.count > FREE_CHUNKS and self.count > FREE_CHUNKS + self.body // CHUNK_BYTES

    def too_much_is_said(self, spare: int) -> bool:
        """In extensions of chunks, which nobody reads."""
        return self.count > 0 and self.wire - self.body - CHUNK_OVERHEAD * self.count > spare

    def look(self, data: bytes, at: int) -> bool:
        """Note what the data ends with, and say whether a chunk has begun in it that is not all there."""
        if not self.opened:
            last = data.rfind(b"\n", at) + 1
            self.line = data[last:] if last else self.line + data[at:]
            return False
        if self.read == self.count:
            return False
        self.read = self.count
        had = self.body - self.opened[0]
        stop = len(data) - had
        last = data.rfind(b"\n", at, stop - 1) + 1
        found = _SIZE.fullmatch(data[last:stop] if last else self.line + data[at:stop])
        # Otherwise the last size came, or all of the chunk, and the first byte behind that.
        self.declared = self.opened[0] + (int(found[1], 16) if found else had)
        return True
