"""The explorer as its tests handle it."""

import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

from tests.browser.watching import Watched

if TYPE_CHECKING:
    from playwright.sync_api import Locator


class Explorer(Watched):
    """The page at `/`."""

    key = ""  # of a server that wants one

    def open(self, fragment: str = "") -> "Locator":
        self.page.goto(f"{self.base}/{fragment}")
        if self.key:
            self.give_key(self.key)
        self.shown()
        return self.side()

    def give_key(self, key: str) -> None:
        form = self.page.locator("form.key")
        form.locator("input").fill(key)
        form.locator("button").click()

    def side(self, number: int = 0) -> "Locator":
        return self.page.locator(".side").nth(number)

    def shown(self, number: int = 0) -> None:
        """Wait until the side's picture is that of what its form says."""
        self.side(number).locator(".picture:not(.waiting) img").wait_for()

    def field(self, name: str, number: int = 0) -> "Locator":
        return self.side(number).locator(f"[id='{'ab'[number]}-{name}']")

    def fill(self, name: str, value: str, number: int = 0) -> None:
        """Change a field and wait until the answer to it was asked for and shown."""
        with self.page.expect_response(lambda reply: f"{name}={value}" in reply.url and ".svg?" in reply.url):
            field = self.field(name, number)
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        self.shown(number)

    def pictured(self, number: int = 0) -> str:
        """Path and query of the picture that is seen."""
        image = self.side(number).locator(".picture img")
        assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") >= 340
        parts = urlsplit(str(image.get_attribute("src")))
        return f"{parts.path}?{parts.query}"

    def address(self, number: int = 0) -> str:
        return self.side(number).locator("a.address").inner_text()

    def rows(self, number: int = 0) -> list[list[str]]:
        cells: list[list[str]] = (
            self.side(number)
            .locator("tbody tr")
            .evaluate_all("rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))")
        )
        return cells

    def bar(self) -> str:
        """The fragment in the address bar."""
        return str(self.page.evaluate("window.location.hash"))

    def code(self, language: str) -> str:
        """The code that the copy button puts onto the clipboard."""
        self.side().locator("[id='a-language']").select_option(language)
        self.side().locator(".copy button").click()
        self.side().locator(".status", has_text="Copied.").wait_for()
        return str(self.page.evaluate("navigator.clipboard.readText()"))

    def get(self, target: str, body: str = "") -> bytes:
        request = urllib.request.Request(
            self.base + target,
            data=body.encode() or None,
            headers=({"Content-Type": "application/json"} if body else {})
            | ({"Authorization": f"Bearer {self.key}"} if self.key else {}),
        )
        with urllib.request.urlopen(request) as reply:
            data: bytes = reply.read()
        return data


def same_query(one: str, other: str) -> bool:
    return sorted(parse_qsl(urlsplit(one).query)) == sorted(parse_qsl(urlsplit(other).query))


def fragment(address: str, body: str = "") -> str:
    """What the address bar holds where one side shows a request."""
    return f"#side={quote(address)}" + (f"&body={quote(body)}" if body else "")
