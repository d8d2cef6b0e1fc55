"""The page by keyboard, in a real Chromium: everything has a name, focus is seen, maps are read with the arrow keys."""

import math
import re

import pytest
from browsing import TABS, Studio, drawn_pixels
from PIL import Image
from playwright.sync_api import expect

from studio.examples import load_examples
from studio.tour import STOPS

SIZE = Image.open(load_examples()[0].picture).size

# Gives what has no name for screen readers, where no ring comes with the focus, and where the ring is cut away.
LOOK = """async () => {
  const seen = (node) => node.offsetParent !== null && node.getBoundingClientRect().width > 0
    && getComputedStyle(node).visibility !== 'hidden';
  const textOf = (id) => document.getElementById(id)?.textContent ?? '';
  const nameOf = (node) => [
    node.getAttribute('aria-label'), node.title, ...[...(node.labels ?? [])].map((label) => label.innerText),
    ...(node.getAttribute('aria-labelledby') ?? '').split(' ').map(textOf),
    ['BUTTON', 'SUMMARY'].includes(node.tagName) ? node.innerText : '',
  ].join(' ').trim();
  const around = (node) => {
    const found = new Set([node]);
    for (let up = node.parentElement, far = 0; up && far < 3; up = up.parentElement, far += 1)
      [up, ...[...up.children].slice(0, 6)].forEach((each) => found.add(each));
    return [...found];
  };
  const ringOf = (node) => {
    const style = getComputedStyle(node), wide = parseFloat(style.outlineWidth);
    if (style.outlineStyle === 'none' || wide < 2 || style.opacity === '0') return '';
    return [wide + parseFloat(style.outlineOffset), wide, style.outlineColor].join(' ');
  };
  // A box that scrolls along an axis is brought to what has the focus, but shows nothing beyond its own edge.
  const whole = (node) => {
    const reach = parseFloat(ringOf(node)) - 0.5;
    const { left, top, right, bottom } = node.getBoundingClientRect();
    for (let up = node.parentElement; up !== document.body; up = up.parentElement) {
      const style = getComputedStyle(up), box = up.getBoundingClientRect();
      const across = style.overflowX !== 'visible' && up.scrollWidth <= up.clientWidth;
      const down = style.overflowY !== 'visible' && up.scrollHeight <= up.clientHeight;
      if (across && (left - reach < box.left || right + reach > box.right)) return false;
      if (down && (top - reach < box.top || bottom + reach > box.bottom)) return false;
    }
    return true;
  };
  const settled = () => Promise.all(document.getAnimations().filter((each) => each instanceof CSSTransition)
    .map((each) => each.finished.catch(() => null)));
  const nameless = [], unseen = [], cut = [];
  let count = 0;
  for (const node of document.querySelectorAll('input, select, textarea, button, summary, [tabindex="0"]')) {
    if (!seen(node) || node.disabled || node.tabIndex < 0) continue;
    count += 1;
    const what = `${node.tagName} in #${node.closest('[id]')?.id}: ${nameOf(node).slice(0, 40)}`;
    if (!nameOf(node)) nameless.push(what);
    const near = around(node), before = near.map(ringOf);
    node.focus({ focusVisible: true });
    await settled();
    const rings = near.filter((each, at) => ringOf(each) && ringOf(each) !== before[at]);
    if (!rings.length) unseen.push(what);
    else if (!rings.some(whole)) cut.push(what);
    node.blur();
    await settled();
  }
  return { nameless, unseen, cut, count };
}"""


@pytest.mark.parametrize("tab", TABS)
def test_every_control_has_a_name_and_shows_the_focus(shared_studio: Studio, tab: str) -> None:
    page = shared_studio.page
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("tab", name=tab, exact=True).click()
    expect(page.locator(TABS[tab]).first).to_be_visible()
    found = page.evaluate(LOOK)
    assert found["count"] > 20
    assert found["nameless"] == []
    assert found["unseen"] == []
    assert found["cut"] == []


def test_sparsity_is_set_and_read_by_keys_alone(shared_studio: Studio) -> None:
    page = shared_studio.page
    page.get_by_role("tab", name="Sparsity", exact=True).focus()
    page.keyboard.press("Enter")
    strip, note = page.locator("#sparsity-maps"), page.locator("#sparsity-maps .note")
    expect(note).to_contain_text("α = 1.5")
    page.locator("#sparsity-alpha input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    expect(note).to_contain_text("α = 1.55")
    check_map_keys(shared_studio, "#sparsity-maps")
    canvas, line = strip.locator("canvas").first, strip.locator(".line")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    first = canvas.element_handle()
    page.keyboard.press("Enter")
    query = page.locator("#sparsity-query input, #sparsity-query textarea").first
    expect(query).to_have_value(re.compile(r"\d+, \d+"))
    row, col = map(int, query.input_value().split(","))
    # Maps of another query are read on where the crosshair was.
    page.wait_for_function("(first) => !first.isConnected", arg=first)
    expect(canvas).to_be_focused()
    expect(line).to_contain_text(f"Row {row}, column {col} of ")
    page.keyboard.press("ArrowRight")
    expect(line).to_contain_text(f"Row {row}, column {col + 1} of ")


def test_an_explanation_is_asked_for_and_read_by_keys_alone(shared_studio: Studio) -> None:
    page = shared_studio.page
    page.get_by_role("tab", name="Explain", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("#explain-prompts textarea").focus()
    page.keyboard.type("a photo of a rocket")
    page.locator("#explain-run").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#explain-strip .panel")).to_have_count(2)
    check_map_keys(shared_studio, "#explain-strip")


def test_the_tour_is_opened_read_and_closed_by_keys_alone(shared_studio: Studio) -> None:
    page, stops = shared_studio.page, shared_studio.page.locator("#tour .tour li")
    opener = page.locator("#tour").get_by_role("button")
    expect(stops.first).to_be_hidden()
    opener.focus()
    page.keyboard.press("Enter")
    expect(stops).to_have_count(len(STOPS))
    for stop, at in zip(STOPS, stops.all(), strict=True):
        at.scroll_into_view_if_needed()
        expect(at.get_by_role("heading")).to_have_text(stop.title)
        for text in (stop.text, stop.attempt):
            expect(at.get_by_text(text)).to_be_in_viewport(ratio=0.99)
    page.keyboard.press("Control+Home")
    expect(opener).to_be_focused()
    page.keyboard.press("Space")
    expect(stops.first).to_be_hidden()
    expect(opener).to_be_focused()


def test_a_mask_is_painted_erased_and_cleared_by_keys_alone(shared_studio: Studio) -> None:
    page, painter = shared_studio.page, shared_studio.page.locator("#sparsity-painter")
    canvas, said = painter.locator("canvas"), painter.locator(".said")

    def marked() -> float:
        """How much is said to be marked, in hundredths of the picture."""
        expect(said).to_contain_text("of the picture is marked")
        return float(said.inner_text().split()[0])

    page.get_by_role("tab", name="Sparsity", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("#sparsity-mask-part").get_by_role("button").first.focus()
    page.keyboard.press("Enter")
    page.locator("#sparsity-paint").focus()
    page.keyboard.press("Enter")
    expect(canvas).to_be_visible()
    bare = drawn_pixels(canvas)
    painter.locator(".size").focus()
    page.keyboard.press("Tab")
    expect(painter.locator(".erase")).to_be_focused()
    ground = "(input) => getComputedStyle(input).backgroundColor"
    empty = painter.locator(".erase").evaluate(ground)
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(canvas).to_be_focused()
    assert (drawn_pixels(canvas) != bare).any(), "the brush is seen before the first press"
    page.keyboard.press("Space")
    one = marked()
    # The brush, a tenth of the shorter side in radius, is first in the middle.
    assert one == pytest.approx(100 * math.pi * 0.1**2 * min(SIZE) / max(SIZE), rel=0.1)
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert marked() == pytest.approx(2 * one, abs=0.2)
    page.keyboard.press("e")
    expect(painter.locator(".erase")).to_be_checked()
    # A white tick is seen on a colour alone; the page draws the colour a moment after the tick.
    expect(painter.locator(".erase")).not_to_have_css("background-color", empty)
    page.keyboard.press("Space")
    assert marked() == pytest.approx(one, abs=0.2)
    page.keyboard.press("e")
    expect(painter.locator(".erase")).not_to_be_checked()
    page.locator("#sparsity-show").focus()
    page.keyboard.press("Enter")
    note = page.locator("#sparsity-maps .note")
    expect(note).to_contain_text("measured against the painted mask.")
    canvas.focus()
    page.keyboard.press("Delete")
    expect(said).to_have_text("Nothing is marked yet.")
    page.locator("#sparsity-show").focus()
    page.keyboard.press("Enter")
    expect(note).to_contain_text("measured against the scene's own mask.")


def test_the_focus_stays_where_it_was_when_panels_are_made_again(studio: Studio) -> None:
    page, viewer = studio.page, studio.viewer
    panels = viewer.locator(".panel")
    model = panels.nth(1).locator(".model")
    model.focus()
    page.keyboard.press("ArrowDown")
    expect(viewer.locator(".stage")).not_to_have_attribute("aria-busy", "true")
    studio.wait_numbers()
    expect(model).to_be_focused()
    panels.nth(3).locator(".remove").focus()
    page.keyboard.press("Enter")
    expect(panels.nth(2).locator(".remove")).to_be_focused()
    page.keyboard.press("Enter")
    expect(panels.nth(1).locator(".model")).to_be_focused()


def test_escape_returns_to_cls_whatever_has_the_focus(studio: Studio) -> None:
    page = studio.page
    for control in ("input.layer", ".scale input:checked", ".add, .swipe-toggle"):
        studio.click(0, 0.5, 0.5)
        page.wait_for_url(re.compile("query="))
        studio.viewer.locator(control).last.focus()
        page.keyboard.press("Escape")
        page.wait_for_url(lambda url: "query=" not in url)


def test_the_swipe_brings_its_divider_into_sight_with_the_focus(studio: Studio) -> None:
    page = studio.page
    studio.viewer.locator(".swipe-toggle").focus()
    page.keyboard.press("Enter")
    divider = studio.viewer.locator(".divider")
    expect(divider).to_be_focused()
    expect(divider).to_be_in_viewport()


def test_the_focus_stays_on_a_figure_that_is_taken_away_and_on_a_match_that_is_shown(studio: Studio) -> None:
    page, viewer = studio.page, studio.viewer
    viewer.locator(".take").focus()
    with page.expect_download():
        page.keyboard.press("Enter")
    expect(viewer.locator(".take")).to_be_focused()
    viewer.locator(".overview-toggle").focus()
    page.keyboard.press("Enter")
    match = viewer.locator(".match").nth(1)
    expect(match).to_be_visible()
    head = re.match(r"Show head (\d+) ", match.get_attribute("title") or "")
    assert head is not None
    match.focus()
    page.keyboard.press("Enter")
    expect(viewer.locator(".panel").first.locator(".slot")).to_have_value(head[1])
    studio.wait_numbers()
    expect(match).to_be_focused()


def test_a_list_of_choices_does_not_stay_over_the_page_when_tab_leaves_it(shared_studio: Studio) -> None:
    page = shared_studio.page
    page.get_by_role("tab", name="Explain", exact=True).click()
    choices = page.locator("ul[role=listbox]:visible")
    page.locator("#explain-method input").focus()
    expect(choices).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.locator("#explain-part input").first).to_be_focused()
    expect(choices).to_have_count(0)
    page.wait_for_timeout(300)  # in which the field ends what it does when it is left
    page.keyboard.press("Shift+Tab")
    expect(choices.get_by_role("option")).to_have_count(6)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#explain-method input")).to_have_value("Integrated Gradients")
    expect(choices).to_have_count(0)


def test_a_run_is_hidden_and_shown_again_by_keys_without_losing_the_focus(shared_studio: Studio) -> None:
    page, chart = shared_studio.page, shared_studio.page.locator("#lambda-chart")
    page.get_by_role("tab", name="λ trajectories", exact=True).click()
    run = chart.locator(".runs button").first
    expect(chart.locator("section").first).to_be_visible()
    run.focus()
    page.keyboard.press("Enter")
    expect(chart.locator("section")).to_have_count(0)
    expect(run).to_be_focused()
    page.keyboard.press("Enter")
    expect(chart.locator("section").first).to_be_visible()
    expect(run).to_be_focused()


def test_edits_are_made_and_taken_back_by_keys_without_losing_the_focus(shared_studio: Studio) -> None:
    page, bench = shared_studio.page, shared_studio.page.locator("#bench-right")
    page.get_by_role("tab", name="Intervene", exact=True).click()
    tower = bench.locator(".towers input:checked")
    tower.focus()
    page.keyboard.press("ArrowRight")
    expect(tower).to_have_value("text")
    expect(tower).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(tower).to_have_value("vision")
    for button, then in ((".learned", bench.locator(".global")), (".reset", tower)):
        bench.locator(".global").focus()
        page.keyboard.press("ArrowRight")
        expect(bench.locator(button)).to_be_enabled()
        bench.locator(button).focus()
        page.keyboard.press("Enter")
        expect(bench.locator(button)).to_be_disabled()
        expect(then).to_be_focused()


def check_map_keys(studio: Studio, strip: str) -> None:
    """Arrow keys read a place on all maps, in a line that screen readers are told; Escape lets go of it."""
    page, line = studio.page, studio.page.locator(f"{strip} .line")
    expect(line).to_have_attribute("role", "status")
    page.locator(f"{strip} .frame canvas").first.focus()
    page.keyboard.press("ArrowRight")
    expect(line).to_have_text(re.compile(r"^Row \d+, column \d+ of "))
    before = line.inner_text()
    page.keyboard.press("ArrowDown")
    expect(line).not_to_have_text(before)
    page.keyboard.press("Escape")
    expect(line).to_have_text("")
