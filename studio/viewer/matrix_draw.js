// Drawing of one token map: cells, hatching where the mask is, labels, the readout's row, what is pointed at.

const LEAST_LABEL = 9; // pixels of a cell below which labels would run into each other
const MOST_CELL = 34;
const FONT = '11px "IBM Plex Sans", system-ui, sans-serif';

// Sizes in CSS pixels: room for labels, side of a cell.
function layOut(panel) {
  const context = panel.canvas.getContext('2d');
  const width = Math.max(120, panel.frame.clientWidth);
  context.font = FONT;
  const longest = Math.min(96, Math.max(...panel.tokens.map((token) => context.measureText(token).width)) + 20);
  let room = longest;
  let cell = Math.min(MOST_CELL, (width - room) / panel.n);
  const labelled = cell >= LEAST_LABEL;
  if (!labelled) { room = 14; cell = (width - room) / panel.n; }
  panel.place = { room, cell, labelled, width: room + cell * panel.n, height: room + cell * panel.n };
  const scale = window.devicePixelRatio || 1;
  Object.assign(panel.canvas, { width: Math.round(panel.place.width * scale), height: Math.round(panel.place.height * scale) });
  Object.assign(panel.canvas.style, { width: `${panel.place.width}px`, height: `${panel.place.height}px` });
}

function drawPanel(panel) {
  if (panel.message || !panel.canvas) return;
  const { room, cell, labelled, width, height } = panel.place;
  const context = panel.canvas.getContext('2d');
  const style = getComputedStyle(element);
  const ink = style.getPropertyValue('--body-text-color'), dim = style.getPropertyValue('--studio-dim');
  const accent = style.getPropertyValue('--studio-accent');
  const scale = window.devicePixelRatio || 1;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  drawCells(context, panel);
  const query = queryOf(panel), cellAt = cellOf(panel);
  const line = (q, colour, thick) => {
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.strokeRect(room + thick / 2, room + q * cell + thick / 2, cell * panel.n - thick, cell - thick);
  };
  line(query, accent, 2);
  if (labelled) drawLabels(context, panel, { ink, dim, accent, query, cellAt });
  drawReadoutMark(context, panel, accent);
  if (!cellAt) return;
  for (const [colour, thick] of [['#101820', 3.5], ['#ffffff', 1.5]]) {
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.strokeRect(room + cellAt.key * cell, room + cellAt.query * cell, cell, cell);
  }
}

function drawCells(context, panel) {
  const { room, cell } = panel.place;
  const withSigns = signed(panel);
  const table = withSigns ? SIGNED : SEQUENTIAL;
  const top = withSigns ? S.top.signed : S.top.sequential;
  const scale = window.devicePixelRatio || 1;
  const lines = hatch(context, 'rgba(128,140,152,.6)', Math.max(4, Math.round(6 * scale)), scale);
  // Edges on whole device pixels, so that no seam shows between cells.
  const edge = (i) => Math.round((room + i * cell) * scale) / scale;
  for (let q = 0; q < panel.n; q++) {
    for (let k = 0; k < panel.n; k++) {
      if (masked(panel, q, k)) context.fillStyle = lines;
      else {
        const at = place(valueAt(panel, q, k), top, withSigns) * 3;
        context.fillStyle = `rgb(${table[at]},${table[at + 1]},${table[at + 2]})`;
      }
      context.fillRect(edge(k), edge(q), edge(k + 1) - edge(k), edge(q + 1) - edge(q));
    }
  }
  if (cell < 12) return;
  context.strokeStyle = 'rgba(128,128,128,.28)';
  context.lineWidth = 1 / scale;
  context.beginPath();
  for (let i = 0; i <= panel.n; i++) {
    context.moveTo(edge(i), room); context.lineTo(edge(i), edge(panel.n));
    context.moveTo(room, edge(i)); context.lineTo(edge(panel.n), edge(i));
  }
  context.stroke();
}

function drawLabels(context, panel, { ink, dim, accent, query, cellAt }) {
  const { room, cell } = panel.place;
  const fit = (text) => {
    if (context.measureText(text).width <= room - 18) return text;
    let short = text;
    while (short.length > 1 && context.measureText(`${short}…`).width > room - 18) short = short.slice(0, -1);
    return `${short}…`;
  };
  context.textBaseline = 'middle';
  panel.tokens.forEach((token, i) => {
    const centre = room + (i + 0.5) * cell;
    const strong = (on) => { context.font = on ? `700 ${FONT}` : FONT; };
    strong(i === query || cellAt?.query === i);
    context.fillStyle = i === query ? accent : cellAt?.query === i ? ink : dim;
    context.textAlign = 'right';
    context.fillText(fit(token), room - 5, centre);
    strong(cellAt?.key === i);
    context.fillStyle = cellAt?.key === i ? ink : dim;
    context.save();
    context.translate(centre, room - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = 'left';
    context.fillText(fit(token), 0, 0);
    context.restore();
  });
}

function drawReadoutMark(context, panel, accent) {
  const { room, cell, labelled } = panel.place;
  const y = room + (panel.readout + 0.5) * cell;
  context.fillStyle = accent;
  context.beginPath();
  const x = labelled ? 1 : room - 9;
  context.moveTo(x, y - 4); context.lineTo(x + 7, y); context.lineTo(x, y + 4);
  context.fill();
}

// The cell (query, key) under a point of the canvas in CSS pixels, or null.
function cellUnder(panel, x, y) {
  const { room, cell } = panel.place;
  const key = Math.floor((x - room) / cell), query = Math.floor((y - room) / cell);
  return key >= 0 && query >= 0 && key < panel.n && query < panel.n ? { panel, query, key } : null;
}
