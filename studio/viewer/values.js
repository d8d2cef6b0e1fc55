// Values: what each panel shows now, and the ranges that panels share.

const total = (row) => row.reduce((sum, v) => sum + Math.abs(v), 0);
// Weights of a row sum to 1, so a uniform one is 1 / keys; relevance and value-weighted maps are held against their mean.
// What is looked at of a map; relevance is one row, whoever reads.
const lineName = (kind) => (S.direction === 'reads' || kind === 'relevance' ? 'row' : 'column');
const WEIGHTS = ['weights', 'a1', 'subtracted', 'positive', 'negative'];
const SCALES = {
  raw: { label: 'raw', unit: (group) => UNITS[group] ?? 'weight', text: (v) => v.toFixed(4), factor: () => 1 },
  uniform: {
    label: '× uniform', unit: (group) => (UNITS[group] ? `× mean of the ${lineName(group)}` : '× uniform'), text: (v) => `${v.toFixed(1)} ×`,
    factor: (row, kind, keys) => (WEIGHTS.includes(kind) ? keys : total(row) > 0 ? row.length / total(row) : 0),
  },
  row: {
    label: 'row-normalised', unit: (group) => `share of Σ|${lineName(group)}|`, text: (v) => `${(100 * v).toFixed(1)} %`,
    factor: (row) => (total(row) > 0 ? 1 / total(row) : 0),
  },
};
const UNITS = { value: 'norm of what a key adds', relevance: 'relevance' };

// Panels of one group share a range. A range runs from 0, or to both sides of 0 where a map has both signs.
function groupOf(setting, index, signed) {
  const group = setting.kind === 'value' || setting.kind === 'relevance' ? setting.kind : signed ? 'signed' : 'sequential';
  return setting.own ? `own-${index}-${group}` : group;
}
const kindOfGroup = (group) => group.replace(/^own-\d+-/, '');

// Fills each panel's row, shown patch values and message; then the ranges.
function computeValues() {
  S.tops = {};
  S.panels.forEach((panel, index) => {
    const { model, kind, head } = panel.setting;
    const side = sideOf(model);
    panel.row = null;
    panel.aside = null;
    panel.signed = kind === 'weights' && Boolean(side?.differential);
    panel.group = groupOf(panel.setting, index, panel.signed);
    const found = kind === 'relevance' ? relevanceLine(model) : layerLine(model, kind, head);
    panel.message = found.message ?? '';
    if (!found.row) return;
    panel.row = found.row;
    panel.token = found.token;
    panel.keys = found.keys ?? found.row.length;
    const count = side.rows * side.cols;
    panel.prefix = panel.row.length - count;
    panel.factor = SCALES[S.scale].factor(panel.row, kind, panel.keys);
    panel.patches = panel.row.subarray(panel.prefix);
    panel.shown = panel.patches.map((value) => value * panel.factor);
    if (S.aside === 'sinks' && S.direction === 'reads' && found.sinks) panel.aside = found.sinks;
    let top = S.tops[panel.group] ?? 0;
    panel.row.forEach((value, at) => {
      if ((at < panel.prefix && S.aside === 'prefix') || panel.aside?.[at]) return;
      top = Math.max(top, Math.abs(value * panel.factor));
    });
    S.tops[panel.group] = top;
  });
}

function layerLine(model, kind, head) {
  const { data, error } = S.answers[model] ?? {};
  if (!data) return { message: error ?? 'This model has not looked at the picture yet.' };
  const side = sideOf(model);
  let token = queryOf(side.name);
  if (token === undefined) return { message: 'The query lies outside of what this model saw.' };
  if (data.pooling) {
    if (S.direction === 'read by') return { message: 'In this layer one learned query alone reads the patches: choose “reads”.' };
    token = 0;
  }
  if (token === 'mean' && S.direction === 'read by') return { message: 'This model has no CLS token: choose a patch to see which tokens read it.' };
  if (!data.maps[mapKind(kind)]?.slots.includes(slotOf(head))) return { message: 'This map has not come yet.' };
  return { row: lineOf(data, kind, head, token, side.prefix), token, keys: data.keys, sinks: sinksOf(data, kind, head) };
}

// The patch of the greatest size; none where every patch is exactly 0.
function strongest(panel) {
  let best = null;
  panel.patches.forEach((value, i) => { if (Math.abs(value) > Math.abs(panel.patches[best] ?? 0)) best = i; });
  return best;
}

// With a true minus sign; rounded first, so that nothing is written as minus zero.
const rounded = (v, digits) => (Number(v.toFixed(digits)) + 0).toFixed(digits).replace('-', '−');

// "(row, col) raw × uniform", the same in every scale.
function reading(panel, patch) {
  const { cols } = sideOf(panel.side);
  const at = panel.prefix + patch.row * cols + patch.col;
  const value = panel.row[at];
  const times = SCALES.uniform.factor(panel.row, panel.setting.kind, panel.keys);
  const small = value !== 0 && Math.abs(value) < 5e-5 ? value.toExponential(1).replace(/-/g, '−') : rounded(value, 4);
  return `(${patch.row}, ${patch.col})  ${small}  ${rounded(value * times, 1)} ×${panel.aside?.[at] ? '  sink' : ''}`;
}
