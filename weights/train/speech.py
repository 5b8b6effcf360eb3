#!/usr/bin/env python3
"""Trains a model that hears digits (section 4.3 of the linear transformer's paper) and exports it.

    python3 weights/train/speech.py --data DIR --run RUN_DIR --out weights/digits-spoken

DIR holds DIGIT_SPEAKER_INDEX.wav, as the Free Spoken Digit Dataset does. The model learns from streams of 1 to --most
digits, joined from recordings of one speaker. For every 30 ms it gives a digit or nothing, by connectionist temporal
classification (Graves et al. 2006). Recordings 0 to 4 of a digit and all of --unseen are never
looked at; 5 to 7 are for the figure in the log, the digit error rate.
"""

import argparse

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import mixers
import speech_data as data
import trainer
from linear_transformer import LinearTransformer, model_config, override
from unfit import Unfit

VOCABULARY = ["<blank>", *"0123456789"]
BLANK = 0
EPOCH = 200  # batches
MOST_ROWS = 1024
CHECKED, CHECKED_SEED = 200, 2**31  # streams of the figure in the log
WAVES = 1000  # rows of the longest wave among the positions


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    trainer.add_arguments(p, tokens=10e6, batch_tokens=3000, head_lr=0.003)
    trainer.add_sizes(p, layers=4, width=128, heads=4)
    p.add_argument("--most", type=int, default=8, help="digits of a stream")
    p.add_argument("--unseen", default="theo", help="a speaker that is left out, with all recordings")
    return p.parse_args()


def make_config(args, rate: int) -> dict:
    config = model_config("speech", [("position", MOST_ROWS)], {"kind": "ctc", "size": len(VOCABULARY)},
                          speech=data.make_config(rate)) | trainer.sizes_of(args) | {"d_ff": 4 * args.width}
    override(config, args.set)
    for own in config["attention"] if isinstance(config["attention"], list) else [config["attention"]]:
        if not getattr(mixers.find(own["kind"]).Mixer, "BOTH_WAYS", False):
            raise Unfit(f"mixer {own['kind']} does not look both ways")
        own["direction"] = "both"
    return config


def waves(rows: int, width: int) -> torch.Tensor:
    """[rows, width]: sines and cosines of lengths from 4 rows to WAVES."""
    lengths = 4 * (WAVES / 4) ** (torch.arange(width // 2) / (width // 2 - 1))
    angles = 2 * torch.pi * torch.arange(rows)[:, None] / lengths
    return 0.2 * torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Listener(LinearTransformer):
    """Rows of features through a product, in the place of a token's row of a table."""

    def __init__(self, config: dict, dropout: float):
        super().__init__(config, dropout)
        self.features = nn.Linear(data.row_width(config["speech"]), config["d_model"])
        with torch.no_grad():
            self.embed["position"].weight.copy_(waves(MOST_ROWS, config["d_model"]))

    def forward(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """[B, T, width], [B, T] -> log-probabilities [B, T, ids]"""
        x = self.features(rows) + self.embed["position"](positions)
        for layer in self.layers:
            x = layer(x, {})
        return F.log_softmax(self.head(self.final_norm(x)).float(), -1)


def collapse(ids: list[int]) -> list[int]:
    """Digits of the best id of each row: what repeats is one, and blanks are none."""
    return [b - 1 for a, b in zip([BLANK, *ids], ids) if b not in (a, BLANK)]


class Speech:
    report = "digit_error_rate"

    def __init__(self, args):
        trainer.check_sizes(args)
        trainer.check_range(args, "most", 1, 20)
        self.args, self.vocabulary = args, VOCABULARY
        recordings = data.Recordings(args.data)
        if args.unseen not in recordings.found:
            raise Unfit(f"--unseen {args.unseen} is none of the speakers {', '.join(recordings.found)}")
        self.data = [samples for digits in recordings.found.values() for digit in digits for _, samples in digit]
        speakers = [s for s in recordings.found if s != args.unseen]
        held_out = data.TEST_INDEXES + data.HELD_OUT
        self.train, self.held_out = recordings.part(speakers, held_out, 1000), recordings.part(speakers, data.TEST_INDEXES, held_out)
        self.config = make_config(args, recordings.rate)
        self.model = Listener(self.config, args.dropout).to(args.device)

    def batches(self, rng: np.random.Generator) -> list[int]:
        """Of each the seed of its streams."""
        return rng.integers(2**31, size=EPOCH).tolist()

    def streams(self, seed: int) -> list[tuple[np.ndarray, list[int]]]:
        """As many as fill a batch, with other loudness, speed and noise."""
        rng = np.random.default_rng(seed)
        rate, found, longest = self.config["speech"]["sample_rate"], [], 0
        while True:
            samples, digits = data.join(self.train, rate, rng, self.args.most)
            samples = data.faster_by(rng, samples)
            longest = max(longest, len(samples))
            if found and longest * (len(found) + 1) > self.args.batch_tokens * rate * 0.03:
                return self.of_one_length(found, rng)
            found.append((samples, digits))

    def of_one_length(self, found: list, rng: np.random.Generator) -> list[tuple[np.ndarray, list[int]]]:
        """Pads shorter sounds with silence on both sides, and then adds noise."""
        longest, streams = max(len(samples) for samples, _ in found), []
        for samples, digits in found:
            before = rng.integers(longest - len(samples), endpoint=True)
            whole = np.pad(samples, (before, longest - len(samples) - before))
            streams.append((data.louder_by(rng, whole), digits))
        return streams

    def rows(self, samples: np.ndarray, rng: "np.random.Generator | None" = None) -> np.ndarray:
        bands = data.normalised(data.log_mel(samples, self.config["speech"]))
        return data.rows_of(data.hide(rng, bands) if rng else bands, self.config["speech"])

    def count(self, seed: int) -> int:
        return self.args.batch_tokens

    def loss(self, seed: int) -> torch.Tensor:
        """Mean nats a digit."""
        rng, streams = np.random.default_rng([seed, 1]), self.streams(seed)
        rows = torch.from_numpy(np.stack([self.rows(samples, rng) for samples, _ in streams])).to(self.args.device)
        first = torch.from_numpy(rng.integers(MOST_ROWS - rows.shape[1], size=len(rows), endpoint=True))
        positions = (first[:, None] + torch.arange(rows.shape[1])).to(self.args.device)
        targets = torch.tensor([digit + 1 for _, digits in streams for digit in digits])
        lengths = torch.tensor([len(digits) for _, digits in streams])
        whole = torch.full((len(rows),), rows.shape[1])
        said = self.model(rows, positions).transpose(0, 1)
        return F.ctc_loss(said, targets, whole, lengths, BLANK, reduction="sum", zero_infinity=True) / len(targets)

    @torch.no_grad()
    def validate(self) -> float:
        rng, wrong, all_of_them = np.random.default_rng(CHECKED_SEED), 0, 0
        for _ in range(CHECKED):
            samples, digits = data.join(self.held_out, self.config["speech"]["sample_rate"], rng, self.args.most)
            rows = torch.from_numpy(self.rows(samples))[None].to(self.args.device)
            positions = torch.arange(rows.shape[1], device=self.args.device)[None]
            heard = collapse(self.model(rows, positions)[0].argmax(-1).tolist())
            wrong, all_of_them = wrong + data.errors(digits, heard), all_of_them + len(digits)
        return wrong / all_of_them


if __name__ == "__main__":
    trainer.run(Speech, parse_arguments())
