#!/usr/bin/env python3
"""Converts the published data of a source, which you have fetched, for a recipe.

    python3 weights/train/prepare.py mnist FOLDER OUT                    the four idx files, packed or not
    python3 weights/train/prepare.py cifar10 ARCHIVE OUT                 the binary version, cifar-10-binary.tar.gz
    python3 weights/train/prepare.py couplet FOLDER OUT --badwords FILE  wb14123/couplet-dataset: train/ and test/ with in.txt, out.txt
    python3 weights/train/prepare.py poem FOLDER OUT                     a clone of chinese-poetry/chinese-poetry; wants opencc

The command compares checksums of the contents, however they are packed, and writes nothing from a source that differs;
--any accepts it. Of the couplets this holds for the test set: the training set's lines are counted. The
poems' source goes on growing; they are counted. OUT is a recipe's --data; of cifar10 it is OUT/train-images.idx, with
--labels OUT/train-labels.idx for image.py.
"""

import argparse
import gzip
import hashlib
import json
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

from unfit import Unfit

MNIST = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
CIFAR = {  # pixels as R, G, B side by side; of the test set its first 1,000 images
    "train": ("47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
              "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253"),
    "test": ("da362006b99671213d1a5d856cab2bedf64d40bad4501630ee60f4ceb2d3ec7f",
             "636a087e604331a0b9dafc94b6e9ade0c9cec72c4400d12473ccdb3e264474c1"),
}
CIFAR_FILES = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
SIDE, TESTED = 32, 1000
COUPLETS, COUPLET_TEST = 770491, "ad26e9d0af8944a2be8554036691b8b9074b28d950b5d3ef8f7c20a82a7c0e1b"
BADWORDS = "2ec20a8c295153e5ad9bd394b7bb7f6fd79ac5052407002e8992b548c0db52df"
POEMS = {"唐": ("全唐诗", "poet.tang.*.json"), "宋": ("全唐诗", "poet.song.*.json"), "词": ("宋词", "ci.song.*.json")}
POEM_COUNT = 332905
BRACKETS = re.compile(r"[（(〔\[【{｛][^）)〕\]】}｝]*[）)〕\]】}｝]")
POEM = re.compile(r"[\u3400-\u9fff\U00020000-\U0003ffff，。？！；：、]{12,400}")


def check(args, what: str, found, wanted):
    if found == wanted:
        print(f"{what}: as it was when the recipe was made")
    elif args.any:
        print(f"{what}: {found}, and the recipe was made with {wanted}")
    else:
        raise Unfit(f"{what}: {found}, and the recipe was made with {wanted}; --any takes it all the same")


def sum_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(path: pathlib.Path) -> bytes:
    packed = path.with_name(f"{path.name}.gz")
    try:
        return path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    except (OSError, EOFError) as error:
        raise Unfit(f"{path}, or the same with .gz: {error}") from error


def write_lines(path: pathlib.Path, lines: list[str]):
    with lzma.open(path, "wt", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
    print(f"{path}: {len(lines)} lines")


# --- each returns {name in OUT: bytes or lines}


def mnist(args) -> dict:
    files = {name: read(args.source / name) for name in MNIST}
    for name, data in files.items():
        check(args, name, sum_of(data), MNIST[name])
    return files


def idx(dimensions: list[int], data: bytes) -> bytes:
    return b"".join(n.to_bytes(4, "big") for n in [2048 + len(dimensions), *dimensions]) + data


def cifar10(args) -> dict:
    """A record is a label and the planes of R, G and B."""
    import numpy as np

    files = {}
    with tarfile.open(args.source) as archive:
        members = {pathlib.PurePosixPath(m.name).name: m for m in archive.getmembers() if m.isfile()}
        for part, names in CIFAR_FILES.items():
            missing = [name for name in names if name not in members]
            if missing:
                raise Unfit(f"{args.source} has no {missing[0]}: is it the binary version?")
            data = b"".join(archive.extractfile(members[name]).read() for name in names)
            if not data or len(data) % (1 + 3 * SIDE * SIDE):
                raise Unfit(f"{args.source}: {names[0]} is not of whole records")
            records = np.frombuffer(data, np.uint8).reshape(-1, 1 + 3 * SIDE * SIDE)
            images = records[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
            looked_at = len(records) if part == "train" else TESTED
            check(args, f"images, {part}", sum_of(images[:looked_at].tobytes()), CIFAR[part][0])
            check(args, f"labels, {part}", sum_of(records[:looked_at, 0].tobytes()), CIFAR[part][1])
            files[f"{part}-images.idx"] = idx(list(images.shape), images.tobytes())
            files[f"{part}-labels.idx"] = idx([len(records)], records[:, 0].tobytes())
    return files


def pairs_of(folder: pathlib.Path) -> list[tuple[str, str]]:
    """Characters stand apart in the source."""
    upper, lower = ((folder / name).read_text(encoding="utf-8-sig").split("\n") for name in ("in.txt", "out.txt"))
    if len(upper) != len(lower):
        raise Unfit(f"{folder}: in.txt and out.txt differ in length")
    pairs = [("".join(u.split()), "".join(v.split())) for u, v in zip(upper, lower)]
    return pairs[:-1] if pairs[-1] == ("", "") else pairs


def couplet(args) -> dict:
    if args.badwords is None:
        raise Unfit("couplet wants --badwords FILE: pairs with a word of it are left out by the recipe")
    words = args.badwords.read_bytes()
    check(args, "bad words", sum_of(words), BADWORDS)
    test, train = pairs_of(args.source / "test"), pairs_of(args.source / "train")
    check(args, "test", sum_of("".join(f"{u}\t{v}\n" for u, v in test).encode()), COUPLET_TEST)
    check(args, "train, pairs", len(train), COUPLETS)
    tested = {u for u, _ in test}
    kept = dict.fromkeys(p for p in train if p[0] and len(p[0]) == len(p[1]) and p[0] not in tested)
    return {"train.tsv.xz": [f"{u}\t{v}" for u, v in kept], "test.tsv.xz": [f"{u}\t{v}" for u, v in test], "badwords.txt": words}


def simplified(text: str) -> str:
    if shutil.which("opencc") is None:
        raise Unfit("poem wants the program opencc (Debian's package of that name) to make characters simplified")
    return subprocess.run(["opencc", "-c", "t2s.json"], input=text, capture_output=True, text=True, encoding="utf-8", check=True).stdout


def poem(args) -> dict:
    found, count = {}, 0
    for kind, (folder, names) in POEMS.items():
        for path in sorted((args.source / folder).glob(names)):
            poems = json.loads(simplified(path.read_text(encoding="utf-8")))
            count += len(poems)
            for p in poems:
                words = BRACKETS.sub("", "".join(p["paragraphs"]))
                fields = [kind, p.get("author", ""), p.get("title") or p.get("rhythmic", ""), words]
                if POEM.fullmatch(words) and not any(set("\t\n》") & set(field) for field in fields):
                    found.setdefault(words, "\t".join(fields))
    check(args, "poems", count, POEM_COUNT)
    parts = {"train.tsv.xz": [], "test.tsv.xz": []}
    for words, line in found.items():  # 2,000 or so to measure on, chosen by their text; not those of the shipped recipe
        tested = int.from_bytes(hashlib.sha256(f"test {words}".encode()).digest()[:4], "big") % 150 == 0
        parts["test.tsv.xz" if tested else "train.tsv.xz"].append(line)
    return parts


SOURCES = {"mnist": mnist, "cifar10": cifar10, "couplet": couplet, "poem": poem}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("data", choices=SOURCES)
    p.add_argument("source", type=pathlib.Path, help="a folder or archive, as published")
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--badwords", type=pathlib.Path, help="couplet: badwords.txt of v-zich/couplet-clean-dataset")
    p.add_argument("--any", action="store_true", help="take what differs from what the recipe was made with")
    args = p.parse_args()
    try:
        made = SOURCES[args.data](args)
        args.out.mkdir(parents=True, exist_ok=True)
        for name, content in made.items():
            if isinstance(content, bytes):
                (args.out / name).write_bytes(content)
                print(f"{args.out / name}: {len(content)} bytes")
            else:
                write_lines(args.out / name, content)
    except (Unfit, OSError, UnicodeDecodeError, tarfile.TarError, json.JSONDecodeError, KeyError, subprocess.CalledProcessError) as error:
        said = str(error).splitlines() or [type(error).__name__]
        sys.exit(f"prepare.py: {said[0]}")


if __name__ == "__main__":
    main()
