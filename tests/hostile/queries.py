"""Absurd query strings for every address that takes one, well-formed requests otherwise."""

import random
from collections.abc import Iterator

from tests.api.requests import GETS
from tests.hostile.called import Sent
from tests.hostile.requests import NAMES, NUMBERS, TEXTS

OTHERS = (b"/v1/models", b"/v1/models/meta-llama/Llama-3.1-8B", b"/v1/advice", b"/v1/schemes", b"/v1/schemes/rope",
b"/health/live",
          b"/openapi.json", b"/", b"/problems/not-found", b"/v2/models/encodings.rope", b"/docs")  # fmt: skip
ENDINGS = ("", "", "", ".npy", ".npz", ".safetensors", ".bin", ".csv", ".svg", ".png")
WHOLE = (b"", b"&", b"=", b"&&&", b"==", b"?", b"??length=3", b"#", b";", b"length", b"length=", b"=3", b"length=3&",
b"&length=3",
         b"length=3;dim=4", b"length=3&length=3", b"a" * 8000, b"a=" + b"b" * 8000, b"&" * 8000, b"=" * 8000,
         b"a=1&" * 2000,
         b"%" * 8000, b"%00" * 2600, b"+" * 8000, b"\xff" * 100, b"length=%F0%9F%92%A9", b"rope_parameters={}",
         b"rope_parameters=" + b"%5B" * 2600, b"rope_parameters=" + b'{"a":' * 1500, b"rope_parameters=NaN",
         b"positions=" + b"1," * 3900, b"positions=" + b"," * 7900, b"length=" + b"9" * 8000,
         b"length=" + b"%39" * 2600,
         b"&".join(b"a%d=1" % n for n in range(1100)))  # fmt: skip


class Queries:
    """Queries without end, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def __iter__(self) -> Iterator[Sent]:
        while True:
            asked = self.random.choice(GETS)
            path = f"/v1/{asked.scheme.family}/{asked.scheme.name}{self.random.choice(ENDINGS)}".encode()
            if self.random.random() < 0.15:
                path = self.random.choice(OTHERS)
            query = self.random.choice(WHOLE) if self.random.random() < 0.15 else self._pairs(asked)
            yield Sent(self.random.choice(("GET", "GET", "GET", "HEAD")), path, query[:8000])

    def _pairs(self, asked: object) -> bytes:
        example, fields = asked.example.query, list(asked.scheme.params.model_fields)  # type: ignore[attr-defined]
        pairs = [(name, str(value)) for name, value in example.items()]
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            name = self.random.choice([*fields, "revision", "tensor", "nonfinite", "theme", "picture_width", "preset"])
            if self.random.random() < 0.15:
                name = self.random.choice(NAMES)
            value = self.random.choice(NUMBERS if self.random.random() < 0.6 else TEXTS)
            pairs = [pair for pair in pairs if pair[0] != name or self.random.random() < 0.1]
            pairs.insert(self.random.randrange(len(pairs) + 1), (name, value))
        return self._damaged("&".join(f"{name}={value}" for name, value in pairs).encode())

    def _damaged(self, query: bytes) -> bytes:
        if self.random.random() < 0.8 or not query:
            return query
        at = self.random.randrange(len(query))
        more = self.random.choice(
            (b"", b"&", b"=", b"%", b"%f", b"%ff", b"%00", b"+", b"\xff", b";", b"[]", b"#", query[at : at + 30])
        )
        return query[:at] + more + query[at + self.random.choice((0, 1, 5)) :]
