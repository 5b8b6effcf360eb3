#!/usr/bin/env python3
"""Teaches a model of MNIST to forget, so that it paints strips of digits, one sequence without end.

    python3 weights/train/strip.py --data DIR --base weights/mnist --out weights/strip

Every layer of linear attention becomes one of gated_linear (mixers/): a gate multiplies the layer's state before each pixel.
Only the gates are trained. A gate shuts at a digit's first pixel, where the memory still has the digit above, and stays open
at all other pixels. So each gate is a classifier of its layer's input, with a margin. A class moves these inputs, so the gates
see every class at the first pixel, and each picture with its class and without one. The folder has the gates alone, and a
config.json that names the base. DIR is that of mnist.py. The figures are bits per pixel of held-out digits with their classes:
as the last of --pictures in a strip, alone, and alone in the base, which forgets nothing.
"""

import argparse
import json
import math
import os
import pathlib
import sys

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np
import torch
import torch.nn.functional as F

import export
import image_data as data
import mnist
import trainer
from linear_transformer import LinearTransformer
from unfit import Unfit

GATES = ".attn.forget."
MARGIN = 14.0         # of a gate's logit: a shut gate leaves a millionth, an open one loses a thousandth in a picture
WANTED = 1.5 * MARGIN  # what is trained for: rounding to bf16 and unseen pictures take some of it
MOST_PICTURES = 512   # of a strip: the page keeps the state after each, 132 MiB in all
NONE = len(mnist.CLASSES)
HELD_OUT = 24
BATCH = 8  # pictures


def load_base(folder: pathlib.Path) -> tuple[LinearTransformer, dict]:
    """Its gates are open."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config.get("attention", {}).get("kind") != "linear" or config.get("image", {}).get("height") != mnist.SIDE:
        raise Unfit(f"--base {folder} is no model of linear attention that mnist.py trained")
    config["attention"]["kind"] = "gated_linear"
    model = LinearTransformer(config)
    model.load_state_dict(export.read_safetensors(folder / "model.safetensors"), strict=False)
    for layer in model.layers:
        torch.nn.init.constant_(layer.attn.forget.bias, WANTED)
    return model.eval(), config


def make_strips(images: np.ndarray, classes: np.ndarray, pictures: int, config: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """Input ids and targets of strips. Every picture has the inputs that it would have alone."""
    streams = [stream["name"] for stream in config["inputs"]]
    ids, targets = data.make_inputs(torch.from_numpy(images.copy()), torch.from_numpy(classes.astype(np.int64)), streams)
    return ids.reshape(-1, pictures * ids.shape[1], ids.shape[2]), targets.reshape(-1, pictures * targets.shape[1])


@torch.no_grad()
def inputs_of_gates(model: LinearTransformer, ids: torch.Tensor) -> list[torch.Tensor]:
    """[pictures, pixels, d] for every layer."""
    seen = [[] for _ in model.layers]
    hooks = [layer.attn.forget.register_forward_hook(lambda _m, inputs, _y, own=own: own.append(inputs[0]))
             for layer, own in zip(model.layers, seen)]
    for batch in ids.split(BATCH):
        model.hidden(batch)
    for hook in hooks:
        hook.remove()
    return [torch.cat(own) for own in seen]


def fit(gate: torch.nn.Linear, first: torch.Tensor, others: torch.Tensor, steps: int) -> float:
    """One direction for all heads of a layer; returns the least margin. The pixel that lacks most of its margin is learnt from."""
    weight, bias = torch.zeros(others.shape[1], requires_grad=True), torch.tensor(MARGIN, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        shuts, opens = F.relu(WANTED + first @ weight + bias), F.relu(WANTED - others @ weight - bias)
        if shuts.max() + opens.max() == 0:
            break
        (shuts.logsumexp(0) + opens.logsumexp(0)).backward()
        optimizer.step()
    with torch.no_grad():
        gate.weight.copy_(weight.bfloat16().expand_as(gate.weight))
        gate.bias.copy_(bias.bfloat16().expand_as(gate.bias))
        return min(-(first @ gate.weight[0] + gate.bias[0]).max().item(), (others @ gate.weight[0] + gate.bias[0]).min().item())


@torch.no_grad()
def bits(model: LinearTransformer, ids: torch.Tensor, targets: torch.Tensor, last: int) -> float:
    """Per pixel of the last pixels of sequences."""
    logits = torch.cat([model(sequence[None])[:, -last:] for sequence in ids])
    return F.cross_entropy(logits.flatten(0, 1), targets[:, -last:].flatten()).item() / math.log(2)


def read(folder: pathlib.Path, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images of all classes in turn with their classes, and those that are held out."""
    images = data.read_idx(data.find(folder, "train-images-idx3-ubyte"))
    labels = data.read_labels(data.find(folder, "train-labels-idx1-ubyte"))
    if len(images) < count + HELD_OUT or len(labels) != len(images):
        raise Unfit(f"{len(images)} images with {len(labels)} labels are too few: {HELD_OUT} are held out")
    first = labels[: min(50 * count, len(labels) - HELD_OUT)]
    earlier = [(first[:i] == label).sum() for i, label in enumerate(first)]
    chosen = np.argsort(earlier, kind="stable")[:count]
    return images[chosen], labels[chosen], images[-HELD_OUT:], labels[-HELD_OUT:]


def write(folder: pathlib.Path, model: LinearTransformer, config: dict, base: pathlib.Path):
    folder.mkdir(parents=True, exist_ok=True)
    gates = {name: tensor for name, tensor in model.state_dict().items() if GATES in name}
    export.write_safetensors(folder / "model.safetensors", gates, config)
    own = {"base": os.path.relpath(base, folder), "attention": config["attention"],
           "image": {"height": MOST_PICTURES * mnist.SIDE, "period": mnist.SIDE}}
    (folder / "config.json").write_text(json.dumps(own, indent=2) + "\n", encoding="utf-8")


def train(args):
    if args.images < 1 or args.steps < 1 or not 2 <= args.pictures <= HELD_OUT:
        raise Unfit(f"--images and --steps are at least 1, --pictures 2 to {HELD_OUT}")
    trainer.check_range(args, "threads", 1, trainer.MOST_THREADS)
    torch.set_num_threads(args.threads)
    model, config = load_base(args.base)
    images, labels, held_out, held_out_labels = read(args.data, args.images)
    whole = HELD_OUT // args.pictures * args.pictures
    strips = make_strips(held_out[:whole], held_out_labels[:whole], args.pictures, config)
    size = mnist.SIDE**2
    last = [part[:, -size:] for part in strips]
    of_base = bits(model, *last, size)
    unnamed = np.full_like(labels, NONE)
    seen, _ = make_strips(np.concatenate([images, images]), np.concatenate([labels, unnamed]), 1, config)
    begun, _ = make_strips(np.repeat(images[:1], NONE + 1, 0), np.arange(NONE + 1), 1, config)
    for i, (x, begin) in enumerate(zip(inputs_of_gates(model, seen), inputs_of_gates(model, begun[:, :1]))):
        margin = fit(model.layers[i].attn.forget, begin[:, 0], x[:, 1:].flatten(0, 1), args.steps)
        print(f"layer {i}: least margin {margin:.1f}", flush=True)
        if margin < MARGIN / 2:
            raise Unfit(f"the gate of layer {i} does not know a first pixel: more --steps or --images")
    print(f"bits per pixel: picture {args.pictures} {bits(model, *strips, size):.4f}, alone {bits(model, *last, size):.4f}, "
          f"alone in the base {of_base:.4f}", flush=True)
    write(args.out, model, config, args.base)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--base", type=pathlib.Path, required=True, help="folder of the model that paints single digits")
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--images", type=int, default=60, help="digits that the gates learn from")
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--pictures", type=int, default=4, help="of a strip on which the figures are taken")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    try:
        train(p.parse_args())
    except (Unfit, OSError) as error:
        sys.exit(f"strip.py: {error}")


if __name__ == "__main__":
    main()
