"""The little Markdown that descriptions of schemes are written in, as HTML.

Paragraphs, lists, lines of code set in by four spaces, **strong** words and `code`: no more than that.
"""

import re
from collections.abc import Iterator
from html import escape

_ITEM = re.compile(r"(?:- |\d+\. )")
_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


def html(text: str) -> str:
    """A description as HTML.

    >>> html("The **order** is `a < b`:\\n\\n- one,\\n  and on\\n- two")
    '<p>The <strong>order</strong> is <code>a &lt; b</code>:</p>\\n<ul>\\n<li>one, and on</li>\\n<li>two</li>\\n</ul>'
    """
    return "\n".join(_block(block) for block in _blocks(text))


def plain(text: str) -> str:
    """A line of it without marks, as HTML."""
    return escape(text.replace("`", "").replace("**", ""))


def _blocks(text: str) -> Iterator[list[str]]:
    """The lines of each paragraph, list or piece of code."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.split("\n")
        start = next((number for number, line in enumerate(lines) if _ITEM.match(line)), 0)
        if start and not lines[0].startswith("    "):
            yield lines[:start]
            lines = lines[start:]
        yield lines


def _block(lines: list[str]) -> str:
    if all(line.startswith("    ") for line in lines):
        return f'<pre tabindex="0">{escape(chr(10).join(line[4:] for line in lines))}</pre>'
    if not _ITEM.match(lines[0]):
        return f"<p>{_inline(' '.join(line.strip() for line in lines))}</p>"
    kind = "ul" if lines[0].startswith("-") else "ol"
    items = "\n".join(f"<li>{_inline(item)}</li>" for item in _items(lines))
    return f"<{kind}>\n{items}\n</{kind}>"


def _items(lines: list[str]) -> list[str]:
    items: list[str] = []
    for line in lines:
        if _ITEM.match(line):
            items.append(_ITEM.sub("", line, count=1))
        else:
            items[-1] += f" {line.strip()}"
    return items


def _inline(text: str) -> str:
    """Code is set first, so that no mark inside it counts."""
    parts = _CODE.split(text)
    return "".join(
        f"<code>{escape(part)}</code>" if number % 2 else _STRONG.sub(r"<strong>\1</strong>", escape(part))
        for number, part in enumerate(parts)
    )
