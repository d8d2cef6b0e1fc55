// The address of the page holds what is looked at, so that a link shows the same again (read by studio/link.py).

const DEFAULTS = { direction: 'reads', source: 'qk', scale: 'uniform', ramp: 'root', drawing: 'patches', aside: 'prefix' };
const KEYS = ['picture', 'p', 'left', 'right', 'layer', 'query', 'alpha', 'opacity', 'text', 'from', 'overview', 'over', 'swipe', ...Object.keys(DEFAULTS)];
const OPACITY = S.opacity;
let writing;

function linkAddress() {
  const address = new URL(location.href);
  const put = address.searchParams;
  KEYS.forEach((key) => put.delete(key));
  put.set('picture', S.token);
  put.set('left', S.left);
  put.set('right', S.right);
  for (const { kind, head, own, model } of S.settings) {
    const control = kind === 'relevance' && sideOf(model)?.differential && controlWanted(model);
    put.append('p', `${kind}.${head}.${own ? 'own.' : ''}${control ? 'control.' : ''}${model}`);
  }
  put.set('layer', S.layer);
  if (S.query) put.set('query', `${S.query.row}.${S.query.col}.${S.query.side}`);
  for (const [key, value] of Object.entries(DEFAULTS)) if (S[key] !== value) put.set(key, S[key]);
  if (S.alpha !== 1) put.set('alpha', S.alpha.toFixed(2));
  if (S.opacity !== OPACITY) put.set('opacity', Math.round(100 * S.opacity));
  if (S.from !== null) put.set('from', S.from);
  if (S.settings.some((each) => each.kind === 'relevance')) put.set('text', S.text);
  if (S.overview.open) put.set('overview', S.overview.statistic);
  if (S.overview.open && S.overview.over !== 'readout') put.set('over', S.overview.over);
  if (S.swipe.on) put.set('swipe', `${S.swipe.left + 1}.${S.swipe.right + 1}.${Math.round(100 * S.swipe.at)}`);
  return address;
}

// While a link waits for its picture the address keeps it.
function writeLink() {
  clearTimeout(writing);
  if (S.pending) return;
  writing = setTimeout(() => history.replaceState(history.state, '', linkAddress()), 200);
}

async function copyLink() {
  const text = String(S.pending ? location.href : linkAddress());
  try {
    await navigator.clipboard.writeText(text);
    say('The link is copied. It names the picture by a hash of its pixels and does not contain it.');
  } catch {
    say(`Copy this link: ${text}`);
  }
}

function say(text) {
  $('.said').textContent = text;
  $('.said').hidden = !text;
}

// Settings that a link names; what it does not name stays.
function applyLink(link) {
  for (const key of [...Object.keys(DEFAULTS), 'alpha', 'opacity', 'layer', 'from', 'text']) if (link[key] !== undefined) S[key] = link[key];
  // A link writes the caption as well as what a person wrote.
  if (link.text !== undefined) S.typed = Boolean(link.text.trim()) && link.text !== props.value.text;
  if (link.overview) Object.assign(S.overview, { open: true, statistic: link.overview, over: link.over ?? 'readout' });
  if (link.swipe) Object.assign(S.swipe, { on: true, left: link.swipe[0], right: link.swipe[1], at: link.swipe[2] });
  if (link.panels) S.settings = link.panels.map(({ control, ...panel }) => panel);
  (link.panels ?? []).filter(({ control, model }) => control && sideOf(model)?.differential).forEach(({ model }) => controlsWanted.add(relevanceKey(model)));
  if (link.query) {
    const [row, col, side] = link.query;
    S.query = { side, row, col };
  }
}

// A link whose picture is not here: say which it is, and keep its settings until it comes or is given up.
function waitForPicture(value) {
  S.pending = { need: value.need, link: value.link };
  const models = (value.link.panels ?? []).map((panel) => panel.model);
  if (models.length) props.value = { ...value, asked: [...new Set(models)] };
  $('.need').hidden = false;
  $('.need-text').textContent = `This link is about the picture whose pixels have the sha256 ${value.need}…, and a link does not contain its picture. Choose that picture at the side and it is shown as the link says. ${value.note}`.trim();
  $('.empty').hidden = true;
}

function settlePending(value) {
  if (!S.pending) return;
  if (value.token === S.pending.need) {
    const { link } = S.pending;
    forget();
    applyLink(link);
    say('This is the picture of the link, shown as the link says.');
  } else {
    $('.need-text').textContent = `This picture is not that of the link: its sha256 is ${value.token}…, the link’s is ${S.pending.need}…. The link’s settings wait until its picture comes.`;
  }
}

function forget() {
  S.pending = null;
  $('.need').hidden = true;
}

function wireLink() {
  $('.forget').addEventListener('click', () => { forget(); if (S.ready) writeLink(); else $('.empty').hidden = false; });
}
