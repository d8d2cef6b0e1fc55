// Colours of the maps. Both ramps are even in lightness and can be told apart with every common colour blindness.

const CIVIDIS = ['00224e', '123570', '3b496c', '575d6d', '707173', '8a8678', 'a59c74', 'c3b369', 'e1cc55', 'fee838'];
const PURPLE_TO_ORANGE = ['2d004b', '542788', '8073ac', 'b2abd2', 'd8daeb', 'f7f7f7', 'fee0b6', 'fdb863', 'e08214', 'b35806', '7f3b08'];

const channels = (hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));

// 511 entries: an odd number, so that zero of the signed ramp is one entry, the neutral one.
const ENTRIES = 511;

function ramp(stops) {
  const table = new Uint8ClampedArray(ENTRIES * 3);
  const ends = stops.map(channels);
  for (let i = 0; i < ENTRIES; i++) {
    const place = (i / (ENTRIES - 1)) * (ends.length - 1);
    const k = Math.min(ends.length - 2, Math.floor(place));
    for (let c = 0; c < 3; c++) table[i * 3 + c] = ends[k][c] + (ends[k + 1][c] - ends[k][c]) * (place - k);
  }
  return table;
}

const SEQUENTIAL = ramp(CIVIDIS);
const SIGNED = ramp(PURPLE_TO_ORANGE);

const bent = (share) => (S.ramp === 'root' ? Math.sqrt(share) : share);

// Place of a value in its ramp, 0 to ENTRIES - 1. `top` is the shared end of the range.
function place(value, top, signed) {
  const share = top > 0 ? Math.min(1, Math.abs(value) / top) : 0;
  const half = (ENTRIES - 1) / 2;
  if (signed) return Math.round(half + Math.sign(value) * bent(share) * half);
  return Math.round(bent(share) * (ENTRIES - 1));
}

function drawBar(canvas, table) {
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, 1);
  for (let x = 0; x < canvas.width; x++) {
    const at = Math.round((x / (canvas.width - 1)) * (ENTRIES - 1)) * 3;
    image.data.set([table[at], table[at + 1], table[at + 2], 255], x * 4);
  }
  for (let y = 0; y < canvas.height; y++) context.putImageData(image, 0, y);
}
