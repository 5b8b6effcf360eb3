#!/usr/bin/env python3
"""Draws digits of 8 x 8 pixels as pictures in a folder for each digit, to try image.py on.

    python3 weights/train/small_digits.py FOLDER [COUNT]

COUNT of each digit (200): strokes of 3 x 5 pixels at any place, in any brightness, with a little noise. The same every time.
"""

import pathlib
import random
import sys

SIDE, WIDTH, HEIGHT = 8, 3, 5
# A digit's rows from the top, each an octal digit: three pixels.
ROWS = ["75557", "26227", "71747", "71717", "55711", "74717", "74757", "71111", "75757", "75717"]


def draw(digit: int, rng: random.Random) -> bytes:
    """Values row by row."""
    left, top, ink = rng.randrange(SIDE - WIDTH + 1), rng.randrange(SIDE - HEIGHT + 1), rng.randrange(160, 241)
    values = [0] * (SIDE * SIDE)
    for y, row in enumerate(ROWS[digit]):
        for x in range(WIDTH):
            if int(row) >> (WIDTH - 1 - x) & 1:
                values[(top + y) * SIDE + left + x] = ink + rng.randrange(15)
    return bytes(values)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    rng, count = random.Random(1), int(sys.argv[2]) if len(sys.argv) == 3 else 200
    for digit in range(10):
        folder = pathlib.Path(sys.argv[1]) / str(digit)
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (folder / f"{i:04}.pgm").write_bytes(b"P5 %d %d 255\n" % (SIDE, SIDE) + draw(digit, rng))


if __name__ == "__main__":
    main()
