/*
 * The page's small dictionary: the sound and a few English words of every character that the couplet model knows.
 * /glosses.json is made from Unihan by scripts/glosses. It is loaded after the first answer, because it is larger than
 * the page.
 */
import { get } from './common.js';

let entries = {};
let loading = null;

/* Done when the dictionary is there; after a failure the next call asks again. */
export function loadGlosses() {
  loading ??= get('/glosses.json').then((all) => { entries = all; }).catch(() => { loading = null; });
  return loading;
}

/* { pinyin, gloss } of a character, or null. A traditional character has those of its simplified form. */
export function glossOf(character) {
  const own = Object.hasOwn(entries, character ?? '') ? entries[character] : '';
  const entry = Object.hasOwn(entries, own) ? entries[own] : own;
  const [pinyin, ...gloss] = entry.split(' ');
  return pinyin ? { pinyin, gloss: gloss.join(' ') } : null;
}
