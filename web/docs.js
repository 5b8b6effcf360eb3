/* /docs: /openapi.json as a page, a section an operation with its fields. Nothing is said here that
   does not stand there. */

const METHODS = ['get', 'post', 'put', 'delete'];

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/* What "#/a/b" stands for. */
const resolve = (api, node) => (node?.$ref
  ? resolve(api, node.$ref.slice(2).split('/').reduce((at, key) => at[key], api)) : node);

/* { name: schema } of a body, with what allOf puts together. */
function fieldsOf(api, node) {
  const schema = resolve(api, node) ?? {};
  const parts = (schema.allOf ?? []).map((part) => fieldsOf(api, part));
  return Object.assign({}, ...parts, schema.properties);
}

function typeOf(api, node) {
  const schema = resolve(api, node);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((x) => JSON.stringify(x)).join(' | ');
  const several = schema.oneOf ?? schema.anyOf;
  if (several) return several.map((one) => typeOf(api, one)).join(' | ');
  if (schema.type === 'array') return `[${schema.items ? typeOf(api, schema.items) : ''}]`;
  const range = [schema.minimum, schema.maximum].some((x) => x !== undefined)
    ? ` ${schema.minimum ?? ''}..${schema.maximum ?? ''}` : '';
  return [].concat(schema.type ?? 'any').join(' | ') + range;
}

function fieldRow(name, type, text) {
  return element('div', '', element('dt', '', element('code', '', name), ' ', element('small', '', type)),
    element('dd', '', text ?? ''));
}

function operation(api, path, method, op, shared) {
  const rows = [...shared, ...(op.parameters ?? [])].map((parameter) => resolve(api, parameter))
    .map((p) => fieldRow(p.name, `${p.in}, ${typeOf(api, p.schema)}`, p.description));
  const body = Object.entries(resolve(api, op.requestBody)?.content ?? {});
  for (const [type, { schema }] of body.slice(0, 1)) {
    for (const [name, field] of Object.entries(fieldsOf(api, schema))) {
      rows.push(fieldRow(name, typeOf(api, field), resolve(api, field).description ?? field.description));
    }
    if (rows.length === 0) rows.push(fieldRow('body', type, ''));
  }
  const section = element('section', 'operation',
    element('h3', '', element('code', '', `${method.toUpperCase()} ${path}`)), element('p', '', op.summary ?? ''));
  if (rows.length > 0) section.append(element('dl', '', ...rows));
  section.append(element('p', 'note', `Answers: ${Object.keys(op.responses).sort().join(', ')}`));
  return section;
}

async function start() {
  const api = await (await fetch('/openapi.json')).json();
  const sections = Object.entries(api.paths).flatMap(([path, item]) => METHODS
    .filter((method) => item[method])
    .map((method) => operation(api, path, method, item[method], item.parameters ?? [])));
  document.getElementById('operations').replaceChildren(...sections);
}

start().catch((error) => {
  document.getElementById('operations').replaceChildren(element('p', 'error', String(error)));
});
