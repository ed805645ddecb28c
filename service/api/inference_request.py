"""Inference requests (Open Inference Protocol v2): JSON, and the binary tensor extension.

    {"id", "parameters": {...}, "inputs": [{"name", "shape", "datatype", "data"}], "outputs": [{"name"}]}

With `Inference-Header-Content-Length: N` the JSON is the first N bytes of the body; tensors with the parameter
`binary_data_size` follow it, in the order of `inputs`, little-endian and row-major without gaps.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from service.api.problems import Problem, echo
from service.engine.rounding import nearest
from service.formats.declared import shape_of, view
from service.formats.errors import pointer_to
from service.formats.json_reader import read_json
from service.formats.lists import array_from_lists, flags_from_lists

DATATYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
BYTES = "BYTES"
KEYS = ("id", "model_name", "model_version", "parameters", "inputs", "outputs")
MOST_TENSORS = 64
# A string of no bytes takes four of a body, and many times that as an object.
MOST_TEXTS = 1 << 20
MOST_DIGITS = 18

Scalar = str | int | float | bool
Values = NDArray[Any] | list[str]


@dataclass(frozen=True, slots=True)
class Inference:
    """What a request says: parameters as the query would spell them, arrays and texts by name, outputs wanted.

    `outputs` tells of each whether it is wanted as binary data; None stands for all of them, in the way of `binary`.
    """

    id: str | None
    parameters: dict[str, Scalar]
    inputs: dict[str, Values]
    outputs: dict[str, bool] | None
    binary: bool


def read_inference(body: bytes | bytearray, header_length: str | None) -> Inference:
    """The request in a body. Whatever is wrong with it is a Problem that says where."""
    text, rest = _split(body, header_length)
    document = _object(read_json(text, ("data",)), "the request")
    for name in document:
        if name not in KEYS:
            raise _wrong("", f"{echo(name)} is not known here; known are {', '.join(KEYS)}")
    parameters = _parameters(document.get("parameters", {}), "/parameters")
    binary = _flag(parameters.pop("binary_data_output", False), "/parameters/binary_data_output")
    given = document.get("id")
    if given is not None and not isinstance(given, str):
        raise _wrong("/id", "the id must be a string")
    inputs = _inputs(_list(document.get("inputs", []), "/inputs"), rest)
    outputs = _outputs(_list(document["outputs"], "/outputs"), binary) if document.get("outputs") else None
    return Inference(given, parameters, inputs, outputs, binary)


def _split(body: bytes | bytearray, header_length: str | None) -> tuple[bytes | bytearray, memoryview]:
    if header_length is None:
        return body, memoryview(b"")
    if not header_length.isdecimal() or not header_length.isascii() or len(header_length) > MOST_DIGITS:
        raise _wrong("", f"Inference-Header-Content-Length is {echo(header_length)}; a number of bytes is needed")
    length = int(header_length)
    if length > len(body):
        raise _wrong("", f"Inference-Header-Content-Length is {length}, and the body has {len(body)} bytes")
    return body[:length], memoryview(body)[length:]


# Inputs


def _inputs(given: list[Any], rest: memoryview) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for number, entry in enumerate(given):
        pointer = pointer_to("inputs", number)
        name = _name(entry, pointer, ("name", "shape", "datatype", "parameters", "data"))
        if name in found:
            raise _wrong(pointer, f"the input {echo(name)} comes twice")
        found[name], rest = _tensor(entry, name, pointer, rest)
    if len(rest):
        raise _wrong("", f"{len(rest)} bytes follow the last binary input: the sizes disagree with the body")
    return found


def _tensor(entry: Mapping[str, Any], name: str, pointer: str, rest: memoryview) -> tuple[Values, memoryview]:
    shape = shape_of(entry.get("shape"), f"the input {echo(name)}", f"{pointer}/shape")
    datatype = entry.get("datatype")
    if not isinstance(datatype, str) or datatype not in (*DATATYPES, BYTES):
        known = ", ".join([*DATATYPES, BYTES])
        raise _wrong(f"{pointer}/datatype", f"{echo(name)} is of {echo(datatype)}; known are {known}")
    parameters = _parameters(entry.get("parameters", {}), f"{pointer}/parameters")
    size = parameters.pop("binary_data_size", None)
    if parameters:
        raise _wrong(f"{pointer}/parameters", f"{echo(next(iter(parameters)))} is not known here")
    if (size is None) == ("data" not in entry):
        raise _wrong(pointer, f"{echo(name)} needs either data or the parameter binary_data_size")
    if size is None:
        return _from_json(entry["data"], shape, datatype, f"{pointer}/data"), rest
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise _wrong(f"{pointer}/parameters/binary_data_size", f"{echo(size)} is no number of bytes")
    if size > len(rest):
        raise _wrong(pointer, f"{echo(name)} takes {size} bytes of binary data, and {len(rest)} are left in the body")
    return _from_binary(rest[:size], shape, datatype, pointer), rest[size:]


def _from_binary(data: memoryview, shape: tuple[int, ...], datatype: str, pointer: str) -> Values:
    if datatype == BYTES:
        return _texts(data, shape, pointer)
    dtype = DATATYPES[datatype]
    due = math.prod(shape) * dtype.itemsize
    if due != len(data):
        raise _wrong(pointer, f"{list(shape)} {datatype} take {due} bytes; binary_data_size is {len(data)}")
    return view(data, 0, shape, dtype, pointer=pointer)


def _texts(data: memoryview, shape: tuple[int, ...], pointer: str) -> list[str]:
    """Strings, each after its length of four bytes."""
    found: list[str] = []
    count = math.prod(shape)
    if count > MOST_TEXTS:
        raise _wrong(pointer, f"the shape {echo(list(shape))} has {count} BYTES; at most {MOST_TEXTS} are read")
    while len(data) and len(found) <= count:
        length = int.from_bytes(data[:4], "little")
        if len(data) < 4 + length:
            raise _wrong(pointer, f"the BYTES end within element {len(found)}")
        found.append(_decoded(bytes(data[4 : 4 + length]), pointer))
        data = data[4 + length :]
    return _counted(found, shape, pointer)


def _decoded(data: bytes, pointer: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _wrong(pointer, "the BYTES are not UTF-8") from None


def _from_json(data: Any, shape: tuple[int, ...], datatype: str, pointer: str) -> Values:
    if not isinstance(data, list | np.ndarray):
        raise _wrong(pointer, "a list is needed")
    if datatype == BYTES:
        flat: list[Any] = _flattened(data) if isinstance(data, list) else [None]
        if not all(isinstance(each, str) for each in flat):
            raise _wrong(pointer, "BYTES are strings in JSON")
        return _counted(flat, shape, pointer)
    array = flags_from_lists(data, pointer) if datatype == "BOOL" else array_from_lists(data, pointer)
    if array.size != math.prod(shape) or (array.ndim > 1 and array.shape != shape):
        raise _wrong(pointer, f"data of {list(array.shape)} values came; the shape is {list(shape)}")
    return _cast(array, datatype, pointer).reshape(shape)


def _flattened(data: list[Any]) -> list[Any]:
    while data and all(isinstance(each, list) for each in data):
        data = [each for inner in data for each in inner]
    return data


def _counted(texts: list[str], shape: tuple[int, ...], pointer: str) -> list[str]:
    if len(texts) != math.prod(shape):
        raise _wrong(pointer, f"{len(texts)} BYTES came; the shape {list(shape)} has {math.prod(shape)}")
    return texts


def _cast(array: NDArray[Any], datatype: str, pointer: str) -> NDArray[Any]:
    """Numbers of a JSON list in the datatype: integers must fit, floats are rounded once."""
    dtype = DATATYPES[datatype]
    if datatype == "BOOL":
        if array.dtype != np.bool_ and array.size:
            raise _wrong(pointer, "BOOL are true and false in JSON")
        return array.astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if array.size and (array.dtype.kind != "i" or array.min() < limits.min or array.max() > limits.max):
            raise _wrong(pointer, f"a value is no {datatype}: whole numbers from {limits.min} to {limits.max} are")
        return array.astype(dtype)
    return np.asarray(nearest(np.atleast_1d(array.astype(np.float64)), dtype))


# Outputs and parameters


def _outputs(given: list[Any], binary: bool) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for number, entry in enumerate(given):
        pointer = pointer_to("outputs", number)
        name = _name(entry, pointer, ("name", "parameters"))
        if name in found:
            raise _wrong(pointer, f"the output {echo(name)} is asked for twice")
        parameters = _parameters(entry.get("parameters", {}), f"{pointer}/parameters")
        found[name] = _flag(parameters.pop("binary_data", binary), f"{pointer}/parameters/binary_data")
        if parameters:
            raise _wrong(f"{pointer}/parameters", f"{echo(next(iter(parameters)))} is not known here")
    return found


def _name(entry: Any, pointer: str, known: tuple[str, ...]) -> str:
    name = _object(entry, pointer).get("name")
    if not isinstance(name, str):
        raise _wrong(f"{pointer}/name", "a name is needed, as a string")
    for key in entry:
        if key not in known:
            raise _wrong(pointer, f"{echo(key)} is not known here; known are {', '.join(known)}")
    return name


def _parameters(given: Any, pointer: str) -> dict[str, Scalar]:
    found = dict(_object(given, pointer))
    for name, value in found.items():
        if not isinstance(value, str | int | float | bool):
            raise _wrong(f"{pointer}{pointer_to(name)}", "a string, a number or a truth value is needed")
    return found


def _flag(value: Scalar, pointer: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _wrong(pointer, f"{echo(value)} is no truth value")


def _object(value: Any, pointer: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise _wrong(pointer if pointer.startswith("/") else "", "a JSON object is needed")


def _list(value: Any, pointer: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(pointer, "a list is needed")
    if len(value) > MOST_TENSORS:
        raise _wrong(pointer, f"{len(value)} tensors came; at most {MOST_TENSORS} are read")
    return value


def _wrong(pointer: str, detail: str) -> Problem:
    return Problem("invalid-parameters", detail, [{"pointer": pointer, "code": "protocol", "detail": detail}])
