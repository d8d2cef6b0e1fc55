// Drawing: picture in grey, patches over it, the unseen part hatched, outlines.

const FINE = 8; // values between patch centres in the smooth drawing, per patch side

function hatch(context, colour, gap, width) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = gap;
  const brush = tile.getContext('2d');
  brush.strokeStyle = colour;
  brush.lineWidth = width;
  brush.beginPath();
  for (const shift of [-gap, 0, gap]) { brush.moveTo(shift, gap); brush.lineTo(shift + gap, 0); }
  brush.stroke();
  return context.createPattern(tile, 'repeat');
}

// The picture in grey with little contrast, so that the colours over it stay near those of the colour bar.
function greyPicture(image) {
  const canvas = document.createElement('canvas');
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < pixels.data.length; i += 4) {
    const grey = 0.299 * pixels.data[i] + 0.587 * pixels.data[i + 1] + 0.114 * pixels.data[i + 2];
    pixels.data[i] = pixels.data[i + 1] = pixels.data[i + 2] = 40 + grey * 0.8;
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

// The values as a small picture: one pixel a patch, or FINE a patch side with values (not colours) interpolated.
function valuePicture(panel, rows, cols) {
  const smooth = S.drawing === 'smooth';
  const k = smooth ? FINE : 1;
  const canvas = document.createElement('canvas');
  canvas.width = cols * k;
  canvas.height = rows * k;
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(canvas.width, canvas.height);
  const top = panel.signed ? S.top.signed : S.top.sequential;
  const table = panel.signed ? SIGNED : SEQUENTIAL;
  for (let y = 0; y < canvas.height; y++) {
    for (let x = 0; x < canvas.width; x++) {
      const value = smooth ? between(panel.shown, rows, cols, (y + 0.5) / k - 0.5, (x + 0.5) / k - 0.5) : panel.shown[y * cols + x];
      const at = place(value, top, panel.signed) * 3;
      const zero = panel.patches[Math.floor(y / k) * cols + Math.floor(x / k)] === 0;
      pixels.data.set([table[at], table[at + 1], table[at + 2], zero ? 0 : 255], (y * canvas.width + x) * 4);
    }
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

function between(values, rows, cols, y, x) {
  const clamp = (n, most) => Math.min(most, Math.max(0, n));
  const top = clamp(Math.floor(y), rows - 1), bottom = clamp(Math.floor(y) + 1, rows - 1);
  const left = clamp(Math.floor(x), cols - 1), right = clamp(Math.floor(x) + 1, cols - 1);
  const fy = y - Math.floor(y), fx = x - Math.floor(x);
  const across = (row) => values[row * cols + left] * (1 - fx) + values[row * cols + right] * fx;
  return across(top) * (1 - fy) + across(bottom) * fy;
}

function drawPanel(panel) {
  const { canvas } = panel;
  const { rows, cols, box } = props.value.sides[panel.side];
  const W = canvas.width, H = canvas.height;
  const context = canvas.getContext('2d');
  const scale = window.devicePixelRatio || 1;
  const pixelBox = ([top, left, bottom, right]) => [left * W, top * H, (right - left) * W, (bottom - top) * H];
  context.globalAlpha = 1;
  context.imageSmoothingEnabled = true;
  context.drawImage(S.grey, 0, 0, W, H);
  if (panel.row) {
    context.globalAlpha = S.opacity;
    context.imageSmoothingEnabled = S.drawing === 'smooth';
    context.drawImage(valuePicture(panel, rows, cols), ...pixelBox(box));
    context.globalAlpha = 1;
    hatchZeros(context, panel, cols, pixelBox, scale);
    gridLines(context, rows, cols, pixelBox(box), scale);
  }
  dimUnseen(context, W, H, pixelBox(box), scale);
  if (S.query) outline(context, pixelBox(patchBox(S.query.side, S.query.row, S.query.col)), scale, [], 2);
  if (S.hover) outline(context, pixelBox(patchBox(S.hover.side, S.hover.row, S.hover.col)), scale, [4 * scale, 3 * scale], 1.5);
}

// A weight of exactly zero is no small weight: the patch stays without colour and is hatched.
function hatchZeros(context, panel, cols, pixelBox, scale) {
  const zeros = [...panel.patches.keys()].filter((i) => panel.patches[i] === 0);
  const light = hatch(context, 'rgba(255,255,255,.55)', Math.round(6 * scale), 2 * scale);
  const dark = hatch(context, 'rgba(30,38,48,.5)', Math.round(6 * scale), 0.8 * scale);
  for (const fill of [light, dark]) {
    context.fillStyle = fill;
    for (const i of zeros) context.fillRect(...pixelBox(patchBox(panel.side, Math.floor(i / cols), i % cols)));
  }
}

function gridLines(context, rows, cols, [x, y, w, h], scale) {
  context.strokeStyle = 'rgba(128,128,128,.28)';
  context.lineWidth = scale;
  context.beginPath();
  for (let r = 1; r < rows; r++) { context.moveTo(x, y + (r * h) / rows); context.lineTo(x + w, y + (r * h) / rows); }
  for (let c = 1; c < cols; c++) { context.moveTo(x + (c * w) / cols, y); context.lineTo(x + (c * w) / cols, y + h); }
  context.stroke();
}

function dimUnseen(context, W, H, [x, y, w, h], scale) {
  const parts = [[0, 0, W, y], [0, y + h, W, H - y - h], [0, y, x, h], [x + w, y, W - x - w, h]];
  const lines = hatch(context, 'rgba(255,255,255,.5)', Math.round(9 * scale), 1.2 * scale);
  for (const part of parts) {
    if (part[2] < 0.5 || part[3] < 0.5) continue;
    for (const fill of ['rgba(20,26,34,.62)', lines]) { context.fillStyle = fill; context.fillRect(...part); }
  }
}

function outline(context, [x, y, w, h], scale, dash, width) {
  context.setLineDash([]);
  context.lineWidth = (width + 2) * scale;
  context.strokeStyle = '#101820';
  context.strokeRect(x, y, w, h);
  context.setLineDash(dash);
  context.lineWidth = width * scale;
  context.strokeStyle = '#fff';
  context.strokeRect(x, y, w, h);
  context.setLineDash([]);
}
