"""Reads README.md: its code blocks, and the tables that are made from the code.

`python -m tests.readme` writes them into README.md anew: settings, schemes, conventions, models, pictures and so on.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.api.catalogue import catalogue, left_out
from service.models.catalogue import entries
from service.settings import Settings, flag, show_default, variable
from tests import gallery

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


def models_table() -> str:
    """What class defaults alone give for every model type of transformers: a plan, an honest nothing, or a refusal."""
    kinds = {
        "answered with a plan": 0,
        "answered with a plan, a part of which is said to be unknown": 0,
        "without positional encoding, and said to be": 0,
        "refused by the key that the class's own defaults lack or contradict": 0,
        "refused as not known yet": 0,
    }
    whole, partly, nothing, lacking, unknown = kinds
    for entry in entries():
        if entry["kind"] != "model type":
            continue
        encodings = set(entry["encodings"])
        if "refused" in entry:
            kinds[unknown if "not known" in entry["refused"] else lacking] += 1
        elif "unknown" in encodings:
            kinds[partly] += 1
        else:
            kinds[nothing if encodings <= {"none", "convolution"} else whole] += 1
    total = sum(kinds.values())
    rows = [f"| {what} | {count} | {100 * count / total:.1f} % |" for what, count in kinds.items()]
    return "\n".join([f"| {total} model types of transformers 5.24 | types | share |", "|---|---|---|", *rows, ""])


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
}


def write() -> None:
    for name, table in TABLES.items():
        text = PATH.read_text()
        PATH.write_text(text.replace(f"{section(name)}<!-- /{name}", f"{table()}<!-- /{name}"))


if __name__ == "__main__":
    write()
