/* Structured outputs and tools by the official JavaScript client and its helpers for zod, as its examples use them:
   `node structured.mjs BASE MODEL`, with the client's folder in OPENAI_JS. Prints one JSON object. */
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.OPENAI_JS}/index.js`);
const { OpenAI } = require('./index.js');
const { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } = require('./helpers/zod.js');
const { z } = require('zod/v4');
const [, , baseURL, model] = process.argv;
const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'solve 8x + 31 = 2' }];
const settings = { model, temperature: 1, seed: 7, max_tokens: 3000 };

const Line = z.object({ explanation: z.string().max(20), output: z.int().min(0).nullable() });
const Answer = z.object({
  steps: z.array(Line).max(3),
  result: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('number'), value: z.number().min(-0.5).max(99.5) }),
    z.object({ kind: z.literal('text'), value: z.string().regex(/^[a-z]+$/).max(12) }),
  ]),
  unit: z.enum(['cm', 'kg']).nullable(),
});
const Column = z.enum(['id', 'status', 'ordered_at']);
const Query = z.object({
  table_name: z.enum(['orders', 'customers']),
  columns: z.array(Column).max(4),
  conditions: z.array(z.object({ column: Column, operator: z.enum(['=', '<']), value: z.union([z.string().max(9), z.number()]) })).max(2),
});

const format = { response_format: zodResponseFormat(Answer, 'answer') };
const parsed = (await client.chat.completions.parse({ ...settings, messages, ...format })).choices[0].message.parsed;
const streamed = await client.chat.completions.stream({ ...settings, messages, ...format }).finalChatCompletion();

const tool = { tools: [zodFunction({ name: 'query', parameters: Query })], tool_choice: 'required' };
const called = (await client.chat.completions.parse({ ...settings, messages, ...tool })).choices[0].message.tool_calls[0];
let deltas = '';
const stream = client.chat.completions.stream({ ...settings, messages, ...tool });
stream.on('tool_calls.function.arguments.delta', ({ index, arguments_delta }) => { if (index === 0) deltas += arguments_delta; });
const whole = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];

/* The loop of the examples: the client calls the function and sends its result back. */
const asked = [];
const query = zodFunction({ name: 'query', parameters: Query, function: (args) => { asked.push(args); return 'no rows'; } });
const runner = client.chat.completions.runTools(
  { ...settings, messages, tools: [query], tool_choice: { type: 'function', function: { name: 'query' } } });
await runner.done();

const own = { model, temperature: 1, seed: 7, max_output_tokens: 3000, input: 'solve 8x + 31 = 2' };
const said = (await client.responses.parse({ ...own, text: { format: zodTextFormat(Answer, 'answer') } })).output_parsed;
const functions = { tools: [zodResponsesFunction({ name: 'query', parameters: Query })], tool_choice: 'required' };
const [item] = (await client.responses.parse({ ...own, ...functions })).output.filter((each) => each.type === 'function_call');

console.log(JSON.stringify({
  parsed, streamed: streamed.choices[0].message.parsed, called: called.function.parsed_arguments, whole: whole.function.parsed_arguments, deltas,
  asked, roles: runner.messages.map((message) => message.role), said, item: item.parsed_arguments,
}));
