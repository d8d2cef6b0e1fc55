// Bytes that travel as text, and files that the server makes and the browser saves.

function bytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text).buffer;
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out.buffer;
}

// Asks for {name, data} or {error} and saves the data under the name; `say` tells how it goes.
async function saveFigure(button, ask, say) {
  if (button.disabled) return;
  const held = document.activeElement === button;
  button.disabled = true;
  say('Making the figure …');
  let answer;
  try {
    answer = await ask();
  } catch {
    answer = undefined;
  }
  button.disabled = false;
  // A button that is disabled loses the focus.
  if (held && document.activeElement === document.body) button.focus({ preventScroll: true });
  if (!answer?.data) { say(answer?.error ?? 'The server gave no figure; try again.'); return; }
  const address = URL.createObjectURL(new Blob([bytes(answer.data)]));
  const link = document.createElement('a');
  Object.assign(link, { href: address, download: answer.name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  say(`Saved as ${answer.name}.`);
}
