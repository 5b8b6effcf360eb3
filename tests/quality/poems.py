#!/usr/bin/env python3
"""Scores a server's poems on the titles of titles.txt; README.md says how.

    python3 tests/quality/poems.py --url URL [--plain] [--grades FILE] [--answers N] [--out FILE]
"""

import argparse
import json
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from measure import ask, spearman  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
FORMS = "7x4", "5x4"  # in turns
MARKS = "，。"


def read_titles() -> list[str]:
    return (HERE / "titles.txt").read_text(encoding="utf-8").split()


def collect(url: str, plain: bool, seed: int) -> list[tuple[str, str]]:
    """Each title with its first poem."""
    found = []
    for i, title in enumerate(read_titles()):
        body = {"model": "poem", "prompt": f"唐《{title}》", "form": FORMS[i % 2], "n": 3, "seed": seed} | ({"rank": False} if plain else {})
        found.append((title, ask(url, body)["choices"][0]["text"]))
    return found


def likelihoods(url: str, prompt: str, text: str) -> list[float]:
    """The log-probability of each token of the text after the prompt."""
    return [-nats for nats in ask(url, {"model": "poem", "prompt": prompt, "completion": text}, "score")["surprise"]]


def read_finals() -> str:
    """A letter per character from U+4E00 on: its rhyme in modern Mandarin, capital for level tones; a dot: unknown."""
    return "".join(re.findall('"([^"]+)",?$', (HERE.parents[1] / "model" / "finals.def").read_text(encoding="utf-8"), re.MULTILINE))


def rhymes(text: str, finals: str) -> bool:
    """Whether the even lines end with different characters of one rhyme."""
    ends = [line[-1] for line in re.findall(f"[^{MARKS}]+", text)][1::2]
    heard = {finals[ord(c) - 0x4E00] if 0 <= ord(c) - 0x4E00 < len(finals) else "." for c in ends}
    return len(heard) == 1 and heard != {"."} and len(set(ends)) == len(ends)


def scores_of(url: str, title: str, text: str) -> dict[str, float]:
    half = (len(text) + 1) // 2
    whole = likelihoods(url, f"唐《{title}》", text)
    untitled = likelihoods(url, "唐《》", text)
    alone = likelihoods(url, f"唐《{title}》", text[half:])
    words = [c for c in text if c not in MARKS]
    mean = statistics.mean
    return {
        "likely": mean(whole),
        "fits": mean(whole) - mean(untitled),
        "holds": mean(whole[half : len(text)]) - mean(alone[: len(text) - half]),
        "fresh": len(set(words)) / len(words),
        "rhymes": float(rhymes(text, read_finals())),
    }


def mean_scores(url: str, found: list[tuple[str, str]]) -> dict[str, float]:
    rows = [scores_of(url, *pair) for pair in found]
    return {name: round(statistics.mean(row[name] for row in rows), 3) for name in rows[0]}


def read_grades(path: pathlib.Path) -> list[tuple[str, str, float]]:
    """Lines of title TAB poem TAB grade; other columns are left out."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(title, text, float(grade)) for title, text, grade, *_ in (line.split("\t") for line in lines)]


def correlations(url: str, rows: list[tuple[str, str, float]]) -> dict[str, float]:
    """Spearman's rank correlation of each score with the grades."""
    scores = [scores_of(url, title, text) for title, text, _ in rows]
    grades = [grade for *_, grade in rows]
    return {name: round(spearman([row[name] for row in scores], grades), 3) for name in scores[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="of the server, without /v1")
    parser.add_argument("--plain", action="store_true", help="ask with rank: false")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grades", type=pathlib.Path, help="title TAB poem TAB grade: print the rank correlation of each score")
    parser.add_argument("--answers", type=int, default=0, help="print this number of titles with their poems")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    if args.grades:
        print("grades", correlations(args.url, read_grades(args.grades)))
    found = collect(args.url, args.plain, args.seed)
    for title, text in found[: args.answers]:
        print(title, text)
    scores = mean_scores(args.url, found)
    print(*(f"{name} {value}" for name, value in scores.items()))
    if args.out:
        args.out.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
