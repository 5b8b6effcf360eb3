#!/usr/bin/env python3
"""Writes a model of images with other classes than it was trained with.

    python3 weights/train/classes.py MODEL OUT --drop
    python3 weights/train/classes.py MODEL OUT --scale 2

--drop: without classes, as for a request without one. The table's row for "none" is added to every row of another table
that every value uses, too. --scale S: the rows of the classes are moved S times as far away from the row of "none", for
a stronger effect.
"""

import argparse
import json
import pathlib
import sys

import packages  # noqa: F401 (before the packages that may be missing)

import torch

from export import export_model, load_exported
from linear_transformer import LinearTransformer
from unfit import Unfit


def fold(model: LinearTransformer, config: dict) -> dict:
    """Takes the classes out of the model; returns its config."""
    streams = [stream["name"] for stream in config["inputs"]]
    if "class" not in streams or "row" not in streams:
        raise Unfit("the model has no classes, or no table of rows to add theirs to")
    tables = model.embed
    with torch.no_grad():
        tables["row"].weight += tables["class"].weight[len(config["image"]["classes"])]
    del tables["class"]
    image = {key: value for key, value in config["image"].items() if key != "classes"}
    return config | {"inputs": [s for s in config["inputs"] if s["name"] != "class"], "image": image}


def scale(model: LinearTransformer, factor: float):
    """Moves the rows of the classes; that of "none", the last, stays."""
    if "class" not in model.embed:
        raise Unfit("the model has no classes")
    with torch.no_grad():
        table = model.embed["class"].weight
        table[:-1] = table[-1] + factor * (table[:-1] - table[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--drop", action="store_true")
    what.add_argument("--scale", type=float)
    args = p.parse_args()
    try:
        config = json.loads((args.model / "config.json").read_text(encoding="utf-8"))
        model = LinearTransformer(config)
        load_exported(args.model, model)
        if args.drop:
            config = fold(model, config)
        else:
            scale(model, args.scale)
        export_model(args.out, model, config, None)
    except (Unfit, OSError) as error:
        sys.exit(f"classes.py: {error}")


if __name__ == "__main__":
    main()
