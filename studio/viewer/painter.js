// A mask painted over a picture. The mask is a canvas of its own, black and white, as large as the picture is shown.

const P = { picture: null, url: '', mask: document.createElement('canvas'), at: null, down: false, last: null };
const $ = (selector) => element.querySelector(selector);
const canvas = $('canvas');

const radius = () => (Number($('.size').value) / 100) * Math.min(canvas.width, canvas.height);

function draw() {
  const context = canvas.getContext('2d');
  context.drawImage(P.picture, 0, 0, canvas.width, canvas.height);
  const tint = document.createElement('canvas');
  [tint.width, tint.height] = [canvas.width, canvas.height];
  const brush = tint.getContext('2d');
  brush.drawImage(P.mask, 0, 0);
  brush.globalCompositeOperation = 'source-in';
  brush.fillStyle = '#56b4e9';
  brush.fillRect(0, 0, tint.width, tint.height);
  context.globalAlpha = 0.6;
  context.drawImage(tint, 0, 0);
  context.globalAlpha = 1;
  if (!P.at) return;
  for (const [colour, width] of [['#101820', 3], ['#fff', 1.5]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.arc(...P.at, radius(), 0, 7);
    context.stroke();
  }
}

function stroke(from, to) {
  const brush = P.mask.getContext('2d');
  brush.globalCompositeOperation = $('.erase').checked ? 'destination-out' : 'source-over';
  brush.strokeStyle = brush.fillStyle = '#fff';
  brush.lineWidth = 2 * radius();
  brush.lineCap = 'round';
  brush.beginPath();
  brush.moveTo(...from);
  brush.lineTo(to[0] + 0.01, to[1]);
  brush.stroke();
}

// The mask as a picture in grey, or null while nothing is marked.
function finish() {
  const { width, height } = P.mask;
  const pixels = P.mask.getContext('2d').getImageData(0, 0, width, height).data;
  let marked = 0;
  for (let i = 3; i < pixels.length; i += 4) marked += pixels[i] > 127;
  const sent = document.createElement('canvas');
  [sent.width, sent.height] = [width, height];
  const context = sent.getContext('2d');
  context.fillRect(0, 0, width, height);
  context.drawImage(P.mask, 0, 0);
  $('.said').textContent = marked ? `${((100 * marked) / (width * height)).toFixed(1)} % of the picture is marked.` : 'Nothing is marked yet.';
  props.value = { ...props.value, mask: marked ? sent.toDataURL('image/png') : null };
  trigger('input');
}

function placeOf(event) {
  const area = canvas.getBoundingClientRect();
  return [((event.clientX - area.left) / area.width) * canvas.width, ((event.clientY - area.top) / area.height) * canvas.height];
}

canvas.addEventListener('pointerdown', (event) => {
  canvas.setPointerCapture(event.pointerId);
  P.down = true;
  P.at = P.last = placeOf(event);
  stroke(P.at, P.at);
  draw();
});
canvas.addEventListener('pointermove', (event) => {
  P.at = placeOf(event);
  if (P.down) stroke(P.last, P.at);
  P.last = P.at;
  draw();
});
const end = () => { if (P.down) { P.down = false; finish(); } };
canvas.addEventListener('pointerup', end);
canvas.addEventListener('pointercancel', end);
canvas.addEventListener('pointerleave', () => { if (!P.down) { P.at = null; draw(); } });
// Who comes by keys sees where the brush is before the first press, and no brush stays where nobody is.
canvas.addEventListener('focus', () => {
  if (!canvas.matches(':focus-visible') || !P.picture) return;
  P.at ??= [canvas.width / 2, canvas.height / 2];
  draw();
});
canvas.addEventListener('blur', () => {
  P.at = P.down ? P.at : null;
  if (P.picture) draw();
});
canvas.addEventListener('keydown', (event) => {
  const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
  const clamp = (n, most) => Math.min(most, Math.max(0, n));
  P.at ??= [canvas.width / 2, canvas.height / 2];
  if (step) P.at = [clamp(P.at[0] + step[0] * radius() * 0.7, canvas.width), clamp(P.at[1] + step[1] * radius() * 0.7, canvas.height)];
  else if (event.key === ' ') { stroke(P.at, P.at); finish(); }
  else if (event.key.toLowerCase() === 'e') $('.erase').checked = !$('.erase').checked;
  else if (event.key === 'Delete') clear();
  else return;
  event.preventDefault();
  draw();
});

function clear() {
  P.mask.getContext('2d').clearRect(0, 0, P.mask.width, P.mask.height);
  finish();
  draw();
}
$('.clear').addEventListener('click', clear);

async function load() {
  const value = props.value;
  $('.empty').hidden = Boolean(value?.picture);
  $('.painter').hidden = !value?.picture;
  if (!value?.picture || (P.url === value.picture && value.mask)) return;
  const image = new Image();
  image.src = value.picture;
  await image.decode();
  if (props.value?.picture !== value.picture) return;
  if (P.url !== value.picture) [P.mask.width, P.mask.height] = [canvas.width, canvas.height] = [value.width, value.height];
  P.picture = image;
  P.url = value.picture;
  draw();
}
watch('value', load);
load();
