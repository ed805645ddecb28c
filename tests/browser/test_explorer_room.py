"""Where things are in the explorer: what is looked at and what is typed into are on one screen."""

from typing import TYPE_CHECKING

import pytest

from tests.browser.explorer import Explorer
from tests.browser.watching import watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.tool

LOW = """() => [...document.querySelectorAll("a[href], button, select, input, summary")]
    .filter(each => each.checkVisibility() && !each.matches("p:not(.buttons) > a, dd a, li p a, .skip"))
    .filter(each => each.getBoundingClientRect().height < 24).map(each => each.outerHTML.slice(0, 90))"""


def edges(found: "Locator") -> dict[str, float]:
    """Where something is on the screen, in pixels."""
    where = found.bounding_box()
    assert where is not None
    x, y, width = where["x"], where["y"], where["width"]
    return {"x": x, "y": y, "width": width, "bottom": y + where["height"], "right": x + width}


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (375, 812)])
def test_the_picture_and_the_first_parameters_are_on_the_first_screen(
    browser: "Browser", width: int, height: int
) -> None:
    with watched(Explorer, browser, viewport={"width": width, "height": height}) as page:
        page.open()
        image = edges(page.side().locator(".picture img"))
        assert image["y"] > 0
        assert image["bottom"] <= height
        assert edges(page.field("dim"))["bottom"] <= height
        # It is as large as there is room for, and stays in sight while the form is scrolled.
        assert image["width"] >= (900 if width > 1000 else 300)
        page.page.evaluate("window.scrollTo(0, 300)")
        image = edges(page.side().locator(".picture img"))
        assert 0 <= image["y"] < image["bottom"] <= height
        assert page.complaints == []


def test_compared_pictures_begin_at_one_height_and_use_all_of_the_window(browser: "Browser") -> None:
    with watched(Explorer, browser, viewport={"width": 1920, "height": 900}) as page:
        page.open("#side=/v1/encodings/sinusoidal?length=50%26dim=128&side=/v1/biases/alibi?heads=8%26length=50")
        page.shown(1)
        for part in (".picture", ".controls", ".explanation", ".told"):
            one, other = (edges(page.side(number).locator(part)) for number in (0, 1))
            assert one["y"] == other["y"], part
            assert other["x"] > one["right"], part
        assert edges(page.side())["x"] < 40
        assert edges(page.side(1))["right"] > 1880
        page.page.set_viewport_size({"width": 800, "height": 900})
        one, other = (edges(page.side(number).locator(".picture")) for number in (0, 1))
        assert other["y"] > one["bottom"]
        assert page.complaints == []


def test_a_second_scheme_takes_the_sizes_of_the_first(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open("#side=/v1/encodings/sinusoidal?length=50%26dim=128")
        page.page.locator("#compare").click()
        page.shown(1)
        for scheme, sizes in {
            "encodings/rope": "dim=128&length=50",
            "analyses/decay": "dim=128&length=50",
            "biases/alibi": "length=50",
        }.items():
            page.field("scheme", 1).select_option(scheme)
            page.shown(1)
            assert set(sizes.split("&")) <= set(page.address(1).partition("?")[2].split("&")), scheme
        page.fill("heads", "6", 1)
        page.field("scheme").select_option("biases/t5")
        page.shown()
        assert {"heads=6", "length=50"} <= set(page.address().partition("?")[2].split("&"))
        assert page.complaints == []


def test_what_is_pressed_on_a_phone_is_large_enough(browser: "Browser") -> None:
    """24 pixels high, as WCAG 2.2 has it, where it does not stand within a sentence."""
    with watched(Explorer, browser, viewport={"width": 375, "height": 812}) as page:
        page.open("#model=gemma-2-9b&advice=priority=fit")
        page.page.locator("#advised li").first.wait_for()
        page.page.locator("#model-plan li").first.wait_for()
        assert page.page.evaluate(LOW) == []
        for path in ("schemes", "conventions", "problems", "schemes/rope"):
            page.page.goto(f"{page.base}/{path}")
            assert page.page.evaluate(LOW) == [], path
