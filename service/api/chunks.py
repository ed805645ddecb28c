"""How a body in chunks is told from one that is made to take the time of everybody."""

# So many chunks a body may have, and one more for so many of its bytes.
FREE_CHUNKS, CHUNK_BYTES = 4096, 64
# What a chunk may take besides its bytes: its size, two line breaks, and something to spare.
CHUNK_OVERHEAD = 32


class Chunks:
    """Counts what arrives of one body: its chunks, its bytes, and what they took on the wire.

    >>> chunks = Chunks(1000)
    >>> chunks.wire, chunks.count, chunks.body = 64 + 5 + 900, 1, 64
    >>> chunks.too_much_is_said()
    False
    >>> chunks.wire += 200
    >>> chunks.too_much_is_said()
    True
    """

    def __init__(self, spare: int) -> None:
        self.spare = spare
        self.begin()

    def begin(self) -> None:
        self.count = self.body = self.wire = 0

    def too_many(self) -> bool:
        return self.count > FREE_CHUNKS + self.body // CHUNK_BYTES

    def too_much_is_said(self) -> bool:
        """In extensions of chunks, which nobody reads."""
        return self.count > 0 and self.wire - self.body - CHUNK_OVERHEAD * self.count > self.spare
