"""web/card.png, the picture that other sites show with a link to the page: a couplet of the model's and
digits it painted, drawn by the page's own code. Made anew by

    .venv/bin/pytest tests/browser -k test_card --screenshots web
"""

import base64

DRAW = """async ({ upper, seed, words }) => {
    const DIGITS = 16;
    const { findModel, post } = await import('/common.js');
    const { coupletCanvas } = await import('/share.js');
    const { paintPixels, INK } = await import('/picture.js');
    const json = async (path, body) => (await post(path, body)).json();
    const { choices: [best] } = await json('/v1/completions',
        { model: 'couplet', prompt: upper, n: 5, seed, temperature: 0.8 });
    const { meta: { classes = [] } } = await findModel('image');
    const pictures = await Promise.all(Array.from({ length: DIGITS }, (_, i) => json('/v1/images/generations',
        { model: 'mnist', prompt: '', seed: i, ...(classes.length > 0 && { class: i % classes.length }) })));
    const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
    const canvas = Object.assign(document.createElement('canvas'), { width: 1200, height: 630 });
    const context = canvas.getContext('2d');
    context.fillStyle = style('--night');
    context.fillRect(0, 0, 1200, 630);
    const couplet = coupletCanvas(upper, best.text, '');
    context.drawImage(couplet, 1200 - 630 * couplet.width / couplet.height, 0,
        630 * couplet.width / couplet.height, 630);
    const write = (text, y, size, colour) => {
        context.font = `bold ${size}px ${style('--brush')}`;
        context.fillStyle = style(colour);
        context.fillText(text, 64, y);
    };
    write('Linnet', 150, 84, '--gold');
    words.forEach((text, i) => write(text, 220 + 50 * i, 36, '--text'));
    context.imageSmoothingEnabled = false;
    for (const [i, { data: [{ b64_json }] }] of pictures.entries()) {
        const image = Object.assign(new Image(), { src: `data:image/png;base64,${b64_json}` });
        await image.decode();
        const grey = new OffscreenCanvas(28, 28).getContext('2d');
        grey.drawImage(image, 0, 0);
        const values = grey.getImageData(0, 0, 28, 28).data;
        const tile = Object.assign(document.createElement('canvas'), { width: 28, height: 28 });
        paintPixels(tile, 0, 784, (pixel) => INK[values[4 * pixel]]);
        context.drawImage(tile, 64 + (i % 8) * 72, 400 + Math.floor(i / 8) * 72, 67, 67);
    }
    return canvas.toDataURL('image/png').split(',')[1];
}"""

SEED = 7
WORDS = ["写得再长，记忆也不变大。", "A request's memory keeps one size,", "however long the answer."]


def draw(page):
    """The card as PNG bytes."""
    return base64.b64decode(page.evaluate(DRAW, {"upper": "海上明月", "seed": SEED, "words": WORDS}))
