"""`.bin`: one tensor's values and nothing else, little-endian in C order.

There is no header: shape and dtype are told beside the file.
"""

from service.formats.blocks import raw
from service.formats.format import Answer, Binary, Part


def parts(answer: Answer) -> list[Part]:
    """The one tensor."""
    return [raw(answer, name) for name in answer.tensors]


BIN = Binary("bin", "application/octet-stream", "1", "bytes", parts)
