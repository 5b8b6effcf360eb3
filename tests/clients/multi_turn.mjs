/* Conversations by the official JavaScript client: `node multi_turn.mjs BASE MODEL`, with the client's folder in OPENAI_JS.
   Prints one JSON object. */
import { createRequire } from 'node:module';

const { OpenAI } = createRequire(import.meta.url)(process.env.OPENAI_JS);
const [, , baseURL, model] = process.argv;
const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
const settings = { model, max_output_tokens: 40, seed: 7 };
const ask = (input, more) => client.responses.create({ ...settings, input, ...more });

async function stream(input, more) {
  let text = '';
  for await (const event of await ask(input, { ...more, stream: true })) {
    if (event.type === 'response.output_text.delta') text += event.delta;
  }
  return text;
}

const first = await ask('hello 春');
const previous = { previous_response_id: first.id };
const later = await ask('more', previous);
const streamed = await stream('more', previous);
const kept = await client.responses.retrieve(later.id);

const talk = await client.conversations.create({ metadata: { topic: '春' } });
const inside = { conversation: talk.id };
const said = [(await ask('hello 春', inside)).output_text, await stream('more', inside)];
const items = [];
for await (const item of client.conversations.items.list(talk.id, { order: 'asc', limit: 1 })) items.push(item.content[0].text);
const { deleted } = await client.conversations.delete(talk.id);
const missing = await client.conversations.retrieve(talk.id).catch((error) => [error.constructor.name, error.status]);

console.log(JSON.stringify({
  texts: [first.output_text, later.output_text], streamed, kept: kept.output_text, said, items, topic: talk.metadata.topic, deleted, missing,
  cached: later.usage.input_tokens_details.cached_tokens,
}));
