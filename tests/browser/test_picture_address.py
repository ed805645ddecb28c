"""A picture that is opened at its own address, and not as an image of a page."""

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image as Pillow

from tests.browser.watching import Watched, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.tool


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_its_cells_are_seen(browser: "Browser", theme: str) -> None:
    """By itself an SVG is a document with a policy of its own, which its cells must not be kept out by."""
    with watched(Watched, browser, viewport={"width": 1300, "height": 600}) as page:
        page.page.goto(f"{page.base}/v1/encodings/sinusoidal.svg?length=50&dim=128&theme={theme}")
        pixels = np.asarray(Pillow.open(io.BytesIO(page.page.screenshot())).convert("RGB")).astype(int)
        # Lettering, frames and paper have no colour; the cells are half a million pixels, and the most are strong.
        assert (np.ptp(pixels, axis=-1) > 60).sum() > 100_000
        assert page.complaints == []
        assert page.went_outside() == []
