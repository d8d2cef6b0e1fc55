// Painting a panel: its colours once for each change, outlines over them for each move of the pointer.

// The values as a small picture: one pixel a patch, or FINE a patch side with values (not colours) interpolated.
function valuePicture(panel, rows, cols) {
  const smooth = S.drawing === 'smooth';
  const k = smooth ? FINE : 1;
  const canvas = document.createElement('canvas');
  canvas.width = cols * k;
  canvas.height = rows * k;
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(canvas.width, canvas.height);
  const top = S.tops[panel.group];
  const table = panel.signed ? SIGNED : SEQUENTIAL;
  const { aside, prefix } = panel;
  // What is set aside from the range has no colour, and lends none to the patches beside it.
  const leftOut = aside && ((patch) => Boolean(aside[prefix + patch]));
  for (let y = 0; y < canvas.height; y++) {
    for (let x = 0; x < canvas.width; x++) {
      const patch = Math.floor(y / k) * cols + Math.floor(x / k);
      const value = smooth ? between(panel.shown, rows, cols, (y + 0.5) / k - 0.5, (x + 0.5) / k - 0.5, leftOut) : panel.shown[patch];
      const at = place(value, top, panel.signed) * 3;
      const bare = panel.patches[patch] === 0 || leftOut?.(patch);
      pixels.data.set([table[at], table[at + 1], table[at + 2], bare ? 0 : 255], (y * canvas.width + x) * 4);
    }
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

const onCanvas = (canvas, [top, left, bottom, right]) =>
  [left * canvas.width, top * canvas.height, (right - left) * canvas.width, (bottom - top) * canvas.height];

// All but the outlines, on a canvas that is not shown.
function paintPanel(panel) {
  const { canvas } = panel;
  panel.base ??= document.createElement('canvas');
  const base = panel.base;
  [base.width, base.height] = [canvas.width, canvas.height];
  const side = sideOf(panel.side);
  const context = base.getContext('2d');
  const scale = window.devicePixelRatio || 1;
  context.drawImage(S.grey, 0, 0, base.width, base.height);
  if (!side) return;
  const { rows, cols, box } = side;
  if (panel.row) {
    context.globalAlpha = S.opacity;
    context.imageSmoothingEnabled = S.drawing === 'smooth';
    context.drawImage(valuePicture(panel, rows, cols), ...onCanvas(base, box));
    context.globalAlpha = 1;
    const patches = [...panel.patches.keys()];
    const aside = (i) => Boolean(panel.aside?.[panel.prefix + i]);
    hatchPatches(context, base, panel, patches.filter((i) => panel.patches[i] === 0 && !aside(i)), [1], scale);
    hatchPatches(context, base, panel, patches.filter(aside), [1, -1], scale);
    gridLines(context, rows, cols, onCanvas(base, box), scale);
  }
  dimUnseen(context, base.width, base.height, onCanvas(base, box), scale);
}

// Patches without colour: hatched one way for a weight of exactly zero, both ways for a sink that is set aside.
function hatchPatches(context, base, panel, patches, ways, scale) {
  if (!patches.length) return;
  const { cols } = sideOf(panel.side);
  const gap = Math.round(6 * scale);
  for (const way of ways) {
    for (const [colour, width] of [['rgba(255,255,255,.55)', 2], ['rgba(30,38,48,.5)', 0.8]]) {
      const pattern = hatch(context, colour, gap, width * scale);
      if (way < 0) pattern.setTransform(new DOMMatrix([-1, 0, 0, 1, 0, 0]));
      context.fillStyle = pattern;
      for (const i of patches) context.fillRect(...onCanvas(base, patchBox(panel.side, Math.floor(i / cols), i % cols)));
    }
  }
}

function drawPanel(panel) {
  const { canvas } = panel;
  const context = canvas.getContext('2d');
  context.drawImage(panel.base, 0, 0);
  outlines(context, canvas);
}

// The query with a full line, the patch under the pointer with a broken one: the same pixels on every panel.
function outlines(context, canvas) {
  const scale = window.devicePixelRatio || 1;
  const boxOf = ({ side, row, col }) => onCanvas(canvas, patchBox(side, row, col));
  if (S.query) outline(context, boxOf(S.query), scale, [], 2);
  if (S.hover) outline(context, boxOf(S.hover), scale, [4 * scale, 3 * scale], 1.5);
}
