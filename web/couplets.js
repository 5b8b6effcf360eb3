/*
 * The couplets' tab: an upper line goes to POST /v1/completions, and the lower lines come back with their tones.
 *
 * Everything shown follows from one object, `state`, through the render functions; nothing is read
 * back from the document but the form. The answer is not streamed, because the server chooses the lines from many samples.
 * A brush writes the paper, at most one character every BRUSH_MS, because a model writes faster than an eye follows.
 *
 * Each character has its place in the line as `data-place`. Pointing at a place, or focusing its button in the row of
 * pairs, marks both characters and tells their sound and meaning (gloss.js).
 *
 * The URL's hash has the fields of a couplet (line, seed, temperature, ...), so a link is a couplet.
 */
import {
  $, ApiError, bytesText, calm, checkNumbers, drawSeed, explain, findModel, makeCopyButton, page, placeForKey, post,
  requestRender, say, setText, wholeOf, writeAddress,
} from './common.js';
import { glossOf, loadGlosses, wordByWord } from './gloss.js';
import { isPunctuation, rulesKept } from './rules.js';
import { coupletCanvas, saveCanvas } from './share.js';

const BRUSH_MS = 110;
const PLACEHOLDER = '海上明月';
const FIELDS = ['n', 'temperature', 'banner'];
const MOST = 40;    // characters on the paper; the server refuses longer lines anyway
const COLUMN = 14;  // characters of a column of a long line
const TONES = { 平: 'level', 仄: 'oblique', 中: 'both' };

const WORDS = {
  zh: {
    fields: { n: '下联句数', prompt: '上联' },
    symbol: (c) => `「${c}」不是汉字，也不是标点，对不上。`,
    digits: (digits, zh) => `数字对不上，请写成汉字：把「${digits}」写成「${zh}」。`,
    latin: (word) => `「${word}」是拼音或外文，对不上；请写汉字，例如「${PLACEHOLDER}」。`,
    long: (n, max) => `上联有 ${n} 字，太长了，最多 ${max} 字。`,
    facts: (a) => [`用时 ${a.took} 毫秒`, `种子 ${a.request.seed}`],
    fewer: (n, kept) => `写了 ${n} 句，不同的有 ${kept} 句`,
    memory: (size) => `每次请求的记忆 ${size}`,
    busy: '正在对……',
    said: (line, isUpper) => `${isUpper ? '上联' : '下联'}：${line}`,
    lines: (isUpper) => (isUpper ? '上联' : '下联'),
    simplified: '繁体字已按简体读，答句也用简体。',
    wasLower: '你这一句末字是平声，本是下联，所以挂在左边；模型对的是上联。',
    point: '指一个字，看它对的是哪个字、怎么读、什么意思。',
    captioned: (line) => `横批：${line}`,
    noCaption: '这副对子没有拟出横批。',
  },
  en: {
    fields: { n: 'Candidates', prompt: 'The upper line' },
    symbol: (c) => `“${c}” is neither a Chinese character nor punctuation, so nothing can answer it.`,
    digits: (digits, zh) => `Digits have no partner. Write “${zh}” instead of “${digits}”.`,
    latin: (word) => `“${word}” has Latin letters, which have no partner. Write Chinese characters, for example ${PLACEHOLDER}.`,
    long: (n, max) => `The line has ${n} characters; the limit is ${max}.`,
    facts: (a) => [`answered in ${a.took} ms`, `seed ${a.request.seed}`],
    fewer: (n, kept) => `${n} lines were written, ${kept} distinct`,
    memory: (size) => `memory per request ${size}`,
    busy: 'Answering …',
    said: (line, isUpper) => `${isUpper ? 'Upper' : 'Lower'} line: ${line}`,
    lines: (isUpper) => (isUpper ? 'Upper lines' : 'Lower lines'),
    simplified: 'Traditional characters were read as their simplified forms, and the answers are in simplified characters.',
    wasLower: 'Your line ends with a level tone, so it is a lower line and hangs on the left. The model answers with upper lines.',
    point: 'Point at a character: its partner, its sound and its meaning appear here.',
    captioned: (line) => `Caption: ${line}`,
    noCaption: 'No caption was found for this couplet.',
  },
};

const state = {
  upper: '',      // the input, without white space
  banner: '',     // the caption over the door
  answer: null,   // the newest answer, see newAnswer
  shown: 0,       // characters of the hung line that are on the paper
  pick: 0,        // place in the list of the line a link asks to hang
  seed: null,     // the seed that a link asks for, until the next run
  pointed: null,  // { sample, place }: the character that is pointed at
  failure: null,  // the newest error, until the line is edited
  model: null,    // { id, stateBytes, maxChars } once known
};

const chars = (text) => Array.from(text);

/* The couplet model, told to the page's state; an ApiError when none is served. */
async function loadModel() {
  const model = await findModel('couplet');
  if (!model) throw new ApiError(404, { message: 'no couplet model' });
  const { state_bytes: stateBytes, max_chars: maxChars } = model.meta || {};
  state.model = { id: model.id, stateBytes, maxChars };
}

/* --- an answer --------------------------------------------------------------------------------- */

/* The marks of a line, one per character; none from a server that has none. */
const tonesOf = (marks) => Array.from(marks ?? '', (mark) => TONES[mark] ?? '');

/* `request` has the sent fields. `order` lists the samples in the server's order, each line once. `chosen` is the sample
   on the paper. `isUpper`: the given line was a lower one, and upper lines answer it. */
function newAnswer(request, reply, took) {
  const samples = [];
  for (const { index, text, mean_logprob: score, tones } of reply.choices) {
    samples[index] = { text, score: score ?? null, tones: tonesOf(tones) };
  }
  const order = samples.map((_, i) => i);
  const isFirst = (i) => order.find((j) => samples[j].text === samples[i].text) === i;
  return {
    request, samples, order: order.filter(isFirst), chosen: 0, took: Math.round(took),
    tones: tonesOf(reply.prompt_tones), isUpper: reply.answered === 'upper',
    simplified: (reply.warnings ?? []).some(({ message }) => /simplified/.test(message)),
  };
}

/* --- a run ------------------------------------------------------------------------------------- */

let running = null; // AbortController of the run in progress
let askedAt = ''; // the address at which it began: Back to another one ends it

/* A drawn seed is not put into the form, so that the next run draws another. Without a temperature the server chooses the
   lines from a pool. */
function readForm() {
  checkNumbers($('n'), $('temperature'), $('seed'));
  const n = Number($('n').value || $('n').defaultValue);
  const temperature = $('temperature').value;
  const seed = state.seed ?? ($('seed').value || drawSeed());
  return { upper: state.upper, n, ...(temperature !== '' && { temperature: Number(temperature) }), seed: Number(seed) };
}

async function ask(signal) {
  const request = readForm();
  await loadModel();
  const { upper: prompt, ...plan } = request;
  const started = performance.now();
  const reply = await (await post('/v1/completions', { model: state.model.id, prompt, ...plan }, signal)).json();
  const answer = newAnswer(request, reply, performance.now() - started);
  answer.chosen = answer.order[state.pick] ?? answer.order[0];
  return answer;
}

async function run() {
  if (running) running.abort();
  if (suggested && state.banner === suggested) $('banner').value = state.banner = ''; // it was another couplet's
  const { signal } = running = new AbortController();
  askedAt = location.hash || '#couplets';
  Object.assign(state, { answer: null, failure: null, shown: 0, pointed: null });
  say('couplets', WORDS[page.lang].busy);
  requestRender();
  try {
    const answer = await ask(signal);
    if (signal.aborted) return;
    Object.assign(state, { answer, seed: null });
    writeHash(true);
    say('couplets', current() ? WORDS[page.lang].said(hungText(), answer.isUpper) : ''); // the line may have been edited
    loadGlosses().then(requestRender);
  } catch (error) {
    if (signal.aborted) return;
    state.failure = error;
    say('couplets', ''); // the error speaks for itself
  }
  running = null;
  requestRender();
}

function runAgain() {
  $('seed').value = '';
  state.pick = 0;
  run();
}

/* --- captions ---------------------------------------------------------------------------------- */

let suggestions = { of: '', list: Promise.resolve([]) };
let suggested = null; // the caption that was no visitor's own

/* The next caption for the couplet that hangs. */
async function suggest() {
  if (!current()) return;
  const { request: { seed } } = state.answer;
  const pair = [state.upper, hungText()];
  const of = pair.join();
  const find = async () => (await import('./banner.js')).suggestBanners(state.model.id, ...pair, seed);
  if (suggestions.of !== of) suggestions = { of, list: find() };
  try {
    const list = await suggestions.list;
    if (suggestions.of !== of || [state.upper, hungText()].join() !== of) return; // another couplet hangs now
    const next = list[(list.indexOf(state.banner) + 1) % list.length];
    if (!next) throw new ApiError(400, { param: 'banner' });
    say('couplets', WORDS[page.lang].captioned(next));
    $('banner').value = suggested = next;
    takeInput();
  } catch (error) {
    suggestions.of = '';
    state.failure = error;
    requestRender();
  }
}

/* --- the URL's hash ---------------------------------------------------------------------------- */

function hash() {
  if (!state.answer) return running ? askedAt : '#couplets';
  const { request, order, chosen } = state.answer;
  const fields = new URLSearchParams();
  for (const id of ['n', 'temperature', 'seed']) if (id in request) fields.set(id, request[id]);
  if (order.indexOf(chosen) > 0) fields.set('pick', order.indexOf(chosen));
  if (state.banner) fields.set('banner', state.banner);
  return `#${encodeURIComponent(request.upper)}&${fields}`;
}

/* The line and the seed of an address: addresses that differ in them are different couplets. */
function lineAndSeed(address) {
  const [line, ...rest] = address.slice(1).split('&');
  return { line: encodeURIComponent(safeDecode(line) ?? ''), seed: new URLSearchParams(rest.join('&')).get('seed') };
}

/* isNew: another couplet is an entry of the history, so that Back returns to the one before. */
function writeHash(isNew = false) {
  if (page.tab !== 'couplets') return;
  const [before, after] = [location.hash, hash()].map(lineAndSeed);
  const other = before.line !== after.line || (before.seed ?? after.seed) !== after.seed;
  writeAddress(hash(), isNew && other);
}

function safeDecode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null; // not percent-encoded UTF-8
  }
}

/* Fills the form from the hash; false when there is no line in it. */
function readHash() {
  const [line, ...rest] = location.hash.slice(1).split('&');
  if (line === '' || line === 'couplets') return false; // the name is the tab's own link
  const fields = new URLSearchParams(rest.join('&'));
  if (safeDecode(line) === null) return false;
  $('upper').value = safeDecode(line);
  for (const id of FIELDS) $(id).value = fields.get(id) ?? $(id).defaultValue;
  state.seed = wholeOf(fields.get('seed'));
  state.pick = wholeOf(fields.get('pick')) ?? 0;
  return true;
}

/* Whether the hash asks for a couplet. Back to the tab's own link shuts the door again. */
function follow() {
  if (!readHash()) {
    running?.abort();
    running = null;
    say('couplets', '');
    Object.assign(state, { answer: null, failure: null, shown: 0 });
    requestRender();
    return false;
  }
  suggested = null;
  takeInput();
  run();
  return true;
}

/* --- rendering --------------------------------------------------------------------------------- */

/* The answer, as long as the input still holds the line it answers. */
const current = () => (state.answer?.request.upper === state.upper ? state.answer : null);
const hung = () => current()?.samples[current().chosen] ?? { text: '', tones: [] };
const hungText = () => hung().text;

function render() {
  const words = WORDS[page.lang];
  renderError(words);
  renderPaper();
  renderCandidates();
  renderRules();
  renderFacts(words);
  renderPairs(words);
  renderPointed();
  moveBrush();
}

function renderError(words) {
  const reason = (error) => (error.param === 'banner' ? words.noCaption : error.param === 'prompt' && explainLine(state.upper, words));
  setText($('error'), state.failure ? explain(state.failure, words.fields, reason) : '');
  $('upper').setAttribute('aria-invalid', state.failure?.param === 'prompt');
}

const sizeClass = (n) => (n <= 5 ? 'few' : n <= 7 ? 'short' : n <= 12 ? 'medium' : 'long');

/* The answer's lines and the visitor's own by the scroll that they hang on; the upper line hangs on the right. */
function renderPaper() {
  const own = chars(state.upper || PLACEHOLDER).slice(0, MOST);
  const answers = document.querySelector('.answers');
  const answer = current();
  answers.classList.toggle('idle', !answer && !running);
  answers.querySelector('.scrolls').className = `scrolls ${sizeClass(own.length)}`;
  answers.querySelector('.banner').textContent = state.banner;
  const names = answer?.isUpper ? ['lower', 'upper'] : ['upper', 'lower'];
  const [given, answering] = names.map((name) => answers.querySelector(`.scroll.${name}`));
  given.classList.toggle('faint', state.upper === '');
  answering.classList.remove('faint');
  writeCells(given, own, own.length, answer?.tones ?? []);
  writeCells(answering, chars(hungText()).slice(0, state.shown), own.length, hung().tones);
  const turns = turnsOf(own);
  for (const paper of [given, answering]) {
    Array.from(paper.children).forEach((cell, i) => cell.classList.toggle('turn', turns.includes(i)));
  }
}

/* The places where a line of many columns begins a column: after punctuation, so that no word is torn, or else after an
   equal part. */
function turnsOf(line) {
  const turns = [];
  for (let from = 0; line.length - from > COLUMN;) {
    const columns = Math.ceil((line.length - from) / COLUMN);
    const even = from + Math.ceil((line.length - from) / columns);
    const ends = line.map((_, i) => i + 1).filter((end) => from < end && end <= from + COLUMN && end < line.length && isPunctuation(line[end - 1]));
    const fewest = ends.filter((end) => Math.ceil((line.length - end) / COLUMN) < columns);
    from = (fewest.length > 0 ? fewest : ends).sort((a, b) => Math.abs(a - even) - Math.abs(b - even))[0] ?? even;
    turns.push(from);
  }
  return turns;
}

const newSpan = (className) => Object.assign(document.createElement('span'), { className });

/* Puts characters with their tones into the first of `total` cells, touching only cells that change. */
function writeCells(line, text, total, tones) {
  while (line.childElementCount > total) line.lastElementChild.remove();
  while (line.childElementCount < total) line.append(newSpan('ink'));
  Array.from(line.children).forEach((cell, i) => {
    const character = text[i] || '';
    cell.dataset.place = i;
    setTone(cell, character && tones[i]);
    if (cell.textContent === character) return;
    cell.textContent = character;
    cell.classList.toggle('written', character !== '');
  });
}

function setTone(cell, tone) {
  if (tone) cell.dataset.tone = tone;
  else delete cell.dataset.tone;
}

function moveBrush() {
  const length = chars(hungText()).length;
  if (state.shown >= length) return;
  if (calm.matches) {
    state.shown = length;
    requestRender();
  } else if (!moveBrush.timer) {
    moveBrush.timer = setTimeout(() => {
      moveBrush.timer = null;
      state.shown += 1;
      requestRender();
    }, BRUSH_MS);
  }
}

function renderCandidates() {
  const list = document.querySelector('ol.candidates');
  const answer = current();
  const order = answer ? answer.order : [];
  const focused = list.contains(document.activeElement);
  while (list.childElementCount > order.length) list.lastElementChild.remove();
  while (list.childElementCount < order.length) list.append(newCandidate());
  const best = answer ? Math.max(...answer.samples.map((s) => s.score ?? -Infinity)) : 0;
  order.forEach((index, i) => {
    const item = list.children[i];
    const { text, score, tones } = answer.samples[index];
    const selected = index === answer.chosen;
    item.dataset.sample = index;
    item.setAttribute('aria-selected', selected);
    item.tabIndex = selected ? 0 : -1;
    writeCells(item.querySelector('.line'), chars(text), chars(text).length, tones);
    item.querySelector('.score').textContent = score === null ? '' : score.toFixed(2).replace('-', '−');
    const share = score === null ? 0 : Math.exp(score - best);
    item.querySelector('.sure').style.transform = `scaleX(${share})`;
    if (selected && focused) item.focus();
  });
}

function newCandidate() {
  const item = document.createElement('li');
  item.setAttribute('role', 'option');
  item.lang = 'zh';
  item.append(newSpan('line'), newSpan('score'), newSpan('sure'));
  return item;
}

/* Which rules the hung line keeps, once it is whole. */
function renderRules() {
  const kept = current() ? rulesKept(state.upper, hungText()) : {};
  for (const rule of document.querySelectorAll('.rules li')) {
    rule.classList.toggle('kept', kept[rule.dataset.rule] === true);
    rule.classList.toggle('broken', kept[rule.dataset.rule] === false);
  }
  $('save').disabled = $('copy').disabled = !current();
}

function renderFacts(words) {
  const answer = current();
  const bytes = state.model?.stateBytes;
  const facts = answer ? words.facts(answer) : running ? [words.busy] : [];
  if (answer && answer.order.length < answer.samples.length) facts.push(words.fewer(answer.samples.length, answer.order.length));
  if (answer && bytes) facts.push(words.memory(bytesText(bytes)));
  setText(document.querySelector('.answers .facts'), facts.join(' · '));
  setText($('candidates-title'), words.lines(Boolean(answer?.isUpper)));
  const notes = [answer?.simplified && words.simplified, answer?.isUpper && words.wasLower].filter(Boolean);
  setText(document.querySelector('.read-as'), notes.join(' '));
  document.querySelector('.tone-key').hidden = !answer?.tones.length;
}

/* --- pairs of characters ----------------------------------------------------------------------- */

/* A row of buttons, one per place of the couplet that hangs: the two characters with their sounds. */
function renderPairs(words) {
  const row = document.querySelector('.pairs');
  const answer = current();
  const [upper, lower] = answer ? [state.upper, hungText()].map(chars) : [[], []];
  const places = upper.map((_, i) => i).filter((i) => !isPunctuation(upper[i]));
  while (row.childElementCount > places.length) row.lastElementChild.remove();
  while (row.childElementCount < places.length) row.append(newPair());
  places.forEach((place, i) => {
    const button = row.children[i].firstElementChild;
    button.dataset.place = place;
    const texts = [upper[place], glossOf(upper[place])?.pinyin, lower[place], glossOf(lower[place])?.pinyin];
    texts.forEach((text, k) => setText(button.children[k], text ?? ''));
  });
  const meanings = wordByWord(lower.join(''));
  setText(document.querySelector('.answers .word-by-word'), meanings && `Word by word: ${meanings}`);
  if (!state.pointed) setText(document.querySelector('.pointed-at'), answer ? words.point : '');
}

function newPair() {
  const button = Object.assign(document.createElement('button'), { type: 'button' });
  for (const lang of ['zh', 'zh-Latn', 'zh', 'zh-Latn']) {
    button.append(Object.assign(document.createElement(lang === 'zh' ? 'b' : 'small'), { lang }));
  }
  const item = document.createElement('li');
  item.append(button);
  return item;
}

/* A character with its sound and meaning, as nodes. */
function told(character) {
  const { pinyin = '', gloss = '' } = glossOf(character) ?? {};
  const part = (tag, lang, textContent) => Object.assign(document.createElement(tag), { lang, textContent });
  return [part('b', 'zh', character), ' ', part('i', 'zh-Latn', pinyin), ' ', part('span', 'en', gloss)];
}

function renderPointed() {
  const { pointed } = state;
  const answer = current();
  for (const cell of document.querySelectorAll('.answers [data-place]')) {
    const own = cell.closest('.candidates > li');
    const shown = pointed && Number(cell.dataset.place) === pointed.place && (!own || Number(own.dataset.sample) === pointed.sample);
    cell.classList.toggle('pointed', Boolean(shown));
  }
  if (!pointed || !answer) return;
  const [own, other] = [state.upper, answer.samples[pointed.sample].text].map((line) => chars(line)[pointed.place]);
  const box = document.querySelector('.pointed-at');
  const key = `${own}${other}${Boolean(glossOf(own))}`;
  if (box.dataset.key === key && box.childElementCount > 0) return;
  box.dataset.key = key;
  box.replaceChildren(...told(own), Object.assign(newSpan('against'), { textContent: ' ⇄ ' }), ...told(other));
}

function point(event) {
  const cell = event.target.closest?.('[data-place]');
  const answer = current();
  if (!cell || !answer) return;
  const place = Number(cell.dataset.place);
  if (isPunctuation(chars(state.upper)[place] ?? '，')) return;
  state.pointed = { sample: Number(cell.closest('.candidates > li')?.dataset.sample ?? answer.chosen), place };
  loadGlosses().then(requestRender);
  requestRender();
}

/* --- errors in plain words --------------------------------------------------------------------- */

/* Why the server refused this line, as far as it can be seen in the line. Foreign words keep their spaces. */
function explainLine(line, words) {
  const [digits] = /[0-9０-９]+/u.exec(line) ?? [];
  if (digits) return words.digits(digits, chars(digits.normalize('NFKC')).map((d) => '〇一二三四五六七八九'[d]).join(''));
  const [latin] = /\p{Script=Latin}+(\s+\p{Script=Latin}+)*/u.exec($('upper').value) ?? [];
  if (latin) return words.latin(latin);
  const other = chars(line).find((c) => !/\p{Script=Han}/u.test(c) && !isPunctuation(c));
  if (other) return words.symbol(other);
  const { length } = chars(line);
  return length > state.model?.maxChars ? words.long(length, state.model.maxChars) : '';
}

/* --- events ------------------------------------------------------------------------------------ */

/* White space is no part of a couplet: a line may come with it from anywhere. */
function takeInput() {
  const upper = $('upper').value.replace(/\s+/gu, '');
  if (upper !== state.upper) state.failure = null;
  Object.assign(state, { upper, banner: $('banner').value.trim() });
  if (current()) writeHash(); // the caption may have changed
  requestRender();
}

function onSubmit(event) {
  event.preventDefault();
  Object.assign(state, { pick: 0, seed: null });
  if ($('upper').value.trim() === '') $('upper').value = PLACEHOLDER;
  takeInput();
  run();
}

function choose(index) {
  current().chosen = index;
  Object.assign(state, { shown: 0, pointed: null });
  writeHash();
  requestRender();
}

function onCandidateKey(event) {
  if (!current()) return;
  const { order, chosen } = current();
  const at = order.indexOf(chosen);
  const sideways = /^Arrow(Left|Right)$/.test(event.key);
  const to = sideways ? undefined : placeForKey(event.key, at, order.length, 1);
  if (to === undefined) return;
  event.preventDefault();
  choose(order[to]);
}

function onCandidateClick(event) {
  const item = event.target.closest('li');
  if (!item || !current()) return;
  choose(Number(item.dataset.sample));
  item.focus();
}

function savePicture() {
  const pair = current().isUpper ? [hungText(), state.upper] : [state.upper, hungText()];
  saveCanvas(coupletCanvas(...pair, state.banner), `linnet-${state.upper}.png`);
}

/* The tab, as app.js knows it. */
export const couplets = {
  start() {
    $('result').replaceChildren($('stage').content.cloneNode(true));
    $('form').noValidate = true; // the server judges; its answer is shown next to the input
    Object.assign($('temperature'), { value: '', defaultValue: '', placeholder: '∗', step: '0.05' }); // the server's pool has its own
    $('form').addEventListener('submit', onSubmit);
    $('form').addEventListener('input', (event) => { if (!event.isComposing) takeInput(); });
    $('upper').addEventListener('compositionend', takeInput);
    $('upper').addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown') document.querySelector('.candidates [tabindex="0"]')?.focus();
    });
    $('again').addEventListener('click', runAgain);
    $('suggest').addEventListener('click', suggest);
    makeCopyButton($('copy'), hash);
    $('save').addEventListener('click', savePicture);
    document.querySelector('.candidates').addEventListener('keydown', onCandidateKey);
    document.querySelector('.candidates').addEventListener('click', onCandidateClick);
    for (const name of ['pointerover', 'focusin', 'click']) document.querySelector('.answers').addEventListener(name, point);
    takeInput();
    loadModel().then(requestRender, () => {}); // a failure is shown when a line is sent
  },

  visit() {}, // it waits for a line

  render, follow, hash,
};
