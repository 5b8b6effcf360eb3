/*
 * The tab of dictation: sound from the microphone, or of a file, becomes a WAV file with one channel at the model's rate.
 * It goes to POST /v1/audio/transcriptions. The page takes the kinds of files that this route takes. The words stand under
 * the sound, with their times.
 */
import {
  $, ApiError, explain, findModel, page, post, requestRender, say, setText,
} from './common.js';

const both = (zh, en) => `<span class="zh" lang="zh">${zh}</span> <span class="en" lang="en">${en}</span>`;
const MARKUP = `
<div class="ask hear">
  <button id="speech-record" class="primary" type="button"></button>
  <label><span>${both('或选一个声音文件（WAV、FLAC 或 Ogg），或拖到这里', 'Or choose a WAV, FLAC or Ogg file, or drop one here')}</span>
    <input id="speech-file" type="file" accept=".wav,.flac,.ogg,.oga,.opus,audio/wav,audio/flac,audio/ogg" aria-describedby="speech-error"></label>
</div>
<p class="note knows"></p>
<span class="bar level" hidden><span class="fill"></span></span>
<p id="speech-error" class="error" role="alert"></p>
<div class="heard" hidden>
  <canvas class="wave" width="1200" height="160" role="img"></canvas>
  <ol class="words"></ol>
</div>
<p class="facts"></p>`;

const WORDS = {
  zh: {
    fields: { file: '声音' },
    digits: '这里的模型只听得懂英文数字，零到九：zero、one、two、three、four、five、six、seven、eight、nine。',
    record: '录音', stop: '停', busy: '正在听……',
    none: '这台服务器没有听写的模型。',
    microphone: {
      none: '用不了麦克风：没有找到麦克风。', refused: '用不了麦克风：浏览器没有准许。',
      insecure: '用不了麦克风：浏览器只在 HTTPS 或 localhost 的网页上准许。', failed: '用不了麦克风：也许别的程序正在用。',
    },
    kind: '这里只读 WAV、FLAC 和 Ogg；别的声音文件请先转换，例如 ffmpeg -i said.mp3 said.wav。',
    undecoded: '浏览器读不了这个文件，它也许坏了。',
    long: (s) => `声音最长 ${s} 秒。`,
    silent: '什么也没听到。',
    wave: (text) => `声音的波形，听到：${text}`,
    facts: (a) => [`声音 ${a.duration} 秒`, `用时 ${a.took} 毫秒`],
  },
  en: {
    fields: { file: 'The sound' },
    digits: 'The model here knows English digits only: say zero, one, two, three, four, five, six, seven, eight, nine.',
    record: 'Record', stop: 'Stop', busy: 'Listening …',
    none: 'This server has no model of speech.',
    microphone: {
      none: 'The microphone cannot be used: there is none.', refused: 'The microphone cannot be used: the browser did not allow it.',
      insecure: 'The microphone cannot be used: browsers allow it only on pages by HTTPS or from localhost.',
      failed: 'The microphone cannot be used: another program may be using it.',
    },
    kind: 'This is not a WAV, FLAC or Ogg file. Convert the sound first, for example with ffmpeg -i said.mp3 said.wav.',
    undecoded: 'The browser cannot read this file. It may be damaged.',
    long: (s) => `A sound may last ${s} s at most.`,
    silent: 'Nothing was heard.',
    wave: (text) => `The sound as a wave; heard: ${text}`,
    facts: (a) => [`sound ${a.duration} s`, `transcribed in ${a.took} ms`],
  },
};

const state = {
  recorder: null, // MediaRecorder while it records
  asking: false,  // for the microphone
  started: 0,
  level: () => 0, // of the microphone while it records: 0 to 1
  busy: false,
  answer: null,   // { samples, words, text, duration, took }
  refusal: null,  // the page's own refusal: a key of WORDS
  why: null,      // the microphone was refused: a key of its words
  failure: null,
  longest: null,  // seconds, once known
  model: '',      // its name, once known
};
let running = null; // AbortController of the request in progress

const words = () => WORDS[page.lang];
const find = (selector) => document.querySelector(`#speech ${selector}`);

/* --- sound ------------------------------------------------------------------------------------- */

/* One channel at this rate; the browser converts while it decodes. */
async function decode(blob, rate) {
  const sound = await new OfflineAudioContext(1, 1, rate).decodeAudioData(await blob.arrayBuffer());
  const mean = new Float32Array(sound.length);
  for (let c = 0; c < sound.numberOfChannels; c++) {
    const channel = sound.getChannelData(c);
    for (let i = 0; i < mean.length; i++) mean[i] += channel[i] / sound.numberOfChannels;
  }
  return mean;
}

/* Whether the server reads files of this kind: WAV, FLAC or Ogg. The first bytes decide. */
async function isRead(file) {
  const head = new TextDecoder('latin1').decode(await file.slice(0, 12).arrayBuffer());
  return /^(RIFF.{4}WAVE|fLaC|OggS)/s.test(head);
}

/* A WAV file of 16 bits. Pure. */
export function wavOf(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, letters) => [...letters].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, 'RIFF');
  view.setUint32(4, view.byteLength - 8, true);
  text(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // whole numbers
  view.setUint16(22, 1, true); // one channel
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, 'data');
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((x, i) => view.setInt16(44 + 2 * i, Math.round(32767 * Math.max(-1, Math.min(1, x))), true));
  return new Blob([view], { type: 'audio/wav' });
}

/* --- a request --------------------------------------------------------------------------------- */

/* A refusal of the page's own. */
class Refusal extends Error {}

async function loadModel() {
  const model = await findModel('speech');
  if (!model) throw new ApiError(404, { message: words().none });
  return model;
}

async function ask(blob, signal) {
  const model = await loadModel();
  if (blob instanceof File && !await isRead(blob)) throw new Refusal('kind'); // a recording is no File
  const { sample_rate: rate, max_seconds: longest } = model.meta;
  state.longest = longest;
  const samples = await decode(blob, rate).catch(() => { throw new Refusal('undecoded'); });
  if (samples.length > longest * rate) throw new Refusal('long');
  const form = new FormData();
  const fields = { model: model.id, response_format: 'verbose_json', 'timestamp_granularities[]': 'word' };
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append('file', wavOf(samples, rate), 'sound.wav');
  const began = performance.now();
  const answer = await (await post('/v1/audio/transcriptions', form, signal)).json();
  return { ...answer, samples, rate, duration: answer.duration.toFixed(2), took: Math.round(performance.now() - began) };
}

async function hear(blob) {
  running?.abort();
  const { signal } = running = new AbortController();
  Object.assign(state, { busy: true, answer: null, failure: null, refusal: null });
  requestRender();
  try {
    const answer = await ask(blob, signal);
    if (signal.aborted) return;
    state.answer = answer;
    say('speech', answer.text || words().silent);
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof Refusal) state.refusal = error.message;
    else state.failure = error;
  }
  state.busy = false;
  requestRender();
}

/* --- the microphone ---------------------------------------------------------------------------- */

/* Why there is no sound of a microphone: a key of its WORDS. */
function reasonOf({ name }) {
  if (!isSecureContext) return 'insecure';
  return { NotFoundError: 'none', NotAllowedError: 'refused' }[name] ?? 'failed';
}

/* Every failure in here is the microphone's. It does not listen when another tab is shown. */
async function startRecorder({ meta: { max_seconds: longest } }) {
  try {
    const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
    const shut = () => { for (const track of microphone.getTracks()) track.stop(); };
    if (page.tab !== 'speech') {
      shut();
      return;
    }
    const recorder = new MediaRecorder(microphone);
    const parts = [];
    const limit = setTimeout(stop, 1000 * Math.floor(longest));
    recorder.addEventListener('dataavailable', ({ data }) => parts.push(data));
    recorder.addEventListener('stop', () => {
      clearTimeout(limit);
      shut();
      state.recorder = null;
      hear(new Blob(parts, { type: recorder.mimeType }));
    });
    listenToLevel(microphone, recorder);
    recorder.start();
    Object.assign(state, { recorder, started: performance.now() });
  } catch (error) {
    Object.assign(state, { refusal: 'microphone', why: reasonOf(error) });
  }
}

async function record() {
  if (state.asking) return;
  running?.abort();
  Object.assign(state, { asking: true, busy: false, answer: null, failure: null, refusal: null });
  try {
    await startRecorder(await loadModel());
  } catch (error) {
    state.failure = error;
  }
  state.asking = false;
  requestRender();
}

/* The bar shows how loud the microphone is, until the recording ends. */
function listenToLevel(microphone, recorder) {
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  context.createMediaStreamSource(microphone).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  state.level = () => {
    analyser.getFloatTimeDomainData(samples);
    return Math.min(1, Math.max(...samples.map(Math.abs)));
  };
  recorder.addEventListener('stop', () => context.close());
}

function stop() {
  if (state.recorder?.state === 'recording') state.recorder.stop();
}

/* --- rendering --------------------------------------------------------------------------------- */

/* The loudest sample of each column; columns of words are gold. The loudest of all is as high as the canvas, so that a
 * quiet voice is seen, except that noise (QUIET) stays low. */
const QUIET = 0.02;
function paintWave({ samples, rate, words: said }) {
  const canvas = find('.wave');
  const { width, height } = canvas;
  const context = canvas.getContext('2d');
  const colours = getComputedStyle(canvas);
  const first = (x) => Math.floor(x * samples.length / width);
  const loud = Array.from({ length: width }, (_, x) => samples.subarray(first(x), first(x + 1) + 1)
    .reduce((peak, y) => Math.max(peak, Math.abs(y)), 0));
  const most = Math.max(QUIET, ...loud);
  context.clearRect(0, 0, width, height);
  for (let x = 0; x < width; x++) {
    const seconds = first(x) / rate;
    const part = Math.max(0.01, loud[x] / most);
    context.fillStyle = said.some((w) => w.start <= seconds && seconds < w.end) ? colours.color : colours.borderColor;
    context.fillRect(x, height / 2 * (1 - part), 1, height * part);
  }
}

/* Each word with its time, under its part of the wave. */
function renderWords({ words: said, samples, rate }) {
  const list = find('.words');
  const middle = ({ start, end }) => (start + end) / 2 / (samples.length / rate);
  list.replaceChildren(...said.map(({ word, start, end }) => {
    const time = Object.assign(document.createElement('small'), { textContent: `${start.toFixed(2)}–${end.toFixed(2)} s` });
    const item = document.createElement('li');
    item.append(word.trim(), ' ', time);
    item.style.setProperty('--at', `${100 * middle({ start, end })}%`);
    return item;
  }));
}

/* Words leave out their times where these would touch, as on a phone. */
function fitWords() {
  const list = find('.words');
  list.classList.remove('crowded');
  const boxes = Array.from(list.children, (item) => item.getBoundingClientRect());
  list.classList.toggle('crowded', boxes.some(({ left }, i) => i > 0 && left < boxes[i - 1].right + 4));
}

let painted = null; // the answer that is shown

function renderAnswer() {
  const { answer } = state;
  find('.heard').hidden = !answer;
  if (answer && painted !== answer) {
    paintWave(answer);
    renderWords(answer);
    fitWords();
  }
  painted = answer;
  if (answer) find('.wave').setAttribute('aria-label', words().wave(answer.text || words().silent));
}

function factsOf({ recorder, busy, answer, started }) {
  if (recorder) return [`${((performance.now() - started) / 1000).toFixed(1)} s`];
  if (busy) return [words().busy];
  if (!answer) return [];
  return answer.text ? words().facts(answer) : [words().silent, ...words().facts(answer)];
}

function render() {
  const text = state.refusal === 'microphone' ? words().microphone[state.why] : words()[state.refusal];
  setText($('speech-record'), state.recorder ? words().stop : words().record);
  setText($('speech-error'), typeof text === 'function' ? text(state.longest.toFixed(1))
    : text ?? (state.failure ? explain(state.failure, words().fields) : ''));
  setText(find('.knows'), state.model === 'digits-spoken' ? words().digits : '');
  find('.level').hidden = !state.recorder;
  if (state.recorder) find('.level .fill').style.transform = `scaleX(${state.level()})`;
  renderAnswer();
  setText(find('.facts'), factsOf(state).join(' · '));
  if (state.recorder) requestRender();
}

/* A file that is dropped anywhere on the tab. */
function takeDrops(panel) {
  panel.addEventListener('dragover', (event) => event.preventDefault());
  panel.addEventListener('drop', (event) => {
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (file) hear(file);
  });
}

/* The tab, as app.js knows it. */
export const speech = {
  start() {
    $('speech-lab').innerHTML = MARKUP;
    $('speech-record').addEventListener('click', () => (state.recorder ? stop() : record()));
    $('speech-file').addEventListener('change', ({ target }) => {
      if (target.files.length > 0) hear(target.files[0]);
    });
    takeDrops($('speech'));
    new ResizeObserver(fitWords).observe(find('.words'));
    findModel('speech').then((model) => {
      state.model = model?.id ?? '';
      requestRender();
    }, () => {}); // a failure is shown when a sound is sent
  },

  visit() {}, // it waits for a sound
  leave: stop,

  render,
  hash: () => '#speech',
  follow: () => false,
};
