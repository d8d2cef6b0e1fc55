// The viewer's course: a new value builds panels and controls; a changed control asks for layers or only redraws.

const DEBOUNCE = 150;

function segment(selector, options, chosen, choose) {
  const name = `${selector}-${Math.random().toString(36).slice(2)}`;
  const labels = options.map(([value, text]) => {
    const label = make('label');
    const input = make('input');
    Object.assign(input, { type: 'radio', name, value, checked: value === chosen });
    input.addEventListener('change', () => choose(value));
    label.append(input, make('span', '', text));
    return label;
  });
  $(`${selector} .options`).replaceChildren(...labels);
}

function buildControls() {
  const { sides } = props.value;
  const deepest = Math.max(...sides.map((side) => side.layers)) - 1;
  S.layer = S.layer === null ? deepest : Math.min(S.layer, deepest);
  Object.assign($('.layer'), { max: deepest, value: S.layer });
  sides.forEach((model, side) => {
    if (S.heads[side] > model.heads) S.heads[side] = 0;
    $(`.heads[data-side="${side}"] legend`).textContent = `Head · ${model.title}`;
    const options = ['mean', ...Array(model.heads).keys()].map((text, slot) => [slot, String(text)]);
    segment(`.heads[data-side="${side}"]`, options, S.heads[side], (slot) => { S.heads[side] = slot; show(); });
  });
}

function wireControls() {
  const choose = (field) => (value) => { S[field] = value; fillControls(); if (props.value) show(); };
  segment('.scale', Object.entries(SCALES).map(([value, { label }]) => [value, label]), S.scale, choose('scale'));
  segment('.ramp', [['linear', 'linear'], ['root', 'square root']], S.ramp, choose('ramp'));
  segment('.drawing', [['patches', 'patches'], ['smooth', 'smooth']], S.drawing, choose('drawing'));
  $('.layer').addEventListener('input', (event) => setLayer(Number(event.target.value)));
  $('.opacity').addEventListener('input', (event) => choose('opacity')(Number(event.target.value)));
  let waiting;
  $('.alpha').addEventListener('input', (event) => {
    S.alpha = Number(event.target.value);
    fillControls();
    clearTimeout(waiting);
    waiting = setTimeout(refresh, DEBOUNCE);
  });
}

// Draw what is there. No server is asked.
function show() {
  if (!S.ready) return;
  computeValues();
  sizePanels();
  S.panels.forEach((panel) => { drawPanel(panel); fillFacts(panel); });
  fillScales();
  fillCaptions();
  fillTips();
}

// Ask for the layers that are shown, then draw. Of several turns that overlap only the last one draws.
async function refresh() {
  if (!props.value) return;
  const turn = ++S.turn;
  const asked = { layer: S.layer, alpha: S.alpha };
  fillControls();
  $('.stage').setAttribute('aria-busy', 'true');
  const answers = await Promise.all(props.value.sides.map((_, side) => fetchLayer(side)));
  if (turn !== S.turn) return;
  $('.stage').setAttribute('aria-busy', 'false');
  const evicted = answers.some((answer) => answer.evicted);
  if (evicted && !S.again) {
    S.again = true; // once until layers come, so that a store too small for both runs cannot make the page ask for ever
    trigger('submit');
    return;
  }
  if (!evicted) S.again = false;
  S.answers = answers.map((answer) => (answer.evicted ? { error: 'The server let go of this run; choose the picture again.' } : answer));
  S.drawn = asked;
  S.ready = true;
  show();
  element.dataset.shown = JSON.stringify([props.value.token, ...props.value.sides.map((side) => side.name), S.drawn.layer, S.drawn.alpha]);
}

async function load() {
  const value = props.value;
  if (!value?.token) return;
  // The part of the picture that is shown depends on both models, so it may change while the picture does not.
  if (S.picture !== value.picture) {
    const image = new Image();
    image.src = value.picture;
    await image.decode();
    if (props.value !== value) return;
    S.grey = greyPicture(image);
    S.picture = value.picture;
  }
  if (S.token !== value.token) S.query = null;
  S.token = value.token;
  S.hover = null;
  S.ready = false;
  $('.empty').hidden = true;
  $('.controls').hidden = $('.below').hidden = false;
  if (S.query && !fits(S.query)) S.query = null;
  buildPanels();
  buildScales();
  buildControls();
  await refresh();
}

function fits({ side, row, col }) {
  const { rows, cols } = props.value.sides[side];
  return row < rows && col < cols;
}

wireControls();
new ResizeObserver(() => show()).observe($('.panels'));
watch('value', load);
load();
