/*
 * A caption for a couplet: four characters that hang over the door. The couplet model writes the candidates, as answers
 * to four characters of either line. A candidate's rank is its log-probability. If a poem model is served, the
 * couplet's log-probability as a poem under this title counts too.
 */
import { findModel, post } from './common.js';

const LENGTH = 4;
const SAMPLES = 12; // of each piece
const MOST = 8;     // suggestions
const TITLE_WEIGHT = 0.5;

const chars = (text) => Array.from(text);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/* The prompts of the candidates: the first and the last characters of each line, without punctuation. */
function pieces(lines) {
  const words = lines.map((line) => chars(line).filter((c) => /\p{Script=Han}/u.test(c))).filter((w) => w.length >= LENGTH);
  return [...new Set(words.flatMap((w) => [w.slice(0, LENGTH).join(''), w.slice(-LENGTH).join('')]))];
}

/* Candidate -> its log-probability; no character twice, none of the couplet's. */
async function candidates(model, lines, seed) {
  const prompts = pieces(lines);
  const fits = (line) => new Set(line).size === LENGTH && !chars(line).some((c) => lines.join('').includes(c));
  if (prompts.length === 0) return new Map();
  const body = { model, prompt: prompts, n: SAMPLES, seed, logprobs: 0 };
  const { choices } = await (await post('/v1/completions', body)).json();
  return new Map(choices.filter((c) => fits(c.text)).map((c) => [c.text, sum(c.logprobs.token_logprobs)]));
}

/* The log-probability of the couplet as a poem of each title. */
async function underTitles(model, titles, poem) {
  const prompt = titles.map((title) => `宋《${title}》${poem}`);
  const body = { model, prompt, max_tokens: 0, echo: true, logprobs: 0 };
  const { choices } = await (await post('/v1/completions', body)).json();
  return choices.map(({ logprobs: { token_logprobs: each, text_offset: at } }) => sum(each.filter((_, i) => at[i] > LENGTH + 2)));
}

/* The best captions of the couplet, best first; none for lines that are too short. */
export async function suggestBanners(model, upper, lower, seed) {
  const found = await candidates(model, [upper, lower], seed);
  const titles = [...found.keys()];
  const poet = titles.length > 0 ? await findModel('poem') : null;
  const suits = poet ? await underTitles(poet.id, titles, `${upper}，${lower}。`) : titles.map(() => 0);
  const worth = new Map(titles.map((title, i) => [title, found.get(title) + TITLE_WEIGHT * suits[i]]));
  return titles.sort((a, b) => worth.get(b) - worth.get(a)).slice(0, MOST);
}
