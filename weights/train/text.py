#!/usr/bin/env python3
"""Trains a language model on a text file and exports it as a folder that the server reads.

    python3 weights/train/text.py --data FILE --run RUN_DIR --out FOLDER --minutes 5

FILE is UTF-8: one text, or with --lines a document a line. Its end is held out, unless --valid names another file. The
tokens are bytes or characters (text_data.py). Gated DeltaNet and DeltaNet are written as flash-linear-attention writes
them, other kinds in the server's own format. How a run is resumed and how the learning rate goes: trainer.py.
"""

import argparse
import os
import pathlib
import tempfile

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np
import torch
import torch.nn.functional as F

import export_hf
import mixers
import text_data as data
import trainer
from export import export_model
from linear_transformer import LinearTransformer, autocast, model_config, override
from unfit import Unfit

THEIRS = ["gated_deltanet", "delta_net"]  # kinds that export_hf.py writes
OURS = ["linear", "softmax", "grouped_query", "rwkv7", "mamba2"]
EPS = 1e-6
TRAINING_BYTES = 16  # of memory per parameter: the parameter, its gradient, the optimizer's state


def add_arguments(p: argparse.ArgumentParser, width: int, min_count: int, **defaults):
    """The arguments of every recipe of text. defaults: of trainer.add_arguments."""
    trainer.add_arguments(p, head_lr=0.003, **defaults)
    p.set_defaults(compile=False)  # rows have many lengths
    p.add_argument("--validate-on", type=int, default=100_000, help="held-out tokens that are looked at, the first ones")
    p.add_argument("--min-count", type=int, default=min_count, help="characters that come less often are read as bytes")
    p.add_argument("--kind", choices=THEIRS + OURS, default="gated_deltanet", help="kind of the layers")
    trainer.add_sizes(p, layers=4, width=width, heads=4)
    p.add_argument("--length", type=int, default=256, help="tokens that are read in one go while it is trained")
    p.add_argument("--context", type=int, default=4096, help="most tokens of prompt and answer that the server takes")


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_arguments(p, width=128, min_count=2, tokens=10e6, batch_tokens=2048)
    p.add_argument("--lines", action="store_true", help="every line is a document, which ends with a token of its own")
    p.add_argument("--valid", type=pathlib.Path, help="held-out text, in place of the end of --data")
    p.add_argument("--held-out", type=float, default=0.1, help="part of --data that is held out, its end")
    p.add_argument("--given", metavar="CHARACTER",
                   help="with --lines: a line up to its last such character is read, not predicted; \\t is a tab")
    p.add_argument("--tokenizer", choices=["bytes", "characters"], default="characters", help="a token is one of these")
    args = p.parse_args()
    args.given = "\t" if args.given == "\\t" else args.given
    return args


def check_arguments(args):
    trainer.check_sizes(args)
    for name, least, most in (("length", 2, 65536), ("context", 2, 262144), ("validate_on", 1, 10**12),
                              ("min_count", 1, 10**12)):
        trainer.check_range(args, name, least, most)
    if not 0 < args.held_out < 1:
        raise Unfit(f"--held-out {args.held_out:g} is not between 0 and 1")
    if args.length > args.batch_tokens:
        raise Unfit(f"--batch-tokens {args.batch_tokens} is less than a row of --length {args.length}")
    if args.given is not None and (len(args.given) != 1 or not args.lines):
        raise Unfit("--given is one character, and goes with --lines")


def documents_of(args, path: pathlib.Path) -> list[str]:
    text = data.read_text(path)
    return data.lines_of(text) if args.lines else [text]


def split(args) -> tuple[list[str], list[str]]:
    """Documents to train on, and those held out."""
    documents = documents_of(args, args.data)
    if args.valid:
        return documents, documents_of(args, args.valid)
    whole = documents if args.lines else documents[0]
    first = len(whole) - max(1, round(len(whole) * args.held_out))
    if first < 1:
        raise Unfit(f"{args.data} is too little: it has {len(whole)} {'lines' if args.lines else 'characters'}")
    return (whole[:first], whole[first:]) if args.lines else ([whole[:first]], [whole[first:]])


def make_config(args, tokenizer: data.Tokenizer, task: str) -> dict:
    text = {"tokenizer": "tokenizer.json" if tokenizer.file() else "bytes", "context": args.context}
    if tokenizer.end is not None:
        text |= {"begin": tokenizer.end, "end": [tokenizer.end]}
    attention = {"kind": args.kind} | mixers.find(args.kind).DEFAULTS
    hidden = max(8, round(args.width * 8 / 3 / 8) * 8)  # with its gate as many parameters as a net of 4 x width
    whole = getattr(mixers.find(args.kind).Mixer, "IS_WHOLE_LAYER", False)
    config = model_config(task, [("token", tokenizer.size)],
                          {"kind": "categorical", "size": tokenizer.size, "bias": False}, norm_kind="rms", text=text,
                          **({} if whole else {"feed_forward": {"kind": "gated_mlp"}}))
    return config | trainer.sizes_of(args) | {"d_ff": hidden, "norm_eps": EPS,
                                              "attention": attention | ({"eps": EPS} if "eps" in attention else {})}


def check_memory(c: dict):
    """Before the model takes any: the matrices that every kind has."""
    parameters = 2 * c["head"]["size"] * c["d_model"] + c["n_layers"] * (4 * c["d_model"] + 3 * c["d_ff"]) * c["d_model"]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if TRAINING_BYTES * parameters > memory:
        raise Unfit(f"a model of {parameters / 1e6:.0f} M parameters needs {TRAINING_BYTES * parameters / 2**30:.0f} GiB to be "
                    f"trained, and this machine has {memory / 2**30:.0f}: take less --layers or --width")


def make_model(config: dict, dropout: float) -> LinearTransformer:
    check_memory(config)
    model = LinearTransformer(config, dropout)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    return model


class Text:
    report, vocabulary, task = "held_out", None, "text"

    def __init__(self, args):
        check_arguments(args)
        self.args = args
        self.read(*self.split())
        self.config = make_config(args, self.tokenizer, self.task)
        override(self.config, args.set)
        self.model = make_model(self.config, args.dropout).to(args.device)
        self.keep_tokenizer()
        self.nats = self.nats_of
        if args.compile:
            options = trainer.compile_options(args, dynamic=True)
            self.model.compile_parts(**options)
            self.nats = torch.compile(self.nats, **options)

    def split(self) -> tuple[list[str], list[str]]:
        """Documents to train on, and those held out."""
        return split(self.args)

    def read(self, train: list[str], held_out: list[str]):
        args = self.args
        self.tokenizer = data.make_tokenizer(args.tokenizer, train, args.min_count, ends=args.lines)
        self.train, self.held_out = (data.tokenize(part, self.tokenizer, args.given) for part in (train, held_out))
        counts = [int(part.counted[1:].sum()) for part in (self.train, self.held_out)]
        if counts[0] < args.length or counts[1] < 1:
            raise Unfit(f"the text is too little: {counts[0]} tokens to train on and {counts[1]} held out, of at least "
                        f"{args.length} (--length) and 1")
        self.data = [self.train.values, self.train.counted, self.held_out.values]
        print(f"{counts[0]} tokens to train on, {counts[1]} held out, {self.tokenizer.size} in the vocabulary", flush=True)

    def keep_tokenizer(self):
        """Stored next to the checkpoint, which is meaningless with another vocabulary."""
        path = self.args.run / "tokenizer.json"
        with tempfile.TemporaryDirectory() as folder:
            own = pathlib.Path(folder) / "tokenizer.json"
            self.tokenizer.write(own)
            known = path.read_bytes() if path.exists() else b""
            if (self.args.run / "checkpoint.pt").exists() and known != (own.read_bytes() if own.exists() else b""):
                raise Unfit(f"{self.args.run} holds a run with other text or another tokenizer: choose another --run")
        self.args.run.mkdir(parents=True, exist_ok=True)
        self.tokenizer.write(path)

    def nats_of(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Nats of all targets [N] together, each predicted from a row of [N, d]."""
        with autocast(self.args.device):
            logits = self.model.head(hidden)
        return F.cross_entropy(logits.float(), targets, reduction="sum")

    def sum_of(self, part: data.Tokens, rows: np.ndarray) -> tuple[torch.Tensor, int]:
        """Nats, and of how many tokens. The head, a third of the work, sees no other tokens; which they are the host finds
        out, as it would wait for a GPU that did."""
        ids, targets, places = (trainer.send(a, self.args.device) for a in part.arrays(rows))
        with autocast(self.args.device):
            hidden = self.model.hidden(ids[..., None])
        return self.nats(hidden.flatten(0, 1)[places], targets), len(places)

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        rows = self.train.rows(self.args.length, int(rng.integers(self.args.length)))
        return data.batches(rows, self.args.batch_tokens, rng)

    def count(self, batch: np.ndarray) -> int:
        return int(batch[:, 1].sum())

    def loss(self, batch: np.ndarray) -> torch.Tensor:
        nats, count = self.sum_of(self.train, batch)
        return nats / max(1, count)

    @torch.no_grad()
    def validate(self) -> float:
        """Nats a held-out token."""
        rows = self.held_out.rows(self.args.length)
        rows = rows[: 1 + np.searchsorted(rows[:, 1].cumsum(), self.args.validate_on)]
        nats, count = 0.0, 0
        for batch in data.batches(rows, self.args.batch_tokens, np.random.default_rng(0)):
            more, tokens = self.sum_of(self.held_out, batch)
            nats, count = nats + more.item(), count + tokens
        return nats / max(1, count)

    def export(self, out: pathlib.Path):
        """As flash-linear-attention writes the kind, where it has it."""
        theirs = self.config["attention"]["kind"] in THEIRS if isinstance(self.config["attention"], dict) else False
        with tempfile.TemporaryDirectory() as folder:
            own = pathlib.Path(folder) if theirs else out
            export_model(own, self.model, self.config, None)
            self.tokenizer.write(own / "tokenizer.json")
            if theirs:
                (out / "tokenizer.json").unlink(missing_ok=True)
                export_hf.convert(own, out)


if __name__ == "__main__":
    trainer.run(Text, parse_arguments())
