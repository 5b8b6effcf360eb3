/*
 * The couplets' tab: an upper line goes to POST /v1/completions, the lower lines stream back.
 *
 * Everything shown follows from one object, `state`, through the render functions; nothing is read
 * back from the document but the form. A run fills `state.answer` event by event. Each candidate in the list shows its
 * received text. A brush writes the paper, at most one character every BRUSH_MS, because a model writes faster than an
 * eye follows.
 *
 * The URL's hash has the fields of a couplet (line, seed, temperature, ...), so a link is a couplet.
 */
import {
  $, ApiError, bytesText, calm, drawSeed, explain, findModel, makeCopyButton, page, placeForKey, requestRender, say,
  setText, stream,
} from './common.js';
import { isPunctuation, rulesKept } from './rules.js';
import { coupletCanvas, saveCanvas } from './share.js';

const BRUSH_MS = 110;
const PLACEHOLDER = '海上明月';
const FIELDS = ['n', 'temperature', 'seed', 'banner'];

const WORDS = {
  zh: {
    fields: { n: '下联句数', prompt: '上联' },
    empty: '先写一句上联吧。',
    symbol: (c) => `「${c}」不是汉字，也不是标点，对不上。`,
    long: (n, max) => `上联有 ${n} 字，太长了，最多 ${max} 字。`,
    facts: (a) => [`首字 ${a.first} 毫秒`, `每秒 ${a.rate} 字`, `种子 ${a.request.seed}`],
    memory: (size) => `每次请求的记忆 ${size}`,
    said: (line) => `下联：${line}`,
    captioned: (line) => `横批：${line}`,
    noCaption: '这副对子没有拟出横批。',
  },
  en: {
    fields: { n: 'Candidates', prompt: 'The upper line' },
    empty: 'Write an upper line first.',
    symbol: (c) => `“${c}” is neither a Chinese character nor punctuation, so nothing can answer it.`,
    long: (n, max) => `The line has ${n} characters; the limit is ${max}.`,
    facts: (a) => [`first character ${a.first} ms`, `${a.rate} characters/s`, `seed ${a.request.seed}`],
    memory: (size) => `memory per request ${size}`,
    said: (line) => `Lower line: ${line}`,
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

/* request has the sent fields; order lists the samples as the list shows them; chosen is the sample on the paper;
   picked: the visitor chose it. */
function newAnswer(request, started) {
  const samples = Array.from({ length: request.n }, () => ({ text: '', score: null, ended: false }));
  return {
    request, samples, order: samples.map((_, i) => i), chosen: 0, picked: false, done: false,
    started, first: null, rate: null,
  };
}

function takeEvent(answer, event) {
  for (const choice of event.choices || []) {
    const sample = answer.samples[choice.index];
    sample.text += choice.text || '';
    sample.ended = sample.ended || Boolean(choice.finish_reason);
    if (typeof choice.mean_logprob === 'number') sample.score = choice.mean_logprob;
    if (choice.text && answer.first === null) answer.first = performance.now() - answer.started;
  }
}

/* Best first, the same line only once; the best is hung unless the visitor chose another. */
function finishAnswer(answer) {
  const { samples } = answer;
  const seconds = (performance.now() - answer.started) / 1000;
  const count = samples.reduce((sum, s) => sum + chars(s.text).length, 0);
  answer.rate = Math.round(count / seconds);
  answer.first = Math.round(answer.first);
  if (samples.every((s) => s.score !== null)) {
    answer.order.sort((a, b) => samples[b].score - samples[a].score);
  }
  const firstOf = (i) => answer.order.find((j) => samples[j].text === samples[i].text);
  answer.order = answer.order.filter((i) => firstOf(i) === i);
  const best = answer.order[state.pick] ?? answer.order[0];
  const chosen = answer.picked ? firstOf(answer.chosen) : best;
  if (samples[chosen].text !== samples[answer.chosen].text) state.shown = 0;
  Object.assign(answer, { chosen, done: true });
}

/* --- a run ------------------------------------------------------------------------------------- */

let running = null; // AbortController of the run in progress

function readForm() {
  if ($('seed').value === '') $('seed').value = drawSeed();
  return {
    upper: state.upper,
    n: Number($('n').value || $('n').defaultValue),
    temperature: Number($('temperature').value || $('temperature').defaultValue),
    seed: Number($('seed').value),
  };
}

async function run() {
  if (running) running.abort();
  if (suggested && state.banner === suggested) $('banner').value = state.banner = ''; // it was another couplet's
  const { signal } = running = new AbortController();
  const request = readForm();
  Object.assign(state, { answer: null, failure: null, shown: 0 });
  requestRender();
  try {
    await loadModel();
    const { upper: prompt, ...plan } = request;
    const started = performance.now();
    const body = { model: state.model.id, prompt, ...plan };
    for await (const event of stream('/v1/completions', body, signal)) {
      if (signal.aborted) return;
      state.answer = state.answer || newAnswer(request, started);
      takeEvent(state.answer, event);
      requestRender();
    }
    if (!state.answer?.samples.every((s) => s.ended)) throw new TypeError('the stream ended early');
    finishAnswer(state.answer);
    writeHash();
    say(WORDS[page.lang].said(hungText()));
  } catch (error) {
    if (signal.aborted) return;
    state.failure = error;
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
  if (!current()?.done) return;
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
    say(WORDS[page.lang].captioned(next));
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
  if (!state.answer?.done) return '#couplets';
  const { request, order, chosen } = state.answer;
  const fields = new URLSearchParams();
  for (const id of FIELDS.slice(0, 3)) fields.set(id, request[id]);
  if (order.indexOf(chosen) > 0) fields.set('pick', order.indexOf(chosen));
  if (state.banner) fields.set('banner', state.banner);
  return `#${encodeURIComponent(request.upper)}&${fields}`;
}

function writeHash() {
  if (page.tab === 'couplets') history.replaceState(null, '', hash());
}

/* Fills the form from the hash; false when there is no line in it. */
function readHash() {
  const [line, ...rest] = location.hash.slice(1).split('&');
  if (line === '' || line === 'couplets') return false; // the name is the tab's own link
  const fields = new URLSearchParams(rest.join('&'));
  try {
    $('upper').value = decodeURIComponent(line);
  } catch {
    return false; // not percent-encoded UTF-8
  }
  for (const id of FIELDS) $(id).value = fields.get(id) ?? $(id).defaultValue;
  state.pick = Number(fields.get('pick'));
  return true;
}

/* Whether the hash asks for a couplet. */
function follow() {
  if (!readHash()) return false;
  suggested = null;
  takeInput();
  run();
  return true;
}

/* --- rendering --------------------------------------------------------------------------------- */

/* The answer, as long as the input still holds the line it answers. */
const current = () => (state.answer?.request.upper === state.upper ? state.answer : null);
const hungText = () => current()?.samples[current().chosen].text ?? '';

function render() {
  const words = WORDS[page.lang];
  renderError(words);
  renderPaper();
  renderCandidates();
  renderRules();
  renderFacts(words);
  moveBrush();
}

function renderError(words) {
  const reason = (error) => (error.param === 'banner' ? words.noCaption : error.param === 'prompt' && explainLine(state.upper, words));
  setText($('error'), state.failure ? explain(state.failure, words.fields, reason) : '');
  $('upper').setAttribute('aria-invalid', state.failure?.param === 'prompt');
}

const sizeClass = (n) => (n <= 5 ? 'few' : n <= 7 ? 'short' : n <= 12 ? 'medium' : 'long');

function renderPaper() {
  const upper = chars(state.upper || PLACEHOLDER);
  const answers = document.querySelector('.answers');
  answers.classList.toggle('idle', !current() && !running);
  answers.querySelector('.scrolls').className = `scrolls ${sizeClass(upper.length)}`;
  answers.querySelector('.banner').textContent = state.banner;
  const scroll = answers.querySelector('.upper');
  scroll.classList.toggle('faint', state.upper === '');
  writeCells(scroll, upper, upper.length);
  writeCells(answers.querySelector('.lower'), chars(hungText()).slice(0, state.shown), upper.length);
}

const newSpan = (className) => Object.assign(document.createElement('span'), { className });

/* Puts characters into the first of `total` cells, touching only cells that change. */
function writeCells(scroll, line, total) {
  while (scroll.childElementCount > total) scroll.lastElementChild.remove();
  while (scroll.childElementCount < total) scroll.append(newSpan('ink'));
  Array.from(scroll.children).forEach((cell, i) => {
    const character = line[i] || '';
    if (cell.textContent === character) return;
    cell.textContent = character;
    cell.classList.toggle('written', character !== '');
  });
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
    const { text, score } = answer.samples[index];
    const selected = index === answer.chosen;
    item.dataset.sample = index;
    item.setAttribute('aria-selected', selected);
    item.tabIndex = selected ? 0 : -1;
    item.querySelector('.line').textContent = text;
    item.querySelector('.score').textContent = score === null ? '' : score.toFixed(2).replace('-', '−');
    const share = score === null || !answer.done ? 0 : Math.exp(score - best);
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
  const kept = current()?.done ? rulesKept(state.upper, hungText()) : {};
  for (const rule of document.querySelectorAll('.rules li')) {
    rule.classList.toggle('kept', kept[rule.dataset.rule] === true);
    rule.classList.toggle('broken', kept[rule.dataset.rule] === false);
  }
  $('save').disabled = !current()?.done;
}

function renderFacts(words) {
  const answer = current();
  const bytes = state.model?.stateBytes;
  const size = bytes ? bytesText(bytes) : '';
  const facts = answer?.done ? words.facts(answer) : [];
  if (answer?.done && size) facts.push(words.memory(size));
  setText(document.querySelector('.answers .facts'), facts.join(' · '));
}

/* --- errors in plain words --------------------------------------------------------------------- */

/* Why the server refused this line, as far as it can be seen in the line. */
function explainLine(line, words) {
  if (line === '') return words.empty;
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
  if (current()?.done) writeHash(); // the caption may have changed
  requestRender();
}

function onSubmit(event) {
  event.preventDefault();
  state.pick = 0;
  takeInput();
  run();
}

function choose(index) {
  const answer = current();
  Object.assign(answer, { chosen: index, picked: true });
  state.shown = 0;
  if (answer.done) writeHash();
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
  saveCanvas(coupletCanvas(state.upper, hungText(), state.banner), `linnet-${state.upper}.png`);
}

/* The tab, as app.js knows it. */
export const couplets = {
  start() {
    $('result').replaceChildren($('stage').content.cloneNode(true));
    $('form').noValidate = true; // the server judges; its answer is shown next to the input
    $('form').addEventListener('submit', onSubmit);
    $('form').addEventListener('input', (event) => { if (!event.isComposing) takeInput(); });
    $('upper').addEventListener('compositionend', takeInput);
    $('upper').addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown') document.querySelector('.candidates [tabindex="0"]')?.focus();
    });
    $('again').addEventListener('click', runAgain);
    $('suggest').addEventListener('click', suggest);
    makeCopyButton($('copy'));
    $('save').addEventListener('click', savePicture);
    document.querySelector('.candidates').addEventListener('keydown', onCandidateKey);
    document.querySelector('.candidates').addEventListener('click', onCandidateClick);
    takeInput();
    loadModel().then(requestRender, () => {}); // a failure is shown when a line is sent
  },

  visit() {}, // it waits for a line

  render, follow, hash,
};
