#!/usr/bin/env python3
"""Trains the couplet model and exports it in the server's format.

    python3 weights/train/couplet.py --data DIR --run RUN_DIR --out weights/couplet

DIR holds train.tsv.xz and badwords.txt (upper TAB lower, one pair a line). How a run is resumed and
how the learning rate goes: trainer.py.
"""

import argparse

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np
import torch
import torch.nn.functional as F

import couplet_data as data
import trainer
from linear_transformer import LinearTransformer, autocast, model_config, override
from unfit import Unfit


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    trainer.add_arguments(p, tokens=40e6, batch_tokens=8192, head_lr=0.003)
    p.add_argument("--full-batches", action="store_true",
                   help="pairs of neighbouring lengths share a batch, for large --batch-tokens")
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
        self.pairs, self.held_out = ({n: torch.from_numpy(rows).to(args.device) for n, rows in part.items()}
                                     for part in (self.pairs, self.held_out))
        self.data = [*self.pairs.values(), *self.held_out.values()]
        self.nats = self.nats_of
        if args.compile:
            options = trainer.compile_options(args, dynamic=True)
            self.model.compile_parts(**options)
            self.nats = torch.compile(self.nats, **options)

    def nats_of(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean nats per lower character."""
        with autocast(self.args.device):
            logits = self.model.head(hidden)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def batches(self, rng: np.random.Generator) -> list[data.Batch]:
        return (data.full_batches if self.args.full_batches else data.epoch_batches)(self.pairs, self.args.batch_tokens, rng)

    def count(self, batch: data.Batch) -> int:
        return sum(len(rows) * (2 * n + 1) for n, rows in batch)

    def parts_of(self, pairs: dict[int, torch.Tensor], batch: data.Batch) -> list[torch.Tensor]:
        return [pairs[n][torch.from_numpy(rows).to(self.args.device)] for n, rows in batch]

    def loss_of(self, parts: list[torch.Tensor]) -> torch.Tensor:  # [B, 2, n] each
        most, device = max(part.shape[2] for part in parts), parts[0].device
        lengths = torch.cat([torch.full((len(part),), part.shape[2], device=device) for part in parts])
        rows = torch.cat([F.pad(part, (0, most - part.shape[2])) for part in parts])
        ids, places, targets = data.make_inputs(rows, lengths)
        with autocast(self.args.device):
            hidden = self.model.hidden(ids)
        if len(parts) == 1:
            lower = hidden[:, -most:].contiguous()  # with the sizes of other batches, or it would be compiled once more
        else:
            lower = hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[2]))
        return self.nats(lower, targets)

    def loss(self, batch: data.Batch) -> torch.Tensor:
        return self.loss_of(self.parts_of(self.pairs, batch))

    def validate(self) -> float:
        total = count = 0
        for batch in data.full_batches(self.held_out, self.args.batch_tokens, np.random.default_rng(0)):
            characters = sum(len(rows) * n for n, rows in batch)
            total += self.loss_of(self.parts_of(self.held_out, batch)).item() * characters
            count += characters
        return total / count


if __name__ == "__main__":
    trainer.run(Couplet, parse_arguments())
