#!/usr/bin/env python3
"""Scores a server's answers to the upper lines of upper.tsv; README.md says how.

    python3 tests/quality/measure.py --url URL [--plain] [--data train.tsv] [--out FILE]
"""

import argparse
import collections
import json
import lzma
import pathlib
import statistics
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
N, PHRASE, COMMON = 5, 3, 3  # answers; characters of a phrase; lines whose answers make it a stock phrase
LEVEL, OBLIQUE = "平", "仄"


def read_lines() -> list[tuple[str, str]]:
    return [tuple(line.split("\t")) for line in (HERE / "upper.tsv").read_text(encoding="utf-8").splitlines()]


def read_known(path: pathlib.Path) -> set[str]:
    opened = lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8")
    with opened as lines:
        return {part for line in lines for part in line.rstrip("\n").split("\t")[-1:]}


def ask(url: str, body: dict) -> dict:
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def collect(url: str, plain: bool, seed: int) -> list[dict]:
    """The kind, the line and its answers, in the order of the file."""
    found = []
    for kind, line in read_lines():
        body = {"model": "couplet", "prompt": line, "n": N, "seed": seed} | ({"rank": False} if plain else {})
        answer = ask(url, body)
        found.append({"kind": kind, "line": line, "prompt_tones": answer["prompt_tones"], "choices": answer["choices"]})
    return found


def phrases(text: str) -> set[str]:
    return {text[i : i + PHRASE] for i in range(len(text) - PHRASE + 1)}


def contrasts(upper: str, lower: str) -> bool:
    pair = [tones.rstrip("，。、；：？！")[-1:] for tones in (upper, lower)]
    return pair not in ([LEVEL, LEVEL], [OBLIQUE, OBLIQUE])


def scores_of(found: list[dict], known: set[str], stock: set[str]) -> dict[str, float]:
    first = [entry["choices"][0] for entry in found]
    texts = [[choice["text"] for choice in entry["choices"]] for entry in found]
    scores = {
        "likely": statistics.mean(choice["mean_logprob"] for choice in first),
        "tone": statistics.mean(contrasts(e["prompt_tones"], e["choices"][0]["tones"]) for e in found),
        "distinct": statistics.mean(len(set(t)) == N for t in texts),
        "openings": statistics.mean(len({text[0] for text in t}) for t in texts),
        "stock": statistics.mean(bool(phrases(choice["text"]) & stock) for choice in first),
    }
    if known:
        scores["known"] = statistics.mean(choice["text"] in known for choice in first)
    return {name: round(value, 3) for name, value in scores.items()}


def measure(found: list[dict], known: set[str]) -> dict[str, dict[str, float]]:
    """Scores of every kind, and of all lines together."""
    counts = collections.Counter(p for entry in found for p in phrases(entry["choices"][0]["text"]) - phrases(entry["line"]))
    stock = {phrase for phrase, n in counts.items() if n >= COMMON}
    by_kind = collections.defaultdict(list)
    for entry in found:
        by_kind[entry["kind"]].append(entry)
    return {kind: scores_of(part, known, stock) for kind, part in [*by_kind.items(), ("all", found)]}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="of the server, without /v1")
    parser.add_argument("--plain", action="store_true", help="ask with rank: false")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=pathlib.Path, help="upper TAB lower lines of the training data, .xz or not")
    parser.add_argument("--answers", type=int, default=0, help="print this number of lines with their answers")
    parser.add_argument("--out", type=pathlib.Path)
    return parser.parse_args()


def main():
    args = parse_arguments()
    found = collect(args.url, args.plain, args.seed)
    for entry in found[: args.answers]:
        print(entry["kind"], entry["line"], *(choice["text"] for choice in entry["choices"]))
    scores = measure(found, read_known(args.data) if args.data else set())
    for kind, values in scores.items():
        print(f"{kind:10}", *(f"{name} {value}" for name, value in values.items()))
    if args.out:
        args.out.write_text(json.dumps(scores, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
