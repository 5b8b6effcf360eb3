/*
 * A caption for a couplet: four characters that hang over the door. The candidates are captions that people hang, by theme, and
 * captions that the couplet model writes, as answers to four characters of either line. A candidate's rank is its
 * log-probability, and that of the couplet as a poem under this title if a poem model is served. A caption that people hang
 * counts as the likeliest of the written ones. The themes of the couplet's characters decide first: a model alone would hang
 * a wedding's caption over a lamp in the rain.
 */
import { findModel, post } from './common.js';

const LENGTH = 4;
const SAMPLES = 12; // of each piece
const MOST = 8;     // suggestions
const TITLE_WEIGHT = 0.5;

const THEME_WEIGHT = 8; // of the theme that most characters speak of
const NO_THEME = 0.5;   // the share of a written caption

/* The characters that speak of a theme, and its captions. */
const THEMES = Object.entries({
  春年岁新旧福节腊元爆符联吉祥兔龙虎牛马羊: `辞旧迎新 万象更新 春满人间 春意盎然 欢度佳节 喜气盈门 福满家园 吉祥如意 五谷丰登 风调雨顺
    瑞雪丰年 国泰民安 人寿年丰`,
  缘偶婚鸳鸯鸾凤双侣良永爱情喜结: '百年好合 天作之合 佳偶天成 花好月圆 永结同心 喜结良缘',
  寿松鹤龄椿萱福东南: '福寿绵长 松鹤延年 寿比南山 福如东海 金玉满堂 吉祥如意',
  财商利货店市宝金隆盛茂: '财源广进 生意兴隆 马到成功 金玉满堂 物华天宝 前程似锦',
  书学读墨卷师考榜题勤砚笔业代码程序员设桃李满文章: `书香门第 业精于勤 学海无涯 天道酬勤 桃李芬芳 博古通今 温故知新 金榜题名 前程似锦
    鹏程万里 锦绣前程 自强不息 厚德载物`,
  医药病壶手济世妙: '仁心仁术 妙手回春 悬壶济世 厚德载物',
  山水月云风雪江海花鸟舟夜雨秋夏湖竹梅柳天星雁岸灯涯: `江山如画 山高水长 山清水秀 鸟语花香 柳暗花明 云淡风轻 清风明月 月白风清 秋高气爽
    诗情画意 琴心剑胆 高山流水 海阔天空 心旷神怡 岁月如歌 一帆风顺`,
  国家民军英雄疆史华: '国泰民安 保家卫国 壮志凌云 光耀千秋 人杰地灵 物华天宝 源远流长',
  道德仁心善佛禅静: '宁静致远 厚德载物 上善若水 返璞归真 大道至简',
}).map(([characters, captions]) => ({ characters, captions: captions.split(/\s+/) }));

const chars = (text) => Array.from(text);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/* The prompts of the candidates: the first and the last characters of each line, without punctuation. */
function pieces(lines) {
  const words = lines.map((line) => chars(line).filter((c) => /\p{Script=Han}/u.test(c))).filter((w) => w.length >= LENGTH);
  return [...new Set(words.flatMap((w) => [w.slice(0, LENGTH).join(''), w.slice(-LENGTH).join('')]))];
}

/* Caption -> the share of its theme: how often the couplet speaks of it, as a part of the most frequent theme. */
function sharesOf(lines) {
  const counts = THEMES.map(({ characters }) => chars(lines.join('')).filter((c) => characters.includes(c)).length);
  const most = Math.max(...counts, 1);
  const shares = new Map();
  THEMES.forEach(({ captions }, i) => captions.forEach((one) => shares.set(one, Math.max(shares.get(one) ?? 0, counts[i] / most))));
  return shares;
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
  const lines = [upper, lower];
  const found = await candidates(model, lines, seed);
  if (found.size === 0) return [];
  const likeliest = Math.max(...found.values());
  const shares = sharesOf(lines);
  for (const usual of shares.keys()) if (fits(usual, lines)) found.set(usual, likeliest);
  const titles = [...found.keys()];
  const poet = await findModel('poem');
  const suits = poet ? await underTitles(poet.id, titles, `${upper}，${lower}。`) : titles.map(() => 0);
  const worth = new Map(titles.map((title, i) => [title, found.get(title) + TITLE_WEIGHT * suits[i]
    + THEME_WEIGHT * (shares.get(title) ?? NO_THEME)]));
  return titles.sort((a, b) => worth.get(b) - worth.get(a)).slice(0, MOST);
}
