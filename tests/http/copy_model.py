"""Small models of the copy task with random weights, written as model folders. Their answers are no copies; no test
depends on that."""

import json

import image_model

SYMBOLS = "abcde海7"
SEPARATOR = len(SYMBOLS)
LENGTH = 20


def config(attention, streams):
    sizes = {"token": len(SYMBOLS) + 1, "place": LENGTH + 1, "position": 2 * LENGTH}
    return {
        "format": "linnet",
        "format_version": 1,
        "task": "copy",
        "n_layers": image_model.LAYERS,
        "n_heads": image_model.HEADS,
        "d_model": image_model.D_MODEL,
        "d_ff": image_model.D_FF,
        "norm": "pre",
        "norm_eps": 1e-5,
        "activation": "gelu",
        "attention": attention,
        "inputs": [{"name": name, "size": sizes[name]} for name in streams],
        "head": {"kind": "categorical", "size": len(SYMBOLS) + 1},
        "copy": {"alphabet": len(SYMBOLS), "length": LENGTH},
    }


def write(folder, attention=image_model.LINEAR, streams=("token", "place"), seed=1, vocabulary=None, **fields):
    """A model folder; returns it."""
    folder.mkdir(parents=True)
    conf = config(attention, streams) | fields
    (folder / "config.json").write_text(json.dumps(conf))
    (folder / "vocab.txt").write_text(vocabulary or "\n".join([*SYMBOLS, "<sep>"]) + "\n", encoding="utf-8")
    image_model.write_tensors(folder / "model.safetensors", conf, seed)
    return folder
