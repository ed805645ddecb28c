"""Hostile JSON bodies for every operation that takes one: a valid document, with something wrong at any place of it.

What is wrong may be no JSON at all, so documents are written here as text, with fragments put in as they are.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from service.api.bundle import ADDRESSES
from service.api.inference import MODELS
from service.api.variations import example_arrays
from tests.api.requests import EXAMPLES
from tests.hostile.called import Sent

CONFIGS = sorted((Path(__file__).parents[1] / "models" / "configs").glob("*.json"))
JSON = [(b"content-type", b"application/json")]
# What is put in the place of a value, or of all of the body.
FRAGMENTS: list[bytes] = [
    b"NaN", b"-NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e400", b"1e-999", b"9" * 5000, b"-" + b"9" * 5000,
    b"0." + b"9" * 5000, b"1" + b"0" * 400 + b".5", b"9007199254740993", b"18446744073709551616", b"-0", b"-0.0", b"01",
    b"+1", b"1.", b".5", b"0x10", b"1e", b"1_0", b"5e-324", b"1.7976931348623157e308", b"1e308", b"2147483648",
    b"0", b"1", b"-1", b"7", b"1.5", b"true", b"false", b"null", b"True", b"None", b"undefined", b"nul",
    b'""', b'"x"', b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b'"a\\u0000b"', b'"\x00"', b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"' + b"x" * 70_000 + b'"', b'"' + b"\\u0041" * 9000 + b'"', b'"\xf0\x9f\x92\xa9"', b'"\\"', b'"unended', b"'x'",
    b'"1"', b'"NaN"', b'"../../etc/passwd"', b'"${jndi:ldap://x}"', b'"__import__(\'os\')"', b'"\xe2\x80\xae"',
    b"[]", b"{}", b"[[]]", b"[[],[]]", b"[{}]", b"[null]", b"[1,]", b"[,1]", b"[1 2]", b"[1,[2]]", b"[[1],[2,3]]",
    b"[1,true]",
    b'["a"]', b'[1,"a"]', b"[1e308,1e308]", b"[0.5,1]", b"[-1]", b"[9007199254740993]", b"[NaN]",
    b"[" + b"1," * 600 + b"1]",
    b"[" + b"0," * 20_000 + b"0]", b'{"0":1}', b'{"a":1,"a":2}', b'{"":1}', b'{"__proto__":{}}', b'{"\\ud800":1}',
    b"{1:2}",
    b'{"a":1,}', b'{"a"}', b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(3000)) + b"}", b"/* x */ 1", b"1 // x",
    b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b"[" * 1000 + b"1" + b"]" * 1000, b"[" * 33 + b"1" + b"]" * 33, b"[" * 32 + b"1" + b"]" * 32,
]  # fmt: skip
ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "utf-7")


def _parses(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


# What is wrong only in its place is drawn more often, since it gets further.
PARSING = [each for each in FRAGMENTS if len(each) < 5000 and _parses(each)]


class Raw:
    """A fragment in a document."""

    def __init__(self, text: bytes) -> None:
        self.text = text


def written(value: Any) -> bytes:
    """JSON, with fragments as they are; an object may be a list of pairs, whose names may repeat."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return b"{" + b",".join(_pair(*pair) for pair in value.items()) + b"}"
    if isinstance(value, tuple):
        return b"{" + b",".join(_pair(*pair) for pair in value) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(written, value)) + b"]"
    return json.dumps(value).encode()


def _pair(name: str | Raw, value: Any) -> bytes:
    return (name.text if isinstance(name, Raw) else json.dumps(name).encode()) + b":" + written(value)


def documents() -> dict[str, list[tuple[bytes, bytes, Any]]]:
    """Path, query and a valid document of every operation, by kind of operation."""
    found: dict[str, list[tuple[bytes, bytes, Any]]] = {"schemes": [], "inference": []}
    for asked in EXAMPLES:
        path, _, query = asked.target.partition("?")
        if asked.example.body is not None:
            found["schemes"].append((path.encode(), query.encode(), asked.example.body))
        model = f"{asked.scheme.family}.{asked.scheme.name}"
        assert model in MODELS
        found["inference"].append((f"/v2/models/{model}/infer".encode(), b"", _inference(asked.example)))
    found["positions"] = [
        (path.encode(), b"dim=8", {"positions": [0, 1.5, 3]})
        for path, scheme in ADDRESSES.items()
        if any(array.name == "positions" for array in scheme.inputs)
    ]
    configs = [json.loads(path.read_text(encoding="utf-8")) for path in CONFIGS]
    found["resolve"] = [(b"/v1/models/resolve", query, each) for each in configs for query in (b"", b"assume=llama")]
    targets = [asked.target for asked in EXAMPLES if asked.example.body is None]
    found["bundle"] = [
        (f"/v1/bundle.{ending}".encode(), b"", {"first": target, "b.c": targets[0]})
        for target in targets
        for ending in ("safetensors", "npz")
    ]
    return found


def _inference(example: Any) -> dict[str, Any]:
    datatypes = {"b": "BOOL", "i": "INT64", "f": "FP64"}
    arrays = example_arrays(example)
    inputs = [
        {"name": name, "shape": list(array.shape), "datatype": datatypes[array.dtype.kind], "data": array.tolist()}
        for name, array in arrays.items()
    ]
    return {"id": "1", "parameters": dict(example.query), "inputs": inputs, "outputs": []}


class Bodies:
    """Bodies without end, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.documents = documents()

    def __iter__(self) -> Iterator[Sent]:
        while True:
            yield self._one()

    def _one(self) -> Sent:
        path, query, document = self.random.choice(self.documents[self.random.choice(list(self.documents))])
        how = self.random.random()
        if how < 0.1:
            return Sent("POST", path, query, JSON, self.random.choice(FRAGMENTS))
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            document = self._wrong(document)
        body = written(document)
        if how < 0.15:
            body = body.decode("latin-1").encode(self.random.choice(ENCODINGS))
        elif how < 0.2:
            body = self._cut(body)
        return Sent("POST", path, query, JSON, body)

    def _cut(self, body: bytes) -> bytes:
        """An end, a beginning, more behind, or something in between."""
        at = self.random.randrange(len(body) + 1)
        return self.random.choice((body[:at], body[at:], body + body[:at], body[:at] + b"\0" + body[at:]))

    def _fragment(self) -> Raw:
        return Raw(self.random.choice(PARSING if self.random.random() < 0.9 else FRAGMENTS))

    def _wrong(self, value: Any) -> Any:
        """The same with one place changed: a few steps down, then something of another kind, more or less of it."""
        if isinstance(value, dict | list) and value and self.random.random() < 0.75:
            return self._inside(value)
        how = self.random.random()
        if how < 0.15:
            return [value]
        if how < 0.2:
            return {"a": value}
        return self._fragment()

    def _inside(self, value: Any) -> Any:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = self.random.choice(keys)
        how = self.random.random()
        if isinstance(value, list):
            changed = list(value)
            if how < 0.1:
                del changed[key]
            elif how < 0.2:
                changed.insert(key, self._fragment())
            else:
                changed[key] = self._wrong(value[key])
            return changed
        pairs = list(value.items())
        if how < 0.1:
            return {name: each for name, each in pairs if name != key}
        if how < 0.2:
            return (*pairs, (key, self._fragment()))
        if how < 0.3:
            return {**value, self.random.choice(("x", "", "positions", "tensors", "y" * 300)): self._fragment()}
        return {**value, key: self._wrong(value[key])}
