"""The explorer in a real browser: parameters changed, schemes compared, own data brought, addresses shared."""

import json
import os
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pytest

from service.access import new_key
from service.engine import SCHEMES
from tests.browser.explorer import Explorer, fragment, same_query
from tests.browser.watching import watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.tool

CLASSIC = "/v1/encodings/sinusoidal?length=50&dim=128"


def test_the_picture_and_the_rows_follow_what_is_typed(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open()
        assert same_query(page.address(), f"{CLASSIC}&revision=1")
        assert page.rows()[1][:3] == ["0.841471", "0.5403023", "0.7617204"]
        before = page.pictured()
        page.fill("length", "31")
        assert "length=31" in page.address()
        assert page.pictured() != before
        assert page.pictured().startswith("/v1/encodings/sinusoidal.svg?")
        page.fill("layout", "sin-cos")
        assert page.rows()[0] == ["0"] * 8 + ["…"]
        assert "layout=sin-cos" in page.bar()
        assert "31 by 128, float32" in str(page.side().locator(".picture img").get_attribute("alt"))
        # What is shown is what the service answers at that address.
        table = page.get(page.address().replace("sinusoidal?", "sinusoidal.csv?")).decode().splitlines()
        assert [f"{float(value):.5f}" for value in table[2].split(",")[:8]] == [
            f"{float(value):.5f}" for value in page.rows()[1][:8]
        ]
        assert page.went_outside() == []
        assert page.complaints == []


def test_typing_quickly_asks_once_and_drops_what_is_older(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open()
        page.requests.clear()
        with page.page.expect_response(lambda reply: "length=4321&" in reply.url and ".svg?" in reply.url):
            page.field("length").fill("")
            page.field("length").press_sequentially("4321", delay=5)
        page.shown()
        lengths = [dict(parse_qsl(urlsplit(url).query)).get("length") for url in page.requests]
        assert set(lengths) <= {"43", "432", "4321", "4", None}
        assert lengths.count("4321") == 2  # the first rows, and the picture
        assert "length=4321" in page.pictured()
        assert page.complaints == []


def test_two_schemes_are_compared_and_the_address_is_shared(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open()
        page.page.locator("#compare").click()
        page.shown(1)
        assert page.page.locator("#compare").get_attribute("aria-pressed") == "true"
        assert same_query(page.address(1), f"{CLASSIC}&revision=1")  # of the same sizes
        page.field("scheme", 1).select_option("biases/alibi")
        page.shown(1)
        page.fill("heads", "12", 1)
        page.fill("dim", "96")
        assert page.pictured(1).startswith("/v1/biases/alibi.svg?")
        addresses = [page.address(0), page.address(1)]
        pictures = [page.pictured(0), page.pictured(1)]
        shared = page.bar()
        other = page.page.context.new_page()
        other.goto(f"{page.base}/{shared}")
        for number in (0, 1):
            side = other.locator(".side").nth(number)
            side.locator(".picture:not(.waiting) img").wait_for()
            assert side.locator("a.address").inner_text() == addresses[number]
            assert str(side.locator(".picture img").get_attribute("src")).endswith(pictures[number])
        page.page.locator("#compare").click()
        assert page.page.locator(".side").count() == 1
        assert "alibi" not in page.bar()
        assert page.complaints == []


def test_an_invalid_value_shows_the_services_own_words(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open("#side=/v1/encodings/rope?length=8%26dim=64")
        seen = page.pictured()
        code, copy = page.side().locator("pre").last, page.side().locator(".copy button")
        assert "dim=64" in code.inner_text()
        page.field("dim").fill("7")
        fault = page.side().locator(".field .fault")
        fault.wait_for()
        told = "dim makes the rotated width 7; channels turn in pairs, so it must be even and at least 2"
        assert fault.inner_text() == told
        assert page.field("dim").get_attribute("aria-invalid") == "true"
        described = str(page.field("dim").get_attribute("aria-describedby")).split()
        assert page.page.locator(f"[id='{described[0]}']").inner_text() == told
        assert told in page.side().locator("[role=status]").inner_text()
        assert page.pictured() == seen
        # The address is that of what is refused, and there is no code of another to be copied.
        assert "dim=7&" in page.address()
        assert code.inner_text() == "There is no code for what is refused."
        assert copy.is_disabled()
        # A field that is hidden opens where the fault is.
        page.fill("dim", "32")
        assert page.side().locator(".fault").count() == 0
        assert "dim=32" in code.inner_text()
        assert copy.is_enabled()
        page.side().locator("form summary").click()
        page.field("partial_rotary_factor").fill("nonsense")
        page.side().locator(".fault").wait_for()
        assert "partial_rotary_factor" in page.side().locator(".fault").inner_text()
        refusals = [url for status, url in page.answers if status == 422]
        assert len(refusals) == 2
        # The browser itself notes every answer that is no success; nothing else is noted.
        assert len(page.complaints) == 2
        assert all("status of 422" in each for each in page.complaints)


def test_what_would_be_too_large_is_told_at_the_size_that_makes_it_so(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open("#side=/v1/encodings/rope?length=8%26dim=64")
        page.field("length").fill("9999999998")
        page.side().locator(".field .fault", has_text="the limit is").wait_for()
        assert page.field("length").get_attribute("aria-invalid") == "true"
        assert page.field("dim").get_attribute("aria-invalid") is None
        assert page.field("body").get_attribute("aria-invalid") == "false"
        page.fill("length", "16")
        assert page.side().locator(".fault").count() == 0


def test_what_an_address_has_too_much_can_be_taken_out(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.page.goto(f"{page.base}/#side=/v1/encodings/sinusoidal?dim=8%26length=4%26foo=1")
        page.side().locator(".fault", has_text="foo is not a parameter").wait_for()
        page.side().get_by_role("button", name="Take foo out").click()
        page.shown()
        assert same_query(page.address(), "/v1/encodings/sinusoidal?length=4&dim=8&revision=1")
        assert "foo" not in page.bar()
        assert page.page.evaluate("document.activeElement.id") == "a-dim"
        assert page.side().locator(".fault, .status.refused").count() == 0


def test_every_scheme_can_be_looked_at(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open()
        options = page.field("scheme").locator("option").evaluate_all("all => all.map(each => each.value)")
        assert options == [f"{family}/{name}" for family, name in (scheme.key for scheme in SCHEMES)]
        for value in options:
            page.field("scheme").select_option(value)
            page.shown()
            assert page.side().locator(".status.refused").count() == 0, value
            assert page.rows(), value
        assert page.went_outside() == []
        assert page.complaints == []


def test_it_works_with_the_keyboard_alone(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open()
        page.page.keyboard.press("Tab")
        assert page.page.evaluate("document.activeElement.className") == "skip"
        page.page.keyboard.press("Enter")
        for _ in range(4):
            page.page.keyboard.press("Tab")
            if page.page.evaluate("document.activeElement.id") == "a-scheme":
                break
        assert page.page.evaluate("document.activeElement.id") == "a-scheme"
        with page.page.expect_response(lambda reply: ".svg?" in reply.url):
            page.page.keyboard.press("ArrowDown")
        page.shown()
        # The form is made anew for another scheme; the focus stays where it was.
        assert page.page.evaluate("document.activeElement.id") == "a-scheme"
        assert page.complaints == []


def test_own_data_is_sent_shown_and_shared(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open()
        page.field("scheme").select_option("apply/sinusoidal")
        page.shown()
        # What needs data begins with an example's.
        assert json.loads(page.field("body").input_value())["tensors"]["x"]
        body = '{"tensors": {"x": [[0.5, 0.5], [1.0, 2.0]]}}'
        with page.page.expect_response(lambda reply: ".svg?" in reply.url and reply.request.method == "POST"):
            page.field("body").fill(body)
        page.side().locator("tbody tr:nth-child(2) td", has_text="1.841471").wait_for()
        page.shown()
        assert page.rows() == [["0.5", "1.5"], ["1.841471", "2.540302"]]
        assert page.side().locator(".picture img").evaluate("image => image.src").startswith("blob:")
        assert page.side().locator("pre", has_text="POST /v1/apply/sinusoidal?").count() == 1
        # Nothing that a GET cannot answer is a link.
        assert page.side().locator("a.address").get_attribute("href") is None
        other = page.page.context.new_page()
        other.goto(f"{page.base}/{page.bar()}")
        other.locator(".picture:not(.waiting) img").wait_for()
        assert other.locator("[id='a-body']").input_value() == body
        assert other.locator("tbody td").all_inner_texts()[2:] == ["1.841471", "2.540302"]
        assert page.went_outside() == []
        assert page.complaints == []


def test_data_that_does_not_fit_shows_the_services_own_words(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open(fragment("/v1/masks/padding", '{"tensors": {"attention_mask": [1, 0]}}'))
        assert page.rows()[0] == ["true", "false"]
        for body, told in (('{"tensors": {"x": [1]}}', "x is not"), ('{"tensors"', "JSON"), ("", "attention_mask")):
            page.field("body").fill(body)
            page.side().locator(".status.refused", has_text=told).wait_for()
            assert page.field("body").get_attribute("aria-invalid") == "true"
        long = json.dumps({"tensors": {"attention_mask": [1] * 900}})
        page.field("body").fill(long)
        page.side().locator(".status:not(.refused)", has_text="too long for the address").wait_for()
        assert page.field("body").get_attribute("aria-invalid") == "false"
        assert "body=" not in page.bar()
        assert all("status of 4" in each for each in page.complaints)


def test_an_example_is_chosen_and_a_pasted_block_of_an_address_is_kept(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open(fragment("/v1/encodings/rope?length=4&dim=8"))
        examples = next(scheme for scheme in SCHEMES if scheme.key == ("encodings", "rope")).examples
        for example in examples:
            page.field("example").select_option(label=example.title)
            page.shown()
            asked = dict(parse_qsl(urlsplit(page.address()).query))
            assert asked == {**example.query, "revision": "1"}
            assert bool(page.field("body").input_value()) == (example.body is not None)
            assert page.page.evaluate("document.activeElement.id") == "a-example"
        block = '{"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}'
        pasted = fragment(f"/v1/encodings/rope?length=4&dim=8&rope_parameters={block}")
        page.page.evaluate("hash => { window.location.hash = hash; }", pasted)
        page.side().locator("a.address", has_text="rope_parameters=").wait_for()
        page.shown()
        assert page.field("rope_parameters").input_value() == block
        assert page.rows()[1][0] == "0.8775826"  # cos(1/2)
        assert page.complaints == []


def test_it_works_below_a_path_prefix_and_after_the_back_button(browser: "Browser") -> None:
    with watched(Explorer, browser, "/prefix") as page:
        page.open()
        assert page.pictured().startswith("/prefix/v1/encodings/sinusoidal.svg?")
        page.page.evaluate("window.location.hash = '#side=/v1/masks/causal?length=9'")
        page.side().locator("a.address", has_text="causal").wait_for()
        page.shown()
        page.page.go_back()
        page.side().locator("a.address", has_text="sinusoidal").wait_for()
        # A mistake in an address is told, and the bar says what is shown instead.
        for mistaken in ("/v1/encodings/nothing", "/v2/models"):
            page.page.evaluate(f"window.location.hash = '#side={mistaken}?x=1'")
            page.side().locator("[role=alert]", has_text=f"There is no scheme at {mistaken},").wait_for()
            page.shown()
            assert page.address().startswith("/v1/encodings/sinusoidal?")
            assert page.bar().startswith("#side=/v1/encodings/sinusoidal?")
        page.field("scheme").select_option("biases/alibi")
        page.side().locator("caption", has_text="First rows of bias at head 0: 8 x 64 x 64").wait_for()
        page.shown()
        assert page.side().locator("[role=alert]").count() == 0
        # The browser's way back leads to the scheme before, and not out of the page.
        page.page.go_back()
        page.side().locator("a.address", has_text="sinusoidal").wait_for()
        page.shown()
        assert page.bar().startswith("#side=/v1/encodings/sinusoidal?")
        assert page.went_outside() == []
        assert page.complaints == []


def test_all_of_a_picture_is_seen_on_a_phone_and_its_letters_are_read(browser: "Browser") -> None:
    with watched(
        Explorer, browser, viewport={"width": 375, "height": 812}, permissions=["clipboard-read", "clipboard-write"]
    ) as page:
        page.open("#side=/v1/biases/alibi?heads=8%26length=48")
        region, image = page.side().locator(".picture"), page.side().locator(".picture img")
        assert region.evaluate("region => region.scrollWidth <= region.clientWidth")
        assert "picture_width=narrow" in page.pictured()
        # A narrow picture's letters have 12 pixels at its own size; the address is not that of the picture.
        assert image.evaluate("image => 12 * image.clientWidth / image.naturalWidth") >= 11
        assert "picture_width" not in page.address() + page.bar() + page.code("curl")
        size = page.side().get_by_role("button", name="Full size")
        size.click()
        assert size.get_attribute("aria-pressed") == "true"
        page.shown()
        assert "picture_width" not in page.pictured()
        assert image.evaluate("image => image.clientWidth === image.naturalWidth")
        assert region.evaluate("region => region.scrollWidth > region.clientWidth")
        # The page itself never scrolls sideways.
        assert page.page.evaluate("document.documentElement.scrollWidth") == 375
        size.click()
        page.shown()
        assert "picture_width=narrow" in page.pictured()
        assert region.evaluate("region => region.scrollWidth <= region.clientWidth")
        page.page.set_viewport_size({"width": 1700, "height": 900})
        size.wait_for(state="hidden")
        page.shown()
        assert "picture_width" not in page.pictured()
        assert page.complaints == []


def test_a_picture_of_what_a_body_holds_fits_the_screen_too(browser: "Browser") -> None:
    with watched(Explorer, browser, viewport={"width": 1280, "height": 812}) as page:
        page.open(fragment("/v1/apply/rope", '{"tensors": {"q": [[1, 2], [3, 4]]}}'))
        asked = [url for url in page.requests if ".svg?" in url]
        assert len(asked) == 1
        page.page.set_viewport_size({"width": 375, "height": 812})
        page.side().locator(".picture:not(.waiting) img.narrow").wait_for()
        page.page.set_viewport_size({"width": 1280, "height": 812})
        page.side().locator(".picture:not(.waiting) img:not(.narrow)").wait_for()
        asked = [url for url in page.requests if ".svg?" in url]
        assert ["picture_width=narrow" in url for url in asked] == [False, True, False]
        # The service is gone when the screen is turned: the picture that is there stays, and that is said.
        page.page.context.set_offline(True)
        page.page.set_viewport_size({"width": 375, "height": 812})
        page.side().locator(".status", has_text="There is no picture at the moment").wait_for()
        assert page.side().locator(".picture.waiting").count() == 0


def test_a_picture_that_does_not_come_is_asked_for_until_it_does(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.page.clock.install()
        page.open()
        page.page.route("**/*.svg?*", lambda route: route.fulfill(status=503, body="busy"))
        page.field("length").fill("9")
        told = page.side().locator(".status", has_text="There is no picture at the moment")
        for _ in range(60):
            page.page.clock.run_for(1000)
            if told.count():
                break
        told.wait_for()
        page.page.unroute("**/*.svg?*")
        for _ in range(60):
            page.page.clock.run_for(5000)
            if not page.side().locator(".picture.waiting").count():
                break
        page.shown()
        assert "length=9" in page.pictured()
        assert told.count() == 0
        assert all("status of 503" in each for each in page.complaints)


def test_a_server_that_is_gone_is_told(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open()
        page.page.context.set_offline(True)
        page.field("length").fill("9")
        page.side().locator(".status.refused", has_text="The service cannot be reached").wait_for()
        page.page.context.set_offline(False)
        page.fill("length", "8")
        assert page.side().locator(".status.refused").count() == 0


def test_a_server_that_wants_a_key_is_explored_with_one(browser: "Browser") -> None:
    """The page asks for it and leaves it nowhere: not in an address, nor in the code, nor in what a browser keeps."""
    key, entry = new_key("ci")
    allowed = ["clipboard-read", "clipboard-write"]
    with watched(Explorer, browser, api_keys=entry, permissions=allowed) as page:
        page.page.goto(f"{page.base}/")
        form = page.page.locator("form.key")
        form.wait_for()
        assert "wants an API key" in form.inner_text()
        page.give_key("wrong")
        page.page.locator("form.key", has_text="does not know").wait_for()
        page.give_key(key)
        page.shown()
        assert page.rows()[1][:3] == ["0.841471", "0.5403023", "0.7617204"]
        image = page.side().locator(".picture img")
        assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") >= 560
        assert str(image.get_attribute("src")).startswith("blob:")
        page.fill("length", "31")
        assert "31 by 128" in str(image.get_attribute("alt"))
        assert form.count() == 0
        for language in ("curl", "python", "javascript", "pytorch"):
            code = page.code(language)
            assert "POSENC_API_KEY" in code
            assert key not in code
        page.page.locator("#models summary").click()
        page.page.locator("#model-name").fill("gemma-2-9b")
        page.page.keyboard.press("Enter")
        page.page.locator("#model-status", has_text="gemma-2-9b: 2 uses of positions").wait_for()
        page.field("scheme").select_option("apply/sinusoidal")
        page.side().locator("caption", has_text="First rows of x:").wait_for()
        page.shown()
        page.field("scheme").select_option("encodings/sinusoidal")
        page.side().locator("caption", has_text="First rows of encoding:").wait_for()
        page.shown()
        assert key not in page.page.url + page.page.content()
        assert page.page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
        assert not any(key in url for url in page.requests)
        assert page.went_outside() == []
        assert all("401" in told for told in page.complaints)  # the browser's own word on it
        command = page.code("curl").replace("-o sinusoidal.npy", "-o -")
        done = subprocess.run(
            ["bash", "-c", command], env=os.environ | {"POSENC_API_KEY": key}, capture_output=True, check=True
        )
        assert done.stdout[:6] == b"\x93NUMPY"
