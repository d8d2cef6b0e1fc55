// State of the viewer. All of it is here; the server keeps none of it.

const S = {
  layer: null, alpha: 1, heads: [0, 0], scale: 'uniform', ramp: 'root', drawing: 'patches', opacity: 0.75,
  query: null, hover: null,
  panels: [], answers: [], top: { sequential: 0, signed: 0 },
  grey: null, picture: '', token: '', turn: 0, ready: false, again: false, drawn: null,
};
const $ = (selector) => element.querySelector(selector);
const $$ = (selector) => [...element.querySelectorAll(selector)];
