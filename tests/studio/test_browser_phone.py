"""A phone shows every tab, nothing wider than its page and nothing to press that is lower than a thumb."""

from collections.abc import Iterator

import pytest
from browsing import TABS, Studio, opened
from playwright.sync_api import expect
from watched_browser import WatchedBrowser

LEAST = 32  # pixels
# Names of what can be pressed and is lower, on the tab that is seen.
LOW = """(least) => [...document.querySelectorAll('button, select, summary')].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.height > 1 && box.height < least - 0.5 && each.checkVisibility({ visibilityProperty: true });
}).map((each) => `${each.className} ${each.innerText || each.ariaLabel} ${each.getBoundingClientRect().height}`)"""

# Numbers that find no room in their cell.
OVER = """() => [...document.querySelectorAll('.facts td')].filter((each) =>
  each.checkVisibility() && each.scrollWidth > each.clientWidth + 1).map((each) => each.innerText)"""


@pytest.fixture(scope="module")
def phone(browser: WatchedBrowser, address: str) -> Iterator[Studio]:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    with opened(context, address) as studio:
        yield studio
    context.close()


@pytest.mark.parametrize("tab", TABS)
def test_a_tab_fits_a_phone(phone: Studio, tab: str) -> None:
    page = phone.page
    page.get_by_role("tab", name=tab, exact=True).click()
    expect(page.locator(TABS[tab]).first).to_be_visible()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390, "the page scrolls sideways"
    # Tables of layers by heads are dense on purpose: what a cell says is told by the row of numbers too.
    low = [each for each in page.evaluate(LOW, LEAST) if not each.startswith("cell")]
    assert low == []
    assert page.evaluate(OVER) == [], "numbers lie over what stands beside them"


@pytest.mark.parametrize("height", [640, 900])
def test_what_is_looked_at_can_be_scrolled_to_on_a_low_window(studio: Studio, height: int) -> None:
    page, side = studio.page, studio.page.locator(".studio-looked-at")
    page.set_viewport_size({"width": 1280, "height": height})
    page.get_by_role("button", name="Bring a model").click()
    expect(page.locator("#bring-left")).to_be_visible()
    assert side.evaluate("(node) => node.scrollWidth <= node.clientWidth"), "parts stand in a second column"
    page.locator("#bring-left").scroll_into_view_if_needed()
    box = page.locator("#bring-left").bounding_box()
    assert box is not None
    assert 0 <= box["y"] <= height - box["height"]
