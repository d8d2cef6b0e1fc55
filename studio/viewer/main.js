// The viewer's course: a new value builds panels and controls; a changed control asks for layers or only redraws.

const IDLE = 300;
let idle;

// Draw what is there. No server is asked for maps.
function show() {
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
  show();
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
  if (S.token !== value.token) { S.query = null; S.text = value.text; S.relevanceFailed = null; }
  if (!S.settings.length || S.left !== value.left || S.right !== value.right) S.settings = value.defaults.map((panel) => ({ ...panel }));
  Object.assign(S, { token: value.token, run: value.run, left: value.left, right: value.right, hover: null, ready: false });
  if (value.link && Object.keys(value.link).length) applyLink(value.link);
  S.overview.failed = null;
  settlePending(value);
  settle();
  $('.empty').hidden = true;
  $('.controls').hidden = $('.below').hidden = $('.tools-row').hidden = $('.overview').hidden = false;
  buildPanels();
  fillInputs();
  fillSpeaking();
  fillStatistics();
  noteAsked();
  await refresh();
}

// Settings that were made for other models are brought to what these have.
function settle() {
  S.layer = S.layer === null ? deepest() : Math.min(S.layer, deepest());
  if (S.query && !fits(S.query)) S.query = null;
  for (const setting of S.settings) {
    const side = sideOf(setting.model);
    if (!side) continue;
    if (!side.kinds.includes(setting.kind)) setting.kind = 'weights';
    if (setting.head !== 'mean' && setting.head >= side.heads) setting.head = 'mean';
  }
}

wireControls();
wireSwipe();
wireRelevance();
wireOverview();
wireLink();
new ResizeObserver(() => show()).observe($('.panels'));
watch('value', load);
watch('relevance', relevanceCame);
watch('overview', overviewCame);
load();
