/*
 * Pictures as rasters: { width, height, channels } and values of 0..255 in raster order, a pixel's
 * channels together. Painted on a canvas of one canvas pixel a pixel, and written as PNG.
 *
 * Grey pictures are painted as gold ink on red paper, see INK; the PNG holds the values themselves.
 * This file writes it instead of canvas.toBlob: browsers that guard against fingerprinting change a canvas a little
 * when a script reads it, and the kept pixels of a drawing must not change.
 */

const mix = (a, b, t) => a.map((x, i) => Math.round(x + (b[i] - x) * t));

/* Value to colour, for grey pictures: no ink is the paper's red, full ink its gold. */
export const INK = Array.from({ length: 256 }, (_, v) => mix([134, 14, 22], [255, 223, 145], v / 255));

/* Share of the greatest surprise to colour: from the night's blue over red to gold. */
const HEAT = [[24, 22, 40], [96, 20, 74], [206, 48, 44], [250, 158, 62], [255, 240, 190]];

export function heatColour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (HEAT.length - 1);
  const below = Math.min(Math.floor(at), HEAT.length - 2);
  return mix(HEAT[below], HEAT[below + 1], at - below);
}

/* Puts a colour for each of the pixels from..to on the canvas; colour(pixel) gives [r, g, b] or null
   for none. Only the rows they lie in are touched. */
export function paintPixels(canvas, from, to, colour) {
  const { width } = canvas;
  const [top, bottom] = [Math.floor(from / width), Math.ceil(to / width)];
  if (bottom <= top) return;
  const context = canvas.getContext('2d');
  const rows = context.createImageData(width, bottom - top);
  for (let pixel = top * width; pixel < bottom * width; pixel += 1) {
    const rgb = colour(pixel);
    if (rgb) rows.data.set([...rgb, 255], (pixel - top * width) * 4);
  }
  context.putImageData(rows, 0, top);
}

/* The colour of a pixel of a raster. */
export function pixelColour(values, channels, pixel) {
  if (channels === 1) return INK[values[pixel]];
  return Array.from(values.subarray(pixel * 3, pixel * 3 + 3));
}

/* --- PNG --------------------------------------------------------------------------------------- */

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k += 1) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});

function crc32(bytes) {
  let c = 0xffffffff;
  for (const byte of bytes) c = CRC[(c ^ byte) & 0xff] ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

function adler32(bytes) {
  let [a, b] = [1, 0];
  for (const byte of bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return b * 65536 + a;
}

const bigEndian = (x) => [x >>> 24, (x >>> 16) & 0xff, (x >>> 8) & 0xff, x & 0xff];

/* zlib's format with the bytes as they are: blocks of at most 65,535 bytes, not compressed. */
function zlibStored(bytes) {
  const out = [0x78, 0x01];
  for (let at = 0; at < bytes.length; at += 0xffff) {
    const block = bytes.slice(at, at + 0xffff);
    const { length } = block;
    const last = at + length === bytes.length ? 1 : 0;
    out.push(last, length & 0xff, length >>> 8, ~length & 0xff, (~length >>> 8) & 0xff, ...block);
  }
  return [...out, ...bigEndian(adler32(bytes))];
}

function chunk(type, data) {
  const body = [...new TextEncoder().encode(type), ...data];
  return [...bigEndian(data.length), ...body, ...bigEndian(crc32(body))];
}

/* A PNG of 8 bits a value, grey or colour, as a data URL. */
export function pngUrl(values, width, height, channels) {
  const stride = width * channels;
  const lines = [];
  for (let y = 0; y < height; y += 1) {
    lines.push(0, ...values.subarray(y * stride, (y + 1) * stride)); // 0: no filter
  }
  const header = [...bigEndian(width), ...bigEndian(height), 8, channels === 1 ? 0 : 2, 0, 0, 0];
  const bytes = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a,
    ...chunk('IHDR', header), ...chunk('IDAT', zlibStored(lines)), ...chunk('IEND', []),
  ];
  return `data:image/png;base64,${btoa(bytes.map((b) => String.fromCharCode(b)).join(''))}`;
}
