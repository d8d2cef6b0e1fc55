// The edits of one model, tower by tower. The value is replaced whole at each edit, so that nothing is half changed.

const $ = (selector) => element.querySelector(selector);
const unique = Math.random().toString(36).slice(2);
const A2 = { learned: 'learned', shuffled: 'shuffled', uniform: 'uniform', other: "another picture's" };
let built = '';
let shown = 'vision';

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const tower = () => props.value.towers.find((each) => each.name === shown);
const chosen = () => props.value.chosen[shown];

function edit(change) {
  const value = props.value;
  props.value = { ...value, chosen: { ...value.chosen, [shown]: { ...chosen(), ...change } } };
  paint();
  trigger('input');
}

function setLambda(layers, value) {
  const lam = Array.from({ length: tower().lambdas }, (_, layer) => chosen().lam[layer] ?? null);
  for (const layer of layers) lam[layer] = typeof value === 'function' ? value(layer) : value;
  edit({ lam: lam.every((each) => each === null) ? [] : lam });
}

function toggleHead(layer, head, off) {
  const rest = chosen().off.filter(([l, h]) => l !== layer || h !== head);
  edit({ off: off ? [...rest, [layer, head]] : rest });
}

const all = () => [...Array(tower().lambdas).keys()];
const learnedOf = (layer) => tower().learned?.[layer] ?? null;
const text = (value) => (value === null ? '–' : value.toFixed(2).replace('-', '−'));

function segment(selector, options, value, choose) {
  const labels = options.map(([key, name]) => {
    const label = make('label');
    const input = make('input');
    Object.assign(input, { type: 'radio', name: `${unique}${selector}`, value: key, checked: key === value });
    input.addEventListener('change', () => choose(key));
    label.append(input, make('span', '', name));
    return label;
  });
  $(`${selector} .options`).replaceChildren(...labels);
}

function lambdaField(layer) {
  const { lowest, highest } = props.value;
  const field = make('div', 'lam');
  const slider = make('input');
  const number = make('input');
  const back = make('button', '', '↺');
  Object.assign(slider, { type: 'range', min: lowest, max: highest, step: 0.01, ariaLabel: `λ of layer ${layer}` });
  Object.assign(number, { type: 'number', min: lowest, max: highest, step: 0.01, ariaLabel: `λ of layer ${layer}, as a number` });
  Object.assign(back, { type: 'button', title: 'back to the learned λ', ariaLabel: `layer ${layer}: back to the learned λ` });
  slider.addEventListener('input', () => setLambda([layer], Number(slider.value)));
  number.addEventListener('change', () => {
    const value = Number(number.value);
    const fits = number.value !== '' && Number.isFinite(value);
    setLambda([layer], fits ? Math.min(highest, Math.max(lowest, value)) : null);
  });
  back.addEventListener('click', () => { setLambda([layer], null); slider.focus(); });
  field.append(make('span', 'num', tower().learned ? text(learnedOf(layer)) : 'each'), slider, number, back);
  field.firstChild.title = 'learned λ';
  return field;
}

function headField(layer) {
  const field = make('div', 'heads');
  for (let head = 0; head < tower().heads; head++) {
    const label = make('label', 'head', String(head));
    const input = make('input');
    Object.assign(input, { type: 'checkbox', ariaLabel: `ablate head ${head} of layer ${tower().layers[layer]}` });
    input.dataset.head = head;
    label.title = `ablate head ${head}`;
    input.addEventListener('change', () => toggleHead(layer, head, input.checked));
    label.append(input);
    field.append(label);
  }
  return field;
}

function buildRows() {
  const { layers, heads, lambdas } = tower();
  const caption = make('div', 'caption');
  caption.append(make('span', '', 'layer'), make('span', '', lambdas ? 'λ learned, and as it is run' : 'heads, ablated when struck out'), make('span', '', lambdas ? 'heads, ablated when struck out' : ''));
  const rows = layers.map((name, layer) => {
    const row = make('div', `row${lambdas && heads > 6 ? ' wide' : ''}${lambdas ? '' : ' plain'}`);
    const label = make('span', 'name', name);
    label.dataset.short = name;
    row.append(label);
    if (lambdas) row.append(layer < lambdas ? lambdaField(layer) : make('span', 'note', 'no λ here'));
    row.append(headField(layer));
    row.dataset.layer = layer;
    return row;
  });
  $('.rows').replaceChildren(...(layers.length ? [caption, ...rows] : []));
}

function build() {
  const { title, towers } = props.value;
  $('.bench').hidden = false;
  $('.title').textContent = title;
  $('.bench').setAttribute('aria-label', `Edits of ${title}`);
  segment('.towers', towers.map(({ name }) => [name, name]), shown, (name) => {
    shown = name;
    build();
    $('.towers input:checked').focus();
  });
  const { a2, lambdas, note, init } = tower();
  $('.note').textContent = note;
  $('.second').hidden = a2.length < 2;
  segment('.second', a2.map((name) => [name, A2[name]]), chosen().a2, (name) => edit({ a2: name }));
  $('.every').hidden = !lambdas;
  $('.frozen').hidden = !init;
  buildRows();
  paint();
}

// What is chosen, into the controls that are there, so that a slider that is being dragged stays.
function paint() {
  const { lam, a2, off } = chosen();
  const { learned, lambdas } = tower();
  for (const row of element.querySelectorAll('.row')) {
    const layer = Number(row.dataset.layer);
    for (const input of row.querySelectorAll('.head input')) input.checked = off.some(([l, h]) => l === layer && h === Number(input.dataset.head));
    const field = row.querySelector('.lam');
    if (!field) continue;
    const value = lam[layer] ?? null;
    const at = value ?? learnedOf(layer);
    field.classList.toggle('set', value !== null);
    field.querySelector('[type=range]').value = at ?? 1;
    const number = field.querySelector('[type=number]');
    if (document.activeElement !== number || value === null) number.value = at === null ? '' : at.toFixed(2);
  }
  for (const input of element.querySelectorAll('.second input')) input.checked = input.value === a2;
  const values = all().map((layer) => lam[layer] ?? learnedOf(layer));
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known), high = Math.max(...known);
  $('.global').value = known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : 1;
  $('.every .num').textContent = !known.length ? 'learned' : text(low) === text(high) ? text(low) : `${text(low)}–${text(high)}`;
  $('.learned').disabled = lam.every((value) => value === null);
  $('.reset').disabled = Object.values(props.value.chosen).every((each) => each.a2 === 'learned' && !each.off.length && each.lam.every((value) => value === null));
  element.dataset.name = props.value.name;
}

$('.global').addEventListener('input', (event) => setLambda(all(), Number(event.target.value)));
$('.frozen').addEventListener('click', () => setLambda(all(), (layer) => tower().init[layer]));
// A button that cannot be pressed again would drop the focus.
$('.learned').addEventListener('click', () => { setLambda(all(), null); $('.global').focus(); });
$('.reset').addEventListener('click', () => {
  props.value = { ...props.value, chosen: Object.fromEntries(Object.keys(props.value.chosen).map((name) => [name, { lam: [], a2: 'learned', off: [] }])) };
  paint();
  trigger('input');
  $('.towers input:checked').focus();
});

function load() {
  if (!props.value?.towers) return;
  const key = JSON.stringify([props.value.name, props.value.towers]);
  if (key === built) return paint();
  built = key;
  build();
}
watch('value', load);
load();
