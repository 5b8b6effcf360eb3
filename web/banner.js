/*
 * A caption for a couplet: four characters that hang over the door. The couplet model writes candidates, as answers to four
 * characters of either line. A candidate's rank is its log-probability. If a poem model is served, the couplet's
 * log-probability as a poem under this title counts too, and captions that people hang compete with the written ones: such
 * a caption counts as the likeliest of them, so the couplet decides.
 */
import { findModel, post } from './common.js';

const LENGTH = 4;
const SAMPLES = 12; // of each piece
const MOST = 8;     // suggestions
const TITLE_WEIGHT = 0.5;

const USUAL = `春满人间 万象更新 国泰民安 风调雨顺 五谷丰登 吉祥如意 辞旧迎新 春意盎然 欢度佳节 喜气盈门 福满家园 金玉满堂 花好月圆
  百年好合 天作之合 佳偶天成 宁静致远 厚德载物 自强不息 天道酬勤 业精于勤 学海无涯 书香门第 博古通今 桃李芬芳 鹏程万里 锦绣前程
  前程似锦 马到成功 一帆风顺 海阔天空 江山如画 山高水长 山清水秀 鸟语花香 柳暗花明 云淡风轻 清风明月 月白风清 秋高气爽 瑞雪丰年
  诗情画意 琴心剑胆 高山流水 返璞归真 大道至简 上善若水 心旷神怡 岁月如歌 人杰地灵 物华天宝 保家卫国 壮志凌云 光耀千秋 源远流长
  温故知新`.split(/\s+/);

const chars = (text) => Array.from(text);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/* The prompts of the candidates: the first and the last characters of each line, without punctuation. */
function pieces(lines) {
  const words = lines.map((line) => chars(line).filter((c) => /\p{Script=Han}/u.test(c))).filter((w) => w.length >= LENGTH);
  return [...new Set(words.flatMap((w) => [w.slice(0, LENGTH).join(''), w.slice(-LENGTH).join('')]))];
}

/* No character twice, none of the couplet's. */
const fits = (caption, lines) => new Set(caption).size === LENGTH && !chars(caption).some((c) => lines.join('').includes(c));

/* Candidate -> its log-probability. */
async function candidates(model, lines, seed) {
  const prompts = pieces(lines);
  if (prompts.length === 0) return new Map();
  const body = { model, prompt: prompts, n: SAMPLES, seed, logprobs: 0 };
  const { choices } = await (await post('/v1/completions', body)).json();
  return new Map(choices.filter((c) => fits(c.text, lines)).map((c) => [c.text, sum(c.logprobs.token_logprobs)]));
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
  const poet = found.size > 0 ? await findModel('poem') : null;
  const likeliest = Math.max(...found.values());
  if (poet) for (const usual of USUAL.filter((one) => fits(one, [upper, lower]))) found.set(usual, likeliest);
  const titles = [...found.keys()];
  const suits = poet ? await underTitles(poet.id, titles, `${upper}，${lower}。`) : titles.map(() => 0);
  const worth = new Map(titles.map((title, i) => [title, found.get(title) + TITLE_WEIGHT * suits[i]]));
  return titles.sort((a, b) => worth.get(b) - worth.get(a)).slice(0, MOST);
}
