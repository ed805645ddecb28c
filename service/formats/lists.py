"""Nested lists of numbers or truth values, as JSON brings them, into an array; or the place of the fault."""

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.formats.declared import MOST_AXES
from service.formats.errors import Unreadable

MOST_INTEGER = 1 << 53
# Items are looked at so many at a time: a loop within the interpreter lets no other thread run, however long it takes.
SLICE = 1 << 16
# Rows of so many items are joined one by one.
LONG_ROW = 64
_NUMBERS = {int, float}
Value = TypeVar("Value", np.float64, np.int64, np.bool_)
_CALLED = {bool: "a boolean", str: "a string", dict: "an object", type(None): "null", list: "a list"}


def array_from_lists(value: object, pointer: str) -> NDArray[np.float64] | NDArray[np.int64]:
    """The array of nested lists of numbers: int64 if every number is a whole one, else float64.

    Lists of one level have one length. Booleans, strings, null, objects, non-finite numbers and integers
    beyond 2^53 (where float64 stops being exact) raise `Unreadable` with the JSON Pointer of the first
    place at fault, the outer levels first. `pointer` is where `value` stands in its document. A plain
    number is an array without axes; what was read as an array already is looked at for its kind alone.

    >>> array_from_lists([[0, 1, 2], [3, 4, 5]], "/tensors/q").shape
    (2, 3)
    >>> array_from_lists([[0.5, 1], [2]], "/tensors/q")
    Traceback (most recent call last):
    service.formats.errors.Unreadable: this list has 1 items, where those before it have 2
    """
    if isinstance(value, np.ndarray):
        if value.dtype == np.bool_:
            raise Unreadable(*_unwanted(True), pointer + "/0" * value.ndim)
        return value
    return _numbers(*_flattened(value, pointer), pointer)


def flags_from_lists(value: object, pointer: str) -> NDArray[np.float64] | NDArray[np.int64] | NDArray[np.bool_]:
    """The same for a mask: lists of `true` and `false` alone are read as well, lists of both kinds are not.

    >>> flags_from_lists([[True, False], [False, True]], "/tensors/mask").sum().item()
    2
    >>> flags_from_lists([1, True], "/tensors/mask")
    Traceback (most recent call last):
    service.formats.errors.Unreadable: this is a boolean, where its neighbours are none: give 0 and 1, or true and false
    """
    if isinstance(value, np.ndarray):
        return value
    level, shape = _flattened(value, pointer)
    kinds = _kinds(type, level)
    if kinds == {bool}:
        return _array(level, np.bool_).reshape(shape)
    if bool in kinds:
        first = type(level[0]) is bool
        raise _fault(level, shape, pointer, lambda item: (type(item) is bool) is not first, _one_kind)
    return _numbers(level, shape, pointer)


def _numbers(level: list[Any], shape: tuple[int, ...], pointer: str) -> NDArray[np.float64] | NDArray[np.int64]:
    kinds = _kinds(type, level)
    if not kinds <= _NUMBERS:
        raise _fault(level, shape, pointer, lambda item: type(item) not in _NUMBERS, _unwanted)
    if int in kinds and _beyond(level):
        raise _fault(level, shape, pointer, _is_beyond, _too_large)
    if float in kinds and not all(all(map(math.isfinite, part)) for part in _slices(level)):
        raise _fault(level, shape, pointer, lambda item: not math.isfinite(item), _nonfinite)
    if kinds == {int}:
        return _array(level, np.int64).reshape(shape)
    return _array(level, np.float64).reshape(shape)


def _slices(level: list[Any]) -> Iterator[list[Any]]:
    return (level[start : start + SLICE] for start in range(0, len(level), SLICE))


def _kinds(of: Callable[[Any], Any], level: list[Any]) -> set[Any]:
    """What the items are in that respect."""
    return set().union(*(set(map(of, part)) for part in _slices(level)))


def _array(level: list[Any], dtype: type[Value]) -> NDArray[Value]:
    array = np.empty(len(level), dtype)
    for start, part in zip(range(0, len(level), SLICE), _slices(level), strict=True):
        array[start : start + SLICE] = part
    return array


def _joined(rows: list[list[Any]], length: int) -> list[Any]:
    """The items of rows of that length."""
    if len(rows) == 1:
        return rows[0]
    items: list[Any] = []
    for part in rows if length >= LONG_ROW else map(chain.from_iterable, _slices(rows)):
        items.extend(part)
    return items


def _flattened(value: object, pointer: str) -> tuple[list[Any], tuple[int, ...]]:
    """The innermost items in order, and the shape of the lists around them, found level by level."""
    level: list[Any] = [value]
    shape: tuple[int, ...] = ()
    while list in (kinds := _kinds(type, level)):
        if kinds != {list}:
            raise _mixed(level, shape, pointer)
        length = len(level[0])
        if _kinds(len, level) != {length}:
            raise _uneven(level, shape, pointer)
        if len(shape) == MOST_AXES:
            raise Unreadable("nesting", f"the lists are nested deeper than {MOST_AXES}", pointer)
        level, shape = _joined(level, length), (*shape, length)
    return level, shape


def _mixed(level: list[Any], shape: tuple[int, ...], pointer: str) -> Unreadable:
    """Lists and something else side by side: the first that is not as the first one is."""
    first = type(level[0]) is list
    return _fault(level, shape, pointer, lambda item: (type(item) is list) is not first, _unwanted)


def _uneven(level: list[list[Any]], shape: tuple[int, ...], pointer: str) -> Unreadable:
    length = len(level[0])
    return _fault(level, shape, pointer, lambda item: len(item) != length, _ragged(length))


def _fault(
    level: list[Any],
    shape: tuple[int, ...],
    pointer: str,
    wrong: Callable[[Any], bool],
    said: Callable[[Any], tuple[str, str]],
) -> Unreadable:
    at = next(index for index, item in enumerate(level) if wrong(item))
    steps = []
    for length in reversed(shape):
        at, step = divmod(at, length)
        steps.append(f"/{step}")
    code, detail = said(next(filter(wrong, level)))
    return Unreadable(code, detail, pointer + "".join(reversed(steps)))


def _unwanted(item: object) -> tuple[str, str]:
    if type(item) in _NUMBERS:
        return "ragged", "this is a number, where its neighbours are lists"
    if type(item) is list:
        return "ragged", "this is a list, where its neighbours are none"
    return "type", f"this is {_CALLED.get(type(item), 'no JSON value')}; numbers are read"


def _one_kind(item: object) -> tuple[str, str]:
    kind = _CALLED.get(type(item), "a number")
    neighbours = "none" if type(item) is bool else "booleans"
    return "type", f"this is {kind}, where its neighbours are {neighbours}: give 0 and 1, or true and false"


def _ragged(length: int) -> Callable[[list[Any]], tuple[str, str]]:
    return lambda item: ("ragged", f"this list has {len(item)} items, where those before it have {length}")


def _nonfinite(_item: float) -> tuple[str, str]:
    return "nonfinite", "this number is not finite"


def _too_large(_item: int) -> tuple[str, str]:
    return "integer", f"this integer is beyond 2^53 = {MOST_INTEGER}, where float64 stops being exact"


def _is_beyond(item: object) -> bool:
    return type(item) is int and abs(item) > MOST_INTEGER


def _beyond(level: list[Any]) -> bool:
    # Floats may be as large as they like, so the largest (or a NaN) only tells that a closer look is needed.
    return any(not max(map(abs, part)) <= MOST_INTEGER and any(map(_is_beyond, part)) for part in _slices(level))
