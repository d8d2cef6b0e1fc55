// Drawing: picture in grey, patches over it, the unseen part hatched, outlines.

const FINE = 8; // values between patch centres in the smooth drawing, per patch side

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

// `leftOut` tells of which cells no value is taken: those beside them go straight between what remains.
function between(values, rows, cols, y, x, leftOut) {
  const clamp = (n, most) => Math.min(most, Math.max(0, n));
  const top = clamp(Math.floor(y), rows - 1), bottom = clamp(Math.floor(y) + 1, rows - 1);
  const left = clamp(Math.floor(x), cols - 1), right = clamp(Math.floor(x) + 1, cols - 1);
  const fy = y - Math.floor(y), fx = x - Math.floor(x);
  if (leftOut) {
    let sum = 0, mass = 0;
    for (const [row, down] of [[top, 1 - fy], [bottom, fy]]) {
      for (const [col, along] of [[left, 1 - fx], [right, fx]]) {
        if (leftOut(row * cols + col)) continue;
        sum += values[row * cols + col] * down * along;
        mass += down * along;
      }
    }
    return mass > 0 ? sum / mass : 0;
  }
  const across = (row) => values[row * cols + left] * (1 - fx) + values[row * cols + right] * fx;
  return across(top) * (1 - fy) + across(bottom) * fy;
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
