"""Mutated npy and safetensors files and inference requests: ours reads what the reference reads, or refuses.

    python -m tests.hostile.files npy|safetensors|inference [RUNS]

runs one of them guided by coverage, where atheris is installed. Whatever our reader accepts, NumPy's and safetensors'
own readers must read as the same arrays. They accept more: complex numbers, times, structures, U16 to U64, float8,
bytes behind an npy file's last value, a size that is an L of Python 2.
"""

import inspect
import io
import json
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import deserialize

from service.api import inference_request
from service.api.inference_request import DATATYPES, read_inference
from service.api.problems import Problem
from service.formats import declared, json_reader, lists, npy
from service.formats import safetensors as safetensors_file
from service.formats.errors import ECHOED, Unreadable
from service.formats.npy import read_npy
from service.formats.safetensors import read_safetensors

INSTRUMENTED = (declared, inference_request, json_reader, lists, npy, safetensors_file)
MOST_DETAIL = 200 + 2 * ECHOED
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)
Arrays = dict[str, NDArray[Any]]
TOKENS = [
    b"'descr'", b"'fortran_order'", b"'shape'", b"True", b"False", b"None", b"(", b")", b"()", b"(3,)", b"(0,)",
    b"(1, 12)",
    b"(12,)", b"(-1,)", b"(3, 4)", b"(3L, 4L)", b"(9999999999999,)", b"(0, 99999999999999999999)", b"'<f4'", b"'>f8'",
    b"'|O'",
    b"'<V4'", b"'<c8'", b"'<M8[s]'", b"'f4'", b"'=i4'", b"'|b1'", b"'|u1'", b"[('a', '<f4')]", b"{", b"}", b"[", b"]",
    b",", b":",
    b'"', b"\\", b"\\x41", b"#", b"\n", b"\0", b"\xff", b" ", b"1_0", b"0x3", b"3.0", b"1e1", b"-", b"+", b"1if",
    b"b'x'", b"f'x'",
    b"F32", b"F64", b"BF16", b"F16", b"I8", b"I16", b"I32", b"I64", b"U8", b"U64", b"BOOL", b"F8_E4M3",
    b"__metadata__", b"dtype",
    b"data_offsets", b"shape", b'"q"', b"[0,48]", b"[48,0]", b"[0,0]", b"[3,4]", b"[12]", b"[]",
    b"18446744073709551615",
    b"18446744073709551616", b"-0", b"1e999", b"NaN", b"\\ud800", b"\\u0000", b'"a":1,', b"[" * 40, b"{" * 40,
    b"datatype",
    b"binary_data_size", b"FP32", b"INT64", b"BYTES", b"data", b"parameters", b"inputs", b"outputs", b"name", b"48",
    b"true",
]  # fmt: skip


def npy_corpus() -> list[bytes]:
    """Every kind of array and every version of the format."""
    arrays = [TABLE.astype(kind) for kind in ("<f2", "<f4", ">f8", "<i8", ">i2", "|u1", "|b1", "<u4")]
    arrays += [np.asfortranarray(TABLE), np.zeros((0, 3), "<f4"), np.array(1.5), np.ones((2, 1, 3, 1), ">i4")]
    files = []
    for array in arrays:
        for version in ((1, 0), (2, 0), (3, 0)):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, version)
            files.append(buffer.getvalue())
    return files


def safetensors_corpus() -> list[bytes]:
    kinds = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
    several: list[Arrays] = [{"q": TABLE.astype(kind)} for kind in kinds]
    several += [
        {"q": TABLE, "k": TABLE.astype("<f2")},
        {"q": np.zeros((0, 2), "<f4")},
        {"q": np.array(1.5), "b": TABLE > 3},
    ]
    files = [safetensors.numpy.save(arrays, {"format": "np"}) for arrays in several]
    header = b'{"q":{"dtype":"BF16","shape":[3,4],"data_offsets":[0,24]}}'
    return [*files, len(header).to_bytes(8, "little") + header + bytes(range(24))]


def inference_corpus() -> list[bytes]:
    """Requests of the binary tensor extension, each with two bytes before it for the length of its header."""
    table = {"name": "q", "shape": [3, 4], "datatype": "FP32", "parameters": {"binary_data_size": 48}}
    words = {"name": "w", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 14}}
    listed = {"name": "k", "shape": [2, 2], "datatype": "INT8", "data": [[1, 2], [3, -4]]}
    flags = {"name": "m", "shape": [2], "datatype": "BOOL", "data": [True, False]}
    texts = {"name": "t", "shape": [1], "datatype": "BYTES", "data": ["x"]}
    rest = TABLE.tobytes() + b"\x03\0\0\0abc\x03\0\0\0def"
    outputs = [{"name": "q", "parameters": {"binary_data": True}}]
    plain: list[tuple[Mapping[str, Any], bytes]] = [
        ({"inputs": [table, words], "outputs": outputs, "id": "1"}, rest),
        ({"inputs": [listed, flags, texts], "parameters": {"length": 3, "base": 1.5, "binary_data_output": True}}, b""),
        ({"inputs": [listed, table]}, TABLE.tobytes()),
    ]
    made = []
    for document, after in plain:
        head = json.dumps(document).encode()
        made.append(len(head).to_bytes(2, "little") + head + after)
    return made


# Ours against the reference


def check_npy(body: bytes) -> bool:
    """Whether ours accepts; then NumPy must, and read the same."""
    ours = _read(read_npy, body)
    if ours is None:
        return False
    theirs = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
    same({"": ours}, {"": theirs})
    return True


def check_safetensors(body: bytes) -> bool:
    """Whether ours accepts; then safetensors must, and read the same."""
    ours = _read(read_safetensors, body)
    if ours is None:
        return False
    # The library's own wish for order: NumPy has no bfloat16 of its own, so the bytes are compared.
    theirs = deserialize(body)  # type: ignore[no-untyped-call]
    same(ours, {name: _typed(entry) for name, entry in theirs})
    return True


_KINDS = {
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "I8": "i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "u1",
    "BOOL": "?",
}


def _typed(entry: Mapping[str, Any]) -> NDArray[Any]:
    kind = ml_dtypes.bfloat16 if entry["dtype"] == "BF16" else _KINDS[entry["dtype"]]
    return np.frombuffer(entry["data"], kind).reshape(entry["shape"])


def check_inference(body: bytes) -> bool:
    """Whether ours accepts; then what it read has the shapes and bytes that the request says."""
    length, body = int.from_bytes(body[:2], "little"), body[2:]
    try:
        found = read_inference(body, str(length))
    except (Problem, Unreadable) as error:
        _short(error.detail)
        return False
    document, rest = json.loads(body[:length]), body[length:]
    for entry in document.get("inputs", []):
        size = entry.get("parameters", {}).get("binary_data_size")
        given = found.inputs[entry["name"]]
        if isinstance(given, np.ndarray):
            assert given.shape == tuple(entry["shape"])
            if size is not None:
                dtype = DATATYPES[entry["datatype"]]
                assert given.astype(dtype.newbyteorder("<")).tobytes() == rest[:size] or dtype == np.bool_
        else:
            assert len(given) == int(np.prod(entry["shape"]))
        rest = rest[size or 0 :]
    assert rest == b""
    return True


def _read(reader: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return reader(body)
    except Unreadable as fault:
        _short(fault.detail)
        return None


def _short(detail: str) -> None:
    assert len(detail) <= MOST_DETAIL, detail
    assert detail.isprintable(), detail


def same(ours: Arrays, theirs: Arrays) -> None:
    """Names, shapes, dtypes but for their byte order, and every bit."""
    assert sorted(ours) == sorted(theirs)
    for name, array in ours.items():
        other = theirs[name]
        assert (array.shape, array.dtype) == (other.shape, other.dtype.newbyteorder("=")), name
        assert np.ascontiguousarray(array).tobytes() == np.ascontiguousarray(other, array.dtype).tobytes(), name


CHECKS: dict[str, tuple[Callable[[bytes], bool], Callable[[], list[bytes]]]] = {
    "npy": (check_npy, npy_corpus),
    "safetensors": (check_safetensors, safetensors_corpus),
    "inference": (check_inference, inference_corpus),
}


# Mutations of our own, where no coverage guides them


def mutated(bodies: list[bytes], seed: int) -> Iterator[bytes]:
    """Bodies with some bytes changed, the same for the same seed."""
    chance = random.Random(seed)
    while True:
        body = bytearray(chance.choice(bodies))
        for _ in range(chance.choice((1, 1, 2, 4))):
            # Half of the changes near the front, where the headers are.
            at = chance.randrange(min(len(body), chance.choice((16, 200, len(body)))) or 1)
            kind = chance.randrange(5)
            if kind == 0 and body:
                body[at] ^= 1 << chance.randrange(8)
            elif kind == 1:
                body[at : at + 1] = bytes([chance.randrange(256)])
            elif kind == 2:
                del body[at : at + chance.randint(1, 40)]
            elif kind == 3:
                token = chance.choice(TOKENS)
                body[at : at + chance.choice((0, len(token)))] = token
            else:
                body[at:at] = body[: chance.randint(0, 64)]
        yield bytes(body)


def run(name: str, count: int, seed: int) -> int:
    """So many mutations of one kind; how many of them were accepted."""
    check, corpus = CHECKS[name]
    bodies = corpus()
    assert all(check(body) for body in bodies)
    mutations = mutated(bodies, seed)
    return sum(check(next(mutations)) for _ in range(count))


def guided(name: str, count: int) -> None:
    """The same, guided by coverage: what reaches new branches is kept and changed again."""
    import atheris  # noqa: PLC0415 - not of the locked environment

    check, corpus = CHECKS[name]
    for module in INSTRUMENTED:
        for function in vars(module).values():
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                atheris.instrument_func(function)
    with tempfile.TemporaryDirectory() as folder:
        for number, body in enumerate(corpus()):
            Path(folder, f"{number:03}").write_bytes(body)
        words = Path(folder, "words.dict")
        words.write_text("".join(f'"{_escaped(token)}"\n' for token in TOKENS), encoding="ascii")
        options = [f"-runs={count}", "-seed=1", f"-dict={words}", "-max_len=4096", "-timeout=10", "-rss_limit_mb=600"]
        atheris.Setup([name, *options, folder], lambda body: check(body) and None)
        atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


def main(name: str, count: str = "200000") -> None:
    warnings.simplefilter("error")
    guided(name, int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
