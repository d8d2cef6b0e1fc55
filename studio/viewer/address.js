// What the tabs hold, as far as it differs from the default, into the address of the page (read by studio/tab_link.py
// and studio/edit_link.py). Compare writes its own part (link.js); other keys stay as they are.

const MOMENT = 200; // ms without a change before the address is written
let writing;

const run = (first, last) => (first === last ? `${first}` : `${first}-${last}`);

// Rising numbers as text: 0, 1, 2, 5 is "0-2*5".
function runsOf(numbers) {
  const runs = [];
  for (const number of numbers) {
    if (runs.length && number === runs.at(-1)[1] + 1) runs.at(-1)[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([first, last]) => run(first, last)).join('*');
}

function grouped(pairs) {
  const groups = new Map();
  for (const [key, layer] of pairs) groups.set(key, [...(groups.get(key) ?? []), layer]);
  return [...groups];
}

// The edits of a table: "vision.lam.0-3*7.0.5_vision.off.2.0*3".
function editsOf(table) {
  const edits = [];
  for (const [tower, { lam, a2, off }] of Object.entries(table?.chosen ?? {})) {
    const set = lam.map((value, layer) => [value, layer]).filter(([value]) => value !== null);
    for (const [value, layers] of grouped(set)) edits.push(`${tower}.lam.${runsOf(layers)}.${Number(value.toFixed(6))}`);
    if (a2 !== 'learned') edits.push(`${tower}.a2.${a2}`);
    const layers = [...new Set(off.map(([layer]) => layer))].sort((a, b) => a - b);
    const heads = (layer) => runsOf(off.filter(([at]) => at === layer).map(([, head]) => head).sort((a, b) => a - b));
    for (const [struck, at] of grouped(layers.map((layer) => [heads(layer), layer]))) edits.push(`${tower}.off.${runsOf(at)}.${struck}`);
  }
  return edits.join('_');
}

// The slider of a layer; on a tab that was never opened there is none, and nobody has moved it.
const sliderOf = (id) => document.querySelector(`#${id} input[type=range]`);

// A setting as texts, or null for what the address need not say.
function textsOf({ default: usual, last, edits }, value) {
  if (value === null || value === undefined) return null;
  const texts = edits ? [editsOf(value)] : Array.isArray(value) ? value.map(String) : [String(value)];
  if (!texts.length) texts.push('');
  if (last && Number(value) >= Number(sliderOf(last).max)) return null;
  return JSON.stringify(texts) === JSON.stringify(usual) ? null : texts;
}

function addressNow() {
  const address = new URL(location.href);
  const put = address.searchParams;
  props.fields.forEach((field, at) => {
    if (field.last && !sliderOf(field.last)) return;
    put.delete(field.key);
    for (const text of textsOf(field, props.value.values[at]) ?? []) put.append(field.key, text);
  });
  const [first] = document.querySelectorAll('#studio-tabs [role=tab]');
  const open = document.querySelector('#studio-tabs [role=tab][aria-selected=true]');
  put.delete('tab');
  if (open && open !== first) put.set('tab', open.dataset.tabId);
  return address;
}

function write() {
  clearTimeout(writing);
  if (!props.fields || !props.value?.values) return;
  writing = setTimeout(() => history.replaceState(history.state, '', addressNow()), MOMENT);
}

// What was left out and told is in the address no more.
function drop() {
  const address = new URL(location.href);
  (props.gone ?? []).forEach((key) => address.searchParams.delete(key));
  if (props.gone?.length) history.replaceState(history.state, '', address);
}

function say() {
  element.querySelector('.said').textContent = props.said ?? '';
  element.querySelector('.address').hidden = !props.said;
}

element.querySelector('.away').addEventListener('click', () => { element.querySelector('.address').hidden = true; });
watch('value', write);
watch('fields', write);
watch('said', say);
watch('gone', drop);
say();
