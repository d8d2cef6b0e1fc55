// Panels: header with what is chosen, canvas, numbers. Two to four of them.

const FEWEST = 2, MOST = 4;
const CONTROLS = ['kind', 'slot', 'model', 'own', 'remove'];
const KIND_NAMES = {
  a1: 'A1', subtracted: 'λA2', positive: 'positive part', negative: 'negative part',
  relevance: 'relevance', value: 'value-weighted',
};
const kindName = (kind, differential) => (kind === 'weights' ? (differential ? 'A1 − λA2' : 'A') : KIND_NAMES[kind]);
const headName = (head) => (head === 'mean' ? 'mean over heads' : `head ${head}`);
// Of what a panel shows: relevance has no head, whatever its panel showed before.
const headOf = ({ kind, head }) => (kind === 'relevance' ? 'all heads' : headName(head));
const titleOf = (model) => sideOf(model)?.title ?? props.value.choices.find(([name]) => name === model)?.[1] ?? model;

// The focus goes back to where it was, so that the keyboard can go on.
function buildPanels() {
  const { activeElement } = document;
  const held = $$('.panel').findIndex((panel) => panel.contains(activeElement));
  const control = held < 0 ? null : CONTROLS.find((name) => activeElement.classList.contains(name));
  $('.panels').replaceChildren();
  S.panels = S.settings.map(buildPanel);
  $('.panels').style.setProperty('--columns', S.panels.length);
  $('.add').disabled = S.settings.length >= MOST;
  buildSwipe();
  if (control) focusPanel(held, control);
}

// A button that can no longer be pressed, or a choice that is gone, hands the focus to the model of its panel.
function focusPanel(index, control) {
  const panel = $$('.panel')[Math.min(index, S.panels.length - 1)];
  const target = panel.querySelector(`.${control}:enabled`) ?? panel.querySelector('.model');
  target.focus({ preventScroll: true });
}

function buildPanel(setting, index) {
  const figure = make('figure', 'panel');
  const side = sideOf(setting.model);
  const name = kindName(setting.kind, side?.differential);
  const frame = make('div', 'frame');
  const canvas = make('canvas');
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `${name} of ${titleOf(setting.model)}, ${headOf(setting)}, over the picture`);
  const tip = make('div', 'tip');
  tip.hidden = true;
  tip.setAttribute('aria-hidden', 'true');
  const message = make('p', 'message');
  frame.append(canvas, tip, message);
  const facts = make('table', 'facts');
  const panel = { index, setting, side: setting.model, name, canvas, tip, frame, facts, note: message, title: titleOf(setting.model) };
  figure.append(panelHead(panel, side), frame, facts);
  $('.panels').append(figure);
  canvas.panel = panel;
  return panel;
}

function panelHead(panel, side) {
  const { setting, index } = panel;
  const head = make('figcaption', 'head');
  const pick = (className, label, options, chosen, choose) => {
    const select = make('select', `pick ${className}`);
    select.setAttribute('aria-label', `${label} of panel ${index + 1}`);
    select.append(...options.map(([value, text]) => Object.assign(make('option', '', text), { value })));
    select.value = String(chosen);
    select.addEventListener('change', () => choose(select.value));
    return select;
  };
  const kinds = (side?.kinds ?? [setting.kind]).map((kind) => [kind, kindName(kind, side?.differential)]);
  const heads = ['mean', ...Array(side?.heads ?? 0).keys()].map((each) => [String(each), each === 'mean' ? 'mean' : `head ${each}`]);
  const first = make('span', 'line-one');
  first.append(pick('kind', 'Map', kinds, setting.kind, (kind) => change(index, { kind })));
  if (setting.kind !== 'relevance') {
    first.append(pick('slot', 'Head', heads, setting.head, (each) => change(index, { head: each === 'mean' ? 'mean' : Number(each) })));
  }
  const own = make('button', 'tool own', '⇕');
  own.type = 'button';
  own.title = 'Own colour range: this panel alone, from its own values';
  own.setAttribute('aria-label', `Own colour range for panel ${index + 1}`);
  own.setAttribute('aria-pressed', String(Boolean(setting.own)));
  own.addEventListener('click', () => change(index, { own: !setting.own }));
  const remove = make('button', 'tool remove', '×');
  remove.type = 'button';
  remove.title = 'Remove this panel';
  remove.setAttribute('aria-label', `Remove panel ${index + 1}`);
  remove.disabled = S.settings.length <= FEWEST;
  remove.addEventListener('click', () => removePanel(index));
  const tools = make('span', 'tools');
  tools.append(own, remove);
  const second = make('span', 'line-two');
  second.append(pick('model', 'Model', props.value.choices, setting.model, (model) => change(index, { model })), tools);
  const badges = make('span', 'badges');
  panel.badges = badges;
  head.append(first, second, badges);
  return head;
}

function badge(text, why) {
  const node = make('em', 'badge', text);
  node.title = why;
  return node;
}

function fillBadges(panel) {
  const { setting, group, row } = panel;
  const found = [];
  if (setting.own) found.push(badge('own range', 'The colours of this panel run over its own values: do not compare their brightness with other panels.'));
  else if (group === 'signed') found.push(badge('signed, own scale', 'Its colours run both ways from zero; panels without signs do not share its scale, other signed ones do.'));
  else if (group === 'value' || group === 'relevance') found.push(badge('other unit', 'No attention weight: it has a colour range of its own.'));
  if (setting.kind === 'subtracted' && row?.some((value) => value < 0)) found.push(badge('λ < 0: added', 'λ is negative in this layer, so this map is added and not subtracted; drawn is its magnitude.'));
  if (setting.kind === 'relevance' && row) found.push(badge('any layer, head, query', 'Relevance belongs to the picture and the text. It does not depend on layer, head and query.'));
  if (sideOf(setting.model)?.badge) found.push(badge('outside its domain', sideOf(setting.model).badge));
  panel.badges.replaceChildren(...found);
}

// A changed panel. Only a model that has not looked at the picture yet needs the queue.
function change(index, what) {
  const setting = { ...S.settings[index], ...what };
  say(settlePanel(setting, index).join(' '));
  S.settings[index] = setting;
  panelsChanged();
}

function addPanel() {
  if (S.settings.length >= MOST) return;
  const last = S.settings.at(-1);
  const kinds = sideOf(last.model)?.kinds ?? ['weights'];
  const free = kinds.find((kind) => kind !== 'relevance' && !S.settings.some((each) => each.model === last.model && each.kind === kind));
  S.settings.push({ ...last, kind: free ?? last.kind, own: false });
  panelsChanged();
  focusPanel(S.settings.length - 1, 'kind');
}

function removePanel(index) {
  if (S.settings.length <= FEWEST) return;
  S.settings.splice(index, 1);
  panelsChanged();
}

function panelsChanged() {
  buildPanels();
  noteAsked();
  if (modelsShown().some((model) => !sideOf(model) && !props.value.missing[model])) {
    $('.stage').setAttribute('aria-busy', 'true');
    trigger('submit');
  } else {
    S.layer = Math.min(S.layer, deepest());
    Object.assign($('.layer'), { max: deepest(), value: S.layer });
  }
  refresh();
}

// What the server is to look at with each further event: the models that panels show.
function noteAsked() {
  const asked = modelsShown();
  if (JSON.stringify(asked) !== JSON.stringify(props.value.asked)) props.value = { ...props.value, asked };
}

// Canvases are as wide as their column, but never higher than MOST_HIGH; one canvas pixel is one device pixel.
const MOST_HIGH = 460;

function sizeCanvas(canvas, room, high = MOST_HIGH) {
  const { height, width } = props.value;
  const scale = window.devicePixelRatio || 1;
  const wide = Math.min(room, (high * width) / height);
  const size = [Math.max(1, Math.round(wide * scale)), Math.max(1, Math.round(((wide * height) / width) * scale))];
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
  canvas.style.width = `${wide}px`;
}
