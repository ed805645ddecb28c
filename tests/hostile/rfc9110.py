"""What an answer to a GET or HEAD must be, read from RFC 9110 alone: conditions (section 13), ranges (section 14).

Nothing of the service is used here. The representation has a strong entity tag and no modification date, so conditions
by date, and an If-Range with a date, are to be ignored (13.1.3, 13.1.4, 13.1.5). A server may ignore any Range (14.2);
this one promises to answer what is a single valid range, to ignore everything else, and to ignore ranges where it
announces none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# entity-tag = [ "W/" ] DQUOTE *etagc DQUOTE; etagc = %x21 / %x23-7E / obs-text
_ENTITY_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
_OPTIONAL_SPACE = " \t"


@dataclass(frozen=True, slots=True)
class Due:
    """The status, and the bytes first to last (exclusive) of the representation that the body holds."""

    status: int
    start: int = 0
    stop: int = 0


def combined(fields: Sequence[tuple[str, str]], name: str) -> str | None:
    """The value of a field, its lines joined (5.3); None where it is missing."""
    lines = [value.strip(_OPTIONAL_SPACE) for key, value in fields if key.lower() == name]
    return ", ".join(lines) if lines else None


def listed_tags(value: str) -> list[tuple[bool, str]] | None:
    """The entity tags of a list, each with whether it is weak; None where this is no list of tags (5.6.1, 8.8.3)."""
    found, at = [], 0
    due = True  # whether an element may begin here
    while at < len(value):
        if value[at] in _OPTIONAL_SPACE:
            at += 1
        elif value[at] == ",":
            at, due = at + 1, True
        elif due and (match := _ENTITY_TAG.match(value, at)):
            found.append((match[1] is not None, match[2]))
            at, due = match.end(), False
        else:
            return None
    return found or None


def matches(value: str, opaque: str, *, weakly: bool) -> bool:
    """Whether a list of tags, or `*`, holds this strong tag; what is neither does not (13.1.1 and 13.1.2, step 3)."""
    if value == "*":
        return True
    return any(tag == opaque and (weakly or not weak) for weak, tag in listed_tags(value) or ())


def single_range(value: str, size: int) -> tuple[int, int] | str | None:
    """The window of a valid single byte range; `unsatisfiable`; None where the field is to be ignored (14.1.1, 14.1.2).

    ranges-specifier = range-unit "=" range-set; range-set = 1#range-spec; int-range = first-pos "-" [ last-pos ];
    suffix-range = "-" suffix-length. The unit is told apart from others without regard to case (14.1).
    """
    unit, equals, rest = value.partition("=")
    specs = [part.strip(_OPTIONAL_SPACE) for part in rest.split(",")]
    specs = [spec for spec in specs if spec]
    if unit.lower() != "bytes" or not equals or len(specs) != 1:
        return None
    first, dash, last = specs[0].partition("-")
    digits = set("0123456789")
    if not dash or not set(first) | set(last) <= digits or not (first or last):
        return None
    if not first:
        length = _number(last)
        return (max(0, size - length), size) if length and size else "unsatisfiable"
    if last and _number(last) < _number(first):
        return None
    if _number(first) >= size:
        return "unsatisfiable"
    return _number(first), min(_number(last) + 1, size) if last else size


def _number(digits: str) -> int:
    """As a whole number; of those beyond all sizes it only matters that they are, and which is larger."""
    number = 0
    for digit in digits:
        number = number * 10 + ord(digit) - ord("0")
    return number


def due(method: str, fields: Sequence[tuple[str, str]], tag: str, size: int, *, ranges: bool) -> Due:
    """The order of 13.2.2: If-Match, If-None-Match, then Range where If-Range holds."""
    opaque = tag.strip('"')
    whole = Due(200, 0, size)
    if_match, if_none_match = combined(fields, "if-match"), combined(fields, "if-none-match")
    if if_match is not None and not matches(if_match, opaque, weakly=False):
        return Due(412)
    if if_none_match is not None and matches(if_none_match, opaque, weakly=True):
        return Due(304)
    wanted, if_range = combined(fields, "range"), combined(fields, "if-range")
    if method != "GET" or not ranges or wanted is None:
        return whole
    if if_range is not None and if_range != tag:
        return whole
    window = single_range(wanted, size)
    if window is None:
        return whole
    return Due(416) if isinstance(window, str) else Due(206, *window)
