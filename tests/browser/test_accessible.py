"""Every page, and the explorer in its states, as assistive technology has them: large and small, light and dark."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.explorer import Explorer, fragment
from tests.browser.watching import watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.tool

PAGES = ["/schemes", "/schemes/rope", "/schemes/alibi", "/conventions", "/problems", "/problems/overloaded"]
COMPARED = "#side=/v1/encodings/rope?length=16%26dim=32&side=/v1/biases/alibi?heads=4%26length=16"
OWN_DATA = fragment("/v1/apply/rope", '{"tensors": {"q": [1, 2]}}')
MODEL = "#model=gemma-2-9b&side=/v1/masks/sliding?length=16%26window=4&as=pytorch"
ADVICE = "#advice=length=fixed%26priority=fit&side=/v1/masks/sliding?length=16%26window=4"
REFUSED = fragment("/v1/encodings/rope?length=4&dim=7")
on_every_screen = pytest.mark.parametrize(
    ("colours", "width", "height"),
    [(colours, *size) for colours in ("light", "dark") for size in ((1280, 900), (390, 844))],
)


@pytest.fixture
def axe() -> str:
    path = os.environ.get("AXE_CORE", "")
    if not path and not os.environ.get("CI_REQUIRE"):
        pytest.skip("AXE_CORE does not say where axe.min.js is")
    return Path(path).read_text()


def nothing_in_the_way(page: Explorer, axe: str, width: int) -> None:
    """axe-core finds nothing, and nothing is wider than the screen."""
    # Of what is as it should be, one place for each rule is told: listing them all takes longer than looking.
    found = page.page.evaluate(f"{axe};axe.run({{resultTypes: ['violations']}})")
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
    assert found["passes"]
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width


@on_every_screen
def test_nothing_is_in_the_way_in_the_explorer(
    browser: "Browser", axe: str, colours: str, width: int, height: int
) -> None:
    with watched(Explorer, browser, viewport={"width": width, "height": height}, color_scheme=colours) as page:
        page.open(COMPARED)
        page.shown(1)
        assert ("theme=dark" in page.pictured()) == (colours == "dark")
        nothing_in_the_way(page, axe, width)
        waited_for = {OWN_DATA: ".picture:not(.waiting) img", MODEL: "#model-plan li", ADVICE: "#advised li"}
        for shown, seen in waited_for.items():
            page.page.goto("about:blank")
            page.page.goto(f"{page.base}/{shown}")
            page.page.locator(seen).first.wait_for()
            page.shown()
            nothing_in_the_way(page, axe, width)
        assert page.complaints == []
        page.page.goto("about:blank")
        page.page.goto(f"{page.base}/{REFUSED}")
        page.side().locator(".fault").wait_for()
        page.side().locator("form summary").click()
        nothing_in_the_way(page, axe, width)


@on_every_screen
def test_nothing_is_in_the_way_on_the_other_pages(
    browser: "Browser", axe: str, colours: str, width: int, height: int
) -> None:
    with watched(Explorer, browser, viewport={"width": width, "height": height}, color_scheme=colours) as page:
        for path in PAGES:
            page.page.goto(page.base + path)
            nothing_in_the_way(page, axe, width)
        assert page.went_outside() == []
        assert page.complaints == []
