"""The pages that explain schemes and say who uses which convention."""

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from service.access import new_key
from service.api import markdown
from service.api.explained import WITHOUT_USERS, scheme_page
from service.engine import SCHEMES
from service.engine.scheme import Scheme
from tests.clients import Client, in_process, settings

IDS = ["/".join(scheme.key) for scheme in SCHEMES]
# Their first examples are of other sizes than these models'.
NOT_SHOWN = {"HunYuan-VL: text (no rotation)", "LTX-Video (25 frames a second, 32 x 32 pixels and 8 frames a patch)"}
VOID = {"meta", "link", "img", "source"}


class Balanced(HTMLParser):
    """Refuses tags that are not closed in turn, and ids that come twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def text_of(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    parser = Balanced()
    parser.feed(answer.text)
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    return answer.text


def explored(page: str) -> list[str]:
    """What the explorer shows where links of a page lead to it."""
    links = [urlsplit(unescape(link)) for link in re.findall(r'href="([^"]*)"', page)]
    return [unquote(link.fragment.removeprefix("side=")) for link in links if link.fragment.startswith("side=")]


@pytest.mark.parametrize("scheme", SCHEMES, ids=IDS)
def test_a_scheme_is_explained_in_plain_words(scheme: Scheme[Any, Any]) -> None:
    words = scheme.explanation
    assert 60 <= len(words) <= 500
    assert words.endswith(".")
    assert not re.search(r"[`*^_|<>]|  |\n", words.replace("attention_mask", "mask"))
    assert [other.key for other in SCHEMES if other.explanation == words] == [scheme.key]


@pytest.mark.parametrize("name", dict.fromkeys(scheme.name for scheme in SCHEMES))
def test_a_page_says_what_the_catalogue_says(name: str, direct: Client) -> None:
    page = text_of(direct, f"/schemes/{name}")
    shown = unescape(page)
    for scheme in (each for each in SCHEMES if each.name == name):
        for told in (scheme.title, scheme.explanation, scheme.reference, *scheme.properties.values()):
            assert told in shown
        for usage in scheme.used_by:
            assert usage.who.replace("`", "") in shown
            assert all(f"{key}={value}" in shown for key, value in usage.parameters.items())
    for picture in re.findall(r'(?:src|srcset)="([^"]*)"', page):
        assert direct.head(unescape(picture).removeprefix("..")).status_code == 200
    for target in explored(page):
        # What cannot do without a body is shown with its example's.
        assert direct.head(target).status_code == (405 if "?" not in target else 200), target


def test_the_page_of_conventions_has_everyone(direct: Client) -> None:
    page = text_of(direct, "/conventions")
    shown = unescape(page)
    linked = 0
    for scheme in SCHEMES:
        for usage in scheme.used_by if scheme.family not in WITHOUT_USERS else ():
            who = usage.who.replace("`", "")
            assert who in shown
            linked += scheme.needs_body is False and who not in NOT_SHOWN
    assert len(explored(page)) == linked


def test_every_scheme_is_in_the_list(direct: Client) -> None:
    page = text_of(direct, "/schemes")
    for scheme in SCHEMES:
        assert f'href="schemes/{scheme.name}#{scheme.family}"' in page
        assert scheme.explanation in unescape(page)


def test_an_unknown_scheme_is_refused_with_the_nearest(direct: Client) -> None:
    refused = direct.get("/schemes/alibbi")
    assert refused.status_code == 404
    assert refused.json()["errors"][0]["did_you_mean"] == "alibi"


@pytest.mark.parametrize("scheme", SCHEMES, ids=IDS)
def test_no_mark_of_markdown_is_left(scheme: Scheme[Any, Any]) -> None:
    made = markdown.html(scheme.description)
    outside = re.sub(r"(?s)<(code|pre)\b.*?</\1>", "", made)
    assert not re.search(r"`|\*\*|\*\w|^- |^\d\. ", outside, re.MULTILINE), outside
    assert set(re.findall(r"<(\w+)", made)) <= {"p", "ul", "ol", "li", "code", "strong", "pre"}


def test_lists_and_code_are_set_apart() -> None:
    text = "One:\n1. `a < b`\n2. **two**,\n   and more\n\n    x & y\n    z"
    assert markdown.html(text) == (
        "<p>One:</p>\n<ol>\n<li><code>a &lt; b</code></li>\n<li><strong>two</strong>, and more</li>\n</ol>\n"
        '<pre tabindex="0">x &amp; y\nz</pre>'
    )


def test_where_a_key_is_wanted_pages_have_no_picture_that_none_could_see() -> None:
    _, entry = new_key("ci")
    with in_process(settings(api_keys=entry)) as client:
        page = text_of(client, "/schemes/rope")
        assert "<img" not in page
        assert explored(page)
    assert "<img" in scheme_page("rope")
