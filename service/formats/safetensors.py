"""`.safetensors`: every tensor, and the document as one metadata key, written and read without the library.

A file is eight bytes of length (little-endian), a JSON header of that length padded with spaces to a
multiple of eight, and the values end to end. Each tensor's header entry is {"dtype", "shape",
"data_offsets": [begin, end]}, counted from the end of the header. One metadata key only, because the
library writes several in no fixed order.
"""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import orjson
from numpy.typing import NDArray

from service.formats.blocks import fixed, raw
from service.formats.declared import Body, shape_of, size_fits, view
from service.formats.errors import Unreadable, echo, pointer_to
from service.formats.format import Answer, Binary, Part, nbytes
from service.formats.json_reader import read_object
from service.formats.json_text import described
from service.formats.seen import is_safetensors, seen

MOST_HEADER = 1 << 20
MOST_TENSORS = 64
_NAMES: Mapping[str, str] = {
    "int64": "I64",
    "float64": "F64",
    "float32": "F32",
    "int32": "I32",
    "bfloat16": "BF16",
    "float16": "F16",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
_ORDER = list(_NAMES)
_READ: Mapping[str, np.dtype[Any]] = {
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I8": np.dtype("i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


def parts(answer: Answer) -> list[Part]:
    """The header, then the tensors: wide dtypes first, so that each stays aligned, then by name."""
    names = sorted(answer.tensors, key=lambda name: (_ORDER.index(answer.tensors[name].dtype), name))
    text = orjson.dumps(_entries(answer, names))
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    return [fixed(head), *(raw(answer, name) for name in names)]


def _entries(answer: Answer, names: list[str]) -> dict[str, object]:
    entries: dict[str, object] = {"__metadata__": {"posenc": described(answer.document).decode()}}
    begin = 0
    for name in names:
        spec = answer.tensors[name]
        end = begin + nbytes(spec)
        entries[name] = {"dtype": _NAMES[spec.dtype], "shape": spec.shape, "data_offsets": (begin, end)}
        begin = end
    return entries


def read_safetensors(body: Body) -> dict[str, NDArray[Any]]:
    """The tensors in a safetensors body, in the order of their bytes, as views of it.

    Strict: the spans cover the values exactly, without overlap, hole or trailing byte; each span has the
    size its shape and dtype say; no name comes twice. Anything else raises `Unreadable`. F16, BF16, F32,
    F64, I8 to I64, U8 and BOOL are read.
    """
    entries, offset = _header(body)
    found = [_entry(name, entry) for name, entry in entries.items()]
    found.sort(key=lambda each: each[1:3])
    _contiguous(found, len(body) - offset)
    return {
        name: view(body, offset + begin, shape, dtype, pointer=pointer_to("tensors", name))
        for name, begin, _end, shape, dtype in found
    }


_Entry = tuple[str, int, int, tuple[int, ...], np.dtype[Any]]


def _header(body: Body) -> tuple[dict[str, Any], int]:
    if not is_safetensors(body):
        raise Unreadable("safetensors", f"safetensors was due, and this is {seen(body)}")
    length = int.from_bytes(body[:8], "little")
    if length > MOST_HEADER:
        raise Unreadable("safetensors", f"the header is {length} bytes long; at most {MOST_HEADER} are read")
    if 8 + length > len(body):
        raise Unreadable("safetensors", f"the header is {length} bytes long; the body ends before that")
    entries = read_object(bytes(body[8 : 8 + length]), "the safetensors header")
    _plain(entries.pop("__metadata__", {}))
    if len(entries) > MOST_TENSORS:
        raise Unreadable("safetensors", f"{len(entries)} tensors came; at most {MOST_TENSORS} are read")
    return entries, 8 + length


def _plain(metadata: object) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise Unreadable("safetensors", "the safetensors header's __metadata__ must be strings by name")


def _entry(name: str, entry: object) -> _Entry:
    what, pointer = f"tensor {echo(name)}", pointer_to("tensors", name)
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise Unreadable("safetensors", f"{what} must have dtype, shape and data_offsets, no more", pointer)
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in _READ:
        known = ", ".join(_READ)
        raise Unreadable("dtype", f"{what} is {echo(entry['dtype'])}; read are {known}", pointer)
    dtype, shape = _READ[entry["dtype"]], shape_of(entry["shape"], what, pointer)
    offsets = entry["data_offsets"]
    if not isinstance(offsets, list) or [type(each) for each in offsets] != [int, int]:
        raise Unreadable("safetensors", f"{what}: data_offsets must be two whole numbers", pointer)
    size_fits(shape, dtype, offsets[1] - offsets[0], what, pointer=pointer)
    return name, offsets[0], offsets[1], shape, dtype


def _contiguous(found: list[_Entry], there: int) -> None:
    at = 0
    for name, begin, end, *_ in found:
        if begin != at:
            fault = "overlaps the one before" if begin < at else "leaves a hole before it"
            raise Unreadable("offsets", f"tensor {echo(name)} {fault}", pointer_to("tensors", name))
        at = end
    if at != there:
        raise Unreadable("size", f"the safetensors header declares {at} bytes of values, and {there} came")


SAFETENSORS = Binary("safetensors", "application/octet-stream", "1", "bytes", parts)
