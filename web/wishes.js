/* Buttons for an image model: one per class, and one for any picture. */
import { setText } from './common.js';

/* choose(place in the list of classes, or null for anything). Without classes there are no buttons. */
export function makeWishes(box, classes, choose) {
  for (const button of box.querySelectorAll('button')) button.remove(); // of another model
  box.hidden = classes.length === 0;
  if (box.hidden) return;
  for (const [i, name] of [...classes.entries(), [null, '']]) {
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: name, wish: i });
    button.addEventListener('click', () => choose(i));
    box.append(button);
  }
}

export function renderWishes(box, wish, anything) {
  for (const button of box.querySelectorAll('button')) {
    button.setAttribute('aria-pressed', button.wish === wish);
    if (button.wish === null) setText(button, anything);
  }
}
