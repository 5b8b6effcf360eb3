/*
 * Shared code of the tabs: the API and its event streams, the language, one frame loop, errors in plain
 * words. A tab keeps its own state and asks for a frame with requestRender(); app.js then calls the
 * render function of the tab that is shown.
 */

export const $ = (id) => document.getElementById(id);

/* lang: the language shown; tab: the tab shown. Written by app.js only. */
export const page = { lang: 'zh', tab: 'couplets' };

/* --- the API ----------------------------------------------------------------------------------- */

export class ApiError extends Error {
  constructor(status, body, retryAfter) {
    super(body?.message || `HTTP ${status}`);
    Object.assign(this, { status, param: body?.param, retryAfter });
  }
}

/* The seconds that a Retry-After names, as a number or as a date; null for anything else. */
function secondsOf(text) {
  if (/^\d+$/.test(text ?? '')) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? null : Math.max(1, Math.ceil((date - Date.now()) / 1000));
}

async function checked(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new ApiError(response.status, body?.error, secondsOf(response.headers.get('Retry-After')));
}

/* body: a form, or what becomes JSON. */
export async function post(path, body, signal) {
  const own = body instanceof FormData
    ? { body }
    : { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  return checked(await fetch(path, { method: 'POST', ...own, signal }));
}

export async function get(path) {
  return (await checked(await fetch(path))).json();
}

/* Forgets a state; one that is gone already is as good. */
export function forgetState(id) {
  return fetch(`/v1/states/${id}`, { method: 'DELETE', keepalive: true }).catch(() => {});
}

/* What stands in the state of one head: { s, z }. */
export const lookInside = (id, layer, head) => get(`/v1/states/${id}/inspect?layer=${layer}&head=${head}`);

/* Splits the received part of a server-sent event stream into the data of whole events and the rest, which belongs
   before the next piece. Pure. */
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

/* Yields the events of one streamed request until the stream ends; whether it ended too early is for
   the reader to see. An error inside the stream is thrown. */
export async function* stream(path, body, signal) {
  const response = await post(path, { ...body, stream: true }, signal);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let buffer = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
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

const RETRY_MS = 1500;

/* Done when a server that went away answers again. */
export async function untilBack() {
  for (;;) {
    await new Promise((done) => { setTimeout(done, RETRY_MS); });
    const answer = await fetch('/health').catch(() => null);
    if (answer?.ok) return;
  }
}

let modelsRequest = null;

/* The models served, asked for once; after a failure the next call asks again. */
export function loadModels() {
  modelsRequest = modelsRequest || get('/v1/models')
    .then(({ data }) => {
      if (data.length === 0) throw new ApiError(503, { message: 'no model is loaded yet' });
      return data;
    })
    .catch((error) => { modelsRequest = null; throw error; });
  return modelsRequest;
}

/* Whether the model makes strips of pictures, which have tabs of their own. */
export const isStrip = ({ meta }) => meta?.period < meta?.height;

/* The models of this task ('couplet', 'image', 'poem', 'speech'), those that can be asked for their classes first. */
export async function findModels(task) {
  const models = (await loadModels()).filter((m) => m.meta?.task === task && !isStrip(m));
  const hasClasses = ({ meta }) => meta.classes?.length > 0;
  return [...models.filter(hasClasses), ...models.filter((m) => !hasClasses(m))];
}

/* The first of them; null when there is none. */
export const findModel = async (task) => (await findModels(task))[0] ?? null;

/* --- words ------------------------------------------------------------------------------------- */

const WORDS = {
  zh: {
    busy: (s) => `此刻来客太多，请过 ${s} 秒再试。`,
    network: '连不上服务器，请稍后再试。',
    server: (error) => `服务器出了差错（HTTP ${error.status}）。`,
    missing: () => '这台服务器没有这个模型，或者状态已经过期。',
    other: (error) => `请求没有被接受（HTTP ${error.status}）。`,
    inStream: () => '写到一半，服务器出了差错。',
    refused: (field, m) => {
      const range = /(whole number )?from (\S+) to ([\d.]+)/.exec(m);
      return range ? `${field}要在 ${range[2]} 到 ${range[3]} 之间${range[1] ? '，写整数' : ''}。` : `${field}不合要求：${m}`;
    },
    fields: { n: '数量', temperature: '温度', seed: '种子' },
    copied: '链接已复制',
  },
  en: {
    busy: (s) => `Too many visitors at this moment. Try again in ${s} s.`,
    network: 'The server cannot be reached. Try again in a moment.',
    server: (error) => `Something went wrong on the server: ${error.message}`,
    missing: (error) => error.message,
    other: (error) => error.message,
    inStream: (error) => error.message,
    refused: (field, m) => `${field} was refused: ${m}`,
    fields: { n: 'The number', temperature: 'Temperature', seed: 'Seed' },
    copied: 'Link copied',
  },
};

/* An error for a visitor. reason(error) may explain a refusal better than the server does;
   fields names the form's fields. */
export function explain(error, fields = {}, reason = () => '') {
  const words = WORDS[page.lang];
  if (!(error instanceof ApiError)) return words.network;
  if (error.status === 429 || error.status === 503) return words.busy(error.retryAfter || 1);
  if (error.status >= 500) return words.server(error);
  if (error.status === 404) return words.missing(error);
  if (error.status < 400) return words.inStream(error);
  const better = reason(error);
  if (better || !error.param) return better || words.other(error);
  const field = fields[error.param] || words.fields[error.param] || error.param;
  return words.refused(field, error.message);
}

export function bytesText(bytes) {
  const kib = bytes / 1024;
  if (kib < 1024) return `${Math.round(kib)} KiB`;
  return kib < 1024 ** 2 ? `${(kib / 1024).toFixed(1)} MiB` : `${(kib / 1024 ** 2).toFixed(1)} GiB`;
}

export const count = (n) => n.toLocaleString('en');

/* The fields after the tab's name in the URL's hash. */
export const hashFields = () => new URLSearchParams(location.hash.slice(1).split('&').slice(1).join('&'));

/* The whole number that a link's field has; null where it is damaged or absent. */
export const wholeOf = (text) => (/^\d+$/.test(text ?? '') && Number.isSafeInteger(Number(text)) ? Number(text) : null);

/* Refuses a number outside the range of its input, in words that name this range: the API takes more than the form. A step
   of 1 asks for a whole number; any other step is only that of the input's arrows. */
export function checkNumbers(...inputs) {
  const bad = inputs.find(({ step, validity: { badInput, rangeUnderflow, rangeOverflow, stepMismatch } }) => (
    badInput || rangeUnderflow || rangeOverflow || (step === '1' && stepMismatch)));
  if (!bad) return;
  const kind = bad.step === '1' ? 'a whole number' : 'a number';
  throw new ApiError(400, { param: bad.name || bad.id.split('-').pop(), message: `write ${kind} from ${bad.min} to ${bad.max}` });
}

let address = location.hash; // the last one that the page wrote or follows

/* The page shows what the address bar names now. */
export function noteAddress() {
  address = location.hash;
}

/* Puts the hash into the address bar. A new entry of the history lets Back return to the page before. After Back the
   browser changes the bar first and tells the page later: what is written between them would undo the Back. */
export function writeAddress(hash, isEntry = false) {
  if (hash === location.hash || location.hash !== address) return;
  if (isEntry) history.pushState(null, '', hash);
  else history.replaceState(null, '', hash);
  noteAddress();
}

export const drawSeed = () => crypto.getRandomValues(new Uint32Array(1))[0];

/* --- the document ------------------------------------------------------------------------------ */

export const calm = matchMedia('(prefers-reduced-motion: reduce)');

let render = () => {};
let renderRequested = false;

/* The function a frame calls. */
export function onRender(draw) {
  render = draw;
}

export function requestRender() {
  if (renderRequested) return;
  renderRequested = true;
  requestAnimationFrame(() => {
    renderRequested = false;
    render();
  });
}

/* Loads a style sheet of the page; done when it rules. */
export function loadStyle(href) {
  return new Promise((done, fail) => {
    const link = Object.assign(document.createElement('link'), { rel: 'stylesheet', href, onload: done });
    link.onerror = () => {
      link.remove();
      fail(new TypeError(`${href} cannot be loaded`));
    };
    document.head.append(link);
  });
}

/* Sets text only where it changes, so that nothing is announced or laid out for nothing. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* For screen readers: whole sentences, not every character. A tab that is not shown says nothing: its answer may come
   when the visitor reads another. */
export function say(tab, text) {
  if (tab === page.tab) $('live').textContent = text;
}

/* The page's address as a link, with the hash as a query, so that the server can describe the link to other sites.
   `hashOf` is the way back, and '' for any other query. */
export function linkOf(hash) {
  const [name, ...rest] = hash.slice(1).split('&');
  if (!name) return `${location.origin}/`;
  const key = /^(couplets|images|poems|speech|talk|how|strip|race)$/.test(name) ? 'tab' : 'line';
  return `${location.origin}/?${[`${key}=${name}`, ...rest].join('&')}`;
}

export function hashOf(search) {
  const [first, ...rest] = search.slice(1).split('&');
  const name = /^(?:tab|line)=(.+)$/.exec(first)?.[1];
  return name ? `#${[name, ...rest].join('&')}` : '';
}

/* A button that copies the link of what its tab shows: the address bar may be a step behind, or ahead. */
export function makeCopyButton(button, hash) {
  button.hidden = !navigator.clipboard;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(linkOf(hash()));
    say(page.tab, WORDS[page.lang].copied);
    button.classList.add('done');
    setTimeout(() => button.classList.remove('done'), 1500);
  });
}

/* The place in a list that a key leads to from `at`, or undefined for other keys. */
export function placeForKey(key, at, count, columns) {
  const last = count - 1;
  const to = {
    ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns,
    Home: 0, End: last, Enter: at, ' ': at,
  }[key];
  if (to === undefined) return undefined;
  return to < 0 || to > last ? at : to;
}
