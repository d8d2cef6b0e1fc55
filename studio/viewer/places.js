// Places: patches of each model (a side, by its name) on the shown picture, in fractions of its height and width.

function patchBox(side, row, col) {
  const { box, rows, cols } = props.value.sides[side];
  const [top, left, bottom, right] = box;
  const high = (bottom - top) / rows;
  const wide = (right - left) / cols;
  return [top + row * high, left + col * wide, top + (row + 1) * high, left + (col + 1) * wide];
}

// {side, row, col} of the patch under a point, or null where this side's model saw nothing.
function patchAt(side, y, x) {
  const { box, rows, cols } = props.value.sides[side];
  const [top, left, bottom, right] = box;
  if (y < top || y >= bottom || x < left || x >= right) return null;
  const row = Math.min(rows - 1, Math.floor(((y - top) / (bottom - top)) * rows));
  const col = Math.min(cols - 1, Math.floor(((x - left) / (right - left)) * cols));
  return { side, row, col };
}

// The patch of `side` that lies on the same original pixels as the centre of `patch`.
function sameplace(patch, side) {
  if (patch.side === side) return patch;
  const [top, left, bottom, right] = patchBox(patch.side, patch.row, patch.col);
  return patchAt(side, (top + bottom) / 2, (left + right) / 2);
}

const same = (a, b) => Boolean(a && b && a.side === b.side && a.row === b.row && a.col === b.col);

function keyOf(side, patch) {
  const { prefix, cols } = props.value.sides[side];
  return prefix + patch.row * cols + patch.col;
}

// Token of the query in one side's model: an index, 'mean' for the mean over patches of a model without CLS, and
// undefined where the query's pixels were not seen by it.
function queryOf(side) {
  if (!S.query) return props.value.sides[side].cls ? 0 : 'mean';
  const patch = sameplace(S.query, side);
  return patch ? keyOf(side, patch) : undefined;
}

function fits({ side, row, col }) {
  const model = props.value.sides[side];
  return Boolean(model) && row < model.rows && col < model.cols;
}

// The query of a model that was replaced at the side, and is on no panel any more, goes to the patch on the same original
// pixels of the one in its place. Answers whether it is gone, since that one did not see them.
function moveToReplaced(value) {
  if (!S.query || !S.shownAs) return false;
  const { row, col, side: before } = S.query;
  if ([value.left, value.right, ...modelsShown()].includes(before)) return false;
  const side = before === S.left ? value.left : before === S.right ? value.right : modelsShown().find(sideOf);
  const was = S.shownAs.sides[before];
  S.query = side && was ? patchAt(side, ...onShown(value.window, ...onPicture(S.shownAs.window, ...centreOf(was, row, col)))) : null;
  return !S.query;
}

function centreOf({ box: [top, left, bottom, right], rows, cols }, row, col) {
  return [top + ((row + 0.5) * (bottom - top)) / rows, left + ((col + 0.5) * (right - left)) / cols];
}

// Between fractions of the part of the picture that is shown and pixels of the picture: y, x.
const onPicture = ([top, left, bottom, right], y, x) => [top + y * (bottom - top), left + x * (right - left)];
const onShown = ([top, left, bottom, right], y, x) => [(y - top) / (bottom - top), (x - left) / (right - left)];
