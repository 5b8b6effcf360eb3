"""Images as token sequences: idx files, folders of pictures, input streams.

An image of `height` x `width` x `channels` values is read row by row, the channels of a pixel together. Step t sees what
lies before value t in that order and predicts it; the server's image task repeats these streams exactly:

  token        the value before (left, or the end of the row above); NONE at t = 0
  w, ww        the pixel to the left, and two to the left
  n, nw, ne    the pixels above, above left and above right
  nn           the pixel two above
  row, column, channel  of value t
  position     t
  class        the image's class: 0 .. classes - 1, or `classes` where it is not said

A value is one of `levels` levels, all 256 or those of a palette. Neighbours are those of the same channel; a neighbour
outside the image is NONE, the id after the levels. All but the last value seen are known from at
most two rows back, so the streams cost a window of fixed size and nothing in the recurrent state.
"""

import gzip
import math
import pathlib
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from unfit import Unfit

LEVELS = 256
SUFFIXES = {".png", ".pgm", ".ppm", ".bmp"}  # of pictures without loss
MOST_SIDE, MOST_VALUES, MOST_CLASSES = 4096, 1 << 20, 100  # of the server
NEIGHBOURS = {"w": (0, -1), "ww": (0, -2), "n": (-1, 0), "nw": (-1, -1), "ne": (-1, 1), "nn": (-2, 0)}


def check_shape(height: int, width: int, channels: int):
    if not (1 <= height <= MOST_SIDE and 1 <= width <= MOST_SIDE and channels in (1, 3) and height * width * channels <= MOST_VALUES):
        raise Unfit(f"images of {height} x {width} x {channels} values: a side has 1 to {MOST_SIDE}, there are 1 or 3 channels, and "
                    f"{MOST_VALUES} values at most")


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
    """uint8 [images, height, width, 1], or with as many channels as a fourth dimension says"""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        try:
            dimensions = 4 if file.read(4) == (2052).to_bytes(4, "big") else 3
        except (gzip.BadGzipFile, EOFError) as error:
            raise Unfit(f"{path}: {error}") from error
    values = read_values(path, 2048 + dimensions, dimensions, "images")
    return values if dimensions == 4 else values[..., None]


def read_labels(path: pathlib.Path) -> np.ndarray:
    """uint8 [images]"""
    return read_values(path, 2049, 1, "labels")


@dataclass
class Pictures:
    values: np.ndarray  # uint8 [n, height, width, channels]
    labels: np.ndarray | None  # [n], numbers of classes
    classes: list[str]  # their names


def class_name(text: str) -> str:
    """As the server wants it: lower case, single spaces."""
    return " ".join(text.lower().replace("_", " ").split())


def read_picture(path: pathlib.Path, colour: bool, size: tuple[int, int] | None) -> np.ndarray:
    """uint8 [height, width, 1 or 3], scaled to a size if there is one."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise Unfit("pictures are read by Pillow: pip install pillow") from error
    try:
        with Image.open(path) as picture:
            picture = picture.convert("RGB" if colour else "L")
            if size and picture.size != size[::-1]:
                picture = picture.resize(size[::-1], Image.Resampling.LANCZOS)
            return np.asarray(picture).reshape(picture.height, picture.width, -1)
    except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError, OSError) as error:
        raise Unfit(f"{path} is not a picture that can be read: {error}") from error


def read_folder(folder: pathlib.Path, colour: bool, size: tuple[int, int] | None) -> Pictures:
    """Its pictures, all of one size; where they lie in folders, these are their classes."""
    if size:  # or all are scaled first
        check_shape(*size, 3 if colour else 1)
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not files:
        raise Unfit(f"{folder} has no picture ({', '.join(sorted(SUFFIXES))}) and no idx file")
    parents = [p.parent.relative_to(folder).as_posix() for p in files]
    names = sorted(set(parents))
    if names != ["."] and "." in names:
        raise Unfit(f"{folder} has pictures in folders, which are their classes, and {files[parents.index('.')].name} beside them")
    values = []
    for path in files:
        values.append(read_picture(path, colour, size))
        check_shape(*values[-1].shape)
        if values[-1].shape != values[0].shape:
            (h, w), (first_h, first_w) = values[-1].shape[:2], values[0].shape[:2]
            raise Unfit(f"{path} has {h} x {w} pixels, and {files[0]} has {first_h} x {first_w}: --size HxW scales them all")
    labels = None if names == ["."] else np.array([names.index(parent) for parent in parents])
    return Pictures(np.stack(values), labels, [class_name(name) for name in names] if labels is not None else [])


def even_palette(levels: int) -> list[int]:
    """Values of so many levels, from 0 to 255."""
    return [(255 * i + (levels - 1) // 2) // (levels - 1) for i in range(levels)]


def to_levels(values: np.ndarray, palette: list[int]) -> np.ndarray:
    """uint8 of any shape: the place in the palette of the nearest value, of two the lower one, as the server takes it."""
    every = np.abs(np.arange(LEVELS)[:, None] - np.array(palette)[None, :]).argmin(1)
    return every.astype(np.uint8)[values]


def stream_sizes(names: list[str], shape: tuple[int, int, int], classes: int, levels: int = LEVELS) -> list[tuple[str, int]]:
    """The streams' names and numbers of ids, as the config lists them."""
    height, width, channels = shape
    sizes = {"row": height, "column": width, "channel": channels, "position": math.prod(shape), "class": classes + 1}
    unknown = set(names) - {"token", *NEIGHBOURS, *sizes}
    if unknown:
        raise Unfit(f"--streams: there is no {', '.join(sorted(unknown))}")
    return [(name, sizes.get(name, levels + 1)) for name in names]


def make_inputs(images: torch.Tensor, classes: torch.Tensor, names: list[str], levels: int = LEVELS) -> tuple[torch.Tensor, torch.Tensor]:
    """Levels, uint8 [B, height, width, channels], and [B] -> input ids [B, values, streams] and targets [B, values],
    made on the images' device, because ids take a hundred times their bytes."""
    x, device = images.long(), images.device
    b, height, width, channels = x.shape
    flat = x.reshape(b, -1)
    padded = F.pad(x, (0, 0, 2, 2, 2, 0), value=levels)
    position = torch.arange(height * width * channels, device=device)
    streams = {
        "token": F.pad(flat[:, :-1], (1, 0), value=levels),
        "row": torch.div(position, width * channels, rounding_mode="floor"),
        "column": torch.div(position, channels, rounding_mode="floor") % width,
        "channel": position % channels,
        "position": position,
        "class": classes.long()[:, None],
    }
    for name, (dy, dx) in NEIGHBOURS.items():
        streams[name] = padded[:, 2 + dy : 2 + dy + height, 2 + dx : 2 + dx + width].reshape(b, -1)
    return torch.stack([streams[name].expand(flat.shape) for name in names], -1), flat
