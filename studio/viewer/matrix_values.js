// State and values of the token maps: what a cell holds, by map, head and scale, and the ranges that panels share.

const S = {
  which: 'weights', scale: 'uniform', start: 'in', ramp: 'root', heads: [0, 0],
  query: null, // {prompt, at}: the row that is listed, null for the readout's
  cell: null, // {prompt, query, key}: the cell that is pointed at
  panels: [], top: { sequential: 0, signed: 0 },
};
const $ = (selector) => element.querySelector(selector);
const SCALES = { raw: 'raw weight', uniform: '× uniform' };

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function bytesOf(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}
const floats = (text) => (text ? new Float32Array(bytesOf(text).buffer) : null);

// A panel with what was sent of it, unpacked.
function unpack(sent, row) {
  const panel = { ...sent, row, n: sent.tokens?.length ?? 0 };
  if (sent.message) return panel;
  panel.data = { first: floats(sent.first), subtracted: floats(sent.subtracted) };
  panel.blocked = bytesOf(sent.masked);
  panel.visible = Array.from({ length: panel.n }, (_, q) => {
    let count = 0;
    for (let k = 0; k < panel.n; k++) count += panel.blocked[q * panel.n + k] ? 0 : 1;
    return count;
  });
  return panel;
}

const nameOf = (panel) => (panel.differential ? { weights: 'A1 − λA2', first: 'A1', subtracted: 'λA2' }[S.which] : 'A');
const signed = (panel) => S.which === 'weights' && panel.differential;
const nothing = (panel) => S.which === 'subtracted' && !panel.differential;
const masked = (panel, q, k) => panel.blocked[q * panel.n + k] === 1;
const slot = (panel) => Math.min(S.heads[panel.row], panel.heads);

function rawValue(panel, q, k) {
  const at = (slot(panel) * panel.n + q) * panel.n + k;
  const { first, subtracted } = panel.data;
  if (S.which === 'subtracted') return subtracted[at];
  return S.which === 'weights' && subtracted ? first[at] - subtracted[at] : first[at];
}
const scaled = (panel, q, value) => (S.scale === 'uniform' ? value * panel.visible[q] : value);
const valueAt = (panel, q, k) => scaled(panel, q, rawValue(panel, q, k));

// One range for all maps without signs and one, about zero, for those with signs.
function computeRanges() {
  S.top = { sequential: 0, signed: 0 };
  for (const panel of S.panels) {
    if (panel.message || nothing(panel)) continue;
    const kind = signed(panel) ? 'signed' : 'sequential';
    panel.beyond = 0;
    panel.negative = false;
    for (let q = 0; q < panel.n; q++) {
      for (let k = 0; k < panel.n; k++) {
        if (masked(panel, q, k)) continue;
        const value = valueAt(panel, q, k);
        if (kind === 'sequential' && value < 0) panel.negative = true;
        if (S.start === 'aside' && k === 0) panel.beyond = Math.max(panel.beyond, Math.abs(value));
        else S.top[kind] = Math.max(S.top[kind], Math.abs(value));
      }
    }
  }
}

const minus = (text) => text.replace(/^-(?=0\.?0*$)/, '').replace('-', '−'); // and no minus zero
function written(value) {
  const size = Math.abs(value);
  return minus(value.toFixed(S.scale === 'uniform' ? (size >= 10 ? 1 : 2) : size >= 0.1 || size === 0 ? 3 : 4));
}
const unit = () => (S.scale === 'uniform' ? ' ×' : '');
const both = (panel, q, k) => {
  const raw = rawValue(panel, q, k);
  return `${minus(raw.toFixed(4))} ${minus((raw * panel.visible[q]).toFixed(1))} ×`;
};

const sameTokens = (one, other) => one.prompt === other.prompt && one.n === other.n && one.tokens.every((token, i) => token === other.tokens[i]);
const queryOf = (panel) => (S.query && linked(panel, S.query.panel) ? S.query.at : panel.readout);
const cellOf = (panel) => (S.cell && linked(panel, S.cell.panel) ? S.cell : null);
const linked = (panel, source) => panel === source || sameTokens(panel, source);
