"""The explorer begins with a model: one that is known by name, or a pasted config.json."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import pytest

from tests.browser.explorer import Explorer, fragment
from tests.browser.watching import watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.tool

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}

# Every kind of address that a plan has, among them each that wants arrays of one's own, with the sizes of real models.
TYPES = """gpt2 bert opt bart vit clip dinov2 wavlm swinv2 deberta-v2 t5 whisper detr qwen2_vl llama4 llama gemma2 sam
musicflamingo reformer mpt vjepa2 xlnet deepseek_v4 esmfold2 pe_video_encoder moonshine"""
# Sizes are in their parameters alone.
LACKING = (
    "/v1/learned/lookup?offset_rule=roberta&padding_idx=1&length=128",
    "/v1/learned/lookup?offset_rule=opt&positions=7,2",
    "/v1/learned/resample?grid=28,14&old_grid=14,7&prefix=1",
    "/v1/learned/resample?grid=9,5",
    "/v1/masks/padding?length=128",
    "/v1/apply/rope?rotary_dim=20",
    "/v1/apply/rope?partial_rotary_factor=0.9",
    "/v1/apply/rope?rope_type=frequencies&frequencies=1,0.5,0.25",
    "/v1/apply/rope-axes?sections=16,24,24&grid=2,30,40",
    "/v1/apply/rope-axes?sections=2,2",
    "/v1/encodings/detr-boxes?dim=128",
)
BLANK = '<svg xmlns="http://www.w3.org/2000/svg" width="600" height="10"/>'


class Beginning(Explorer):
    """The explorer with its part about models open."""

    def open_models(self, fragment: str = "") -> None:
        self.open(fragment)
        if self.page.locator("#models").get_attribute("open") is None:
            self.page.locator("#models summary").click()

    def read(self, text: str) -> None:
        self.page.locator("#model-config").fill(text)
        self.page.get_by_role("button", name="Read the configuration").click()

    def told(self, text: str) -> str:
        status = self.page.locator("#model-status", has_text=text)
        status.wait_for()
        return status.inner_text()


def test_a_pasted_llama_config_is_shown_and_shared(browser: "Browser") -> None:
    with watched(Beginning, browser) as page:
        page.open_models()
        page.read(json.dumps(LLAMA))
        assert page.told("one use of positions") == "llama: one use of positions."
        page.side().locator("a.address", has_text="rope_type=llama3").wait_for()
        page.shown()
        for stated in ("dim=128", "base=500000", "factor=8", "low_freq_factor=1", "arithmetic=float32"):
            assert stated in page.address()
        assert page.field("rope_type").input_value() == "llama3"
        assert "layers 0 to 31" in page.page.locator("#model-plan li").inner_text()
        # The other addresses of the plan: what is of one's own vectors has an example's.
        for button, key in (("mask", "masks/causal"), ("rotation", "apply/rope"), ("tables", "encodings/rope")):
            page.page.get_by_role("button", name=f"Show {button}").click()
            page.side().locator("a.address", has_text=f"/v1/{key}?").wait_for()
            page.shown()
            assert page.page.evaluate("document.activeElement.id") == "a-scheme"
        shared = page.bar()
        other = page.page.context.new_page()
        other.goto(f"{page.base}/{shared}")
        other.locator("a.address", has_text="rope_type=llama3").wait_for()
        assert page.went_outside() == []
        assert page.complaints == []


def test_a_model_is_named_and_the_address_bar_holds_it(browser: "Browser") -> None:
    with watched(Beginning, browser) as page:
        page.open_models()
        page.page.locator("#model-names option[value='gemma-2-9b']").wait_for(state="attached")
        page.page.locator("#model-name").fill("gemma-2-9b")
        page.page.keyboard.press("Enter")
        page.told("gemma-2-9b: 2 uses of positions")
        page.side().locator("a.address", has_text="/v1/encodings/rope?dim=256").wait_for()
        page.shown()
        uses = page.page.locator("#model-plan li").all_inner_texts()
        assert "window 4096 (sliding)" in uses[0]
        assert "21 layers: 0, 2, 4, 6, …" in uses[0]
        assert page.bar().startswith("#model=gemma-2-9b&side=/v1/encodings/rope?")
        other = page.page.context.new_page()
        other.goto(f"{page.base}/{page.bar()}")
        other.locator("#model-plan li").first.wait_for()
        assert other.locator("#model-name").input_value() == "gemma-2-9b"
        assert page.complaints == []


def test_what_is_no_model_shows_the_services_own_words(browser: "Browser") -> None:
    with watched(Beginning, browser) as page:
        page.open_models()
        page.page.get_by_role("button", name="Show the model").click()
        page.told("Name a model first")
        page.page.locator("#model-name").fill("llama-3.1-8q")
        page.page.get_by_role("button", name="Show the model").click()
        page.told("is no known model; nearest are")
        page.read('{"model_type": "llamma"}')
        page.told("llamma")
        page.read(json.dumps({**LLAMA, "rope_scaling": {"rope_type": "llama3", "factr": 8.0}}))
        page.told("factr")
        page.read("{")
        page.told("JSON")
        page.read("")
        page.told("body")
        assert page.page.locator("#model-plan li").count() == 0
        # The side shows what it showed before.
        assert "sinusoidal" in page.address()
        assert all("status of 4" in each for each in page.complaints)


def test_every_button_of_a_plan_shows_what_it_says(browser: "Browser") -> None:
    """What needs arrays is asked for with arrays of fitting sizes, and a link to it shows the same."""
    with watched(Beginning, browser) as page:
        page.page.route("**/*.svg?*", lambda route: route.fulfill(content_type="image/svg+xml", body=BLANK))
        page.open_models()
        seen: set[str] = set()
        for name in TYPES.split():
            page.page.locator("#model-name").fill(name)
            page.page.keyboard.press("Enter")
            page.told(f"{name}: ")
            first = page.page.locator("#model-plan button").first.inner_text()
            assert first.split("(")[1].startswith(("encodings/", "biases/", "learned/factorised")), name
            for number, what, key in _pressed(json.loads(page.get(f"/v1/models/{name}")), seen):
                use = page.page.locator("#model-plan > li").nth(number)
                use.get_by_role("button", name=f"Show {what} ({key})").click()
                page.side().locator("pre", has_text=f"/v1/{key}?").first.wait_for()
                page.side().locator("table caption").or_(page.side().locator(".status.refused")).first.wait_for()
                told = page.side().locator(".status").inner_text()
                assert page.side().locator(".status.refused").count() == 0, (name, key, told)
        assert page.complaints == []


def _pressed(plan: dict[str, Any], seen: set[str]) -> Iterator[tuple[int, str, str]]:
    """Which use, what of it and the scheme: of addresses of GET that state the same, one is enough."""
    for number, use in enumerate(plan["uses"]):
        for what, address in use["addresses"].items():
            path, _, query = address["href"].partition("?")
            stated = "&".join(dict(parse_qsl(query))) if address["method"] == "GET" else query
            if f"{path}?{stated}" not in seen:
                seen.add(f"{path}?{stated}")
                yield number, what, path.removeprefix("/v1/")


def test_an_address_that_lacks_its_arrays_is_shown_with_such_as_fit(browser: "Browser") -> None:
    with watched(Beginning, browser) as page:
        page.page.route("**/*.svg?*", lambda route: route.fulfill(content_type="image/svg+xml", body=BLANK))
        page.open()
        for address in LACKING:
            page.page.evaluate("hash => { window.location.hash = hash; }", fragment(address))
            page.page.locator("[id='a-body']").wait_for(state="attached")
            page.side().locator("table caption").or_(page.side().locator(".status.refused")).first.wait_for()
            assert page.side().locator(".status.refused").count() == 0, address
            assert page.rows(), address
        assert page.complaints == []


def test_nothing_of_another_scheme_stays_where_the_next_is_refused(browser: "Browser") -> None:
    with watched(Beginning, browser) as page:
        page.open()
        page.page.evaluate("hash => { window.location.hash = hash; }", fragment("/v1/encodings/rope?length=8&dim=7"))
        page.side().locator(".status.refused").wait_for()
        assert page.side().locator("tbody tr").count() == 0
        assert page.side().locator(".picture img").get_attribute("src") is None
        page.field("dim").fill("8")
        page.shown()
        # Of the same scheme the last that was right stays, faint: the numbers as much as the picture.
        page.field("dim").fill("9")
        page.side().locator(".status.refused").wait_for()
        faint = "each => getComputedStyle(each).opacity"
        for part in (".picture img", "table"):
            assert float(page.side().locator(part).evaluate(faint)) < 0.5
        assert page.side().locator(".picture img").get_attribute("alt") == (
            "Rotary position embedding: cos and sin tables, before what is refused"
        )
        page.field("scheme").select_option("biases/alibi")
        page.side().locator("caption", has_text="bias").wait_for()
        page.shown()
        assert float(page.side().locator("table").evaluate(faint)) == 1
