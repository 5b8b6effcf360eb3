/*
 * Linnet's page: an upper line goes to POST /v1/completions, the lower lines stream back.
 *
 * Everything shown follows from one object, `state`, through the render functions; nothing is read
 * back from the document but the form. A run fills `state.answer` event by event. Each candidate in
 * the list shows what has arrived; the paper is written by a brush that puts down at most one
 * character every BRUSH_MS, because a model writes faster than an eye follows.
 *
 * What makes a couplet (line, seed, temperature, ...) is in the URL's hash: a link is a couplet.
 */

const BRUSH_MS = 110;
const PLACEHOLDER = '海上明月';
const INITIAL = { n: '5', temperature: '0.8', seed: '', banner: '' };

const WORDS = {
  zh: {
    title: 'Linnet · 对联',
    fields: { n: '下联句数', temperature: '温度', seed: '种子', prompt: '上联' },
    empty: '先写一句上联吧。',
    space: '上联中间不要有空格。',
    symbol: (c) => `「${c}」不是汉字，也不是标点，对不上。`,
    long: (n, max) => `上联有 ${n} 字，太长了，最多 ${max} 字。`,
    busy: (s) => `此刻来客太多，请过 ${s} 秒再试。`,
    network: '连不上服务器，请稍后再试。',
    server: (m) => `服务器出了差错：${m}`,
    refused: (field, m) => `${field}不合要求：${m}`,
    facts: (a) => [`首字 ${a.first} 毫秒`, `每秒 ${a.rate} 字`, `种子 ${a.request.seed}`],
    memory: (size) => `每次请求的记忆 ${size}`,
    size: (size) => `（${size}）`,
    said: (line) => `下联：${line}`,
    copied: '链接已复制',
  },
  en: {
    title: 'Linnet · Couplets',
    fields: { n: 'Candidates', temperature: 'Temperature', seed: 'Seed', prompt: 'The upper line' },
    empty: 'Write an upper line first.',
    space: 'No spaces inside the line, please.',
    symbol: (c) => `“${c}” is neither a Chinese character nor punctuation, so nothing can answer it.`,
    long: (n, max) => `The line has ${n} characters; ${max} is the most.`,
    busy: (s) => `Too many visitors at this moment. Try again in ${s} s.`,
    network: 'The server cannot be reached. Try again in a moment.',
    server: (m) => `Something went wrong on the server: ${m}`,
    refused: (field, m) => `${field} was refused: ${m}`,
    facts: (a) => [`first character ${a.first} ms`, `${a.rate} characters/s`, `seed ${a.request.seed}`],
    memory: (size) => `memory of a request ${size}`,
    size: (size) => ` (${size})`,
    said: (line) => `Lower line: ${line}`,
    copied: 'Link copied',
  },
};

const state = {
  lang: 'zh',
  upper: '',      // what the input holds, without white space around it
  banner: '',     // the caption over the door
  answer: null,   // the newest answer, see newAnswer
  shown: 0,       // characters of the hung line that are on the paper
  pick: 0,        // place in the list of the line a link asks to hang
  failure: null,  // the newest error, until the line is edited
  model: null,    // { id, stateBytes, maxChars } once known
};

const $ = (id) => document.getElementById(id);
const chars = (text) => Array.from(text);
const calm = matchMedia('(prefers-reduced-motion: reduce)');

/* --- the API ----------------------------------------------------------------------------------- */

class ApiError extends Error {
  constructor(status, body, retryAfter) {
    super(body?.message || `HTTP ${status}`);
    Object.assign(this, { status, param: body?.param, retryAfter });
  }
}

/* Splits what has arrived of a server-sent event stream into the data of whole events and the rest,
   to be put before the next piece. Pure. */
export function parseSse(buffer) {
  const blocks = buffer.replace(/\r\n/g, '\n').split('\n\n');
  const rest = blocks.pop();
  const events = blocks
    .map((block) => block.split('\n')
      .filter((line) => line.startsWith('data:'))
      .map((line) => line.slice(line[5] === ' ' ? 6 : 5))
      .join('\n'))
    .filter((data) => data !== '');
  return { events, rest };
}

async function checked(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new ApiError(response.status, body?.error, response.headers.get('Retry-After'));
}

let modelRequest = null;

/* The couplet model, asked for once; after a failure the next call asks again. */
function loadModel() {
  modelRequest = modelRequest || fetch('/v1/models').then(checked).then((r) => r.json())
    .then(({ data }) => {
      const model = data.find((m) => m.meta?.task === 'couplet' || m.id === 'couplet');
      if (!model) throw new ApiError(404, { message: 'no couplet model' });
      const { state_bytes: stateBytes, max_chars: maxChars } = model.meta || {};
      state.model = { id: model.id, stateBytes, maxChars };
    })
    .catch((error) => { modelRequest = null; throw error; });
  return modelRequest;
}

/* Yields the events of one streamed completion. An error inside the stream is thrown. */
async function* complete(body, signal) {
  const response = await checked(await fetch('/v1/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true }),
    signal,
  }));
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let buffer = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new TypeError('the stream ended early');
    const { events, rest } = parseSse(buffer + decoder.decode(value, { stream: true }));
    buffer = rest;
    for (const data of events) {
      if (data === '[DONE]') return;
      const event = JSON.parse(data);
      if (event.error) throw new ApiError(response.status, event.error);
      yield event;
    }
  }
}

/* --- an answer --------------------------------------------------------------------------------- */

/* request is what was asked; order lists the samples as the list shows them; chosen is the sample
   that hangs on the paper, picked says whether the visitor chose it. */
function newAnswer(request, started) {
  const samples = Array.from({ length: request.n }, () => ({ text: '', score: null }));
  return {
    request, samples, order: samples.map((_, i) => i), chosen: 0, picked: false, done: false,
    started, first: null, rate: null,
  };
}

function takeEvent(answer, event) {
  for (const choice of event.choices || []) {
    const sample = answer.samples[choice.index];
    sample.text += choice.text || '';
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
  if ($('seed').value === '') $('seed').value = crypto.getRandomValues(new Uint32Array(1))[0];
  return {
    upper: state.upper,
    n: Number($('n').value || INITIAL.n),
    temperature: Number($('temperature').value || INITIAL.temperature),
    seed: Number($('seed').value),
  };
}

async function run() {
  if (running) running.abort();
  const { signal } = running = new AbortController();
  const request = readForm();
  Object.assign(state, { answer: null, failure: null, shown: 0 });
  requestRender();
  try {
    await loadModel();
    const { upper: prompt, ...plan } = request;
    const started = performance.now();
    for await (const event of complete({ model: state.model.id, prompt, ...plan }, signal)) {
      if (signal.aborted) return;
      state.answer = state.answer || newAnswer(request, started);
      takeEvent(state.answer, event);
      requestRender();
    }
    finishAnswer(state.answer);
    writeHash();
    say(WORDS[state.lang].said(hungText()));
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

/* --- the URL's hash ---------------------------------------------------------------------------- */

function writeHash() {
  const { request, order, chosen } = state.answer;
  const fields = new URLSearchParams();
  for (const id of ['n', 'temperature', 'seed']) fields.set(id, request[id]);
  if (order.indexOf(chosen) > 0) fields.set('pick', order.indexOf(chosen));
  if (state.banner) fields.set('banner', state.banner);
  history.replaceState(null, '', `#${encodeURIComponent(request.upper)}&${fields}`);
}

/* Fills the form from the hash; false when there is no line in it. */
function readHash() {
  const [line, ...rest] = location.hash.slice(1).split('&');
  if (line === '') return false;
  const fields = new URLSearchParams(rest.join('&'));
  try {
    $('upper').value = decodeURIComponent(line);
  } catch {
    return false; // not percent-encoded UTF-8
  }
  for (const id of Object.keys(INITIAL)) $(id).value = fields.get(id) ?? INITIAL[id];
  state.pick = Number(fields.get('pick'));
  return true;
}

function followHash() {
  if (!readHash()) return;
  takeInput();
  run();
}

/* --- rendering --------------------------------------------------------------------------------- */

let renderRequested = false;

function requestRender() {
  if (renderRequested) return;
  renderRequested = true;
  requestAnimationFrame(() => {
    renderRequested = false;
    render();
  });
}

/* The answer, as long as the input still holds the line it answers. */
const current = () => (state.answer?.request.upper === state.upper ? state.answer : null);
const hungText = () => current()?.samples[current().chosen].text ?? '';

function render() {
  const words = WORDS[state.lang];
  document.title = words.title;
  document.documentElement.dataset.lang = state.lang;
  document.documentElement.lang = state.lang === 'zh' ? 'zh-Hans' : 'en';
  for (const button of document.querySelectorAll('[data-choose]')) {
    button.setAttribute('aria-pressed', button.dataset.choose === state.lang);
  }
  renderError(words);
  renderPaper();
  renderCandidates();
  renderFacts(words);
  moveBrush();
}

function renderError(words) {
  const text = state.failure ? explain(state.failure, words) : '';
  if ($('error').textContent !== text) $('error').textContent = text;
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

function renderFacts(words) {
  const answer = current();
  const bytes = state.model?.stateBytes;
  const size = bytes ? `${Math.round(bytes / 1024)} KiB` : '';
  const facts = answer?.done ? words.facts(answer) : [];
  if (answer?.done && size) facts.push(words.memory(size));
  document.querySelector('.answers .facts').textContent = facts.join(' · ');
  for (const span of document.querySelectorAll('.state-size')) {
    span.textContent = size && WORDS[span.parentElement.lang].size(size);
  }
}

/* For screen readers: whole sentences, not every character. */
function say(text) {
  $('live').textContent = text;
}

/* --- errors in plain words --------------------------------------------------------------------- */

function explain(error, words) {
  if (!(error instanceof ApiError)) return words.network;
  if (error.status === 429 || error.status === 503) return words.busy(error.retryAfter || 1);
  if (error.status >= 500) return words.server(error.message);
  const reason = error.param === 'prompt' && explainLine(state.upper, words);
  if (reason || !error.param) return reason || error.message;
  return words.refused(words.fields[error.param] || error.param, error.message);
}

/* Why the server refused this line, as far as it can be seen in the line. */
function explainLine(line, words) {
  if (line === '') return words.empty;
  if (/\s/u.test(line)) return words.space;
  const other = chars(line).find((c) => !/[\p{Script=Han}\p{P}$+<=>^`|~＄＋＜＝＞＾｀｜～]/u.test(c));
  if (other) return words.symbol(other);
  const { length } = chars(line);
  return length > state.model?.maxChars ? words.long(length, state.model.maxChars) : '';
}

/* --- events ------------------------------------------------------------------------------------ */

function takeInput() {
  const upper = $('upper').value.trim();
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
  const last = order.length - 1;
  const to = {
    ArrowUp: Math.max(at - 1, 0), ArrowDown: Math.min(at + 1, last), Home: 0, End: last,
    Enter: at, ' ': at,
  }[event.key];
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

async function copyLink() {
  await navigator.clipboard.writeText(location.href);
  say(WORDS[state.lang].copied);
  $('copy').classList.add('done');
  setTimeout(() => $('copy').classList.remove('done'), 1500);
}

function chooseLanguage(lang) {
  state.lang = lang;
  try {
    localStorage.setItem('lang', lang);
  } catch { /* storage is off: the choice lasts as long as the page */ }
  requestRender();
}

function firstLanguage() {
  try {
    const stored = localStorage.getItem('lang');
    if (stored in WORDS) return stored;
  } catch { /* storage is off */ }
  return /^zh\b/i.test(navigator.language) ? 'zh' : 'en';
}

function start() {
  state.lang = firstLanguage();
  $('result').replaceChildren($('stage').content.cloneNode(true));
  $('form').noValidate = true; // the server judges, its answer is shown beside the input
  $('form').addEventListener('submit', onSubmit);
  $('form').addEventListener('input', (event) => { if (!event.isComposing) takeInput(); });
  $('upper').addEventListener('compositionend', takeInput);
  $('upper').addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown') document.querySelector('.candidates [tabindex="0"]')?.focus();
  });
  $('again').addEventListener('click', runAgain);
  $('copy').addEventListener('click', copyLink);
  $('copy').hidden = !navigator.clipboard;
  document.querySelector('.candidates').addEventListener('keydown', onCandidateKey);
  document.querySelector('.candidates').addEventListener('click', onCandidateClick);
  for (const button of document.querySelectorAll('[data-choose]')) {
    button.addEventListener('click', () => chooseLanguage(button.dataset.choose));
  }
  addEventListener('hashchange', followHash);
  takeInput();
  followHash();
  loadModel().then(requestRender, () => {}); // a failure is told when a line is sent
}

start();
