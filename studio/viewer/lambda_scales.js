// Numbers -> places, colours, dashes and words; and what the chart shows at this moment.
const T = { axis: 'samples', terms: false, hidden: new Set(), layer: null, at: null, marked: false };
const QUANTITIES = [['lam', 'λ'], ['one', 'exp(λq1·λk1)'], ['two', 'exp(λq2·λk2)']];
const TOWER_NAMES = ['vision', 'text'];
const DASHES = ['', '7 4', '2 3', '10 3 2 3', '4 2', '1 4'];
const MARGIN = { left: 44, right: 30, top: 20, bottom: 26 };
// From blue to ochre by depth, of a middle lightness that stands out on white and on dark pages; lines are numbered too.
const DEPTH = [[63, 127, 208], [138, 111, 209], [201, 95, 159], [224, 118, 90], [196, 130, 14]];
const runs = () => (props.value && props.value.runs) || [];
// Runs with something to draw; those without λ only have their sentence.
const curvedRuns = () => runs().filter((run) => Object.keys(run.towers).length);
const shownRuns = () => curvedRuns().filter((run) => !T.hidden.has(run.key));
const dashOf = (run) => DASHES[Math.max(0, curvedRuns().indexOf(run)) % DASHES.length];
const layersOf = (tower) => Math.max(0, ...runs().map((run) => ((run.towers[tower] || {}).lam || (run.towers[tower] || {}).final || []).length));
const layerColour = (layer, layers) => {
  const place = (layer / Math.max(1, layers - 1)) * (DEPTH.length - 1);
  const below = Math.min(DEPTH.length - 2, Math.floor(place));
  const part = place - below;
  return `rgb(${DEPTH[below].map((low, i) => Math.round(low + (DEPTH[below + 1][i] - low) * part)).join(',')})`;
};
const niceTicks = (low, high, count) => {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((size) => size >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) ticks.push(Number((i * step).toPrecision(10)));
  return ticks;
};
const signed = (text) => text.replace('-', '−');
const shortCount = (value) => (Math.abs(value) >= 1e6 ? `${Number((value / 1e6).toPrecision(3))}M` : Math.abs(value) >= 1e3 ? `${Number((value / 1e3).toPrecision(3))}k` : String(value));
// Of one quantity over both towers and all shown runs, so that every curve of it has the same scale.
const rangeOf = (quantity) => {
  let low = Infinity;
  let high = -Infinity;
  const see = (value) => { low = Math.min(low, value); high = Math.max(high, value); };
  shownRuns().forEach((run) => Object.values(run.towers).forEach((tower) => {
    (tower[quantity] || []).forEach((line) => line.forEach(see));
    if (quantity === 'lam') [...(tower.init || []), ...(tower.final || [])].forEach(see);
  }));
  if (low > high) return null;
  const room = Math.max((high - low) * 0.07, 0.02);
  return [low - room, high + room];
};
const longest = () => Math.max(1, ...shownRuns().flatMap((run) => Object.values(run.towers).map((tower) => (tower[T.axis] ? tower[T.axis][tower[T.axis].length - 1] : 0))));
// Index of the logged point of a tower that is nearest to a place on the axis.
const nearestIndex = (points, at) => {
  let low = 0;
  let high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle] < at) low = middle; else high = middle;
  }
  return Math.abs(points[low] - at) <= Math.abs(points[high] - at) ? low : high;
};
