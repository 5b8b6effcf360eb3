/*
 * A race of attention kinds: networks of one shape, each continuing its own state by POST /v1/images/generations, on
 * this server, now. They take turns of equal computing time, so that none slows another. The server measures the
 * figures: the time per token from the answer's `timings`, without the saving of the state, and the memory from the
 * kept state. Only "how many fit in 1 GiB" is a division, and says so. Each lane paints its paper, above a bar of its
 * memory. Bars and charts have a logarithmic scale, because a linear one shows only the slowest lane.
 */
import {
  $, ApiError, bytesText, count, drawSeed, explain, forgetState, loadModels, page, post, requestRender, say, setText,
} from './common.js';
import { paintPixels, pixelColour } from './picture.js';
import { kindOf, racersOf } from './strips.js';

const TURN_MS = 40; // of computing
const PAUSE_MS = 16; // after a turn, so that small models do not finish before the eye follows
const PIECE = { first: 16, least: 8, most: 56 }; // tokens of a turn
const [TRIES, RETRY_MS] = [8, 100];
const GIB = 2 ** 30;
const CHART = { width: 640, height: 230, left: 112, right: 44, top: 22, bottom: 34 };

const MARKUP = `
<p class="actions"><button id="race-go" class="primary" type="button"></button>
  <button id="race-new" type="button"></button></p>
<p id="race-error" class="error" role="alert"></p>
<ol class="papers"></ol>
<p class="closing"></p>
<div class="wide" tabindex="0" role="region" aria-labelledby="race-title"><table class="lanes"><thead></thead><tbody></tbody></table></div>
<p class="facts"></p>
<figure class="chart" data-of="ms"><figcaption></figcaption><svg role="img"></svg></figure>
<figure class="chart" data-of="bytes"><figcaption></figcaption><svg role="img"></svg></figure>`;

/* Chinese has a space after a Latin word. */
const spaced = (kind) => kind.replace(/[a-z]$/, '$& ');

const WORDS = {
  zh: {
    none: '这台服务器没有可以赛跑的模型。',
    go: '开跑', on: '接着跑', pause: '停', anew: '重来',
    heads: ['注意力', '词元数', '每个词元的毫秒', '一个请求的内存', '1 GiB 容得下'],
    kinds: { linear: '线性', softmax: '带缓存的 softmax', softmax_recompute: '每次重算的 softmax' },
    facts: (slowest) => `算得最久的用了 ${slowest} 秒。时间与内存由服务器量得；最后一栏是 1 GiB 除以量得的内存。`,
    ms: '每个词元的毫秒，按位置（对数刻度）', bytes: '一个请求的内存，按位置（对数刻度）',
    full: (kind, size) => `${spaced(kind)}停在这里：服务器没有内存再存一份 ${size} 的缓存。`,
    bar: (size) => `内存 ${size}`, painted: (kind, n) => `${spaced(kind)}画的 ${n} 个像素`,
    closing: (n, a, b, time, memory) => `画 ${n} 个像素：${spaced(a.kind)}算了 ${a.seconds} 秒，内存始终 ${a.bytes}；${spaced(b.kind)}算了 ${b.seconds} 秒，内存长到 ${b.bytes}，时间是 ${time} 倍，内存是 ${memory} 倍。`,
    last: (kind, value, position) => `${kind}：位置 ${position} 处 ${value}`,
    unit: '毫秒', said: '跑完了。',
  },
  en: {
    none: 'This server has no models that can race.',
    go: 'Start', on: 'Go on', pause: 'Pause', anew: 'Begin anew',
    heads: ['Attention', 'Tokens', 'ms per token', 'Memory per request', 'Fit in 1 GiB'],
    kinds: { linear: 'linear', softmax: 'softmax with cache', softmax_recompute: 'softmax, recomputed' },
    facts: (slowest) => `The slowest has computed for ${slowest} s. The server measured time and memory; the last column is 1 GiB divided by the measured memory.`,
    ms: 'Milliseconds per token, by position, logarithmic', bytes: 'Memory per request, by position, logarithmic',
    full: (kind, size) => `${kind} stops here: the server has no memory left to keep its cache of ${size}.`,
    bar: (size) => `memory ${size}`, painted: (kind, n) => `${n} pixels painted by ${kind}`,
    closing: (n, a, b, time, memory) => `For ${n} pixels, ${a.kind} computed for ${a.seconds} s and still has ${a.bytes}; ${b.kind} computed for ${b.seconds} s and has grown to ${b.bytes}: ${time} times the time and ${memory} times the memory.`,
    last: (kind, value, position) => `${kind}: ${value} at position ${position}`,
    unit: 'ms', said: 'The race is over.',
  },
};

/* A lane: { id, kind, grows: with every token, most: bytes of its whole state, width, channels, size: values of its
   picture, state: id or null, tokens, ms: computed so far, values: painted so far, points, isFull: the server has no memory
   for a longer state }.
   A point is { from, to, ms, bytes }: the positions of a turn, the time of one of its tokens, and the memory
   at its end. */
const state = {
  lanes: [],
  loaded: false,
  failure: null,
};

let running = false; // from a start to the end of its last turn; there is one run at most
let going = false;   // no pause was asked for
let races = 0;       // how often it was begun: a turn of an earlier race does not count
let moving = null;   // the lane whose turn is under way

const find = (selector) => document.querySelector(`#race ${selector}`);
const words = () => WORDS[page.lang];

const atStart = () => ({ seed: drawSeed(), state: null, tokens: 0, ms: 0, values: [], points: [], isFull: false });

async function loadLanes() {
  const models = racersOf(await loadModels());
  if (state.loaded) return; // by another call
  state.lanes = models.map((model) => {
    const { width, height, channels, state_grows: grows, state_bytes: most } = model.meta;
    return { id: model.id, kind: kindOf(model), grows, most, width, channels, size: width * height * channels, ...atStart() };
  });
  state.loaded = true;
}

/* --- running ----------------------------------------------------------------------------------- */

const isOver = (lane) => lane.isFull || lane.tokens === lane.size;

/* As many tokens as fill a turn at the last one's pace; no more than twice its number, for some grow slower. No rest is
   left that is too small to be measured. */
function pieceOf(lane) {
  const last = lane.points.at(-1);
  const wanted = last ? Math.min(Math.round(TURN_MS / last.ms), 2 * (last.to - last.from)) : PIECE.first;
  const n = Math.min(Math.max(wanted, PIECE.least), PIECE.most);
  const left = lane.size - lane.tokens;
  return left - n < PIECE.least ? left : n;
}

/* The values of a PNG file of so many channels. */
async function valuesOf(base64, channels) {
  const image = new Image();
  image.src = `data:image/png;base64,${base64}`;
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const context = Object.assign(document.createElement('canvas'), { width, height }).getContext('2d');
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, width, height).data.filter((_, i) => i % 4 < channels);
}

/* Whether the server refused a growing state for its size alone: such a request can never be accepted. */
const isTooLarge = (lane, error) => lane.grows && error instanceof ApiError && /^(max_tokens|state)$/.test(error.param) && error.status === 400;

/* A small server may have memory for one large state at a time, so a refusal of the moment is asked again. */
async function postPatiently(body) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await post('/v1/images/generations', body);
    } catch (error) {
      if (error.status !== 429 || error.param !== 'state' || tries === TRIES) throw error;
      await new Promise((done) => { setTimeout(done, RETRY_MS * tries); });
    }
  }
}

/* A turn's first state is deleted at its end, because a server may not have room for two large states. No token is guessed:
   right guesses are tokens of one step, so a turn of right guesses would last no time at all. */
async function takeTurn(lane) {
  const race = races;
  const n = pieceOf(lane);
  const before = lane.state;
  const from = before ? { state: before } : { model: lane.id, prompt: '', seed: lane.seed };
  const body = { ...from, temperature: 1, max_tokens: n, return_state: true, draft: false };
  const answer = await postPatiently(body).catch((error) => {
    if (!isTooLarge(lane, error)) throw error;
    lane.isFull = race === races;
  });
  if (!answer) return;
  const { timings, data: [picture], states: [kept] } = await answer.json();
  if (before) await forgetState(before);
  if (race !== races) {
    if (kept.id) forgetState(kept.id);
    return;
  }
  if (!kept.id) { // its size is unknown, so the turn does not count
    Object.assign(lane, { state: null, isFull: true });
    return;
  }
  const decoding = timings.predicted_ms - timings.state_ms; // from the first token to the last
  const ms = n > 1 ? decoding / (n - 1) : decoding + timings.prompt_ms;
  lane.points.push({ from: lane.tokens, to: lane.tokens + n, ms, bytes: kept.memory_bytes });
  Object.assign(lane, { state: kept.id, tokens: lane.tokens + n, ms: lane.ms + ms * n });
  lane.values = await valuesOf(picture.b64_json, lane.channels);
}

/* Who has computed least is next. */
async function takeTurns() {
  while (going) {
    const [next] = state.lanes.filter((lane) => !isOver(lane)).sort((a, b) => a.ms - b.ms);
    if (!next) return;
    moving = next;
    await takeTurn(next);
    moving = null;
    requestRender();
    await new Promise((done) => { setTimeout(done, PAUSE_MS); });
  }
}

async function run() {
  going = true;
  state.failure = null;
  requestRender();
  if (running) return;
  running = true;
  try {
    if (!state.loaded) await loadLanes();
    await takeTurns();
    if (state.lanes.length > 0 && state.lanes.every(isOver)) say('race', words().said);
  } catch (error) {
    state.failure = error;
  }
  [running, moving] = [false, null];
  requestRender();
}

/* The turn under way is finished and counts. */
function pause() {
  going = false;
  requestRender();
}

/* The state of the lane that is moving is its turn's to forget: the server may not have taken it up yet. */
function forget(but) {
  races += 1;
  going = false;
  for (const lane of state.lanes) {
    if (lane.state && lane !== but) forgetState(lane.state);
    Object.assign(lane, atStart());
  }
}

/* --- rendering --------------------------------------------------------------------------------- */

const nameOf = ({ kind }) => words().kinds[kind] ?? kind;

function render() {
  const w = words();
  const begun = state.lanes.some(({ tokens }) => tokens > 0);
  const none = state.loaded && state.lanes.length === 0;
  setText($('race-error'), none ? w.none : state.failure ? explain(state.failure) : '');
  setText($('race-go'), running ? w.pause : begun ? w.on : w.go);
  setText($('race-new'), w.anew);
  $('race-go').disabled = none || (running && !going) || (begun && state.lanes.every(isOver));
  $('race-new').disabled = !begun;
  find('.wide').hidden = state.lanes.length === 0;
  const seconds = Math.max(0, ...state.lanes.map(({ ms }) => ms)) / 1000;
  setText(find('.facts'), begun ? w.facts(seconds.toPrecision(2)) : '');
  renderPapers(w);
  setText(find('.closing'), closingOf(w));
  renderTable(w);
  for (const figure of document.querySelectorAll('#race .chart')) renderChart(figure, w);
}

function fillRow(row, texts, name) {
  while (row.childElementCount < texts.length) {
    const cell = document.createElement(row.childElementCount === 0 ? 'th' : name);
    if (cell.localName === 'th') cell.scope = name === 'th' ? 'col' : 'row';
    row.append(cell);
  }
  texts.forEach((text, i) => setText(row.children[i], text));
  return row;
}

/* Compares linear attention with the first other kind, at the last position that both have reached. It speaks when both are
   over: the times of a few tokens say nothing. */
function closingOf(w) {
  const linear = state.lanes.find(({ kind }) => kind === 'linear');
  const other = state.lanes.find((lane) => lane !== linear);
  if (!linear || !other || !isOver(linear) || !isOver(other)) return '';
  const n = Math.min(linear.tokens, other.tokens);
  if (n === 0) return '';
  const [a, b] = [linear, other].map((lane) => {
    const turns = lane.points.filter(({ from }) => from < n);
    const ms = turns.reduce((sum, turn) => sum + turn.ms * (Math.min(turn.to, n) - turn.from), 0);
    return { kind: nameOf(lane), ms, bytes: turns.at(-1).bytes };
  });
  const figures = ({ kind, ms, bytes }) => ({ kind, seconds: (ms / 1000).toPrecision(2), bytes: bytesText(bytes) });
  return w.closing(count(n), figures(a), figures(b), Number((b.ms / a.ms).toPrecision(2)), count(Math.round(b.bytes / a.bytes)));
}

function newPaper({ width, channels, size }) {
  const item = document.createElement('li');
  const canvas = Object.assign(document.createElement('canvas'), { width, height: size / width / channels, className: 'picture' });
  canvas.setAttribute('role', 'img');
  const text = document.createElement('span');
  const bar = Object.assign(document.createElement('span'), { className: 'bar' });
  bar.append(Object.assign(document.createElement('span'), { className: 'fill' }));
  item.append(document.createElement('b'), canvas, text, bar);
  return item;
}

/* The pixels of a lane that are painted; a new race begins with an empty paper. */
function paintPaper(canvas, { values, tokens, channels }) {
  const made = values.length > 0 ? Math.floor(tokens / channels) : 0;
  if (made < (canvas.made ?? 0)) canvas.getContext('2d').clearRect(0, 0, canvas.width, canvas.height);
  paintPixels(canvas, 0, made, (i) => (i < made ? pixelColour(values, channels, i) : null));
  canvas.made = made;
}

function renderPapers(w) {
  const list = find('.papers');
  while (list.childElementCount < state.lanes.length) list.append(newPaper(state.lanes[list.childElementCount]));
  const least = Math.min(...state.lanes.flatMap(({ points }) => points.map(({ bytes }) => bytes))) / 2;
  const longest = Math.max(...state.lanes.map(({ most }) => most));
  state.lanes.forEach((lane, i) => {
    const [name, canvas, text, bar] = list.children[i].children;
    const last = lane.points.at(-1);
    list.children[i].className = `lane-${i % 3}`;
    setText(name, nameOf(lane));
    if (canvas.made !== lane.tokens) paintPaper(canvas, lane);
    canvas.setAttribute('aria-label', w.painted(nameOf(lane), count(lane.tokens)));
    const size = last ? bytesText(last.bytes) : '';
    setText(text, lane.isFull ? w.full(nameOf(lane), size) : size && w.bar(size));
    const share = last ? Math.log(last.bytes / least) / Math.log(longest / least) : 0;
    bar.firstElementChild.style.transform = `scaleX(${share})`;
  });
}

function renderTable(w) {
  const [head, body] = [find('thead'), find('tbody')];
  if (!head.firstElementChild) head.append(document.createElement('tr'));
  fillRow(head.firstElementChild, w.heads, 'th');
  while (body.childElementCount < state.lanes.length) body.append(document.createElement('tr'));
  state.lanes.forEach((lane, i) => {
    const last = lane.points.at(-1);
    const row = body.children[i];
    row.className = `lane-${i % 3}`;
    const cells = fillRow(row, [
      nameOf(lane), count(lane.tokens), last ? last.ms.toFixed(3) : '–', last ? bytesText(last.bytes) : '–',
      last ? count(Math.floor(GIB / last.bytes)) : '–',
    ], 'td').children;
    w.heads.forEach((head, k) => { cells[k].dataset.head = head; }); // a phone shows it in the cell
  });
}

/* 1, 2 or 5 times a power of ten, so that about four of them are in `most`. */
function stepOf(most) {
  const power = 10 ** Math.floor(Math.log10(most / 4));
  return power * ([1, 2, 5].find((times) => (most / 4) / power <= times) ?? 10);
}

function element(name, attributes, text = '') {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

/* The ticks of a logarithmic axis, at most six: powers of `base`, and their multiples where there is room. */
function ticksBetween(least, most, base, multiples) {
  const [from, to] = [least, most].map((x) => Math.floor(Math.log(x) / Math.log(base)));
  const powers = Array.from({ length: to - from + 1 }, (_, i) => base ** (from + i));
  const inside = (ticks) => ticks.filter((x) => least <= x && x <= most);
  const fine = inside(powers.flatMap((power) => multiples.map((times) => times * power)));
  return fine.length > 6 ? inside(powers) : fine;
}

function axes(svg, at, topX, ticksY, label) {
  const { width, height, left, right, top, bottom } = CHART;
  svg.append(element('path', { class: 'axis', d: `M${left} ${top}V${height - bottom}H${width - right}` }));
  for (let x = 0; x <= topX; x += stepOf(topX)) {
    svg.append(element('text', { x: at(x, 1)[0], y: height - 12, 'text-anchor': 'middle' }, count(x)));
  }
  for (const y of ticksY) {
    const [, level] = at(0, y);
    svg.append(element('path', { class: 'grid', d: `M${left} ${level}H${width - right}` }));
    svg.append(element('text', { x: left - 8, y: level + 5, 'text-anchor': 'end' }, label(y)));
  }
}

function renderChart(figure, w) {
  const svg = figure.querySelector('svg');
  const of = figure.dataset.of;
  const label = (y) => (of === 'ms' ? `${Number(y.toPrecision(2))}` : bytesText(y).replace('.0', ''));
  setText(figure.querySelector('figcaption'), w[of]);
  figure.hidden = !state.lanes.some(({ points }) => points.length > 0);
  if (figure.hidden) return;
  const { width, height, left, right, top, bottom } = CHART;
  const all = state.lanes.flatMap(({ points }) => points);
  const topX = Math.max(...all.map(({ to }) => to));
  const values = all.map((point) => point[of]);
  const [least, most] = [Math.min(...values) / 1.5, Math.max(...values) * 1.5];
  const at = (x, y) => [
    (left + (x / topX) * (width - left - right)).toFixed(1),
    height - bottom - (Math.log(y / least) / Math.log(most / least)) * (height - top - bottom),
  ];
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.replaceChildren();
  axes(svg, at, topX, of === 'ms' ? ticksBetween(least, most, 10, [1, 2, 5]) : ticksBetween(least, most, 16, [1, 4]), label);
  const value = (point) => (of === 'ms' ? `${point.ms.toFixed(3)} ${w.unit}` : bytesText(point.bytes));
  state.lanes.forEach(({ points }, i) => {
    const middle = (p) => (of === 'ms' ? (p.from + p.to) / 2 : p.to);
    const line = points.map((p) => at(middle(p), p[of]).map((x) => Number(x).toFixed(1)).join());
    svg.append(element('polyline', { class: `lane-${i % 3}`, points: line.join(' ') }));
  });
  svg.setAttribute('aria-label', state.lanes.filter(({ points }) => points.length > 0).map((lane) => (
    w.last(nameOf(lane), value(lane.points.at(-1)), count(lane.tokens)))).join('; '));
}

/* The tab, as app.js knows it. */
export const race = {
  start() {
    $('race-lab').innerHTML = MARKUP;
    $('race-go').addEventListener('click', () => (running ? pause() : run()));
    $('race-new').addEventListener('click', () => {
      forget(moving);
      run();
    });
    addEventListener('pagehide', () => forget(null)); // no turn comes back to a page that is gone
    loadLanes().then(requestRender, (error) => {
      state.failure = error;
      requestRender();
    });
  },

  /* The measurements, for tests. */
  lanes: () => state.lanes,

  hash: () => '#race',

  follow: () => false,

  visit() {},

  render,
};
