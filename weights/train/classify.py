#!/usr/bin/env python3
"""Judges digits that a server was asked for, by a small classifier that learns from MNIST first.

    linnet serve --models weights &
    python3 weights/train/classify.py --data DIR --url http://127.0.0.1:8080 --model mnist
    python3 weights/train/classify.py --data DIR --model strip --strip 300

DIR holds MNIST's four files. The classifier, two convolutions and two products, learns from the training images for
--epochs and is tried on the test images; then the server paints --count pictures of every class. With --strip it paints so
many digits below each other in one sequence, each of a random class, and the figures are by place in it.
"""

import argparse
import io
import os
import pathlib
import sys

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

import image_data as data  # noqa: E402
from linnet_weights.client import Client, Failure  # noqa: E402
from unfit import Unfit  # noqa: E402

AT_ONCE = 50  # pictures of a request, images of a batch
A_ROW = 8     # pictures of the sheet
SIDE = 28     # pixels
A_PART = 60   # digits of a strip that have a line of figures
SURE = 0.9    # the classifier's probability of a digit that it is sure of


class Classifier(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 7 * 7, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10))


def read(folder: pathlib.Path, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    images = data.read_idx(data.find(folder, f"{name}-images-idx3-ubyte"))
    labels = data.read_labels(data.find(folder, f"{name}-labels-idx1-ubyte"))
    return as_input(images[..., 0]), torch.from_numpy(labels.copy())


def as_input(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images.astype(np.float32) / 255)[:, None]


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int):
    steps = epochs * (len(images) // AT_ONCE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(images))[: len(images) // AT_ONCE * AT_ONCE].view(-1, AT_ONCE):
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            schedule.step()


@torch.no_grad()
def probabilities(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    model.eval()
    return torch.cat([model(part).softmax(1) for part in images.split(1000)])


def predict(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    return probabilities(model, images).argmax(1)


def paint(client: Client, model: str, digit: int, count: int) -> torch.Tensor:
    pictures = [picture for seed in range(count // AT_ONCE)
                for picture in client.images(model, prompt=str(digit), n=AT_ONCE, seed=seed).pictures]
    return as_input(np.stack([np.asarray(Image.open(io.BytesIO(p.png)).convert("L")) for p in pictures]))


def paint_strip(client: Client, model: str, wanted: list[int], seed: int, temperature: float) -> torch.Tensor:
    """Each digit continues the state that the previous one has left."""
    state = None
    for digit in wanted:
        answer = client.images(None if state else model, prompt="", class_=digit, state=state, seed=seed, temperature=temperature,
                               max_tokens=SIDE * SIDE, return_state=True)
        if state:
            client.delete_state(state)
        if answer.states[0] is None:
            raise Unfit(f"the server did not keep a state: {answer.warnings}")
        state = answer.states[0].id
    strip = np.asarray(Image.open(io.BytesIO(answer.pictures[0].png)).convert("L"))
    return as_input(strip[: len(wanted) * SIDE].reshape(-1, SIDE, SIDE))


def judge_strip(args, model: nn.Module):
    wanted = np.random.default_rng(args.seed).integers(10, size=args.strip)
    pictures = paint_strip(Client(args.url), args.model, wanted.tolist(), args.seed, args.temperature)
    found = probabilities(model, pictures)
    right, sure = found.argmax(1).numpy() == wanted, found.max(1).values.numpy() >= SURE
    for name, share in [(f"{i + 1} to {min(i + A_PART, args.strip)}", slice(i, i + A_PART)) for i in range(0, args.strip, A_PART)] + [
            ("all", slice(None))]:
        print(f"digits {name}: {right[share].mean():.4f} right, {sure[share].mean():.4f} with at least {SURE}", flush=True)
    if args.sheet:
        save(list(pictures[: args.strip // 25 * 25].split(25)), args.sheet)


def save(rows: list[torch.Tensor], path: pathlib.Path):
    """A row of pictures for each class, a line of grey between."""
    cells = [F.pad(row[:, 0], (1, 1, 1, 1), value=0.25) for row in rows]
    sheet = torch.cat([torch.cat(list(row), 1) for row in cells], 0)
    Image.fromarray((sheet * 255).round().to(torch.uint8).numpy()).save(path)


def judge(args):
    if args.count < AT_ONCE or args.count % AT_ONCE or args.epochs < 1:
        raise Unfit(f"--count {args.count} is not a multiple of {AT_ONCE}, or --epochs {args.epochs} is not above 0")
    most = max(16, 4 * (os.cpu_count() or 1))
    if not 0 <= args.seed < 2**63 or not 1 <= args.threads <= most:
        raise Unfit(f"--seed {args.seed} is not from 0 to {2**63 - 1}, or --threads {args.threads} not from 1 to {most}")
    if args.strip < 0:
        raise Unfit(f"--strip {args.strip} is below 0")
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    model = Classifier()
    train(model, *read(args.data, "train"), args.epochs)
    images, labels = read(args.data, "t10k")
    print(f"test images: {(predict(model, images) == labels).double().mean():.4f} right", flush=True)
    if args.strip > 0:
        return judge_strip(args, model)
    client, right, rows = Client(args.url), [], []
    for digit in range(10):
        pictures = paint(client, args.model, digit, args.count)
        rows.append(pictures[:A_ROW])
        found = predict(model, pictures)
        right.append((found == digit).double().mean().item())
        wrong = {int(d): int(n) for d, n in zip(*np.unique(found[found != digit], return_counts=True))}
        print(f"{digit}: {right[-1]:.4f} right" + "".join(f", {n} a {d}" for d, n in wrong.items()), flush=True)
    print(f"asked for: {sum(right) / 10:.4f} right of {10 * args.count}")
    if args.sheet:
        save(rows, args.sheet)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--url", default="http://127.0.0.1:8080")
    p.add_argument("--model", default="mnist")
    p.add_argument("--count", type=int, default=200, help=f"pictures of a class, a multiple of {AT_ONCE}")
    p.add_argument("--strip", type=int, default=0, metavar="N", help="N digits of one sequence, in place of --count of each class")
    p.add_argument("--temperature", type=float, default=1.0, help="of the digits of --strip")
    p.add_argument("--sheet", type=pathlib.Path, help=f"a PNG of the first {A_ROW} of each class, or of the strip")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seed", type=int, default=1)
    try:
        judge(p.parse_args())
    except (Unfit, OSError, Failure) as error:
        sys.exit(f"classify.py: {error}")


if __name__ == "__main__":
    main()
