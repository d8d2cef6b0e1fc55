// The course of the token maps: a new value builds panels; controls, pointer and keys only redraw.

const LISTED = 16; // a row of more tokens is listed by its strongest
const BESIDE = 20; // the list stands beside a map of no more tokens, else below it
const unique = Math.random().toString(36).slice(2);

const TOKENS = { map: ['weights', 'first', 'subtracted'], scale: ['uniform', 'raw'], start: ['in', 'aside'], ramp: ['root', 'linear'], 'head-0': wholeTo(64), 'head-1': wholeTo(64) };
const keepTokens = () => keepView(TOKENS, { ...S, map: S.which, 'head-0': S.heads[0], 'head-1': S.heads[1] });

function segment(fieldset, name, options, chosen, choose) {
  const labels = options.map(([value, text]) => {
    const label = make('label');
    const input = make('input');
    Object.assign(input, { type: 'radio', name: `${unique}${name}`, value, checked: value === chosen });
    input.addEventListener('change', () => { choose(value); show(); keepTokens(); });
    label.append(input, make('span', '', text));
    return label;
  });
  fieldset.querySelector('.options').replaceChildren(...labels);
}

function buildControls() {
  const pick = (field) => (value) => { S[field] = value; };
  const some = (test) => S.panels.some((panel) => !panel.message && test(panel));
  const maps = some((panel) => panel.differential)
    ? [['weights', some((panel) => !panel.differential) ? 'A, A1 − λA2' : 'A1 − λA2'], ['first', some((panel) => !panel.differential) ? 'A, A1' : 'A1'], ['subtracted', 'λA2']]
    : [['weights', 'A']];
  if (!maps.some(([name]) => name === S.which)) S.which = 'weights';
  segment($('.which'), 'which', maps, S.which, pick('which'));
  segment($('.scale'), 'scale', [['raw', 'raw'], ['uniform', '× uniform']], S.scale, pick('scale'));
  segment($('.start'), 'start', [['in', 'in the range'], ['aside', 'set aside']], S.start, pick('start'));
  segment($('.ramp'), 'ramp', [['linear', 'linear'], ['root', 'square root']], S.ramp, pick('ramp'));
  const fields = props.value.rows.flatMap((row, at) => {
    const heads = Math.max(0, ...row.panels.filter((panel) => !panel.message).map((panel) => panel.heads));
    if (!heads) return [];
    S.heads[at] = Math.min(S.heads[at], heads);
    const field = make('fieldset', 'seg head');
    field.append(make('legend', '', `Head · ${row.title}`), make('span', 'options'));
    const options = ['mean', ...Array(heads).keys()].map((text, slot) => [slot, String(text)]);
    segment(field, `head${at}`, options, S.heads[at], (slot) => { S.heads[at] = slot; });
    return [field];
  });
  $('.heads').replaceChildren(...fields);
}

function buildPanel(panel) {
  const figure = make('figure');
  panel.caption = make('figcaption');
  panel.frame = make('div', 'frame');
  figure.append(panel.caption);
  if (panel.message) {
    figure.append(make('p', 'message', panel.message));
    return figure;
  }
  panel.canvas = make('canvas');
  Object.assign(panel.canvas, { tabIndex: 0, panel });
  panel.canvas.setAttribute('role', 'img');
  panel.tip = make('div', 'tip');
  panel.tip.hidden = true;
  panel.tip.setAttribute('aria-hidden', 'true');
  panel.none = make('p', 'message', 'Standard attention subtracts nothing, so there is no λA2.');
  panel.frame.append(panel.canvas, panel.tip, panel.none);
  panel.list = make('table', 'bars');
  const lines = make('div', `lines${panel.n > BESIDE ? ' long' : ''}`);
  lines.append(panel.frame, panel.list);
  figure.append(lines, ...panel.warnings.map((note) => make('p', 'warning', note)), ...(panel.left ? [make('p', 'left', panel.left)] : []));
  return figure;
}

function build() {
  const { rows, prompts } = props.value;
  S.query = S.cell = null;
  S.panels = rows.flatMap((row, at) => row.panels.map((panel) => unpack(panel, at)));
  $('.rows').replaceChildren(...rows.map((row, at) => {
    const section = make('section', 'model');
    const title = make('h4', '', row.title);
    title.append(make('span', '', [row.panels.some((panel) => !panel.message) ? `layer ${props.value.layer}` : '', row.said].filter(Boolean).join(' · ')));
    const panels = make('div', 'panels');
    panels.style.setProperty('--prompts', Math.max(1, prompts.length));
    panels.append(...S.panels.filter((panel) => panel.row === at).map(buildPanel));
    section.append(title, ...(row.message ? [make('p', 'message', row.message)] : []), panels);
    return section;
  }));
  buildControls();
}

function fillCaption(panel) {
  const parts = [make('b', '', panel.message ? '' : nameOf(panel)), make('span', 'said', `“${panel.text}”`)];
  parts[1].title = panel.text;
  if (!panel.message && !nothing(panel)) {
    if (S.start === 'aside' && panel.beyond > S.top[signed(panel) ? 'signed' : 'sequential']) parts.push(make('em', 'badge', `first token up to ${written(panel.beyond)}${unit()}, beyond the range`));
    if (panel.negative) parts.push(make('em', 'badge', 'λ < 0: added'));
  }
  panel.caption.replaceChildren(...parts);
  if (!panel.message) panel.canvas.setAttribute('aria-label', `${nameOf(panel)} of ${panel.model} for “${panel.text}”, ${panel.n} by ${panel.n} tokens. Arrow keys move from cell to cell.`);
}

// The listed row as bars, in the order of the tokens; of a long row the strongest, and what the others sum to.
function fillList(panel) {
  const q = queryOf(panel);
  const keys = [...Array(panel.n).keys()].filter((k) => !masked(panel, q, k));
  const size = (k) => Math.abs(valueAt(panel, q, k));
  const listed = keys.length > LISTED ? [...keys].sort((a, b) => size(b) - size(a)).slice(0, LISTED - 1).sort((a, b) => a - b) : keys;
  const widest = Math.max(...keys.map(size)) || 1;
  const withSigns = signed(panel);
  const caption = make('caption', '', `“${panel.tokens[q]}”${q === panel.readout ? ', read out,' : ''} reads, sum ${written(keys.reduce((sum, k) => sum + rawValue(panel, q, k), 0))}`);
  const rows = listed.map((k) => {
    const row = make('tr', S.cell?.panel && cellOf(panel)?.query === q && cellOf(panel).key === k ? 'here' : '');
    // Where some are left out, the position tells words apart that stand there more than once.
    const label = make('th', '', listed.length < keys.length ? `${k} · ${panel.tokens[k]}` : panel.tokens[k]);
    label.scope = 'row';
    const track = make('td');
    const lane = make('div', `track${withSigns ? ' signed' : ''}`);
    const bar = make('i', valueAt(panel, q, k) < 0 ? 'negative' : '');
    const share = (size(k) / widest) * (withSigns ? 50 : 100);
    bar.style.width = `${share}%`;
    bar.style.left = `${!withSigns ? 0 : valueAt(panel, q, k) < 0 ? 50 - share : 50}%`;
    lane.append(bar);
    track.append(lane);
    row.append(label, track, make('td', 'value', both(panel, q, k)));
    return row;
  });
  if (listed.length < keys.length) {
    const others = keys.filter((k) => !listed.includes(k));
    const row = make('tr');
    const label = make('th', '', `${others.length} others`);
    label.scope = 'row';
    row.append(label, make('td'), make('td', 'value', `${written(others.reduce((sum, k) => sum + rawValue(panel, q, k), 0))} in all`));
    rows.push(row);
  }
  panel.list.replaceChildren(caption, ...rows);
}

function fillScales() {
  const live = S.panels.filter((panel) => !panel.message && !nothing(panel));
  const kinds = ['sequential', 'signed'].filter((kind) => live.some((panel) => (kind === 'signed') === signed(panel)));
  $('.scales').replaceChildren(...kinds.map((kind) => {
    const node = make('div', `bar ${kind}`);
    const canvas = make('canvas');
    [canvas.width, canvas.height] = [512, 10];
    drawBar(canvas, kind === 'signed' ? SIGNED : SEQUENTIAL);
    const names = [...new Set(live.filter((panel) => (kind === 'signed') === signed(panel)).map(nameOf))].join(', ');
    const top = `${written(S.top[kind])}${unit()}`;
    const said = `one scale for ${names}: ${S.scale === 'uniform' ? '× uniform over the keys that the row can read' : SCALES.raw}, ${S.ramp === 'root' ? 'square-root' : 'linear'} ramp${S.start === 'aside' ? ', first token set aside' : ''}`;
    const ends = make('div', 'ends');
    ends.append(make('span', '', kind === 'signed' ? `−${top}` : '0'), make('span', '', kind === 'signed' ? `0 · ${said}` : said), make('span', '', kind === 'signed' ? `+${top}` : top));
    node.append(canvas, ends);
    return node;
  }));
}

function fillTip(panel) {
  const cell = cellOf(panel);
  panel.tip.hidden = !cell || nothing(panel);
  if (panel.tip.hidden) return;
  panel.tip.textContent = masked(panel, cell.query, cell.key) ? 'masked' : `${panel.tokens[cell.query]} → ${panel.tokens[cell.key]}\n${both(panel, cell.query, cell.key)}`;
  const { room, cell: side, width } = panel.place;
  const x = room + (cell.key + 1) * side + 6, y = Math.max(0, room + cell.query * side - 12);
  panel.tip.style.top = `${y}px`;
  const left = x + panel.tip.offsetWidth > width ? room + cell.key * side - 6 - panel.tip.offsetWidth : x;
  panel.tip.style.left = `${Math.max(0, left)}px`;
}

function fillLine() {
  if (!S.cell) { $('.line').textContent = ''; return; }
  const { panel, query, key } = S.cell;
  const said = S.panels.filter((each) => !each.message && !nothing(each) && linked(each, panel)).map((each) =>
    `${each.model}: ${nameOf(each)} ${masked(each, query, key) ? 'masked' : both(each, query, key)}`);
  $('.line').textContent = `“${panel.tokens[query]}” reads “${panel.tokens[key]}” · ${said.join(' · ')}`;
}

function redraw() {
  for (const panel of S.panels) {
    if (panel.message) continue;
    fillTip(panel);
    if (nothing(panel)) continue;
    drawPanel(panel);
    fillList(panel);
  }
  fillLine();
}

function show() {
  if (!props.value?.rows) return;
  computeRanges();
  const live = S.panels.filter((panel) => !panel.message);
  for (const panel of S.panels) fillCaption(panel);
  for (const panel of live) {
    panel.canvas.hidden = panel.list.hidden = nothing(panel);
    panel.none.hidden = !nothing(panel);
    if (!nothing(panel)) layOut(panel);
  }
  redraw();
  fillScales();
  $('.hatching').hidden = !live.some((panel) => panel.blocked.includes(1));
  $('.rescaled').hidden = !live.some(signed);
  element.dataset.shown = JSON.stringify([props.value.layer, S.which, ...props.value.prompts]);
}

function point(cell) {
  if (!cell && !S.cell) return;
  if (cell && S.cell && cell.panel === S.cell.panel && cell.query === S.cell.query && cell.key === S.cell.key) return;
  S.cell = cell;
  redraw();
}

function under(event) {
  const panel = event.target.panel;
  if (!panel) return null;
  const area = panel.canvas.getBoundingClientRect();
  return cellUnder(panel, event.clientX - area.left, event.clientY - area.top);
}

element.addEventListener('pointermove', (event) => event.pointerType === 'mouse' && point(under(event)));
element.addEventListener('pointerleave', () => point(null));
element.addEventListener('click', (event) => {
  const cell = under(event);
  if (!cell) return;
  S.query = S.query?.at === cell.query && linked(cell.panel, S.query.panel) ? null : { panel: cell.panel, at: cell.query };
  S.cell = cell;
  redraw();
});

element.addEventListener('keydown', (event) => {
  const panel = event.target.panel;
  if (!panel || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (event.key === 'Escape') { S.query = S.cell = null; redraw(); }
  else if (step) {
    const clamp = (i) => Math.min(panel.n - 1, Math.max(0, i));
    const from = cellOf(panel) ?? { query: queryOf(panel) - step[0], key: -step[1] };
    const cell = { panel, query: clamp(from.query + step[0]), key: clamp(from.key + step[1]) };
    S.query = cell.query === panel.readout ? null : { panel, at: cell.query };
    point(cell);
  } else return;
  event.preventDefault();
});

function sayTaken(text) {
  $('.saved').textContent = text;
  $('.saved').hidden = !text;
}

// What is shown goes with the request; heads are told of the rows that can be taken away.
$('.take').addEventListener('click', () => {
  const { which, scale, start, ramp } = S;
  const heads = props.value.taken.map((row) => S.heads[row]);
  saveFigure($('.take'), () => server.take_strip({ token: props.value.take, which, heads, scale, start, ramp }), sayTaken);
});

function load() {
  if (!props.value?.rows) return;
  $('.take').hidden = !props.value.take;
  sayTaken('');
  $('.empty').hidden = true;
  $('.controls').hidden = $('.stage').hidden = $('.below').hidden = false;
  build();
  show();
}

const { map: which, 'head-0': left, 'head-1': right, ...others } = viewOf(TOKENS);
Object.assign(S, others, { which, heads: [Number(left), Number(right)] });
new ResizeObserver(() => show()).observe($('.stage'));
// The page's colours are drawn too, and they change with its theme.
new MutationObserver(redraw).observe(document.body, { attributes: true, attributeFilter: ['class'] });
watch('value', load);
load();
