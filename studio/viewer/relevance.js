// Relevance to a text: the one map here that depends on a text. The server runs the model for it, in the queue.

const KEPT_RELEVANCE = 60;
const relevances = new Map(); // {model, token, text, first} as text -> answer
const relevanceKey = (model) => JSON.stringify([model, props.value.token, S.text.trim(), S.from]);
const relevanceOf = (model) => relevances.get(relevanceKey(model));
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
  ].join(' ');
}

// Ask for what is missing. What failed is remembered, so that it is not asked for ever.
function askRelevance() {
  const panels = wanting();
  $('.speaking').hidden = !panels.length;
  if (!panels.length || !S.text.trim()) return;
  const missing = panels.filter((model) => !relevanceOf(model));
  if (!missing.length) return;
  const asked = { token: props.value.token, models: missing, text: S.text.trim(), first: S.from };
  if (JSON.stringify(asked) === S.relevanceFailed) return;
  if (questionOf('select') === null) $('.speaking-state').textContent = 'working …';
  putQuestion('select', asked);
}

function relevanceCame() {
  const got = props.relevance;
  if (!got) return;
  if (got.progress) { heardOf('select'); $('.speaking-state').textContent = got.progress; return; }
  $('.speaking-state').textContent = got.error ?? '';
  for (const answer of got.answers ?? []) {
    const key = JSON.stringify([answer.model, answer.token, answer.text, answer.first]);
    if (answer.values) answer.row = Float64Array.from(floats(answer.values));
    relevances.set(key, answer);
  }
  while (relevances.size > KEPT_RELEVANCE) relevances.delete(relevances.keys().next().value);
  S.relevanceFailed = got.error ? questionOf('select') : null;
  answered('select');
  show();
}

function fillSpeaking() {
  $('.text').value = S.text;
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
  $('.text').addEventListener('change', again);
  $('.from').addEventListener('change', again);
  $('.work-out').addEventListener('click', again);
}
