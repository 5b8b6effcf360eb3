"""The table of rhymes comes out of the poems: planted groups are found among other lines."""

import lzma
import pathlib
import random
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

GROUPS = ["".join(chr(0x4E00 + 100 * i + k) for k in range(20)) for i in range(3)]


def find(data, out):
    return subprocess.run([sys.executable, ROOT / "weights/train/rhymes.py", "--data", data, "--out", out], capture_output=True, text=True,
                          timeout=300)


def poem(rng, group, lines, chars=5):
    words = lambda n: "".join(rng.choice("".join(GROUPS)) for _ in range(n))  # noqa: E731
    ends = rng.sample(group, lines // 2)
    return "".join(f"{words(chars)}，{words(chars - 1)}{end}。" for end in ends)


@pytest.fixture
def data(tmp_path):
    rng = random.Random(1)
    poems = [poem(rng, rng.choice(GROUPS), rng.choice((4, 8)), rng.choice((5, 7))) for _ in range(900)]
    poems += ["春江花月夜。", "一，二。", poem(rng, GROUPS[0] + GROUPS[1], 4)[:-3] + "。"] * 20  # which have no form
    with lzma.open(tmp_path / "train.tsv.xz", "wt", encoding="utf-8") as file:
        for i, text in enumerate(poems):
            file.write(f"唐\t無名\t題{i}\t{text}\n")
    return tmp_path


def test_planted_groups_are_found(data, tmp_path):
    result = find(data, tmp_path / "rhymes.txt")
    assert result.returncode == 0, result.stderr
    found = (tmp_path / "rhymes.txt").read_text(encoding="utf-8").splitlines()
    assert sorted("".join(sorted(group)) for group in found) == GROUPS


def test_too_few_poems(tmp_path):
    with lzma.open(tmp_path / "train.tsv.xz", "wt", encoding="utf-8") as file:
        file.write("唐\t無名\t題\t春江花月夜，春江花月夜。\n")
    result = find(tmp_path, tmp_path / "rhymes.txt")
    assert (result.returncode, result.stderr) == (1, "rhymes.py: too few poems rhyme\n")
