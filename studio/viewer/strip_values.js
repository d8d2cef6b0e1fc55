// Values of the strip's panels, the ranges that panels share, the colours of classes, places on the picture.

const S = {
  panels: [], tops: new Map(), colours: [], others: false,
  hover: null, kept: false, drawing: 'patches', ramp: 'root', opacity: 0.75,
  grey: null, picture: '', take: '', ready: false,
};
const $ = (selector) => element.querySelector(selector);

// Okabe and Ito's colours, and black; what is beyond them shares the grey.
const CLASS_COLOURS = ['e69f00', '56b4e9', '009e73', 'f0e442', '0072b2', 'd55e00', 'cc79a7', '15181c'].map(channels);
const OTHER_COLOUR = channels('a9b2bb');
const NO_CLASS = 255;

function decode({ values, dtype }) {
  if (dtype === 'f4') return new Float32Array(bytes(values));
  return Float32Array.from(new Uint8Array(bytes(values)), (value) => (value === NO_CLASS ? NaN : value));
}

const rangeKey = (panel) => `${panel.kind}\n${panel.scale}`;
const topOf = (panel) => S.tops.get(rangeKey(panel)) ?? 0;
const drawn = () => S.panels.filter((panel) => !panel.message);

function computeRanges() {
  S.tops = new Map();
  for (const panel of drawn()) {
    if (panel.kind === 'classes') continue;
    let top = topOf(panel);
    for (const value of panel.data) if (Math.abs(value) > top) top = Math.abs(value);
    S.tops.set(rangeKey(panel), top);
  }
}

// Each class has one colour on all panels; those that have none of their own share the grey.
function computeClassColours() {
  const { classes, coloured } = props.value;
  S.colours = Array(classes.length).fill(OTHER_COLOUR);
  coloured.forEach((at, i) => (S.colours[at] = CLASS_COLOURS[i % CLASS_COLOURS.length]));
  S.others = drawn().some(({ kind, data }) => kind === 'classes' && data.some((at) => S.colours[at] === OTHER_COLOUR));
}

// Box of a cell as fractions of the shown picture's height and width.
function cellBox({ box, rows, cols }, row, col) {
  const [top, left, bottom, right] = box;
  const high = (bottom - top) / rows, wide = (right - left) / cols;
  return [top + row * high, left + col * wide, top + (row + 1) * high, left + (col + 1) * wide];
}

// {row, col} of the cell under a point, or null where this panel's model saw nothing.
function cellAt({ box, rows, cols }, y, x) {
  const [top, left, bottom, right] = box;
  if (y < top || y >= bottom || x < left || x >= right) return null;
  const row = Math.min(rows - 1, Math.floor(((y - top) / (bottom - top)) * rows));
  const col = Math.min(cols - 1, Math.floor(((x - left) / (right - left)) * cols));
  return { row, col };
}

// The hovered cell's box, and the cell of another panel on the same pixels.
const hoverBox = () => cellBox(S.hover.panel, S.hover.row, S.hover.col);
function sameCell(panel) {
  if (panel === S.hover.panel) return S.hover;
  const [top, left, bottom, right] = hoverBox();
  return cellAt(panel, (top + bottom) / 2, (left + right) / 2);
}

// With a true minus sign; rounded first, so that nothing is written as minus zero. Four significant digits or less.
function number(value) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 5e-5) return value.toExponential(1).replaceAll('-', '−');
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  return value.toFixed(digits).replace('-', '−');
}

// The value of a cell; the unit in full, or only its sign where there is little room.
function reading(panel, cell, unit = panel.unit) {
  if (!cell) return 'not seen';
  const value = panel.data[cell.row * panel.cols + cell.col];
  if (panel.kind === 'classes') return props.value.classes[value] ?? 'no class';
  if (Number.isNaN(value)) return 'no value';
  return `${number(value)}${unit ? ` ${unit}` : ''}`;
}

const unitSign = ({ unit }) => (unit.startsWith('×') ? '×' : unit === '%' ? '%' : '');
