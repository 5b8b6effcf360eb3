#!/usr/bin/env python3
"""Trains a model of images on one's own and exports it in the server's format.

    python3 weights/train/image.py --data FOLDER_OR_IDX --run RUN_DIR --out FOLDER --minutes 5

The data is a folder of pictures of one size, which may lie in a folder for each class, or an idx file, with --labels if
there are classes. A part of the images is held out. A fifth of the training images are shown without their class, so
that the model also paints when no class is requested. The figure on held-out images is without a class. With --guide
MODEL, itself
a model of these classes, they are taught by guidance.py. How a run is resumed and how the learning rate goes: trainer.py.
"""

import argparse
import math
import pathlib

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np
import torch
import torch.nn.functional as F

import image_data as data
import logistic_mixture
import trainer
from guidance import PLAIN, Teacher
from linear_transformer import LinearTransformer, autocast, model_config, override
from unfit import Unfit

UNLABELLED = 0.2
VALIDATE_ON = 512
HEADS = {
    "logistic_mixture": lambda levels: {"kind": "logistic_mixture", "components": 10, "levels": levels},
    "categorical": lambda levels: {"kind": "categorical", "size": levels},
}


def add_arguments(p: argparse.ArgumentParser, tokens: float, batch_tokens: int, streams: list[str] | None = None):
    trainer.add_arguments(p, tokens=tokens, batch_tokens=batch_tokens, head_lr=0.003)
    p.add_argument("--streams", type=lambda text: text.split(","), default=streams,
                   help="inputs of a step, by name, with commas between (image_data.py)")
    p.add_argument("--head", choices=list(HEADS), default="categorical", help="distribution of a value")
    p.add_argument("--levels", type=int, default=data.LEVELS,
                   help="how many values there are, evenly spaced from 0 to 255; images get the nearest")
    p.add_argument("--class-lr", type=float, help="of the table of classes; otherwise --adam-lr")
    p.add_argument("--guide", type=pathlib.Path, metavar="MODEL", help="whose classes are taught, with more force")
    p.add_argument("--guidance", type=float, default=4.0, help="with --guide: how much of it, at least 1")
    p.add_argument("--validate-on", type=int, default=VALIDATE_ON, help="held-out images looked at, at most")


def size_of(text: str) -> tuple[int, int]:
    """HxW"""
    height, x, width = text.lower().partition("x")
    if not (x and height.isdecimal() and width.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text} is not HEIGHTxWIDTH, such as 28x28")
    return int(height), int(width)


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_arguments(p, tokens=20e6, batch_tokens=4096)
    p.set_defaults(compile=False)
    p.add_argument("--labels", type=pathlib.Path, help="idx file of classes")
    p.add_argument("--classes", type=lambda text: [data.class_name(name) for name in text.split(",")],
                   help="their names, with commas between; otherwise the folders' or the numbers")
    p.add_argument("--size", type=size_of, help="HxW: pictures are scaled to it, an idx file must have it")
    p.add_argument("--colour", action="store_true", help="pictures in red, green and blue, not in grey")
    p.add_argument("--held-out", type=float, default=0.1, help="part of the images that is held out")
    trainer.add_sizes(p, layers=4, width=128, heads=4)
    return p.parse_args()


def read_idx(args) -> data.Pictures:
    values = data.read_idx(args.data)
    height, width = values.shape[1:3]
    if args.size and args.size != (height, width):
        raise Unfit(f"the images have {height} x {width} pixels, and --size is {args.size[0]} x {args.size[1]}")
    labels = data.read_labels(args.labels) if args.labels else None
    names = [] if labels is None else [str(i) for i in range(int(labels.max(initial=0)) + 1)]
    return data.Pictures(values, labels, names)


def read(args) -> data.Pictures:
    if args.labels and args.data.is_dir():
        raise Unfit("--labels goes with an idx file")
    pictures = data.read_folder(args.data, args.colour, args.size) if args.data.is_dir() else read_idx(args)
    if args.classes and pictures.labels is None:
        raise Unfit("--classes names classes, and the images have none (--labels)")
    if args.classes and len(args.classes) < len(pictures.classes):
        raise Unfit(f"--classes has {len(args.classes)} names, and the images have {len(pictures.classes)} classes")
    pictures.classes = args.classes or pictures.classes
    return pictures


def check(pictures: data.Pictures):
    """The arguments of every recipe of images."""
    count, height, width, channels = pictures.values.shape
    data.check_shape(height, width, channels)
    if pictures.labels is None:
        return
    if len(pictures.labels) != count:
        raise Unfit(f"{count} images have {len(pictures.labels)} labels")
    if count and pictures.labels.max() >= len(pictures.classes):
        raise Unfit(f"label {pictures.labels.max()} is none of 0 to {len(pictures.classes) - 1}")
    if not 1 <= len(pictures.classes) <= data.MOST_CLASSES:
        raise Unfit(f"there are {len(pictures.classes)} classes, and at most {data.MOST_CLASSES} may be")


def streams_of(pictures: data.Pictures) -> list[str]:
    channels = ["w", "channel"] if pictures.values.shape[3] > 1 else []
    return ["token", "ww", "n", "nw", "ne", "nn", "row", "column", *channels, *(["class"] if pictures.classes else [])]


class Images:
    report, vocabulary = "bits_per_dim", None

    def __init__(self, args):
        self.args = args
        pictures = self.read()
        check(pictures)
        self.shape, self.classes = pictures.values.shape[1:], pictures.classes
        self.values = math.prod(self.shape)
        self.size = args.batch_tokens // self.values  # images of a batch
        if self.size < 1:
            raise Unfit(f"--batch-tokens {args.batch_tokens} is less than an image of {self.values}")
        held_out = self.held_out_of(len(pictures.values))
        trainer.check_range(args, "levels", 2, data.LEVELS)
        trainer.check_range(args, "guidance", 1, 100)
        if args.class_lr is not None:
            trainer.check_range(args, "class_lr", 1e-9, 1)
        self.palette = data.even_palette(args.levels)
        pictures.values = data.to_levels(pictures.values, self.palette)
        labels = pictures.labels if pictures.labels is not None else np.zeros(len(pictures.values), np.int64)
        self.train, self.held_out = (torch.from_numpy(pictures.values[part]).to(args.device) for part in (~held_out, held_out))
        self.labels, self.data = labels[~held_out], [pictures.values, labels]
        self.streams = args.streams or streams_of(pictures)
        self.config = self.make_config()
        override(self.config, args.set)
        self.model = LinearTransformer(self.config, args.dropout).to(args.device)
        if args.head == "logistic_mixture":
            logistic_mixture.initialise(self.model.head)
        self.teacher = Teacher(args.guide, args.guidance, self.config, args.device) if args.guide else None
        self.nats, self.guided_nats = self.nats_of, self.guided_nats_of
        if args.compile:
            options = trainer.compile_options(args)
            for model in (self.model, *([self.teacher.model] if self.teacher else [])):
                model.compile_parts(**options)
            self.nats, self.guided_nats = torch.compile(self.nats, **options), torch.compile(self.guided_nats, **options)

    def read(self) -> data.Pictures:
        trainer.check_sizes(self.args)
        return read(self.args)

    def held_out_of(self, count: int) -> np.ndarray:
        """bool [count]: a part drawn once and for all, as files may lie in the order of their classes."""
        if not 0 < self.args.held_out < 1:
            raise Unfit(f"--held-out {self.args.held_out:g} is not between 0 and 1")
        held_out = max(1, round(count * self.args.held_out))
        if count < held_out + self.size:
            raise Unfit(f"{count} images are too few: {held_out} are held out, and a batch has {self.size} (--batch-tokens)")
        if self.args.validate_on < 1:
            raise Unfit(f"--validate-on {self.args.validate_on} is not above 0")
        return np.isin(np.arange(count), np.random.default_rng(0).permutation(count)[:held_out])

    def make_config(self) -> dict:
        height, width, channels = self.shape
        image = {"width": width, "height": height, "channels": channels}
        if "class" in self.streams:
            image["classes"] = self.classes
        if self.args.levels < data.LEVELS:
            image["palette"] = self.palette
        sizes = data.stream_sizes(self.streams, self.shape, len(self.classes), self.args.levels)
        config = model_config("image", sizes, HEADS[self.args.head](self.args.levels), image=image)
        return config | self.sizes()

    def sizes(self) -> dict:
        return trainer.sizes_of(self.args) | {"d_ff": 4 * self.args.width}

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        with autocast(self.args.device):
            return self.model.hidden(ids)

    def guided_nats_of(self, hidden: torch.Tensor, probabilities: torch.Tensor) -> torch.Tensor:
        """Nats a value that would be of these probabilities."""
        return F.cross_entropy(self.model.head(hidden.float()).flatten(0, 1), probabilities.flatten(0, 1))

    def nats_of(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Nats a value. The head stays in f32: a mean wants more than the 8 bits of bf16."""
        parameters = self.model.head(hidden.float())
        if self.args.head == "categorical":
            return F.cross_entropy(parameters.flatten(0, 1), targets.flatten())
        return -logistic_mixture.log_probability(parameters, targets, self.args.levels).mean()

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        order = rng.permutation(len(self.train))
        return [order[i : i + self.size] for i in range(0, len(order) - self.size + 1, self.size)]

    def count(self, batch: np.ndarray) -> int:
        return len(batch) * self.values

    def inputs_of(self, images: torch.Tensor, classes: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        return data.make_inputs(images, torch.from_numpy(classes).to(images.device), self.streams, self.args.levels)

    def images_of(self, batch: np.ndarray) -> torch.Tensor:
        return self.train[torch.from_numpy(batch).to(self.train.device)]

    def loss_of(self, images: torch.Tensor, classes: np.ndarray) -> torch.Tensor:
        ids, targets = self.inputs_of(images, classes)
        return self.nats(self.hidden(ids), targets)

    def guided_loss(self, batch: np.ndarray) -> torch.Tensor:
        """The first part of the batch is learnt from as it is, without its classes."""
        images, n = self.images_of(batch), round(len(batch) * PLAIN)
        none = np.full(len(batch), len(self.classes))
        ids, values = self.inputs_of(images, np.concatenate([none[:n], self.labels[batch][n:]]))
        plain, _ = self.inputs_of(images[n:], none[n:])
        known = F.one_hot(values[:n], self.args.levels).float()
        return self.guided_nats(self.hidden(ids), torch.cat([known, self.teacher.targets(ids[n:], plain)]))

    def loss(self, batch: np.ndarray) -> torch.Tensor:
        if self.teacher:
            return self.guided_loss(batch)
        rng = np.random.default_rng(batch)  # the same draw when the step is done again after a resumption
        shown = rng.random(len(batch)) >= UNLABELLED
        return self.loss_of(self.images_of(batch), np.where(shown, self.labels[batch], len(self.classes)))

    def validate(self) -> float:
        most = min(self.args.validate_on, len(self.held_out))
        size = min(self.size, most)
        parts = self.held_out[: most // size * size].reshape(-1, size, *self.shape)
        none = np.full(size, len(self.classes))
        return sum(self.loss_of(images, none).item() for images in parts) / len(parts) / math.log(2)


if __name__ == "__main__":
    trainer.run(Images, parse_arguments())
