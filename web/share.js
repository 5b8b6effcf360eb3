/*
 * Exports of the page: a drawing as text for a link, and pictures of answers.
 *
 * A drawing is mostly empty, so a run of zeros is written as 0 and its length (1 to 255), every
 * other value as itself; the bytes are base64url.
 */

export function drawingText(values) {
  const bytes = [];
  for (let i = 0; i < values.length;) {
    let run = 0;
    while (run < 255 && values[i + run] === 0) run += 1;
    bytes.push(...(run > 0 ? [0, run] : [values[i]]));
    i += run || 1;
  }
  const text = btoa(bytes.map((b) => String.fromCharCode(b)).join(''));
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/* The `size` values of such a text; null when it is none of that size. */
export function drawingValues(text, size) {
  const values = new Uint8Array(size);
  let at = 0;
  try {
    const bytes = Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
    for (let i = 0; i < bytes.length; i += bytes[i] > 0 ? 1 : 2) {
      if (at >= size) return null;
      values[at] = bytes[i];
      at += bytes[i] > 0 ? 1 : bytes[i + 1];
    }
  } catch {
    return null; // not base64
  }
  return at === size ? values : null;
}

/* Hands the visitor a canvas as a PNG. */
export function saveCanvas(canvas, name) {
  canvas.toBlob((blob) => {
    const link = Object.assign(document.createElement('a'), {
      href: URL.createObjectURL(blob), download: name,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the download has begun by then
  });
}

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function newCanvas(width, height) {
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  const context = canvas.getContext('2d');
  context.fillStyle = styleOf('--night');
  context.fillRect(0, 0, width, height);
  return { canvas, context };
}

/* --- seal and address -------------------------------------------------------------------------- */

const SEAL = '朱雀'; // linnet, on a couplet

/* A gold square with two characters in red; (x, y) is the middle of its upper edge. */
function drawSeal(context, seal, x, y, side) {
  context.fillStyle = styleOf('--gold');
  context.fillRect(x - side / 2, y, side, side);
  setBrush(context, side * 0.42);
  context.fillStyle = styleOf('--red');
  Array.from(seal).forEach((c, k) => context.fillText(c, x, y + side * (0.28 + 0.45 * k)));
}

/* The page's name, and its address unless it is this machine's own. */
export function signature({ hostname, host }) {
  return /^(localhost$|127\.|\[::1\])/.test(hostname) ? 'Linnet' : `Linnet · ${host}`;
}

function signFoot({ canvas, context }, foot) {
  const size = Math.min(20, foot * 0.5);
  context.font = `${size}px ${styleOf('--plain')}`;
  context.fillStyle = styleOf('--muted');
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(signature(location), canvas.width / 2, canvas.height - foot / 2, canvas.width * 0.9);
}

/* --- a couplet --------------------------------------------------------------------------------- */

const SCROLL = { width: 190, height: 860, margin: 70, gap: 240, most: 128, free: 70 }; // above and below a line
const STAMP = 36; // the side of the seal

function drawPaper(context, x, y, width, height) {
  const paper = context.createLinearGradient(x, y, x + width, y);
  [[0, '--red-deep'], [0.3, '--red'], [0.7, '--red'], [1, '--red-deep']]
    .forEach(([at, colour]) => paper.addColorStop(at, styleOf(colour)));
  context.fillStyle = paper;
  context.fillRect(x, y, width, height);
  context.strokeStyle = styleOf('--gold');
  context.lineWidth = 2;
  context.strokeRect(x + 9, y + 9, width - 18, height - 18);
}

/* A character in the middle of its cell; a comma or full stop in its upper right, as set vertically. */
function drawCharacter(context, character, x, y, size) {
  const aside = /[，。、]/.test(character) ? size / 2 : 0;
  context.fillText(character, x + aside, y - aside);
}

function drawScroll(context, line, x, y) {
  const { width, height, most, free } = SCROLL;
  drawPaper(context, x, y, width, height);
  const size = Math.min(most, (height - 2 * free) / line.length / 1.2);
  setBrush(context, size);
  const top = y + height / 2 - (line.length - 1) * 0.6 * size;
  line.forEach((c, i) => drawCharacter(context, c, x + width / 2, top + 1.2 * size * i, size));
}

function setBrush(context, size) {
  context.font = `bold ${size}px ${styleOf('--brush')}`;
  context.fillStyle = styleOf('--gold');
  context.textAlign = 'center';
  context.textBaseline = 'middle';
}

/* A couplet as it hangs: the upper line on the right, the caption read from the right, the seal at the end of the lower
   line. */
export function coupletCanvas(upper, lower, caption) {
  const { width, height, margin, gap } = SCROLL;
  const head = caption ? 190 : 0;
  const across = 2 * margin + 2 * width + gap;
  const { canvas, context } = newCanvas(across, 2 * margin + height + head);
  if (caption) {
    const line = Array.from(caption).reverse();
    const long = Math.min(across - 2 * margin, 90 * line.length + 70);
    drawPaper(context, (across - long) / 2, margin, long, 130);
    setBrush(context, Math.min(72, (long - 60) / line.length));
    context.fillText(line.join(''), across / 2, margin + 67);
  }
  drawScroll(context, Array.from(lower), margin, margin + head);
  drawScroll(context, Array.from(upper), across - margin - width, margin + head);
  drawSeal(context, SEAL, margin + width / 2, margin + head + height - STAMP - 20, STAMP);
  signFoot({ canvas, context }, margin);
  return canvas;
}

/* --- a poem ------------------------------------------------------------------------------------ */

const POEM = { size: 72, column: 112, margin: 60, pad: 56 };

/* A poem as it is set: its title on the right, then its lines, with the seal under the last one. */
export function poemCanvas(lines, title, seal) {
  const { size, column, margin, pad } = POEM;
  const columns = lines.length + 1;
  const wide = columns * column + 2 * pad;
  const longest = Math.max(...lines.map((line) => Array.from(line).length));
  const high = longest * size * 1.2 + 2 * pad + column;
  const { canvas, context } = newCanvas(wide + 2 * margin, high + 2 * margin);
  drawPaper(context, margin, margin, wide, high);
  const centre = (i) => margin + wide - pad - column * (i + 0.5);
  const write = (line, i, height) => {
    setBrush(context, height);
    Array.from(line).forEach((c, k) => drawCharacter(context, c, centre(i), margin + pad + height * 1.2 * (k + 0.5), height));
  };
  write(title, 0, Math.min(size * 0.6, (high - 2 * pad) / title.length / 1.2));
  lines.forEach((line, i) => write(line, i + 1, size));
  drawSeal(context, seal, centre(lines.length), margin + high - pad - size * 0.7, size * 0.9);
  signFoot({ canvas, context }, margin);
  return canvas;
}

/* --- a sheet of pictures ----------------------------------------------------------------------- */

const FOOT = 36; // pixels, for the name

/* The pictures of canvases in a grid, each pixel a square of `scale`, with a foot for the name. */
export function sheetCanvas(pictures, columns, scale) {
  const { width, height } = pictures[0];
  const [stepX, stepY] = [width * scale + scale * 2, height * scale + scale * 2];
  const rows = Math.ceil(pictures.length / columns);
  const { canvas, context } = newCanvas(columns * stepX + scale * 2, rows * stepY + scale * 2 + FOOT);
  context.imageSmoothingEnabled = false;
  pictures.forEach((picture, i) => {
    const x = scale * 2 + (i % columns) * stepX;
    const y = scale * 2 + Math.floor(i / columns) * stepY;
    context.drawImage(picture, x, y, width * scale, height * scale);
  });
  signFoot({ canvas, context }, FOOT);
  return canvas;
}
