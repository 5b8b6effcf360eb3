/*
 * The talks of this browser and their requests, without the document. A talk is a list of turns; a turn has the id of its
 * stored response, from which the next one continues. So a talk that goes another way from a turn costs no more than one
 * that goes on. The server has the states, the browser's storage has the texts.
 */
import { ApiError, drawSeed, get, stream } from './common.js';

const KEY = 'talks';
const MOST = 50; // talks that are kept; the oldest go first
const TITLE = 40; // characters

/* Of { key, title, model, turns: [{ ask, answer, id, state }] }; the newest first. */
export const talks = [];
const forgotten = new Set(); // keys
let isStored = true; // the storage took the newest list
refresh();

function load() {
  const kept = JSON.parse(localStorage.getItem(KEY));
  const list = Array.isArray(kept) ? kept.filter(({ turns }) => Array.isArray(turns)) : [];
  return list.map((talk) => ({ key: talk.turns.at(-1)?.id ?? talk.title, ...talk })); // an older page stored no keys
}

/* Takes over what other tabs of the browser have stored. A talk stays the same object; with more turns it is newer. */
export function refresh() {
  const known = new Map(talks.map((talk) => [talk.key, talk]));
  const newer = (talk, mine) => (mine?.turns.length >= talk.turns.length ? mine : Object.assign(mine ?? {}, talk));
  try {
    if (isStored) talks.splice(0, Infinity, ...load().map((talk) => newer(talk, known.get(talk.key))));
  } catch { /* storage is off, or something else is in it */ }
}

/* Without room for all talks the oldest go. */
function save() {
  talks.length = Math.min(talks.length, MOST);
  isStored = false;
  for (let n = talks.length; !isStored && n >= Math.min(talks.length, 1); n = Math.floor(n / 2)) {
    try {
      localStorage.setItem(KEY, JSON.stringify(talks.slice(0, n)));
      isStored = true;
    } catch { /* storage is full or off */
      if (n === 0) return;
    }
  }
}

function takeOut({ key }) {
  const at = talks.findIndex((talk) => talk.key === key);
  if (at >= 0) talks.splice(at, 1);
}

/* Puts the talk first, and into the storage, unless it was forgotten meanwhile. */
export function keep(talk) {
  if (forgotten.has(talk.key)) return;
  refresh();
  takeOut(talk);
  talk.title ||= Array.from(talk.turns[0].ask).slice(0, TITLE).join('');
  talks.unshift(talk);
  save();
}

export const newTalk = (model, turns = []) => ({ key: `${Date.now()}.${drawSeed()}`, title: '', model, turns });

/* Takes the talk out, and deletes the responses that no other talk has. A response that is gone already is as good. */
export function forget(talk) {
  forgotten.add(talk.key);
  refresh();
  takeOut(talk);
  save();
  const shared = new Set(talks.flatMap(({ turns }) => turns.map(({ id }) => id)));
  const own = talk.turns.map(({ id }) => id).filter((id) => id && !shared.has(id));
  return Promise.all(own.map((id) => fetch(`/v1/responses/${id}`, { method: 'DELETE' }).catch(() => {})));
}

/* The request of the last turn. It follows the last turn before it that the server has stored; all later turns are sent
   as messages. Pure. */
export function requestOf({ model, turns }) {
  const earlier = turns.slice(0, -1);
  const from = earlier.findLastIndex(({ id }) => id);
  const unread = earlier.slice(from + 1).flatMap(({ ask, answer }) => [
    { role: 'user', content: ask },
    { role: 'assistant', content: answer },
  ]);
  return {
    model,
    input: [...unread, { role: 'user', content: turns.at(-1).ask }],
    ...(from >= 0 && { previous_response_id: earlier[from].id }),
  };
}

/* Streams the answer of the last turn into it; changed() is called after each piece. */
async function answer(talk, signal, changed) {
  const turn = talk.turns.at(-1);
  let ended = false;
  for await (const { type, delta, response } of stream('/v1/responses', requestOf(talk), signal)) {
    if (type === 'response.output_text.delta') turn.answer += delta;
    if (response?.status === 'failed') throw new ApiError(200, response.error);
    if (response?.status === 'completed' || response?.status === 'incomplete') {
      Object.assign(turn, { id: response.store ? response.id : null, usage: response.usage });
      ended = true;
    }
    changed();
  }
  if (!ended) throw new TypeError('the stream ended early');
}

/* Asks for the last turn's answer. If the server has forgotten the talk, it reads all messages again. */
export async function run(talk, signal, changed) {
  const turn = talk.turns.at(-1);
  try {
    await answer(talk, signal, changed);
  } catch (error) {
    if (error.param !== 'previous_response_id') throw error;
    for (const earlier of talk.turns) earlier.id = null;
    turn.again = true;
    await answer(talk, signal, changed);
  }
  const facts = turn.id && await get(`/v1/states/${turn.id}`).catch(() => null);
  turn.state = facts?.memory_bytes;
}
