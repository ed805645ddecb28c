"""JSON: the document, and every tensor with its axes, shape, dtype and nested data.

    {"family", "scheme", "revision", "parameters", "facts", "notes",
     "tensors": {name: {"axes", "shape", "dtype", "data"}}}

JSON (RFC 8259) has no infinities and no NaN: they are refused before the first byte, or written as the
strings "Infinity", "-Infinity" and "NaN".
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from numpy.typing import NDArray

from service.formats.blocks import block, blocks, count, kept, width
from service.formats.decimals import LONGEST, Spelling, finite, in_steps, nested
from service.formats.errors import CannotHold
from service.formats.format import Answer, Chunk, Document, Tensors, TensorSpec, Text, holders, type_of

_STRINGS: Spelling = (b'"Infinity"', b'"-Infinity"', b'"NaN"')


def described(document: Document) -> bytes:
    """The document without tensors, keys sorted: what npz and safetensors carry beside the tensors."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS)


def longest(document: Document, tensors: Tensors) -> int:
    """An upper bound of the length: every value as long as its dtype can get, and every bracket and comma."""
    heads = sum(len(_head(name, spec)) + 2 + _longest_data(spec) for name, spec in tensors.items())
    return len(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)) + 14 + heads


def write(answer: Answer) -> Iterator[Chunk]:
    """The text in blocks of about `block_bytes`."""
    rows = kept(answer.tensors, answer.rows)
    answer = Answer(answer.document, answer.tensors, rows, answer.block_bytes, answer.nonfinite)
    if answer.nonfinite == "refuse":
        for name in answer.tensors:
            _refuse_nonfinite(answer, name)
    yield from gathered(_pieces(answer), answer.block_bytes)


def gathered(pieces: Iterable[bytes], least: int) -> Iterator[bytes]:
    """The same bytes in fewer pieces, of at least so many bytes but the last."""
    waiting: list[bytes] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length >= least:
            yield b"".join(waiting)
            waiting, length = [], 0
    if length:
        yield b"".join(waiting)


def _pieces(answer: Answer) -> Iterator[bytes]:
    document = orjson.dumps(answer.document, option=orjson.OPT_SERIALIZE_NUMPY)[:-1]
    yield document + (b',"tensors":{' if answer.document else b'"tensors":{')
    for number, (name, spec) in enumerate(answer.tensors.items()):
        yield (b"," if number else b"") + _head(name, spec)
        yield from _data(answer, name)
        yield b"}"
    yield b"}}"


def _head(name: str, spec: TensorSpec) -> bytes:
    known = orjson.dumps({"axes": spec.axes, "shape": spec.shape, "dtype": spec.dtype})
    return orjson.dumps(name) + b":" + known[:-1] + b',"data":'


def _data(answer: Answer, name: str) -> Iterator[bytes]:
    axes = len(answer.tensors[name].shape)
    if axes < 2:
        # One row, with a list around it that a tensor of one axis does not have; nor the row's, without axes.
        text = nested(block(answer, name, 0, 1), _STRINGS)
        yield text[1:-1] if axes else text[2:-2]
    else:
        yield from _lists(answer, name)


def _lists(answer: Answer, name: str) -> Iterator[bytes]:
    """Whole sub-arrays, as large as a block allows, with the brackets of the axes around them."""
    shape, row_bytes = answer.tensors[name].shape, _row_bytes(answer.tensors[name])
    depth = _depth(shape, row_bytes, answer.block_bytes)
    outer, run, item = shape[: depth - 1], shape[depth - 1], math.prod(shape[depth:-1])
    step = max(1, answer.block_bytes // max(1, item * row_bytes))
    yield b"[" * depth
    for prefix in range(math.prod(outer)):
        if prefix:
            turned = _turned(outer, prefix)
            yield b"]" * turned + b"," + b"[" * turned
        for first in range(0, run, step):
            items = min(step, run - first)
            start = (prefix * run + first) * item
            rows = block(answer, name, start, start + items * item).reshape(items, *shape[depth:])
            yield from _written(rows, bool(first))
    yield b"]" * depth


def _written(arrays: NDArray[Any], continued: bool) -> Iterator[bytes]:
    """These arrays, with commas between them and, if the list is continued, before them."""
    for number, part in enumerate(in_steps(arrays)):
        text = nested(part, _STRINGS)[1:-1]
        yield b"," + text if number or continued else text


def _depth(shape: tuple[int, ...], row_bytes: int, block_bytes: int) -> int:
    """How many outer axes are walked: the fewest that leave sub-arrays no larger than a block."""
    if shape[0] == 0:
        return 1
    fits = (depth for depth in range(1, len(shape)) if math.prod(shape[depth:-1]) * row_bytes <= block_bytes)
    return next(fits, len(shape) - 1)


def _turned(outer: tuple[int, ...], prefix: int) -> int:
    """How many lists end before this prefix: one, and one for each outer axis that begins anew."""
    axis = len(outer) - 1
    while prefix % outer[axis] == 0:
        prefix //= outer[axis]
        axis -= 1
    return len(outer) - axis


def _row_bytes(spec: TensorSpec) -> int:
    return width(spec) * type_of[spec.dtype].itemsize


def _longest_data(spec: TensorSpec) -> int:
    values = math.prod(spec.shape) * (LONGEST[spec.dtype] + 1)
    lists = sum(math.prod(spec.shape[:axis]) for axis in range(len(spec.shape)))
    return values + 3 * lists


def _refuse_nonfinite(answer: Answer, name: str) -> None:
    if not all(finite(rows).all() for rows in blocks(answer, name, 0, count(answer.tensors[name]))):
        can = tuple(each for each in holders(answer.tensors) if each != "json")
        reason = f"{name} is not finite everywhere, as JSON must be; nonfinite=string writes strings"
        raise CannotHold("nonfinite", reason, can)


# The digits are orjson's, so its version counts among what makes the bytes.
JSON = Text("json", "application/json", f"1-orjson-{orjson.__version__}", "none", longest, write)
