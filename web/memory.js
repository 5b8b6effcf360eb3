/*
 * The memory of one head: the product that a step has added, the answer to a question, and the painting of both.
 *
 * `s` is a list of D rows of M numbers, a row per dimension of a key; `z` has D numbers (equations 16 to 20 of
 * "Transformers are RNNs"). One row of input adds a product of two vectors (equations 18 and 19). Both vectors follow
 * from the states before and after the row: the key from z, the value from s.
 */

export const nothing = (rows, columns) => ({
  s: Array.from({ length: rows }, () => new Array(columns).fill(0)),
  z: new Array(rows).fill(0),
});

/* The difference of two states: { s, z }. */
export function addedBetween(before, after) {
  return {
    s: after.s.map((row, d) => row.map((x, m) => x - before.s[d][m])),
    z: after.z.map((x, d) => x - before.z[d]),
  };
}

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/* a^T s: M numbers. */
const timesRows = (a, s) => s[0].map((_, m) => s.reduce((sum, row, d) => sum + a[d] * row[m], 0));

/* The value of a row's added product: the vector v for which key v^T is nearest to it. `error` is the unexplained share
   of the product. */
export function valueOf({ s, z }) {
  const value = timesRows(z, s).map((x) => x / dot(z, z));
  let [left, all] = [0, 0];
  s.forEach((row, d) => row.forEach((x, m) => {
    left += (x - z[d] * value[m]) ** 2;
    all += x ** 2;
  }));
  return { value, error: Math.sqrt(left / all) };
}

/* Equation 20's quotient for the key `question`. */
export function readOut(question, { s, z }) {
  const below = dot(question, z);
  return timesRows(question, s).map((x) => x / below);
}

/* The share of these keys (their sum) in a read-out: 0 to 1. */
export const shareOf = (question, keys, z) => dot(question, keys) / dot(question, z);

/* --- painting ---------------------------------------------------------------------------------- */

const [LESS, NONE, MORE] = [[96, 176, 255], [20, 18, 26], [255, 214, 120]];

/* From -most (blue) over 0 (night) to most (gold), by the square root, so that small ones are seen. */
function colourOf(x, most) {
  const share = Math.sqrt(Math.min(Math.abs(x) / most, 1));
  const end = x < 0 ? LESS : MORE;
  return NONE.map((c, i) => Math.round(c + (end[i] - c) * share));
}

/* Paints rows of numbers, one pixel per number. */
export function paintNumbers(canvas, rows, most) {
  const [height, width] = [rows.length, rows[0].length];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(width, height);
  rows.flat().forEach((x, i) => pixels.data.set([...colourOf(x, most || 1), 255], 4 * i));
  context.putImageData(pixels, 0, 0);
}

const PARTS = ['value', 'key', 'square'];

/* Paints s, next to it z and, if one row was added, its value above: { s, z, value }. */
export function paintMemory(box, { s, z, value }, { mostS, mostZ }) {
  while (box.childElementCount < PARTS.length) {
    const canvas = document.createElement('canvas');
    canvas.className = PARTS[box.childElementCount];
    canvas.setAttribute('aria-hidden', 'true');
    box.append(canvas);
  }
  const [above, beside, square] = box.children;
  above.classList.toggle('unknown', !value);
  paintNumbers(above, [value ?? new Array(s[0].length).fill(0)], value ? Math.max(...value.map(Math.abs)) : 1);
  paintNumbers(beside, z.map((x) => [x]), mostZ);
  paintNumbers(square, s, mostS);
}
