"""What stands along the edges of a panel: the axis' name and the numbers of some of its indices."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.formats.format import Captions
from service.formats.pictures.plan import Steps
from service.formats.pictures.scales import step_of

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True)
class Ticks:
    """A label, and texts with their distance in pixels from the axis' beginning."""

    label: str
    marks: Sequence[tuple[int, str]]


def along(axis: str, steps: Steps, cell: int, captions: Captions, *, least: int, digit: int) -> Ticks:
    """Round indices of an axis that are at least so many pixels apart, each at the middle of its cell.

    Where there is room for one alone it is joined by the last, if that is not too near.
    """
    if not axis:
        return Ticks("", [])
    first = captions.first.get(axis, 0)
    label = f"{axis} (index)" if first is None else axis
    first = first or 0
    last = first + steps.length - 1
    digits = max(len(str(first)), len(str(last)))
    most = max(1, steps.shown * cell // max(least, digit * digits))
    every = max(1, int(step_of(steps.length, most)))
    numbers = range(-(-first // every) * every, last + 1, every) or range(first, first + 1)
    marks = [((number - first) // steps.stride * cell + cell // 2, str(number)) for number in numbers]
    end = (steps.shown - 1) * cell + cell // 2
    if len(marks) == 1 and end - marks[0][0] >= max(2 * least // 3, digit * digits):
        marks.append((end, str(first + (steps.shown - 1) * steps.stride)))
    return Ticks(label, marks)


def called(axis: str, cell: int, captions: Captions, *, numbered: bool = True) -> Ticks:
    """What each index is called, after which comes its number, where that tells more."""
    named = enumerate(captions.named[axis])
    return Ticks(axis, [(index * cell + cell // 2, f"{name} {index}" if numbered else name) for index, name in named])


def steps_told(axes: Sequence[tuple[Steps, str]]) -> str:
    """In words, which indices are shown, where not all are.

    >>> steps_told([(Steps(4096, 9), "position"), (Steps(64, 1), "channel")])
    'every 9th position (456 of 4096)'
    """
    told = [
        f"every {ordinal(steps.stride)} {axis} ({steps.shown} of {steps.length})"
        for steps, axis in axes
        if steps.stride > 1
    ]
    return ", ".join(told)


def ordinal(number: int) -> str:
    """
    >>> ordinal(3), ordinal(11), ordinal(21)
    ('3rd', '11th', '21st')
    """
    ending = "th" if number // 10 % 10 == 1 else _ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"
