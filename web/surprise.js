/* How surprised the model is by a picture: asked of the server, painted as a map. */
import { post } from './common.js';
import { heatColour, paintPixels } from './picture.js';

/* { surprise: bits of each value, bits: their mean } of a PNG. */
export async function askSurprise(model, png) {
  const response = await post('/v1/score', { model: model.id, image: png });
  const { surprise, bits_per_dim: bits } = await response.json();
  return { surprise, bits };
}

/* Bits a pixel: the sum over its channels. */
function pixelBits(surprise, channels) {
  const bits = new Float32Array(surprise.length / channels);
  surprise.forEach((b, i) => { bits[Math.floor(i / channels)] += b; });
  return bits;
}

/* Paints the map, or empties the canvas when `surprise` is null; the bits of the brightest pixel. */
export function paintSurprise(canvas, surprise, { width, height, channels }) {
  const bits = surprise && pixelBits(surprise, channels);
  const most = bits ? Math.max(...bits) : 0;
  if (canvas.shown === surprise) return most;
  canvas.shown = surprise;
  paintPixels(canvas, 0, width * height, (i) => (bits ? heatColour(bits[i] / most) : null));
  return most;
}
