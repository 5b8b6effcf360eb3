/* An agent by Anthropic's official JavaScript client: `node agent.mjs BASE MODEL TURNS`, with the client's folder in ANTHROPIC_JS. Each turn
   is a stream with a call of the tool, whose result is sent back. Prints one JSON object. */
import { createRequire } from 'node:module';

const { Anthropic } = createRequire(import.meta.url)(process.env.ANTHROPIC_JS);
const [, , baseURL, model, turns] = process.argv;
const client = new Anthropic({ baseURL, apiKey: 'sk-own', maxRetries: 0 });
const tools = [{
  name: 'weather', description: 'The weather of a city.',
  input_schema: { type: 'object', properties: { days: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['days'] },
}];
const messages = [{ role: 'user', content: 'What is the weather like?' }];
const settings = { model, tools, max_tokens: 400, temperature: 1 };
const inputs = [], parts = [], cached = [];

for (let turn = 0; turn < Number(turns); turn++) {
  let part = '';
  const stream = client.messages.stream({ ...settings, messages, tool_choice: { type: 'tool', name: 'weather', disable_parallel_tool_use: true } })
    .on('inputJson', (text) => { part += text; });
  const message = await stream.finalMessage();
  const use = message.content.find((block) => block.type === 'tool_use');
  inputs.push(use.input);
  parts.push(JSON.parse(part));
  cached.push(message.usage.cache_read_input_tokens);
  messages.push({ role: 'assistant', content: message.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: `sun for ${use.input.days} days` }] });
}
const last = await client.messages.create({ ...settings, messages, max_tokens: 8, tool_choice: { type: 'none' } });
const { input_tokens: counted } = await client.messages.countTokens({ model, tools, messages });
const missing = await client.messages.create({ ...settings, model: 'no-such', messages }).catch((error) => [error.constructor.name, error.status]);

console.log(JSON.stringify({ inputs, parts, cached, last: last.content.map((block) => block.type), reason: last.stop_reason, counted, missing }));
