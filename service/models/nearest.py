"""The nearest known name for one that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 64


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """At most `count` known names, the likeliest first.

    >>> nearest("lama", ["llama", "bert"]), nearest("facotr", ["factor", "type"], 1)
    (['llama'], ['factor'])
    """
    folded: dict[str, str] = {}
    for each in known:
        folded.setdefault(_fold(each), each)
    return [folded[match] for match in get_close_matches(_fold(name[:LONGEST]), list(folded), count, 0.7)]


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")


def echo(value: object) -> str:
    """What was given, as a message may repeat it: at most 64 printable characters."""
    text = "".join(each if each.isprintable() else "?" for each in str(value)[: LONGEST + 1])
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
