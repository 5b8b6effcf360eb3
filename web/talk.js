/*
 * The talk's tab: messages go to POST /v1/responses, and each answer is stored with its state (talks.js). A message can be
 * changed: the talk then goes another way from there, as a talk of its own. The meter shows the bytes of the state and the
 * tokens that it has read.
 */
import {
  $, ApiError, bytesText, count, explain, loadModels, page, requestRender, say, setText,
} from './common.js';
import {
  forget, keep, newTalk, refresh, run, talks,
} from './talks.js';

const both = (zh, en) => `<span class="zh" lang="zh">${zh}</span> <span class="en" lang="en">${en}</span>`;
const MARKUP = `
<div class="talk">
  <nav aria-labelledby="talks-title">
    <h3 id="talks-title">${both('你的谈话', 'Your talks')}</h3>
    <p class="actions"><button id="talk-new" type="button">${both('新的谈话', 'New talk')}</button></p>
    <ul id="talks"></ul>
    <p class="note">${both('文字存在这个浏览器里。', 'The texts are stored in this browser.')}</p>
  </nav>
  <div>
    <label class="models" hidden><span>${both('模型', 'Model')}</span> <select id="talk-model"></select></label>
    <ol id="turns" aria-label="谈话 Talk"></ol>
    <div class="meters">
      <p class="state"><span class="text"></span><span class="bar"><span class="fill"></span></span></p>
      <p class="read"><span class="text"></span></p>
    </div>
    <form id="talk-form">
      <label class="unseen" for="talk-text">${both('你说', 'Your message')}</label>
      <textarea id="talk-text" rows="2" aria-describedby="talk-error talk-note"></textarea>
      <p id="talk-note" class="note"></p>
      <p class="actions">
        <button id="talk-send" class="primary" type="submit"></button>
        <button id="talk-stop" type="button">${both('停', 'Stop')}</button>
        <button id="talk-cancel" type="button">${both('不改了', 'Cancel')}</button>
      </p>
      <p id="talk-error" class="error" role="alert"></p>
    </form>
  </div>
</div>`;

const WORDS = {
  zh: {
    none: '这台服务器没有能谈话的模型。',
    send: '说', resend: '改过重说',
    you: '你', model: '它',
    edit: '改这一句', forget: '忘掉', open: (title) => `接着谈：${title}`,
    note: 'Enter 说出，Shift + Enter 换行。',
    editing: '改好后从这里另走一条路，原来的谈话还在。',
    state: (bytes) => `这场谈话的记忆 ${bytes}`,
    grows: '，这个模型的记忆会变大',
    read: (n) => `读过 ${n} 个词元`,
    stopped: '说到一半停了', again: '服务器忘了这场谈话，全部重读了一遍',
    fields: { input: '这一句' },
  },
  en: {
    none: 'This server has no model that talks.',
    send: 'Send', resend: 'Send instead',
    you: 'You', model: 'The model',
    edit: 'Change', forget: 'Forget', open: (title) => `Go on with: ${title}`,
    note: 'Enter sends, Shift + Enter begins a new line.',
    editing: 'The talk goes another way from here; the old talk stays.',
    state: (bytes) => `memory of this talk ${bytes}`,
    grows: '; the memory of this model grows',
    read: (n) => `${n} tokens read`,
    stopped: 'stopped', again: 'the server had forgotten the talk and read all of it again',
    fields: { input: 'The message' },
  },
};

const state = {
  models: [],     // that talk, once known
  talk: newTalk(''),
  editing: null,  // the number of the turn whose message is being changed
  draft: '',      // the message that was being written before
  failure: null,
};
let running = null; // AbortController of the answer in progress

const words = () => WORDS[page.lang];

/* --- a turn ------------------------------------------------------------------------------------ */

/* The talk in which the message stands: the present one, or another that has its turns before the changed one. */
function talkWith(ask) {
  const { talk, editing } = state;
  const turn = { ask, answer: '', id: null };
  if (editing === null) {
    talk.turns.push(turn);
    return talk;
  }
  const earlier = talk.turns.slice(0, editing).map((one) => ({ ...one }));
  return newTalk(talk.model, [...earlier, turn]);
}

async function send(ask) {
  const { talk: before, editing } = state;
  const talk = talkWith(ask);
  const { signal } = running = new AbortController();
  Object.assign(state, { talk, failure: null });
  leaveEdit('');
  keepFocus();
  requestRender();
  const turn = talk.turns.at(-1);
  try {
    if (!talk.model) await findTalkers(talk); // the message was faster than the list of models
    if (!talk.model) throw new ApiError(404, { message: words().none });
    await run(talk, signal, requestRender);
    say('talk', turn.answer);
  } catch (error) {
    if (!signal.aborted) state.failure = error;
    turn.stopped = true;
  }
  if (turn.stopped && turn.answer === '') takeBack(talk, before, editing);
  else keep(talk);
  if (running?.signal === signal) running = null;
  keepFocus();
  requestRender();
}

/* The message was not answered, and may be sent again. It stays in its own talk. */
function takeBack(talk, before, editing) {
  const { ask } = talk.turns.pop();
  if (state.talk !== talk) return;
  state.talk = before;
  if (editing === null) $('talk-text').value ||= ask;
  else beginEdit(editing, ask);
}

/* A button that is disabled or hidden loses the focus: the message has it instead. */
function keepFocus() {
  if (['talk-send', 'talk-stop', 'talk-cancel'].includes(document.activeElement?.id)) $('talk-text').focus();
}

function onSubmit(event) {
  event.preventDefault();
  const ask = $('talk-text').value.trim();
  if (ask !== '' && !running) send(ask);
}

/* Enter sends, unless an input method has the key. */
function onKey(event) {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $('talk-form').requestSubmit();
}

function beginEdit(at, ask) {
  if (state.editing === null) state.draft = $('talk-text').value;
  state.editing = at;
  $('talk-text').value = ask;
  requestRender();
}

/* The message that was being written before comes back. */
function leaveEdit(otherwise = $('talk-text').value) {
  $('talk-text').value = state.editing === null ? otherwise : state.draft;
  state.editing = null;
  requestRender();
}

function edit(at) {
  beginEdit(at, state.talk.turns[at].ask);
  $('talk-text').focus();
}

function cancelEdit() {
  leaveEdit();
  keepFocus();
}

function open(talk) {
  running?.abort();
  leaveEdit();
  Object.assign(state, { talk, failure: null });
}

function openNew() {
  open(newTalk($('talk-model').value));
  $('talk-text').focus();
}

function forgetOne(talk) {
  if (talk === state.talk) openNew();
  forget(talk);
  requestRender();
  $('talk-new').focus();
}

/* --- the document ------------------------------------------------------------------------------ */

const make = (tag, className, textContent = '') => Object.assign(document.createElement(tag), { className, textContent });

function makeButton(onClick) {
  const button = Object.assign(make('button', ''), { type: 'button' });
  button.addEventListener('click', onClick);
  return button;
}

/* Gives the list as many rows as there are things; a row that is there keeps its elements. */
function fitRows(list, n, makeRow) {
  while (list.childElementCount > n) list.lastElementChild.remove();
  while (list.childElementCount < n) list.append(makeRow(list.childElementCount));
}

function makeTurn(at) {
  const row = make('li', '');
  const ask = make('div', 'ask-said');
  ask.append(make('b', ''), make('p', ''), makeButton(() => edit(at)));
  const answer = make('div', 'answer-said');
  answer.append(make('b', ''), make('p', ''), make('small', ''));
  row.append(ask, answer);
  return row;
}

function renderTurns() {
  const w = words();
  const { turns } = state.talk;
  fitRows($('turns'), turns.length, makeTurn);
  turns.forEach((turn, i) => {
    const [ask, answer] = $('turns').children[i].children;
    setText(ask.children[0], w.you);
    setText(ask.children[1], turn.ask);
    setText(ask.children[2], w.edit);
    ask.children[2].setAttribute('aria-label', `${w.edit}: ${turn.ask}`);
    ask.children[2].disabled = running !== null;
    ask.classList.toggle('editing', state.editing === i);
    setText(answer.children[0], w.model);
    setText(answer.children[1], turn.answer.trim());
    setText(answer.children[2], [turn.stopped && w.stopped, turn.again && w.again].filter(Boolean).join(' · '));
  });
}

function makeTalk(at) {
  const row = make('li', '');
  row.append(makeButton(() => open(talks[at])), makeButton(() => forgetOne(talks[at])));
  return row;
}

function renderTalks() {
  const w = words();
  fitRows($('talks'), talks.length, makeTalk);
  talks.forEach((talk, i) => {
    const [title, gone] = $('talks').children[i].children;
    setText(title, talk.title);
    title.setAttribute('aria-label', w.open(talk.title));
    title.setAttribute('aria-current', talk === state.talk);
    setText(gone, w.forget);
    gone.setAttribute('aria-label', `${w.forget}: ${talk.title}`);
  });
}

const modelNow = () => state.models.find(({ id }) => id === state.talk.model);

/* The bytes of the newest state, and of how many tokens it is. */
function renderMeters() {
  const w = words();
  const model = modelNow();
  const newest = state.talk.turns.findLast((turn) => turn.state);
  const bytes = newest?.state ?? 0;
  const text = document.querySelector('#talk .meters .state .text');
  setText(text, w.state(bytesText(bytes)) + (model?.meta.state_grows ? w.grows : ''));
  const full = model?.meta.state_bytes ?? bytes;
  document.querySelector('#talk .meters .fill').style.width = `${full ? Math.min(100, (100 * bytes) / full) : 0}%`;
  setText(document.querySelector('#talk .meters .read .text'), w.read(count(newest?.usage.total_tokens ?? 0)));
}

function render() {
  const w = words();
  $('talk-send').disabled = running !== null;
  $('talk-stop').hidden = running === null;
  $('talk-cancel').hidden = state.editing === null;
  setText($('talk-send'), state.editing === null ? w.send : w.resend);
  setText($('talk-note'), state.editing === null ? w.note : w.editing);
  setText($('talk-error'), state.failure ? explain(state.failure, w.fields) : '');
  $('talk-model').disabled = state.talk.turns.length > 0;
  if (state.talk.model) $('talk-model').value = state.talk.model;
  renderTurns();
  renderTalks();
  renderMeters();
}

/* Of the models that talk, a talk without one gets the first. */
async function findTalkers(talk) {
  state.models = (await loadModels()).filter(({ meta }) => meta?.chat);
  $('talk-model').replaceChildren(...state.models.map(({ id }) => new Option(id, id)));
  document.querySelector('#talk .models').hidden = state.models.length < 2;
  talk.model ||= state.models[0]?.id ?? '';
  requestRender();
}

/* The tab, as app.js knows it. */
export const talk = {
  start() {
    $('talk-lab').innerHTML = MARKUP;
    $('talk-form').addEventListener('submit', onSubmit);
    $('talk-text').addEventListener('keydown', onKey);
    $('talk-stop').addEventListener('click', () => running?.abort());
    $('talk-cancel').addEventListener('click', cancelEdit);
    $('talk-new').addEventListener('click', openNew);
    $('talk-model').addEventListener('change', () => {
      state.talk.model = $('talk-model').value;
      requestRender();
    });
    addEventListener('storage', () => {
      refresh();
      requestRender();
    });
    findTalkers(state.talk).catch((error) => {
      state.failure = error;
      requestRender();
    });
  },

  chosen() {
    const { state_bytes: stateBytes, state_grows: grows } = modelNow()?.meta ?? {};
    return stateBytes && { stateBytes, grows };
  },

  hash: () => '#talk',

  follow: () => false,

  visit() {},

  render,
};
