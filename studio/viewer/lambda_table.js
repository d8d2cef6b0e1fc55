// The numbers under a plot: λ of each layer at the marked point, or at the end; a layer's head shows it alone.
const cellsOf = (tower, quantity) => {
  if (quantity === 'init') return tower.init;
  if (quantity === 'lam' && tower.final) return tower.final;
  if (!tower[quantity]) return null;
  const index = T.at === null ? tower[T.axis].length - 1 : nearestIndex(tower[T.axis], T.at);
  return tower[quantity].map((line) => line[index]);
};
const tableRow = (body, title, values, kind) => {
  const row = body.insertRow();
  row.className = kind;
  const head = document.createElement('th');
  head.scope = 'row';
  head.textContent = title;
  head.title = title;
  row.append(head);
  values.forEach((value, layer) => {
    const cell = row.insertCell();
    cell.textContent = signed(value.toFixed(3));
    if (T.layer !== null && T.layer !== layer) cell.className = 'faded';
  });
};
const drawTable = (table, tower) => {
  const layers = layersOf(tower);
  table.replaceChildren();
  const heads = table.createTHead().insertRow();
  const corner = document.createElement('th');
  corner.textContent = 'layer';
  heads.append(corner);
  for (let layer = 0; layer < layers; layer += 1) {
    const head = document.createElement('th');
    const button = document.createElement('button');
    button.type = 'button';
    button.dataset.layer = layer;
    button.textContent = String(layer);
    button.style.borderColor = layerColour(layer, layers);
    button.setAttribute('aria-pressed', String(T.layer === layer));
    button.setAttribute('aria-label', `layer ${layer} alone`);
    head.append(button);
    heads.append(head);
  }
  const body = table.createTBody();
  shownRuns().forEach((run) => {
    const of = run.towers[tower];
    if (!of) return;
    const rows = [['lam', run.title, 'series'], ...(T.terms ? [['one', QUANTITIES[1][1], ''], ['two', QUANTITIES[2][1], '']] : []), ['init', 'λ_init', '']];
    rows.forEach(([quantity, title, kind]) => {
      const values = cellsOf(of, quantity);
      if (values) tableRow(body, title, values, kind);
    });
  });
};
