#!/usr/bin/env python3
"""Compares `linnet tokenize` with the `tokenizers` library on much text, family by family: ids and speed.

    tests/bench/tokenizers.py [--megabytes N] [--text FILE] [--family NAME ...]

Half of the text is random bytes and characters, half real: FILE, or without one text made of words of many scripts
(tests/http/vocabularies.py). Ids must be equal, text by text, and Linnet at least half as fast. Speed is measured by
the processor time of one thread on the real half. The library runs in this process. Linnet runs as a process that reads
a pipe and counts tokens; the time of a process that reads nothing is subtracted. RWKV World is compared with its rule
in Python
(tests/http/world.py), on a hundredth of the text, and has no ratio.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = Path(__file__).resolve().parents[2]
sys.path.pop(0)  # this file has the library's name
sys.path.insert(0, str(ROOT / "tests" / "http"))

import vocabularies  # noqa: E402
import world  # noqa: E402

LINNET = Path(os.environ.get("LINNET", ROOT / "build" / "linnet")).resolve()
FAMILIES = ["gpt2", "llama3", "qwen2", "gpt-neox", "llama", "metaspace-first"]
PIECE = 4000  # characters of a text
BATCH = 2 << 20  # bytes that are compared at once
LEAST = 0.5  # of the library's speed


def real_texts(path, n_bytes):
    """Pieces of the file, again and again, or made text."""
    rng = random.Random(11)
    source = Path(path).read_text(encoding="utf-8", errors="replace").replace("\0", "") if path else None
    done = at = 0
    while done < n_bytes:
        if source:
            piece, at = source[at:at + PIECE], at + PIECE
            at = at if at < len(source) else rng.randrange(PIECE)
        else:
            piece = vocabularies.text(rng, 600)
        done += len(piece.encode())
        yield piece


def random_texts(n_bytes):
    rng = random.Random(12)
    done = 0
    while done < n_bytes:
        piece = "".join(vocabularies.random_text(rng) for _ in range(10))
        if vocabularies.same_tables(piece):
            done += len(piece.encode())
            yield piece


def batches(texts):
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text.encode())
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def linnet(path, records, *flags):
    start = seconds_of_children()
    result = subprocess.run([LINNET, "tokenize", "--tokenizer", path, "--each", "nul", *flags], input=records,
                            capture_output=True, check=True)
    return result.stdout.decode().splitlines(), seconds_of_children() - start


def records(texts):
    return b"".join(text + b"\0" for text in texts)


def compare(name, path, real, noise):
    """Bytes compared, texts that differ, seconds of the library and of Linnet on the real ones."""
    tokenizer = vocabularies.MAKERS[name]()
    tokenizer.save(path)
    n_bytes = wrong = 0
    theirs = ours = 0.0
    for kind, texts in (("real", real), ("random", noise)):
        for batch in batches(texts):
            data = records(text.encode() for text in batch)
            start = time.process_time()
            expected = [tokenizer.encode(text).ids for text in batch]
            theirs += time.process_time() - start if kind == "real" else 0
            lines, _ = linnet(path, data)
            wrong += sum(line != " ".join(map(str, ids)) for line, ids in zip(lines, expected, strict=True))
            n_bytes += len(data) - len(batch)
            if kind == "real":
                ours += linnet(path, data, "--count")[1] - linnet(path, b"", "--count")[1]
    return n_bytes, wrong, theirs, ours


def compare_world(path, real, noise):
    tokens = world.vocabulary()
    Path(path).write_text(world.lines(tokens), encoding="utf-8")
    n_bytes = wrong = 0
    for batch in batches([*real, *noise]):
        batch = [text.encode() for text in batch]
        lines, _ = linnet(path, records(batch))
        wrong += sum(line != " ".join(map(str, world.encode(tokens, text))) for line, text in zip(lines, batch, strict=True))
        n_bytes += sum(map(len, batch))
    return n_bytes, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--text", help="a file of real text, UTF-8")
    parser.add_argument("--family", nargs="*", default=[*FAMILIES, "world"], choices=[*FAMILIES, "world"])
    args = parser.parse_args()
    half = args.megabytes * 1e6 / 2
    failed = 0
    print("| family | MB compared | texts that differ | library, MB/s | linnet, MB/s | ratio |\n" + "| --- " * 6 + "|")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/tokenizer"
        for name in args.family:
            share = half / 100 if name == "world" else half
            real, noise = list(real_texts(args.text, share)), list(random_texts(share))
            if name == "world":
                n_bytes, wrong = compare_world(path, real, noise)
                speed, slow = "- | - | -", False
            else:
                n_bytes, wrong, theirs, ours = compare(name, path, real, noise)
                speed = f"{share / 1e6 / theirs:.1f} | {share / 1e6 / ours:.1f} | {theirs / ours:.1f}"
                slow = theirs < LEAST * ours
            print(f"| {name} | {n_bytes / 1e6:.1f} | {wrong} | {speed} |", flush=True)
            failed += wrong + slow
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
