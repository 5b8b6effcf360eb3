#!/usr/bin/env python3
"""Writes streams of spoken digits as WAV files and a list of their texts, for `linnet eval`.

    python3 weights/train/speech_streams.py --data DIR --out FOLDER --part test
    linnet eval --model weights/digits-spoken FOLDER/list.tsv

A stream is 1 to --most recordings of one speaker with pauses between. --part says of whom: `held_out` are the recordings that
a training run looks at and does not learn from, `test` those that it never sees, `unseen` all of the speaker whom it never
sees; `single` are the recordings of `test`, each by itself.
"""

import argparse
import pathlib
import wave

import packages  # noqa: F401 (before the packages that may be missing)

import numpy as np

import speech_data as data
from unfit import Unfit

PARTS = ["test", "held_out", "unseen", "single"]


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True, help="a folder with DIGIT_SPEAKER_INDEX.wav")
    p.add_argument("--out", type=pathlib.Path, required=True, help="a folder, which is made")
    p.add_argument("--part", choices=PARTS, default="test")
    p.add_argument("--n", type=int, default=400, help="streams")
    p.add_argument("--most", type=int, default=8, help="digits of a stream")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--unseen", default="theo", help="the speaker whom no training run sees")
    return p.parse_args()


def part_of(recordings: data.Recordings, part: str, unseen: str) -> dict:
    if unseen not in recordings.found:
        raise Unfit(f"--unseen {unseen} is none of the speakers {', '.join(recordings.found)}")
    if part == "unseen":
        return recordings.part([unseen], 0, 1000)
    known = [s for s in recordings.found if s != unseen]
    first = data.TEST_INDEXES if part == "held_out" else 0
    return recordings.part(known, first, first + (data.HELD_OUT if part == "held_out" else data.TEST_INDEXES))


def streams(args, recordings: data.Recordings):
    """(samples, digits) of each."""
    part = part_of(recordings, args.part, args.unseen)
    if args.part == "single":
        yield from ((samples, [digit]) for speaker in part.values() for digit, all_of_it in enumerate(speaker) for samples in all_of_it)
        return
    rng = np.random.default_rng(args.seed)
    yield from (data.join(part, recordings.rate, rng, args.most) for _ in range(args.n))


def write(path: pathlib.Path, samples: np.ndarray, rate: int):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32768).round().clip(-32768, 32767).astype("<i2").tobytes())


def main(args):
    recordings = data.Recordings(args.data)
    args.out.mkdir(parents=True, exist_ok=True)
    lines = []
    for i, (samples, digits) in enumerate(streams(args, recordings)):
        write(args.out / f"{i:05}.wav", samples, recordings.rate)
        lines.append(f"{i:05}.wav\t{''.join(map(str, digits))}\n")
    (args.out / "list.tsv").write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} sounds in {args.out}")


if __name__ == "__main__":
    try:
        main(parse_arguments())
    except (Unfit, OSError) as fault:
        raise SystemExit(f"speech_streams.py: {fault}") from fault
