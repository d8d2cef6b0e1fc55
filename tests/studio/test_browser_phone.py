"""A phone shows every tab, nothing wider than its page and nothing to press that is lower than a thumb."""

from collections.abc import Iterator

import pytest
from browsing import Studio, opened
from playwright.sync_api import expect
from watched_browser import WatchedBrowser

DRAWN = {
    "Compare": "#viewer canvas",
    "Sparsity": "#sparsity-grids table",
    "λ trajectories": "#lambda-chart svg",
    "Explain": "#explain-run",
    "Intervene": "#intervene-maps canvas",
    "Text": "#text-maps canvas",
}
LEAST = 32  # pixels
# Names of what can be pressed and is lower, on the tab that is seen.
LOW = """(least) => [...document.querySelectorAll('button, select, summary')].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.height > 1 && box.height < least - 0.5 && each.checkVisibility({ visibilityProperty: true });
}).map((each) => `${each.className} ${each.innerText || each.ariaLabel} ${each.getBoundingClientRect().height}`)"""


@pytest.fixture(scope="module")
def phone(browser: WatchedBrowser, address: str) -> Iterator[Studio]:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    with opened(context, address) as studio:
        yield studio
    context.close()


@pytest.mark.parametrize("tab", DRAWN)
def test_a_tab_fits_a_phone(phone: Studio, tab: str) -> None:
    page = phone.page
    page.get_by_role("tab", name=tab, exact=True).click()
    expect(page.locator(DRAWN[tab]).first).to_be_visible()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390, "the page scrolls sideways"
    # Tables of layers by heads are dense on purpose: what a cell says is told by the row of numbers too.
    low = [each for each in page.evaluate(LOW, LEAST) if not each.startswith("cell")]
    assert low == []
