/*
 * The images' tab: pictures painted pixel by pixel from POST /v1/images/generations, a drawing
 * completed by POST /v1/images/edits, and how surprised the model is by a picture (POST /v1/score).
 *
 * A run fills `state.answer` from `values` events: each says which part of which sample's raster is
 * new. A frame paints what came since the last one, however many events that were. Seed, number,
 * temperature, the class and the drawing are in the URL's hash: a link is a sheet of pictures.
 */
import {
  $, bytesText, calm, checkNumbers, count, drawSeed, explain, findModels, hashFields, makeCopyButton, page, placeForKey,
  requestRender, say, setText, stream, wholeOf, writeAddress,
} from './common.js';
import { Pad } from './pad.js';
import { paintPixels, pixelColour, pngUrl } from './picture.js';
import { drawingText, drawingValues, saveCanvas, sheetCanvas } from './share.js';
import { askSurprise, paintSurprise } from './surprise.js';
import { makeWishes, renderWishes } from './wishes.js';

const FIELDS = ['n', 'temperature', 'seed'];

const WORDS = {
  zh: {
    none: '这台服务器没有图像模型。',
    link: '链接里的画读不出来。',
    anything: '随便什么',
    blank: '先在保留的几行里画几笔吧。',
    many: (max) => `这里一次最多画 ${max} 幅。`,
    fields: { n: '幅数', image: '图像', mask: '蒙版' },
    kept: (rows) => `保留上面 ${rows} 行`,
    made: (made, all) => `已画 ${made} / ${all} 像素`,
    state: (size, grows) => `每幅的状态 ${size}，${grows ? '到最后一个像素时' : '画到哪个像素都一样大'}`,
    cache: (size) => `换成 softmax 注意力，缓存此刻是 ${size}`,
    facts: (a) => [`种子 ${a.seed}`, `${a.seconds} 秒`, `每秒 ${a.rate} 像素`],
    stopped: '已停下',
    bits: (bits) => `${bits} 比特/维`,
    most: (bits) => `${bits} 比特`,
    tile: (i) => `第 ${i} 幅`,
    said: (n) => `画好了 ${n} 幅。`,
  },
  en: {
    none: 'This server has no image model.',
    link: 'The drawing in the link cannot be read.',
    anything: 'surprise',
    blank: 'First draw something in the kept rows.',
    many: (max) => `This page paints at most ${max} pictures at once.`,
    fields: { n: 'The number of pictures', image: 'The picture', mask: 'The mask' },
    kept: (rows) => `Keep the first ${rows} rows`,
    made: (made, all) => `${made} of ${all} pixels`,
    state: (size, grows) => `State of one picture: ${size}, ${grows ? 'at the last pixel' : 'the same at every pixel'}`,
    cache: (size) => `With softmax attention the cache would be ${size} by now`,
    facts: (a) => [`seed ${a.seed}`, `${a.seconds} s`, `${a.rate} pixels/s`],
    stopped: 'stopped',
    bits: (bits) => `${bits} bits/dim`,
    most: (bits) => `${bits} bits`,
    tile: (i) => `Picture ${i}`,
    said: (n) => `${n} pictures are painted.`,
  },
};

const state = {
  models: [],         // all that are served, see readModel
  model: undefined,   // the chosen one; null when none is served
  answer: null,       // the newest answer, see newAnswer
  failure: null,      // the newest error of the form
  refusal: null,      // the page's own refusal: a key of WORDS
  scoreFailure: null, // the newest error of the surprise map
  wish: null,         // the class asked for, a place in the model's list; null for anything
};

let pad = null;
let running = null; // AbortController of the run in progress

const find = (selector) => document.querySelector(`#images ${selector}`);

/* --- the model --------------------------------------------------------------------------------- */

/* cacheBytes: the float32 keys and values of all layers that softmax attention would keep per value; 0 if the server does not report the model's size. */
function readModel({ id, meta }) {
  const { width, height, channels } = meta;
  return {
    id, width, height, channels,
    size: width * height * channels,
    classes: meta.classes ?? [],
    stateBytes: meta.state_bytes,
    grows: meta.state_grows,
    cacheBytes: 2 * 4 * (meta.n_layers ?? 0) * (meta.n_embd ?? 0),
  };
}

async function loadModel() {
  const models = await findModels('image');
  if (state.model) return;
  state.models = models.map(readModel);
  makePainters();
  setModel(state.models[0] ?? null);
}

/* The pictures of another model leave with it. */
function setModel(model) {
  if (model === state.model) return;
  stop();
  Object.assign(state, { model, answer: null });
  if (!model) return;
  const { width, height } = model;
  for (const id of ['large', 'heat']) Object.assign($(id), { width, height });
  find('.tiles').replaceChildren();
  $('kept').max = height - 1;
  pad.setShape(model);
  $('kept').value = pad.kept;
  makeWishes($('wishes'), model.classes, (wish) => {
    state.wish = wish;
    $('image-seed').value = '';
    paintNew();
  });
}

/* A button per model, where there are several. */
function makePainters() {
  $('painters').hidden = state.models.length < 2;
  for (const model of state.models) {
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: model.id, model });
    button.addEventListener('click', () => {
      setModel(model);
      drawWish();
      paintNew();
    });
    $('painters').append(button);
  }
}

/* --- an answer --------------------------------------------------------------------------------- */

/* A sample is one picture: its raster and how many values of it are there. asked: its score is. */
function newSample(prefix) {
  const values = new Uint8Array(state.model.size);
  values.set(prefix);
  return { values, made: prefix.length, png: null, surprise: null, bits: null, asked: false };
}

/* request has the sent fields; prefix has the given values, the upper part of `drawing`; kept counts their rows. */
function newAnswer(request, prefix, drawing) {
  return {
    request, drawing,
    kept: prefix.length / (state.model.width * state.model.channels),
    given: prefix.length,
    samples: Array.from({ length: request.n }, () => newSample(prefix)),
    chosen: 0, seed: request.seed, done: false, stopped: false,
    started: performance.now(), seconds: null, rate: null,
  };
}

function takeEvent(answer, event) {
  const sample = answer.samples[event.index];
  if (event.type.endsWith('.values')) {
    sample.values.set(event.values, event.start);
    sample.made = event.start + event.values.length;
  } else if (event.type.endsWith('.completed')) {
    sample.png = `data:image/png;base64,${event.b64_json}`;
    answer.seed = event.seed;
    if (sample === answer.samples[answer.chosen]) score(sample);
  }
}

const madeValues = (answer) => answer.samples.reduce((sum, s) => sum + s.made - answer.given, 0);

function finishAnswer(answer) {
  const seconds = (performance.now() - answer.started) / 1000;
  answer.done = true;
  answer.seconds = seconds.toFixed(1);
  answer.rate = count(Math.round(madeValues(answer) / state.model.channels / seconds));
  writeHash();
  say('images', WORDS[page.lang].said(answer.samples.length));
}

/* --- a run ------------------------------------------------------------------------------------- */

function readForm() {
  const field = (name) => $(`image-${name}`).value || $(`image-${name}`).defaultValue;
  const seed = field('seed') === '' ? drawSeed() : Number(field('seed'));
  const wish = state.wish === null ? {} : { class: state.wish };
  return { n: Number(field('n')), temperature: Number(field('temperature')), seed, ...wish };
}

/* On a phone they may be out of sight. */
function showTiles() {
  find('.tiles').scrollIntoView({ block: 'nearest', behavior: calm.matches ? 'auto' : 'smooth' });
}

/* Paints `request.n` pictures that begin with the values of prefix, which may be none; `pick` is the
   one to be chosen. */
async function run(request, prefix, pick) {
  stop();
  const { signal } = running = new AbortController();
  Object.assign(state, { failure: null, refusal: null, scoreFailure: null });
  const { id, width, channels } = state.model;
  const rows = prefix.length / (width * channels);
  const image = rows > 0 && pngUrl(prefix, width, rows, channels);
  const given = image ? { images: [{ image_url: image }] } : {};
  const path = image ? '/v1/images/edits' : '/v1/images/generations';
  const answer = state.answer = newAnswer(request, prefix, pad.values.slice());
  answer.chosen = Math.min(Math.max(pick, 0), request.n - 1);
  requestRender();
  try {
    const body = { model: id, prompt: '', ...request, stream_unit: 'pixel', ...given };
    for await (const event of stream(path, body, signal)) {
      if (signal.aborted) return;
      takeEvent(answer, event);
      requestRender();
    }
    if (!answer.samples.every((s) => s.png)) throw new TypeError('the stream ended early');
    finishAnswer(answer);
  } catch (error) {
    if (signal.aborted) return;
    state.failure = error;
    answer.stopped = true;
  }
  running = null;
  requestRender();
}

function stop() {
  if (!running) return;
  running.abort();
  running = null;
  state.answer.stopped = true;
  requestRender();
}

/* Runs when the form and the model allow it; says why not otherwise. */
async function start(getPrefix, pick = 0) {
  const request = readForm();
  const most = Number($('image-n').max);
  state.failure = state.refusal = null;
  try {
    await loadModel();
    if (request.n <= most) checkNumbers($('image-n'), $('image-temperature'), $('image-seed'));
    const prefix = state.model ? getPrefix() : [];
    if (!state.model) state.refusal = 'none';
    else if (prefix === null) state.refusal = 'link';
    else if (request.n > most) state.refusal = 'many';
    else if (prefix.length > 0 && prefix.every((v) => v === 0)) state.refusal = 'blank';
    else run(request, prefix, pick);
  } catch (error) {
    state.failure = error;
  }
  requestRender();
}

function paintNew() {
  showTiles();
  start(() => new Uint8Array(0));
}

function completeDrawing() {
  showTiles();
  start(() => pad.prefix().slice());
}

/* --- the surprise map -------------------------------------------------------------------------- */

/* Asks once for each picture that is finished. */
async function score(sample) {
  if (!sample.png || sample.asked) return;
  sample.asked = true;
  try {
    Object.assign(sample, await askSurprise(state.model, sample.png));
    state.scoreFailure = null;
  } catch (error) {
    sample.asked = false; // choosing it again asks again
    state.scoreFailure = error;
  }
  requestRender();
}

/* --- the URL's hash ---------------------------------------------------------------------------- */

function hash() {
  const { answer } = state;
  if (!answer?.done) return '#images';
  const { n, temperature, class: wish } = answer.request;
  const fields = new URLSearchParams({ n, temperature, seed: answer.seed });
  if (state.model !== state.models[0]) fields.set('model', state.model.id);
  if (wish !== undefined) fields.set('class', wish);
  if (answer.chosen > 0) fields.set('pick', answer.chosen);
  if (answer.given > 0) fields.set('rows', answer.kept);
  if (answer.given > 0) fields.set('ink', drawingText(answer.drawing));
  return `#images&${fields}`;
}

function writeHash() {
  if (page.tab === 'images') writeAddress(hash());
}

const modelOf = (fields) => state.models.find(({ id }) => id === fields.get('model')) ?? state.models[0];

/* The drawing of a link goes on the pad: its kept values, or null when it cannot be read. */
function takeDrawing(fields) {
  const values = drawingValues(fields.get('ink'), state.model.size);
  const rows = Number(fields.get('rows'));
  if (!values || !(Number.isInteger(rows) && rows > 0 && rows < state.model.height)) return null;
  pad.load(values);
  pad.setKept(rows);
  $('kept').value = rows;
  return pad.prefix().slice();
}

/* Whether the hash asks for pictures. */
function follow() {
  const fields = hashFields();
  if (state.model) setModel(modelOf(fields));
  for (const id of FIELDS) {
    $(`image-${id}`).value = fields.get(id) ?? $(`image-${id}`).defaultValue;
  }
  state.wish = wholeOf(fields.get('class'));
  if (!fields.has('seed')) return false;
  const prefix = () => {
    setModel(modelOf(fields)); // the list of models may have come only now
    return fields.has('ink') ? takeDrawing(fields) : new Uint8Array(0);
  };
  start(prefix, Number(fields.get('pick')) || 0);
  return true;
}

/* Digits of one class, which visitors recognise; digits of any class look like scribbles at first sight. */
function drawWish() {
  const { length } = state.model?.classes ?? [];
  state.wish = length > 0 ? drawSeed() % length : null;
}

/* A visitor without a link sees the first sheet being painted. */
async function visit() {
  await loadModel().catch(() => {}); // start() says why
  if (state.answer || running || page.tab !== 'images') return;
  drawWish();
  start(() => new Uint8Array(0));
}

/* --- rendering --------------------------------------------------------------------------------- */

function render() {
  const words = WORDS[page.lang];
  renderError(words);
  renderWishes($('wishes'), state.wish, words.anything);
  for (const button of $('painters').querySelectorAll('button')) {
    button.setAttribute('aria-pressed', button.model === state.model);
  }
  find('.studio').hidden = !state.model;
  if (!state.model) return;
  renderPad(words);
  renderTiles(words);
  renderMeters(words);
  renderChosen(words);
}

function renderError(words) {
  const refused = state.model === null ? 'none' : state.refusal;
  const own = refused && (refused === 'many' ? words.many($('image-n').max) : words[refused]);
  setText($('image-error'), own || (state.failure ? explain(state.failure, words.fields) : ''));
  $('paint').disabled = state.model === null;
}

function renderPad(words) {
  setText(find('.kept-rows'), words.kept(pad.kept));
  $('take').disabled = !state.answer;
  $('centre').disabled = pad.isBlank();
}

function newTile() {
  const tile = document.createElement('li');
  tile.setAttribute('role', 'option');
  tile.append(newPicture());
  return tile;
}

const newPicture = () => Object.assign(document.createElement('canvas'), {
  className: 'picture', width: state.model.width, height: state.model.height,
});

/* Before the first run the easel has as many empty places as the form says first. */
const tileCount = () => state.answer?.samples.length ?? Number($('image-n').defaultValue);

/* A grid as near to a square as it can be. */
function renderTiles(words) {
  const list = find('.tiles');
  const { answer } = state;
  const total = tileCount();
  const focused = list.contains(document.activeElement);
  list.style.setProperty('--columns', columnsOf(total));
  while (list.childElementCount > total) list.lastElementChild.remove();
  while (list.childElementCount < total) list.append(newTile());
  list.classList.toggle('kept', answer?.given > 0);
  list.style.setProperty('--kept', answer ? answer.kept / state.model.height : 0);
  Array.from(list.children).forEach((tile, i) => {
    const selected = answer?.chosen === i;
    tile.setAttribute('aria-label', words.tile(i + 1));
    tile.setAttribute('aria-selected', selected);
    tile.tabIndex = selected ? 0 : -1;
    if (answer) paintSample(tile.firstElementChild, answer.samples[i]);
    if (selected && focused) tile.focus();
  });
}

const columnsOf = (total) => Math.ceil(Math.sqrt(total));

/* Paints the part of a sample that is new; a canvas that showed another sample begins anew. */
function paintSample(canvas, sample) {
  const { width, height, channels } = state.model;
  if (canvas.sample !== sample) {
    canvas.sample = sample;
    canvas.painted = 0;
    paintPixels(canvas, 0, width * height, () => null);
  }
  const made = Math.floor(sample.made / channels);
  const colour = (i) => (i < made ? pixelColour(sample.values, channels, i) : null);
  if (made > canvas.painted) paintPixels(canvas, canvas.painted, made, colour);
  canvas.painted = made;
}

function fill(bar, share) {
  find(`${bar} .fill`).style.transform = `scaleX(${share})`;
}

function renderMeters(words) {
  const { answer, model } = state;
  const samples = answer?.samples ?? [];
  const all = (model.size - (answer?.given ?? 0)) * tileCount();
  const made = answer ? madeValues(answer) : 0;
  const position = Math.max(0, ...samples.map((s) => s.made));
  const { channels, stateBytes, cacheBytes } = model;
  const inPixels = (values) => count(Math.floor(values / channels));
  setText(find('.made .text'), words.made(inPixels(made), inPixels(all)));
  setText(find('.state .text'), words.state(bytesText(stateBytes), model.grows));
  setText(find('.cache .text'), words.cache(bytesText(cacheBytes * position)));
  find('.cache').hidden = cacheBytes === 0 || model.grows; // such a model is softmax attention itself
  const most = Math.max(cacheBytes * model.size, stateBytes);
  fill('.made', made / all);
  fill('.state', stateBytes / most);
  fill('.cache', (cacheBytes * position) / most);
  $('stop').hidden = !running;
  $('image-save').disabled = $('image-copy').disabled = !answer?.done;
  const facts = answer?.done ? words.facts(answer) : [];
  setText(find('.easel .facts'), answer?.stopped ? words.stopped : facts.join(' · '));
}

function renderChosen(words) {
  const sample = state.answer?.samples[state.answer.chosen];
  if (sample) paintSample($('large'), sample);
  renderHeat(words, sample);
  $('download').hidden = !sample?.png;
  if (!sample?.png || $('download').href === sample.png) return;
  $('download').href = sample.png;
  $('download').download = `linnet-${state.answer.seed}-${state.answer.chosen + 1}.png`;
}

function renderHeat(words, sample) {
  setText(find('.chosen .error'), state.scoreFailure ? explain(state.scoreFailure, words.fields) : '');
  setText(find('.bits'), sample?.surprise ? words.bits(sample.bits.toFixed(3)) : '');
  find('.legend').hidden = !sample?.surprise;
  const most = paintSurprise($('heat'), sample?.surprise ?? null, state.model);
  setText(find('.most'), words.most(most.toFixed(1)));
}

/* --- events ------------------------------------------------------------------------------------ */

function choose(index) {
  const { answer } = state;
  answer.chosen = index;
  state.scoreFailure = null;
  score(answer.samples[index]);
  writeHash();
  requestRender();
}

function onTileKey(event) {
  const { answer } = state;
  if (!answer) return;
  const total = answer.samples.length;
  const to = placeForKey(event.key, answer.chosen, total, columnsOf(total));
  if (to === undefined) return;
  event.preventDefault();
  choose(to);
}

function onTileClick(event) {
  const tile = event.target.closest('li');
  if (!tile || !state.answer) return;
  choose(Array.from(tile.parentElement.children).indexOf(tile));
  tile.focus();
}

function onSubmit(event) {
  event.preventDefault();
  paintNew();
}

function takeChosen() {
  const { answer } = state;
  pad.load(answer.samples[answer.chosen].values);
}

const SHEET_SCALE = 8; // the side of a pixel in a saved sheet

function saveSheet() {
  const tiles = Array.from(find('.tiles').querySelectorAll('canvas'));
  saveCanvas(sheetCanvas(tiles, columnsOf(tiles.length), SHEET_SCALE), `linnet-${state.answer.seed}.png`);
}

/* The tab, as app.js knows it. */
export const images = {
  start() {
    $('image-result').replaceChildren($('studio').content.cloneNode(true));
    pad = new Pad(find('.pad'), requestRender);
    $('image-temperature').step = '0.05'; // of its arrows
    $('image-form').noValidate = true; // the server judges, its answer is shown below the form
    $('image-form').addEventListener('submit', onSubmit);
    $('complete').addEventListener('click', completeDrawing);
    $('clear').addEventListener('click', () => pad.clear());
    $('take').addEventListener('click', takeChosen);
    $('centre').addEventListener('click', () => pad.centre());
    $('kept').addEventListener('input', () => pad.setKept(Number($('kept').value)));
    $('stop').addEventListener('click', stop);
    makeCopyButton($('image-copy'), hash);
    $('image-save').addEventListener('click', saveSheet);
    find('.tiles').addEventListener('keydown', onTileKey);
    find('.tiles').addEventListener('click', onTileClick);
    loadModel().then(requestRender, () => {}); // a failure is shown when something is painted
  },

  render, follow, visit, hash,
  chosen: () => state.model,
};
