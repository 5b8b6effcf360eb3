#!/usr/bin/env python3
"""Trains the couplet model and exports it in the server's format.

    python3 weights/train/couplet.py --data DIR --run RUN_DIR --out weights/couplet

DIR holds train.tsv.xz and badwords.txt (upper TAB lower, one pair a line). How a run is resumed and
how the learning rate goes: trainer.py.
"""

import argparse
import math

import numpy as np
import torch
import torch.nn.functional as F

import couplet_data as data
import trainer
from linear_transformer import LinearTransformer, model_config, override
from unfit import Unfit


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    trainer.add_arguments(p, tokens=40e6, batch_tokens=8192, head_lr=0.003)
    return p.parse_args()


def make_config(vocabulary: list[str]) -> dict:
    n, v = data.MAX_CHARS + 1, len(vocabulary)
    inputs = [("token", v), ("position", n), ("countdown", n), ("mirror", v)]
    head = {"kind": "categorical", "size": v}
    return model_config("couplet", inputs, head, max_chars=data.MAX_CHARS)


def load_data(args) -> tuple[list[str], dict, dict]:
    pairs = data.read_pairs(args.data / "train.tsv.xz")
    kept = data.drop_bad_words(pairs, args.data / "badwords.txt")
    held_out = [p for p in kept if data.is_held_out(p)]
    train = [p for p in kept if not data.is_held_out(p)]
    vocabulary = data.build_vocabulary(train, min_count=5)
    print(f"{len(pairs)} pairs, {len(kept)} without a bad word, {len(train)} to train on, "
          f"{len(held_out)} held out, {len(vocabulary)} vocabulary entries", flush=True)
    return vocabulary, data.encode(train, vocabulary), data.encode(held_out, vocabulary)


class Couplet:
    report = "held_out"

    def __init__(self, args):
        self.args = args
        self.vocabulary, self.pairs, self.held_out = load_data(args)
        if not self.held_out or not self.pairs:
            raise Unfit(f"the couplets are too few: none of them is {'trained on' if self.held_out else 'held out'}")
        self.config = make_config(self.vocabulary)
        override(self.config, args.set)
        self.model = LinearTransformer(self.config, args.dropout).to(args.device)
        forward = self.forward
        self.compiled = torch.compile(forward, dynamic=True) if args.compile else forward

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean nats per lower character; the head runs on the lower part only."""
        with torch.autocast(self.args.device, dtype=torch.bfloat16):
            logits = self.model.head(self.model.hidden(ids)[:, -targets.shape[1] :])
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def batches(self, rng: np.random.Generator) -> list[tuple[int, np.ndarray]]:
        return list(data.epoch_batches(self.pairs, self.args.batch_tokens, rng))

    def count(self, batch: tuple[int, np.ndarray]) -> int:
        return len(batch[1]) * (2 * batch[0] + 1)

    def loss_of(self, rows: np.ndarray) -> torch.Tensor:  # [B, 2, n]
        return self.compiled(*(torch.from_numpy(a).to(self.args.device) for a in data.make_inputs(rows)))

    def loss(self, batch: tuple[int, np.ndarray]) -> torch.Tensor:
        return self.loss_of(self.pairs[batch[0]][batch[1]])

    @torch.no_grad()
    def validate(self) -> float:
        total = count = 0
        for n, rows in self.held_out.items():
            for part in np.array_split(rows, math.ceil(len(rows) * (2 * n + 1) / self.args.batch_tokens)):
                total += self.loss_of(part).item() * part.shape[0] * n
                count += part.shape[0] * n
        return total / count


if __name__ == "__main__":
    trainer.run(Couplet, parse_arguments())
