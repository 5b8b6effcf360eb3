#!/usr/bin/env python3
"""Training and serving times of the models of speech_kinds.py, in turn on the same cores.

    python3 tests/bench/hearing.py --data DIR --runs RUNS_DIR [--build build] [--threads 1] [--rounds 5]

RUNS_DIR is the output of weights/train/speech_kinds.py, with its test streams; DIR holds the recordings. PyTorch is
needed.

Training: the first steps of speech.py as speech_kinds.py starts it, with the same streams for all kinds; an epoch has
200. Its time for the sounds, which are joined, changed and turned into features anew for each step, is equal for all
kinds and is counted. Hearing: the test streams as files over POST /v1/audio/transcriptions, one request at a time and
eight, by the time of all over the seconds of sound. Answers have the whole text, so reading, features, search and HTTP
are in it. The last column is the time of `linnet eval` for these streams, without HTTP. A figure is the median over
--rounds rounds, in each of which all take turns. The first column of figures is the paper's table 3, a GPU's.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

import machine
from http_load import Server
from machine import ROOT, number, pinned

sys.path.append(str(ROOT / "weights" / "train"))
import speech  # noqa: E402
import speech_kinds  # noqa: E402
import torch  # noqa: E402
import trainer  # noqa: E402

PAPER = {"softmax": 2711, "lsh-4": 2250, "bilstm": 1047, "linear": 824}  # seconds per epoch
HEAD = ["method", "the paper, s per epoch", "s per epoch", "ms per second of sound, one at a time", "eight at once", "without HTTP"]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--runs", type=Path, required=True)
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--only", nargs="+", choices=speech_kinds.KINDS, default=list(speech_kinds.KINDS))
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=10, help="of training, a round")
    p.add_argument("--files", type=int, default=60, help="heard, a round")
    return p.parse_args()


# --- training


class Training:
    """A kind's recipe at its first steps."""

    def __init__(self, kind, args, folder):
        layers, settings = speech_kinds.KINDS[kind]
        flags = ["--data", args.data, "--run", folder, "--layers", layers, "--batch-tokens", speech_kinds.BATCH, "--threads", args.threads]
        sys.argv = ["speech.py", *map(str, flags), *(word for setting in settings for word in ("--set", setting))]
        own = speech.parse_arguments()
        torch.set_num_threads(args.threads)
        torch.manual_seed(own.seed)
        self.recipe = speech.Speech(own)
        self.optimizers = trainer.make_optimizers(self.recipe.model, own)

    def seconds_an_epoch(self, seeds):
        begin = time.monotonic()
        for seed in seeds:
            self.recipe.loss(seed).backward()
            for optimizer in self.optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        return (time.monotonic() - begin) / len(seeds) * speech.EPOCH


# --- hearing


def read_files(folder, n):
    """[(bytes, seconds)]"""
    files = sorted(folder.glob("*.wav"))[:n]
    if not files:
        sys.exit(f"{folder} has no streams: weights/train/speech_kinds.py writes them")
    found = []
    for path in files:
        with wave.open(str(path)) as sound:
            found.append((path.read_bytes(), sound.getnframes() / sound.getframerate()))
    return found


def hear(port, data):
    line = "linnet-bench-hearing"
    form = "".join(f'--{line}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                   for name, value in (("model", "model"), ("response_format", "text")))
    form += f'--{line}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/audio/transcriptions", form.encode() + data + f"\r\n--{line}--\r\n".encode(),
                           {"Content-Type": f"multipart/form-data; boundary={line}"})
        reply = connection.getresponse()
        text = reply.read().decode()
        if reply.status != 200:
            sys.exit(f"the server said {reply.status}: {text}")
        return text


def ms_a_second(port, files, at_once):
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda file: hear(port, file[0]), files))
    return 1000 * (time.monotonic() - begin) / sum(seconds for _, seconds in files)


def ms_of_eval(args, model, files):
    command = pinned([args.build / "linnet", "eval", "--model", model, args.runs / "test" / "list.tsv", "--limit", len(files),
                      "--threads", args.threads, "--json"], args.threads)
    said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return 1000 * said["took"] / said["seconds"]


def serve(args, model):
    command = [args.build / "linnet", "serve", "--port", 0, "--model", model, "--threads", args.threads]
    return Server(pinned(command, args.threads), tempfile.NamedTemporaryFile("w", prefix="linnet-speech-"))


def main():
    args = parse_arguments()
    models = {kind: args.runs / kind / "model" for kind in args.only}
    files, rows = read_files(args.runs / "test", args.files), {kind: [] for kind in args.only}
    print(f"{machine.describe(args.threads)}\n{args.threads} thread{'s' * (args.threads > 1)}, PyTorch {torch.__version__}\n")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trainings = {kind: Training(kind, args, folder / kind) for kind in args.only}
        servers = {kind: stack.enter_context(serve(args, model)) for kind, model in models.items()}
        for kind in args.only:  # warm-up
            trainings[kind].seconds_an_epoch([0])
            ms_a_second(servers[kind].port, files[:8], 8)
        for i in range(args.rounds):
            seeds = range(i * args.steps, (i + 1) * args.steps)
            for kind, model in models.items():
                port = servers[kind].port
                rows[kind].append([trainings[kind].seconds_an_epoch(seeds), ms_a_second(port, files, 1), ms_a_second(port, files, 8),
                                   ms_of_eval(args, model, files)])
    print(machine.table(HEAD, [[kind, f"{PAPER[kind]:,}", *(number(statistics.median(column)) for column in zip(*rows[kind], strict=True))]
                               for kind in args.only]))


if __name__ == "__main__":
    main()
