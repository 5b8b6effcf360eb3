#!/usr/bin/env python3
"""Trains the MNIST model and exports it in the server's format.

    python3 weights/train/mnist.py --data DIR --run RUN_DIR --out weights/mnist

DIR holds train-images-idx3-ubyte(.gz) and train-labels-idx1-ubyte(.gz); the last 5,000 images are held
out. A fifth of the training images are shown without their class, so that the model also paints when
no digit is requested; the figures on held-out images are those without a class. How a run is resumed
and how the learning rate goes: trainer.py.
"""

import argparse
import math

import numpy as np
import torch
import torch.nn.functional as F

import image_data as data
import logistic_mixture
import trainer
from linear_transformer import LinearTransformer, model_config, override
from unfit import Unfit

HELD_OUT = 5000
SIDE = 28
UNLABELLED = 0.2
STREAMS = ["token", *data.NEIGHBOURS, "row", "column", "class"]


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    trainer.add_arguments(p, tokens=50e6, batch_tokens=12 * SIDE * SIDE, head_lr=0.003)
    p.add_argument("--streams", type=lambda text: text.split(","), default=STREAMS,
                   help="inputs of a step, by name, with commas between (image_data.py)")
    p.add_argument("--head", choices=["logistic_mixture", "categorical"], default="categorical")
    p.add_argument("--validate-on", type=int, default=512, help="held-out images looked at during the run")
    return p.parse_args()


HEADS = {
    "logistic_mixture": {"kind": "logistic_mixture", "components": 10, "levels": data.LEVELS},
    "categorical": {"kind": "categorical", "size": data.LEVELS},
}


CLASSES = ["zero 0 零 〇", "one 1 一", "two 2 二", "three 3 三", "four 4 四", "five 5 五", "six 6 六", "seven 7 七", "eight 8 八", "nine 9 九"]


def make_config(streams: list[str], head: str) -> dict:
    image = {"width": SIDE, "height": SIDE, "channels": 1} | ({"classes": CLASSES} if "class" in streams else {})
    return model_config("image", data.stream_sizes(streams, SIDE, SIDE), HEADS[head], image=image)


def check(images: np.ndarray, labels: np.ndarray, args):
    """Whether the data is what this recipe is for, and enough of it."""
    count, height, width = images.shape
    size = args.batch_tokens // (SIDE * SIDE)
    if (height, width) != (SIDE, SIDE):
        raise Unfit(f"the images have {width} x {height} pixels, and this recipe is for {SIDE} x {SIDE}")
    if len(labels) != count:
        raise Unfit(f"{count} images have {len(labels)} labels")
    if size < 1:
        raise Unfit(f"--batch-tokens {args.batch_tokens} is less than an image of {SIDE * SIDE}")
    if count < HELD_OUT + size:
        raise Unfit(f"{count} images are too few: {HELD_OUT} are held out, and a batch has {size}")
    if labels.max() >= data.CLASSES:
        raise Unfit(f"label {labels.max()} is none of 0 to {data.CLASSES - 1}")
    if not size <= args.validate_on <= HELD_OUT:
        raise Unfit(f"--validate-on {args.validate_on} is not from a batch's {size} to {HELD_OUT} images")


class Mnist:
    report, vocabulary = "bits_per_dim", None

    def __init__(self, args):
        self.args = args
        images = data.read_idx(data.find(args.data, "train-images-idx3-ubyte"))
        self.labels = data.read_labels(data.find(args.data, "train-labels-idx1-ubyte"))
        check(images, self.labels, args)
        self.train, self.held_out = images[:-HELD_OUT], images[-HELD_OUT:]
        self.config = make_config(args.streams, args.head)
        override(self.config, args.set)
        self.model = LinearTransformer(self.config, args.dropout).to(args.device)
        if args.head == "logistic_mixture":
            logistic_mixture.initialise(self.model.head)
        forward = self.forward
        self.compiled = torch.compile(forward) if args.compile else forward

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Nats a pixel. The head stays in f32: a mean wants more than the 8 bits of bf16."""
        with torch.autocast(self.args.device, dtype=torch.bfloat16):
            hidden = self.model.hidden(ids)
        parameters = self.model.head(hidden.float())
        if self.args.head == "categorical":
            return F.cross_entropy(parameters.flatten(0, 1), targets.flatten())
        return -logistic_mixture.log_probability(parameters, targets, data.LEVELS).mean()

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        size = self.args.batch_tokens // (SIDE * SIDE)
        order = rng.permutation(len(self.train))
        return [order[i : i + size] for i in range(0, len(order) - size + 1, size)]

    def count(self, batch: np.ndarray) -> int:
        return len(batch) * SIDE * SIDE

    def loss_of(self, images: np.ndarray, classes: np.ndarray | None = None) -> torch.Tensor:
        arrays = data.make_inputs(images, classes, self.args.streams)
        return self.compiled(*(torch.from_numpy(a).to(self.args.device) for a in arrays))

    def loss(self, batch: np.ndarray) -> torch.Tensor:
        rng = np.random.default_rng(batch)  # the same draw when the step is done again after a resumption
        shown = rng.random(len(batch)) >= UNLABELLED
        return self.loss_of(self.train[batch], np.where(shown, self.labels[batch], data.NO_CLASS))

    @torch.no_grad()
    def validate(self) -> float:
        size = self.args.batch_tokens // (SIDE * SIDE)
        part = self.held_out[: self.args.validate_on // size * size].reshape(-1, size, SIDE, SIDE)
        return sum(self.loss_of(images).item() for images in part) / len(part) / math.log(2)


if __name__ == "__main__":
    trainer.run(Mnist, parse_arguments())
