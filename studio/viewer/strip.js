// The strip's course: a new value builds panels; pointer and keys move the crosshair; controls only redraw.

function segment(selector, options, field) {
  const name = `${selector}-${Math.random().toString(36).slice(2)}`;
  const labels = options.map(([value, text]) => {
    const label = make('label');
    const input = make('input');
    Object.assign(input, { type: 'radio', name, value, checked: value === S[field] });
    input.addEventListener('change', () => { S[field] = value; repaint(); keepDrawing(); });
    label.append(input, make('span', '', text));
    return label;
  });
  $(`${selector} .options`).replaceChildren(...labels);
}

function buildScales() {
  const keys = new Map(drawn().filter((panel) => panel.kind !== 'classes').map((panel) => [rangeKey(panel), panel]));
  $('.scales').replaceChildren(...[...keys.values()].map((panel) => {
    const signed = panel.kind === 'signed';
    const node = make('div', `bar ${panel.kind}`);
    const canvas = make('canvas');
    [canvas.width, canvas.height] = [512, 10];
    drawBar(canvas, signed ? SIGNED : SEQUENTIAL);
    const flat = !topOf(panel);
    const top = flat ? '' : `${number(topOf(panel))} ${unitSign(panel)}`.trim();
    const bend = S.ramp === 'root' ? 'square-root ramp' : 'linear ramp';
    const said = [[panel.scale, panel.unit].filter(Boolean).join(': '), bend].filter(Boolean).join(', ');
    const ends = make('div', 'ends num');
    // A range of no width has no ends: all values are the one in its middle, or at its beginning.
    ends.append(make('span', '', signed ? top && `−${top}` : '0'), make('span', '', `${flat ? '0 everywhere · ' : signed ? '0 · ' : ''}${said}`), make('span', '', signed ? top && `+${top}` : top));
    node.append(canvas, ends);
    return node;
  }));
}

function buildClassLegend() {
  const shown = drawn().some((panel) => panel.kind === 'classes');
  $('.legend-classes').hidden = !shown;
  if (!shown) return;
  const entry = (colour, text) => {
    const node = make('span');
    const swatch = make('i');
    swatch.style.background = `rgb(${colour.join(',')})`;
    node.append(swatch, make('span', '', text));
    return node;
  };
  const own = props.value.classes.map((name, at) => [S.colours[at], name]).filter(([colour]) => colour !== OTHER_COLOUR);
  const nodes = own.map(([colour, name]) => entry(colour, name));
  if (S.others) nodes.push(entry(OTHER_COLOUR, `${props.value.classes.length - own.length} other classes; the crosshair names them`));
  $('.legend-classes').replaceChildren(...nodes);
}

function fillLegend() {
  const some = (test) => drawn().some(test);
  const zeros = some(({ zeros, data }) => zeros && data.includes(0));
  const missing = some(({ kind, data }) => kind !== 'classes' && data.some(Number.isNaN));
  const negative = some(({ kind, data }) => kind === 'sequential' && data.some((value) => value < 0));
  const unseen = S.panels.some(({ box }) => box[0] > 1e-3 || box[1] > 1e-3 || box[2] < 0.999 || box[3] < 0.999);
  const smooth = S.drawing === 'smooth' && some(({ kind }) => kind !== 'classes');
  $('.legend').textContent = [
    zeros ? 'Fine hatching without colour: exactly 0.' : '',
    missing ? 'Dark hatching inside a map: no value there.' : '',
    unseen ? 'Dark and hatched: the part of the picture that was cropped away; the model never saw it.' : '',
    negative ? 'Negative values on a scale from 0 are drawn by their magnitude; the crosshair gives the sign.' : '',
    smooth ? 'Smooth drawing: values between patch centres are interpolated, there are no such values in the model.' : '',
  ].filter(Boolean).join(' ');
  const coloured = some(({ kind }) => kind !== 'classes');
  $('.seg.drawing').hidden = $('.seg.ramp').hidden = !coloured;
  $('.note').hidden = !props.value.note;
  $('.note').textContent = props.value.note;
}

function fillTips() {
  for (const panel of S.panels) {
    panel.tip.hidden = !S.hover || Boolean(panel.message);
    if (panel.tip.hidden) continue;
    panel.tip.textContent = reading(panel, sameCell(panel), unitSign(panel));
    const [top, left, bottom, right] = hoverBox();
    const { clientWidth, clientHeight, offsetLeft } = panel.canvas;
    const room = panel.frame.clientWidth - panel.tip.offsetWidth;
    const beside = offsetLeft + right * clientWidth + 6, before = offsetLeft + left * clientWidth - 6 - panel.tip.offsetWidth;
    panel.tip.style.left = `${Math.max(0, Math.min(room, beside <= room ? beside : before))}px`;
    // Where neither side has room the tip lies over the patch: then it goes above or below.
    const crowded = beside > room && before < 0;
    const at = !crowded ? top * clientHeight : top * clientHeight > 30 ? top * clientHeight - 28 : bottom * clientHeight + 6;
    panel.tip.style.top = `${Math.max(0, Math.min(clientHeight - panel.tip.offsetHeight, at))}px`;
  }
  const { hover } = S;
  $('.line').textContent = !hover ? '' : `Row ${hover.row}, column ${hover.col} of ${hover.panel.title}: ${drawn()
    .map((panel) => `${panel.title} (${panel.of}) ${reading(panel, sameCell(panel))}`).join(' · ')}`;
}

function show() {
  if (!S.ready) return;
  sizePanels();
  S.panels.forEach(drawStripPanel);
  fillTips();
}

// Colours or ranges changed: the small pictures of the cells are made again.
function repaint() {
  $('.opacity-text').textContent = `${Math.round(100 * S.opacity)} %`;
  if (!S.ready) return;
  S.panels.forEach((panel) => (panel.cells = null));
  buildScales();
  fillLegend();
  show();
}

function hoverOn(hover, kept = false) {
  const was = S.hover;
  S.kept = Boolean(hover) && kept;
  if (was === hover || (was && hover && was.panel === hover.panel && was.row === hover.row && was.col === hover.col)) return;
  S.hover = hover;
  show();
}

const tell = ({ panel, row, col }) => trigger('select', { panel: S.panels.indexOf(panel), key: panel.key, row, col });

function under(event) {
  const panel = event.target.panel;
  if (!panel || !S.ready) return null;
  const area = panel.canvas.getBoundingClientRect();
  const cell = cellAt(panel, (event.clientY - area.top) / area.height, (event.clientX - area.left) / area.width);
  return cell && { panel, ...cell };
}

element.addEventListener('pointermove', (event) => event.pointerType === 'mouse' && !S.kept && hoverOn(under(event)));
element.addEventListener('pointerleave', () => !S.kept && hoverOn(null));
element.addEventListener('click', (event) => {
  const hover = under(event);
  if (!hover) return;
  const again = S.kept && S.hover && S.hover.panel === hover.panel && S.hover.row === hover.row && S.hover.col === hover.col;
  hoverOn(again ? null : hover, !again);
  if (!again) tell(hover);
});

// Cell by cell; on a grid of pixels by a thirtieth of it, with Shift by one.
element.addEventListener('keydown', (event) => {
  const panel = event.target.panel;
  if (!panel || !S.ready || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (event.key === 'Escape') hoverOn(null);
  else if (event.key === 'Enter' && S.hover) tell(S.hover);
  else if (step) {
    const { rows, cols } = panel;
    const size = event.shiftKey ? 1 : Math.max(1, Math.round(Math.max(rows, cols) / 30));
    const clamp = (n, most) => Math.min(most, Math.max(0, n));
    const from = S.hover && sameCell(panel);
    hoverOn(from
      ? { panel, row: clamp(from.row + step[0] * size, rows - 1), col: clamp(from.col + step[1] * size, cols - 1) }
      : { panel, row: rows >> 1, col: cols >> 1 }, true);
  } else return;
  event.preventDefault();
});

function sayTaken(text) {
  $('.said').textContent = text;
  $('.said').hidden = !text;
}

async function load() {
  const value = props.value;
  const there = Boolean(value?.panels?.length);
  $('.empty').hidden = there;
  $('.strip').hidden = !there;
  S.ready = false;
  if (!there) return;
  const stays = S.picture === value.picture;
  if (S.picture !== value.picture) {
    const image = new Image();
    image.src = value.picture;
    await image.decode();
    if (props.value !== value) return;
    S.grey = greyPicture(image);
    S.picture = value.picture;
  }
  // The next value of the same run brings panels and numbers, and other settings other maps of the same picture; whoever
  // reads the maps goes on where they were.
  const same = Boolean(value.take) && S.take === value.take;
  const { hover } = S;
  const read = stays && hover ? S.panels.indexOf(hover.panel) : -1;
  const focused = S.panels.findIndex(({ canvas }) => canvas === document.activeElement);
  S.take = value.take;
  if (!same) sayTaken('');
  $('.take').hidden = !value.take;
  buildPanels();
  const at = S.panels[read], fits = at && at.rows === hover.panel.rows && at.cols === hover.panel.cols;
  S.hover = fits ? { ...hover, panel: at } : null;
  // On new maps the pointer moves the crosshair again.
  S.kept = S.kept && same && Boolean(S.hover);
  S.panels[focused]?.canvas.focus({ preventScroll: true });
  computeRanges();
  computeClassColours();
  buildClassLegend();
  S.ready = true;
  repaint();
  element.dataset.shown = JSON.stringify(value.panels.map((panel) => panel.title));
}

const DRAWINGS = { drawing: ['patches', 'smooth'], ramp: ['root', 'linear'], opacity: ['75', ...wholeTo(100)] };
const keepDrawing = () => keepView(DRAWINGS, { ...S, opacity: Math.round(100 * S.opacity) });
const linked = viewOf(DRAWINGS);
Object.assign(S, linked, { opacity: Number(linked.opacity) / 100 });
$('.opacity').value = S.opacity;
segment('.drawing', [['patches', 'patches'], ['smooth', 'smooth']], 'drawing');
segment('.ramp', [['linear', 'linear'], ['root', 'square root']], 'ramp');
$('.opacity').addEventListener('input', (event) => { S.opacity = Number(event.target.value); $('.opacity-text').textContent = `${Math.round(100 * S.opacity)} %`; show(); keepDrawing(); });
$('.take').addEventListener('click', () => {
  const { drawing, ramp, opacity } = S;
  if (S.ready) saveFigure($('.take'), () => server.take_strip({ token: props.value.take, drawing, ramp, opacity }), sayTaken);
});
new ResizeObserver(() => show()).observe($('.panels'));
watch('value', load);
load();
