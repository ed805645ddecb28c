"""Range and conditional headers without end, and the answer that RFC 9110 has for each."""

import random
from collections.abc import Iterator

from tests.hostile.called import Answer, Called, Sent
from tests.hostile.rfc9110 import Due, due

# Files take ranges, text and pictures none; one is pinned, which changes a header and nothing else.
TARGETS = (
    "/v1/encodings/rope.npy?length=4&dim=8",
    "/v1/encodings/sinusoidal.safetensors?length=3&dim=6&revision=1",
    "/v1/biases/alibi-slopes.bin?heads=3",
    "/v1/encodings/sinusoidal.npz?length=3&dim=6",
    "/v1/encodings/sinusoidal?length=3&dim=6",
    "/v1/masks/causal.csv?length=5",
)
RANGED = (".npy", ".safetensors", ".bin", ".npz")
SPACES = ("", "", "", "", " ", "\t", "  ")
METHODS = ("GET", "GET", "GET", "GET", "HEAD")
Fields = list[tuple[str, str]]


class Known:
    """What the answers are parts of: the tag and the whole body of each address, as a plain GET gives them."""

    def __init__(self, service: Called) -> None:
        self.whole: dict[str, tuple[str, bytes]] = {}
        for target in TARGETS:
            (answer,) = service.ask(sent("GET", target, []))
            assert answer.status == 200
            self.whole[target] = answer.headers["etag"], answer.body


def sent(method: str, target: str, fields: Fields) -> Sent:
    path, _, query = target.partition("?")
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields]
    return Sent(method, path.encode(), query.encode(), raw)


class Conditions:
    """Method, address and header fields, the same for the same seed."""

    def __init__(self, seed: int, known: Known) -> None:
        self.random = random.Random(seed)
        self.known = known

    def __iter__(self) -> Iterator[tuple[str, str, Fields]]:
        while True:
            target = self.random.choice(TARGETS)
            tag, body = self.known.whole[target]
            fields: Fields = []
            for name, chance in (("Range", 0.85), ("If-Range", 0.2), ("If-None-Match", 0.2), ("If-Match", 0.1)):
                if self.random.random() < chance:
                    # Cut, so that no header as a whole is too large: that is another test's matter.
                    made = self._range(len(body)) if name == "Range" else self._tags(tag, alone=name == "If-Range")
                    made = made[:2500]
                    fields += [(name, made)] * (2 if self.random.random() < 0.03 else 1)
            for name in ("If-Modified-Since", "If-Unmodified-Since"):
                if self.random.random() < 0.05:
                    fields.append((name, self.random.choice(("Thu, 01 Jan 1970 00:00:00 GMT", "x", "", "9" * 99))))
            self.random.shuffle(fields)
            yield self.random.choice(METHODS), target, fields

    def _range(self, size: int) -> str:
        unit = self.random.choice(
            ("bytes",) * 24 + ("Bytes", "BYTES", "bytes ", "octets", "", "byte", "none", "\xa0bytes")
        )
        count = self.random.choice((1,) * 24 + (0, 2, 3, 200))
        specs = [self._spec(size) for _ in range(count)]
        joint = self.random.choice((",", ", ", " ,", ",,", "\t,\t"))
        value = unit + self.random.choice(("=",) * 60 + ("", " =", "= ", "==", ":")) + joint.join(specs)
        value = self._edges(value)
        return self._damaged(value) if self.random.random() < 0.15 else value

    def _spec(self, size: int) -> str:
        first, last = self._place(size), self._place(size)
        if self.random.random() < 0.6:
            first, last = sorted((first, last), key=lambda digits: (len(digits.lstrip("0")), digits.lstrip("0")))
        form = self.random.choice(("{0}-{1}",) * 16 + ("{0}-",) * 6 + ("-{0}",) * 6
                                  + ("-", "{0}", "{0} - {1}", "{0}- {1}", "--{0}", "{0}-{1}-", "+{0}-{1}", "0x{0}-{1}",
                                     "{0}.0-{1}", "\u00b2-{0}", "{0}1 2-{1}", "*", "a-b"))  # fmt: skip
        return form.format(first, last)

    def _place(self, size: int) -> str:
        near = self.random.choice((0, 1, size - 1, size, size + 1, 2 * size, self.random.randrange(size)))
        return self.random.choice((str(near),) * 8 + ("0" * 30 + str(near), str(2**63), str(2**64), "9" * 40,
                                                         "1" + "0" * 2000, "0" * 2000))  # fmt: skip

    def _tags(self, tag: str, *, alone: bool) -> str:
        parts = [self._tag(tag) for _ in range(1 if alone else self.random.choice((1, 1, 1, 2, 3, 50)))]
        value = self._edges(self.random.choice((",", ", ", " , ", ",,", "\t,", " ")).join(parts))
        return self._damaged(value) if self.random.random() < 0.1 else value

    def _tag(self, tag: str) -> str:
        others = (
            '"x"',
            '""',
            'W/"x"',
            '"x,y"',
            '"\xe9"',
            '"a b"',
            "x",
            '"',
            "W/",
            "*",
            "",
            "Thu, 01 Jan 1970 00:00:00 GMT",
        )
        return self.random.choice((tag, tag, f"W/{tag}", f"w/{tag}", tag.strip('"'), tag[:-1], f"{tag}{tag}", *others))

    def _edges(self, value: str) -> str:
        return self.random.choice(SPACES) + value + self.random.choice(SPACES)

    def _damaged(self, value: str) -> str:
        at = self.random.randrange(len(value) + 1)
        more = self.random.choice(("", " ", ",", '"', "-", "=", "0", "\t", "*", "\xff", "x"))
        return value[:at] + more + value[at + self.random.choice((0, 1, 2)) :]


def judged(known: Known, method: str, target: str, fields: Fields, answer: Answer) -> None:
    """Assert that an answer is the one that is due."""
    tag, body = known.whole[target]
    ranges = target.partition("?")[0].endswith(RANGED)
    expected = due(method, fields, tag, len(body), ranges=ranges)
    said = Due(answer.status, expected.start, expected.stop)
    assert said == expected, f"{method} {target} {str(fields)[:500]}: {answer.status}, {expected} is due"
    if expected.status in (200, 206):
        content = body[expected.start : expected.stop] if method == "GET" else b""
        assert answer.body == content
        assert answer.headers["etag"] == tag
    if expected.status == 304:
        assert (answer.headers["etag"], "cache-control" in answer.headers) == (tag, True)
    window = {206: f"bytes {expected.start}-{expected.stop - 1}/{len(body)}", 416: f"bytes */{len(body)}"}
    assert answer.headers.get("content-range") == window.get(expected.status)
    assert (answer.headers.get("accept-ranges") == "bytes") == (ranges and expected.status in (200, 206))
