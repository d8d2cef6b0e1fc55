// Controls, hovering, keys, and which checkpoint is to be opened.
const find = (name) => element.querySelector(name);
const pressed = (button, yes) => button.setAttribute('aria-pressed', String(yes));
const keptSteps = () => shownRuns().flatMap((run) => run.kept.map((step) => ({ run, step })));
const drawControls = () => {
  element.querySelectorAll('.segments button').forEach((button) => pressed(button, button.dataset.axis === T.axis));
  find('.runs').replaceChildren(...curvedRuns().map((run) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.dataset.run = run.key;
    pressed(button, !T.hidden.has(run.key));
    const svg = drawn(button, 'svg', { width: 26, height: 8, 'aria-hidden': 'true' });
    svg.style.width = '26px';
    drawn(svg, 'line', { x1: 0, x2: 26, y1: 4, y2: 4, stroke: 'currentColor', 'stroke-width': 2, 'stroke-dasharray': dashOf(run) });
    button.append(run.title);
    return button;
  }));
  find('.notes').replaceChildren(...runs().filter((run) => run.said).map((run) => {
    const note = document.createElement('li');
    note.textContent = `${run.title}: ${run.said}`;
    return note;
  }));
  const kept = keptSteps();
  const chosen = find('.kept').value;
  find('.kept').replaceChildren(...kept.map(({ run, step }) => {
    const option = document.createElement('option');
    option.value = JSON.stringify([run.key, step]);
    option.textContent = step ? `${run.title}, step ${step.toLocaleString('en')}` : run.title;
    return option;
  }));
  if (kept.some(({ run, step }) => JSON.stringify([run.key, step]) === chosen)) find('.kept').value = chosen;
  find('.open').hidden = !kept.length;
  find('.nothing').hidden = runs().length > 0;
};
const drawCharts = () => {
  const towers = TOWER_NAMES.filter((tower) => shownRuns().some((run) => run.towers[tower]));
  find('.charts').replaceChildren(...towers.map((tower) => {
    const section = document.createElement('section');
    section.dataset.tower = tower;
    const title = document.createElement('h3');
    title.textContent = `${tower} tower`;
    section.append(title);
    const scroll = document.createElement('div');
    scroll.className = 'scroll';
    scroll.append(document.createElement('table'));
    QUANTITIES.forEach(([quantity, label]) => {
      if (quantity !== 'lam' && !(T.terms && shownRuns().some((run) => (run.towers[tower] || {})[quantity]))) return;
      const svg = drawn(section, 'svg', { role: 'img', 'aria-label': `${label} of each layer, ${tower} tower` });
      svg.dataset.quantity = quantity;
    });
    section.append(scroll);
    return section;
  }));
  find('.charts').hidden = !towers.length;
  find('.charts').dataset.drawn = String(towers.length);
  eachPlot((svg, tower) => drawPlot(svg, tower, svg.dataset.quantity, QUANTITIES.find(([name]) => name === svg.dataset.quantity)[1]));
  drawReading();
};
const eachPlot = (act) => element.querySelectorAll('section').forEach((section) => section.querySelectorAll(':scope > svg').forEach((svg) => act(svg, section.dataset.tower)));
const drawReading = () => {
  eachPlot(placeCursor);
  element.querySelectorAll('section').forEach((section) => drawTable(section.querySelector('table'), section.dataset.tower));
  if (T.at === null) {
    find('.read').textContent = shownRuns().length ? 'The table shows the last logged λ. Point at the curves, or use the arrow keys, for earlier ones; click a step to choose the nearest kept checkpoint.' : '';
    return;
  }
  const lines = shownRuns().flatMap((run) => {
    const tower = Object.values(run.towers).find((one) => one.steps);
    if (!tower) return [];
    const index = nearestIndex(tower[T.axis], T.at);
    return [`${run.title}: step ${tower.steps[index].toLocaleString('en')}, ${tower.samples[index].toLocaleString('en')} samples`];
  });
  find('.read').textContent = lines.join(' · ') + (T.marked ? ' · marked, Escape leaves' : '');
};
// The logged points of all runs: one run may go on where another has ended.
const axisPoints = () => {
  const logged = shownRuns().flatMap((run) => Object.values(run.towers).filter((one) => one.steps).slice(0, 1));
  return [...new Set(logged.flatMap((tower) => tower[T.axis]))].sort((a, b) => a - b);
};
const moveTo = (at) => {
  const points = axisPoints();
  T.at = points.length ? points[nearestIndex(points, at)] : null;
  drawReading();
};
const placeOf = (event) => {
  const svg = event.target.closest('section > svg');
  if (!svg) return null;
  const box = svg.getBoundingClientRect();
  return ((event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right)) * longest();
};
// The kept checkpoint nearest to the marked point becomes the chosen one.
const mark = () => {
  T.marked = T.at !== null;
  const distance = ({ run, step }) => {
    const tower = Object.values(run.towers).find((one) => one.steps);
    return tower ? Math.abs(tower[T.axis][nearestIndex(tower.steps, step)] - T.at) : Infinity;
  };
  const nearest = keptSteps().sort((a, b) => distance(a) - distance(b))[0];
  if (nearest && T.marked) find('.kept').value = JSON.stringify([nearest.run.key, nearest.step]);
  drawReading();
};
const redraw = () => { drawControls(); drawCharts(); };
// What is shown goes with the request; hidden runs are told by their places among those that can be taken away.
const takeAway = () => {
  const hidden = props.value.taken.flatMap((at, place) => (T.hidden.has(runs()[at].key) ? [place] : []));
  const { axis, terms, layer } = T;
  saveFigure(find('.take'), () => server.take_strip({ token: props.value.take, axis, terms, layer, hidden }), (text) => { find('.saved').textContent = text; });
};
const offer = () => {
  find('.take').hidden = !(props.value && props.value.take);
  find('.saved').textContent = '';
};
element.addEventListener('pointermove', (event) => {
  const at = T.marked ? null : placeOf(event);
  if (at !== null) moveTo(at);
});
element.addEventListener('pointerleave', () => { if (!T.marked) { T.at = null; drawReading(); } });
element.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  const at = placeOf(event);
  if (button && button.dataset.axis) { T.axis = button.dataset.axis; T.at = null; T.marked = false; redraw(); keepChart(); }
  else if (button && button.classList.contains('take')) takeAway();
  else if (button && button.dataset.run) {
    const { run } = button.dataset;
    if (!T.hidden.delete(run)) T.hidden.add(run);
    redraw();
    keepHidden();
    element.querySelector(`.runs [data-run="${CSS.escape(run)}"]`).focus();
  }
  else if (button && button.dataset.layer) {
    const layer = Number(button.dataset.layer);
    const section = button.closest('section').dataset.tower;
    T.layer = T.layer === layer ? null : layer;
    keepChart();
    drawCharts();
    element.querySelector(`section[data-tower="${section}"] button[data-layer="${layer}"]`).focus();
  } else if (button && button.dataset.side && find('.kept').value) {
    const [run, step] = JSON.parse(find('.kept').value);
    trigger('select', { run, step, side: button.dataset.side });
  } else if (at !== null) { moveTo(at); mark(); }
});
element.addEventListener('change', (event) => {
  if (event.target.classList.contains('terms')) { T.terms = event.target.checked; drawCharts(); keepChart(); }
});
find('.charts').addEventListener('keydown', (event) => {
  if (event.target.closest('button')) return;
  const points = axisPoints();
  if (!points.length) return;
  const now = T.at === null ? points.length - 1 : nearestIndex(points, T.at);
  const moves = { ArrowLeft: now - (event.shiftKey ? 10 : 1), ArrowRight: now + (event.shiftKey ? 10 : 1), Home: 0, End: points.length - 1 };
  if (event.key in moves) { T.marked = false; moveTo(points[Math.min(points.length - 1, Math.max(0, moves[event.key]))]); }
  else if (event.key === 'Enter') mark();
  else if (event.key === 'Escape') { T.at = null; T.marked = false; drawReading(); }
  else return;
  event.preventDefault();
});
const CHART = { axis: ['samples', 'steps'], terms: ['false', 'true'], layer: ['', ...wholeTo(64)] };
const keepChart = () => keepView(CHART, { ...T, layer: T.layer ?? '' });
const linkedChart = viewOf(CHART);
Object.assign(T, { axis: linkedChart.axis, terms: linkedChart.terms === 'true', layer: linkedChart.layer === '' ? null : Number(linkedChart.layer) });
find('.terms').checked = T.terms;
// Which models' runs are hidden, also in the address; logs and folders have no name there.
let hiding;
const keepHidden = () => {
  clearTimeout(hiding);
  hiding = setTimeout(() => {
    const address = new URL(location.href);
    address.searchParams.delete(viewKey('hidden'));
    curvedRuns().filter((run) => run.model && T.hidden.has(run.key)).forEach((run) => address.searchParams.append(viewKey('hidden'), run.key));
    history.replaceState(history.state, '', address);
  }, VIEW_MOMENT);
};
new URLSearchParams(location.search).getAll(viewKey('hidden')).forEach((run) => T.hidden.add(run));
// A layer that none of the runs has can be chosen no more, and its head is gone.
const keepLayer = () => {
  if (T.layer === null || !runs().length || TOWER_NAMES.some((tower) => T.layer < layersOf(tower))) return;
  T.layer = null;
  keepChart();
};
watch('value', () => {
  // Whoever stands on a run by keys stays on it.
  const { run } = element.contains(document.activeElement) ? document.activeElement.dataset : {};
  T.at = null; T.marked = false;
  keepLayer(); offer(); redraw(); keepHidden();
  if (run) element.querySelector(`.runs [data-run="${CSS.escape(run)}"]`)?.focus();
});
let width = 0;
new ResizeObserver(() => {
  if (Math.abs(element.clientWidth - width) < 2) return;
  width = element.clientWidth;
  drawCharts();
}).observe(element);
offer();
redraw();
