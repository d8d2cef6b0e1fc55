// Values: what each panel shows now, and the ranges that all panels share.

const SCALES = {
  raw: { label: 'raw', unit: 'weight', text: (v) => v.toFixed(4), factor: () => 1 },
  uniform: { label: '× uniform', unit: '× uniform', text: (v) => `${v.toFixed(1)} ×`, factor: (row) => row.length },
  row: {
    label: 'row-normalised', unit: 'share of Σ|row|', text: (v) => `${(100 * v).toFixed(1)} %`,
    factor: (row) => { const total = row.reduce((sum, v) => sum + Math.abs(v), 0); return total > 0 ? 1 / total : 0; },
  },
};

// Fills each panel's row, shown patch values and message; then both shared ranges.
function computeValues() {
  S.top = { sequential: 0, signed: 0 };
  for (const panel of S.panels) {
    const { data, error } = S.answers[panel.side] ?? {};
    const query = queryOf(panel.side);
    panel.row = null;
    panel.message = error ?? (query === null ? 'The query lies outside of what this model saw.' : '');
    if (!data || panel.message) continue;
    const prefix = props.value.sides[panel.side].prefix;
    panel.data = data;
    panel.query = query;
    panel.slot = S.heads[panel.side];
    panel.row = rowOf(data, panel.which, panel.slot, query);
    panel.factor = SCALES[S.scale].factor(panel.row);
    panel.patches = panel.row.subarray(prefix);
    panel.shown = panel.patches.map((value) => value * panel.factor);
    const range = panel.signed ? 'signed' : 'sequential';
    for (const value of panel.shown) S.top[range] = Math.max(S.top[range], Math.abs(value));
  }
}

function strongest(panel) {
  let best = 0;
  panel.patches.forEach((value, i) => { if (Math.abs(value) > Math.abs(panel.patches[best])) best = i; });
  return best;
}

// With a true minus sign; rounded first, so that nothing is written as minus zero.
const rounded = (v, digits) => (Number(v.toFixed(digits)) + 0).toFixed(digits).replace('-', '−');

// "(row, col) raw × uniform", the same in every scale.
function reading(panel, patch) {
  const value = panel.row[keyOf(panel.side, patch)];
  return `(${patch.row}, ${patch.col})  ${rounded(value, 4)}  ${rounded(value * panel.row.length, 1)} ×`;
}
