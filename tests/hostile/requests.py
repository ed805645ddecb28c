"""Generated bad requests of every kind at once: seeded, so that a failure is found again by its number."""

import json
import random
from collections.abc import Callable
from io import BytesIO

import numpy as np
import safetensors.numpy

from tests.api.requests import EXAMPLES, Asked
from tests.hostile.called import Sent

NUMBERS = ["0", "-1", "-0", "00", "1e3", "4.0", "1_0", " 5", "5 ", "+3", "%2B3", "inf", "-inf", "nan", "NaN",
"1e309", "1e-400", "5e-324",
           "1e400", "9" * 30, "9" * 5000, "-" + "9" * 4000, "9007199254740993", "9223372036854775808",
           "18446744073709551616", "0x10", "1e",
           ".", "-", "1..2", "1,2", ",", "1,,2", ",".join(["1"] * 600), "%D9%A3", "true", "null", "[]", "{}", "",
           "%00", "1%00", "%0a",
           "3%0d%0aX-Injected: 1", "1e1000000000", "0.1e-999999999", "1e4,nan", "1e19,0", "2147483648", "4294967296",
           "65537", "7"]  # fmt: skip
TEXTS = ["", "x", "x" * 70, "x" * 3000, "%ff", "%ED%A0%80", "%F0%9F%92%A9", "%", "%%", "%2", "%zz", "é", "'", '"',
"<script>", "../..", "%2e%2e%2f",
         "float", "half ", "HALF", "float32,float32", "\t", ";", "a=b", "%26", "${jndi:ldap://x}", "{{7*7}}",
         "' OR 1=1--", "cos", "sin"]  # fmt: skip
NAMES = ["", "length", "dim", "Length", "leng th", "length%00", "length[]", "dtype", "tensor", "revision",
"nonfinite", "positions", "offset",
         "x" * 100, "%E2%80%AE", "__proto__", "base", "base.", "heads", "self", "model_config", "*", "rotary_dim",
         "frequency_shift"]  # fmt: skip
JSON_BODIES: list[bytes] = [
    b"", b" ", b"[", b"{", b"null", b"[]", b"{}", b"NaN", b"Infinity", b'"', b"\xff", b"\xef\xbb\xbf{}",
    b"[" * 5000, b'{"a":' * 3000,
    b"[" * 900 + b"]" * 900, b'{"positions":[NaN]}', b'{"positions":[1e999]}', b'{"positions":[-1e400]}',
    b'{"positions":["\\ud800"]}',
    b'{"\\ud800":1}', b'{"positions":[%s]}' % (b"9" * 5000), b'{"positions":[%s.5]}' % (b"9" * 400),
    b'{"positions":[1],"positions":[2]}',
    '{"positions":[1]}'.encode("utf-16"), '{"positions":[1]}'.encode("utf-32"), b'{"positions":"\x00"}',
    b'{"tensors":{"q":[[1,2],[3]]}}',
    b'{"tensors":{"q":' + b"[" * 40 + b"1" + b"]" * 40 + b"}}", b'{"tensors":{"q":[1,2],"q":[3,4]}}',
    b'{"tensors":{"x":[1e308,1e308]}}',
    b'{"tensors":{"q":[[[[[[[[1,2]]]]]]]]}}', b'{"tensors":{"x":[[],[]]}}', b'{"tensors":{"q":[1,true]}}',
    b'{"tensors":{"q":{"0":1}}}',
    b'{"tensors":null}', b'{"tensors":{"q":[1,2]},"positions":[[[0]]]}',
    b'{"tensors":{"q":[1,2]},"positions":9007199254740993}',
    b'{"tensors":{"q":[1e300,1e300]}}', b'{"tensors":{"x":[[[1e39,-1e39]]]}}',
    b'{"positions":[[1,2],[3,4]],"tensors":{}}',
    b'{"' + b"k" * 5000 + b'":1}', b'{"a\\u0000b":1}', b'{"positions":[' + b"1," * 3000 + b"x]}",
    b'{"positions":1e-400}',
]  # fmt: skip
MEDIA_TYPES = ["application/json", "application/json", "application/octet-stream", "application/octet-stream",
"application/x-npy", "", "text/plain",
               "application/json; charset=utf-16", "multipart/form-data", "x" * 500, "application/json;;;", "\xe9",
               "*/*"]  # fmt: skip
RANGES = ["bytes=0-0", "bytes=-1", "bytes=5-", "bytes=9-5", "bytes=-", "bytes=0-1,3-4", "bytes=99999999-",
"bytes=" + "9" * 40 + "-", "items=1-2",
          "bytes=a-b", "bytes", "=", "", "bytes=0-" + "9" * 300, "\xe9"]  # fmt: skip
TAGS = ["*", "", '"', '"x"', 'W/"x"', '"a",' * 500, "x" * 1000, '"a" "b"', "W/", "\xe9", ",,,", '"' * 999]
JSON, BINARY = b"application/json", b"application/octet-stream"
METHODS = ["GET"] * 10 + ["HEAD", "POST", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", "X", "PATCH"]


class Generator:
    """Bad requests without end, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = _files()

    def __next__(self) -> Sent:
        asked = self.random.choice(EXAMPLES)
        method = asked.method if self.random.random() < 0.9 else self.random.choice(METHODS)
        bad = Sent(method, self._path(asked), self._query(asked))
        if method == "POST":
            fitting, bad.body = self._body(asked)
            kind = fitting if self.random.random() < 0.9 else self._choice(MEDIA_TYPES)
            bad.headers.append((b"content-type", kind))
        self._headers(bad)
        return bad

    def _choice(self, values: list[str]) -> bytes:
        return self.random.choice(values).encode("latin-1", "replace")

    def _path(self, asked: Asked) -> bytes:
        endings = ["", ".npy", ".npz", ".safetensors", ".bin", ".csv"] * 8
        endings += [".npyy", ".", "/", ".npy.npy", "%00", "%2enpy"]
        path = f"/v1/{asked.scheme.family}/{asked.scheme.name}{self.random.choice(endings)}".encode()
        if self.random.random() < 0.03:
            path = self._damaged(path)
        return path

    def _query(self, asked: Asked) -> bytes:
        pairs = list(asked.example.query.items())
        for _ in range(self.random.choice([0, 1, 1, 1, 2, 3, 8])):
            names = [*asked.scheme.params.model_fields, "revision", "tensor", "nonfinite"]
            name = self.random.choice(names) if self.random.random() < 0.8 else self.random.choice(NAMES)
            value = self.random.choice(NUMBERS if self.random.random() < 0.6 else TEXTS)
            kept = [pair for pair in pairs if pair[0] != name] if self.random.random() < 0.8 else pairs
            pairs = [*kept, (name, value)]
        self.random.shuffle(pairs)
        query = "&".join(f"{name}={value}" for name, value in pairs).encode()[:8000]
        return self._damaged(query) if self.random.random() < 0.1 else query

    def _body(self, asked: Asked) -> tuple[bytes, bytes]:
        """A media type and a body of that kind."""
        kind = self.random.random()
        if kind < 0.3:
            return JSON, self.random.choice(JSON_BODIES)
        valid = json.dumps(asked.example.body).encode() if kind < 0.6 else self.random.choice(self.files)
        body = self._damaged(valid) if self.random.random() < 0.8 else valid
        return JSON if kind < 0.6 else BINARY, body

    def _damaged(self, data: bytes) -> bytes:
        """Some bytes changed, cut, doubled or put in."""
        damaged = bytearray(data)
        for _ in range(self.random.choice([1, 1, 2, 5])):
            at = self.random.randrange(len(damaged) + 1)
            how = self.random.randrange(5)
            if how == 0:
                damaged[at : at + 1] = bytes([self.random.randrange(256)])
            elif how == 1:
                del damaged[at : at + self.random.randrange(1, 9)]
            elif how == 2:
                del damaged[at:]
            elif how == 3:
                damaged[at:at] = damaged[:at][-self.random.randrange(1, 40) :]
            else:
                damaged[at:at] = self.random.choice(NUMBERS + TEXTS).encode()[:200]
        return bytes(damaged)

    def _headers(self, bad: Sent) -> None:
        add: list[tuple[float, Callable[[], tuple[bytes, bytes]]]] = [
            (0.1, lambda: (b"range", self._choice(RANGES))),
            (0.05, lambda: (b"if-range", self._choice(TAGS))),
            (0.1, lambda: (b"if-none-match", self._choice(TAGS))),
            (0.05, lambda: (b"x-request-id", self._choice(TEXTS))),
            (0.05, lambda: (b"host", self._choice([*TEXTS, "[", "a:b", "::"]))),
            (0.03, lambda: (b"content-encoding", self._choice(["gzip", "identity", "x" * 99, "\xe9"]))),
            (0.03, lambda: (b"content-length", self._choice(["-1", "9" * 25, "9" * 5000, "x", "", "1e3", "\xb2"]))),
            (0.02, lambda: (b"expect", b"100-continue")),
            (0.01, lambda: (b"x-large", b"x" * 40_000)),
        ]
        bad.headers += [make() for chance, make in add if self.random.random() < chance]


def _files() -> list[bytes]:
    """Small files of every kind that is read."""
    files = []
    for dtype in ("<f2", "<f4", ">f8", "<i8", "|u1", "|b1"):
        for shape in ((4,), (2, 4), (2, 1, 3), (1, 2, 3, 4)):
            buffer = BytesIO()
            np.save(buffer, np.ones(shape, dtype))
            files.append(buffer.getvalue())
    widths: tuple[dict[str, int], ...] = (
        {"q": 4},
        {"q": 4, "k": 4},
        {"x": 3},
        {"q": 4, "positions": 1},
        {"x": 4, "y": 2},
    )
    several = ({name: np.ones((1, 2, width), np.float32) for name, width in each.items()} for each in widths)
    return [*files, *map(safetensors.numpy.save, several)]
