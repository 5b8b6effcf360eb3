/*
 * The talks of this browser and their requests, without the document. A talk is a list of turns; a turn has the id of its
 * stored response, from which the next one continues. So a talk that goes another way from a turn costs no more than one
 * that goes on. The server has the states, the browser's storage has the texts.
 */
import { get, stream } from './common.js';

const KEY = 'talks';
const MOST = 50; // talks that are kept; the oldest go first
const TITLE = 40; // characters

/* Of { title, model, turns: [{ ask, answer, id, state }] }; the newest first. */
export const talks = load();

function load() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(kept) ? kept.filter(({ turns }) => Array.isArray(turns)) : [];
  } catch { /* storage is off, or something else is in it */
    return [];
  }
}

/* Without room for all talks the oldest go. */
function save() {
  talks.length = Math.min(talks.length, MOST);
  for (let n = talks.length; n > 0; n = Math.floor(n / 2)) {
    try {
      localStorage.setItem(KEY, JSON.stringify(talks.slice(0, n)));
      return;
    } catch { /* storage is full or off */ }
  }
}

/* Puts the talk first, and into the storage. */
export function keep(talk) {
  const at = talks.indexOf(talk);
  if (at >= 0) talks.splice(at, 1);
  talks.unshift(talk);
  save();
}

export const newTalk = (model, turns = []) => ({ title: '', model, turns });

/* Takes the talk out, and deletes the responses that no other talk has. A response that is gone already is as good. */
export function forget(talk) {
  talks.splice(talks.indexOf(talk), 1);
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
  for await (const event of stream('/v1/responses', requestOf(talk), signal)) {
    if (event.type === 'response.output_text.delta') turn.answer += event.delta;
    if (event.response?.status === 'completed' || event.response?.status === 'incomplete') {
      Object.assign(turn, { id: event.response.store ? event.response.id : null, usage: event.response.usage });
    }
    changed();
  }
}

/* Asks for the last turn's answer. If the server has forgotten the talk, it reads all messages again. */
export async function run(talk, signal, changed) {
  const turn = talk.turns.at(-1);
  talk.title ||= talk.turns[0].ask.slice(0, TITLE);
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
