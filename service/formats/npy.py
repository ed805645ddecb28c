"""`.npy`: NumPy's format for one array (NEP 1), written as version 1.0 and read strictly.

Several tensors of one shape and dtype are stacked on a leading axis: `cos, sin = numpy.load(file)`.
"""

import ast
import re
import struct

import numpy as np
from numpy.typing import NDArray

from service.formats.blocks import fixed, raw
from service.formats.declared import Body, shape_of, size_fits, view
from service.formats.errors import Unreadable, echo
from service.formats.format import Answer, Binary, Part, type_of
from service.formats.seen import seen

MAGIC = b"\x93NUMPY"
_GROWTH_DIGITS = 21  # numpy leaves room for the first axis to grow in place
_MOST_HEADER = 10_000
_MOST_TEXT = 1_024
_KEYS = {"descr", "fortran_order", "shape"}
_PLAIN = re.compile(r"[<>|=](?:f[248]|[iu][1248]|b1)")


def parts(answer: Answer) -> list[Part]:
    """The header, then the values of the tensor, or of all of them one after the other."""
    specs = list(answer.tensors.values())
    leading = (len(specs),) if len(specs) > 1 else ()
    values = [raw(answer, name) for name in answer.tensors]
    return [fixed(header((*leading, *specs[0].shape), specs[0].dtype)), *values]


def header(shape: tuple[int, ...], dtype: str) -> bytes:
    """The 1.0 header, byte for byte as `numpy.save` writes it; the values begin at a multiple of 64.

    >>> header((4, 8), "float32")[10:].strip()
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 8), }"
    """
    text = f"{{'descr': '{type_of[dtype].str}', 'fortran_order': False, 'shape': {shape!r}, }}"
    if shape:
        text += " " * (_GROWTH_DIGITS - len(str(shape[0])))
    # Of numpy: 64 spaces, not none, where the text would end on the boundary by itself.
    padding = 64 - (len(MAGIC) + 4 + len(text) + 1) % 64
    line = text.encode("ascii") + b" " * padding + b"\n"
    return MAGIC + bytes((1, 0)) + struct.pack("<H", len(line)) + line


def read_npy(body: Body) -> NDArray[np.generic]:
    """The array in an npy body: a view of the body where that is possible, native and C-ordered always.

    Floats of 2, 4 and 8 bytes, integers and booleans are read. Objects, structures, strings, a size that
    differs from the body's, or anything that is not npy raise `Unreadable`. Nothing is unpickled, and
    nothing is allocated for what a header merely claims.

    >>> read_npy(header((2,), "float32") + bytes(8)).tolist()
    [0.0, 0.0]
    """
    if bytes(body[:6]) != MAGIC:
        raise Unreadable("npy", f"npy was due, and this is {seen(body)}")
    text, offset = _header_text(body)
    descr, fortran, shape = _entries(text)
    dtype = _dtype(descr)
    size_fits(shape, dtype, len(body) - offset, "the npy header")
    if not fortran:
        return view(body, offset, shape, dtype)
    turned = view(body, offset, shape[::-1], dtype).T
    return np.require(turned, requirements=["C_CONTIGUOUS"])


def _header_text(body: Body) -> tuple[str, int]:
    version = tuple(body[6:8])
    if len(version) < 2:
        raise Unreadable("npy", "the npy file ends within its first eight bytes")
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise Unreadable("npy", f"npy versions 1.0, 2.0 and 3.0 are read, not {'.'.join(map(str, version))}")
    begin = 10 if version == (1, 0) else 12
    length = int.from_bytes(body[8:begin], "little")
    if length > _MOST_HEADER:
        raise Unreadable("npy", f"the npy header is {length} bytes long; at most {_MOST_HEADER} are read")
    if begin + length > len(body):
        raise Unreadable("npy", f"the body ends within the npy header, after {len(body)} bytes")
    try:
        text = bytes(body[begin : begin + length]).decode("latin-1" if version < (3, 0) else "utf-8")
    except UnicodeDecodeError:
        raise Unreadable("npy", "the npy header is not UTF-8, as that of version 3.0 is") from None
    return text, begin + length


def _entries(text: str) -> tuple[object, bool, tuple[int, ...]]:
    entries = _literal(text)
    if not isinstance(entries, dict) or entries.keys() != _KEYS:
        raise Unreadable("npy", f"the npy header must hold descr, fortran_order and shape, not {echo(text)}")
    if not isinstance(entries["fortran_order"], bool):
        raise Unreadable("npy", "the npy header's fortran_order must be True or False")
    if not isinstance(entries["shape"], tuple):
        raise Unreadable("shape", f"the npy header's shape must be a tuple, not {echo(entries['shape'])}")
    return entries["descr"], entries["fortran_order"], shape_of(entries["shape"], "the npy header")


def _literal(text: str) -> object:
    """The header's Python literal, as NumPy reads it; a bounded one, for the parser's own stack is not endless."""
    if (length := len(text.strip())) > _MOST_TEXT:
        raise Unreadable("npy", f"the npy header has {length} characters; an array of numbers needs fewer")
    try:
        tree = ast.parse(text.lstrip(" \t"), mode="eval")
        value: object = ast.literal_eval(tree)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise Unreadable("npy", f"the npy header is not a Python literal: {echo(text)}") from None
    if isinstance(tree.body, ast.Dict) and isinstance(value, dict) and len(tree.body.keys) != len(value):
        raise Unreadable("npy", "a key of the npy header comes twice")
    return value


def _dtype(descr: object) -> np.dtype[np.generic]:
    if isinstance(descr, str) and _PLAIN.fullmatch(descr):
        return np.dtype(descr)
    if isinstance(descr, str) and descr.endswith("O"):
        raise Unreadable("dtype", "object arrays are not accepted: they are pickles")
    kind = "structures" if isinstance(descr, list) else echo(descr)
    raise Unreadable(
        "dtype",
        f"npy of f2, f4, f8, integers and booleans is read, not of {kind} (bfloat16: send safetensors)",
    )


NPY = Binary("npy", "application/octet-stream", "1", "bytes", parts)
