/*
 * The pad: a small raster to draw on with mouse, pen, finger or keys, and how many of its upper rows
 * are given to the model.
 *
 * The brush is round and soft, about as wide as the strokes of learned digits. It stamps every quarter of a pixel and
 * never makes a pixel paler. The part that is not
 * kept stays on the pad under a veil, so that the slider can bring it back.
 */
import { paintPixels, pixelColour } from './picture.js';

const BRUSH = { radius: 1.9, size: 28 }; // pixels, on a raster as wide as `size`

/* Where the digits of MNIST lie: scaled into 20 x 20 pixels, in the middle of 28 x 28. */
const FRAME = { size: 28, margin: 4 };

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/* box: an element with the canvas, a .veil over the part that is not kept, a .frame around the place of digits, and a .nib at the brush of the keys. changed() is called after every change. */
export class Pad {
  constructor(box, changed) {
    const [canvas, veil, frame, nib] = ['canvas', '.veil', '.frame', '.nib'].map((part) => box.querySelector(part));
    Object.assign(this, { canvas, veil, frame, nib, changed, shape: null, values: null, kept: 0, last: null });
    this.brush = { x: FRAME.size / 2, y: FRAME.size / 4, down: false };
    canvas.addEventListener('keydown', (event) => this.#key(event));
    canvas.addEventListener('focus', () => { nib.hidden = !canvas.matches(':focus-visible'); });
    canvas.addEventListener('blur', () => {
      nib.hidden = true;
      this.brush.down = false;
    });
    canvas.addEventListener('pointerdown', (event) => this.#down(event));
    canvas.addEventListener('pointermove', (event) => this.#move(event));
    for (const end of ['pointerup', 'pointercancel']) {
      canvas.addEventListener(end, () => { this.last = null; });
    }
  }

  /* The model's raster: { width, height, channels }. */
  setShape(shape) {
    this.shape = shape;
    Object.assign(this.canvas, { width: shape.width, height: shape.height });
    this.setKept(Math.floor(shape.height / 2));
    this.frame.hidden = shape.width !== FRAME.size || shape.height !== FRAME.size;
    this.brush = { x: shape.width / 2, y: shape.height / 4, down: false };
    this.#placeNib();
    this.clear();
  }

  setKept(rows) {
    this.kept = rows;
    this.veil.style.top = `${(100 * rows) / this.shape.height}%`;
    this.changed();
  }

  clear() {
    const { width, height, channels } = this.shape;
    this.load(new Uint8Array(width * height * channels));
  }

  load(values) {
    this.values = values.slice();
    this.#paint();
    this.changed();
  }

  isBlank() {
    return this.values.every((v) => v === 0);
  }

  /* Moves the drawing so that it begins where digits begin, its ink in the middle of the columns. */
  centre() {
    const { width, height, channels } = this.shape;
    const pixels = Array.from({ length: width * height }, (_, i) => i)
      .filter((i) => this.values.subarray(i * channels, (i + 1) * channels).some((v) => v > 0));
    if (pixels.length === 0) return;
    const columns = pixels.map((i) => i % width);
    const [left, right] = [Math.min(...columns), Math.max(...columns)];
    const dx = Math.round((width - 1 - left - right) / 2);
    const dy = Math.round((FRAME.margin * height) / FRAME.size) - Math.floor(pixels[0] / width);
    const moved = new Uint8Array(this.values.length);
    for (const i of pixels.filter((pixel) => Math.floor(pixel / width) + dy < height)) {
      const to = i + dy * width + dx;
      moved.set(this.values.subarray(i * channels, (i + 1) * channels), to * channels);
    }
    this.load(moved);
  }

  /* The values of the kept rows. */
  prefix() {
    return this.values.subarray(0, this.kept * this.shape.width * this.shape.channels);
  }

  #paint() {
    const { width, height, channels } = this.shape;
    paintPixels(this.canvas, 0, width * height, (i) => pixelColour(this.values, channels, i));
  }

  #key(event) {
    const step = STEPS[event.key];
    if ((!step && event.key !== ' ') || !this.shape) return;
    event.preventDefault();
    const { brush, shape } = this;
    const from = { x: brush.x, y: brush.y };
    if (step) {
      brush.x = Math.min(Math.max(brush.x + step[0], 0), shape.width);
      brush.y = Math.min(Math.max(brush.y + step[1], 0), shape.height);
    } else {
      brush.down = !brush.down;
    }
    this.#placeNib();
    if (!brush.down) return;
    this.last = from;
    this.#stroke({ x: brush.x, y: brush.y });
    this.last = null;
  }

  #placeNib() {
    const { nib, brush, shape } = this;
    nib.hidden = !this.canvas.matches(':focus-visible');
    nib.classList.toggle('down', brush.down);
    nib.style.left = `${(100 * brush.x) / shape.width}%`;
    nib.style.top = `${(100 * brush.y) / shape.height}%`;
  }

  #place(event) {
    const box = this.canvas.getBoundingClientRect();
    return {
      x: ((event.clientX - box.left) / box.width) * this.shape.width,
      y: ((event.clientY - box.top) / box.height) * this.shape.height,
    };
  }

  #down(event) {
    if (!event.isPrimary || event.button !== 0 || !this.shape) return;
    event.preventDefault(); // no selection, no scrolling
    this.canvas.setPointerCapture(event.pointerId);
    this.last = this.#place(event);
    this.#stroke(this.last);
  }

  #move(event) {
    if (!this.last || !event.isPrimary) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const part of events.length > 0 ? events : [event]) this.#stroke(this.#place(part));
  }

  #stroke(to) {
    const from = this.last;
    const steps = Math.ceil(4 * Math.hypot(to.x - from.x, to.y - from.y)) || 1;
    for (let i = 1; i <= steps; i += 1) {
      const t = i / steps;
      this.#stamp(from.x + (to.x - from.x) * t, from.y + (to.y - from.y) * t);
    }
    this.last = to;
    this.#paint();
    this.changed();
  }

  /* One touch of the brush: full in the middle, gone one pixel further out than half its width. */
  #stamp(x, y) {
    const { width, height, channels } = this.shape;
    const scale = width / BRUSH.size;
    const radius = BRUSH.radius * scale;
    const [left, top] = [Math.floor(x - radius), Math.floor(y - radius)];
    for (let py = Math.max(top, 0); py <= y + radius && py < height; py += 1) {
      for (let px = Math.max(left, 0); px <= x + radius && px < width; px += 1) {
        const away = Math.hypot(px + 0.5 - x, py + 0.5 - y);
        const ink = Math.round(255 * Math.min(Math.max((radius - away) / scale, 0), 1));
        const at = (py * width + px) * channels;
        for (let c = at; c < at + channels; c += 1) this.values[c] = Math.max(this.values[c], ink);
      }
    }
  }
}
