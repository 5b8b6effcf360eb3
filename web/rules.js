/* The rules of a couplet, as far as they can be seen in its two lines. The server's sampler keeps
   them; the page shows that they are kept. Pure. */

const chars = (text) => Array.from(text);

/* Chinese and other punctuation, with the signs that the server counts to it. */
export const isPunctuation = (c) => /[\p{P}$+<=>^`|~＄＋＜＝＞＾｀｜～]/u.test(c);

/* Where each character of a line was first seen: two lines with the same list repeat alike. */
const pattern = (line) => line.map((c) => line.indexOf(c));

/* { length, repetition, punctuation, shared }, each true when kept. */
export function rulesKept(upper, lower) {
  const [up, low] = [chars(upper), chars(lower)];
  const length = up.length === low.length;
  return {
    length,
    repetition: length && String(pattern(up)) === String(pattern(low)),
    punctuation: length && up.every((c, i) => (isPunctuation(c) ? c === low[i] : !isPunctuation(low[i]))),
    shared: !low.some((c) => !isPunctuation(c) && up.includes(c)),
  };
}
