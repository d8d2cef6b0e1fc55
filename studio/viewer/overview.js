// Overview: one statistic of every layer and head, for the models shown, on one colour scale. A click goes there.

const KEPT_OVERVIEWS = 12;
const overviews = new Map(); // question as text -> answer

const overviewModels = () => modelsShown().filter(sideOf);
const overviewQuestion = () => ({ token: S.token, models: overviewModels(), over: S.overview.over, alpha: S.alpha, source: S.source });
const statisticNow = () => props.value.statistics.find(({ name }) => name === S.overview.statistic);

function wireOverview() {
  const again = () => { S.overview.failed = null; showOverview(); if (S.ready) writeLink(); };
  $('.overview-toggle').addEventListener('click', () => {
    S.overview.open = !S.overview.open;
    fold();
    if (S.ready) again();
  });
  $('.statistic').addEventListener('change', (event) => { S.overview.statistic = event.target.value; again(); });
  $('.over').addEventListener('change', (event) => { S.overview.over = event.target.value; fillStatistics(); again(); });
}

// The part is open or not, by a person or a link.
function fold() {
  $('.overview-toggle').setAttribute('aria-expanded', String(S.overview.open));
  $('.overview-toggle').textContent = S.overview.open ? 'Hide overview' : 'Show overview';
  $('.overview-body').hidden = !S.overview.open;
  $('.over').value = S.overview.over;
}

function fillStatistics() {
  const known = props.value.statistics.filter(({ whole }) => !whole || S.overview.over === 'all');
  $('.statistic').replaceChildren(...known.map(({ name, label }) => Object.assign(make('option', '', label), { value: name })));
  if (!known.some(({ name }) => name === S.overview.statistic)) S.overview.statistic = known[0].name;
  $('.statistic').value = S.overview.statistic;
}

// Draws what is known and asks for what is not, but not again for what failed.
function showOverview() {
  if (!S.overview.open) return;
  const asked = overviewQuestion();
  const key = JSON.stringify(asked);
  const answer = overviews.get(key);
  if (answer) { drawOverview(answer); return; }
  if (key === S.overview.failed || key === questionOf('expand')) return;
  $('.overview').setAttribute('aria-busy', 'true');
  fillProgress(0, 1, 'waiting …');
  putQuestion('expand', asked);
}

function fillProgress(done, of, text) {
  const bar = $('.overview progress');
  bar.hidden = false;
  bar.max = of;
  bar.value = done;
  $('.overview-state').textContent = text;
}

function overviewCame() {
  const got = props.overview;
  if (!got?.asked) return;
  const key = JSON.stringify(got.asked);
  if (got.layers) {
    overviews.set(key, got);
    if (overviews.size > KEPT_OVERVIEWS) overviews.delete(overviews.keys().next().value);
  }
  if (key !== questionOf('expand')) return;
  const wanted = S.overview.open && key === JSON.stringify(overviewQuestion());
  if (!got.layers && !got.error) {
    heardOf('expand');
    if (wanted) fillProgress(got.done, got.of, `layer ${got.done} of ${got.of}`);
    return;
  }
  answered('expand');
  if (got.error) S.overview.failed = key;
  if (got.error && wanted) {
    $('.overview progress').hidden = true;
    $('.overview-state').textContent = got.error;
    $('.overview').setAttribute('aria-busy', 'false');
  } else showOverview();
}

const written = (statistic, value) => (value === null || value === undefined ? '–' : statistic.percent ? percent(value) : rounded(value, Math.abs(value) >= 10 ? 1 : 2));

function overviewRange(answer, statistic) {
  const values = Object.values(answer.layers).flat().flatMap((layer) => layer.values?.[statistic.name] ?? []).filter((v) => v !== null);
  if (statistic.centre !== null) {
    const reach = Math.max(1e-9, ...values.map((v) => Math.abs(v - statistic.centre)));
    return { low: statistic.centre - reach, high: statistic.centre + reach, table: SIGNED };
  }
  return { low: Math.min(0, ...values), high: Math.max(1e-9, ...values), table: SEQUENTIAL };
}

function drawOverview(answer) {
  const statistic = statisticNow();
  const range = overviewRange(answer, statistic);
  $('.overview progress').hidden = true;
  $('.overview').setAttribute('aria-busy', 'false');
  $('.overview-state').textContent = '';
  const focus = document.activeElement?.closest?.('.overview') ? document.activeElement.dataset.at : null;
  $('.grids').replaceChildren(...Object.entries(answer.layers).map(([model, layers]) => overviewGrid(model, layers, statistic, range)));
  if (focus) $(`.grids [data-at="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  drawBar($('.overview-bar canvas'), range.table);
  const ends = [written(statistic, range.low), `${statistic.label}, one scale for all models, linear`, written(statistic, range.high)];
  $$('.overview-bar .ends span').forEach((span, i) => (span.textContent = ends[i]));
  const over = S.overview.over === 'all' ? 'mean over the rows of all tokens' : `of the row of ${queryReadout()}`;
  const readout = answer.asked.alpha !== 1 || answer.asked.source !== 'qk' ? ' Readout, recomputed from the unmodified run.' : '';
  $('.overview-meaning').textContent = `${statistic.meaning} Here: ${over}. Rows are layers, the first column is the map that is the mean over heads.${readout}`;
  $('.overview-reading').textContent = 'Point at a cell, or move with the arrow keys, for its number; click or Enter goes to its layer and head.';
  drawMatches(answer);
}

const queryReadout = () => (overviewModels().map(sideOf).every((side) => side.cls) ? 'CLS' : 'CLS, or the mean over patches where there is none');

function overviewGrid(model, layers, statistic, range) {
  const side = sideOf(model);
  const block = make('div', 'grid-of');
  block.append(make('div', 'grid-title', `${side.title} · ${side.differential ? 'A1 − λA2' : 'A'}`));
  const table = make('table', 'cells');
  table.setAttribute('role', 'grid');
  table.setAttribute('aria-label', `${statistic.label} of ${side.title} by layer and head`);
  const one = layers.every((layer) => (layer.values?.[statistic.name]?.length ?? 1) === 1);
  const head = make('tr');
  head.append(make('th'), ...['mean', ...Array(side.heads).keys()].slice(0, one ? 1 : undefined).map((text) => make('th', 'num', one ? 'all' : String(text))));
  table.append(head);
  layers.forEach((layer, at) => {
    const line = make('tr');
    line.append(make('th', 'num', side.pooled && at === side.layers - 1 ? 'pool' : String(at)));
    const values = layer.values?.[statistic.name];
    if (!values) {
      const cell = make('td', 'none', layer.error ?? 'not defined for this model');
      cell.colSpan = side.heads + 1;
      line.append(cell);
    } else values.forEach((value, slot) => line.append(overviewCell(model, at, slot, value, layer.control?.[statistic.name]?.[slot], statistic, range, one)));
    table.append(line);
  });
  // Where what is shown has no cell, as in a layer for which the statistic is not defined, Tab comes to the first.
  if (!table.querySelector('.here')) table.querySelector('.cell')?.setAttribute('tabindex', '0');
  block.append(table);
  return block;
}

function overviewCell(model, layer, slot, value, control, statistic, range, one) {
  const cell = make('td');
  cell.setAttribute('role', 'gridcell');
  const button = make('button', 'cell');
  button.type = 'button';
  const heads = S.settings.filter((each) => each.model === model).map((each) => slotOf(each.head));
  const here = layer === S.layer && (one || heads.includes(slot));
  button.tabIndex = here ? 0 : -1;
  button.dataset.at = `${model} ${layer} ${slot}`;
  button.classList.toggle('here', here);
  if (here) button.setAttribute('aria-current', 'true');
  const share = value === null ? null : (value - range.low) / (range.high - range.low || 1);
  if (share === null) button.classList.add('undefined');
  else {
    const at = Math.round(Math.min(1, Math.max(0, share)) * (ENTRIES - 1)) * 3;
    button.style.background = `rgb(${range.table[at]}, ${range.table[at + 1]}, ${range.table[at + 2]})`;
  }
  const beside = control === undefined ? '' : ` (A2 shuffled ${written(statistic, control)})`;
  const words = `${sideOf(model).title}, layer ${layer}, ${one ? 'all heads' : slot ? `head ${slot - 1}` : 'mean over heads'}: ${written(statistic, value)}${beside}`;
  button.setAttribute('aria-label', words);
  for (const event of ['pointerenter', 'focus']) button.addEventListener(event, () => ($('.overview-reading').textContent = words));
  button.addEventListener('click', () => goTo(model, layer, one ? null : slot));
  button.addEventListener('keydown', (event) => stepCell(event, model, layer, slot));
  cell.append(button);
  return cell;
}

function goTo(model, layer, slot) {
  if (slot !== null) S.settings.forEach((each) => { if (each.model === model) each.head = slot ? slot - 1 : 'mean'; });
  buildPanels();
  setLayer(layer);
}

function stepCell(event, model, layer, slot) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  // Layers for which the statistic is not defined have no cells and are passed over.
  for (let far = 1; far <= sideOf(model).layers; far++) {
    const next = $(`.grids [data-at="${CSS.escape(`${model} ${layer + far * step[0]} ${slot + far * step[1]}`)}"]`);
    if (next || step[1]) { next?.focus(); return; }
  }
}

// Heads have no order across models: which of the second model goes with which of the first, in the layer shown.
function drawMatches(answer) {
  const [first, second] = answer.asked.models;
  const found = answer.matches[S.layer];
  const box = $('.matches');
  box.hidden = !found;
  if (!found) return;
  const titles = [first, second].map((model) => sideOf(model)?.title ?? model);
  const parts = found.error ? [make('span', '', found.error)] : found.partner.map((partner, head) => {
    const cosine = found.cosine[head];
    const button = make('button', 'match num', `${head} ↔ ${partner} ${cosine === null ? '–' : cosine.toFixed(2)}`);
    button.type = 'button';
    button.title = `Show head ${head} of ${titles[0]} beside its best match, head ${partner} of ${titles[1]}`;
    button.addEventListener('click', () => {
      S.settings.forEach((each) => { if (each.model === first) each.head = head; if (each.model === second) each.head = partner; });
      panelsChanged();
    });
    return button;
  });
  const held = [...box.children].indexOf(document.activeElement);
  box.replaceChildren(make('span', 'matches-title', `Best matches in layer ${S.layer}, head of ${titles[0]} ↔ head of ${titles[1]}, cosine of their maps:`), ...parts);
  if (held >= 0) box.children[held]?.focus({ preventScroll: true });
}
