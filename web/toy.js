/*
 * The opening of "How it works": a pile of cards, which grows with every character, next to one square of 3 x 3 numbers,
 * which does not. The numbers are made up and small enough to be checked by head. A key names the drawer
 * (row of s) of its value, z counts the values in each drawer, and a question takes the mean of its drawer.
 */
import { calm, page, requestRender, setText } from './common.js';
import { nothing, readOut } from './memory.js';

const STEPS = [
  { character: '山', key: [1, 0, 0], value: [2, 0, 1], told: 'first' },
  { character: '月', key: [0, 1, 0], value: [0, 3, 1], told: 'other' },
  { character: '山', key: [1, 0, 0], value: [4, 0, 1], told: 'again' },
  { character: '雨', key: [0, 1, 1], value: [0, 1, 2], told: 'both' },
  { character: '风', key: [0, 0, 1], value: [1, 2, 0], told: 'third' },
  { character: '山?', question: [1, 0, 0], told: 'mean' },
  { character: '月?', question: [0, 1, 0], told: 'blur' },
];
const STEP_MS = 1800; // of the walk as it plays

const MARKUP = `
<div class="walk"><button class="back" type="button">‹</button><ol class="stops" lang="zh"></ol><button class="next" type="button">›</button></div>
<p class="actions"><button class="play" type="button"></button></p>
<p class="says" aria-live="polite"></p>
<div class="contrast">
  <figure><ul class="cards" lang="zh"></ul><figcaption></figcaption></figure>
  <figure><table><thead><tr><td></td><th scope="col" colspan="3"><i>s</i></th><th scope="col"><i>z</i></th></tr></thead><tbody></tbody></table>
    <figcaption></figcaption></figure>
</div>
<p class="asked"></p>`;

const list = (numbers) => `(${numbers.join(' ')})`;

const WORDS = {
  zh: {
    back: '上一步', next: '下一步', play: '放一遍', drawer: (i) => `抽屉 ${i}`,
    empty: '左边什么也没有，右边三个抽屉也是空的。让字一个一个走进来看看。',
    first: '「山」的键 (1 0 0) 说：放进抽屉 1。它的值 (2 0 1) 加到 s 的第一行，z 的第一格记 1。左边多了一张卡片。',
    other: '「月」的键指抽屉 2，值 (0 3 1) 加进去。左边又多一张卡片；右边还是这一个方块。',
    again: '又一个「山」，还是抽屉 1：值相加，(2 0 1) + (4 0 1) = (6 0 2)；z 记 2，即里面有两份。',
    both: '「雨」的键 (0 1 1) 指着两个抽屉，值在两个里各加一份。',
    third: '「风」进抽屉 3。左边五张卡片，右边仍是 12 个数。',
    mean: '问「山」：取抽屉 1 的和，除以 z，得两份的平均。',
    blur: '问「月」：抽屉 2 里也有「雨」的一份，分不开了。大小固定的记忆就是这样变模糊的。',
    cards: (n) => `softmax 留着每一张卡片（键 → 值）：${n} 张，${6 * n} 个数`,
    square: '线性注意力只有一个方块：始终 12 个数',
  },
  en: {
    back: 'Step back', next: 'Step on', play: 'Play', drawer: (i) => `drawer ${i}`,
    empty: 'Nothing lies on the left, and the three drawers on the right are empty. Let the characters come in.',
    first: 'The key of 山 (mountain), (1 0 0), says: drawer 1. Its value (2 0 1) is added to the first row of s, and z counts 1. On the left lies a first card.',
    other: 'The key of 月 (moon) names drawer 2, and its value (0 3 1) goes in. The pile has a second card. The right side still has one square.',
    again: 'Another 山, drawer 1 again: the values are added, (2 0 1) + (4 0 1) = (6 0 2). z now says that this drawer holds two.',
    both: 'The key of 雨 (rain), (0 1 1), names two drawers. Its value is added to both drawers.',
    third: '风 (wind) goes into drawer 3. Five cards lie on the left. The right side still has 12 numbers.',
    mean: 'The question 山 takes the sum in drawer 1 and divides it by z: the mean of both values.',
    blur: 'The question 月 finds a part of 雨 in drawer 2 as well, and cannot separate them. In this way a memory of fixed size blurs.',
    cards: (n) => `softmax keeps every card, key → value: ${n} cards, ${6 * n} numbers`,
    square: 'linear attention has one square: always 12 numbers',
  },
};

let at = 0; // steps that are done
let player = null;

const find = (selector) => document.querySelector(`#toy ${selector}`);

/* { s, z } after so many steps. Pure. */
export function memoryAfter(steps) {
  const memory = nothing(3, 3);
  for (const { key, value } of STEPS.slice(0, steps)) {
    key?.forEach((k, d) => {
      memory.s[d] = memory.s[d].map((x, m) => x + k * value[m]);
      memory.z[d] += k;
    });
  }
  return memory;
}

function goTo(step) {
  clearTimeout(player);
  at = Math.max(0, Math.min(step, STEPS.length));
  requestRender();
}

function play(step = 0) {
  goTo(step);
  if (step < STEPS.length) player = setTimeout(play, STEP_MS, step + 1);
}

function make(tag, className, text = '') {
  return Object.assign(document.createElement(tag), { className, textContent: text });
}

function renderSteps() {
  Array.from(find('.stops').children).forEach((item, i) => {
    item.classList.toggle('past', i < at);
    if (i === at - 1) item.firstElementChild.setAttribute('aria-current', 'step');
    else item.firstElementChild.removeAttribute('aria-current');
  });
}

function renderCards(words) {
  const cards = STEPS.slice(0, at).filter(({ key }) => key);
  const box = find('.cards');
  while (box.childElementCount > cards.length) box.lastElementChild.remove();
  for (const { character, key, value } of cards.slice(box.childElementCount)) {
    const card = make('li', '');
    card.append(make('b', '', character), ` ${list(key)} → ${list(value)}`);
    box.append(card);
  }
  setText(find('.contrast figcaption'), words.cards(cards.length));
}

function renderSquare(words) {
  const { s, z } = memoryAfter(at);
  const before = memoryAfter(at - 1);
  const asked = STEPS[at - 1]?.question;
  find('tbody').replaceChildren(...s.map((row, d) => {
    const line = make('tr', asked?.[d] ? 'asked-row' : '');
    const head = make('th', '', words.drawer(d + 1));
    head.scope = 'row';
    const isNew = z[d] !== before.z[d];
    line.append(head, ...[...row, z[d]].map((x, m) => make('td', `${m === 3 ? 'z' : ''} ${isNew ? 'new' : ''}`, x)));
    return line;
  }));
  setText(find('.contrast figure:last-child figcaption'), words.square);
}

/* The question times s, divided by the question times z, part by part. */
function renderQuestion() {
  const { question } = STEPS[at - 1] ?? {};
  const box = find('.asked');
  if (Number(box.dataset.at) === at) return;
  box.dataset.at = at;
  const memory = memoryAfter(at);
  const sum = question && memory.s[question.indexOf(1)];
  const below = question && memory.z[question.indexOf(1)];
  const parts = question ? [`q = ${list(question)}`, `q·s = ${list(sum)}`, `q·z = ${below}`,
    `${list(sum)} / ${below} = ${list(readOut(question, memory))}`] : [];
  box.replaceChildren(...parts.map((part) => make('span', '', part)));
}

let shownIn = '';

export function renderToy() {
  const words = WORDS[page.lang];
  const key = `${page.lang} ${at}`;
  if (key === shownIn) return;
  shownIn = key;
  renderSteps();
  setText(find('.says'), words[STEPS[at - 1]?.told ?? 'empty']);
  renderCards(words);
  renderSquare(words);
  renderQuestion();
  for (const name of ['back', 'next']) find(`.${name}`).setAttribute('aria-label', words[name]);
  setText(find('.play'), words.play);
  find('.back').disabled = at === 0;
  find('.next').disabled = at === STEPS.length;
}

export function startToy() {
  document.getElementById('toy').innerHTML = MARKUP;
  STEPS.forEach(({ character }, i) => {
    const item = make('li', '');
    const button = Object.assign(make('button', '', character), { type: 'button' });
    button.addEventListener('click', () => goTo(i + 1));
    item.append(button);
    find('.stops').append(item);
  });
  find('.back').addEventListener('click', () => goTo(at - 1));
  find('.next').addEventListener('click', () => goTo(at + 1));
  find('.play').addEventListener('click', () => (calm.matches ? goTo(STEPS.length) : play()));
}
