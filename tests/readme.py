"""Reads README.md: its code blocks, and the tables that are made from the code.

`python -m tests.readme` writes them into README.md anew: settings, schemes, conventions, models, pictures and so on.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.api.catalogue import catalogue, left_out
from service.models import resolve
from service.models.catalogue import entries
from service.models.known import model_type
from service.settings import Settings, flag, show_default, variable
from tests import gallery
from tests.benchmarks import replicas

ROOT = Path(__file__).parents[1]
PATH = ROOT / "README.md"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text and the line it starts at."""

    language: str
    text: str
    line: int


def blocks() -> list[Block]:
    text = PATH.read_text()
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in re.finditer(r"(?ms)^```(\w*)\n(.*?)^```$", text)
    ]


def section(name: str) -> str:
    """What stands between `<!-- name -->` and `<!-- /name -->`."""
    found = re.search(rf"(?s)<!-- {name} -->\n(.*)<!-- /{name} -->", PATH.read_text())
    assert found is not None, name
    return found[1]


def settings_table() -> str:
    rows = [
        f"| `{flag(name)}` | `{variable(name)}` | {_default(name)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| flag | variable | default | meaning |", "|---|---|---|---|", *rows, ""])


def _default(name: str) -> str:
    shown = show_default(name)
    return "(empty)" if shown == "''" else f"`{shown}`"


def schemes_table() -> str:
    rows = [
        f"| `{' '.join(entry['methods'])} {entry['href']}` | {entry['title']} | {entry['rounding']} |"
        for entry in catalogue()["schemes"]
    ]
    return "\n".join(["| address | answers with | rounding |", "|---|---|---|", *rows, ""])


def left_out_table() -> str:
    rows = [f"| {each['topic']} | {each['name']} | {each['reason']} |" for each in left_out()]
    return "\n".join(["| of | left out | reason |", "|---|---|---|", *rows, ""])


KINDS = (
    "answered with a plan",
    "answered with a plan, in which a trained convolution carries the order: nothing to fetch",
    "answered with a plan, a part of which is said to be unknown",
    "without positional encoding, and said to be",
    "refused by the key that the class's own defaults lack or contradict",
    "refused as not known yet",
)


def kind_of(entry: Mapping[str, Any]) -> str:
    """What class defaults alone give for a model type."""
    whole, convolved, partly, nothing, lacking, unknown = KINDS
    encodings = set(entry["encodings"])
    if "refused" in entry:
        return unknown if "not known" in entry["refused"] else lacking
    if "unknown" in encodings:
        return partly
    if encodings <= {"none", "convolution"}:
        return convolved if "convolution" in encodings else nothing
    return whole


# What carries the order where no encoding does, by a word of the plan's notes.
CARRIERS: Mapping[str, tuple[str, ...]] = {
    "networks of convolutions": ("convolutions",),
    "recurrences, state spaces or linear attention": ("recurr", "state-space", "linear attention", "linear_attention"),
    "whose class has it off until a key of the file switches it on": ("is false", "are false"),
}

SET = "attention over a set"


def carrier_of(name: str) -> str:
    """Which of those a model type without positional encoding is."""
    notes = " ".join(note for use in resolve({"model_type": name}).uses for note in use.notes)
    found = [kind for kind, words in CARRIERS.items() if any(word in notes for word in words)]
    return found[0] if found else SET


def models_table() -> str:
    """For every model type of transformers, and for those of them that AutoModel maps to a model."""
    listed = [entry for entry in entries() if entry["kind"] == "model type"]
    found = [(kind_of(entry), model_type(entry["name"]).backbone) for entry in listed]
    backbones = sum(backbone for _, backbone in found)
    rows = []
    for kind in KINDS:
        of_all = sum(each == kind for each, _ in found)
        of_backbones = sum(each == kind and backbone for each, backbone in found)
        shares = f"{100 * of_all / len(found):.1f} % | {of_backbones} | {100 * of_backbones / backbones:.1f} %"
        rows.append(f"| {kind} | {of_all} | {shares} |")
    head = f"| {len(found)} model types of transformers 5.24 | types | share | of {backbones} backbones | share |"
    bare = [entry["name"] for entry in listed if kind_of(entry) == KINDS[3] and model_type(entry["name"]).backbone]
    return "\n".join([head, "|---|---|---|---|---|", *rows, "", _what_is_left(found, backbones, bare), ""])


def _what_is_left(found: list[tuple[str, bool]], backbones: int, bare: list[str]) -> str:
    """The share of backbones with a plan, of all and of those that have positions; and what the others are."""
    plans = sum(kind in KINDS[:2] and backbone for kind, backbone in found)
    carriers = Counter(carrier_of(name) for name in bare)
    listed = ",\n".join(f"{carriers[kind]} {kind}" for kind in (*CARRIERS, SET) if carriers[kind])
    of_all, of_those = (f"{100 * plans / count:.1f} %" for count in (backbones, backbones - len(bare)))
    return (
        f"{plans} of {backbones} backbones have a plan: {of_all} of all, {of_those} of those that encode positions.\n"
        f"{len(bare)} encode none, which no plan could change ({listed})."
    )


def conventions_table() -> str:
    """Who uses which convention of the tables, biases and masks; the page of the service has those of every family."""
    rows = [
        f"| `{each['href'].removeprefix('/v1/')}` | {'; '.join(_convention(usage) for usage in each['used_by'])} |"
        for each in catalogue()["schemes"]
        if each["family"] in ("encodings", "biases", "masks") and each["used_by"]
    ]
    return "\n".join(["| scheme | who: `preset` or parameters |", "|---|---|", *rows, ""])


def _convention(usage: dict[str, Any]) -> str:
    who = usage["who"].replace("|", "\\|")
    stated = " ".join(f"`{name}={value}`" for name, value in usage["parameters"].items()) or "the defaults"
    return f"{who}: **`{usage['preset']}`**" if "preset" in usage else f"{who}: {stated}"


TABLES = {
    "settings": settings_table,
    "schemes": schemes_table,
    "left out": left_out_table,
    "models": models_table,
    "conventions": conventions_table,
    "gallery": gallery.section,
    "replicas": replicas.table,
}


def write() -> None:
    for name, table in TABLES.items():
        text = PATH.read_text()
        PATH.write_text(text.replace(f"{section(name)}<!-- /{name}", f"{table()}<!-- /{name}"))


if __name__ == "__main__":
    write()
