// The viewer's course: a new value builds panels and controls; a changed control asks for layers or only redraws.

const IDLE = 300;
let idle;

// Draw what is there after a change. The server is asked for numbers that are missing, also once more for those that
// failed, but for maps only where no answer came before.
function show() {
  if (Object.values(S.answers).some(({ lost }) => lost)) refresh();
  else showAll();
}

function showAll() {
  failed.clear();
  redraw();
}

function redraw() {
  if (!S.ready) return;
  S.shows = (S.shows ?? 0) + 1;
  computeValues();
  S.panels.forEach((panel) => {
    sizeCanvas(panel.canvas, panel.frame.clientWidth);
    paintPanel(panel);
    drawPanel(panel);
    fillBadges(panel);
  });
  drawSwipe();
  fillScales();
  fillCaptions();
  fillTips();
  askNumbers();
  askRelevance();
  writeLink();
}

// Ask for the layers that are shown, then draw. Of several turns that overlap only the last one draws.
async function refresh() {
  if (!props.value?.sides) return;
  const turn = ++S.turn;
  clearTimeout(idle);
  const asked = { layer: S.layer, alpha: S.alpha, source: S.source };
  fillControls();
  $('.stage').setAttribute('aria-busy', 'true');
  const models = modelsShown();
  const answers = await Promise.all(models.map((model) => fetchLayer(model, S.layer)));
  if (turn !== S.turn) return;
  $('.stage').setAttribute('aria-busy', 'false');
  const evicted = answers.some((answer) => answer.evicted);
  if (evicted && !S.again) {
    S.again = true; // once until layers come, so that a store too small for all runs cannot make the page ask for ever
    trigger('submit');
    return;
  }
  if (!evicted) S.again = false;
  S.answers = Object.fromEntries(models.map((model, i) =>
    [model, answers[i].evicted ? { error: 'The server let go of this run; choose the picture again.' } : answers[i]]));
  const before = S.drawn?.layer ?? S.layer;
  S.drawn = asked;
  S.ready = true;
  showAll();
  showOverview();
  element.dataset.shown = JSON.stringify([props.value.token, S.left, S.right, S.drawn.layer, S.drawn.alpha]);
  prefetch(Math.sign(S.layer - before) || -1);
}

// The layer that comes next if the person goes on in the same direction, when nothing else is under way.
function prefetch(way) {
  const next = S.layer + way;
  idle = setTimeout(async () => {
    for (const model of modelsShown()) {
      const side = sideOf(model);
      if (side && next >= 0 && next < side.layers && missingOf(model, next).length) await fetchLayer(model, next);
    }
  }, IDLE);
}

async function load() {
  const value = props.value;
  if (value?.need) { waitForPicture(value); return; }
  if (!value?.token || value.run === S.run) return;
  // The part of the picture that is shown depends on the models, so it may change while the picture does not.
  if (S.picture !== value.picture) {
    const image = new Image();
    image.src = value.picture;
    await image.decode();
    if (props.value.run !== value.run) return;
    S.grey = greyPicture(image);
    S.picture = value.picture;
  }
  say('');
  if (S.token !== value.token) {
    S.query = null;
    if (!S.typed) S.text = value.text;
    S.relevanceFailed = null;
  }
  takeModels(value);
  const gone = moveToReplaced(value);
  S.shownAs = { sides: value.sides, window: value.window };
  Object.assign(S, { token: value.token, run: value.run, left: value.left, right: value.right, hover: null, ready: false });
  if (value.link && Object.keys(value.link).length) applyLink(value.link);
  S.overview.failed = null;
  settlePending(value);
  S.settings.forEach((setting, i) => (setting.field = fieldOf(setting, i, value)));
  const settled = S.settings.flatMap(settlePanel);
  const changed = value.link?.panels ? [] : settled; // of a link's panels the note says it
  const fitting = settle() || Boolean(value.link?.query); // of a link's query the note says it
  if (!fitting || gone) changed.push(`The query is ${queryWords()} again: its patch is none of its model’s, or lies where that saw nothing.`);
  if (changed.length) say(changed.join(' '));
  $('.empty').hidden = true;
  $('.controls').hidden = $('.below').hidden = $('.tools-row').hidden = $('.overview').hidden = false;
  buildPanels();
  fillInputs();
  fillSpeaking();
  fillStatistics();
  fold();
  noteAsked();
  await refresh();
}

// Which field at the side a panel's model is that of, 'left' or 'right'; null for a further model. Where both fields
// hold one model the first half of the panels belongs to the left one, unless it was settled before.
function fieldOf({ model, field }, index, { left, right }) {
  if (field && { left, right }[field] === model) return field;
  if (left === right && model === left) return index < S.settings.length / 2 ? 'left' : 'right';
  return model === left ? 'left' : model === right ? 'right' : null;
}

// Panels of a model that was replaced at the side take the new one. Panels that nobody changed are the new models' own.
function takeModels(value) {
  const plain = (settings) => JSON.stringify(settings.map(({ model, kind, head, own }) => [model, kind, head, Boolean(own)]));
  const own = () => value.defaults.map((panel) => ({ ...panel }));
  const changed = ['left', 'right'].filter((field) => S[field] !== value[field]);
  if (!S.settings.length || (changed.length && plain(S.settings) === S.untouched)) S.settings = own();
  else {
    const fields = S.settings.map((setting, i) => fieldOf(setting, i, S));
    for (const field of changed) {
      S.settings.forEach((setting, i) => { if (fields[i] === field) S.settings[i] = { ...setting, model: value[field], field }; });
      if (S.settings.some((setting) => setting.model === value[field])) continue;
      // No panel shows the model that was chosen: one more does, or the last one where there is room for no more.
      const one = { ...own().find((panel) => panel.model === value[field]), field };
      if (S.settings.length < MOST) S.settings.push(one);
      else [S.settings[MOST - 1], fields[MOST - 1]] = [one, field];
    }
  }
  S.untouched = plain(own());
}

// Settings that were made for other models are brought to what these have. Answers whether the query is kept.
function settle() {
  S.layer = S.layer === null ? lastOfAll() : Math.min(S.layer, deepest());
  if (S.from !== null && S.from >= deepest()) S.from = null; // the last layer alone
  const kept = !S.query || fits(S.query);
  if (!kept) S.query = null;
  return kept;
}

// A map or a head that the model of a panel does not have; answers what it shows instead, in words.
function settlePanel(setting, index) {
  const side = sideOf(setting.model);
  if (!side) return [];
  const said = [];
  if (!side.kinds.includes(setting.kind)) {
    said.push(`${side.title} subtracts nothing and has no ${kindName(setting.kind, true)}: panel ${index + 1} shows its A.`);
    setting.kind = 'weights';
  }
  if (setting.head !== 'mean' && setting.head >= side.heads) {
    said.push(`${side.title} has heads 0–${side.heads - 1} and no head ${setting.head}: panel ${index + 1} shows the mean over heads.`);
    setting.head = 'mean';
  }
  return said;
}

wireControls();
wireSwipe();
wireRelevance();
wireOverview();
wireLink();
new ResizeObserver(() => redraw()).observe($('.panels'));
watch('value', load);
watch('relevance', relevanceCame);
watch('overview', overviewCame);
load();
