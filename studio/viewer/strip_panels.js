// Panels of the strip: header, canvas, numbers; and how a panel is drawn.

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function buildPanels() {
  S.panels = props.value.panels.map((sent) => ({ ...sent, data: decode(sent) }));
  $('.panels').replaceChildren(...S.panels.map(buildPanel));
  const count = S.panels.length;
  $('.panels').style.setProperty('--columns', count > 5 ? Math.ceil(count / Math.ceil(count / 5)) : Math.max(count, 3));
}

function buildPanel(panel) {
  const figure = make('figure', 'panel');
  const head = make('figcaption', 'head');
  head.append(make('b', '', panel.title), make('span', 'of', panel.of), ...panel.badges.map((text) => make('em', 'badge', text)));
  panel.frame = make('div', 'frame');
  panel.canvas = make('canvas');
  panel.canvas.panel = panel;
  panel.canvas.tabIndex = 0;
  panel.canvas.setAttribute('role', 'img');
  panel.canvas.setAttribute('aria-label', `${panel.title}, ${panel.of}: ${panel.message || 'a map over the picture; arrow keys read it'}`);
  panel.tip = make('div', 'tip');
  panel.tip.hidden = true;
  panel.tip.setAttribute('aria-hidden', 'true');
  panel.frame.append(panel.canvas, panel.tip, make('p', 'message', panel.message));
  figure.append(head, panel.frame, factTable(panel));
  return figure;
}

function factTable(panel) {
  const body = make('tbody');
  // A control without a number in this panel gets no column.
  const columnsOf = ({ controls, facts }) => controls.map((name, at) => ({ name, at })).filter(({ at }) => facts.some(([, , numbers]) => numbers[at]));
  const columns = columnsOf(panel);
  const table = make('table', S.panels.some((each) => columnsOf(each).length > 1) ? 'facts twofold' : 'facts');
  // Every table has this line where one has it, so that the numbers of all panels stand side by side.
  if (S.panels.some((each) => columnsOf(each).length)) {
    const head = make('tr', 'heads-line');
    head.append(make('td'), make('td', '', '\u00a0'), ...columns.map(({ name }) => make('th', 'control', name)));
    body.append(head);
  }
  for (const [label, value, numbers, meaning] of panel.facts) {
    const line = make('tr');
    if (meaning) line.title = meaning;
    const heading = make('th', '', label);
    heading.scope = 'row';
    line.append(heading, make('td', 'num', value));
    for (const { name, at } of columns) {
      const cell = make('td', 'num control', numbers[at] ?? '');
      cell.dataset.name = name;
      line.append(cell);
    }
    body.append(line);
  }
  table.append(body);
  return table;
}

// Canvases are as wide as their column, but never higher than MOST_HIGH; one canvas pixel is one device pixel.
const MOST_HIGH = 420;

function sizePanels() {
  const { height, width } = props.value;
  const scale = window.devicePixelRatio || 1;
  for (const { canvas, frame } of S.panels) {
    const wide = Math.min(frame.clientWidth, (MOST_HIGH * width) / height);
    const size = [Math.max(1, Math.round(wide * scale)), Math.max(1, Math.round(((wide * height) / width) * scale))];
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    canvas.style.width = `${wide}px`;
  }
}

// [red, green, blue] of a value, or null where there is none to colour.
function colourOf(panel, value) {
  if (panel.kind === 'classes') return S.colours[value] ?? null;
  if (Number.isNaN(value) || (panel.zeros && value === 0)) return null;
  const signed = panel.kind === 'signed';
  const at = place(value, topOf(panel), signed) * 3;
  const table = signed ? SIGNED : SEQUENTIAL;
  return [table[at], table[at + 1], table[at + 2]];
}

// The cells as a small picture of `k` pixels a side; `paint` gives [r, g, b] or null of (cell, y, x).
function cellPicture({ rows, cols }, k, paint) {
  const canvas = make('canvas');
  [canvas.width, canvas.height] = [cols * k, rows * k];
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(canvas.width, canvas.height);
  for (let y = 0; y < canvas.height; y++) {
    for (let x = 0; x < canvas.width; x++) {
      const colour = paint(Math.floor(y / k) * cols + Math.floor(x / k), y, x);
      if (colour) pixels.data.set([...colour, 255], (y * canvas.width + x) * 4);
    }
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

// Numbers between patch centres only where all four neighbours are numbers; classes have nothing between them.
function colouredCells(panel) {
  const { data, rows, cols } = panel;
  const fine = S.drawing === 'smooth' && panel.kind !== 'classes' && rows * cols <= 4096;
  const k = fine ? FINE : 1;
  const inside = { ...panel, zeros: false };
  return cellPicture(panel, k, (cell, y, x) => {
    const own = colourOf(panel, data[cell]);
    if (!own || !fine) return own;
    const value = between(data, rows, cols, (y + 0.5) / k - 0.5, (x + 0.5) / k - 0.5);
    return Number.isNaN(value) ? own : colourOf(inside, value);
  });
}

// Which cells are hatched: a small picture, or null where there is none.
function maskOf(panel, chosen) {
  return panel.data.some((_, cell) => chosen(cell)) ? cellPicture(panel, 1, (cell) => (chosen(cell) ? [0, 0, 0] : null)) : null;
}

function masksOf(panel) {
  const { data, zeros, kind } = panel;
  return {
    zeros: zeros ? maskOf(panel, (cell) => data[cell] === 0) : null,
    missing: maskOf(panel, kind === 'classes' ? (cell) => !S.colours[data[cell]] : (cell) => Number.isNaN(data[cell])),
  };
}

function hatchMask(context, mask, [x, y, w, h], fills) {
  if (!mask) return;
  const layer = make('canvas');
  [layer.width, layer.height] = [context.canvas.width, context.canvas.height];
  const brush = layer.getContext('2d');
  for (const fill of fills) { brush.fillStyle = fill; brush.fillRect(x, y, w, h); }
  brush.globalCompositeOperation = 'destination-in';
  brush.imageSmoothingEnabled = false;
  brush.drawImage(mask, x, y, w, h);
  context.drawImage(layer, 0, 0);
}

function drawStripPanel(panel) {
  const { canvas, rows, cols } = panel;
  const W = canvas.width, H = canvas.height;
  const context = canvas.getContext('2d');
  const scale = window.devicePixelRatio || 1;
  const pixelBox = ([top, left, bottom, right]) => [left * W, top * H, (right - left) * W, (bottom - top) * H];
  const whole = pixelBox(panel.box);
  context.globalAlpha = 1;
  context.imageSmoothingEnabled = true;
  context.drawImage(S.grey, 0, 0, W, H);
  if (!panel.message) {
    context.globalAlpha = S.opacity;
    context.imageSmoothingEnabled = S.drawing === 'smooth' && panel.kind !== 'classes';
    context.drawImage((panel.cells ??= colouredCells(panel)), ...whole);
    context.globalAlpha = 1;
    const light = hatch(context, 'rgba(255,255,255,.55)', Math.round(6 * scale), 2 * scale);
    const dark = hatch(context, 'rgba(30,38,48,.5)', Math.round(6 * scale), 0.8 * scale);
    const missing = hatch(context, 'rgba(255,255,255,.5)', Math.round(9 * scale), 1.2 * scale);
    panel.masks ??= masksOf(panel);
    hatchMask(context, panel.masks.zeros, whole, [light, dark]);
    hatchMask(context, panel.masks.missing, whole, ['rgba(20,26,34,.62)', missing]);
    if (whole[2] / cols >= 5 * scale) gridLines(context, rows, cols, whole, scale);
  }
  dimUnseen(context, W, H, whole, scale);
  if (panel.marked) outline(context, pixelBox(cellBox(panel, ...panel.marked)), scale, [], 2);
  if (S.hover) drawCrosshair(context, pixelBox(hoverBox()), W, H, scale);
}

// A patch is outlined; a single pixel would not be found, so lines lead to it.
function drawCrosshair(context, box, W, H, scale) {
  const [x, y, w, h] = box;
  if (w >= 6 * scale) { outline(context, box, scale, [4 * scale, 3 * scale], 1.5); return; }
  for (const [colour, width] of [['#101820', 3], ['#fff', 1]]) {
    context.strokeStyle = colour;
    context.lineWidth = width * scale;
    context.beginPath();
    context.moveTo(x + w / 2, 0); context.lineTo(x + w / 2, H);
    context.moveTo(0, y + h / 2); context.lineTo(W, y + h / 2);
    context.stroke();
  }
}
