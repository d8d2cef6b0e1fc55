// Pointer and keyboard: hover links the panels, a click sets the query, keys move it.

function under(event) {
  const panel = event.target === $('.swipe canvas') ? swipePanelAt(event) : event.target.panel;
  if (!panel || !S.ready || !sideOf(panel.side)) return null;
  const area = event.target.getBoundingClientRect();
  return patchAt(panel.side, (event.clientY - area.top) / area.height, (event.clientX - area.left) / area.width);
}

function hover(patch) {
  if (same(patch, S.hover) || (!patch && !S.hover)) return;
  S.hover = patch;
  S.panels.forEach(drawPanel);
  drawSwipe();
  fillTips();
}

function ask(patch) {
  S.query = patch;
  show();
}

function setLayer(layer) {
  S.layer = Math.min(deepest(), Math.max(0, layer));
  $('.layer').value = S.layer;
  refresh();
}

element.addEventListener('pointermove', (event) => event.pointerType === 'mouse' && !dragging && hover(under(event)));
element.addEventListener('pointerleave', () => hover(null));
element.addEventListener('click', (event) => {
  if (!event.target.matches('.frame canvas')) return;
  const patch = under(event);
  if (!patch) return;
  $('.stage').focus({ preventScroll: true });
  ask(S.query && same(sameplace(S.query, patch.side), patch) ? null : patch);
});

$('.stage').addEventListener('keydown', (event) => {
  // Selects, sliders and buttons inside have keys of their own.
  if (!S.ready || event.ctrlKey || event.metaKey || event.altKey || event.target.closest('select, input, button')) return;
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (event.key === '[') setLayer(S.layer - 1);
  else if (event.key === ']') setLayer(S.layer + 1);
  else if (event.key === 'd') choose('direction', S.direction === 'reads' ? 'read by' : 'reads');
  else if (event.key === 'h' || event.key === 'H') stepHead(event.key === 'h' ? 1 : -1);
  else if (step) moveQuery(...step);
  else return;
  event.preventDefault();
});

// Escape returns to CLS wherever in the viewer the focus is; an open list of choices closes by it first.
element.addEventListener('keydown', (event) => {
  if (!S.ready || event.key !== 'Escape' || event.defaultPrevented || event.target.closest('select')) return;
  ask(null);
  event.preventDefault();
});

// The first arrow key leaves CLS for the middle patch; then the query moves patch by patch and stops at the edge.
function moveQuery(down, right) {
  const side = S.query?.side ?? S.panels[0].side;
  const { rows, cols } = sideOf(side);
  const clamp = (n, most) => Math.min(most, Math.max(0, n));
  if (!S.query) ask({ side, row: rows >> 1, col: cols >> 1 });
  else ask({ side, row: clamp(S.query.row + down, rows - 1), col: clamp(S.query.col + right, cols - 1) });
}

// The head of every panel whose model has it, by its slot; the other panels keep theirs.
function setHead(slot) {
  S.settings.forEach((setting) => {
    if (slot <= (sideOf(setting.model)?.heads ?? 0)) setting.head = slot ? slot - 1 : 'mean';
  });
  panelsChanged();
}

// The next head of every model, with the mean over heads between the last and the first.
function stepHead(by) {
  S.settings.forEach((setting) => {
    const slots = (sideOf(setting.model)?.heads ?? 0) + 1;
    const slot = (slotOf(setting.head) + by + slots) % slots;
    setting.head = slot ? slot - 1 : 'mean';
  });
  panelsChanged();
}
