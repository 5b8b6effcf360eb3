/*
 * "How it works": a line goes through the couplet model, and the page inspects the state at every step. The first step
 * is POST /v1/states of the line. Each later step requests one character from the previous state. The page computes
 * only differences of states and the answer to a key (memory.js). Line, seed, head and step are in the URL's
 * hash. The article around it is in index.html.
 */
import {
  $, bytesText, calm, drawSeed, explain, findModel, forgetState, hashFields, lookInside, makeCopyButton, page, post, requestRender,
  say, setText, wholeOf, writeAddress,
} from './common.js';
import { renderToy, startToy } from './toy.js';
import { addedBetween, nothing, paintMemory, paintNumbers, readOut, shareOf, valueOf } from './memory.js';

const STEP_MS = 650; // a step of the walk, when it plays by itself
const LINE = '海上明月';
const FORKS = 3;

/* The network the article speaks of; the formula is shown for the model that is served, if one is. */
const ARTICLE = { stateBytes: 4 * 8 * 8 * (32 * 32 + 32), cacheBytes: 4 * 2 * 8 * 256 };

const WORDS = {
  zh: {
    fields: { prompt: '这一行' },
    none: '这台服务器没有对联模型，走不了；下文照样可读。',
    foreign: '这里的模型不是线性变换器，状态里没有 s 与 z；下文照样可读。',
    empty: '先写一行字吧。',
    zero: '空',
    start: '式 16、17：什么都还没读，s 与 z 全是零。',
    line: (n) => `这一行连同起始记号，${n} 个位置一次读完：${n} 个乘积加在一起，与一个一个加进去结果相同。训练时也是这样，所以快。`,
    step: (a, b, error) => `进来「${a}」，加上它的键乘值（式 18、19），写出「${b}」。从前后两个状态反推出的键与值，乘回去只差 ${error}。`,
    mark: '分隔号',
    added: (n) => (n > 1 ? `${n} 个 φ(k) vᵀ` : 'φ(k) vᵀ'),
    facts: (p, state, cache) => `${p} 个位置 · 状态 ${state}（量得）· softmax 缓存 ${cache}（算式）`,
    shares: (label, share) => `${label} ${share}`,
    head: (layer, head) => `第 ${layer} 层第 ${head} 头`, ofHeads: (n) => `${n} 个头中的一个`,
    whole: '整行上联',
    ask: (label) => `用「${label}」的键问`,
    forks: (past, lines) => `同一段过去${past ? `「${past}」` : ''}，${lines.length} 个未来：${lines.join('　')}`,
    positions: (n) => `${n} 个位置`,
    state: (size) => `s 与 z：${size}`,
    cache: (size) => `softmax 的缓存：${size}（算式）`,
    scale: '亮度按平方根',
  },
  en: {
    fields: { prompt: 'The line' },
    none: 'This server has no couplet model to show. You can still read the article.',
    foreign: 'The model here is no linear transformer: its state has no s and z. You can still read the article.',
    empty: 'Write a line first.',
    zero: 'empty',
    start: 'Equations 16 and 17: nothing has been read yet, s and z are zero.',
    line: (n) => `The line and a start mark are read at once, ${n} positions: ${n} added products give the result of ${n} steps. Training works in this way and is therefore fast.`,
    step: (a, b, error) => `${a} goes in: the product of its key and value is added (equations 18 and 19), and ${b} comes out. Key and value are computed from the states before and after; their product is exact to within ${error}.`,
    mark: 'the separator',
    added: (n) => (n > 1 ? `${n} × φ(k) vᵀ` : 'φ(k) vᵀ'),
    facts: (p, state, cache) => `position ${p} · state ${state}, measured · softmax cache ${cache}, by formula`,
    shares: (label, share) => `${label} ${share}`,
    head: (layer, head) => `head ${head} of layer ${layer}`, ofHeads: (n) => `this is 1 of ${n} heads`,
    whole: 'the whole line',
    ask: (label) => `ask with the key of ${label}`,
    forks: (past, lines) => `One past${past ? `, ${past}` : ''}, ${lines.length} futures: ${lines.join(' · ')}`,
    positions: (n) => `${n} positions`,
    state: (size) => `s and z: ${size}`,
    cache: (size) => `softmax's cache: ${size} (formula)`,
    scale: 'brightness by square root',
  },
};

/* A step is a state: { id, text: the text read, wrote, position, inside: { s, z } or null }. The first
   has seen nothing and has no id. */
const state = {
  model: undefined, // null when there is none
  foreign: false,   // the model's states have no s and z
  line: LINE, seed: 1,
  steps: [],
  at: 0,            // the step shown
  layer: 0, head: 0, // of what all steps have inside
  asked: null,      // { layer, head } while another head is looked into
  question: null,   // the step whose key asks; null: the newest that has one
  forks: null,      // { past, lines }
  failure: null,    // the newest error
  wanted: null,     // the step a link asks for
};

let walking = null; // AbortController of the walk in progress
let player = null;  // timer of the walk as it plays
let watch = null;   // IntersectionObserver until the walk is seen

const find = (selector) => document.querySelector(`#how ${selector}`);
const words = () => WORDS[page.lang];

/* --- the walk ---------------------------------------------------------------------------------- */

async function loadModel() {
  if (state.model) return;
  const model = await findModel('couplet');
  if (!model) {
    state.model = null;
    return;
  }
  const { n_layers: layers, n_heads: heads, n_embd: width, state_bytes: stateBytes } = model.meta;
  state.model = { id: model.id, layers, heads, stateBytes, cacheBytes: 2 * 4 * layers * width };
  fillSelect($('lab-layer'), layers);
  fillSelect($('lab-head'), heads);
}

function fillSelect(select, n) {
  select.replaceChildren(...Array.from({ length: n }, (_, i) => new Option(i + 1, i)));
}

const postJson = async (path, body) => (await post(path, body)).json();

/* One character more, from a state: { text, id, position, ended }. */
async function writeOne(id) {
  const body = { model: state.model.id, state: id, max_tokens: 1, return_state: true };
  const { choices: [choice], states: [next] } = await postJson('/v1/completions', body);
  return { text: choice.text, id: next.id, position: next.position, ended: choice.finish_reason === 'stop' };
}

/* Adds a complete step with what its state has inside, in the head that is shown when the answer comes. A state that is not
   shown is deleted. */
async function addStep(step, signal) {
  try {
    for (let seen = {}; !signal.aborted && (seen.layer !== state.layer || seen.head !== state.head);) {
      seen = { layer: state.layer, head: state.head };
      step.inside = await lookInside(step.id, seen.layer, seen.head);
    }
  } finally {
    if (signal.aborted || !step.inside) forgetState(step.id);
  }
  if (signal.aborted) return;
  state.foreign = !step.inside.s || !step.inside.z;
  if (state.foreign) {
    forgetState(step.id);
    return;
  }
  if (state.steps.length === 0) {
    const { s } = step.inside;
    state.steps.push({ id: null, text: '', wrote: '', position: 0, inside: nothing(s.length, s[0].length) });
  }
  state.steps.push(step);
  requestRender();
}

/* No request that makes a state is broken off: its id would be unknown, and the state could not be deleted. */
async function walkThrough(signal) {
  const { line, seed, model } = state;
  const first = await postJson('/v1/states', { model: model.id, prompt: line, seed });
  await addStep({ id: first.id, text: line, wrote: '', position: first.position, inside: null }, signal);
  let [id, text, ended] = [first.id, null, false];
  while (!ended && !signal.aborted && !state.foreign) {
    const next = await writeOne(id);
    await addStep({ id: next.id, text, wrote: next.text, position: next.position, inside: null }, signal);
    ({ id, text, ended } = next);
  }
}

function forget() {
  for (const { id } of state.steps) if (id) forgetState(id);
  state.steps = [];
}

async function walk() {
  walking?.abort();
  const { signal } = walking = new AbortController();
  forget();
  Object.assign(state, { at: 0, question: null, forks: null, failure: null, asked: null });
  try {
    await loadModel();
    if (state.model) {
      const { layers, heads } = state.model;
      Object.assign(state, { layer: Math.min(state.layer, layers - 1), head: Math.min(state.head, heads - 1) });
      playWhenSeen();
      await walkThrough(signal);
      if (signal.aborted) return;
      if (!state.foreign) say('how', words().facts(...measures(state.steps.length - 1)));
    }
  } catch (error) {
    if (signal.aborted) return;
    state.failure = error;
  }
  walking = null;
  requestRender();
}

/* Shows one step after the other until the newest; who moves calmly, or follows a link, sees the last
   or the wanted one at once. */
function play() {
  clearTimeout(player);
  const last = state.steps.length - 1;
  const wanted = state.wanted ?? (calm.matches ? Infinity : null);
  if (wanted !== null) state.at = Math.max(0, Math.min(wanted, last));
  else if (state.at < last) state.at += 1;
  requestRender();
  const reached = !walking && (wanted !== null || state.at >= last);
  player = reached ? null : setTimeout(play, wanted === null ? STEP_MS : 50);
  if (reached) writeHash();
}

/* The walk stands below the toy, so it would be over before a visitor comes to it. Where nothing plays, nothing waits. */
function playWhenSeen() {
  watch?.disconnect();
  if (state.wanted !== null || calm.matches) {
    play();
    return;
  }
  watch = new IntersectionObserver((seen) => {
    if (!seen.some(({ isIntersecting }) => isIntersecting)) return;
    watch.disconnect();
    play();
  });
  watch.observe($('lab-form'));
}

function goTo(at) {
  watch?.disconnect();
  clearTimeout(player);
  player = null;
  state.wanted = null;
  Object.assign(state, { at: Math.max(0, Math.min(at, state.steps.length - 1)), question: null, forks: null });
  writeHash();
  requestRender();
}

/* Another head of the same states: of all of them at once, also of those that the walk adds meanwhile. */
async function lookElsewhere(layer, head) {
  const asked = state.asked = { layer, head };
  const insides = new Map();
  requestRender();
  try {
    for (;;) {
      const missing = state.steps.filter((step) => step.id && !insides.has(step));
      if (missing.length === 0) break;
      const found = await Promise.all(missing.map((step) => lookInside(step.id, layer, head)));
      if (state.asked !== asked) return;
      missing.forEach((step, i) => insides.set(step, found[i]));
    }
    for (const [step, inside] of insides) step.inside = inside;
    Object.assign(state, { layer, head, failure: null });
    writeHash();
  } catch (error) {
    if (state.asked !== asked) return;
    state.failure = error;
  }
  state.asked = null;
  requestRender();
}

async function fork() {
  const { at } = state;
  const step = state.steps[at];
  const past = state.steps.slice(2, at + 1).map(({ wrote }) => wrote).join('');
  const isShown = () => state.steps[state.at] === step;
  let copies = [];
  try {
    copies = (await postJson(`/v1/states/${step.id}/fork`, { n: FORKS })).data;
    const answers = await Promise.all(copies.map((copy) => (
      postJson('/v1/completions', { model: state.model.id, state: copy.id }))));
    if (isShown()) Object.assign(state, { failure: null, forks: { past, lines: answers.map(({ choices: [c] }) => past + c.text) } });
  } catch (error) {
    if (isShown()) state.failure = error;
  }
  copies.forEach((copy) => forgetState(copy.id));
  requestRender();
}

/* --- the URL's hash ---------------------------------------------------------------------------- */

function hash() {
  if (state.steps.length === 0) return '#how';
  const { line, seed, layer, head, at } = state;
  return `#how&${new URLSearchParams({ line, seed, layer, head, step: at })}`;
}

function writeHash() {
  if (page.tab === 'how') writeAddress(hash());
}

/* Whether the hash asks for a line. */
function follow() {
  const fields = hashFields();
  if (!fields.get('line')) return false;
  Object.assign(state, { line: fields.get('line'), seed: wholeOf(fields.get('seed')) ?? 0 });
  Object.assign(state, { layer: wholeOf(fields.get('layer')) ?? 0, head: wholeOf(fields.get('head')) ?? 0 });
  state.wanted = wholeOf(fields.get('step')) ?? 0;
  $('lab-line').value = state.line;
  walk();
  return true;
}

function visit() {
  if (state.steps.length === 0 && !walking) walk();
}

/* --- rendering --------------------------------------------------------------------------------- */

/* Position, bytes of the state, bytes that a cache would have. */
function measures(at) {
  const { position } = state.steps[at];
  return [position, bytesText(state.model.stateBytes), bytesText(state.model.cacheBytes * position)];
}

function render() {
  renderToy();
  renderPositions();
  const shown = state.failure ? explain(state.failure, words().fields, reasonOf) : '';
  const useless = state.model === null ? words().none : state.foreign && words().foreign;
  setText($('lab-error'), useless || shown);
  find('.bench').hidden = state.steps.length === 0;
  if (state.steps.length === 0) return;
  renderSteps();
  renderSum();
  renderReading();
  setText(find('.bench > .facts'), words().facts(...measures(state.at)));
  setText(find('.forks'), state.forks ? words().forks(state.forks.past, state.forks.lines) : '');
  renderHeads();
  $('lab-back').disabled = state.at === 0;
  $('lab-next').disabled = state.at === state.steps.length - 1;
  $('lab-fork').disabled = state.at === 0 || state.at === state.steps.length - 1;
}

const reasonOf = (error) => (error.param === 'prompt' && state.line === '' ? words().empty : '');

/* The input of a step, in words; the first character is written when the separator is read. */
const readAt = (i) => (i === 2 ? words().mark : state.steps[i].text);
const labelOf = (i) => [words().zero, state.line][i] ?? state.steps[i].wrote;

function renderSteps() {
  const list = find('.steps');
  while (list.childElementCount > state.steps.length) list.lastElementChild.remove();
  while (list.childElementCount < state.steps.length) {
    const button = Object.assign(document.createElement('button'), { type: 'button' });
    const i = list.childElementCount;
    button.addEventListener('click', () => goTo(i));
    list.append(document.createElement('li'));
    list.lastElementChild.append(button);
  }
  Array.from(list.children).forEach((item, i) => {
    const button = item.firstElementChild;
    setText(button, labelOf(i));
    button.lang = i === 0 ? page.lang : 'zh';
    if (i === state.at) button.setAttribute('aria-current', 'step');
    else button.removeAttribute('aria-current');
    item.classList.toggle('past', i <= state.at);
  });
}

/* The map of all heads: a row per layer. Visitors with a keyboard use the selects. */
function renderHeads() {
  const { layers, heads } = state.model;
  const { layer, head } = state.asked ?? state;
  const map = find('.head-map');
  $('lab-layer').value = layer;
  $('lab-head').value = head;
  map.style.setProperty('--heads', heads);
  while (map.childElementCount < layers * heads) map.append(document.createElement('span'));
  Array.from(map.children).forEach((cell, i) => {
    cell.classList.toggle('shown', i === layer * heads + head);
    cell.title = words().head(Math.floor(i / heads) + 1, (i % heads) + 1);
  });
  map.setAttribute('aria-label', words().head(layer + 1, head + 1));
  setText(find('.of-heads'), words().ofHeads(layers * heads));
}

function chooseHead({ target }) {
  const at = Array.from(find('.head-map').children).indexOf(target);
  if (at < 0) return;
  const { heads } = state.model;
  lookElsewhere(Math.floor(at / heads), at % heads);
}

const largest = (rows) => Math.max(...rows.flat().map(Math.abs));

/* The scale of a head for all steps. */
function scale() {
  const { z } = state.steps[state.steps.length - 1].inside; // z only grows
  const mostS = Math.max(...state.steps.map((step) => largest(step.inside.s)));
  return { mostS, mostZ: largest([z]) };
}

function renderSum() {
  const { at, steps } = state;
  const after = steps[at].inside;
  const before = steps[Math.max(at - 1, 0)].inside;
  const added = addedBetween(before, after);
  const rows = at === 0 ? 0 : steps[at].position - steps[at - 1].position;
  const { value, error } = rows === 1 ? valueOf(added) : {};
  const most = scale();
  paintMemory(find('.before'), before, most);
  paintMemory(find('.added'), { ...added, value }, most);
  paintMemory(find('.after'), after, most);
  setText(find('.added + figcaption'), words().added(rows));
  setText(find('.told'), at === 0 ? words().start
    : at === 1 ? words().line(rows) : words().step(readAt(at), steps[at].wrote, error.toExponential(0)));
  setText(find('.least'), `−${most.mostS.toFixed(1)}`);
  setText(find('.greatest'), `${most.mostS.toFixed(1)} · ${words().scale}`);
}

/* The added products of each step up to the shown one, with labels. */
const additions = () => state.steps.slice(1, state.at + 1).map((step, k) => ({
  at: k + 1,
  label: k === 0 ? words().whole : readAt(k + 1),
  ...addedBetween(state.steps[k].inside, step.inside),
}));

function renderReading() {
  const list = additions();
  const single = list.slice(1);
  find('.reading').hidden = single.length === 0;
  if (single.length === 0) return;
  const asked = single.find(({ at }) => at === state.question) ?? single[single.length - 1];
  const { inside } = state.steps[state.at];
  renderQuestions(single, asked);
  const shares = find('.shares');
  shares.replaceChildren(...list.map((addition) => shareItem(addition, shareOf(asked.z, addition.z, inside.z))));
  const read = [readOut(asked.z, inside), valueOf(asked).value];
  const most = largest(read);
  const box = find('.readout');
  while (box.childElementCount < 2) box.append(document.createElement('canvas'));
  Array.from(box.children).forEach((canvas, i) => {
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', i === 0 ? 'φ(q)ᵀs / φ(q)ᵀz' : `v ${asked.label}`);
    paintNumbers(canvas, [read[i]], most);
  });
}

function renderQuestions(single, asked) {
  const box = find('.queries');
  while (box.childElementCount > single.length) box.lastElementChild.remove();
  while (box.childElementCount < single.length) {
    const button = Object.assign(document.createElement('button'), { type: 'button' });
    const at = box.childElementCount + 2; // the first step that adds one row
    button.addEventListener('click', () => {
      state.question = at;
      requestRender();
    });
    box.append(button);
  }
  single.forEach(({ at, label }, i) => {
    const button = box.children[i];
    setText(button, label);
    button.setAttribute('aria-label', words().ask(label));
    button.setAttribute('aria-pressed', at === asked.at);
  });
}

function shareItem({ label }, share) {
  const item = document.createElement('li');
  const bar = Object.assign(document.createElement('span'), { className: 'bar' });
  const fill = Object.assign(document.createElement('span'), { className: 'fill' });
  fill.style.transform = `scaleX(${share})`;
  bar.append(fill);
  item.append(words().shares(label, `${(100 * share).toFixed(1)} %`), bar);
  return item;
}

/* The formula of the article, at any length. */
function renderPositions() {
  const n = Math.round(2 ** Number($('position').value));
  const { stateBytes, cacheBytes } = (!state.foreign && state.model) || ARTICLE;
  const most = Math.max(stateBytes, cacheBytes * n);
  setText(find('#positions .slider .text'), words().positions(n.toLocaleString('en')));
  setText(find('#positions .state .text'), words().state(bytesText(stateBytes)));
  setText(find('#positions .cache .text'), words().cache(bytesText(cacheBytes * n)));
  find('#positions .state .fill').style.transform = `scaleX(${stateBytes / most})`;
  find('#positions .cache .fill').style.transform = `scaleX(${(cacheBytes * n) / most})`;
}

/* --- events ------------------------------------------------------------------------------------ */

function onSubmit(event) {
  event.preventDefault();
  state.line = $('lab-line').value.replace(/\s+/gu, '');
  state.seed = drawSeed();
  state.wanted = null;
  walk();
}

/* The tab, as app.js knows it. */
export const how = {
  start() {
    startToy();
    $('lab').replaceChildren($('lab-parts').content.cloneNode(true));
    $('positions').replaceChildren($('position-parts').content.cloneNode(true));
    $('lab-form').addEventListener('submit', onSubmit);
    $('lab-back').addEventListener('click', () => goTo(state.at - 1));
    $('lab-next').addEventListener('click', () => goTo(state.at + 1));
    $('lab-fork').addEventListener('click', fork);
    find('.head-map').addEventListener('click', chooseHead);
    for (const name of ['layer', 'head']) {
      $(`lab-${name}`).addEventListener('change', () => lookElsewhere(Number($('lab-layer').value), Number($('lab-head').value)));
    }
    $('position').addEventListener('input', requestRender);
    makeCopyButton($('lab-copy'), hash);
    addEventListener('pagehide', forget);
    addEventListener('pageshow', (event) => { if (event.persisted && page.tab === 'how') walk(); });
  },

  render, follow, visit, hash,
};
