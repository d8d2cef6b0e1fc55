// Layers: asked of the server once, kept for a while, read line by line.

const STEPS = 32767 ** 2; // a step s is sign(s) s² / STEPS of the largest entry of its row (studio/view.py)
const KEPT_BYTES = 96 * 2 ** 20;
const layers = new Map(); // readout as text -> {keys, queries, pooling, bytes, maps: kind -> {slots, steps, top, sinks}}
// Kinds that are parts of the map of another kind.
const mapKind = (kind) => ({ positive: 'weights', negative: 'weights' })[kind] ?? kind;
const slotOf = (head) => (head === 'mean' ? 0 : head + 1);

const floats = (text) => new Float32Array(bytes(text));
const readoutOf = (model, layer) => ({ token: props.value.token, model, layer, alpha: S.alpha, source: S.source });

// Panels of a model that need maps of its layer and do not have them.
function missingOf(model, layer) {
  const known = layers.get(JSON.stringify(readoutOf(model, layer)));
  return S.settings.filter((panel) => panel.model === model && panel.kind !== 'relevance'
    && !known?.maps[mapKind(panel.kind)]?.slots.includes(slotOf(panel.head)));
}

// What the panels of a model show in a layer: {data}, {error: sentence} or {evicted: true}; with `lost` the question did
// not get through, and the next change asks again.
async function fetchLayer(model, layer) {
  const side = sideOf(model);
  if (!side) return { error: props.value.missing[model] ?? 'This model has not looked at the picture.' };
  if (layer >= side.layers) return { error: `This model has layers 0–${side.layers - 1}; there is no layer ${layer}.` };
  const readout = readoutOf(model, layer);
  const key = JSON.stringify(readout);
  const missing = missingOf(model, layer);
  if (!missing.length) return { data: touched(key) };
  const kinds = [...new Set(missing.map((panel) => mapKind(panel.kind)))];
  const heads = [...new Set(S.settings.filter((panel) => panel.model === model).map((panel) => panel.head))];
  let answer;
  try {
    answer = await server.get_layer({ ...readout, kinds, heads });
  } catch {
    answer = undefined;
  }
  // A server function that failed answers nothing at all.
  if (!answer) return { lost: true, error: 'The server gave no answer for this layer; any change asks again.' };
  if (answer.error || answer.evicted) return answer;
  keep(key, answer);
  return { data: layers.get(key) };
}

function keep(key, answer) {
  const entry = layers.get(key) ?? { maps: {}, bytes: 0 };
  Object.assign(entry, { keys: answer.keys, queries: answer.queries, pooling: answer.pooling });
  for (const [kind, map] of Object.entries(answer.maps)) {
    const steps = new Int16Array(bytes(map.steps));
    entry.bytes += steps.byteLength - (entry.maps[kind]?.steps.byteLength ?? 0);
    entry.maps[kind] = { slots: answer.slots, steps, top: floats(map.top), sinks: new Uint8Array(bytes(map.sinks)) };
  }
  layers.set(key, entry);
  touched(key);
  let used = [...layers.values()].reduce((sum, each) => sum + each.bytes, 0);
  for (const [old, each] of layers) {
    if (used <= KEPT_BYTES || old === key) break;
    layers.delete(old);
    used -= each.bytes;
  }
}

// The entry, which thereby is the last that was used; undefined where every panel of the model shows relevance alone.
function touched(key) {
  const entry = layers.get(key);
  if (!entry) return undefined;
  layers.delete(key);
  layers.set(key, entry);
  return entry;
}

// What a token reads, (keys), or who reads it, (queries). `token` is an index, or 'mean' for the mean over all patches.
function lineOf(data, kind, head, token, prefix) {
  const { slots, steps, top } = data.maps[mapKind(kind)];
  const { keys, queries } = data;
  const first = slots.indexOf(slotOf(head)) * queries;
  const value = (query, key) => {
    const step = steps[(first + query) * keys + key];
    return (step * Math.abs(step) * top[first + query]) / STEPS;
  };
  const line = new Float64Array(S.direction === 'reads' ? keys : queries);
  if (S.direction === 'read by') for (let query = 0; query < queries; query++) line[query] = value(query, token);
  else if (token === 'mean') {
    for (let query = prefix; query < queries; query++) for (let key = 0; key < keys; key++) line[key] += value(query, key) / (queries - prefix);
  } else for (let key = 0; key < keys; key++) line[key] = value(token, key);
  if (kind === 'positive') return line.map((v) => Math.max(0, v));
  if (kind === 'negative') return line.map((v) => Math.max(0, -v));
  return line;
}

// Which keys of a panel's map receive more than three times a uniform share: 1 for a sink, (keys).
function sinksOf(data, kind, head) {
  const { slots, sinks } = data.maps[mapKind(kind)];
  const slot = slots.indexOf(slotOf(head));
  return sinks.subarray(slot * data.keys, (slot + 1) * data.keys);
}
