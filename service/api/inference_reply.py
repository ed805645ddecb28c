"""Inference responses (Open Inference Protocol v2): a JSON object, then the tensors that are wanted as binary data."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from service.api.inference_request import Inference
from service.api.limits import refuse_large
from service.api.problems import Problem, unknown_name
from service.api.resources import Resources
from service.api.timing import Timing
from service.api.wanted import Wanted
from service.engine.scheme import Tensor
from service.formats.blocks import blocks, count, raw
from service.formats.decimals import LONGEST, finite, nested
from service.formats.errors import pointer_to
from service.formats.format import Answer, Chunk, nbytes, window

NAMES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
}


class Reply:
    """One response: its outputs, each in JSON or as binary data, and its size, known before anything is computed."""

    def __init__(self, name: str, asked: Inference, wanted: Wanted, resources: Resources) -> None:
        self.name = name
        self.asked = asked
        self.wanted = wanted
        self.resources = resources
        self.timing = Timing(wanted.scheme.family)
        self.outputs = _chosen(asked, wanted.tensors)
        texts = [wanted.tensors[name] for name, binary in self.outputs.items() if not binary]
        self.text_bytes = sum(math.prod(each.shape) * (LONGEST[each.dtype] + 1) for each in texts)
        advice = "ask for binary_data, or for fewer rows"
        refuse_large(self.text_bytes, resources.json_bytes, advice, what="the answer as text")

    @property
    def has_text(self) -> bool:
        return not all(self.outputs.values())

    @property
    def has_binary(self) -> bool:
        return any(self.outputs.values())

    @property
    def binary_bytes(self) -> int:
        return sum(nbytes(self.wanted.tensors[name]) for name, binary in self.outputs.items() if binary)

    def head(self) -> bytes:
        """The JSON object: of outputs that are wanted in JSON it holds the values, computed here."""
        answer = self._answer() if self.has_text else None
        outputs = b",".join(self._output(answer, name, binary) for name, binary in self.outputs.items())
        document: dict[str, Any] = {"model_name": self.name, "model_version": str(self.wanted.scheme.revision)}
        if self.asked.id is not None:
            document["id"] = self.asked.id
        document["parameters"] = scalars(self.wanted.document)
        return orjson.dumps(document)[:-1] + b',"outputs":[' + outputs + b"]}"

    def chunks(self, head: bytes) -> Iterator[Chunk]:
        """The bytes of the response. Runs on the work pool."""
        yield head
        if self.has_binary:
            answer = self._answer()
            parts = [raw(answer, name) for name, binary in self.outputs.items() if binary]
            yield from window(parts, 0, self.binary_bytes)

    def _answer(self) -> Answer:
        wanted, tables, timing = self.wanted, self.resources.tables, self.timing
        call = tables.call(wanted.scheme, wanted.params, wanted.inputs, wanted.everything)
        return Answer(
            {}, wanted.tensors, lambda name, start, stop: timing.computing(lambda: tables.rows(call, name, start, stop))
        )

    def _output(self, answer: Answer | None, name: str, binary: bool) -> bytes:
        tensor = self.wanted.tensors[name]
        entry: dict[str, Any] = {"name": name, "shape": tensor.shape, "datatype": NAMES[tensor.dtype]}
        if binary or answer is None:
            return orjson.dumps(entry | {"parameters": {"binary_data_size": nbytes(tensor)}})
        return orjson.dumps(entry)[:-1] + b',"data":[' + b",".join(filter(None, _texts(answer, name))) + b"]}"


def _chosen(asked: Inference, tensors: Mapping[str, Tensor]) -> dict[str, bool]:
    """The outputs, and of each whether it is wanted as binary data."""
    if asked.outputs is None:
        return dict.fromkeys(tensors, asked.binary)
    for number, name in enumerate(asked.outputs):
        if name not in tensors:
            pointer = pointer_to("outputs", number, "name")
            fault = unknown_name(pointer, name, tensors, what=f"there is no output {name[:64]!r}", place="pointer")
            raise Problem("invalid-parameters", fault["detail"], [fault])
    return asked.outputs


def _texts(answer: Answer, name: str) -> Iterator[bytes]:
    """The values of a tensor as flat text, block by block."""
    for rows in blocks(answer, name, 0, count(answer.tensors[name])):
        if not finite(rows).all():
            detail = f"{name} is not finite everywhere, as JSON must be: ask for binary_data"
            raise Problem("invalid-parameters", detail)
        yield nested(rows.reshape(1, -1), (b"", b"", b""))[2:-2]


def scalars(document: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer states, as the protocol's parameters: strings, numbers and truth values; the rest as JSON."""
    stated = {
        name: value
        for part in (document["facts"], document["parameters"], {"notes": document["notes"] or None})
        for name, value in part.items()
        if value is not None
    }
    return {
        name: value if isinstance(value, str | int | float | bool) else json.dumps(value)
        for name, value in stated.items()
    }
