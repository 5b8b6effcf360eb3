"""Images as token sequences: idx files, the held-out part, input streams.

An image of `height` x `width` values is read row by row. Step t sees what lies before pixel t in
that order and predicts it; the server's image task repeats these streams exactly:

  token        the pixel before (left, or the end of the row above); START at t = 0
  ww           the pixel two to the left
  n, nw, ne    the pixels above, above left and above right
  nn           the pixel two above
  row, column  of pixel t
  position     t
  class        what the image shows: 0 .. CLASSES - 1, or NO_CLASS where it is not said

A neighbour outside the image is NONE. All but the last pixel seen are known from at most two rows
back, so the streams cost a window of fixed size and nothing in the recurrent state.
"""

import gzip
import math
import pathlib

import numpy as np

from unfit import Unfit

LEVELS = 256
START = NONE = LEVELS
CLASSES = NO_CLASS = 10
NEIGHBOURS = {"ww": (0, -2), "n": (-1, 0), "nw": (-1, -1), "ne": (-1, 1), "nn": (-2, 0)}


def find(folder: pathlib.Path, name: str) -> pathlib.Path:
    """The file of that name, packed or not."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise Unfit(f"{folder} has neither {name} nor {name}.gz")


def read_values(path: pathlib.Path, magic: int, dimensions: int, what: str) -> np.ndarray:
    """uint8, of the shape that the idx file names."""
    try:
        data = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
    except (OSError, EOFError) as error:
        raise Unfit(f"{path}: {error}") from error
    start = 4 * (1 + dimensions)
    head = np.frombuffer(data[:start], ">i4") if len(data) >= start else [0]
    shape = tuple(int(n) for n in head[1:])
    if head[0] != magic or min(shape) < 0 or len(data) != start + math.prod(shape):
        raise Unfit(f"{path}: not an idx file of 8-bit {what}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_idx(path: pathlib.Path) -> np.ndarray:
    """uint8 [images, height, width]"""
    return read_values(path, 2051, 3, "images")


def read_labels(path: pathlib.Path) -> np.ndarray:
    """uint8 [images]"""
    return read_values(path, 2049, 1, "labels")


def stream_sizes(names: list[str], height: int, width: int) -> list[tuple[str, int]]:
    """The streams' names and numbers of ids, as the config lists them."""
    sizes = {"row": height, "column": width, "position": height * width, "class": CLASSES + 1}
    return [(name, sizes.get(name, LEVELS + 1)) for name in names]


def make_inputs(images: np.ndarray, classes: np.ndarray | None, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """uint8 [B, height, width] and [B], or None for no class -> input ids [B, height * width, streams] and targets
    [B, height * width]."""
    b, height, width = images.shape
    flat = images.reshape(b, -1).astype(np.int64)
    padded = np.pad(images.astype(np.int64), ((0, 0), (2, 0), (2, 2)), constant_values=NONE)
    position = np.arange(height * width)
    streams = {
        "token": np.concatenate([np.full((b, 1), START), flat[:, :-1]], axis=1),
        "row": position // width,
        "column": position % width,
        "position": position,
        "class": np.full((b, 1), NO_CLASS) if classes is None else classes.astype(np.int64)[:, None],
    }
    for name, (dy, dx) in NEIGHBOURS.items():
        streams[name] = padded[:, 2 + dy : 2 + dy + height, 2 + dx : 2 + dx + width].reshape(b, -1)
    return np.stack([np.broadcast_to(streams[name], flat.shape) for name in names], axis=-1), flat
