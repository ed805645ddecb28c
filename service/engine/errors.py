"""What can go wrong in the mathematics.

    EngineError
    └── Refusal            the request cannot be computed as stated; says which parameters, and what would do

The first refusal ends the request. It knows no HTTP: `service.api.problems` gives it its status.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: `parameter` names a parameter, or an input array by JSON Pointer (`/tensors/q`).

    `layer` is the type of layer whose parameter that is, where several are asked for at once.
    """

    parameter: str
    code: str
    detail: str
    limit: int | float | None = None
    requested: int | float | None = None
    layer: str = ""


class EngineError(Exception):
    """Anything the engine raises on purpose."""


class Refusal(EngineError):
    """The parameters, or the arrays, cannot be answered.

    >>> raise Refusal("dim", "odd", "dim is 7; RoPE turns pairs of channels, so it must be even")
    Traceback (most recent call last):
    service.engine.errors.Refusal: dim is 7; RoPE turns pairs of channels, so it must be even
    """

    def __init__(
        self,
        parameter: str,
        code: str,
        detail: str,
        *,
        limit: int | float | None = None,
        requested: int | float | None = None,
        layer: str = "",
    ) -> None:
        super().__init__(detail)
        self.faults = (Fault(parameter, code, detail, limit, requested, layer),)
