"""Whether what a page says can be read: texts that stand out from their ground, and lie beside and not over each other.

What is found is a list of texts with what is wrong, so that a failing test says where to look.
"""

from typing import Any

from playwright.sync_api import Page

# Texts whose colour has less than 4.5 to 1 (3 to 1 for large ones and in charts) against their ground, by the formula
# of WCAG 2. What is faded or lies on a picture is left out: its ground is no colour of the page.
_FAINT = """() => {
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

# Texts that are seen, each with the boxes of its lines and a name. A box ends where what holds it ends: beyond the edge
# of what scrolls or is cut there is nothing to be seen. Bubbles that lie over the page on purpose are left out.
_SEEN = """
const boxOf = (box) => ({ left: box.left, top: box.top, right: box.right, bottom: box.bottom });
const cutBy = (box, node) => {
  for (let up = node; up && up !== document.documentElement; up = up.parentElement) {
    const style = getComputedStyle(up), edge = up.getBoundingClientRect();
    if (style.overflowX !== 'visible') {
      box.left = Math.max(box.left, edge.left); box.right = Math.min(box.right, edge.right);
    }
    if (style.overflowY !== 'visible') {
      box.top = Math.max(box.top, edge.top); box.bottom = Math.min(box.bottom, edge.bottom);
    }
  }
  return box;
};
const floats = (node) => {
  for (let up = node; up; up = up.parentElement)
    if (up.matches('.tip, [role=tooltip], [role=listbox], .hoverlayer, .modebar')) return true;
  return false;
};
const seenTexts = () => {
  const found = [], walker = document.createTreeWalker(document.getElementById('studio-tabs'), NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || node.closest('option, script, style') || floats(node)) continue;
    if (!node.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const whole = [...range.getClientRects()].map(boxOf);
    const boxes = whole.map((box) => cutBy({ ...box }, node))
      .filter(({ left, top, right, bottom }) => right - left > 1 && bottom - top > 1);
    if (boxes.length) found.push({ node, boxes, whole, said: text.data.trim().slice(0, 40) });
  }
  return found;
};
"""

# Pairs of texts of which one lies over the other by more than two pixels both ways.
_OVER = (
    "() => {"
    + _SEEN
    + """
  const boxes = seenTexts().flatMap(({ node, boxes, said }) => boxes.map((box) => ({ node, box, said })));
  boxes.sort((one, other) => one.box.top - other.box.top);
  const found = [];
  boxes.forEach((one, at) => {
    for (let next = at + 1; next < boxes.length && boxes[next].box.top < one.box.bottom - 2; next += 1) {
      const other = boxes[next];
      if (one.node === other.node) continue;
      const wide = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const high = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (wide > 2 && high > 2) found.push(`“${one.said}” and “${other.said}”`);
    }
  });
  return found;
}"""
)

# What is seen beyond the sides of the window, and texts that end at an edge behind which nobody can scroll.
_BEYOND = (
    "() => {"
    + _SEEN
    + """
  const scrolls = (node) => {
    for (let up = node; up; up = up.parentElement)
      if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX) && up.scrollWidth > up.clientWidth) return true;
    return false;
  };
  const wide = document.documentElement.clientWidth, found = [];
  const parts = '#studio-tabs :is(canvas, svg, img, button, input, select, textarea, table)';
  for (const each of document.querySelectorAll(parts)) {
    const box = each.getBoundingClientRect();
    if (box.width < 2 || !each.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if ((box.right > wide + 1 || box.left < -1) && !scrolls(each) && !floats(each))
      found.push(`${each.tagName} ${each.id || each.className} reaches from ${box.left} to ${box.right}`);
  }
  for (const { node, whole, said } of seenTexts()) {
    if (scrolls(node) || getComputedStyle(node).textOverflow === 'ellipsis') continue;
    for (const box of whole) {
      const kept = cutBy({ ...box }, node);
      const lost = Math.max(kept.left - box.left, box.right - kept.right, box.right - wide, -box.left);
      if (lost > 2) found.push(`“${said}” is cut by ${lost.toFixed(0)} pixels`);
    }
  }
  return found;
}"""
)


def faint(page: Page) -> list[str]:
    """Texts of the tab that do not stand out from their ground.

    Raises:
        AssertionError: there is next to nothing on the tab.
    """
    found: dict[str, Any] = page.evaluate(_FAINT)
    assert found["count"] > 30
    return found["low"]


def overlapping(page: Page) -> list[str]:
    """Pairs of texts of the tab that lie over each other."""
    return page.evaluate(_OVER)


def beyond(page: Page) -> list[str]:
    """What of the tab reaches over the window's sides, or is cut where nobody can scroll."""
    return page.evaluate(_BEYOND)
