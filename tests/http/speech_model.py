"""A small model of speech with random weights, written as a model folder: sounds in, made-up characters out."""

import json

import image_model
from image_model import D_MODEL

RATE, ROWS = 8000, 400
WORDS = ["1", "二", "3", "\"", "ü"]
SPEECH = {"sample_rate": RATE, "frame": 200, "hop": 80, "bands": 20, "lowest": 20, "stride": 3, "context": 2}


def config(rows, words):
    conf = image_model.config(1, 1, 1, mixture=False, attention=image_model.LINEAR | {"direction": "both"})
    del conf["image"]
    head = {"kind": "ctc", "size": len(words) + 1}
    return conf | {"task": "speech", "inputs": [{"name": "position", "size": rows}], "head": head, "speech": SPEECH}


def tensors(conf):
    """As `image_model.shapes`. The head is loud, so that it is rarely in doubt, and rarely says nothing."""
    width = SPEECH["bands"] * (2 * SPEECH["context"] + 1)
    shapes = image_model.shapes(conf) | image_model.product("features", D_MODEL, width)
    return shapes | {"head.weight": ([conf["head"]["size"], D_MODEL], 1.0)}


def write(folder, rows=ROWS, words=WORDS, seed=1):
    """A model folder; returns it."""
    folder.mkdir(parents=True)
    conf = config(rows, words)
    (folder / "config.json").write_text(json.dumps(conf))
    (folder / "vocab.txt").write_text("\n".join(["<blank>", *words]) + "\n", encoding="utf-8")
    image_model.write_tensors(folder / "model.safetensors", conf, seed, tensors(conf))
    return folder
