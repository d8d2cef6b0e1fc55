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

// How many layers the models have which are chosen or shown; `sides` may still hold one that was replaced.
function depths() {
  const here = [S.left, S.right, ...modelsShown()].map(sideOf).filter(Boolean);
  return (here.length ? here : Object.values(props.value.sides)).map(({ layers }) => layers);
}

// The last layer that any of them has.
const deepest = () => Math.max(...depths()) - 1;

// The last layer that all of them have, of those that have attention: where the first view begins.
const lastOfAll = () => Math.max(0, Math.min(deepest(), ...depths().filter(Boolean).map((layers) => layers - 1)));
