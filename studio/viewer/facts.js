// Numbers under the panels: worked out by the server from floats, for what a panel shows now, with the control beside.

const KEPT_NUMBERS = 400;
const numbers = new Map(); // question as text -> {measures, control} or {error}
let asking = false;

const percent = (v) => (Number.isFinite(v) ? `${rounded(100 * v, 0)} %` : '–');
const decimal = (v) => (Number.isFinite(v) ? rounded(v, 2) : '–');

// [label, statistic, how it is written, what it means]
function factRows(panel) {
  const { kind } = panel.setting;
  const reads = S.direction === 'reads';
  const line = reads ? 'row' : 'column';
  const side = sideOf(panel.side);
  const prefix = side.cls ? 'CLS' : 'registers';
  const onPrefix = !panel.prefix ? null : !reads ? `read by ${prefix}` : S.query || !side.cls || panel.keys < 2 ? `reads ${prefix}` : 'CLS reads itself';
  const cls = [onPrefix, 'cls', percent, `Share of the ${line} on the tokens before the patches, which are no patches and so are not drawn.`];
  const inside = 'Share of the mass on patches that lies on patches at least half covered by an object.';
  const auroc = 'Chance that a patch on an object (half of it or more) has a larger weight than one on the ground (object on less than a tenth).';
  const entropy = `Of the ${line}, divided by its largest possible value: 0 one token, 1 all alike.`;
  const object = props.value.mask ? [['in object', 'inside', percent, inside], ['AUROC', 'auroc', decimal, auroc]] : [];
  const many = (v) => `${v.toFixed(0)}${panel.row ? ` of ${panel.row.length}` : ''}`;
  const sum = [`${line} sum`, 'sum', decimal, `Sum of this ${line}.`];
  if (kind === 'relevance') return [['cosine', 'similarity', decimal, 'Cosine similarity of the picture and the text.'], ['entropy', 'entropy', decimal, entropy], ...object];
  if (kind === 'weights' && side.differential) {
    return [
      [reads ? 'row sum, 1 − λ' : sum[0], ...sum.slice(1)],
      ['negative mass', 'negative', percent, 'Σ|negative entries| divided by Σ|all entries|.'],
      ['entropy, positive', 'entropy', decimal, `Of the positive part of the ${line}: 0 one token, 1 all alike.`],
      cls,
      ['cos(A1, A2)', 'cosine', decimal, `Cosine of this ${line} of A1 and the same of λA2.`],
      ['A1 cancelled', 'cancelled', percent, 'Σ min(A1, λA2) / Σ A1: how much of A1 is subtracted away.'],
      ...(props.value.mask ? [['in object, positive', 'inside', percent, inside], ['AUROC, signed', 'auroc', decimal, auroc]] : []),
    ].filter(([label]) => label);
  }
  const first = kind === 'subtracted' && reads ? ['λ, row sum', ...sum.slice(1)] : sum;
  return [first, ['entropy', 'entropy', decimal, entropy], ['support', 'support', many, 'Tokens with a weight other than zero.'], cls, ...object].filter(([label]) => label);
}

const controlled = (panel) => ['weights', 'positive', 'negative'].includes(panel.setting.kind) && Boolean(sideOf(panel.side)?.differential);

function question(panel) {
  const { model, kind, head } = panel.setting;
  const query = S.query && typeof panel.token === 'number' && !S.answers[model]?.data?.pooling ? panel.token : null;
  return { ...readoutOf(model, S.drawn.layer), alpha: S.drawn.alpha, source: S.drawn.source, kind, head, query, direction: S.direction };
}

function numbersOf(panel) {
  if (!panel.row) return null;
  if (panel.setting.kind === 'relevance') {
    const { measures, similarity } = relevanceOf(panel.setting.model);
    return { measures: { ...measures, similarity }, control: {} };
  }
  return numbers.get(JSON.stringify(question(panel))) ?? null;
}

// Ask for the numbers that are missing, in one request; while one is under way the next waits, and only the last is asked.
async function askNumbers() {
  const missing = S.panels.filter((panel) => panel.row && !numbersOf(panel));
  element.dataset.numbers = missing.length ? 'waiting' : 'shown';
  S.panels.forEach(fillFacts);
  if (!missing.length || asking) return;
  asking = true;
  const questions = missing.map(question);
  const { token, layer, alpha, source, direction } = questions[0];
  const panels = questions.map(({ model, kind, head, query }) => ({ model, kind, head, query }));
  let answer;
  try {
    answer = await server.get_numbers({ token, layer, alpha, source, direction, panels });
  } catch {
    answer = undefined;
  }
  asking = false;
  const found = answer?.panels ?? questions.map(() => ({ error: answer?.error ?? 'The server gave no numbers.' }));
  questions.forEach((asked, i) => numbers.set(JSON.stringify(asked), found[i].measures ? found[i] : { measures: {}, control: {}, error: found[i].error ?? '' }));
  while (numbers.size > KEPT_NUMBERS) numbers.delete(numbers.keys().next().value);
  askNumbers();
}

function fillFacts(panel) {
  panel.note.textContent = panel.message;
  const { facts } = panel;
  if (!panel.row) { facts.replaceChildren(); facts.dataset.of = ''; return; }
  const rows = factRows(panel);
  const control = controlled(panel);
  const heads = S.panels.some(controlled);
  const of = JSON.stringify([rows.map(([label]) => label), control, heads]);
  if (facts.dataset.of !== of) buildFacts(facts, rows, control, heads);
  facts.dataset.of = of;
  const found = numbersOf(panel);
  facts.classList.toggle('stale', !found);
  if (!found) return;
  const cells = [...facts.querySelectorAll('tr[data-measure]')];
  rows.forEach(([, name, write], i) => {
    const value = found.measures[name];
    cells[i].children[1].textContent = value === undefined || value === null ? '–' : write(value);
    if (control) cells[i].children[2].textContent = name in found.control ? (found.control[name] === null ? '–' : write(found.control[name])) : '';
  });
}

function buildFacts(facts, rows, control, heads) {
  facts.replaceChildren();
  // Every table has this line, so that the numbers of all panels stand side by side.
  if (heads) {
    const head = make('tr', 'heads-line');
    head.append(make('td'), make('td', '', '\u00a0'));
    if (control) {
      const cell = make('th', 'control', 'A2 shuffled');
      cell.title = 'The same number after A2 was permuted over the patches, the mean of 20 fixed shuffles: what subtracting any such map would give.';
      head.append(cell);
    }
    facts.append(head);
  }
  for (const [label, name, , meaning] of rows) {
    const line = make('tr');
    line.title = meaning;
    line.dataset.measure = name;
    const heading = make('th', '', label);
    heading.scope = 'row';
    line.append(heading, make('td', 'num', '…'), ...(control ? [make('td', 'num control', '')] : []));
    facts.append(line);
  }
}
