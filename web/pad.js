/*
 * The pad: a small raster to draw on with mouse, pen or finger, and how many of its upper rows are
 * given to the model.
 *
 * The brush is round and soft, about as wide as the strokes of the digits a model has learned; a
 * stroke is stamped every quarter of a pixel and never makes a pixel paler. The part that is not
 * kept stays on the pad under a veil, so that the slider can bring it back.
 */
import { paintPixels, pixelColour } from './picture.js';

const BRUSH = { radius: 1.9, size: 28 }; // pixels, on a raster as wide as `size`

/* canvas: where to draw; veil: an element that covers what is not kept; changed(): called after
   every change. */
export class Pad {
  constructor(canvas, veil, changed) {
    Object.assign(this, { canvas, veil, changed, shape: null, values: null, kept: 0, last: null });
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

  /* The values of the kept rows. */
  prefix() {
    return this.values.subarray(0, this.kept * this.shape.width * this.shape.channels);
  }

  #paint() {
    const { width, height, channels } = this.shape;
    paintPixels(this.canvas, 0, width * height, (i) => pixelColour(this.values, channels, i));
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
