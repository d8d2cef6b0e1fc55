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
  if (quantity === 'lam') drawn(svg, 'text', { x: 24, y: 12, style: width < 310 ? 'font-size: 9px' : '' }, keyOf(tower, range));
  niceTicks(...range, 6).forEach((value) => {
    drawn(svg, 'line', { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value), class: 'grid' });
    drawn(svg, 'text', { x: MARGIN.left - 6, y: y(value) + 4, 'text-anchor': 'end' }, signed(String(value)));
  });
  niceTicks(0, end, width > 420 ? 5 : 3).forEach((value) => drawn(svg, 'text', { x: x(value), y: height - 10, 'text-anchor': 'middle' }, shortCount(value)));
  if (quantity === 'lam' && range[0] < 1 && range[1] > 1) {
    drawn(svg, 'line', { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(1), y2: y(1), class: 'one', 'stroke-dasharray': '1 3' });
  }
  shownRuns().forEach((run) => drawRun(svg, run, run.towers[tower], quantity, { x, y, width, end }));
  drawEnds(svg, tower, quantity, { y, width });
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
// The layer's number at the end of its line, for the first run that has lines; moved apart where they would touch.
const drawEnds = (svg, tower, quantity, { y, width }) => {
  const having = (name) => shownRuns().find((run) => run.towers[tower] && run.towers[tower][name]);
  const run = having(quantity) || (quantity === 'lam' ? having('final') : undefined);
  if (!run) return;
  const values = run.towers[tower][quantity] ? run.towers[tower][quantity].map((line) => line[line.length - 1]) : run.towers[tower].final;
  const places = values.map((value, layer) => ({ layer, place: y(value) })).sort((a, b) => a.place - b.place);
  places.forEach((one, i) => { if (i) one.place = Math.max(one.place, places[i - 1].place + 10); });
  places.forEach(({ layer, place }) => {
    const text = drawn(svg, 'text', { x: width - MARGIN.right + 12, y: place + 4, opacity: opacityOf(layer) }, String(layer));
    text.style.fill = layerColour(layer, values.length);
  });
};
const placeCursor = (svg) => {
  const line = svg.querySelector('.cursor');
  if (!line) return;
  const width = Number(svg.getAttribute('viewBox').split(' ')[2]);
  const place = T.at === null ? -9 : MARGIN.left + (T.at / longest()) * (width - MARGIN.left - MARGIN.right);
  line.setAttribute('x1', place);
  line.setAttribute('x2', place);
};
