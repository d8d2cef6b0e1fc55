"""The page on dark, in a real Chromium: whatever a tab says, results too, stands out from the ground it is on."""

from collections.abc import Iterator

import pytest
from browsing import TABS, Studio, opened
from playwright.sync_api import BrowserContext, expect

# Texts of a tab whose colour has less than 4.5 to 1 (3 to 1 for large ones and in charts) against their ground, by the
# formula of WCAG 2. What is faded or lies on a picture is left out: its ground is no colour of the page.
LOW = """() => {
  const brush = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  // Any colour that CSS can write, as channels from 0 to 255 and its share of cover.
  const parse = (text) => {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = text;
    brush.fillRect(0, 0, 1, 1);
    const [red, green, blue, cover] = brush.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, cover / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const light = (colour) => colour.map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const groundOf = (node) => {
    const layers = [];
    for (let up = node; up; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (style.opacity !== '1' || style.backgroundImage !== 'none') return null;
      layers.push(parse(style.backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const low = [], walker = document.createTreeWalker(document.getElementById('studio-tabs'), NodeFilter.SHOW_TEXT);
  let count = 0;
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (node.closest('option, script, style, :disabled') || !node.getClientRects().length) continue;
    const style = getComputedStyle(node), ground = groundOf(node);
    if (!ground) continue;
    count += 1;
    const svg = node.namespaceURI.endsWith('svg');
    const own = light(over(parse(svg ? style.fill : style.color), ground)), below = light(ground);
    const ratio = (Math.max(own, below) + 0.05) / (Math.min(own, below) + 0.05);
    const least = svg || parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    if (ratio < least) low.push(`${text.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return { low, count };
}"""
# What is pressed so that a tab shows results, and what then holds them.
RESULTS = {
    "Compare": (".overview-toggle", "#viewer .cells"),
    "Sparsity": ("", "#sparsity-grids table"),
    "λ trajectories": ("", "#lambda-chart section tbody td"),
    "Explain": ("#explain-run", "#explain-strip .facts, #explain-words li"),
    "Intervene": ("", "#intervene-outcome .oc-card"),
    "Text": ("", "#text-maps canvas"),
}


@pytest.fixture(scope="module")
def dark(context: BrowserContext, address: str) -> Iterator[Studio]:
    with opened(context, f"{address}?__theme=dark") as studio:
        yield studio


@pytest.mark.parametrize("tab", TABS)
def test_results_can_be_read_on_dark(dark: Studio, tab: str) -> None:
    page = dark.page
    assert page.evaluate("document.body.classList.contains('dark')")
    page.get_by_role("tab", name=tab, exact=True).click()
    press, shown = RESULTS[tab]
    if press:
        page.locator(press).first.click()
    expect(page.locator(shown).first).to_be_visible()
    found = page.evaluate(LOW)
    assert found["count"] > 30
    assert found["low"] == []
