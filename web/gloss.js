/*
 * The page's small dictionary: the sound and a few English words of the characters of couplets, and of most poems.
 * /glosses.json is made from Unihan by scripts/glosses. It is loaded after the first answer, because it is larger than
 * the page.
 */
import { get } from './common.js';
import { isPunctuation } from './rules.js';

const entries = new Map();    // character -> { pinyin, gloss }
const simplified = new Map(); // traditional character -> simplified one
let loading = null;

/* The file has the entries by their sound, and pairs of a traditional and a simplified character under no sound. */
function take({ '': pairs, ...bySound }) {
  for (const [old, now] of pairs.map((pair) => Array.from(pair))) simplified.set(old, now);
  for (const [pinyin, list] of Object.entries(bySound)) {
    for (const [character, ...gloss] of list.map((entry) => Array.from(entry))) {
      entries.set(character, { pinyin, gloss: gloss.join('') });
    }
  }
}

/* Done when the dictionary is there; after a failure the next call asks again. */
export function loadGlosses() {
  loading ??= get('/glosses.json').then(take).catch(() => { loading = null; });
  return loading;
}

/* { pinyin, gloss } of a character, or null. A traditional character has those of its simplified form. */
export function glossOf(character) {
  return entries.get(simplified.get(character) ?? character) ?? null;
}

/* The first meaning of each character of a line, for readers of English; '' until the dictionary is there. */
export function wordByWord(line) {
  const meanings = Array.from(line).filter((c) => !isPunctuation(c)).map((c) => glossOf(c)?.gloss.split(',')[0]);
  return meanings.some(Boolean) ? meanings.map((meaning) => meaning || '–').join(' · ') : '';
}
