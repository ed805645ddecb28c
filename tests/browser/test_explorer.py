"""The explorer in a real browser: parameters changed, schemes compared, addresses shared, code copied and run."""

import hashlib
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pytest

from service.access import new_key
from tests.browser.watching import Watched, watched
from tests.tools import program

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.tool

CLASSIC = "/v1/encodings/sinusoidal?length=50&dim=128"


class Explorer(Watched):
    """The page at `/`."""

    def open(self, fragment: str = "") -> "Locator":
        self.page.goto(f"{self.base}/{fragment}")
        self.shown()
        return self.side()

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
        assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") >= 560
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

    def get(self, target: str) -> bytes:
        with urllib.request.urlopen(self.base + target) as reply:
            data: bytes = reply.read()
        return data


def same_query(one: str, other: str) -> bool:
    return sorted(parse_qsl(urlsplit(one).query)) == sorted(parse_qsl(urlsplit(other).query))


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
        # A field that is hidden opens where the fault is.
        page.fill("dim", "32")
        assert page.side().locator(".fault").count() == 0
        page.side().locator("summary").click()
        page.field("partial_rotary_factor").fill("nonsense")
        page.side().locator(".fault").wait_for()
        assert "partial_rotary_factor" in page.side().locator(".fault").inner_text()
        refusals = [url for status, url in page.answers if status == 422]
        assert len(refusals) == 2
        # The browser itself notes every answer that is no success; nothing else is noted.
        assert len(page.complaints) == 2
        assert all("status of 422" in each for each in page.complaints)


@pytest.mark.parametrize(
    "side",
    [
        "/v1/encodings/rope?length=7&dim=12&base=500000",
        "/v1/encodings/sinusoidal?length=5&dim=6&dtype=bfloat16",
        "/v1/encodings/sinusoidal?length=5&dim=7&dtype=float16",
        "/v1/biases/t5-buckets?queries=3&keys=5",
        "/v1/masks/causal?length=5",
        "/v1/analyses/precision?length=40&dim=8",
    ],
    ids=lambda side: side.split("?")[0].rpartition("/")[2] + side.partition("dtype=")[2],
)
def test_copied_code_gives_the_same_bytes(browser: "Browser", tmp_path: Path, side: str) -> None:
    fragment = "#side=" + side.replace("&", "%26").replace("?", "%3F")
    with watched(Explorer, browser, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.open(fragment)
        names = _names(page)
        due = [hashlib.sha256(page.get(_raw(page.address(), name, len(names)))).hexdigest() for name in names]
        copied = page.code("python")
        shown = "".join(f"print(hashlib.sha256({name}.tobytes()).hexdigest())\n" for name in names)
        assert _run([sys.executable, "-c", f"import hashlib\n{copied}\n{shown}"], tmp_path) == due
        copied = page.code("javascript")
        hashed = "".join(
            f"console.log(createHash('sha256').update(Buffer.from({name}.buffer)).digest('hex'));\n" for name in names
        )
        (tmp_path / "copied.mjs").write_text(f"import {{ createHash }} from 'node:crypto';\n{copied}\n{hashed}")
        assert _run([program("node"), "copied.mjs"], tmp_path) == due
        copied = page.code("curl")
        _run(["bash", "-euc", copied], tmp_path)
        file = re.fullmatch(r"curl -s '(.*)' -o (\S+)", copied)
        assert file is not None
        assert (tmp_path / file[2]).read_bytes() == page.get(file[1].removeprefix(page.base))
        # torch is not here: what it would run is compiled, and its address is that of the answer.
        copied = page.code("pytorch")
        compile(copied, "copied", "exec")
        assert f'urlopen("{page.base}' in copied
        assert ".safetensors?" in copied
        assert page.complaints == []


def _names(page: Explorer) -> list[str]:
    """The tensors of the answer, as the picture's description lists them."""
    told = str(page.side().locator(".picture img").get_attribute("alt")).partition(" as a heatmap: ")[2]
    return [each.split(",")[0] for each in told.split("; ")]


def _raw(address: str, name: str, count: int) -> str:
    path, _, query = address.partition("?")
    return f"{path}.bin?{query}" + (f"&tensor={name}" if count > 1 else "")


def _run(command: list[str], folder: Path) -> list[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_every_scheme_can_be_looked_at(browser: "Browser") -> None:
    with watched(Explorer, browser) as page:
        page.open()
        options = page.field("scheme").locator("option").evaluate_all("all => all.map(each => each.value)")
        assert len(options) > 40
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
        for _ in range(3):
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


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_nothing_is_in_the_way_of_assistive_technology(
    browser: "Browser", colours: str, width: int, height: int
) -> None:
    """axe-core finds nothing; nothing is wider than the screen; the picture has the theme of the page."""
    path = os.environ.get("AXE_CORE", "")
    if not path and not os.environ.get("CI_REQUIRE"):
        pytest.skip("AXE_CORE does not say where axe.min.js is")
    with watched(Explorer, browser, viewport={"width": width, "height": height}, color_scheme=colours) as page:
        page.open("#side=/v1/encodings/rope?length=16%26dim=32&side=/v1/biases/alibi?heads=4%26length=16")
        page.shown(1)
        assert ("theme=dark" in page.pictured()) == (colours == "dark")
        found = page.page.evaluate(f"{Path(path).read_text()};axe.run()")
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
        assert found["passes"]
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
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
        page.page.evaluate("window.location.hash = '#side=/v1/encodings/nothing?x=1'")
        page.shown()
        assert page.address().startswith("/v1/encodings/sinusoidal?")
        assert page.went_outside() == []
        assert page.complaints == []


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
        form.locator("input").fill("wrong")
        form.locator("button").click()
        page.page.locator("form.key", has_text="does not know").wait_for()
        form.locator("input").fill(key)
        form.locator("button").click()
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
