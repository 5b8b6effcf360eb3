/*
 * The poems' tab: kind, title, form and acrostic go to POST /v1/completions, the poem streams back and is set
 * from top to bottom, the first line on the right. The server's sampler keeps form, rhyme and acrostic.
 *
 * The URL's hash has the fields of a poem with its seed, so a link is that very poem.
 */
import {
  $, ApiError, bytesText, checkNumbers, drawSeed, explain, findModel, hashFields, makeCopyButton, page, requestRender, say, setText,
  stream,
} from './common.js';
import { poemCanvas, saveCanvas } from './share.js';

const FREE_TOKENS = 200; // of a poem without a form, at most
const FIELDS = ['kind', 'title', 'form', 'rhyme', 'acrostic', 'begin', 'temperature', 'seed'];

const both = (zh, en) => `<span class="zh" lang="zh">${zh}</span> <span class="en" lang="en">${en}</span>`;
const option = (value, zh, en) => `<option value="${value}" data-zh="${zh}" data-en="${en}"></option>`;
const MARKUP = `
<form id="poem-form">
  <div class="fields">
    <label><span>${both('体', 'Kind')}</span> <select id="poem-kind">
      ${option('唐', '唐诗', '唐 Tang')}${option('宋', '宋诗', '宋 Song')}${option('词', '词', '词 ci, lyrics')}</select></label>
    <label><span>${both('题目', 'Title')}</span>
      <input id="poem-title" lang="zh" value="秋夜" maxlength="40" autocomplete="off" spellcheck="false" aria-describedby="poem-error"></label>
    <label><span>${both('格式', 'Form')}</span> <select id="poem-form-of">
      ${option('5x4', '五言四句', '4 lines of 5')}${option('7x4', '七言四句', '4 lines of 7')}
      ${option('5x8', '五言八句', '8 lines of 5')}${option('7x8', '七言八句', '8 lines of 7')}
      ${option('', '不限', 'any')}</select></label>
    <label><span>${both('韵', 'Rhyme')}</span> <select id="poem-rhyme">
      ${option('1', '双句押韵', 'even lines')}${option('', '不押韵', 'none')}</select></label>
    <label><span>${both('藏头', 'Acrostic')}</span>
      <input id="poem-acrostic" lang="zh" maxlength="8" autocomplete="off" spellcheck="false" aria-describedby="poem-error poem-note"></label>
    <label><span>${both('起句', 'It begins')}</span>
      <input id="poem-begin" lang="zh" maxlength="64" autocomplete="off" spellcheck="false" aria-describedby="poem-error"></label>
    <label><span>${both('温度', 'Temperature')}</span>
      <input id="poem-temperature" type="number" min="0" max="2" step="0.05" value="0.8"></label>
    <label><span>${both('种子', 'Seed')}</span>
      <input id="poem-seed" type="number" min="0" max="9007199254740991" step="1" placeholder="∗"></label>
    <button class="primary" type="submit">${both('写', 'Write')}</button>
  </div>
  <p id="poem-note" class="note">${both('藏头：每句一个字，依次作句首。', 'Acrostic: one character a line, which it begins with.')}</p>
  <p id="poem-error" class="error" role="alert"></p>
</form>
<div id="poem" class="poem" lang="zh" tabindex="0" role="region" aria-labelledby="poems-title" hidden></div>
<p class="actions">
  <button id="poem-again" type="button">${both('再来一首', 'Again')}</button>
  <button id="poem-copy" type="button">${both('复制链接', 'Copy link')}</button>
  <button id="poem-save" type="button">${both('存成图片', 'Save as picture')}</button>
</p>
<p class="facts"></p>`;

const WORDS = {
  zh: {
    fields: { form: '格式', acrostic: '藏头', prompt: '题目或起句' },
    none: '这台服务器没有写诗的模型。',
    acrostic: (n) => `藏头要 ${n} 个模型认得的汉字，一句一个；起句要和它相合。`,
    begin: '起句不合格式：每句的字数要对，奇数句后用「，」，偶数句后用「。」；要押韵时，双句末字须同韵。',
    facts: (a) => [`首字 ${a.first} 毫秒`, `每秒 ${a.rate} 字`, `种子 ${a.request.seed}`],
    memory: (size) => `每次请求的记忆 ${size}`,
  },
  en: {
    fields: { form: 'The form', acrostic: 'The acrostic', prompt: 'The title or the beginning' },
    none: 'This server has no model of poems.',
    acrostic: (n) => `An acrostic has ${n} Chinese characters that the model knows, one a line, and the beginning agrees with it.`,
    begin: 'The beginning breaks the form. Every line needs its length, then ， after an odd line and 。 after an even line; with rhymes, given even lines must rhyme too.',
    facts: (a) => [`first character ${a.first} ms`, `${a.rate} characters/s`, `seed ${a.request.seed}`],
    memory: (size) => `memory per request ${size}`,
  },
};

const state = {
  answer: null,  // { request, text, done, started, first, rate }
  failure: null,
  bytes: null,   // of a request's memory, once known
  rhymes: null,  // whether the model can, once known
};
let running = null; // AbortController of the run in progress

const idOf = (field) => (field === 'form' ? 'poem-form-of' : `poem-${field}`);
const words = () => WORDS[page.lang];
const squeeze = (text) => text.replace(/[\s《》]+/gu, '');
const linesOf = (form) => Number(form.split('x')[1]);

/* --- a run ------------------------------------------------------------------------------------- */

function readForm() {
  if ($('poem-seed').value === '') $('poem-seed').value = drawSeed();
  const request = Object.fromEntries(FIELDS.map((field) => [field, $(idOf(field)).value]));
  for (const field of ['acrostic', 'begin']) request[field] = squeeze(request[field]);
  request.title = request.title.replace(/[《》]+/gu, '').trim();
  if (!request.form) request.acrostic = '';
  if (!request.form || state.rhymes === false) request.rhyme = '';
  for (const field of ['temperature', 'seed']) request[field] = Number(request[field] || $(idOf(field)).defaultValue);
  return request;
}

function bodyOf({ kind, title, form, rhyme, acrostic, begin, temperature, seed }, model) {
  const kept = form ? { form, ...(acrostic && { acrostic }), ...(rhyme && { rhyme: true }) } : { max_tokens: FREE_TOKENS };
  return { model, prompt: `${kind}《${title}》${begin}`, temperature, seed, ...kept };
}

function takeEvent(answer, [choice]) {
  if (choice?.text && answer.first === null) answer.first = Math.round(performance.now() - answer.started);
  answer.text += choice?.text || '';
  answer.ended = answer.ended || Boolean(choice?.finish_reason);
}

async function write(signal) {
  const model = await findModel('poem');
  if (!model) throw new ApiError(404, { message: words().none });
  Object.assign(state, { bytes: model.meta.state_bytes, rhymes: model.meta.rhymes });
  checkNumbers($('poem-temperature'), $('poem-seed'));
  const request = readForm();
  const answer = { request, text: request.begin, started: performance.now(), first: null, ended: false };
  for await (const event of stream('/v1/completions', bodyOf(request, model.id), signal)) {
    if (signal.aborted) return;
    state.answer = answer;
    takeEvent(answer, event.choices || []);
    requestRender();
  }
  if (!answer.ended) throw new TypeError('the stream ended early');
  const seconds = (performance.now() - answer.started) / 1000;
  const made = Array.from(answer.text).length - Array.from(request.begin).length;
  Object.assign(answer, { done: true, rate: Math.round(made / seconds), first: answer.first ?? 0 });
  if (page.tab === 'poems') history.replaceState(null, '', hash());
  say(answer.text);
}

async function run() {
  running?.abort();
  const { signal } = running = new AbortController();
  Object.assign(state, { answer: null, failure: null });
  requestRender();
  try {
    await write(signal);
  } catch (error) {
    if (signal.aborted) return;
    state.failure = error;
  }
  requestRender();
}

function runAgain() {
  $('poem-seed').value = '';
  run();
}

/* --- the URL's hash ---------------------------------------------------------------------------- */

function hash() {
  if (!state.answer?.done) return '#poems';
  return `#poems&${new URLSearchParams(FIELDS.map((field) => [field, state.answer.request[field]]))}`;
}

/* Whether the hash asks for a poem. */
function follow() {
  const fields = hashFields();
  if (!fields.has('seed')) return false;
  for (const field of FIELDS) $(idOf(field)).value = fields.get(field) ?? $(idOf(field)).defaultValue ?? '';
  run();
  return true;
}

/* --- rendering --------------------------------------------------------------------------------- */

/* Why it was refused, as far as it can be seen here. */
function reason({ param }) {
  if (param === 'acrostic') return words().acrostic(linesOf($('poem-form-of').value));
  return param === 'prompt' && $('poem-begin').value !== '' ? words().begin : '';
}

/* A poem with a form is set line by line, any other as its text runs: `column` characters of it. */
function linesIn({ text, request }, column = text.length) {
  return text.match(request.form ? /[^，。]+[，。]?/gu : new RegExp(`.{1,${column || 1}}`, 'gsu')) ?? [];
}

function savePicture() {
  saveCanvas(poemCanvas(linesIn(state.answer, 12)), `linnet-${state.answer.request.title || 'poem'}.png`);
}

function renderPoem() {
  const { text = '', request } = state.answer ?? {};
  const box = $('poem');
  const lines = state.answer ? linesIn(state.answer) : [];
  box.hidden = text === '';
  box.classList.toggle('free', request?.form === '');
  while (box.childElementCount > lines.length) box.lastElementChild.remove();
  while (box.childElementCount < lines.length) box.append(document.createElement('p'));
  lines.forEach((line, i) => setText(box.children[i], line));
}

function render() {
  for (const choice of document.querySelectorAll('#poem-form option')) setText(choice, choice.dataset[page.lang]);
  $('poem-acrostic').disabled = $('poem-form-of').value === '';
  $('poem-rhyme').disabled = $('poem-form-of').value === '' || state.rhymes === false;
  $('poem-acrostic').setAttribute('aria-invalid', state.failure?.param === 'acrostic');
  $('poem-save').disabled = !state.answer?.done || state.answer.text === '';
  setText($('poem-error'), state.failure ? explain(state.failure, words().fields, reason) : '');
  renderPoem();
  const facts = state.answer?.done ? words().facts(state.answer) : [];
  if (state.answer?.done && state.bytes) facts.push(words().memory(bytesText(state.bytes)));
  setText(document.querySelector('#poems .facts'), facts.join(' · '));
}

/* The tab, as app.js knows it. */
export const poems = {
  start() {
    $('poems-lab').innerHTML = MARKUP;
    $('poem-form').noValidate = true; // the server judges, its answer is shown below
    $('poem-form').addEventListener('submit', (event) => {
      event.preventDefault();
      run();
    });
    $('poem-form').addEventListener('input', requestRender);
    $('poem-again').addEventListener('click', runAgain);
    makeCopyButton($('poem-copy'));
    $('poem-save').addEventListener('click', savePicture);
    findModel('poem').then((model) => {
      state.rhymes = model?.meta.rhymes ?? null;
      requestRender();
    }, () => {}); // a failure is shown when a title is sent
  },

  visit() {}, // it waits for a title

  render, follow, hash,
};
