// Relevance to a text: the one map here that depends on a text. The server runs the model for it, in the queue.

const KEPT_RELEVANCE = 60;
const relevances = new Map(); // {model, token, text, first} as text -> answer
const relevanceKey = (model) => JSON.stringify([model, props.value.token, S.text.trim(), S.from]);
const relevanceOf = (model) => relevances.get(relevanceKey(model));
// The same with A2 shuffled takes runs of its own, so it is worked out for those who press for it.
const relevanceControls = new Map(); // the same keys -> {control, said}
const controlsWanted = new Set(); // keys
const relevanceControlOf = (model) => relevanceControls.get(relevanceKey(model));
const controlWanted = (model) => controlsWanted.has(relevanceKey(model)) || relevanceControls.has(relevanceKey(model));
const wanting = () => [...new Set(S.settings.filter((each) => each.kind === 'relevance').map((each) => each.model))].filter(sideOf);

function relevanceLine(model) {
  if (!sideOf(model)) return { message: props.value.missing[model] ?? 'This model has not looked at the picture yet.' };
  if (!S.text.trim()) return { message: 'Write a text to see what speaks for it.' };
  const answer = relevanceOf(model);
  if (!answer) return { message: S.relevanceFailed ? $('.speaking-state').textContent : 'Working out the relevance …' };
  if (answer.error) return { message: answer.error };
  return { row: answer.row, token: 0 };
}

function relevanceWords() {
  const answers = S.panels.filter((panel) => panel.setting.kind === 'relevance' && panel.row).map((panel) => ({ ...relevanceOf(panel.side), title: panel.title }));
  if (!answers.length) return '';
  const layers = answers.map((each) => `${each.title} ${each.layers.includes('–') ? 'layers' : 'layer'} ${each.layers}`);
  return [
    `Relevance to “${answers[0].text}”, from gradients of the similarity (${[...new Set(layers)].join(', ')}; positive products of weight and gradient). It does not depend on layer, head and query.`,
    ...new Set(answers.map((each) => each.note).filter(Boolean)),
    ...new Set(answers.map((each) => relevanceControlOf(each.model)?.said).filter(Boolean).map((said) => `“A2 shuffled”: ${said}.`)),
  ].join(' ');
}

// Ask for what is missing. What failed is remembered, so that it is not asked for ever.
function askRelevance() {
  const panels = wanting();
  $('.speaking').hidden = !panels.length;
  if (!panels.length || !S.text.trim()) return;
  const missing = panels.filter((model) => !relevanceOf(model));
  const controls = panels.filter((model) => controlsWanted.has(relevanceKey(model)) && !relevanceControlOf(model));
  if (!missing.length && !controls.length) return;
  const question = { token: props.value.token, text: S.text.trim(), first: S.from };
  const asked = missing.length ? { ...question, models: missing } : { ...question, models: controls, control: true };
  if (JSON.stringify(asked) === S.relevanceFailed) return;
  if (questionOf('select') === null) $('.speaking-state').textContent = 'working …';
  putQuestion('select', asked);
}

function relevanceCame() {
  const got = props.relevance;
  if (!got) return;
  if (got.progress) { heardOf('select'); $('.speaking-state').textContent = got.progress; return; }
  $('.speaking-state').textContent = got.error ?? '';
  if (got.error) controlsWanted.clear();
  for (const answer of got.answers ?? []) {
    const key = JSON.stringify([answer.model, answer.token, answer.text, answer.first]);
    if (answer.values) answer.row = Float64Array.from(floats(answer.values));
    if (!got.control) relevances.set(key, answer);
    else if (answer.control) relevanceControls.set(key, answer);
    else { controlsWanted.delete(key); $('.speaking-state').textContent = answer.error; }
  }
  for (const kept of [relevances, relevanceControls]) while (kept.size > KEPT_RELEVANCE) kept.delete(kept.keys().next().value);
  S.relevanceFailed = got.error ? questionOf('select') : null;
  answered('select');
  show();
}

// What stands over the column of a relevance panel's control: a button, until it was pressed.
function relevanceControlHead(model) {
  const found = relevanceControlOf(model);
  if (found) return [found.said, 'A2 shuffled'];
  if (controlsWanted.has(relevanceKey(model))) return ['', 'working …'];
  const button = make('button', 'tool ask-control', 'A2 shuffled?');
  button.type = 'button';
  button.title = 'Work out the same numbers with A2 shuffled: the model is run again, forwards and backwards.';
  button.addEventListener('click', () => { controlsWanted.add(relevanceKey(model)); S.relevanceFailed = null; show(); });
  return ['', button];
}

function fillSpeaking() {
  // What is being written stays.
  if (!S.typed || document.activeElement !== $('.text')) $('.text').value = S.text;
  const layers = Math.max(...Object.values(props.value.sides).map((side) => side.layers));
  const select = $('.from');
  const last = layers - 1;
  select.replaceChildren(Object.assign(make('option', '', 'the last layer'), { value: '' }),
    ...[...Array(last).keys()].reverse().map((layer) => Object.assign(make('option', '', `layers ${layer}–${last}`), { value: layer })));
  select.value = S.from === null ? '' : String(Math.min(S.from, last));
}

function wireRelevance() {
  const again = () => {
    S.text = $('.text').value.slice(0, 400);
    S.from = $('.from').value === '' ? null : Number($('.from').value);
    S.relevanceFailed = null;
    if (S.ready) show();
  };
  // A text that a person wrote stays when the picture changes; an empty field takes the next picture's caption.
  $('.text').addEventListener('input', () => (S.typed = Boolean($('.text').value.trim())));
  $('.text').addEventListener('change', again);
  $('.from').addEventListener('change', again);
  $('.work-out').addEventListener('click', again);
}
