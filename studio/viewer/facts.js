// Numbers under the panels: worked out by the server from floats, for what a panel shows now, with the control beside.

const KEPT_NUMBERS = 400;
const numbers = new Map(); // question as text -> {measures, control}
const failed = new Map(); // question as text -> why there are no numbers; until the next change, which asks again
let asking = false;
let ranAgain = false; // once until numbers come of all, so that a store too small for all runs is not asked for ever

const percent = (v) => (Number.isFinite(v) ? `${rounded(100 * v, 0)} %` : '–');
const decimal = (v) => (Number.isFinite(v) ? rounded(v, 2) : '–');

// [label, statistic, how it is written, what it means]
function factRows(panel) {
  const { kind } = panel.setting;
  const reads = S.direction === 'reads';
  const line = lineName(kind);
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
  const maps = S.drawn.source.split('+').length; // that are summed, each with rows of 1 or λ
  if (kind === 'relevance') return [['cosine', 'similarity', decimal, 'Cosine similarity of the picture and the text.'], ['entropy', 'entropy', decimal, entropy], ...object];
  if (kind === 'weights' && side.differential) {
    return [
      [!reads ? sum[0] : maps > 1 ? `row sum, ${maps} (1 − λ)` : 'row sum, 1 − λ', ...sum.slice(1)],
      ['negative mass', 'negative', percent, 'Σ|negative entries| divided by Σ|all entries|.'],
      ['entropy, positive', 'entropy', decimal, `Of the positive part of the ${line}: 0 one token, 1 all alike.`],
      cls,
      ['cos(A1, λA2)', 'cosine', decimal, `Cosine of this ${line} of A1 and the same of λA2; below 0 where λ is.`],
      ['A1 cancelled', 'cancelled', percent, 'Σ min(A1, λA2) / Σ A1: how much of A1 is subtracted away.'],
      ...(props.value.mask ? [['in object, positive', 'inside', percent, inside], ['AUROC, signed', 'auroc', decimal, auroc]] : []),
    ].filter(([label]) => label);
  }
  const first = kind === 'subtracted' && reads ? [`${maps > 1 ? maps : ''}λ, row sum`, ...sum.slice(1)] : sum;
  return [first, ['entropy', 'entropy', decimal, entropy], ['support', 'support', many, 'Tokens with a weight other than zero.'], cls, ...object].filter(([label]) => label);
}

const controlled = (panel) => ['weights', 'positive', 'negative', 'value', 'relevance'].includes(panel.setting.kind) && Boolean(sideOf(panel.side)?.differential);

function question(panel) {
  const { model, kind, head } = panel.setting;
  const query = S.query && typeof panel.token === 'number' && !S.answers[model]?.data?.pooling ? panel.token : null;
  return { ...readoutOf(model, S.drawn.layer), alpha: S.drawn.alpha, source: S.drawn.source, kind, head, query, direction: S.direction };
}

function numbersOf(panel) {
  if (!panel.row) return null;
  if (panel.setting.kind === 'relevance') {
    const { measures, similarity } = relevanceOf(panel.setting.model);
    return { measures: { ...measures, similarity }, control: relevanceControlOf(panel.setting.model)?.control ?? {} };
  }
  return numbers.get(JSON.stringify(question(panel))) ?? null;
}

// Ask for the numbers that are missing, in one request; while one is under way the next waits, and only the last is asked.
async function askNumbers() {
  const wanted = S.panels.filter((panel) => panel.row && !numbersOf(panel));
  const missing = wanted.filter((panel) => !failureOf(panel));
  element.dataset.numbers = missing.length ? 'waiting' : wanted.length ? 'failed' : 'shown';
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
  const found = answer?.panels ?? questions.map(() => ({ error: answer?.error ?? 'The server gave no numbers; any change asks again.' }));
  const evicted = found.some((each) => each.evicted);
  const runs = evicted && !ranAgain;
  ranAgain = evicted || (ranAgain && !found.every((each) => each.measures));
  const gone = runs ? 'The server let go of this run; it is asked to run again for the numbers.' : 'The server let go of this run, so there are no numbers; choose the picture again.';
  questions.forEach((asked, i) => {
    if (found[i].measures) numbers.set(JSON.stringify(asked), found[i]);
    else failed.set(JSON.stringify(asked), found[i].evicted ? gone : found[i].error ?? 'The server gave no numbers.');
  });
  while (numbers.size > KEPT_NUMBERS) numbers.delete(numbers.keys().next().value);
  if (runs) trigger('submit');
  askNumbers();
}

const failureOf = (panel) => (panel.setting.kind === 'relevance' ? undefined : failed.get(JSON.stringify(question(panel))));

function fillFacts(panel) {
  const failure = panel.row && !numbersOf(panel) ? failureOf(panel) : undefined;
  panel.note.textContent = panel.message || failure || '';
  const { facts } = panel;
  if (!panel.row) { facts.replaceChildren(); facts.dataset.of = ''; return; }
  const rows = factRows(panel);
  const control = controlled(panel);
  const heads = S.panels.some(controlled);
  const [said, head] = !control ? [] : panel.setting.kind === 'relevance' ? relevanceControlHead(panel.setting.model) : [SHUFFLED, 'A2 shuffled'];
  const of = JSON.stringify([rows.map(([label]) => label), control, heads, said, head?.title ? panel.setting.model : head]);
  if (facts.dataset.of !== of) buildFacts(facts, rows, heads, said, head);
  facts.dataset.of = of;
  const found = numbersOf(panel);
  facts.classList.toggle('stale', !found);
  if (!found && !failure) return;
  const cells = [...facts.querySelectorAll('tr[data-measure]')];
  rows.forEach(([, name, write], i) => {
    const value = found?.measures[name];
    cells[i].children[1].textContent = value === undefined || value === null ? '–' : write(value);
    if (control) cells[i].children[2].textContent = found && name in found.control ? (found.control[name] === null ? '–' : write(found.control[name])) : '';
  });
}

const SHUFFLED = 'The same number after A2 was permuted over the patches, the mean of 20 fixed shuffles: what subtracting any such map would give.';

// `head` is what stands over the column of the control, a text or a button, and `said` what it means.
function buildFacts(facts, rows, heads, said, head) {
  const held = facts.contains(document.activeElement);
  facts.replaceChildren();
  // Every table has this line, so that the numbers of all panels stand side by side.
  if (heads) {
    const line = make('tr', 'heads-line');
    line.append(make('td'), make('td', '', '\u00a0'));
    if (head) {
      const cell = make('th', 'control');
      cell.append(head);
      cell.title = said;
      cell.tabIndex = -1;
      line.append(cell);
      // The button that was pressed is gone, but not the place where the keyboard was.
      if (held) requestAnimationFrame(() => cell.focus({ preventScroll: true }));
    }
    facts.append(line);
  }
  for (const [label, name, , meaning] of rows) {
    const line = make('tr');
    line.title = meaning;
    line.dataset.measure = name;
    const heading = make('th', '', label);
    heading.scope = 'row';
    line.append(heading, make('td', 'num', '…'), ...(head ? [make('td', 'num control', '')] : []));
    facts.append(line);
  }
}
