#!/usr/bin/env python3
"""Writes a model of images without its classes: what it is when it is asked for none.

    python3 weights/train/without_classes.py MODEL OUT

The row that the class's table has for "none" is added to every row of another table, of which each value has one as well.
"""

import argparse
import json
import pathlib
import sys

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


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    args = p.parse_args()
    try:
        config = json.loads((args.model / "config.json").read_text(encoding="utf-8"))
        model = LinearTransformer(config)
        load_exported(args.model, model)
        export_model(args.out, model, fold(model, config), None)
    except (Unfit, OSError) as error:
        sys.exit(f"without_classes.py: {error}")


if __name__ == "__main__":
    main()
