#!/usr/bin/env python3
"""Scores a server's answers to the upper lines of upper.tsv; README.md says how.

    python3 tests/quality/measure.py --url URL [--plain] [--data train.tsv] [--judge FOLDER] [--grades FILE] [--out FILE]
"""

import argparse
import collections
import contextlib
import itertools
import json
import lzma
import pathlib
import re
import statistics
import sys
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


def ask(url: str, body: dict, route: str = "completions") -> dict:
    request = urllib.request.Request(f"{url}/v1/{route}", json.dumps(body).encode(), {"Content-Type": "application/json"})
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


def likelihood(url: str, model: str, upper: str, lower: str) -> float:
    """Mean log-probability per character."""
    return -ask(url, {"model": model, "prompt": upper, "completion": lower}, "score")["nats_per_character"]


@contextlib.contextmanager
def serve(folder: pathlib.Path):
    """A server of the judge alone: its address and its model's name."""
    sys.path.append(str(HERE.parent / "http"))
    from server import Server

    with Server(model_dir=folder.resolve()) as server:
        yield f"http://127.0.0.1:{server.port}", folder.resolve().name


def phrases(text: str) -> set[str]:
    return {text[i : i + PHRASE] for i in range(len(text) - PHRASE + 1)}


def alike(texts: list[str]) -> float:
    """The share of places that two answers have in common, mean over all pairs."""
    pairs = list(itertools.combinations(texts, 2))
    return statistics.mean(sum(x == y for x, y in zip(a, b, strict=True)) / len(a) for a, b in pairs)


def contrasts(upper: str, lower: str) -> bool:
    pair = [tones.rstrip("，。、；：？！")[-1:] for tones in (upper, lower)]
    return pair not in ([LEVEL, LEVEL], [OBLIQUE, OBLIQUE])


def scores_of(found: list[dict], known: set[str], stock: set[str]) -> dict[str, float]:
    first = [entry["choices"][0] for entry in found]
    texts = [[choice["text"] for choice in entry["choices"]] for entry in found]
    scores = {
        "likely": statistics.mean(choice["mean_logprob"] for choice in first),
        "others": statistics.mean(choice["mean_logprob"] for entry in found for choice in entry["choices"][1:]),
        "tone": statistics.mean(contrasts(e["prompt_tones"], e["choices"][0]["tones"]) for e in found),
        "distinct": statistics.mean(len(set(t)) == N for t in texts),
        "openings": statistics.mean(len({text[0] for text in t}) for t in texts),
        "alike": statistics.mean(alike(t) for t in texts),
        "stock": statistics.mean(bool(phrases(choice["text"]) & stock) for choice in first),
    }
    if all("judged" in entry for entry in found):
        scores["judged"] = statistics.mean(entry["judged"] for entry in found)
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


# --- grades of a reader ---


def read_tones() -> str:
    """A digit per character from U+4E00 on: 1 level, 2 oblique, 3 both, 0 unknown."""
    words = re.findall("0x([0-9a-f]{16})", (HERE.parents[1] / "model" / "tones.def").read_text(encoding="utf-8"))
    return "".join(str(int(word, 16) >> 2 * i & 3) for word in words for i in range(32))


def tones_of(text: str, table: str) -> str:
    marks = {"1": LEVEL, "2": OBLIQUE, "3": "中"}
    digits = (table[ord(c) - 0x4E00] if 0x4E00 <= ord(c) < 0x4E00 + len(table) else "" for c in text)
    return "".join(marks.get(digit, c) for digit, c in zip(digits, text, strict=True))


def read_grades(path: pathlib.Path) -> list[tuple[str, str, float]]:
    """Lines of upper TAB lower TAB grade; other columns are left out."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        parts = line.split("\t")
        try:
            rows.append((parts[0], parts[1], float(parts[2])))
        except (IndexError, ValueError):
            raise SystemExit(f"measure.py: {path}:{number}: it is not upper TAB lower TAB grade") from None
    return rows


def ranks(values: list[float]) -> list[float]:
    """From 1 on; equal values share their mean rank."""
    places = collections.defaultdict(list)
    for place, value in enumerate(sorted(values), 1):
        places[value].append(place)
    return [statistics.mean(places[value]) for value in values]


def spearman(a: list[float], b: list[float]) -> float:
    """Rank correlation; 0 where one of the lists has one value only."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return statistics.correlation(ranks(a), ranks(b))


def agreement(rows: list[tuple[str, str, float]], scores: list[float]) -> float:
    """The share of two answers to one line with different grades that the scores order as the grades do; equal scores: half."""
    by_line = collections.defaultdict(list)
    for (upper, _, grade), score in zip(rows, scores, strict=True):
        by_line[upper].append((grade, score))
    pairs = [(max(a, b), min(a, b)) for found in by_line.values() for a, b in itertools.combinations(found, 2) if a[0] != b[0]]
    return statistics.mean(0.5 * (1 + (x > y) - (x < y)) for (_, x), (_, y) in pairs) if pairs else 0.0


def graded_scores(rows: list[tuple[str, str, float]], scorers: dict) -> dict[str, tuple[float, float]]:
    """Of each automatic score of a pair: its rank correlation with the grades, and its agreement with them."""
    grades = [grade for *_, grade in rows]
    found = {name: [score(upper, lower) for upper, lower, _ in rows] for name, score in scorers.items()}
    return {name: (round(spearman(scores, grades), 3), round(agreement(rows, scores), 3)) for name, scores in found.items()}


def first_grades(found: list[dict], rows: list[tuple[str, str, float]]) -> dict[str, float]:
    """Of the first answers that a reader has graded."""
    grades = {(upper, lower): grade for upper, lower, grade in rows}
    pairs = [(entry["line"], entry["choices"][0]["text"]) for entry in found]
    first = [grades[pair] for pair in pairs if pair in grades]
    if not first:
        return {"graded": 0}
    good, nonsense = statistics.mean(g >= 2 for g in first), statistics.mean(g == 0 for g in first)
    return {"graded": len(first), "mean": round(statistics.mean(first), 3), "good": round(good, 3), "nonsense": round(nonsense, 3)}


def scorers_of(url: str, known: set[str], judge: "tuple[str, str] | None") -> dict:
    table = read_tones()
    scorers = {
        "likely": lambda upper, lower: likelihood(url, "couplet", upper, lower),
        "tone": lambda upper, lower: contrasts(tones_of(upper, table), tones_of(lower, table)),
        "length": lambda upper, lower: -len(upper),
    }
    if judge:
        scorers["judged"] = lambda upper, lower: likelihood(*judge, upper, lower)
    if known:
        scorers["known"] = lambda upper, lower: lower not in known
    return scorers


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="of the server, without /v1")
    parser.add_argument("--plain", action="store_true", help="ask with rank: false")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=pathlib.Path, help="upper TAB lower lines of the training data, .xz or not")
    parser.add_argument("--judge", type=pathlib.Path, help="folder of a second couplet model, which scores the first answers")
    parser.add_argument("--grades", type=pathlib.Path, help="upper TAB lower TAB grade: print the first answers' grades, and how each score follows the grades")
    parser.add_argument("--answers", type=int, default=0, help="print this number of lines with their answers")
    parser.add_argument("--out", type=pathlib.Path)
    return parser.parse_args()


def main():
    args = parse_arguments()
    known = read_known(args.data) if args.data else set()
    with contextlib.ExitStack() as stack:
        judge = stack.enter_context(serve(args.judge)) if args.judge else None
        found = collect(args.url, args.plain, args.seed)
        for entry in found if judge else []:
            entry["judged"] = likelihood(*judge, entry["line"], entry["choices"][0]["text"])
        if args.grades:
            rows = read_grades(args.grades)
            print("first answers", first_grades(found, rows))
            print("scores", graded_scores(rows, scorers_of(args.url, known, judge)))
    for entry in found[: args.answers]:
        print(entry["kind"], entry["line"], *(choice["text"] for choice in entry["choices"]))
    scores = measure(found, known)
    for kind, values in scores.items():
        print(f"{kind:10}", *(f"{name} {value}" for name, value in values.items()))
    if args.out:
        args.out.write_text(json.dumps(scores, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
