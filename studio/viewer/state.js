// State of the viewer. All of it is here; the server keeps none of it.

const S = {
  settings: [], // of each panel: {model, kind, head: 'mean' | number, own, field}; see fieldOf
  untouched: '', // the panels that the models have of their own, as text
  layer: null, alpha: 1, source: 'qk', direction: 'reads', scale: 'uniform', ramp: 'root', drawing: 'patches',
  opacity: 0.75, aside: 'prefix', text: '', typed: false, from: null,
  query: null, hover: null,
  swipe: { on: false, left: 0, right: 1, at: 0.5 },
  overview: { open: false, statistic: null, over: 'readout' },
  panels: [], answers: {}, tops: {},
  shownAs: null, // {sides, window} of the value before, for a query whose model is replaced
  grey: null, picture: '', token: '', run: '', left: '', right: '', pending: null,
  turn: 0, ready: false, again: false, drawn: null,
};
const $ = (selector) => element.querySelector(selector);
const $$ = (selector) => [...element.querySelectorAll(selector)];

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const sideOf = (model) => props.value.sides[model];
const modelsShown = () => [...new Set(S.settings.map((setting) => setting.model))];

// The last layer that any model has which is chosen or shown; `sides` may still hold one that was replaced.
function deepest() {
  const here = [S.left, S.right, ...modelsShown()].map(sideOf).filter(Boolean);
  return Math.max(...(here.length ? here : Object.values(props.value.sides)).map(({ layers }) => layers)) - 1;
}
