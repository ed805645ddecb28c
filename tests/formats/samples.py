"""Tensors to write: what the engine would hand to a format, made from arrays."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from service.formats import FORMATS
from service.formats.format import Nonfinite, Rows, Tensors, type_of

FLOATS = ("float16", "bfloat16", "float32", "float64")
DOCUMENT: Mapping[str, object] = {
    "family": "encodings",
    "scheme": "rope",
    "revision": 1,
    "parameters": {"length": 4, "base": 10000.0, "name": "é ☃", "grid": (4, 6)},
    "facts": {"attention_factor": np.float64(1.5), "dims": np.int64(8)},
    "notes": ["one"],
}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Spec:
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str


def spec_of(array: NDArray[Any]) -> Spec:
    axes = ("position", "head", "query", "key", "channel")[-array.ndim :] if array.ndim else ()
    return Spec(axes, array.shape, array.dtype.name)


def specs(arrays: Mapping[str, NDArray[Any]]) -> Tensors:
    return {name: spec_of(array) for name, array in arrays.items()}


def rows_of(arrays: Mapping[str, NDArray[Any]]) -> Rows:
    def rows(name: str, start: int, stop: int) -> NDArray[Any]:
        array = arrays[name]
        width = array.shape[-1] if array.ndim else 1
        return array.reshape(-1, width)[start:stop]

    return rows


def written(
    extension: str,
    arrays: Mapping[str, NDArray[Any]],
    *,
    start: int = 0,
    stop: int | None = None,
    block_bytes: int = 64,
    nonfinite: Nonfinite = "refuse",
    document: Mapping[str, object] = DOCUMENT,
) -> bytes:
    chunks = FORMATS[extension].stream(
        document,
        specs(arrays),
        rows_of(arrays),
        start=start,
        stop=stop,
        block_bytes=block_bytes,
        nonfinite=nonfinite,
    )
    return b"".join(chunks)


def same(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Equal in shape, dtype and every bit, so that -0.0 and NaN count."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    kind = _BITS[left.dtype.itemsize]
    return bool((np.ascontiguousarray(left).view(kind) == np.ascontiguousarray(right).view(kind)).all())


def strict(text: bytes) -> Any:
    """JSON as RFC 8259 has it, by a parser that is not ours."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def shapes(least: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, 5), min_size=least, max_size=4).map(tuple)


@st.composite
def arrays_of(
    draw: st.DrawFn,
    dtype: str,
    shape: st.SearchStrategy[tuple[int, ...]] | None = None,
    finite: bool = True,
) -> NDArray[Any]:
    """Any bits of the dtype, so that subnormals, -0.0 and the largest come up."""
    kind = _BITS[type_of[dtype].itemsize]
    drawn: NDArray[Any] = draw(hnp.arrays(kind, draw(shape if shape is not None else shapes())))
    values = drawn.reshape(drawn.shape).view(type_of[dtype]) if drawn.ndim else drawn.view(type_of[dtype])
    if not finite:
        return values
    return np.where(np.isfinite(values), values, np.zeros((), values.dtype))
