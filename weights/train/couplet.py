#!/usr/bin/env python3
"""Trains the couplet model and exports it in the server's format.

    python3 weights/train/couplet.py --data DIR --run RUN_DIR --out weights/couplet

DIR holds train.tsv.xz and badwords.txt (upper TAB lower, one pair a line). The run is resumable:
RUN_DIR keeps the newest checkpoint, and the same command goes on from it. The learning rate is
constant after the warm-up and falls linearly to zero over the last part of --tokens, so a run
may be resumed with another --tokens before that fall begins.
"""

import argparse
import json
import math
import os
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F

import couplet_data as data
from export import export_model
from linear_transformer import LinearTransformer
from muon import Muon


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--run", type=pathlib.Path, required=True, help="checkpoints and log")
    p.add_argument("--out", type=pathlib.Path, help="export the weights here when done")
    p.add_argument("--tokens", type=float, default=40e6, help="tokens to train on")
    p.add_argument("--batch-tokens", type=int, default=8192)
    p.add_argument("--muon-lr", type=float, default=0.02, help="hidden matrices")
    p.add_argument("--adam-lr", type=float, default=0.003, help="embeddings, head, norms, biases")
    p.add_argument("--warmup", type=float, default=0.01, help="part of the tokens")
    p.add_argument("--decay", type=float, default=0.4, help="part of the tokens")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--dropout", type=float, default=0.0, help="on the residual branches")
    p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=hasattr(torch, "compile"))
    p.add_argument("--stop-after", type=float, default=math.inf, help="seconds; for trials")
    return p.parse_args()


def make_config(vocabulary: list[str]) -> dict:
    n, v = data.MAX_CHARS + 1, len(vocabulary)
    inputs = [("token", v), ("position", n), ("countdown", n), ("mirror", v)]
    return {
        "format": "linnet",
        "format_version": 1,
        "task": "couplet",
        "n_layers": 8,
        "n_heads": 8,
        "d_model": 256,
        "d_ff": 1024,
        "norm": "pre",
        "norm_eps": 1e-5,
        "activation": "gelu",
        "attention": {"kind": "linear", "feature_map": "elu+1", "eps": 1e-6},
        "inputs": [{"name": name, "size": size} for name, size in inputs],
        "head": {"kind": "categorical", "size": v},
        "max_chars": data.MAX_CHARS,
    }


def load_data(args) -> tuple[list[str], dict, dict]:
    pairs = data.read_pairs(args.data / "train.tsv.xz")
    kept = data.drop_bad_words(pairs, args.data / "badwords.txt")
    held_out = [p for p in kept if data.is_held_out(p)]
    train = [p for p in kept if not data.is_held_out(p)]
    vocabulary = data.build_vocabulary(train, min_count=5)
    print(f"{len(pairs)} pairs, {len(kept)} without a bad word, {len(train)} to train on, "
          f"{len(held_out)} held out, {len(vocabulary)} vocabulary entries", flush=True)
    return vocabulary, data.encode(train, vocabulary), data.encode(held_out, vocabulary)


def make_optimizers(model: LinearTransformer, args) -> list[torch.optim.Optimizer]:
    qkv, matrices, rest = [], [], []
    for name, p in model.named_parameters():
        hidden = name.startswith("layers.") and p.ndim == 2
        (qkv if hidden and "qkv" in name else matrices if hidden else rest).append(p)
    muon = Muon([{"params": qkv, "blocks": 3}, {"params": matrices}], lr=args.muon_lr, weight_decay=0.01)
    adam = torch.optim.AdamW(rest, lr=args.adam_lr, betas=(0.9, 0.98), weight_decay=0.0)
    return [muon, adam]


def rate(progress: float, warmup: float, decay: float) -> float:
    return min(1.0, progress / warmup if warmup else 1.0, max(0.0, (1 - progress) / decay))


def make_loss(model: LinearTransformer, args):
    """rows [B, 2, n] -> mean nats per lower character; the head runs on the lower part only."""

    def forward(ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast(args.device, dtype=torch.bfloat16):
            logits = model.head(model.hidden(ids)[:, -targets.shape[1] :])
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    if args.compile:
        forward = torch.compile(forward, dynamic=True)

    def loss(rows: np.ndarray) -> torch.Tensor:
        return forward(*(torch.from_numpy(a).to(args.device) for a in data.make_inputs(rows)))

    return loss


@torch.no_grad()
def validate(loss, held_out: dict, batch_tokens: int) -> float:
    total = count = 0
    for n, rows in held_out.items():
        for part in np.array_split(rows, math.ceil(len(rows) * (2 * n + 1) / batch_tokens)):
            total += loss(part).item() * part.shape[0] * n
            count += part.shape[0] * n
    return total / count


def save(path: pathlib.Path, state: dict):
    torch.save(state, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").replace(path)


def train(args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.run.mkdir(parents=True, exist_ok=True)
    vocabulary, pairs, held_out = load_data(args)
    config = make_config(vocabulary)
    model = LinearTransformer(config, args.dropout).to(args.device)
    batch_loss = make_loss(model, args)
    optimizers = make_optimizers(model, args)
    base_rates = [[g["lr"] for g in o.param_groups] for o in optimizers]
    tokens = step = epoch = batch_in_epoch = 0
    checkpoint = args.run / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=args.device, weights_only=True)
        model.load_state_dict(state["model"])
        for o, s in zip(optimizers, state["optimizers"]):
            o.load_state_dict(s)
        tokens, step, epoch, batch_in_epoch = (state[k] for k in ("tokens", "step", "epoch", "batch"))
        print(f"resumed at {tokens / 1e6:.1f} M tokens", flush=True)

    def snapshot():
        return {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
                "tokens": tokens, "step": step, "epoch": epoch, "batch": batch_in_epoch}

    start, start_tokens, last_save, losses = time.time(), tokens, time.time(), []
    log = open(args.run / "log.jsonl", "a", encoding="utf-8")
    while tokens < args.tokens and time.time() - start < args.stop_after:
        batches = list(data.epoch_batches(pairs, args.batch_tokens, np.random.default_rng([args.seed, epoch])))
        for n, index in batches[batch_in_epoch:]:
            factor = rate(tokens / args.tokens, args.warmup, args.decay)
            for o, rates in zip(optimizers, base_rates):
                for g, lr in zip(o.param_groups, rates):
                    g["lr"] = lr * factor
            loss = batch_loss(pairs[n][index])
            loss.backward()
            for o in optimizers:
                o.step()
                o.zero_grad(set_to_none=True)
            tokens += len(index) * (2 * n + 1)
            step, batch_in_epoch = step + 1, batch_in_epoch + 1
            losses.append(loss.item())
            if step % 50 == 0:
                record = {"step": step, "tokens": tokens, "loss": round(sum(losses) / len(losses), 4),
                          "seconds": round(time.time() - start), "rate": round(factor, 4),
                          "tokens_per_second": round((tokens - start_tokens) / (time.time() - start))}
                losses = []
                if step % 500 == 0:
                    record["held_out"] = round(validate(batch_loss, held_out, args.batch_tokens), 4)
                print(json.dumps(record), file=log, flush=True)
                print(json.dumps(record), flush=True)
            if time.time() - last_save > 300:
                save(checkpoint, snapshot())
                last_save = time.time()
            if tokens >= args.tokens or time.time() - start > args.stop_after:
                break
        else:
            epoch, batch_in_epoch = epoch + 1, 0
    save(checkpoint, snapshot())
    print(f"held-out nll {validate(batch_loss, held_out, args.batch_tokens):.4f} after {tokens / 1e6:.1f} M tokens")
    if args.out:
        export_model(args.out, model, config, vocabulary)


if __name__ == "__main__":
    train(parse_arguments())
