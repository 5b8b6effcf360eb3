#!/usr/bin/env python3
"""Trains small models of spoken digits that differ in their kind of layer, and prints what `linnet transcribe` makes of
recordings that none of them has heard: the paper's table 3.

    python3 weights/train/speech_kinds.py --data DIR --runs RUNS_DIR [--only KIND ...] [options of speech.py]

One recipe for all, speech.py, the same streams in the same order; an LSTM has three layers, as the paper's, the others four,
which makes about as many parameters. The test streams are of recordings 0 to 4 of the speakers that were heard, and of all
of the one that was not. A model that is complete in RUNS_DIR is not trained again.
"""

import argparse
import json
import pathlib
import subprocess
import sys

KINDS = {  # layers, and what is set
    "softmax": (4, ["mixer=softmax"]),
    "lsh-4": (4, ["mixer=lsh", "attention.cap=8"]),
    "bilstm": (3, ["mixer=bilstm"]),
    "linear": (4, ["mixer=linear"]),
}
PAPER = {"softmax": 5.12, "lsh-4": 9.33, "bilstm": 10.94, "linear": 8.08}  # phonemes of 100
BATCH = 2000  # rows


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--runs", type=pathlib.Path, required=True, help="a folder for the runs and their models")
    p.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    p.add_argument("--tokens", default="2.6e6", help="rows of each run")
    p.add_argument("--threads", default="1")
    p.add_argument("--unseen", default="theo", help="the speaker that is left out of the training")
    p.add_argument("--streams", type=int, default=400, help="of each test")
    p.add_argument("--linnet", type=pathlib.Path, default=pathlib.Path("build/linnet"))
    args, args.further = p.parse_known_args()
    return args


def train(kind: str, args: argparse.Namespace):
    model = args.runs / kind / "model"
    if (model / "config.json").exists():
        return
    print(f"training {kind}", file=sys.stderr)
    layers, settings = KINDS[kind]
    subprocess.run([sys.executable, pathlib.Path(__file__).parent / "speech.py", "--data", args.data, "--run", args.runs / kind,
                    "--out", model, "--layers", str(layers), "--tokens", args.tokens, "--batch-tokens", str(BATCH),
                    "--threads", args.threads, "--unseen", args.unseen,
                    *(word for setting in settings for word in ("--set", setting)), *args.further],
                   check=True, stdout=subprocess.DEVNULL)


def write_tests(args: argparse.Namespace) -> dict[str, pathlib.Path]:
    """A list for `linnet eval` of each kind of voices."""
    for part in ("test", "unseen"):
        subprocess.run([sys.executable, pathlib.Path(__file__).parent / "speech_streams.py", "--data", args.data, "--part", part,
                        "--out", args.runs / part, "--unseen", args.unseen, "--n", str(args.streams)],
                       check=True, stdout=subprocess.DEVNULL)
    return {part: args.runs / part / "list.tsv" for part in ("test", "unseen")}


def ask(args: argparse.Namespace, *words) -> dict:
    return json.loads(subprocess.run([args.linnet, *words, "--json"], check=True, capture_output=True, text=True).stdout)


def main():
    args = parse_arguments()
    for kind in args.only:
        train(kind, args)
    tests = write_tests(args)
    print("| method | layers | parameters | the paper, phonemes wrong | here, digits wrong | of a speaker never heard |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: |")
    for kind in args.only:
        model = args.runs / kind / "model"
        wrong = [ask(args, "eval", "--model", model, tests[name], "--threads", args.threads)["token_error_rate"] for name in tests]
        print(f"| {kind} | {KINDS[kind][0]} | {ask(args, 'inspect', model)['parameters']:,} | {PAPER[kind]:.2f} % | "
              + " | ".join(f"{100 * rate:.2f} %" for rate in wrong) + " |")


if __name__ == "__main__":
    main()
