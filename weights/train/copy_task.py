#!/usr/bin/env python3
"""Trains a model to copy sequences (section 4.1 of the linear transformer's paper) and exports it.

    python3 weights/train/copy_task.py --set mixer=linear --run RUN_DIR --out weights/copy/linear

Sequences are drawn at random as the run goes, so there is no data and nothing is seen twice; the alphabet's symbols
are alike. A batch has sequences of one length, drawn from 1 to --length, every other one of the greatest. How a run
is resumed and how the learning rate goes: trainer.py.
"""

import argparse

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np
import torch
import torch.nn.functional as F

import trainer
from linear_transformer import LinearTransformer, model_config, override
from unfit import Unfit

SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyz"
SEPARATOR = "<sep>"
STREAMS = ["token", "place"]
EPOCH = 1000  # batches
HELD_OUT, HELD_OUT_SEED = 200, 2**31


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    trainer.add_arguments(p, tokens=10e6, batch_tokens=8192, head_lr=0.003, data=False)
    p.add_argument("--alphabet", type=int, default=10, help=f"different symbols, at most {len(SYMBOLS)}")
    p.add_argument("--length", type=int, default=64, help="symbols of the longest sequence")
    p.add_argument("--streams", type=lambda text: text.split(","), default=STREAMS,
                   help="inputs of a step, by name, with commas between: token, place, position")
    return p.parse_args()


def make_config(args) -> dict:
    sizes = {"token": args.alphabet + 1, "place": args.length + 1, "position": 2 * args.length}
    config = model_config("copy", [(name, sizes[name]) for name in args.streams],
                          {"kind": "categorical", "size": args.alphabet + 1}, n_layers=2,
                          copy={"alphabet": args.alphabet, "length": args.length})
    return config | {"n_heads": 4, "d_model": 64, "d_ff": 128, "d_key": 32, "d_value": 32}


def input_rows(symbols: np.ndarray, alphabet: int, streams: list[str]) -> np.ndarray:
    """[B, n] -> [B, 2 n, streams]: the symbols, the separator, their copy but its last (model/tasks/copy.h)."""
    count, n = symbols.shape
    separator = np.full((count, 1), alphabet)
    whole = np.broadcast_to(np.arange(2 * n), (count, 2 * n))
    known = {"token": np.concatenate([symbols, separator, symbols[:, :-1]], 1),
             "place": np.where(whole < n, whole + 1, whole - n),
             "position": whole}
    return np.stack([known[name] for name in streams], -1)


class Copy:
    report = "held_out"

    def __init__(self, args):
        trainer.check_range(args, "alphabet", 1, len(SYMBOLS))
        trainer.check_range(args, "length", 1, 4096)
        unknown = [name for name in args.streams if name not in ("token", "place", "position")]
        if unknown:
            raise Unfit(f"--streams: there is no {', '.join(unknown)}")
        self.args = args
        self.vocabulary = [*SYMBOLS[: args.alphabet], SEPARATOR]
        self.config = make_config(args)
        override(self.config, args.set)
        self.model = LinearTransformer(self.config, args.dropout).to(args.device)
        self.compiled = torch.compile(self.forward, dynamic=True) if args.compile else self.forward

    def forward(self, ids: torch.Tensor, symbols: torch.Tensor) -> torch.Tensor:
        """Mean nats a symbol of the copy. The model is small: its products stay in f32."""
        logits = self.model.head(self.model.hidden(ids)[:, -symbols.shape[1] :])
        return F.cross_entropy(logits.flatten(0, 1), symbols.flatten())

    def batches(self, rng: np.random.Generator) -> list[tuple[int, int]]:
        """Of each its length and the seed of its symbols."""
        lengths = rng.integers(1, self.args.length, EPOCH, endpoint=True)
        lengths[::2] = self.args.length
        return list(zip(lengths.tolist(), rng.integers(2**31, size=EPOCH).tolist()))

    def size(self, n: int) -> int:
        return max(1, self.args.batch_tokens // (2 * n))

    def count(self, batch: tuple[int, int]) -> int:
        return 2 * batch[0] * self.size(batch[0])

    def loss_of(self, symbols: np.ndarray) -> torch.Tensor:
        rows = input_rows(symbols, self.args.alphabet, self.args.streams)
        return self.compiled(*(torch.from_numpy(a).to(self.args.device) for a in (rows, symbols)))

    def loss(self, batch: tuple[int, int]) -> torch.Tensor:
        n, seed = batch
        return self.loss_of(np.random.default_rng(seed).integers(self.args.alphabet, size=(self.size(n), n)))

    @torch.no_grad()
    def validate(self) -> float:
        """Nats a symbol of sequences of the greatest length."""
        size = (HELD_OUT, self.args.length)
        return self.loss_of(np.random.default_rng(HELD_OUT_SEED).integers(self.args.alphabet, size=size)).item()


if __name__ == "__main__":
    trainer.run(Copy, parse_arguments())
