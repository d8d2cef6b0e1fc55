// Pointer and keyboard: hover links the panels, a click sets the query, keys move it.

function under(event) {
  const panel = event.target.panel;
  if (!panel || !props.value) return null;
  const area = panel.canvas.getBoundingClientRect();
  return patchAt(panel.side, (event.clientY - area.top) / area.height, (event.clientX - area.left) / area.width);
}

function hover(patch) {
  if (same(patch, S.hover) || (!patch && !S.hover)) return;
  S.hover = patch;
  S.panels.forEach(drawPanel);
  fillTips();
}

function ask(patch) {
  S.query = patch;
  show();
}

function setLayer(layer) {
  const most = Number($('.layer').max);
  S.layer = Math.min(most, Math.max(0, layer));
  $('.layer').value = S.layer;
  refresh();
}

element.addEventListener('pointermove', (event) => event.pointerType === 'mouse' && hover(under(event)));
element.addEventListener('pointerleave', () => hover(null));
element.addEventListener('click', (event) => {
  const patch = under(event);
  if (!patch || !S.ready) return;
  $('.stage').focus({ preventScroll: true });
  ask(S.query && same(sameplace(S.query, patch.side), patch) ? null : patch);
});

$('.stage').addEventListener('keydown', (event) => {
  if (!S.ready || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (event.key === 'Escape') ask(null);
  else if (event.key === '[') setLayer(S.layer - 1);
  else if (event.key === ']') setLayer(S.layer + 1);
  else if (step) moveQuery(...step);
  else return;
  event.preventDefault();
});

// The first arrow key leaves CLS for the middle patch; then the query moves patch by patch and stops at the edge.
function moveQuery(down, right) {
  const side = S.query?.side ?? 0;
  const { rows, cols } = props.value.sides[side];
  const clamp = (n, most) => Math.min(most, Math.max(0, n));
  if (!S.query) ask({ side, row: rows >> 1, col: cols >> 1 });
  else ask({ side, row: clamp(S.query.row + down, rows - 1), col: clamp(S.query.col + right, cols - 1) });
}
