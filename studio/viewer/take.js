// Take away: the server makes a figure, arrays, numbers and a recipe of what is shown, and the browser saves them.

function stateNow() {
  return {
    token: S.token, panels: S.settings.map(({ model, kind, head, own }) => ({ model, kind, head, own: !!own })),
    layer: S.layer,
    query: S.query ? [S.query.row, S.query.col, S.query.side] : null, direction: S.direction, alpha: S.alpha,
    source: S.source, scale: S.scale, ramp: S.ramp, drawing: S.drawing, set_aside: S.aside, text: S.text.trim(),
    from_layer: S.from, opacity: S.opacity,
  };
}

async function takeAway() {
  const button = $('.take');
  if (!S.ready || button.disabled) return;
  const held = document.activeElement === button;
  button.disabled = true;
  say('Making the figure …');
  let answer;
  try {
    answer = await server.take_away(stateNow());
  } catch {
    answer = undefined;
  }
  button.disabled = false;
  if (held && document.activeElement === document.body) button.focus({ preventScroll: true });
  if (!answer?.data) { say(answer?.error ?? 'The server gave no figure; try again.'); return; }
  const address = URL.createObjectURL(new Blob([bytes(answer.data)]));
  const link = make('a');
  Object.assign(link, { href: address, download: answer.name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  say(`Saved as ${answer.name}.`);
}
