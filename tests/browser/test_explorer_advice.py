"""The explorer's advice: needs are stated, schemes are ranked with reasons, and one is a step from being shown."""

import json
from typing import TYPE_CHECKING

import pytest

from service.access import new_key
from tests.browser.explorer import Explorer
from tests.browser.watching import watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.tool


class Advised(Explorer):
    """The explorer with its part about needs open."""

    def open_needs(self) -> None:
        self.page.locator("#advice > summary").click()

    def need(self, name: str, value: str) -> None:
        """State a need, and wait for what is advised."""
        with self.page.expect_response(lambda reply: "/v1/advice?" in reply.url):
            field = self.page.locator(f"[id='need-{name}']")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
                field.press("Tab")
        self.page.wait_for_function("document.getElementById('advice-status').textContent")

    def names(self) -> list[str]:
        return self.page.locator("#advised > li strong").all_inner_texts()


def test_needs_are_stated_and_what_is_advised_is_shown(browser: "Browser") -> None:
    with watched(Advised, browser) as page:
        page.open()
        page.open_needs()
        page.need("priority", "simplest")
        assert page.names()[0] == "Sinusoidal"
        page.need("priority", "general")
        assert page.names()[0] == "RoPE"
        page.need("trained_length", "4096")
        page.need("target_length", "16384")
        assert page.names()[0] == "RoPE with scaling (YaRN)"
        best = page.page.locator("#advised > li").first
        told = json.loads(page.get("/v1/advice?trained_length=4096&target_length=16384"))
        (reason,) = [each for each in told["advice"][0]["reasons"] if each["need"] == "beyond training"]
        assert reason["because"] in best.inner_text()
        assert f"{reason['property']}: {reason['says']}" in best.inner_text()
        assert [each["name"] for each in told["ruled_out"]] == page.page.locator(
            "#ruled-out li strong"
        ).all_text_contents()
        with page.page.expect_response(lambda reply: ".svg?" in reply.url and "yarn" in reply.url):
            best.get_by_role("button").click()
        page.shown()
        assert "rope_type=yarn" in page.address()
        assert "factor=4.0" in page.address()
        assert "advice=trained_length" in page.bar()
        shared = page.bar()
        page.page.goto("about:blank")
        page.page.goto(f"{page.base}/{shared}")
        page.page.locator("#advised > li").first.wait_for()
        assert page.names()[0] == "RoPE with scaling (YaRN)"
        assert page.page.locator("[id='need-target_length']").input_value() == "16384"
        assert page.went_outside() == []
        assert page.complaints == []


def test_needs_that_contradict_show_the_services_own_words(browser: "Browser") -> None:
    with watched(Advised, browser) as page:
        page.open()
        page.open_needs()
        page.need("target_length", "9")
        fault = page.page.locator("[id='need-trained_length-fault']")
        assert "trained_length is missing" in fault.inner_text()
        assert page.names() == []
        page.need("trained_length", "9")
        assert page.names()
        assert fault.count() == 0


def test_links_are_followed_with_the_key(browser: "Browser") -> None:
    key, entry = new_key("ci")
    with watched(Advised, browser, api_keys=entry) as page:
        page.key = key
        page.open()
        with page.page.expect_download() as saved:
            page.page.locator("footer a", has_text="rope.npy").click()
        assert saved.value.suggested_filename == "rope_4096x128_float32.npy"
        assert saved.value.path().read_bytes()[:6] == b"\x93NUMPY"
        page.page.locator("footer a", has_text="sinusoidal").click()
        page.page.wait_for_url("blob:**")
        assert '"scheme":"sinusoidal"' in page.page.content().replace(" ", "")
        assert not any(key in url for url in page.requests)
