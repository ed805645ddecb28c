"""What can go wrong between arrays and bytes.

    FormatError
    ├── CannotHold         this format has no way to write these tensors; says which formats can
    └── Unreadable         these bytes, or these lists, are not what they should be; says what was seen

Neither knows HTTP: `service.api.problems` gives each its status. Of the reader's input at most `ECHOED`
characters are ever repeated.
"""

import reprlib

ECHOED = 64


def echo(text: object) -> str:
    """The input as a message may repeat it: printable, and never longer than `ECHOED` characters.

    >>> echo("cos")
    'cos'
    >>> len(echo("x" * 5000))
    64
    """
    # reprlib, because the text of a list nested a thousand deep is a RecursionError.
    whole = text if isinstance(text, str) else reprlib.repr(text)
    shown = "".join(character if character.isprintable() else "?" for character in whole[: ECHOED + 1])
    return shown if len(shown) <= ECHOED else shown[: ECHOED - 1] + "…"


class FormatError(Exception):
    """Anything the formats raise on purpose."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class CannotHold(FormatError):
    """The format has no way to write these tensors; `can` names the formats that have.

    >>> raise CannotHold("dtype", "npy has no bfloat16", can=("safetensors",))
    Traceback (most recent call last):
    service.formats.errors.CannotHold: npy has no bfloat16; safetensors can hold it
    """

    def __init__(self, code: str, reason: str, can: tuple[str, ...]) -> None:
        super().__init__(code, f"{reason}; {_listed(can)} can hold it")
        self.can = can


class Unreadable(FormatError):
    """The input is not what it should be; `pointer` is the JSON Pointer (RFC 6901) to the place, if any."""

    def __init__(self, code: str, detail: str, pointer: str | None = None) -> None:
        super().__init__(code, detail)
        self.pointer = pointer


def pointer_to(*steps: str | int) -> str:
    """A JSON Pointer; a name from the input is cut as in every message.

    >>> pointer_to("tensors", "q/k", 3)
    '/tensors/q~1k/3'
    """
    return "".join("/" + echo(step).replace("~", "~0").replace("/", "~1") for step in steps)


def _listed(names: tuple[str, ...]) -> str:
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
