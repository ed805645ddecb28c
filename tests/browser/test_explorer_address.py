"""What the address bar says to the explorer may be anything: it is shown, or what is wrong with it is told."""

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.browser.explorer import Explorer
from tests.browser.watching import watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.tool

BLANK = '<svg xmlns="http://www.w3.org/2000/svg" width="600" height="10"/>'
ADDRESS = "/v1/encodings/sinusoidal?length=4%26dim=8"


# The page takes note of its address a moment later.
GO = """async fragment => {
    window.location.hash = fragment;
    await new Promise(done => setTimeout(done, 20));
    return [document.querySelectorAll(".side").length, document.querySelector("main").textContent];
}"""


@pytest.mark.parametrize(
    ("fragment", "told", "bar"),
    [
        (f"side={ADDRESS}&as=ruby", "There is no code as ruby; there is curl, python, javascript, pytorch.", "as=curl"),
        (f"side={ADDRESS}&as=", "There is no code as nothing;", "as=curl"),
        (f"side={ADDRESS}&as=toString", "There is no code as toString;", "as=curl"),
        (f"side={ADDRESS}%26dim=16", "dim was stated more than once; what is shown has the last, dim=16.", "dim=16"),
        (f"side={ADDRESS}&sied=x", "sied=x in the address of this page is not used.", "dim=8"),
        (f"side={ADDRESS}&side={ADDRESS}&side=/v1/masks/causal", "side=/v1/masks/causal in the address", "dim=8"),
    ],
)
def test_a_mistake_in_the_address_is_told(browser: "Browser", fragment: str, told: str, bar: str) -> None:
    with watched(Explorer, browser) as page:
        page.open(f"#{fragment}")
        assert told in page.side().locator("[role=alert]").inner_text()
        assert "curl -s" in page.side().locator("pre").last.inner_text()
        assert bar in page.bar()
        assert fragment not in page.bar()
        assert page.complaints == []


def test_the_way_past_the_head_of_the_page_leaves_what_is_shown(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open("#side=/v1/masks/causal?length=9")
        shown = page.bar()
        page.page.locator(".skip").focus()
        page.page.keyboard.press("Enter")
        page.page.wait_for_timeout(100)
        assert page.page.evaluate("document.activeElement.id") == "explorer"
        assert page.bar() == f"{shown}&as=curl"
        assert "/v1/masks/causal?length=9" in page.address()


def test_no_address_stops_the_page(browser: "Browser") -> None:
    """Two hundred of them, within twenty seconds; a slower machine tries fewer."""
    drawn = random.Random(7)
    with watched(Explorer, browser) as page:
        page.page.route("**/*.svg?*", lambda route: route.fulfill(content_type="image/svg+xml", body=BLANK))
        page.open()
        end = time.monotonic() + 20
        for _ in range(200):
            fragment = _odd(drawn)
            sides, text = page.page.evaluate(GO, fragment)
            assert sides in (1, 2), fragment
            assert "cannot be" not in text, (fragment, text)
            if time.monotonic() > end:
                break
        page.page.evaluate("hash => { window.location.hash = hash; }", f"#side={ADDRESS}")
        page.side().locator("a.address", has_text="dim=8").wait_for()
        page.shown()
        assert [told for told in page.complaints if "status of 4" not in told] == []
        assert page.went_outside() == []


KEYS = "encodings/sinusoidal apply/rope learned/resample masks/padding learned/lookup apply/rope-axes x"
NAMES = (
    "length dim grid old_grid sections rotary_dim frequencies prefix positions tensor constructor __proto__ offset "
    "keys rope_parameters padding_idx partial_rotary_factor"
)
VALUES = " 0 -1 1e99 9999999999 NaN 4,4 , a % %25 %E0%A4%A 🎈 <b> '\" ? null"  # the first is nothing


def _odd(drawn: random.Random) -> str:
    parts = []
    for _ in range(drawn.randint(1, 3)):
        pairs = [f"{drawn.choice(NAMES.split())}={drawn.choice(VALUES.split(' '))}" for _ in range(drawn.randint(0, 3))]
        side = f"/v1/{drawn.choice(KEYS.split())}?{'%26'.join(pairs)}"
        bodies = ["{}", "[]", "null", '{"tensors":{"q":[[1,2]]}}', "{"]
        names = {
            "side": side,
            "body": drawn.choice(bodies),
            "model": drawn.choice([".", "..", "llama", *VALUES.split(" ")]),
        }
        names |= {
            "advice": drawn.choice(["length=fixed", "x", *VALUES.split(" ")]),
            "as": drawn.choice(["constructor", *VALUES.split(" ")]),
        }
        names |= {"explorer": "", "": ""}
        name = drawn.choice(["side", *names])
        parts.append(f"{name}={names[name]}")
    return "#" + "&".join(parts)
