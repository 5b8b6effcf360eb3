#!/usr/bin/env python3
"""Trains small models of spoken digits that differ in their kind of layer, and prints what `linnet transcribe` makes of
recordings that none of them has heard: the paper's table 3.

    python3 weights/train/speech_kinds.py --data DIR --runs RUNS_DIR [--only KIND ...] [options of speech.py]

One recipe for all, speech.py, the same streams in the same order; an LSTM has three layers, as the paper's, the others four,
which makes about as many parameters. The test streams are of recordings 0 to 4 of the speakers that were heard, and of all
of the one that was not. A model that is complete in RUNS_DIR is not trained again.
"""

import argparse
import pathlib

import comparison

KINDS = {  # layers, settings
    "softmax": (4, ["mixer=softmax"]),
    "lsh-4": (4, ["mixer=lsh", "attention.cap=8"]),
    "bilstm": (3, ["mixer=bilstm"]),
    "linear": (4, ["mixer=linear"]),
}
PAPER = {"softmax": 5.12, "lsh-4": 9.33, "bilstm": 10.94, "linear": 8.08}  # phonemes of 100
BATCH = 2000  # rows


def parse_arguments() -> argparse.Namespace:
    p = comparison.make_parser(__doc__, KINDS, "2.6e6")
    p.add_argument("--unseen", default="theo", help="the speaker that is left out of the training")
    p.add_argument("--streams", type=int, default=400, help="of each test")
    return comparison.parse(p)


def train(kind: str, args: argparse.Namespace):
    layers, settings = KINDS[kind]
    comparison.train(kind, args, "speech.py", settings, "--layers", str(layers), "--batch-tokens", str(BATCH), "--unseen", args.unseen)


def write_tests(args: argparse.Namespace) -> dict[str, pathlib.Path]:
    """A list for `linnet eval` of each kind of voices."""
    for part in ("test", "unseen"):
        comparison.run_script("speech_streams.py", "--data", args.data, "--part", part, "--out", args.runs / part,
                              "--unseen", args.unseen, "--n", str(args.streams))
    return {part: args.runs / part / "list.tsv" for part in ("test", "unseen")}


def main():
    args = parse_arguments()
    for kind in args.only:
        train(kind, args)
    tests = write_tests(args)
    print("| method | layers | parameters | the paper, phonemes wrong | here, digits wrong | of a speaker never heard |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: |")
    for kind in args.only:
        model = comparison.model_of(kind, args)
        wrong = [comparison.ask(args, "eval", "--model", model, tests[name], "--threads", args.threads)["token_error_rate"] for name in tests]
        print(f"| {kind} | {KINDS[kind][0]} | {comparison.ask(args, 'inspect', model)['parameters']:,} | {PAPER[kind]:.2f} % | "
              + " | ".join(f"{100 * rate:.2f} %" for rate in wrong) + " |")


if __name__ == "__main__":
    main()
