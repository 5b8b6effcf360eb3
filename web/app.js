/*
 * Linnet's page: a tab for each kind of model, one that says how it works, and a switch of languages.
 *
 * The tab shown follows from the URL's hash: "#images" and what begins with "#images&" is the
 * images' tab, the others alike, everything else the couplets'. A tab whose kind of model is not
 * served is offered only while its own link is open, and then says so. Its script is loaded when it is
 * opened first. Without this script the page shows both forms and the article.
 */
import {
  $, bytesText, explain, findModel, hashOf, isStrip, loadModels, loadStyle, noteAddress, onRender, page, requestRender, say,
  untilBack, writeAddress,
} from './common.js';
import { racersOf, stripOf } from './strips.js';

let style = null; // of the demonstrations, poems and dictation
const withStyle = async (script) => {
  style ??= loadStyle('/demos.css').catch((error) => { style = null; throw error; });
  await style;
  return import(script);
};

const LOAD = {
  couplets: async () => (await import('./couplets.js')).couplets,
  images: async () => (await import('./images.js')).images,
  poems: async () => (await withStyle('./poems.js')).poems,
  speech: async () => (await withStyle('./speech.js')).speech,
  talk: async () => (await Promise.all([withStyle('./talk.js'), loadStyle('/talk.css')]))[0].talk,
  how: async () => (await import('./how.js')).how,
  strip: async () => (await withStyle('./strip.js')).strip,
  race: async () => (await withStyle('./race.js')).race,
};
const loaded = {}; // the tabs that have been opened
let away = false; // a tab's script could not be loaded, because the server is away
const stateBytes = {}; // of a request, for each tab's model
let isKnown = false; // which models are served
let claimHolds = true; // that memory keeps one size: of a model that is served, or none is known yet
const TASKS = { couplet: 'couplets', image: 'images', poem: 'poems', speech: 'speech' };
const served = { couplets: true, images: true, how: true }; // until the server says otherwise

/* --- tabs -------------------------------------------------------------------------------------- */

const tabLinks = () => Array.from(document.querySelectorAll('.tabs a'));
const nameOf = (link) => link.getAttribute('href').slice(1);

function show(name) {
  const left = page.tab;
  if (name !== left) say(left, ''); // the news was the other tab's
  page.tab = name;
  if (name !== left) loaded[left]?.leave?.();
  requestRender();
}

/* Loads a tab's script. While the server is away the page says so, and loads the script when the server is back. The
   browser may keep the failure of a script, so a second one loads the page anew: its address tells the tab. */
async function loadTab(name) {
  for (let tries = 1; !loaded[name]; tries += 1) {
    try {
      const tab = await LOAD[name]();
      if (!loaded[name]) tab.start();
      loaded[name] = tab;
    } catch {
      away = true;
      requestRender();
      await untilBack();
      if (tries > 1) location.reload();
    }
  }
  away = false;
  document.documentElement.dataset.ready = name;
}

/* Calls then(tab) once the script is there, if the tab is still shown. */
async function withTab(name, then) {
  if (!loaded[name]) await loadTab(name);
  if (page.tab === name) then(loaded[name]);
  requestRender();
}

/* Each tab that is opened is an entry of the history, so that Back returns to the one before. */
function openTab(name) {
  const isOther = name !== page.tab;
  show(name);
  writeAddress(loaded[name]?.hash() ?? `#${name}`, isOther);
  withTab(name, (tab) => tab.visit());
}

/* Without a hash the first tab that is served. */
function followHash() {
  noteAddress();
  const first = ['couplets', 'images', 'poems', 'speech', 'talk'].find((tab) => served[tab]) ?? 'couplets';
  const named = /^#(\w+)(&|$)/.exec(location.hash)?.[1];
  const name = location.hash === '' ? first : Object.hasOwn(LOAD, named) ? named : 'couplets';
  const isShown = loaded[name]?.hash() === location.hash; // Back to a tab that still shows this address
  show(name);
  withTab(name, (tab) => {
    if (!isShown && tab.follow()) return;
    tab.visit();
    if (tab.hash() !== `#${name}`) writeAddress(tab.hash()); // an answer may have come while another tab was shown
  });
}

function onTabKey(event) {
  const links = tabLinks().filter((link) => !link.hidden);
  const step = { ArrowLeft: links.length - 1, ArrowRight: 1 }[event.key];
  const at = links.indexOf(event.target);
  const to = { Home: 0, End: links.length - 1, ' ': at }[event.key] ?? (at + step) % links.length;
  if (Number.isNaN(to)) return;
  event.preventDefault();
  openTab(nameOf(links[to]));
  links[to].focus();
}

/* Each panel has its heading for readers without this script; with the script the tab replaces it. */
function makeTabs() {
  document.querySelector('.tabs').setAttribute('role', 'tablist');
  for (const link of tabLinks()) {
    link.setAttribute('role', 'tab');
    link.setAttribute('aria-controls', nameOf(link));
    link.addEventListener('click', (event) => {
      event.preventDefault();
      openTab(nameOf(link));
    });
    link.addEventListener('keydown', onTabKey);
    const panel = $(nameOf(link));
    panel.setAttribute('role', 'tabpanel');
    panel.setAttribute('aria-labelledby', link.id);
  }
}

async function findServed() {
  const keepsOneSize = (model) => model?.meta?.state_bytes && !model.meta.state_grows && !isStrip(model);
  for (const [task, tab] of Object.entries(TASKS)) {
    const model = await findModel(task);
    served[tab] = model !== null;
    if (keepsOneSize(model)) stateBytes[tab] = model.meta.state_bytes;
  }
  const models = await loadModels();
  served.strip = stripOf(models) !== null;
  served.race = racersOf(models).length > 0;
  const talker = models.find(({ meta }) => meta?.chat);
  served.talk = talker !== undefined;
  if (keepsOneSize(talker)) stateBytes.talk = talker.meta.state_bytes;
  stateBytes.first = Object.values(stateBytes)[0] ?? models.find(keepsOneSize)?.meta.state_bytes;
  claimHolds = stateBytes.first !== undefined;
  isKnown = true;
  if (location.hash === '' && served.couplets === false) followHash();
  requestRender();
}

/* A failure is shown when something is requested; until the list comes, only the first tabs are offered. */
async function findServedAtLast() {
  try {
    await findServed();
  } catch {
    await untilBack();
    findServedAtLast();
  }
}

/* --- rendering --------------------------------------------------------------------------------- */

function renderTabs() {
  const links = tabLinks();
  for (const link of links) {
    const name = nameOf(link);
    const selected = name === page.tab;
    link.setAttribute('aria-selected', selected);
    link.tabIndex = selected ? 0 : -1;
    link.hidden = !selected && !served[name];
    $(name).hidden = !selected;
  }
  document.querySelector('.tabs').hidden = links.filter((link) => !link.hidden).length < 2;
}

function renderLanguage() {
  document.documentElement.dataset.lang = page.lang;
  document.documentElement.lang = page.lang === 'zh' ? 'zh-Hans' : 'en';
  for (const button of document.querySelectorAll('[data-choose]')) {
    button.setAttribute('aria-pressed', button.dataset.choose === page.lang);
  }
}

const isModels = () => page.tab === 'talk' || Object.values(TASKS).includes(page.tab);

/* The bytes of a request of the shown tab's model, 0 where they grow: of the model that was chosen, in a tab that has
   several, or of the first. Racers have sizes of their own. */
function shownBytes() {
  const chosen = loaded[page.tab]?.chosen?.();
  if (chosen) return chosen.grows ? 0 : chosen.stateBytes;
  return page.tab === 'race' ? 0 : stateBytes[page.tab] ?? (isModels() ? 0 : stateBytes.first);
}

function render() {
  document.title = `Linnet · ${$(`${page.tab}-tab`).querySelector(`.${page.lang}`).textContent}`;
  renderLanguage();
  renderTabs();
  const bytes = shownBytes();
  document.querySelector('.claim p').hidden = !claimHolds || (isKnown && isModels() && !bytes);
  for (const span of document.querySelectorAll('.state-size')) {
    const size = bytes ? bytesText(bytes) : '';
    span.textContent = size && (span.parentElement.lang === 'zh' ? `（这里 ${size}）` : ` (${size} here)`);
  }
  $('away').textContent = away && !loaded[page.tab] ? explain(new TypeError()) : '';
  const focused = document.activeElement;
  loaded[page.tab]?.render();
  keepFocus(focused);
}

/* --- the focus --------------------------------------------------------------------------------- */

let lost = null; // a button that was disabled or hidden while it had the focus

const canFocus = (element) => !element.disabled && element.getClientRects().length > 0;

/* A button that is disabled or hidden gives the focus to a button near it, or to its tab, and has it again with the next change unless the
   visitor did something meanwhile. */
function keepFocus(focused) {
  const panel = $(page.tab);
  if (lost && canFocus(lost)) {
    lost.focus({ preventScroll: true });
    lost = null;
  } else if (panel.contains(focused) && !canFocus(focused)) {
    lost = focused;
    const near = [...focused.parentElement.querySelectorAll('button'), ...panel.querySelectorAll('.primary'), $(`${page.tab}-tab`)];
    near.find(canFocus)?.focus({ preventScroll: true });
  }
}

/* --- languages --------------------------------------------------------------------------------- */

function chooseLanguage(lang) {
  page.lang = lang;
  try {
    localStorage.setItem('lang', lang);
  } catch { /* storage is off: the choice lasts as long as the page */ }
  requestRender();
}

function firstLanguage() {
  try {
    const stored = localStorage.getItem('lang');
    if (stored === 'zh' || stored === 'en') return stored;
  } catch { /* storage is off */ }
  return /^zh\b/i.test(navigator.language) ? 'zh' : 'en';
}

/* --- start ------------------------------------------------------------------------------------- */

function start() {
  if (!location.hash && hashOf(location.search)) history.replaceState(null, '', `/${hashOf(location.search)}`);
  page.lang = firstLanguage();
  onRender(render);
  makeTabs();
  document.querySelector('.claim [data-tab]').addEventListener('click', (event) => {
    event.preventDefault();
    openTab('how');
  });
  for (const button of document.querySelectorAll('[data-choose]')) {
    button.addEventListener('click', () => chooseLanguage(button.dataset.choose));
  }
  for (const name of ['keydown', 'pointerdown']) addEventListener(name, () => { lost = null; }, true);
  addEventListener('hashchange', followHash);
  followHash();
  findServedAtLast();
}

start();
