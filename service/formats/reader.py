"""Reads the arrays of a binary body, told apart by its first bytes."""

from typing import Any

from numpy.typing import NDArray

from service.formats.declared import Body
from service.formats.errors import Unreadable
from service.formats.npy import MAGIC, read_npy
from service.formats.safetensors import read_safetensors
from service.formats.seen import is_safetensors, seen


def read_arrays(body: Body) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """One array of an npy body, or arrays by name of a safetensors body; anything else is `Unreadable`.

    >>> read_arrays(b"PK\\x05\\x06")
    Traceback (most recent call last):
    service.formats.errors.Unreadable: npy or safetensors was due, and this is an empty zip archive
    """
    if bytes(body[:6]) == MAGIC:
        return read_npy(body)
    if is_safetensors(body):
        return read_safetensors(body)
    raise Unreadable("binary", f"npy or safetensors was due, and this is {seen(body)}")
