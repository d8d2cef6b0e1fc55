"""Every tab and every result can be read and pressed: on a phone and on a desk, on dark and in light."""

from collections.abc import Callable, Iterator

import pytest
from browsing import TABS, Studio, opened, set_value
from legible import beyond, faint, overlapping
from playwright.sync_api import expect
from watched_browser import WatchedBrowser

LEAST = 32  # pixels
# Names of what can be pressed and is lower, on the tab that is seen.
LOW = """(least) => [...document.querySelectorAll('button, select, summary')].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.height > 1 && box.height < least - 0.5 && each.checkVisibility({ visibilityProperty: true });
}).map((each) => `${each.className} ${each.innerText || each.ariaLabel} ${each.getBoundingClientRect().height}`)"""

# Whether every chart is as wide as its place, which it is a moment after that has changed.
FITTED = """() => [...document.querySelectorAll('.js-plotly-plot')].filter((each) => each.checkVisibility())
  .every((each) => Math.abs(each.querySelector('.main-svg').getBoundingClientRect().width - each.clientWidth) < 2)"""
LIGHT = """async () => {
  document.body.classList.remove('dark');
  const moving = document.getAnimations().filter((each) => each instanceof CSSTransition);
  await Promise.all(moving.map((each) => each.finished.catch(() => null))); }"""

# Numbers that find no room in their cell.
OVER = """() => [...document.querySelectorAll('.facts td')].filter((each) =>
  each.checkVisibility() && each.scrollWidth > each.clientWidth + 1).map((each) => each.innerText)"""


# Single words of a table's rows that stand on several lines, and what of a table lies beyond an edge.
BROKEN = """() => [...document.querySelectorAll('#sparsity-answers tbody th')].filter((each) => {
  const range = document.createRange();
  range.selectNodeContents(each);
  return !/\\s/.test(each.innerText.trim()) && range.getClientRects().length > 1;
}).map((each) => each.innerText)"""
HIDDEN = "() => [...document.querySelectorAll('.ex-scroll')].map((each) => each.scrollWidth - each.clientWidth)"


@pytest.fixture(scope="module")
def phone(browser: WatchedBrowser, address: str) -> Iterator[Studio]:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    with opened(context, f"{address}?__theme=dark") as studio:
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


def test_two_panels_stand_side_by_side_on_a_phone(phone: Studio) -> None:
    phone.page.get_by_role("tab", name="Compare", exact=True).click()
    first, second = (phone.viewer.locator(".panel").nth(panel).bounding_box() for panel in (0, 1))
    assert first is not None
    assert second is not None
    assert second["x"] > first["x"]
    assert second["y"] == first["y"]


def test_a_long_name_of_a_map_leaves_the_head_its_room_on_a_phone(phone: Studio) -> None:
    phone.page.get_by_role("tab", name="Compare", exact=True).click()
    slot = phone.viewer.locator(".panel").nth(1).locator("select.slot")
    room = slot.evaluate("(each) => each.clientWidth")
    phone.choose(1, "kind", "value")
    expect(slot).to_have_value("mean")
    assert slot.evaluate("(each) => each.clientWidth") == room
    phone.choose(1, "kind", "a1")


def relevance(phone: Studio) -> None:
    phone.choose(1, "kind", "relevance")
    expect(phone.viewer.locator(".relevance-note")).to_contain_text("“")
    phone.wait_numbers()


def sweep_of_alpha(phone: Studio) -> None:
    phone.page.locator("#sparsity-sweep").click()
    expect(phone.page.locator("#sparsity-figure .js-plotly-plot")).to_be_visible()


def answers(phone: Studio) -> None:
    phone.page.locator("#sparsity-mode").get_by_label("intervention", exact=True).check()
    expect(phone.page.locator("#sparsity-answers tbody th").first).to_be_visible()
    assert phone.page.evaluate(BROKEN) == []
    phone.page.locator("#sparsity-mode").get_by_label("readout", exact=True).check()


def overview(phone: Studio) -> None:
    phone.viewer.locator(".overview-toggle").click()
    expect(phone.viewer.locator(".cells").first).to_be_visible()


def segmentation(phone: Studio) -> None:
    for rule in ("top-k", "random keys", "matched entropy", "identity"):
        phone.page.locator("#sparsity-rules").get_by_label(rule, exact=True).uncheck()
    phone.page.locator("#sparsity-segment").click()
    expect(phone.page.locator("#sparsity-segments-right .panel")).to_have_count(3)


def explanation(phone: Studio) -> None:
    phone.page.locator("#explain-run").click()
    expect(phone.page.locator("#explain-status")).to_contain_text("passes in")


def duel(phone: Studio) -> None:
    phone.page.locator("#duel-points input[type=range]").press("Home")
    phone.page.locator("#duel-run").click()
    expect(phone.page.locator("#duel-status")).to_contain_text("passes in")
    expect(phone.page.locator("#duel-insertion .js-plotly-plot")).to_be_visible()
    assert phone.page.evaluate(HIDDEN) == [0], "the verdict of the duel lies beyond the edge"


def intervention(phone: Studio) -> None:
    set_value(phone.page.locator("#bench-right .global"), 0)
    expect(phone.page.locator("#intervene-outcome .oc-card").nth(1)).to_contain_text("λ = 0.00 in all layers")


def sweep_of_lambda(phone: Studio) -> None:
    phone.page.locator("#sweep-run").click()
    for what in ("classes", "inside"):
        expect(phone.page.locator(f"#sweep-right-{what} .js-plotly-plot")).to_be_visible()


def trajectories(phone: Studio) -> None:
    expect(phone.page.locator("#lambda-chart section tbody td").first).to_be_visible()


def text(phone: Studio) -> None:
    expect(phone.page.locator("#text-maps canvas").first).to_be_visible()


PRESSED: dict[str, tuple[str, Callable[[Studio], None]]] = {
    "overview": ("Compare", overview),
    "relevance": ("Compare", relevance),
    "answers": ("Sparsity", answers),
    "sweep of α": ("Sparsity", sweep_of_alpha),
    "segmentation": ("Sparsity", segmentation),
    "explanation": ("Explain", explanation),
    "duel": ("Explain", duel),
    "intervention": ("Intervene", intervention),
    "sweep of λ": ("Intervene", sweep_of_lambda),
    "trajectories": ("λ trajectories", trajectories),
    "text": ("Text", text),
}
WIDTHS = (1440, 390)  # the phone's last, so that the next test finds it so


@pytest.mark.parametrize("result", PRESSED)
def test_a_result_can_be_read_on_a_phone_and_on_a_desk_on_dark_and_in_light(phone: Studio, result: str) -> None:
    page, (tab, press) = phone.page, PRESSED[result]
    page.get_by_role("tab", name=tab, exact=True).click()
    press(phone)
    assert page.evaluate("document.body.classList.contains('dark')")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_function(FITTED)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
        assert beyond(page) == []
        assert overlapping(page) == []
        assert faint(page) == []
    page.evaluate(LIGHT)
    try:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert faint(page) == []
    finally:
        page.evaluate("document.body.classList.add('dark')")


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
