#!/usr/bin/env python3
"""Trains the poem model and exports it as flash-linear-attention writes its own.

    python3 weights/train/poem.py --data DIR --run RUN_DIR --out weights/poem

DIR holds train.tsv or train.tsv.xz: a poem a line, kind TAB author TAB title TAB text. It is text.py on documents such as

    唐《静夜思》床前明月光，疑是地上霜。举头望明月，低头思故乡。

of which what comes up to 》 is read and the rest is predicted, with its end. About 0.5 % of the poems, chosen by their
text, are held out; test.tsv.xz is never read: `linnet eval` measures on it, once it is unpacked.
"""

import argparse
import hashlib
import pathlib

import packages  # noqa: F401 (before the packages that may be missing)

import text
import trainer
from poem_data import GIVEN, read_poems
from text_lines import lines_file


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    text.add_arguments(p, width=256, min_count=10, tokens=20e6, batch_tokens=4096)
    p.set_defaults(length=512, context=1024, lines=True, tokenizer="characters", given=GIVEN, held_out=0.5, valid=None)
    return p.parse_args()


def document(kind: str, title: str, words: str) -> str:
    return f"{kind}《{title}{GIVEN}{words}"


def is_held_out(words: str) -> bool:
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big") % 200 == 0


class Poems(text.Text):
    task = "poem"

    def split(self) -> tuple[list[str], list[str]]:
        poems = read_poems(lines_file(self.args.data, "train.tsv"))
        return ([document(*p) for p in poems if not is_held_out(p[2])], [document(*p) for p in poems if is_held_out(p[2])])


if __name__ == "__main__":
    trainer.run(Poems, parse_arguments())
