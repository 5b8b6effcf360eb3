#!/usr/bin/env python3
"""Trains the couplet model and exports it in the server's format.

    python3 weights/train/couplet.py --data DIR --run RUN_DIR --out weights/couplet

DIR holds train.tsv or train.tsv.xz (a pair per line, upper TAB lower) and badwords.txt (a word per line; pairs with one are
left out). trainer.py says how a run is resumed and how the learning rate changes.

Couplets are few: a model of this size knows them by heart after five epochs. Three options give it more to learn from.
With --both-ways it also answers lower lines. With --verses it also reads neighbouring lines of poems (verses.py makes the file).
With --teacher it learns the probabilities of a larger model in place of single characters.
"""

import argparse
import json
import pathlib

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np
import torch
import torch.nn.functional as F

import couplet_data as data
import trainer
from export import load_exported
from linear_transformer import LinearTransformer, autocast, model_config, override
from text_lines import lines_file, read_lines
from unfit import Unfit


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    trainer.add_arguments(p, tokens=40e6, batch_tokens=8192, head_lr=0.003)
    p.add_argument("--full-batches", action="store_true",
                   help="pairs of neighbouring lengths share a batch, for large --batch-tokens")
    p.add_argument("--both-ways", type=float, default=0.0, metavar="PART", help="the part of the couplets that are read from the lower line")
    p.add_argument("--verses", type=pathlib.Path, help="pairs of verses, in the form of the couplets")
    p.add_argument("--verses-part", type=float, default=0.5, help="the part of them that an epoch has")
    p.add_argument("--teacher", type=pathlib.Path, help="an exported couplet model with the same vocabulary")
    p.add_argument("--teacher-part", type=float, default=0.7, help="of the loss")
    args = p.parse_args()
    for name in ("both_ways", "verses_part", "teacher_part"):
        if not 0 <= getattr(args, name) <= 1:
            raise SystemExit(f"couplet.py: --{name.replace('_', '-')} {getattr(args, name):g} is not from 0 to 1")
    return args


def make_config(vocabulary: list[str]) -> dict:
    n, v = data.MAX_CHARS + 1, len(vocabulary)
    inputs = [("token", v), ("position", n), ("countdown", n), ("mirror", v)]
    head = {"kind": "categorical", "size": v}
    return model_config("couplet", inputs, head, max_chars=data.MAX_CHARS)


def load_data(args) -> tuple[list[str], dict, dict, dict]:
    pairs = data.read_pairs(lines_file(args.data, "train.tsv"))
    kept = data.drop_bad_words(pairs, args.data / "badwords.txt")
    held_out = [p for p in kept if data.is_held_out(p)]
    train = [p for p in kept if not data.is_held_out(p)]
    marks = bool(args.both_ways or args.verses)
    vocabulary = data.build_vocabulary(train, min_count=data.MIN_COUNT, marks=marks)
    verses = [p for p in data.read_pairs(args.verses) if not data.is_held_out(p)] if args.verses else []
    print(f"{len(pairs)} pairs, {len(kept)} without a bad word, {len(train)} to train on, "
          f"{len(held_out)} held out, {len(verses)} verses, {len(vocabulary)} vocabulary entries", flush=True)
    return vocabulary, data.encode(train, vocabulary), data.encode(verses, vocabulary), data.encode(held_out, vocabulary)


class Couplet:
    report = "held_out"

    def __init__(self, args):
        self.args = args
        self.vocabulary, couplets, verses, self.held_out = load_data(args)
        self.couplets = {n: len(rows) for n, rows in couplets.items()}  # they stand before the verses of that length
        self.pairs = {n: np.concatenate([part[n] for part in (couplets, verses) if n in part])
                      for n in sorted(couplets.keys() | verses.keys())}
        if not self.held_out or not couplets:
            raise Unfit(f"the couplets are too few: none of them is {'trained on' if self.held_out else 'held out'}")
        data.check_vocabulary(self.vocabulary)
        self.config = make_config(self.vocabulary)
        override(self.config, args.set)
        self.model = LinearTransformer(self.config, args.dropout).to(args.device)
        self.pairs, self.held_out = ({n: torch.from_numpy(rows).to(args.device) for n, rows in part.items()}
                                     for part in (self.pairs, self.held_out))
        last = len(self.vocabulary)
        self.marks = torch.tensor([data.SEP, *range(last - len(data.MARKS), last)], device=args.device)
        self.data = [*self.pairs.values(), *self.held_out.values()]
        self.nats, self.taught_nats = self.nats_of, self.taught_nats_of
        self.teacher = self.load_teacher() if args.teacher else None
        if args.compile:
            options = trainer.compile_options(args, dynamic=True)
            self.model.compile_parts(**options)
            self.nats = torch.compile(self.nats, **options)
            if self.teacher:
                self.teacher.compile_parts(**options)
                self.taught_nats = torch.compile(self.taught_nats, **options)

    def load_teacher(self):
        config = json.loads((self.args.teacher / "config.json").read_text(encoding="utf-8"))
        if [line for _, line in read_lines(self.args.teacher / "vocab.txt")] != self.vocabulary:
            raise Unfit(f"--teacher {self.args.teacher}: it has another vocabulary than the one of these pairs and options")
        teacher = LinearTransformer(config).to(self.args.device).requires_grad_(False)
        load_exported(self.args.teacher, teacher)
        return teacher

    def nats_of(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean nats per lower character."""
        with autocast(self.args.device):
            logits = self.model.head(hidden)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def taught_nats_of(self, hidden: torch.Tensor, taught: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean nats per lower character, mixed with the cross entropy to the teacher's distribution."""
        with autocast(self.args.device):
            logits, wanted = self.model.head(hidden), self.teacher.head(taught)
        targets, logs = targets.flatten(), F.log_softmax(logits.float().flatten(0, 1), -1)
        there = targets >= 0
        soft = -(F.softmax(wanted.float().flatten(0, 1), -1) * logs).sum(-1)
        hard = F.nll_loss(logs, targets, ignore_index=-100, reduction="none")
        part = self.args.teacher_part
        return ((part * soft + (1 - part) * hard) * there).sum() / there.sum()

    def batches(self, rng: np.random.Generator) -> list[data.Batch]:
        """A part of a batch names each pair by twice its place, plus 1 where it is read from its lower line."""
        chosen = {}
        for n, rows in self.pairs.items():
            couplets = self.couplets.get(n, 0)
            verses = np.flatnonzero(rng.random(len(rows) - couplets) < self.args.verses_part) + couplets
            back = np.concatenate([rng.random(couplets) < self.args.both_ways, rng.random(len(verses)) < 0.5 * bool(self.args.both_ways)])
            chosen[n] = 2 * np.concatenate([np.arange(couplets), verses]) + back
        make = data.full_batches if self.args.full_batches else data.epoch_batches
        return [[(n, chosen[n][order]) for n, order in batch] for batch in make(chosen, self.args.batch_tokens, rng)]

    def count(self, batch: data.Batch) -> int:
        return sum(len(rows) * (2 * n + 1) for n, rows in batch)

    def parts_of(self, batch: data.Batch) -> tuple[list[torch.Tensor], torch.Tensor]:
        """The pairs of each length, turned where they are read from the lower line, and the separators of all."""
        parts, separators = [], []
        for n, codes in batch:
            codes = trainer.send(codes, self.args.device)
            rows, back = self.pairs[n][codes >> 1], codes & 1
            parts.append(torch.where(back[:, None, None] == 1, rows.flip(1), rows))
            separators.append(self.marks[2 * (codes >> 1 >= self.couplets.get(n, 0)) + back])
        return parts, torch.cat(separators)

    def loss_of(self, parts: list[torch.Tensor], separators: "torch.Tensor | int" = data.SEP, teacher=None) -> torch.Tensor:
        """Of pairs [B, 2, n] for each length, and of their separators: one each, or one for all."""
        most, device = max(part.shape[2] for part in parts), parts[0].device
        lengths = torch.cat([torch.full((len(part),), part.shape[2], device=device) for part in parts])
        rows = torch.cat([F.pad(part, (0, most - part.shape[2])) for part in parts])
        ids, places, targets = data.make_inputs(rows, lengths, separators)

        def lower(model) -> torch.Tensor:
            with autocast(self.args.device):
                hidden = model.hidden(ids)
            if len(parts) == 1:
                return hidden[:, -most:].contiguous()  # with the sizes of other batches, or it would be compiled once more
            return hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[2]))

        if teacher is None:
            return self.nats(lower(self.model), targets)
        with torch.no_grad():
            taught = lower(teacher)
        return self.taught_nats(lower(self.model), taught, targets)

    def loss(self, batch: data.Batch) -> torch.Tensor:
        return self.loss_of(*self.parts_of(batch), self.teacher)

    def validate(self) -> float:
        total = count = 0
        for batch in data.full_batches(self.held_out, self.args.batch_tokens, np.random.default_rng(0)):
            parts = [self.held_out[n][torch.from_numpy(rows).to(self.args.device)] for n, rows in batch]
            characters = sum(len(rows) * n for n, rows in batch)
            total += self.loss_of(parts).item() * characters
            count += characters
        return total / count


if __name__ == "__main__":
    trainer.run(Couplet, parse_arguments())
