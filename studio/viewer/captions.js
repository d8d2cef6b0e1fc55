// Captions: colour bars, the line for screen readers, notes.

function buildScales() {
  const groups = [...new Set(S.panels.filter((panel) => panel.row).map((panel) => panel.group))];
  $('.scales').replaceChildren(...groups.map((group) => {
    const node = make('div', `bar ${kindOfGroup(group)}${group === kindOfGroup(group) ? '' : ' own'}`);
    const canvas = make('canvas');
    [canvas.width, canvas.height] = [512, 10];
    canvas.setAttribute('aria-hidden', 'true');
    drawBar(canvas, kindOfGroup(group) === 'signed' ? SIGNED : SEQUENTIAL);
    const text = make('div', 'ends num');
    text.append(make('span'), make('span'), make('span'));
    node.append(canvas, text);
    node.dataset.group = group;
    return node;
  }));
}

const listed = (names) => (names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names.at(-1)}` : names[0]);

function fillScales() {
  const groups = [...new Set(S.panels.filter((panel) => panel.row).map((panel) => panel.group))];
  if (JSON.stringify(groups) !== JSON.stringify($$('.scales .bar').map((bar) => bar.dataset.group))) buildScales();
  const scale = SCALES[S.scale];
  const bend = S.ramp === 'root' ? 'square-root ramp' : 'linear ramp';
  for (const bar of $$('.scales .bar')) {
    const { group } = bar.dataset;
    const members = S.panels.filter((panel) => panel.row && panel.group === group);
    const names = listed([...new Set(members.map((panel) => panel.name))]);
    const top = scale.text(S.tops[group]);
    const unit = `${scale.unit(kindOfGroup(group))}, ${bend}`;
    const own = group === kindOfGroup(group) ? '' : `panel ${members[0].index + 1} alone, `;
    const texts = kindOfGroup(group) === 'signed'
      ? [`−${top}`, `0 · ${own || (members.length > 1 ? `one scale for panels ${listed(members.map((panel) => panel.index + 1))}: ` : '')}${unit}`, `+${top}`]
      : ['0', `${own || (members.length > 1 ? `one scale for ${names}: ` : `${names}: `)}${unit}`, top];
    bar.querySelectorAll('.ends span').forEach((span, i) => (span.textContent = texts[i]));
  }
}

const alphaName = (alpha) => `${alpha.toFixed(2)} ${{ 1: 'softmax', 1.5: 'entmax', 2: 'sparsemax' }[alpha] ?? ''}`.trim();

// What the controls stand on; the maps may still be those of the settings before.
function fillControls() {
  if (props.value?.sides && S.layer !== null) {
    const pool = Object.values(props.value.sides).some((side) => side.pooled && S.layer === side.layers - 1);
    $('.layer-text').textContent = `${S.layer} (0–${deepest()})${pool ? ' pool' : ''}`;
  }
  if (props.value?.sides) fillHead();
  $('.alpha-text').textContent = alphaName(S.alpha);
  $('.opacity-text').textContent = `${Math.round(100 * S.opacity)} %`;
}

// The slider of heads: the mean, then heads from 0. Where panels differ it stands on the highest of their heads, for
// panels whose model has no such head keep theirs while it goes on.
function fillHead() {
  const having = S.settings.filter((each) => each.kind !== 'relevance');
  const slots = [...new Set(having.map((each) => slotOf(each.head)))];
  const most = Math.max(0, ...having.map((each) => sideOf(each.model)?.heads ?? 0));
  const slot = Math.max(0, ...slots);
  const text = !slots.length ? 'relevance has none' : slots.length > 1 ? 'differs by panel' : slot ? `${slot - 1} (0–${most - 1})` : 'mean';
  const slider = $('.head-of-all');
  Object.assign(slider, { max: most, value: slot, disabled: !slots.length });
  slider.setAttribute('aria-valuetext', text === 'mean' ? headName('mean') : text);
  $('.head-text').textContent = text;
}

// What is looked at, in words: of CLS, of the mean where there is none, or of a patch.
function queryWords() {
  const sides = modelsShown().map(sideOf).filter(Boolean);
  if (S.query) {
    const { row, col, side } = S.query;
    const on = sideOf(side);
    // Rows and columns count the patches of one model; others may have other patches on these pixels.
    const alike = ({ rows, cols, box }) => rows === on.rows && cols === on.cols && String(box) === String(on.box);
    return `patch (${row}, ${col})${sides.every(alike) ? '' : ` of the ${on.rows} × ${on.cols} of ${on.title}`}`;
  }
  return sides.every((side) => side.cls) ? 'CLS' : sides.some((side) => side.cls) ? 'CLS, or the mean over patches where there is none' : 'mean over patches';
}

// What is said of the maps that are drawn.
function fillCaptions() {
  const sides = modelsShown().map(sideOf).filter(Boolean);
  const { layer, alpha, source } = S.drawn;
  const readings = S.panels.filter((panel) => panel.row).map((panel) => {
    const { cols } = sideOf(panel.side);
    const best = strongest(panel);
    return `${panelName(panel)} ${best === null ? 'nothing but 0' : reading(panel, { row: Math.floor(best / cols), col: best % cols })}`;
  });
  const direction = S.direction === 'reads' ? 'what it reads' : 'who reads it';
  $('.line').textContent = `Layer ${layer} · query ${queryWords()}, ${direction} · strongest patch (row, column): ${readings.join(' · ') || 'none'}`;
  const zeros = S.panels.some((panel) => panel.row && panel.patches.includes(0));
  const unseen = sides.some(({ box }) => box[0] > 1e-3 || box[1] > 1e-3 || box[2] < 0.999 || box[3] < 0.999);
  $('.legend').textContent = [
    zeros ? ['Fine hatching without colour: exactly 0.', ...PARTS.filter(({ kind }) => S.panels.some((panel) => panel.row && panel.setting.kind === kind)).map(({ words }) => words)].join(' ') : '',
    unseen ? 'Dark and hatched: the part of the picture that was cropped away; the model never saw it.' : '',
    S.drawing === 'smooth' ? 'Smooth drawing: values between patch centres are interpolated, there are no such values in the model.' : '',
  ].filter(Boolean).join(' ');
  note('.rescaled', S.panels.some((panel) => panel.signed));
  const shuffled = S.panels.some((panel) => panel.row && panel.setting.kind !== 'relevance' && controlled(panel));
  note('.shuffled', shuffled, shuffledWords());
  const count = source.split('+').length;
  const summed = count > 1 ? ` (${count} maps are summed, so a row of A sums to ${count}, and an even one stands at ${count} × uniform)` : '';
  const changed = [alpha !== 1 ? `α = ${alpha.toFixed(2)}` : '', source !== 'qk' ? `scores from ${source.toUpperCase()}${summed}` : ''].filter(Boolean);
  note('.readout', changed.length > 0, `Readout with ${changed.join(' and ')}: recomputed from the unmodified run; the models themselves used softmax of QK.`);
  note('.window', Boolean(props.value.note), props.value.note);
  note('.mask', !props.value.mask, 'This picture has no object mask, so mass in the object and AUROC are not given.');
  const aside = asideWords();
  note('.aside-note', Boolean(aside), aside);
  const relevant = S.panels.filter((panel) => panel.setting.kind === 'relevance' && panel.row);
  const outside = prefixWords(relevant.map((panel) => sideOf(panel.side)));
  const without = outside ? `Only the relevance of patches is drawn and counted; what fell on ${outside} is left out.` : '';
  note('.relevance-note', relevant.length > 0, [relevanceWords(), without].join(' ').trim());
}

// The tokens before the patches, in words, of models that have some; '' where none has.
function prefixWords(sides) {
  const cls = sides.some((side) => side.cls && side.prefix > 0);
  const registers = sides.some((side) => side.prefix > (side.cls ? 1 : 0));
  return [cls ? 'CLS' : '', registers ? 'registers' : ''].filter(Boolean).join(' and ');
}

// How many tokens the colour range leaves out, and what they hold: nothing is set aside in silence.
function asideWords() {
  if (S.aside === 'prefix') {
    const without = S.panels.filter((panel) => panel.row && panel.prefix > 0);
    if (!without.length) return '';
    const labels = without.map((panel) => factRows(panel).find(([, measure]) => measure === 'cls')?.[0]).filter(Boolean);
    const outside = prefixWords(without.map((panel) => sideOf(panel.side)));
    return `The colour ranges cover patches only. How much lies on ${outside} is the number “${[...new Set(labels)].join('” or “')}” below each map.`;
  }
  // Relevance has patches alone: no prefix, no sinks, and no readers.
  const maps = S.panels.filter((panel) => panel.row && panel.setting.kind !== 'relevance');
  if (!maps.length) return S.aside === 'sinks' && S.panels.some((panel) => panel.row) ? 'Sinks are tokens that most queries of an attention map read; relevance is no such map, so nothing is set aside here.' : '';
  if (S.aside === 'none') return 'The colour ranges cover all tokens, also CLS and registers, which are no patches and so are not drawn.';
  if (S.direction === 'read by') return 'Sinks are tokens that are read by most; among readers there are none, so nothing is set aside here.';
  const words = S.panels.filter((panel) => panel.aside).map((panel) => {
    const marked = [...panel.aside.keys()].filter((at) => panel.aside[at]);
    const share = marked.reduce((sum, at) => sum + Math.abs(panel.row[at]), 0) / (total(panel.row) || 1);
    return `${panelName(panel)} ${marked.length} sink${marked.length === 1 ? '' : 's'} with ${percent(share)} of the row${marked.some((at) => at < panel.prefix) ? ', CLS or registers among them' : ''}`;
  });
  return `Set aside from the colour ranges, cross-hatched and still read by pointing: tokens that receive more than three times a uniform share from all queries; CLS and registers that do not still count. ${words.join(' · ')}.`;
}

// Of several panels with the same map each says which it is.
function panelName({ name, index }) {
  return S.panels.filter((panel) => panel.name === name).length > 1 ? `panel ${index + 1} ${name}` : name;
}

// What is exactly 0 in a part of a map is so because it is no part of it, and not because the model's weight is 0.
const PARTS = [
  { kind: 'positive', words: 'In a positive part it stands wherever A1 − λA2 is not above 0.' },
  { kind: 'negative', words: 'In a negative part it stands wherever A1 − λA2 is not below 0.' },
  { kind: 'relevance', words: 'In relevance it stands wherever no product of weight and gradient is above 0.' },
];

function shuffledWords() {
  const readers = S.direction === 'read by' && !S.query;
  return `“A2 shuffled” is the same number after A2 was permuted over the patches${readers ? ' that read, for the keys of CLS would stay as they are' : ''} (mean of 20 fixed shuffles): what subtracting any such map would give.`;
}

function note(selector, shown, text) {
  $(selector).hidden = !shown;
  if (text !== undefined) $(selector).textContent = text;
}

// The readings of the hovered patch, in every panel beside its outline.
function fillTips() {
  for (const panel of S.panels) {
    panel.tip.hidden = !S.hover || !panel.row;
    if (panel.tip.hidden) continue;
    const patch = sameplace(S.hover, panel.side);
    panel.tip.textContent = patch ? reading(panel, patch) : 'not seen';
    placeTip(panel.tip, panel.canvas, panel.frame);
  }
}

function placeTip(tip, canvas, frame) {
  const [top, left, , right] = patchBox(S.hover.side, S.hover.row, S.hover.col);
  const { clientWidth, clientHeight, offsetLeft } = canvas;
  const room = frame.clientWidth - tip.offsetWidth;
  const beside = offsetLeft + right * clientWidth + 6;
  const before = offsetLeft + left * clientWidth - 6 - tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(room, beside <= room ? beside : before))}px`;
  // Where neither side has room the tip lies over the patch: then it goes above or below.
  const crowded = beside > room && before < 0;
  const shift = crowded ? (top * clientHeight > 30 ? -28 : clientHeight / sideOf(S.hover.side).rows + 6) : 0;
  tip.style.top = `${Math.max(0, top * clientHeight + shift)}px`;
}
