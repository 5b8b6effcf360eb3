#!/usr/bin/env python3
"""Trains the MNIST model and exports it in the server's format.

    python3 weights/train/mnist.py --data DIR --run RUN_DIR --out weights/mnist

DIR holds train-images-idx3-ubyte(.gz) and train-labels-idx1-ubyte(.gz); the last 5,000 images are held
out. It is image.py with the sizes of the paper and names for the digits.
"""

import argparse

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np

import image
import image_data as data
import trainer
from unfit import Unfit

HELD_OUT = 5000
SIDE = 28
STREAMS = ["token", "ww", "n", "nw", "ne", "nn", "row", "column", "class"]
CLASSES = ["0 zero 零 〇", "1 one 一", "2 two 二", "3 three 三", "4 four 四", "5 five 五", "6 six 六", "7 seven 七", "8 eight 八", "9 nine 九"]


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    image.add_arguments(p, tokens=50e6, batch_tokens=12 * SIDE * SIDE, streams=STREAMS)
    return p.parse_args()


class Mnist(image.Images):
    def read(self) -> data.Pictures:
        folder = self.args.data
        images = data.read_idx(data.find(folder, "train-images-idx3-ubyte"))
        height, width = images.shape[1:3]
        if (height, width) != (SIDE, SIDE):
            raise Unfit(f"the images have {width} x {height} pixels, and this recipe is for {SIDE} x {SIDE}")
        return data.Pictures(images, data.read_labels(data.find(folder, "train-labels-idx1-ubyte")), CLASSES)

    def held_out_of(self, count: int) -> np.ndarray:
        if count < HELD_OUT + self.size:
            raise Unfit(f"{count} images are too few: {HELD_OUT} are held out, and a batch has {self.size}")
        if not self.size <= self.args.validate_on <= HELD_OUT:
            raise Unfit(f"--validate-on {self.args.validate_on} is not from a batch's {self.size} to {HELD_OUT} images")
        return np.arange(count) >= count - HELD_OUT

    def sizes(self) -> dict:
        return {}  # those of model_config


if __name__ == "__main__":
    trainer.run(Mnist, parse_arguments())
