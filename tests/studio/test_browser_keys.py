"""The page by keyboard, in a real Chromium: everything has a name, focus is seen, maps are read with the arrow keys."""

import re

import pytest
from browsing import Studio
from playwright.sync_api import expect

# What a tab shows when it is drawn.
TABS = {
    "Compare": "#viewer canvas",
    "Sparsity": "#sparsity-grids table",
    "λ trajectories": "#lambda-chart svg",
    "Explain": "#explain-run",
    "Intervene": "#intervene-maps canvas",
    "Text": "#text-maps canvas",
}
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


def test_sparsity_is_set_and_read_by_keys_alone(studio: Studio) -> None:
    page = studio.page
    page.get_by_role("tab", name="Sparsity", exact=True).focus()
    page.keyboard.press("Enter")
    strip, note = page.locator("#sparsity-maps"), page.locator("#sparsity-maps .note")
    expect(note).to_contain_text("α = 1.5")
    page.locator("#sparsity-alpha input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    expect(note).to_contain_text("α = 1.55")
    check_map_keys(studio, "#sparsity-maps")
    strip.locator("canvas").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#sparsity-query input, #sparsity-query textarea").first).to_have_value(re.compile(r"\d+, \d+"))


def test_an_explanation_is_asked_for_and_read_by_keys_alone(studio: Studio) -> None:
    page = studio.page
    page.get_by_role("tab", name="Explain", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("#explain-prompts textarea").focus()
    page.keyboard.type("a photo of a rocket")
    page.locator("#explain-run").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#explain-strip .panel")).to_have_count(2)
    check_map_keys(studio, "#explain-strip")


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
