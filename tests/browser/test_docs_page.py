"""Swagger UI in a real browser whose only network is the server: opened, tried out, without an error."""

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from service.access import new_key
from tests.browser.watching import WAIT_MS, Watched, watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.tool

# Operations whose names do not begin with their family.
FAMILY_OF = {"schemes_get": "catalogue", "advice": "catalogue", "health_live": "operations"}
ONE_OF_EACH_FAMILY = {
    "encodings_rope": "/v1/encodings/rope",
    "encodings_sinusoidal_at": "/v1/encodings/sinusoidal",
    "biases_alibi": "/v1/biases/alibi",
    "masks_padding": "/v1/masks/padding",
    "analyses_decay": "/v1/analyses/decay",
    "permutations_rope": "/v1/permutations/rope",
    "learned_lookup": "/v1/learned/lookup",
    "positions_multimodal": "/v1/positions/multimodal",
    "apply_rope": "/v1/apply/rope",
    "models_resolve": "/v1/models/resolve",
    "schemes_get": "/v1/schemes/rope",
    "advice": "/v1/advice",
    "inference_infer": "/v2/models/encodings.rope/infer",
    "health_live": "/health/live",
}


# On an idle machine an answer of 11 MB kept the page's thread for 20 seconds at a time, and its beginning for less than
# one.
MOST_TASK_MS = 5_000
WATCH_TASKS = """() => {
    window.tasks = [0];
    new PerformanceObserver((seen) => window.tasks.push(...seen.getEntries().map((task) => task.duration)))
        .observe({type: "longtask"});
}"""
# A task is told of after its end: once more around, and all before are.
LONGEST_TASK_MS = (
    "() => new Promise((told) => setTimeout(() => setTimeout(() => told(Math.max(...window.tasks)), 100)))"
)


def family_of(operation: str) -> str:
    return FAMILY_OF.get(operation, operation.split("_", 1)[0])


class Docs(Watched):
    """Swagger UI."""

    def open_docs(self) -> None:
        self.page.goto(f"{self.base}/docs")
        self.page.locator(".opblock-tag").first.wait_for()

    def close_all(self) -> None:
        """Operations, which would be drawn again with their families, and families."""
        for opened in (".opblock.is-open .opblock-summary-control", ".opblock-tag[data-is-open='true'] > button"):
            while self.page.locator(opened).count():
                self.page.locator(opened).first.click()

    def toggle(self, family: str) -> None:
        """Open or close the list of a family's operations."""
        self.page.locator(f".opblock-tag[data-tag='{family}'] button").click()

    def operation(self, name: str) -> "Locator":
        """An operation of a family, which is opened if it is not."""
        family = family_of(name)
        if self.page.locator(f".opblock-tag[data-tag='{family}']").get_attribute("data-is-open") != "true":
            self.toggle(family)
        block = self.page.locator(f"[id='operations-{family}-{name}']")
        block.wait_for()
        return block

    def execute(self, operation: str) -> str:
        """Try an operation out as its form is filled in; the status that the page shows."""
        block = self.operation(operation)
        if "is-open" not in (block.get_attribute("class") or ""):
            block.locator(".opblock-summary-control").click()
        earlier = block.locator("button.btn-clear")
        if earlier.count():  # or its status would be read before the new one is there
            earlier.click()
        block.locator("button.execute").click()
        status: str = block.locator(".live-responses-table .response .response-col_status").first.inner_text()
        return status.strip()


@pytest.fixture(scope="module")
def page(browser: "Browser") -> "Iterator[Docs]":
    """The page, which takes seconds to open, for all who leave it as it was."""
    with watched(Docs, browser) as opened:
        opened.open_docs()
        asked = [urlsplit(url).path for url in opened.requests]
        assert asked == ["/docs", "/web/swagger-ui.css", "/web/swagger-ui-bundle.js", "/web/docs.js", "/openapi.json"]
        assert opened.complaints == []
        yield opened


@pytest.fixture
def docs(page: Docs) -> "Iterator[Docs]":
    """The page, which is left with everything closed; no test has it ask elsewhere, or complain."""
    page.forget()
    yield page
    page.page.set_default_timeout(WAIT_MS)
    page.close_all()
    assert not page.requests or page.went_outside() == []
    # Swagger UI takes the underscores of an operation id in its own links for an old way to write spaces.
    assert [told for told in page.complaints if "escaping deep link whitespace" not in told] == []


@pytest.mark.parametrize(("operation", "path"), ONE_OF_EACH_FAMILY.items(), ids=ONE_OF_EACH_FAMILY)
def test_an_operation_of_each_family_is_tried_out(docs: Docs, operation: str, path: str) -> None:
    assert docs.execute(operation) == "200"
    assert [urlsplit(url).path for url in docs.requests] == [path]


def test_a_picture_shows_inline_and_a_file_downloads(docs: Docs) -> None:
    block = docs.operation("encodings_rope_file")
    block.locator(".opblock-summary-control").click()
    for extension, source in (("png", "blob:"), ("svg", "data:image/svg+xml,")):
        block.locator("tr[data-param-name='extension'] select").select_option(extension)
        block.locator("button.execute").click()
        image = block.locator(f".live-responses-table .response-col_description img[src^='{source}']")
        image.wait_for()
        assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") >= 560, extension
    block.locator("tr[data-param-name='extension'] select").select_option("npy")
    assert docs.execute("encodings_rope_file") == "200"
    download = block.locator(".live-responses-table a[download]")
    download.wait_for()
    assert download.get_attribute("download") == "rope_4x8_float32.npy"
    assert docs.execute("bundle_file") == "200"
    assert docs.operation("bundle_file").locator(".live-responses-table a[download]").count() == 1


def test_a_large_table_does_not_freeze_the_page(docs: Docs) -> None:
    """Its beginning is shown and all of it saved; the page's thread is never away from whoever uses it."""
    block = docs.operation("encodings_sinusoidal")
    block.locator(".opblock-summary-control").click()
    for name, value in (("length", "2000"), ("dim", "512")):
        block.locator(f"tr[data-param-name='{name}'] input").fill(value)
    docs.page.evaluate(WATCH_TASKS)
    assert docs.execute("encodings_sinusoidal") == "200"
    block.locator(".live-responses-table pre", has_text="0.84147").wait_for()
    assert docs.page.evaluate(LONGEST_TASK_MS) < MOST_TASK_MS
    assert len(block.locator(".live-responses-table pre.microlight").first.inner_text()) < 100_000
    with docs.page.expect_download() as download:
        block.locator(".live-responses-table a[download]").click()
    assert download.value.suggested_filename == "sinusoidal.json"
    table = json.loads(download.value.path().read_bytes())["tensors"]["encoding"]
    assert [len(table["data"]), len(table["data"][-1])] == table["shape"] == [2000, 512]


def test_every_operation_is_shown_with_its_parameters(docs: Docs) -> None:
    document = docs.page.request.get(f"{docs.base}/openapi.json").json()
    tags = [operation["tags"][0] for item in document["paths"].values() for operation in item.values()]
    assert docs.page.locator(".opblock-tag").count() == len(set(tags))
    for family in sorted(set(tags)):
        docs.toggle(family)
        docs.page.locator(".opblock").nth(tags.count(family) - 1).wait_for()
        assert docs.page.locator(".opblock").count() == tags.count(family)
        docs.toggle(family)
    docs.page.goto(f"{docs.base}/docs#/encodings/encodings_rope_file")
    docs.page.reload()
    block = docs.page.locator("[id$='-encodings_rope_file']")
    block.locator("tr[data-param-name='rotary_dim']").wait_for()
    assert block.locator("tr[data-param-name='dim'] input").input_value() == "8"
    assert block.locator("tr[data-param-name='dtype'] select").input_value() == "float32"
    assert "pairing=half" in block.locator(".opblock-description").inner_text()


def test_every_heading_stays_in_the_page_however_many_families_are_opened(docs: Docs) -> None:
    """From 150 rows on Swagger UI would keep only those in sight, and a search would miss the others."""
    headings = docs.page.locator(".opblock-tag").count()
    assert headings > 10
    for family in ("encodings", "biases", "masks", "apply", "analyses"):
        docs.toggle(family)
        docs.page.locator(f"[id^='operations-{family}-']").first.wait_for()
        assert docs.page.locator(".opblock-tag").count() == headings
        assert docs.page.locator(".operations-virtual").count() == 0
    opened = docs.page.locator(".opblock-tag[data-is-open='true']")
    assert [each.get_attribute("data-tag") for each in opened.all()] == ["biases", "masks", "analyses", "apply"]
    docs.toggle("masks")
    docs.toggle("encodings")
    opened = docs.page.locator(".opblock-tag[data-is-open='true']")
    assert [each.get_attribute("data-tag") for each in opened.all()] == ["encodings", "analyses", "apply"]


def test_what_an_operation_refers_to_is_shown_in_its_place(docs: Docs) -> None:
    """By our own reader of references: no name of one is left to be seen, and a schema that holds itself ends."""
    block = docs.operation("models_resolve")
    block.locator(".opblock-summary-control").click()
    block.locator("button.execute").wait_for()
    assert "#/components" not in block.inner_text()
    left = docs.page.evaluate("""() => {
        const loop = {components: {schemas: {"a/b": {items: {$ref: "#/components/schemas/a~1b"}}}}, at: {
            $ref: "#/components/schemas/a~1b", title: "own"}};
        return inlined(loop, loop.at);
    }""")
    assert left == {"items": {"$ref": "#/components/schemas/a~1b"}, "title": "own"}


def test_it_works_below_a_path_prefix(browser: "Browser") -> None:
    with watched(Docs, browser, "/prefix") as docs:
        docs.open_docs()
        assert docs.execute("biases_alibi") == "200"
        assert re.search(r":\d+/prefix/v1/biases/alibi\?", docs.requests[-1])
        assert docs.went_outside() == []
        assert docs.complaints == []


def test_a_key_is_given_once_and_sent_with_every_request(browser: "Browser") -> None:
    key, entry = new_key("ci")
    with watched(Docs, browser, api_keys=entry) as docs:
        docs.open_docs()
        assert docs.execute("biases_alibi") == "401"
        docs.page.locator("button.authorize").first.click()
        docs.page.locator(".auth-container input").fill(key)
        docs.page.locator(".auth-btn-wrapper button.authorize").click()
        docs.page.locator(".auth-btn-wrapper button.btn-done").click()
        assert docs.execute("biases_alibi") == "200"
        assert docs.execute("apply_rope") == "200"
        assert not any(key in url for url in docs.requests)
        assert docs.went_outside() == []
        assert all("401" in told for told in docs.complaints)  # the browser's own word on it


def test_it_is_dark_where_the_reader_wants_it(browser: "Browser") -> None:
    lightness = "getComputedStyle(document.documentElement).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number)"
    with watched(Docs, browser, color_scheme="dark") as docs:
        docs.open_docs()
        assert max(docs.page.evaluate(lightness)) < 64
        docs.page.emulate_media(color_scheme="light")
        docs.page.wait_for_function("!document.documentElement.classList.contains('dark-mode')")
        assert docs.complaints == []


def test_the_other_pages_open_without_complaint(browser: "Browser") -> None:
    with watched(Docs, browser) as pages:
        for path in ("/", "/problems", "/problems/not-found"):
            pages.page.goto(pages.base + path)
            assert pages.page.locator("h1").count() == 1
            assert pages.page.evaluate("getComputedStyle(document.body).maxWidth") != "none"
        assert pages.went_outside() == []
        assert pages.complaints == []
