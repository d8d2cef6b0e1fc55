// One plot: a quantity of one tower, a line for each layer and run, λ_init, and where checkpoints were kept.
const drawn = (parent, tag, attributes, text) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
};
const opacityOf = (layer) => (T.layer === null || T.layer === layer ? 1 : 0.12);
// What the thin lines are, above the plot so that no curve is covered.
const keyOf = (tower, range) => [
  shownRuns().some((run) => run.towers[tower] && run.towers[tower].init) ? 'thin: λ_init' : '',
  range[0] < 1 && range[1] > 1 ? 'dotted: λ = 1, rows sum to 0' : '',
].filter(Boolean).join(' · ');
const drawPlot = (svg, tower, quantity, label) => {
  const range = rangeOf(quantity);
  const width = Math.max(260, svg.clientWidth || 480);
  const height = quantity === 'lam' ? 250 : 170;
  svg.replaceChildren();
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('height', height);
  const end = longest();
  const x = (value) => MARGIN.left + (value / end) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => height - MARGIN.bottom - ((value - range[0]) / (range[1] - range[0])) * (height - MARGIN.top - MARGIN.bottom);
  drawn(svg, 'text', { x: 4, y: 12, class: 'quantity' }, label);
  if (!range) return;
  const key = quantity === 'lam' ? drawn(svg, 'text', { x: 24, y: 12, style: width < 310 ? 'font-size: 9px' : '' }, keyOf(tower, range)) : null;
  niceTicks(...range, 6).forEach((value) => {
    drawn(svg, 'line', { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value), class: 'grid' });
    drawn(svg, 'text', { x: MARGIN.left - 6, y: y(value) + 4, 'text-anchor': 'end' }, signed(Math.abs(value) >= 1e4 ? shortCount(value) : String(value)));
  });
  niceTicks(0, end, width > 420 ? 5 : 3).forEach((value) => drawn(svg, 'text', { x: x(value), y: height - 10, 'text-anchor': 'middle' }, shortCount(value)));
  if (quantity === 'lam' && range[0] < 1 && range[1] > 1) {
    drawn(svg, 'line', { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(1), y2: y(1), class: 'one', 'stroke-dasharray': '1 3' });
  }
  shownRuns().forEach((run) => drawRun(svg, run, run.towers[tower], quantity, { x, y, width, end }));
  sayLeftOut(svg, key, drawEnds(svg, tower, quantity, { x, y, width, height }), { width, label });
  drawn(svg, 'line', { class: 'cursor', y1: MARGIN.top, y2: height - MARGIN.bottom, x1: -9, x2: -9 });
};
const drawRun = (svg, run, tower, quantity, { x, y, width }) => {
  if (!tower) return;
  const colour = (layer, count) => layerColour(layer, count);
  if (tower.final && quantity === 'lam') {
    tower.final.forEach((value, layer) => drawn(svg, 'circle', { cx: width - MARGIN.right + 5, cy: y(value), r: 3.5, fill: 'none', 'stroke-width': 1.8, stroke: colour(layer, tower.final.length), opacity: opacityOf(layer) }));
  }
  if (!tower[quantity]) return;
  if (quantity === 'lam') drawInit(svg, tower, { x, y, width });
  tower[quantity].forEach((line, layer) => {
    if (line.length === 1) drawn(svg, 'circle', { cx: x(tower[T.axis][0]), cy: y(line[0]), r: 2.5, fill: colour(layer, tower.lam.length), opacity: opacityOf(layer) });
    const path = line.map((value, i) => `${i ? 'L' : 'M'}${x(tower[T.axis][i]).toFixed(1)} ${y(value).toFixed(1)}`).join('');
    drawn(svg, 'path', { d: path, fill: 'none', 'stroke-width': 1.7, 'stroke-linejoin': 'round', stroke: colour(layer, tower.lam.length), 'stroke-dasharray': dashOf(run), opacity: opacityOf(layer) });
  });
  const points = tower[T.axis];
  run.kept.forEach((step) => {
    const place = x(points[nearestIndex(tower.steps, step)]);
    const bottom = y(rangeOf(quantity)[0]);
    drawn(svg, 'path', { d: `M${place} ${bottom - 7}l4.5 7h-9z`, class: 'kept-mark' });
  });
};
// λ_init as one thin line where all layers share it, else as a notch at the left for each.
const drawInit = (svg, tower, { x, y, width }) => {
  const init = tower.init || [];
  if (!init.length) return;
  if (init.every((value) => Math.abs(value - init[0]) < 1e-3)) {
    drawn(svg, 'line', { x1: x(0), x2: width - MARGIN.right, y1: y(init[0]), y2: y(init[0]), class: 'init' });
  } else {
    init.forEach((value, layer) => drawn(svg, 'line', { x1: x(0) - 5, x2: x(0) + 6, y1: y(value), y2: y(value), 'stroke-width': 3, stroke: layerColour(layer, init.length), opacity: opacityOf(layer) }));
  }
};
// Where the lines of a run end, or the rings of one whose last values alone are known: a layer each.
const endsOf = (run, tower, quantity, { x, y, width }) => {
  const of = run.towers[tower] || {};
  const edge = width - MARGIN.right;
  if (of[quantity]) return of[quantity].map((line, layer) => ({ run, layer, layers: of[quantity].length, end: x(of[T.axis].at(-1)), place: y(line.at(-1)) }));
  return quantity === 'lam' ? (of.final || []).map((value, layer) => ({ run, layer, layers: of.final.length, end: edge + 8, place: y(value) })) : [];
};
const APART = 10; // from one number to the next below it
// Numbers in the order of their places, moved apart where they would touch, and all of them between top and bottom.
const spread = (labels, top, bottom) => {
  labels.sort((a, b) => a.place - b.place);
  labels.forEach((one, i) => { one.at = Math.min(bottom, Math.max(top, one.place, i ? labels[i - 1].at + APART : top)); });
  for (let i = labels.length - 2; i >= 0; i -= 1) labels[i].at = Math.min(labels[i].at, labels[i + 1].at - APART);
};
// The layer's number at the end of its line. Those of the first run that has lines are moved apart where they would
// touch, within the plot; where it has no room for all, only every second, third ... layer has a number, and the chosen
// one. A further run's number stands where there is room beside its line's end, and where that layer's number stands
// there already it needs none. A short line, dashed as its run is, leads to a number that was moved.
// The answer is of how many layers one has its number.
const drawEnds = (svg, tower, quantity, scales) => {
  const [first, ...others] = shownRuns().map((run) => endsOf(run, tower, quantity, scales)).filter((ends) => ends.length);
  if (!first) return 1;
  const [top, bottom] = [MARGIN.top, scales.height - MARGIN.bottom];
  const room = Math.floor((bottom - top) / APART) + 1;
  const longestOf = Math.max(...[first, ...others].map((ends) => ends.length));
  const step = longestOf <= room ? 1 : Math.ceil(longestOf / (room - 1)); // one place is for the chosen layer
  const numbered = ({ layer }) => layer % step === 0 || layer === T.layer;
  const edge = scales.width - MARGIN.right;
  const left = ({ end }) => (end < edge - 16 ? end + 9 : edge + 12);
  const labels = first.filter(numbered).map((one) => ({ ...one, left: left(one) }));
  spread(labels, top, bottom);
  others.flat().filter(numbered).forEach((one) => {
    const near = (at) => labels.filter((label) => Math.abs(label.at - at) < APART && Math.abs(label.left - left(one)) < 16);
    if (near(one.place).some(({ layer }) => layer === one.layer)) return;
    const at = [0, 6, -6, 12, -12].map((off) => one.place + off).find((place) => place >= top && place <= bottom && !near(place).length);
    if (at !== undefined) labels.push({ ...one, at, left: left(one) });
  });
  labels.forEach((one) => {
    const colour = layerColour(one.layer, one.layers);
    const faded = opacityOf(one.layer);
    if (Math.abs(one.at - one.place) > 3) {
      drawn(svg, 'line', { x1: one.end + 1, y1: one.place, x2: one.left - 1, y2: one.at, class: 'lead', stroke: colour, 'stroke-dasharray': dashOf(one.run), opacity: faded });
    }
    const text = drawn(svg, 'text', { x: one.left, y: one.at + 4, class: 'end', 'data-run': one.run.key, opacity: faded }, String(one.layer));
    text.style.fill = colour;
  });
  return step;
};
// That not every line has its number is said in the plot's title, and above the plot where a wide one has room.
const sayLeftOut = (svg, key, step, { width, label }) => {
  if (step === 1) return;
  const said = `one layer in ${step} numbered`;
  drawn(svg, 'title', {}, `${label}: ${said} at its line’s end, and the chosen one; there is no room for all.`);
  if (key) {
    const before = key.textContent;
    key.textContent = [before, said].filter(Boolean).join(' · ');
    if (24 + key.getComputedTextLength() > width - 4) key.textContent = before;
  } else drawn(svg, 'text', { x: width - 4, y: 12, 'text-anchor': 'end' }, said);
};
const placeCursor = (svg) => {
  const line = svg.querySelector('.cursor');
  if (!line) return;
  const width = Number(svg.getAttribute('viewBox').split(' ')[2]);
  const place = T.at === null ? -9 : MARGIN.left + (T.at / longest()) * (width - MARGIN.left - MARGIN.right);
  line.setAttribute('x1', place);
  line.setAttribute('x2', place);
};
