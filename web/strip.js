/*
 * A picture without end: a strip of digits, one sequence from the first pixel to the last. Every digit is
 * a request of its own (POST /v1/images/generations with stream and return_state) that goes on from the
 * state the one before has left, and from nothing else. All those states are kept, so the strip can go on
 * from any of its digits, and from one of them in several ways.
 *
 * `turns` says which seed rules from which digit on; with the number of digits they are in the URL's hash,
 * and a link paints the same strip again.
 */
import {
  $, bytesText, count, drawSeed, explain, forgetState, hashFields, loadModels, makeCopyButton, page, placeForKey,
  requestRender, say, setText, stream, writeAddress,
} from './common.js';
import { paintPixels, pixelColour } from './picture.js';
import { saveCanvas, sheetCanvas } from './share.js';
import { stripOf } from './strips.js';

const WAYS = 3; // futures of one past
const TEMPERATURE = 0.8; // of 300 digits, 97 % have the wanted class, and 94 % at 1
const FIRST = 8; // digits of a first visit, before it waits
const COLUMNS = 12; // of a saved picture

const MARKUP = `
<div class="actions">
  <button id="strip-go" class="primary" type="button"></button>
  <button id="strip-fork" type="button"></button>
  <button id="strip-new" type="button"></button>
  <button id="strip-copy" type="button"></button>
  <button id="strip-save" type="button"></button>
</div>
<p id="strip-error" class="error" role="alert"></p>
<label class="slider"><span class="text"></span> <input id="strip-back" type="range" min="0" max="0" step="1" value="0"></label>
<div class="meters">
  <p class="made"><span class="text"></span><span class="bar"><span class="fill"></span></span></p>
  <p class="state"><span class="text"></span><span class="bar"><span class="fill"></span></span></p>
  <p class="cache"><span class="text"></span><span class="bar"><span class="fill"></span></span></p>
</div>
<section class="ways" hidden><h3></h3><ul class="tiles"></ul></section>
<ol id="digits" class="digits" role="listbox"></ol>`;

const WORDS = {
  zh: {
    none: '这台服务器没有长卷的模型（weights/strip）。',
    link: '链接读不出来。',
    lost: '上一个数字的状态没有保存住，画不下去了。',
    go: '接着画', pause: '停', whatIf: '要是换一条路？', anew: '从头来', copy: '复制链接', save: '存成图片',
    back: (at, all) => `画到第 ${at} 个数字（共 ${all} 个，每个数字之后的状态都留着）`,
    made: (p, all) => `${p} 像素，一条序列（这个模型最多 ${all}）`,
    state: (size) => `状态 ${size}（每个数字之后量得）`,
    cache: (size) => `换成 softmax 注意力，缓存此刻是 ${size}（算式）`,
    ways: (at) => `第 ${at} 个数字之后的 ${WAYS} 种可能，从同一个状态出发：选一个走下去`,
    list: '数字，一个接一个', digit: (i, wish) => `第 ${i} 个${wish && `，要的是 ${wish}`}`, way: (i, wish) => `第 ${i} 种${wish && `，要的是 ${wish}`}`,
    said: (n) => `画了 ${n} 个数字。`,
  },
  en: {
    none: 'This server has no model of a strip (weights/strip).',
    link: 'The link cannot be read.',
    lost: 'The state of the last digit could not be kept, so the strip cannot continue.',
    go: 'Go on', pause: 'Pause', whatIf: 'What if?', anew: 'Begin anew', copy: 'Copy link', save: 'Save as picture',
    back: (at, all) => `At digit ${at} of ${all}; the state after each digit is kept`,
    made: (p, all) => `${p} pixels, one sequence (at most ${all} with this model)`,
    state: (size) => `State: ${size}, measured after every digit`,
    cache: (size) => `With softmax attention the cache would be ${size} by now (formula)`,
    ways: (at) => `After digit ${at}, ${WAYS} ways to continue its state: choose one`,
    list: 'Digits, one after the other', digit: (i, wish) => `Digit ${i}${wish && `, asked for ${wish}`}`, way: (i, wish) => `Way ${i}${wish && `, asked for ${wish}`}`,
    said: (n) => `${n} digits are painted.`,
  },
};

const state = {
  model: undefined, // null when none is served
  turns: [],        // { at, seed }: from digit `at` on; the first is at 0
  digits: [],       // { values, made, id, memory, wish: its class }: id and memory once the state after it is kept
  at: 0,            // number of digits before the next one
  ways: null,       // { at, list of { seed, digit } }
  failure: null,
  refusal: null,    // a key of WORDS
};

let running = null; // AbortController of the run in progress

const find = (selector) => document.querySelector(`#strip ${selector}`);
const words = () => WORDS[page.lang];

async function loadModel() {
  const model = stripOf(await loadModels());
  if (state.model) return;
  const { width, height, period, channels, classes = [], n_layers: layers, n_embd: size } = model?.meta ?? {};
  state.model = model && {
    id: model.id, width, period, channels, classes,
    most: height / period,
    each: width * period * channels,
    cacheBytes: 2 * 4 * layers * size, // a key and a value per layer, in float32 as the state is
  };
}

/* --- digits ------------------------------------------------------------------------------------ */

const newDigit = () => ({ values: new Uint8Array(state.model.each), made: 0, id: null, memory: null });
const seedAt = (i) => state.turns.findLast((turn) => turn.at <= i).seed;

/* The class that digit number i asks for: any, but a link asks for the same one again. The mixing is that of MurmurHash3. */
function classOf(seed, i) {
  let h = Math.imul(seed ^ Math.imul(i + 1, 0x9e3779b1), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return ((h ^ (h >>> 16)) >>> 0) % state.model.classes.length;
}

/* Paints digit number i, from the state of the previous digit. A class makes a clean digit of it. */
async function paint(digit, i, seed, signal) {
  const { id, each, classes } = state.model;
  if (classes.length > 0) digit.wish = classOf(seed, i);
  const from = { ...(i > 0 ? { state: state.digits[i - 1].id } : { model: id, prompt: '' }), ...('wish' in digit && { class: digit.wish }) };
  const body = { ...from, seed, temperature: TEMPERATURE, max_tokens: each, return_state: true, stream_unit: 'row' };
  for await (const event of stream('/v1/images/generations', body, signal)) {
    if (event.values) {
      digit.values.set(event.values, event.start - i * each);
      digit.made += event.values.length;
      requestRender();
    }
    const kept = event.states?.[0];
    if (kept) Object.assign(digit, { id: kept.id, memory: kept.memory_bytes });
  }
  if (digit.made < each) throw new TypeError('the stream ended early');
}

/* Drops all digits after the first n, with their states. */
function cut(n) {
  for (const { id } of state.digits.splice(n)) if (id) forgetState(id);
  state.at = Math.min(state.at, n);
}

function dropWays(but = null) {
  for (const { digit } of state.ways?.list ?? []) if (digit !== but && digit.id) forgetState(digit.id);
  state.ways = null;
}

/* Stops the current run and starts `work(signal)`; shows a failure. */
async function begin(work) {
  pause();
  const { signal } = running = new AbortController();
  Object.assign(state, { failure: null, refusal: null });
  requestRender();
  try {
    await loadModel();
    if (state.model) await work(signal);
    if (!signal.aborted) running = null;
  } catch (error) {
    if (signal.aborted) return;
    state.failure = error;
    running = null;
  }
  requestRender();
}

/* A digit that is not whole has no state to go on from. */
function pause() {
  running?.abort();
  running = null;
  if (state.digits.length > 0 && !state.digits.at(-1).id) cut(state.digits.length - 1);
  requestRender();
}

/* Paints until there are `until` digits. */
function goOn(until) {
  return begin(async (signal) => {
    dropWays();
    if (state.turns.length === 0) state.turns = [{ at: 0, seed: drawSeed() }];
    cut(state.at);
    state.turns = state.turns.filter((turn) => turn.at === 0 || turn.at < Math.max(state.at, 1));
    await paintUntil(until, signal);
  });
}

async function paintUntil(until, signal) {
  while (state.digits.length < Math.min(until, state.model.most) && !signal.aborted) {
    const i = state.digits.length;
    const digit = newDigit();
    const follows = state.at === i;
    state.digits.push(digit);
    if (follows) state.at = i + 1;
    await paint(digit, i, seedAt(i), signal);
    if (signal.aborted) return;
    if (!digit.id) {
      state.refusal = 'lost';
      return;
    }
    writeHash();
  }
  say('strip', words().said(state.digits.length));
}

/* What if? Some other next digits, all from the same state. */
function fork() {
  return begin(async (signal) => {
    const { at } = state; // begin() has cut off a digit that is not whole
    dropWays();
    const list = Array.from({ length: WAYS }, () => ({ seed: drawSeed(), digit: newDigit() }));
    state.ways = { at, list };
    await Promise.all(list.map(({ seed, digit }) => paint(digit, at, seed, signal)));
  });
}

function take({ seed, digit }) {
  if (!digit.id) return;
  const { at } = state.ways;
  dropWays(digit);
  cut(at);
  state.turns = [...state.turns.filter((turn) => turn.at < at), { at, seed }];
  state.digits.push(digit);
  state.at = at + 1;
  writeHash();
  find('[aria-selected="true"]')?.focus();
  requestRender();
}

function beginAnew() {
  pause();
  cut(0);
  state.turns = [];
  goOn(FIRST);
}

function choose(at) {
  state.at = at;
  if (!running) dropWays();
  requestRender();
}

/* --- the URL's hash ---------------------------------------------------------------------------- */

const wholeDigits = () => state.digits.filter(({ id }) => id).length;

function hash() {
  const whole = wholeDigits();
  if (whole === 0) return '#strip';
  const turns = state.turns.map(({ at, seed }) => `${at}.${seed}`).join('_');
  return `#strip&${new URLSearchParams({ turns, digits: whole })}`;
}

function writeHash() {
  if (page.tab === 'strip') writeAddress(hash());
}

/* The turns of a link, ascending from 0; null when it has none. */
function readTurns(text) {
  if (!/^0\.\d{1,15}(_\d{1,5}\.\d{1,15})*$/.test(text)) return null;
  const turns = text.split('_').map((turn) => turn.split('.').map(Number)).map(([at, seed]) => ({ at, seed }));
  return turns.every(({ at }, i) => i === 0 || at > turns[i - 1].at) ? turns : null;
}

/* Whether the shown strip begins with so many digits of these turns. */
function beginsWith(turns, digits) {
  const until = (list) => JSON.stringify(list.filter(({ at }) => at < digits));
  return wholeDigits() >= digits && until(turns) === until(state.turns);
}

/* Whether the hash asks for a strip. Back to an address that the strip has grown beyond, in another tab, keeps all of it. */
function follow() {
  const fields = hashFields();
  if (!fields.has('turns')) return false;
  const turns = readTurns(fields.get('turns'));
  if (!turns) {
    state.refusal = 'link';
    return true;
  }
  const digits = /^[1-9]\d{0,4}$/.test(fields.get('digits')) ? Number(fields.get('digits')) : FIRST;
  if (beginsWith(turns, digits)) {
    state.refusal = null;
    writeHash();
    return true;
  }
  pause();
  dropWays();
  cut(0);
  state.turns = turns;
  begin((signal) => paintUntil(digits, signal));
  return true;
}

function visit() {
  if (state.digits.length === 0 && !running && state.refusal !== 'link') goOn(FIRST);
}

/* --- rendering --------------------------------------------------------------------------------- */

function render() {
  const w = words();
  const refusal = state.model === null ? 'none' : state.refusal;
  setText($('strip-error'), refusal ? w[refusal] : state.failure ? explain(state.failure) : '');
  setText($('strip-go'), running ? w.pause : w.go);
  for (const [id, word] of [['fork', 'whatIf'], ['new', 'anew'], ['copy', 'copy'], ['save', 'save']]) {
    setText($(`strip-${id}`), w[word]);
  }
  if (!state.model) return;
  $('strip-go').disabled = !running && state.at >= state.model.most;
  $('strip-fork').disabled = Boolean(running) || state.at >= state.model.most;
  $('strip-save').disabled = $('strip-copy').disabled = wholeDigits() === 0;
  Object.assign($('strip-back'), { max: state.digits.length, value: state.at });
  setText(find('.slider .text'), w.back(state.at, state.digits.length));
  renderMeters(w);
  renderDigits(w);
  renderWays(w);
}

function meter(name, text, share) {
  setText(find(`.${name} .text`), text);
  find(`.${name} .fill`).style.transform = `scaleX(${share})`;
}

function renderMeters(w) {
  const { each, most, channels, cacheBytes } = state.model;
  const made = state.digits.reduce((sum, digit) => sum + digit.made, 0);
  const memory = state.digits.findLast((digit) => digit.memory)?.memory ?? 0;
  const largest = Math.max(memory, cacheBytes * made, 1);
  meter('made', w.made(count(made / channels), count((most * each) / channels)), made / (most * each));
  meter('state', w.state(memory ? bytesText(memory) : '…'), memory / largest);
  meter('cache', w.cache(bytesText(cacheBytes * made)), (cacheBytes * made) / largest);
}

/* The name of the class that a digit asked for. */
const wishOf = ({ wish }) => state.model.classes[wish] ?? '';

/* Paints the new rows of a digit; a canvas that showed another digit begins anew. */
function paintDigit(canvas, digit) {
  const { width, period, channels } = state.model;
  if (canvas.digit !== digit) {
    Object.assign(canvas, { digit, painted: 0, width, height: period });
  }
  const made = Math.floor(digit.made / channels);
  if (made > canvas.painted) {
    paintPixels(canvas, canvas.painted, made, (i) => (i < made ? pixelColour(digit.values, channels, i) : null));
  }
  canvas.painted = made;
}

function newTile(name) {
  const tile = document.createElement(name);
  tile.append(Object.assign(document.createElement('canvas'), { className: 'picture' }), document.createElement('small'));
  return tile;
}

function renderDigits(w) {
  const list = $('digits');
  const focused = list.contains(document.activeElement);
  list.setAttribute('aria-label', w.list);
  list.hidden = state.digits.length === 0; // a list box without options is none
  while (list.childElementCount > state.digits.length) list.lastElementChild.remove();
  while (list.childElementCount < state.digits.length) {
    list.append(newTile('li'));
    list.lastElementChild.setAttribute('role', 'option');
  }
  state.digits.forEach((digit, i) => {
    const tile = list.children[i];
    const selected = i === Math.max(state.at - 1, 0);
    tile.setAttribute('aria-label', w.digit(i + 1, wishOf(digit)));
    tile.setAttribute('aria-selected', selected);
    tile.classList.toggle('behind', i >= state.at);
    tile.tabIndex = selected ? 0 : -1;
    paintDigit(tile.firstElementChild, digit);
    setText(tile.lastElementChild, wishOf(digit));
    if (selected && focused) tile.focus();
  });
}

function renderWays(w) {
  find('.ways').hidden = !state.ways;
  if (!state.ways) return;
  setText(find('.ways h3'), w.ways(state.ways.at));
  const list = find('.ways .tiles');
  while (list.childElementCount < WAYS) {
    const item = document.createElement('li');
    item.append(Object.assign(newTile('button'), { type: 'button' }));
    list.append(item);
  }
  state.ways.list.forEach((way, i) => {
    const button = list.children[i].firstElementChild;
    button.setAttribute('aria-label', w.way(i + 1, wishOf(way.digit)));
    button.disabled = !way.digit.id;
    button.onclick = () => take(way);
    paintDigit(button.firstElementChild, way.digit);
    setText(button.lastElementChild, wishOf(way.digit));
  });
}

/* --- events ------------------------------------------------------------------------------------ */

function onKey(event) {
  const { children } = $('digits');
  const row = Array.from(children).filter((tile) => tile.offsetTop === children[0]?.offsetTop).length;
  const to = placeForKey(event.key, Math.max(state.at - 1, 0), children.length, row);
  if (to === undefined) return;
  event.preventDefault();
  choose(to + 1);
}

function savePicture() {
  const pictures = Array.from(document.querySelectorAll('#digits canvas'));
  saveCanvas(sheetCanvas(pictures, Math.min(pictures.length, COLUMNS), 2), 'linnet-strip.png');
}

/* The tab, as app.js knows it. */
export const strip = {
  start() {
    $('strip-lab').innerHTML = MARKUP;
    $('strip-go').addEventListener('click', () => (running ? pause() : goOn(Infinity)));
    $('strip-fork').addEventListener('click', fork);
    $('strip-new').addEventListener('click', beginAnew);
    $('strip-save').addEventListener('click', savePicture);
    $('strip-back').addEventListener('input', (event) => choose(Number(event.target.value)));
    $('digits').addEventListener('keydown', onKey);
    $('digits').addEventListener('click', (event) => {
      const tile = event.target.closest('li');
      if (tile) choose(Array.from($('digits').children).indexOf(tile) + 1);
    });
    makeCopyButton($('strip-copy'), hash);
    addEventListener('pagehide', () => {
      pause();
      dropWays();
      cut(0);
    });
    addEventListener('pageshow', (event) => {
      if (event.persisted && page.tab === 'strip' && !follow()) visit();
    });
  },

  render, follow, visit, hash,
};
