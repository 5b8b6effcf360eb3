#!/usr/bin/env python3
"""Teaches a model of MNIST to forget, so that it paints strips of digits, one sequence without end.

    python3 weights/train/strip.py --data DIR --base weights/mnist --out weights/strip

Every layer of linear attention becomes one of gated_linear (mixers/): a gate multiplies the layer's state before each pixel.
Only the gates are trained, for what the next digit of a strip needs: they shut at a digit's first pixel, where the memory
still has the digit above, and are open at all others. A gate sees no more than the layer does, so this is a classifier per
layer, with a margin. The folder has the gates alone, and a config.json that names the base. DIR is that of mnist.py. The
figures are bits per pixel of held-out digits: as the last of --pictures in a strip, and alone.
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
from linear_transformer import LinearTransformer
from unfit import Unfit

GATES = ".attn.forget."
MARGIN = 14.0         # of a gate's logit: a shut gate leaves a millionth, an open one loses a thousandth in a picture
MOST_PICTURES = 512   # of a strip: the page keeps the state after each, 132 MiB in all
NONE = len(mnist.CLASSES)
HELD_OUT = 24


def load_base(folder: pathlib.Path) -> tuple[LinearTransformer, dict]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config.get("attention", {}).get("kind") != "linear" or config.get("image", {}).get("height") != mnist.SIDE:
        raise Unfit(f"--base {folder} is no model of linear attention that mnist.py trained")
    config["attention"]["kind"] = "gated_linear"
    model = LinearTransformer(config)
    model.load_state_dict(export.read_safetensors(folder / "model.safetensors"), strict=False)
    return model.eval(), config


def make_strips(images: np.ndarray, pictures: int, config: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """Input ids and targets of strips. Every picture has the inputs that it would have alone."""
    streams = [stream["name"] for stream in config["inputs"]]
    ids, targets = data.make_inputs(torch.from_numpy(images.copy()), torch.full([len(images)], NONE), streams)
    return ids.reshape(-1, pictures * ids.shape[1], ids.shape[2]), targets.reshape(-1, pictures * targets.shape[1])


@torch.no_grad()
def inputs_of_gates(model: LinearTransformer, ids: torch.Tensor) -> list[torch.Tensor]:
    """[rows, d] for every layer."""
    seen = []
    hooks = [layer.attn.forget.register_forward_hook(lambda _m, inputs, _y: seen.append(inputs[0].flatten(0, 1)))
             for layer in model.layers]
    model.hidden(ids)
    for hook in hooks:
        hook.remove()
    return seen


def fit(gate: torch.nn.Linear, x: torch.Tensor, first: torch.Tensor, steps: int) -> float:
    """One direction for all heads of a layer; returns the least margin. The pixel that lacks most of its margin is learnt from."""
    weight, bias = torch.zeros(x.shape[1], requires_grad=True), torch.tensor(MARGIN, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=0.05)
    sign = 1 - 2 * first.float()
    for _ in range(steps):
        optimizer.zero_grad()
        short = F.relu(1.5 * MARGIN - sign * (x @ weight + bias))
        (short[first].logsumexp(0) + short[~first].logsumexp(0)).backward()
        optimizer.step()
    with torch.no_grad():
        gate.weight.copy_(weight.bfloat16().expand_as(gate.weight))
        gate.bias.copy_(bias.bfloat16().expand_as(gate.bias))
        return (sign * (x @ gate.weight[0] + gate.bias[0])).min().item()


@torch.no_grad()
def bits(model: LinearTransformer, ids: torch.Tensor, targets: torch.Tensor, pictures: int) -> list[float]:
    """Per pixel of the last pictures of strips: in their places, and alone."""
    each = ids.shape[1] // pictures
    places = (torch.cat([model(strip[None]) for strip in ids])[:, -each:], model(ids[:, -each:]))
    return [F.cross_entropy(logits.flatten(0, 1), targets[:, -each:].flatten()).item() / math.log(2) for logits in places]


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
    torch.set_num_threads(args.threads)
    model, config = load_base(args.base)
    images = data.read_idx(data.find(args.data, "train-images-idx3-ubyte"))
    if len(images) < args.images + HELD_OUT:
        raise Unfit(f"{len(images)} images are too few: {HELD_OUT} are held out")
    ids, _ = make_strips(images[: args.images], 1, config)
    first = torch.arange(args.images * ids.shape[1]) % ids.shape[1] == 0
    for i, x in enumerate(inputs_of_gates(model, ids)):
        margin = fit(model.layers[i].attn.forget, x, first, args.steps)
        print(f"layer {i}: least margin {margin:.1f}", flush=True)
        if margin < MARGIN / 2:
            raise Unfit(f"the gate of layer {i} does not know a first pixel: more --steps or --images")
    held_out = images[-HELD_OUT // args.pictures * args.pictures :]
    figures = bits(model, *make_strips(held_out, args.pictures, config), args.pictures)
    print("bits per pixel: picture {} {:.4f}, alone {:.4f}".format(args.pictures, *figures))
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
