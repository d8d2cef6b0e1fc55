// Put into the page before its own scripts: times how long after an event new pixels are on the panels.
//
// A time runs from the event's own time stamp to the first animation frame in which the pixels of the panels are other
// ones than before the event; the pixels are read and compared in that frame, so reading them is in the time.

const READ_FOR = 30_000;

const canvases = () => [...document.querySelectorAll('#viewer .panels canvas')];
const pixelsOf = (canvas) => new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);

function differ(before, canvas) {
  if (!before || before.length !== canvas.width * canvas.height) return true;
  const now = pixelsOf(canvas);
  return now.some((value, at) => value !== before[at]);
}

const shown = (node) => Boolean(node) && !node.closest('[hidden]');
const text = (selector) => document.querySelector(`#viewer ${selector}`)?.textContent ?? '';

// What must hold beside the pixels, by the name of what is measured.
const ENDS = window.ENDS = {
  hover: (before) => [...document.querySelectorAll('#viewer .panels .tip')].every((tip, i) => shown(tip) && tip.textContent && tip.textContent !== before.tips[i]),
  relevance: () => [...document.querySelectorAll('#viewer .panels .message')].every((node) => node.textContent === '') && text('.speaking-state') === '',
  overview: (before) => document.querySelector('#viewer .overview').getAttribute('aria-busy') === 'false' && text('.overview-meaning') !== before.meaning && document.querySelector('#viewer .grids table'),
};

// What a person is told while it takes long.
const TOLD = {
  relevance: () => text('.speaking-state'),
  overview: () => (shown(document.querySelector('#viewer .overview progress')) ? text('.overview-state') : ''),
};

// Resolves after the next event of a type. `panels` says which must have new pixels: 'all', 'some' or 'none'.
window.watchFor = function watchFor(name, type, panels) {
  const before = {
    pixels: canvases().map(pixelsOf),
    tips: [...document.querySelectorAll('#viewer .panels .tip')].map((tip) => tip.textContent),
    meaning: text('.overview-meaning'),
  };
  return new Promise((resolve, reject) => {
    const told = new Set();
    const listen = (event) => {
      window.removeEventListener(type, listen, true);
      const reached = performance.now();
      const look = (frame) => {
        const line = TOLD[name]?.();
        if (line) told.add(line);
        const changed = panels === 'none' ? [] : canvases().map((canvas, i) => differ(before.pixels[i], canvas));
        const enough = panels === 'some' ? changed.some(Boolean) : changed.every(Boolean);
        const now = performance.now();
        if (enough && (!ENDS[name] || ENDS[name](before))) {
          resolve({ ms: now - event.timeStamp, reached: now - reached, frame: frame - event.timeStamp, changed, told: [...told] });
        } else if (now - reached > READ_FOR) reject(new Error(`${name}: nothing came within ${READ_FOR} ms`));
        else requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    };
    window.addEventListener(type, listen, true);
  });
};

// The time of the first frame in which both models' maps are drawn, in ms of the clock on the wall.
window.usable = new Promise((resolve) => {
  const look = () => {
    const drawn = document.querySelector('#viewer [data-shown]');
    if (drawn) resolve(performance.timeOrigin + performance.now());
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});
