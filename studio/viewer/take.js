// Take away: the server makes a figure, arrays, numbers and a recipe of what is shown, and the browser saves them.

function stateNow() {
  return {
    token: S.token, panels: S.settings.map(({ model, kind, head, own }) => ({ model, kind, head, own: !!own, control: kind === 'relevance' && !!relevanceControlOf(model) })),
    layer: S.layer,
    query: S.query ? [S.query.row, S.query.col, S.query.side] : null, direction: S.direction, alpha: S.alpha,
    source: S.source, scale: S.scale, ramp: S.ramp, drawing: S.drawing, set_aside: S.aside, text: S.text.trim(),
    from_layer: S.from, opacity: S.opacity,
  };
}

function takeAway() {
  if (S.ready) saveFigure($('.take'), () => server.take_away(stateNow()), say);
}
