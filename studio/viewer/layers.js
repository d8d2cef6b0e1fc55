// Layers: asked of the server once, kept for a while, read row by row.

const STEPS = 65535;
const KEPT_LAYERS = 24;
const layers = new Map();

function bytes(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out.buffer;
}

const mapValues = (object, change) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));
const floats = (text) => new Float32Array(bytes(text));

function decoded(answer) {
  return {
    keys: answer.keys,
    slots: answer.slots,
    maps: mapValues(answer.maps, (map) => ({ steps: new Uint16Array(bytes(map.steps)), top: floats(map.top) })),
    measures: mapValues(answer.measures, (group) => mapValues(group, floats)),
  };
}

// The layer that one side shows now: {data}, {error: sentence} or {evicted: true}.
async function fetchLayer(side) {
  const model = props.value.sides[side];
  if (S.layer >= model.layers) return { error: `This model has layers 0–${model.layers - 1}; there is no layer ${S.layer}.` };
  const request = { token: props.value.token, model: model.name, layer: S.layer, alpha: S.alpha };
  const key = JSON.stringify(request);
  if (layers.has(key)) return { data: layers.get(key) };
  let answer;
  try {
    answer = await server.get_layer(request);
  } catch {
    answer = undefined;
  }
  // A server function that failed answers nothing at all.
  if (!answer) return { error: 'The server gave no answer for this layer; move the layer to ask again.' };
  if (answer.error || answer.evicted) return answer;
  layers.set(key, decoded(answer));
  if (layers.size > KEPT_LAYERS) layers.delete(layers.keys().next().value);
  return { data: layers.get(key) };
}

// Row of one query, (keys): `which` is first, subtracted or difference.
function rowOf(data, which, slot, query) {
  if (which === 'difference') {
    const row = rowOf(data, 'first', slot, query);
    rowOf(data, 'subtracted', slot, query).forEach((value, key) => (row[key] -= value));
    return row;
  }
  const { steps, top } = data.maps[which];
  const index = slot * data.keys + query;
  const unit = top[index] / STEPS;
  return Float64Array.from(steps.subarray(index * data.keys, (index + 1) * data.keys), (step) => step * unit);
}

// One statistic of one row, or undefined where there is none (no mask, no such map).
function measure(data, which, name, slot, query) {
  const values = data.measures[which]?.[name];
  return values && values[slot * data.keys + query];
}
