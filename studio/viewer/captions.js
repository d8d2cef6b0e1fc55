// Captions: colour bars, the line for screen readers, notes.

function buildScales() {
  const bar = (kind) => {
    const node = make('div', `bar ${kind}`);
    const canvas = make('canvas');
    [canvas.width, canvas.height] = [512, 10];
    drawBar(canvas, kind === 'signed' ? SIGNED : SEQUENTIAL);
    const text = make('div', 'ends num');
    text.append(make('span'), make('span'), make('span'));
    node.append(canvas, text);
    return node;
  };
  const kinds = S.panels.some((panel) => panel.signed) ? ['sequential', 'signed'] : ['sequential'];
  $('.scales').replaceChildren(...kinds.map(bar));
}

function fillScales() {
  const scale = SCALES[S.scale];
  const bend = S.ramp === 'root' ? 'square-root ramp' : 'linear ramp';
  const names = [...new Set(S.panels.filter((panel) => !panel.signed).map((panel) => panel.name))];
  const list = names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names.at(-1)}` : names[0];
  const ends = {
    sequential: ['0', `one scale for ${list}: ${scale.unit}, ${bend}`, scale.text(S.top.sequential)],
    signed: [`−${scale.text(S.top.signed)}`, `0 · ${scale.unit}, ${bend}`, `+${scale.text(S.top.signed)}`],
  };
  for (const [kind, texts] of Object.entries(ends)) {
    $$(`.bar.${kind} .ends span`).forEach((span, i) => (span.textContent = texts[i]));
  }
}

// What the controls stand on; the maps may still be those of the settings before.
function fillControls() {
  if (props.value?.sides) $('.layer-text').textContent = `${S.layer} (0–${Math.max(...props.value.sides.map((side) => side.layers)) - 1})`;
  $('.alpha-text').textContent = `${S.alpha.toFixed(2)} ${{ 1: 'softmax', 1.5: 'entmax', 2: 'sparsemax' }[S.alpha] ?? ''}`.trim();
  $('.opacity-text').textContent = `${Math.round(100 * S.opacity)} %`;
}

// What is said of the maps that are drawn.
function fillCaptions() {
  const { sides } = props.value;
  const { layer, alpha } = S.drawn;
  const query = S.query ? `patch (${S.query.row}, ${S.query.col})` : 'CLS';
  const twice = new Set(S.panels.map((panel) => panel.name)).size < S.panels.length;
  const readings = S.panels.filter((panel) => panel.row).map((panel) => {
    const { cols } = sides[panel.side];
    const best = strongest(panel);
    return `${twice ? `${['left', 'right'][panel.side]} ` : ''}${panel.name} ${reading(panel, { row: Math.floor(best / cols), col: best % cols })}`;
  });
  $('.line').textContent = `Layer ${layer} · query ${query} · strongest patch (row, column): ${readings.join(' · ') || 'none'}`;
  const zeros = S.panels.some((panel) => panel.row && panel.patches.includes(0));
  const unseen = sides.some(({ box }) => box[0] > 1e-3 || box[1] > 1e-3 || box[2] < 0.999 || box[3] < 0.999);
  $('.legend').textContent = [
    zeros ? 'Fine hatching without colour: a weight of exactly 0, no attention.' : '',
    unseen ? 'Dark and hatched: the part of the picture that was cropped away; the model never saw it.' : '',
    S.drawing === 'smooth' ? 'Smooth drawing: values between patch centres are interpolated, there are no such values in the model.' : '',
  ].filter(Boolean).join(' ');
  note('.rescaled', S.panels.some((panel) => panel.signed));
  note('.readout', alpha !== 1, `Readout with α = ${alpha.toFixed(2)}: recomputed from the unmodified run; the models themselves still used softmax.`);
  note('.window', Boolean(props.value.note), props.value.note);
  note('.mask', !props.value.mask, 'This picture has no object mask, so mass in the object and AUROC are not given.');
}

function note(selector, shown, text) {
  $(selector).hidden = !shown;
  if (text !== undefined) $(selector).textContent = text;
}

// The readings of the hovered patch, in every panel beside its outline.
function fillTips() {
  for (const panel of S.panels) {
    const patch = S.hover && panel.row && sameplace(S.hover, panel.side);
    panel.tip.hidden = !S.hover || !panel.row;
    if (panel.tip.hidden) continue;
    panel.tip.textContent = patch ? reading(panel, patch) : 'not seen';
    const [top, left, , right] = patchBox(S.hover.side, S.hover.row, S.hover.col);
    const { clientWidth, clientHeight, offsetLeft } = panel.canvas;
    const room = panel.frame.clientWidth - panel.tip.offsetWidth;
    const beside = offsetLeft + right * clientWidth + 6;
    const before = offsetLeft + left * clientWidth - 6 - panel.tip.offsetWidth;
    panel.tip.style.left = `${Math.max(0, Math.min(room, beside <= room ? beside : before))}px`;
    // Where neither side has room the tip lies over the patch: then it goes above or below.
    const crowded = beside > room && before < 0;
    const shift = crowded ? (top * clientHeight > 30 ? -28 : (clientHeight / props.value.sides[S.hover.side].rows) + 6) : 0;
    panel.tip.style.top = `${Math.max(0, top * clientHeight + shift)}px`;
  }
}
