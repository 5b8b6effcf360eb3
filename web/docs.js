/* /docs: /openapi.json as a page, in groups with contents. Each route has a summary, a call by curl and by Python,
   and its fields, folded away. Fields are described by the document; Chinese summaries and examples stand in docs_text.js. */
import { EXAMPLES, GROUPS, SUMMARIES } from './docs_text.js';

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

/* A text in both languages; the style sheet hides the other one. */
function both(zh, en) {
  return [['zh', zh], ['en', en]].map(([lang, text]) => Object.assign(element('span', lang, text), { lang }));
}

/* --- calls ------------------------------------------------------------------------------------- */

const PLACES = { conversations: 'CONVERSATION', responses: 'RESPONSE', states: 'STATE' }; // of an id, by the path's second part
const urlOf = (path) => `${location.origin}${path.replace('{id}', PLACES[path.split('/')[2]])
  .replace('{item_id}', 'ITEM').replace('{model}', 'couplet')}`;

function curlOf(method, path, { json, form, file, query = '' }) {
  const url = `'${urlOf(path)}${query}'`;
  const verb = method === 'get' || (method === 'post' && (json || form)) ? '' : `-X ${method.toUpperCase()} `;
  if (json) return `curl ${url} \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(json)}'`;
  if (form) return `curl ${url} ${Object.entries(form).map(([name, value]) => `\\\n  -F '${name}=${value}'`).join(' ')}`;
  return `curl ${verb}${url}${file ? ` -H 'Content-Type: application/octet-stream' \\\n  --data-binary @${file}` : ''}`;
}

const pythonOf = (value) => JSON.stringify(value, null, 1).replace(/\n */g, ' ').replace(/([{[]) | ([}\]])/g, '$1$2')
  .replace(/\btrue\b/g, 'True').replace(/\bfalse\b/g, 'False');

function requestsOf(method, path, { json, form, file, query = '' }) {
  const data = Object.fromEntries(Object.entries(form ?? {}).filter(([, value]) => !value.startsWith('@')));
  const files = Object.entries(form ?? {}).filter(([, value]) => value.startsWith('@'))
    .map(([name, value]) => `"${name}": open("${value.slice(1)}", "rb")`);
  const fields = [json && `json=${pythonOf(json)}`, Object.keys(data).length > 0 && `data=${pythonOf(data)}`,
    files.length > 0 && `files={${files.join(', ')}}`, file && `data=open("${file}", "rb")`].filter(Boolean);
  const call = [`"${urlOf(path)}${query}"`, ...fields].join(',\n  ');
  return `import requests\nprint(requests.${method}(${call}).text)`;
}

function calls(method, path) {
  const example = EXAMPLES[`${method.toUpperCase()} ${path}`] ?? {};
  return [['curl', curlOf], ['Python', requestsOf]].map(([name, write]) => {
    const code = element('pre', '', element('code', '', write(method, path, example)));
    Object.assign(code, { tabIndex: 0 });
    code.setAttribute('role', 'region');
    code.setAttribute('aria-label', `${name}: ${method.toUpperCase()} ${path}`);
    return code;
  });
}

/* --- the page ---------------------------------------------------------------------------------- */

const anchorOf = (method, path) => `${method}${path}`.replace(/[^a-z0-9]+/g, '-');

function fieldsOfRoute(api, op, shared) {
  const rows = [...shared, ...(op.parameters ?? [])].map((parameter) => resolve(api, parameter))
    .map((p) => fieldRow(p.name, `${p.in}, ${typeOf(api, p.schema)}`, p.description));
  const body = Object.entries(resolve(api, op.requestBody)?.content ?? {});
  for (const [type, { schema }] of body.slice(0, 1)) {
    for (const [name, field] of Object.entries(fieldsOf(api, schema))) {
      rows.push(fieldRow(name, typeOf(api, field), resolve(api, field).description ?? field.description));
    }
    if (rows.length === 0) rows.push(fieldRow('body', type, ''));
  }
  return rows;
}

function operation(api, path, method, op, shared) {
  const name = `${method.toUpperCase()} ${path}`;
  const section = element('section', 'operation', element('h4', '', element('code', '', name)),
    element('p', '', ...both(SUMMARIES[name] ?? op.summary, op.summary ?? '')), element('div', 'calls', ...calls(method, path)));
  section.id = anchorOf(method, path);
  const rows = fieldsOfRoute(api, op, shared);
  const codes = Object.keys(op.responses).sort().join(', ');
  const note = element('p', 'note', ...both(`状态码：${codes}`, `Status codes: ${codes}`));
  if (rows.length > 0) {
    section.append(element('details', '', element('summary', '', ...both(`${rows.length} 个字段`, `${rows.length} field${rows.length === 1 ? '' : 's'}`)),
      element('dl', '', ...rows), note));
  } else section.append(note);
  return section;
}

/* The routes of a group: { path, method, op, shared }. */
const routesOf = (api, tag) => Object.entries(api.paths).flatMap(([path, item]) => METHODS
  .filter((method) => item[method]?.tags?.[0] === tag)
  .map((method) => ({ path, method, op: item[method], shared: item.parameters ?? [] })));

function contents(api) {
  return api.tags.map(({ name }) => {
    const links = routesOf(api, name).map(({ path, method }) => {
      const link = element('a', '', `${method.toUpperCase()} ${path}`);
      link.href = `#${anchorOf(method, path)}`;
      return element('li', '', link);
    });
    return element('section', '', element('h3', '', ...both(GROUPS[name].zh, GROUPS[name].en)), element('ul', '', ...links));
  });
}

function group(api, { name, description }) {
  const routes = routesOf(api, name);
  return element('section', 'group', element('h3', '', ...both(GROUPS[name].zh, GROUPS[name].en)),
    element('p', '', ...both(GROUPS[name].about, description)),
    ...routes.map(({ path, method, op, shared }) => operation(api, path, method, op, shared)));
}

/* The language is the page's own. */
function choose(lang) {
  document.documentElement.dataset.lang = lang;
  document.documentElement.lang = lang === 'zh' ? 'zh-Hans' : 'en';
  for (const button of document.querySelectorAll('[data-choose]')) button.setAttribute('aria-pressed', button.dataset.choose === lang);
}

function firstLanguage() {
  try {
    const stored = localStorage.getItem('lang');
    if (stored) return stored;
  } catch { /* storage is off */ }
  return /^zh\b/i.test(navigator.language) ? 'zh' : 'en';
}

async function start() {
  choose(firstLanguage());
  for (const button of document.querySelectorAll('[data-choose]')) {
    button.addEventListener('click', () => {
      choose(button.dataset.choose);
      try {
        localStorage.setItem('lang', button.dataset.choose);
      } catch { /* storage is off: the choice lasts as long as the page */ }
    });
  }
  const api = await (await fetch('/openapi.json')).json();
  document.getElementById('contents').replaceChildren(...contents(api));
  document.getElementById('operations').replaceChildren(...api.tags.map((tag) => group(api, tag)));
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

start().catch((error) => {
  document.getElementById('operations').replaceChildren(element('p', 'error', String(error)));
});
