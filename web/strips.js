/* Which models make strips of pictures: one that goes on without end, and racers. Pure. */
import { isStrip } from './common.js';

/* The kind of attention of all layers. */
export const kindOf = ({ meta }) => meta.attention.join(' + ');

/* The tallest strip whose memory is one size at any length; null when there is none. */
export function stripOf(models) {
  const fixed = models.filter((m) => isStrip(m) && !m.meta.state_grows);
  return fixed.sort((a, b) => b.meta.height - a.meta.height)[0] ?? null;
}

const shapeOf = ({ meta }) => [meta.width, meta.height, meta.n_layers, meta.n_embd, meta.n_params].join();

/* Strips of one size and shape, each of another kind of attention; none where there is but one. */
export function racersOf(models) {
  const strips = models.filter(isStrip);
  const groups = strips.map((one) => strips.filter((m) => shapeOf(m) === shapeOf(one)));
  const group = groups.sort((a, b) => b.length - a.length)[0] ?? [];
  const first = (m) => group.find((other) => kindOf(other) === kindOf(m)) === m;
  const racers = group.filter(first);
  return racers.length > 1 ? racers : [];
}
