// Controls that are the same for all panels.

const DEBOUNCE = 150;

function segment(name, options) {
  const group = `${name}-${Math.random().toString(36).slice(2)}`;
  const labels = options.map(([value, text, why]) => {
    const label = make('label');
    if (why) label.title = why;
    const input = make('input');
    Object.assign(input, { type: 'radio', name: group, value, checked: value === S[name] });
    input.addEventListener('change', () => choose(name, value));
    label.append(input, make('span', '', text));
    return label;
  });
  $(`.${name} .options`).replaceChildren(...labels);
}

// A setting that is changed by whatever way; controls show it, and only what needs maps asks for them.
function choose(name, value) {
  S[name] = value;
  $$(`.${name} .options input`).forEach((input) => (input.checked = input.value === value));
  fillControls();
  if (!props.value?.sides) return;
  if (name === 'source') refresh();
  else show();
}

function wireControls() {
  segment('direction', [['reads', 'reads', 'What the query reads: its row of the map'], ['read by', 'read by', 'Who reads the query: its column of the map']]);
  segment('source', [
    ['qk', 'QK', 'The model’s own scores'], ['qq', 'QQ'], ['kk', 'KK'], ['vv', 'VV'],
    ['qq+kk', 'QQ+KK', 'Both maps are summed, as in SCLIP'], ['qq+kk+vv', 'QQ+KK+VV', 'All three maps are summed; GEM and CLIPtrase average them'],
  ]);
  segment('scale', Object.entries(SCALES).map(([value, { label }]) => [value, label]));
  segment('ramp', [['linear', 'linear'], ['root', 'square root']]);
  segment('aside', [
    ['none', 'all tokens', 'The colour range covers all tokens, CLS too'],
    ['sinks', 'without sinks', 'Tokens that most queries read are set aside, hatched, and counted below'],
    ['prefix', 'patches', 'The colour range covers patches; CLS is a number below each panel'],
  ]);
  segment('drawing', [['patches', 'patches'], ['smooth', 'smooth']]);
  $('.layer').addEventListener('input', (event) => setLayer(Number(event.target.value)));
  $('.head-of-all').addEventListener('input', (event) => setHead(Number(event.target.value)));
  $('.opacity').addEventListener('input', (event) => choose('opacity', Number(event.target.value)));
  let waiting;
  $('.alpha').addEventListener('input', (event) => {
    S.alpha = Number(event.target.value);
    fillControls();
    clearTimeout(waiting);
    waiting = setTimeout(refresh, DEBOUNCE);
  });
  $('.add').addEventListener('click', addPanel);
  $('.swipe-toggle').addEventListener('click', toggleSwipe);
  $('.copy').addEventListener('click', copyLink);
  $('.take').addEventListener('click', takeAway);
}

// Controls stand on what S holds, as after a link.
function fillInputs() {
  for (const name of ['direction', 'source', 'scale', 'ramp', 'aside', 'drawing']) {
    $$(`.${name} .options input`).forEach((input) => (input.checked = input.value === S[name]));
  }
  Object.assign($('.layer'), { max: deepest(), value: S.layer });
  $('.alpha').value = S.alpha;
  $('.opacity').value = S.opacity;
  fillControls();
}
