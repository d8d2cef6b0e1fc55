// Panels: one for A of a standard model, three for a differential one; header, canvas, numbers.

const NAMES = { A: 'A', first: 'A1', subtracted: 'λA2', difference: 'A1 − λA2' };

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function buildPanels() {
  $('.panels').replaceChildren();
  S.panels = props.value.sides.flatMap((model, side) =>
    (model.differential ? ['first', 'subtracted', 'difference'] : ['first']).map((which) => buildPanel(model, side, which)));
  // Six panels stand three by three, a model a line; fewer stand on one line.
  $('.panels').style.setProperty('--columns', S.panels.length > 4 ? 3 : S.panels.length);
}

function buildPanel(model, side, which) {
  const figure = make('figure', 'panel');
  const head = make('figcaption', 'head');
  const name = which === 'first' && !model.differential ? NAMES.A : NAMES[which];
  head.append(make('b', '', name), make('span', 'of', which === 'subtracted' ? `${model.title}, subtracted` : model.title));
  if (which === 'difference') head.append(badge('signed, own scale', 'Its colours run both ways from zero; it does not share the scale of the other panels.'));
  const added = badge('λ < 0: added', 'λ is negative in this layer, so this map is added and not subtracted; drawn is its magnitude.');
  added.hidden = true;
  if (which === 'subtracted') head.append(added);
  if (model.badge) head.append(badge('outside its domain', model.badge));
  const frame = make('div', 'frame');
  const canvas = make('canvas');
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `${name} of ${model.title} over the picture`);
  const tip = make('div', 'tip');
  tip.hidden = true;
  tip.setAttribute('aria-hidden', 'true');
  const message = make('p', 'message');
  frame.append(canvas, tip, message);
  const facts = make('table', 'facts');
  figure.append(head, frame, facts);
  $('.panels').append(figure);
  const panel = { side, which, name, signed: which === 'difference', canvas, tip, frame, facts, added, note: message, title: model.title };
  canvas.panel = panel;
  return panel;
}

function badge(text, why) {
  const node = make('em', 'badge', text);
  node.title = why;
  return node;
}

const percent = (v) => (Number.isFinite(v) ? `${rounded(100 * v, 0)} %` : '–');
const decimal = (v) => (Number.isFinite(v) ? rounded(v, 2) : '–');

// [label, statistic, how it is written, what it means]
function factRows(panel) {
  const cls = S.query ? 'reads CLS' : 'CLS reads itself';
  const ofAll = panel.row ? ` of ${panel.row.length}` : '';
  const plain = [
    ['row sum', 'sum', decimal, 'Sum of the weights of this row over all keys.'],
    ['entropy', 'entropy', decimal, 'Of the row, divided by its largest possible value: 0 one key, 1 all keys alike.'],
    ['support', 'support', (v) => `${v.toFixed(0)}${ofAll}`, 'Keys with a weight above zero.'],
    [cls, 'cls', percent, 'Share of the row on the CLS token, which is no patch and so is not drawn.'],
    ['in object', 'inside', percent, 'Share of the mass on patches that lies on patches at least half covered by an object.'],
    ['AUROC', 'auroc', decimal, 'Chance that a patch on an object (half of it or more) has a larger weight than one on the ground (object on less than a tenth).'],
  ];
  if (panel.which === 'first') return plain;
  if (panel.which === 'subtracted') return [['λ, row sum', ...plain[0].slice(1)], ...plain.slice(1)];
  return [
    ['row sum, 1 − λ', ...plain[0].slice(1)],
    ['negative mass', 'negative', percent, 'Σ|negative entries| divided by Σ|all entries|.'],
    ['entropy, positive', 'entropy', decimal, 'Of the positive part of the row: 0 one key, 1 all keys alike.'],
    [cls, 'cls', percent, 'Magnitude of the CLS entry divided by Σ|all entries|; CLS is no patch and so is not drawn.'],
    ['in object, positive', 'inside', percent, 'Share of the positive mass on patches that lies on patches at least half covered by an object.'],
    ['AUROC, signed', 'auroc', decimal, 'Chance that a patch on an object (half of it or more) has a larger signed weight than one on the ground (object on less than a tenth).'],
  ];
}

function fillFacts(panel) {
  const shuffled = panel.which === 'difference';
  panel.facts.replaceChildren();
  panel.note.textContent = panel.message;
  panel.added.hidden = !panel.row || !panel.row.some((value) => value < 0);
  if (!panel.row) return;
  const at = [panel.slot, panel.query];
  // Every table has this line, so that the numbers of all panels stand side by side.
  if (S.panels.some((other) => other.signed)) {
    const head = make('tr', 'heads-line');
    head.append(make('td'), make('td', '', '\u00a0'), ...(shuffled ? [make('th', 'control', 'A2 shuffled')] : []));
    panel.facts.append(head);
  }
  for (const [label, name, write, meaning] of factRows(panel)) {
    const value = measure(panel.data, panel.which, name, ...at);
    if (value === undefined) continue;
    const line = make('tr');
    line.title = meaning;
    line.dataset.measure = name;
    const heading = make('th', '', label);
    heading.scope = 'row';
    line.append(heading, make('td', 'num', write(value)));
    if (shuffled) line.append(make('td', 'num control', ['sum', 'cls'].includes(name) ? '' : write(measure(panel.data, 'shuffled', name, ...at))));
    panel.facts.append(line);
  }
}

// Canvases are as wide as their column, but never higher than MOST_HIGH; one canvas pixel is one device pixel.
const MOST_HIGH = 460;

function sizePanels() {
  const { height, width } = props.value;
  const scale = window.devicePixelRatio || 1;
  for (const { canvas, frame } of S.panels) {
    const wide = Math.min(frame.clientWidth, (MOST_HIGH * width) / height);
    const size = [Math.max(1, Math.round(wide * scale)), Math.max(1, Math.round(((wide * height) / width) * scale))];
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    canvas.style.width = `${wide}px`;
  }
}
