/*
 * The poems' tab: a title goes to POST /v1/completions, and the best three of a pool come back. The chosen one is
 * set from top to bottom, the first line on the right, with its title and a seal. The server's sampler keeps form, rhyme
 * and acrostic.
 *
 * The URL's hash has the fields of a poem with its seed, so a link is that very poem.
 */
import {
  $, ApiError, bytesText, checkNumbers, drawSeed, explain, findModel, hashFields, makeCopyButton, page, post, requestRender,
  say, setText, wholeOf, writeAddress,
} from './common.js';
import { loadGlosses, wordByWord } from './gloss.js';
import { poemCanvas, saveCanvas } from './share.js';

const FREE_TOKENS = 200; // of a poem without a form, at most
const CHOICES = 3;
const POOL = 16; // samples with a temperature, where the server has no pool; as in link_text.c
const SEAL = '朱雀'; // linnet
const TITLES = { 春雨: 'spring rain', 秋夜: 'autumn night', 江上: 'on the river', 送友人: 'farewell to a friend' };
const ACROSTICS = { 春夏秋冬: 'the four seasons', 花好月圆: 'flowers, full moon', 生日快乐: 'happy birthday', 新年快乐: 'happy New Year' };
const TUNES = ['渔歌子', '忆江南', '如梦令', '长相思', '点绛唇', '浣溪沙', '菩萨蛮', '采桑子', '卜算子', '清平乐', '浪淘沙', '鹧鸪天', '虞美人', '蝶恋花',
  '水调歌头'];
const FIELDS = ['kind', 'title', 'form', 'pattern', 'rhyme', 'acrostic', 'begin', 'temperature', 'seed'];
const SPARED = ['pattern', 'temperature']; // a link has them only where they are set

const both = (zh, en) => `<span class="zh" lang="zh">${zh}</span> <span class="en" lang="en">${en}</span>`;
const option = (value, zh, en) => `<option value="${value}" data-zh="${zh}" data-en="${en}"></option>`;
/* Buttons that fill a field and write; one is pressed while the field has its text. */
const ready = (field, zh, en, texts) => `<div class="wishes" role="group" aria-labelledby="ready-${field}">
    <span id="ready-${field}">${both(zh, en)}</span>
    ${Object.entries(texts).map(([text, meaning]) => `<button type="button" data-${field}="${text}"><span lang="zh">${text}</span>
      <span class="en gloss" lang="en">${meaning}</span></button>`).join('')}
  </div>`;
const MARKUP = `
<form id="poem-form">
  <label class="unseen" for="poem-title">${both('题目', 'Title')}</label>
  <div class="ask">
    <input id="poem-title" lang="zh" value="秋夜" maxlength="40" autocomplete="off" spellcheck="false" enterkeyhint="go" aria-describedby="poem-error">
    <button class="primary" type="submit">${both('写', 'Write')}</button>
  </div>
  <p id="poem-error" class="error" role="alert"></p>
  ${ready('title', '现成的题目', 'Ready titles', TITLES)}
  ${ready('acrostic', '现成的藏头', 'Ready acrostics', ACROSTICS)}
  <details class="options">
    <summary>${both('细调', 'Options')}</summary>
    <div class="fields">
      <label><span>${both('体', 'Kind')}</span> <select id="poem-kind">
        ${option('唐', '唐诗', '唐 Tang')}${option('宋', '宋诗', '宋 Song')}${option('词', '词', '词 ci, lyrics')}</select></label>
      <label><span>${both('格式', 'Form')}</span> <select id="poem-form-of">
        ${option('5x4', '五言四句', '4 lines of 5')}${option('7x4', '七言四句', '4 lines of 7')}
        ${option('5x8', '五言八句', '8 lines of 5')}${option('7x8', '七言八句', '8 lines of 7')}
        ${option('', '不限', 'any')}
        <optgroup label="词牌 Tunes">${TUNES.map((tune) => option(tune, tune, tune)).join('')}</optgroup></select></label>
      <label><span>${both('平仄', 'Tones')}</span> <select id="poem-pattern">
        ${option('', '不限', 'any')}${option('level', '平起', 'level start')}${option('oblique', '仄起', 'oblique start')}</select></label>
      <label><span>${both('韵', 'Rhyme')}</span> <select id="poem-rhyme">
        ${option('1', '双句押韵', 'even lines')}${option('modern', '新韵', 'modern Mandarin')}${option('', '不押韵', 'none')}</select></label>
      <label><span>${both('藏头', 'Acrostic')}</span>
        <input id="poem-acrostic" lang="zh" maxlength="8" autocomplete="off" spellcheck="false" aria-describedby="poem-error poem-note"></label>
      <label><span>${both('起句', 'Beginning')}</span>
        <input id="poem-begin" lang="zh" maxlength="64" autocomplete="off" spellcheck="false" aria-describedby="poem-error"></label>
      <label><span>${both('温度', 'Temperature')}</span>
        <input id="poem-temperature" type="number" min="0" max="2" step="0.05" placeholder="∗"></label>
      <label><span>${both('种子', 'Seed')}</span>
        <input id="poem-seed" type="number" min="0" max="9007199254740991" step="1" placeholder="∗"></label>
    </div>
    <p id="poem-note" class="note">${both('藏头：每句一个字，依次作句首。', 'Acrostic: one character per line, at its beginning.')}</p>
  </details>
</form>
<p id="poem-busy" class="note"></p>
<div id="poem" class="poem" lang="zh" tabindex="0" role="region" aria-labelledby="poems-title" hidden></div>
<p class="note word-by-word en" lang="en"></p>
<div class="poem-choices" role="group" lang="zh" aria-label="选一首 Choose a poem"></div>
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
    busy: '正在写……',
    acrostic: (n) => `藏头要 ${n} 个模型认得的汉字，一句一个；起句要和它相合。`,
    begin: '起句不合格式：每句的字数要对，奇数句后用「，」，偶数句后用「。」；要押韵时，双句末字须同韵。',
    title: '题目要有汉字，例如「秋夜」。',
    facts: (a) => [`用时 ${a.took} 毫秒`, `种子 ${a.request.seed}`],
    memory: (size) => `每次请求的记忆 ${size}`,
  },
  en: {
    fields: { form: 'The form', acrostic: 'The acrostic', prompt: 'The title or the beginning' },
    none: 'This server has no model of poems.',
    busy: 'Writing …',
    acrostic: (n) => `An acrostic has ${n} Chinese characters that the model knows, one per line. A given beginning must agree with the acrostic.`,
    begin: 'The beginning breaks the form. Every line needs its length, then ， after an odd line and 。 after an even line; with rhymes, given even lines must rhyme too.',
    title: 'A title needs Chinese characters, for example 秋夜 (autumn night).',
    facts: (a) => [`answered in ${a.took} ms`, `seed ${a.request.seed}`],
    memory: (size) => `memory per request ${size}`,
  },
};

const state = {
  answer: null,  // { request, texts: best first, chosen, took }
  seed: null,    // the seed and the choice that a link asks for, until the next run
  pick: 0,       // null in a link of the time of one poem per answer
  failure: null,
  bytes: null,   // of a request's memory, once known
  rhymes: null,  // whether the model can, once known
};
let running = null; // AbortController of the run in progress

const idOf = (field) => (field === 'form' ? 'poem-form-of' : `poem-${field}`);
const words = () => WORDS[page.lang];
const squeeze = (text) => text.replace(/[\s《》]+/gu, '');
const linesOf = (form) => Number(form.split('x')[1]);
const isTune = (form) => TUNES.includes(form);
const isTitle = (text) => /\p{Script=Han}/u.test(text);
const isVerse = (form) => form !== '' && !isTune(form);

/* --- a run ------------------------------------------------------------------------------------- */

/* A drawn seed is not put into the form, so that the next run draws another. Without a temperature the server chooses the
   poems from a pool. */
function readForm() {
  if ($('poem-title').value.trim() === '') $('poem-title').value = $('poem-title').defaultValue;
  const request = Object.fromEntries(FIELDS.map((field) => [field, $(idOf(field)).value]));
  for (const field of ['acrostic', 'begin']) request[field] = squeeze(request[field]);
  request.title = request.title.replace(/[《》]+/gu, '').trim();
  if (!isVerse(request.form)) request.acrostic = request.pattern = '';
  if (isTune(request.form)) request.kind = '词';
  if (!request.form || state.rhymes === false) request.rhyme = '';
  request.seed = Number(state.seed ?? (request.seed || drawSeed()));
  if (request.temperature !== '') request.temperature = Number(request.temperature);
  if (!isTitle(request.title)) throw new ApiError(400, { param: 'title' });
  return request;
}

function bodyOf({ kind, title, form, pattern, rhyme, acrostic, begin, temperature, seed }, model) {
  const kept = form
    ? { form, ...(pattern && { pattern }), ...(acrostic && { acrostic }), ...(rhyme && { rhyme: rhyme === 'modern' ? rhyme : true }) }
    : { max_tokens: FREE_TOKENS };
  const several = state.pick === null ? {} : { n: CHOICES, ...(form && temperature !== '' && { best_of: POOL }) };
  const named = isTune(form) ? `${form}·${title}` : title;
  return { model, prompt: `${kind}《${named}》${begin}`, ...(temperature !== '' && { temperature }), seed, ...kept, ...several };
}

async function write(signal) {
  const model = await findModel('poem');
  if (!model) throw new ApiError(404, { message: words().none });
  Object.assign(state, { bytes: model.meta.state_bytes, rhymes: model.meta.rhymes });
  checkNumbers($('poem-temperature'), $('poem-seed'));
  const request = readForm();
  const started = performance.now();
  const { choices } = await (await post('/v1/completions', bodyOf(request, model.id), signal)).json();
  const texts = [...new Set(choices.map(({ text }) => request.begin + text))];
  return { request, texts, several: state.pick !== null, chosen: state.pick in texts ? state.pick : 0,
    took: Math.round(performance.now() - started) };
}

async function run() {
  running?.abort();
  const { signal } = running = new AbortController();
  Object.assign(state, { answer: null, failure: null });
  requestRender();
  try {
    const answer = await write(signal);
    if (signal.aborted) return;
    Object.assign(state, { answer, seed: null });
    if (page.tab === 'poems') writeAddress(hash());
    say('poems', textOf(answer));
    loadGlosses().then(requestRender);
  } catch (error) {
    if (signal.aborted) return;
    state.failure = error;
  }
  requestRender();
}

const textOf = (answer) => answer?.texts[answer.chosen] ?? '';

function runNew() {
  Object.assign(state, { seed: null, pick: 0 });
  run();
}

function runAgain() {
  $('poem-seed').value = '';
  runNew();
}

/* A pressed acrostic is given up again. A title that was refused gives way. */
function runReady({ target }) {
  const button = target.closest('[data-title], [data-acrostic]');
  if (!button) return;
  const { title, acrostic } = button.dataset;
  if (title) $('poem-title').value = title;
  else $('poem-acrostic').value = isPressed(button) ? '' : acrostic;
  if (!isTitle($('poem-title').value)) $('poem-title').value = $('poem-title').defaultValue;
  $('poem-begin').value = '';
  if (acrostic && !$('poem-form-of').value.endsWith('x4')) $('poem-form-of').value = '5x4';
  runNew();
}

/* --- the URL's hash ---------------------------------------------------------------------------- */

function hash() {
  if (!state.answer) return '#poems';
  const { request, several, chosen } = state.answer;
  const fields = FIELDS.filter((field) => !SPARED.includes(field) || request[field] !== '').map((field) => [field, request[field]]);
  return `#poems&${new URLSearchParams(several ? [...fields, ['pick', chosen]] : fields)}`;
}

/* Whether the hash asks for a poem. */
function follow() {
  const fields = hashFields();
  if (!fields.has('seed')) return false;
  for (const field of FIELDS) $(idOf(field)).value = fields.get(field) ?? $(idOf(field)).defaultValue ?? '';
  $('poem-seed').value = '';
  Object.assign(state, { seed: wholeOf(fields.get('seed')), pick: fields.has('pick') ? wholeOf(fields.get('pick')) ?? 0 : null });
  run();
  return true;
}

/* --- rendering --------------------------------------------------------------------------------- */

function isPressed({ dataset: { title, acrostic } }) {
  if (title) return title === $('poem-title').value;
  return acrostic === $('poem-acrostic').value && isVerse($('poem-form-of').value);
}

/* Why it was refused, as far as it can be seen here. */
function reason({ param }) {
  if (param === 'title') return words().title;
  if (param === 'acrostic') return words().acrostic(linesOf($('poem-form-of').value));
  return param === 'prompt' && $('poem-begin').value !== '' ? words().begin : '';
}

/* A poem with a form is set line by line, any other as its text runs: `column` characters of it. */
function linesIn(answer, column = textOf(answer).length) {
  return textOf(answer).match(answer.request.form ? /[^，。]+[，。]?/gu : new RegExp(`.{1,${column || 1}}`, 'gsu')) ?? [];
}

function savePicture() {
  const { title } = state.answer.request;
  saveCanvas(poemCanvas(linesIn(state.answer, 12), title, SEAL), `linnet-${title}.png`);
}

const make = (tag, className, textContent) => Object.assign(document.createElement(tag), { className, textContent });

let shown = ''; // the poem on the paper

function renderPoem() {
  const { answer } = state;
  const box = $('poem');
  box.hidden = !answer;
  const key = answer ? JSON.stringify([answer.request.title, textOf(answer)]) : '';
  if (key === shown) return;
  shown = key;
  box.classList.toggle('free', answer?.request.form === '');
  box.replaceChildren(...(answer ? [make('h3', '', answer.request.title), ...linesIn(answer).map((line) => make('p', '', line)),
    make('span', 'seal', SEAL)] : []));
  $('poem').querySelector('.seal')?.setAttribute('aria-hidden', 'true');
}

/* A line of meanings per line of the poem, for readers of English. */
function renderMeanings() {
  const lines = textOf(state.answer).match(/[^，。？！；、]+/gu) ?? [];
  setText(document.querySelector('#poems .word-by-word'), lines.map(wordByWord).filter(Boolean).join('\n'));
}

/* A button per choice, with its first line. */
function renderChoices() {
  const box = document.querySelector('.poem-choices');
  const texts = state.answer?.texts ?? [];
  box.hidden = texts.length < 2;
  while (box.childElementCount > texts.length) box.lastElementChild.remove();
  while (box.childElementCount < texts.length) {
    const button = Object.assign(document.createElement('button'), { type: 'button' });
    const at = box.childElementCount;
    button.addEventListener('click', () => choose(at));
    box.append(button);
  }
  texts.forEach((text, i) => {
    setText(box.children[i], /^[^，。]{0,8}/u.exec(text)[0]);
    box.children[i].setAttribute('aria-pressed', i === state.answer.chosen);
  });
}

function choose(at) {
  state.answer.chosen = at;
  writeAddress(hash());
  say('poems', textOf(state.answer));
  requestRender();
}

function render() {
  for (const choice of document.querySelectorAll('#poem-form option')) setText(choice, choice.dataset[page.lang]);
  for (const button of document.querySelectorAll('#poem-form .wishes button')) button.setAttribute('aria-pressed', isPressed(button));
  const form = $('poem-form-of').value;
  $('poem-acrostic').disabled = $('poem-pattern').disabled = !isVerse(form);
  $('poem-kind').disabled = isTune(form);
  $('poem-rhyme').disabled = form === '' || state.rhymes === false;
  $('poem-acrostic').setAttribute('aria-invalid', state.failure?.param === 'acrostic');
  $('poem-save').disabled = $('poem-copy').disabled = textOf(state.answer) === '';
  setText($('poem-error'), state.failure ? explain(state.failure, words().fields, reason) : '');
  renderPoem();
  renderMeanings();
  renderChoices();
  $('poem-again').parentElement.hidden = !state.answer;
  setText($('poem-busy'), running && !state.answer && !state.failure ? words().busy : '');
  const facts = state.answer ? words().facts(state.answer) : [];
  if (state.answer && state.bytes) facts.push(words().memory(bytesText(state.bytes)));
  setText(document.querySelector('#poems .facts'), facts.join(' · '));
}

/* The tab, as app.js knows it. */
export const poems = {
  start() {
    $('poems-lab').innerHTML = MARKUP;
    $('poem-form').noValidate = true; // the server judges, its answer is shown below
    $('poem-form').addEventListener('submit', (event) => {
      event.preventDefault();
      runNew();
    });
    $('poem-form').addEventListener('click', runReady);
    $('poem-form').addEventListener('input', requestRender);
    $('poem-again').addEventListener('click', runAgain);
    makeCopyButton($('poem-copy'), hash);
    $('poem-save').addEventListener('click', savePicture);
    findModel('poem').then((model) => {
      state.rhymes = model?.meta.rhymes ?? null;
      requestRender();
    }, () => {}); // a failure is shown when a title is sent
  },

  visit() {}, // it waits for a title

  render, follow, hash,
};
