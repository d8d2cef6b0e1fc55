// Swipe: two panels lie on each other, with a divider that is dragged or moved by keys.

let dragging = false;

function toggleSwipe() {
  S.swipe.on = !S.swipe.on;
  buildSwipe();
  show();
  if (!S.swipe.on) return;
  const divider = $('.swipe .divider');
  divider.focus({ preventScroll: true });
  divider.scrollIntoView({ block: 'nearest' });
}

function buildSwipe() {
  const box = $('.swipe');
  const { swipe } = S;
  swipe.left = Math.min(swipe.left, S.panels.length - 1);
  swipe.right = Math.min(swipe.right, S.panels.length - 1);
  if (swipe.left === swipe.right) swipe.right = swipe.left ? 0 : 1;
  box.hidden = !swipe.on;
  $('.swipe-toggle').setAttribute('aria-pressed', String(swipe.on));
  $('.swipe .divider').value = swipe.at;
  for (const end of ['left', 'right']) {
    const select = $(`.swipe .${end}`);
    select.replaceChildren(...S.panels.map((panel, i) =>
      Object.assign(make('option', '', `${i + 1}: ${panel.name} · ${panel.title} · ${headOf(panel.setting)}`), { value: i })));
    select.value = swipe[end];
  }
}

function wireSwipe() {
  const { swipe } = S;
  for (const end of ['left', 'right']) {
    $(`.swipe .${end}`).addEventListener('change', (event) => { swipe[end] = Number(event.target.value); drawSwipe(); writeLink(); });
  }
  const divider = $('.swipe .divider');
  divider.addEventListener('input', () => { swipe.at = Number(divider.value); drawSwipe(); writeLink(); });
  const canvas = $('.swipe canvas');
  const share = (event) => {
    const area = canvas.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - area.left) / area.width));
  };
  canvas.addEventListener('pointerdown', (event) => {
    const reach = 14 / canvas.clientWidth;
    if (Math.abs(share(event) - swipe.at) > reach) return;
    dragging = true;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!dragging) return;
    swipe.at = share(event);
    divider.value = swipe.at;
    drawSwipe();
    writeLink();
  });
  // A click follows the end of a drag; it must not move the query.
  const stop = () => setTimeout(() => { dragging = false; });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, stop);
  canvas.addEventListener('click', (event) => dragging && event.stopPropagation());
}

function swipePanelAt(event) {
  const area = event.target.getBoundingClientRect();
  return S.panels[event.clientX - area.left < S.swipe.at * area.width ? S.swipe.left : S.swipe.right];
}

function drawSwipe() {
  const { swipe } = S;
  const left = S.panels[swipe.left], right = S.panels[swipe.right];
  if (!swipe.on || !S.ready || !left?.base || !right?.base) return;
  const canvas = $('.swipe canvas');
  sizeCanvas(canvas, Math.min($('.swipe .frame').clientWidth, 620), 620);
  const context = canvas.getContext('2d');
  const scale = window.devicePixelRatio || 1;
  const at = Math.round(swipe.at * canvas.width);
  context.imageSmoothingEnabled = true;
  context.drawImage(swipeBase(right, canvas), 0, 0);
  if (at > 0) context.drawImage(swipeBase(left, canvas), 0, 0, at, canvas.height, 0, 0, at, canvas.height);
  outlines(context, canvas);
  context.fillStyle = '#101820';
  context.fillRect(at - 2 * scale, 0, 4 * scale, canvas.height);
  context.fillStyle = '#fff';
  context.fillRect(at - scale, 0, 2 * scale, canvas.height);
  context.beginPath();
  context.arc(at, canvas.height / 2, 8 * scale, 0, 2 * Math.PI);
  context.fill();
  context.strokeStyle = '#101820';
  context.lineWidth = 1.5 * scale;
  context.stroke();
  $('.swipe .divider').setAttribute('aria-valuetext', `${Math.round(100 * swipe.at)} % of the width shows ${left.name} of ${left.title}, the rest ${right.name} of ${right.title}`);
  const apart = left.group !== right.group;
  $('.swipe .apart').textContent = apart ? 'These two panels do not share a colour range: compare where they are strong, not how bright they are.' : '';
}

// A panel painted at the size of the swipe, once for each change.
function swipeBase(panel, canvas) {
  const stamp = `${S.shows} ${canvas.width}`;
  if (panel.wideStamp !== stamp) {
    panel.wide = { ...panel, canvas, base: document.createElement('canvas') };
    paintPanel(panel.wide);
    panel.wideStamp = stamp;
  }
  return panel.wide.base;
}
