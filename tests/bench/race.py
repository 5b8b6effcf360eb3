#!/usr/bin/env python3
"""Compares the times of the page's race with those of `linnet bench --positions`.

    .venv/bin/python tests/bench/race.py [--linnet build/linnet] [--threads 2] [--position 1024]

Serves weights and weights/demo, and runs the race of the page in Chromium until every racer is past the position. A figure is the
median of a lane's points around the position. After that, linnet bench measures the same position of the same models
twice, with as many threads; the mean of both is compared with the page's figure. Ends with status 1 when they differ by
more than --tolerance, or fewer than two came so far: a racer that recomputes everything is not waited for longer than
--minutes. The browser draws while the server computes, so leave it a processor: --threads 1 where there are two. On a
machine that does other work at the same time neither figure means anything: the two runs of the bench, printed apart,
show it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/browser"), str(ROOT / "tests/http")]
import conftest  # noqa: E402 (its running)

LANES = "import('/race.js').then(({ race }) => race.lanes())"
FAR_ENOUGH = """(until) => Array.from(document.querySelectorAll('.lanes td:nth-child(2)'))
    .every((td) => Number(td.textContent.replaceAll(',', '')) >= until)"""
AROUND = 384  # positions on either side


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--linnet", type=Path, default=os.environ.get("LINNET", ROOT / "build" / "linnet"))
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--position", type=int, default=1024)
    p.add_argument("--tolerance", type=float, default=0.2)
    p.add_argument("--minutes", type=float, default=5, help="after which a racer that is slow gives up")
    return p.parse_args()


def bench(args, model):
    folder = next(place for place in (ROOT / "weights" / model, ROOT / "weights/demo" / model) if place.exists())
    command = [args.linnet, "bench", "--model", folder, "--positions", str(args.position),
               "--threads", str(args.threads), "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)["rows"][0]["ms_per_token"]


def race(args):
    """Every lane of a race until all are past the position, or the time is over."""
    until = args.position + AROUND
    with conftest.running(f"{ROOT}/weights:{ROOT}/weights/demo") as address, sync_playwright() as playwright:
        chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{address}/#race")
        page.locator(".lanes tbody tr").first.wait_for()
        page.click("#race-go")
        try:
            page.wait_for_function(FAR_ENOUGH, arg=until, timeout=args.minutes * 60_000, polling=1000)
        except Exception as error:  # the available positions are compared
            print(f"not all racers came so far: {type(error).__name__}")
        lanes = page.evaluate(LANES)
        browser.close()
    return lanes


def main():
    args = parse_arguments()
    os.environ["LINNET"], os.environ["LINNET_THREADS"] = str(args.linnet), str(args.threads)
    lanes, right, compared = race(args), True, 0
    print("model             page ms   bench twice            difference")
    for lane in lanes:
        near = [p["ms"] for p in lane["points"] if abs((p["from"] + p["to"]) / 2 - args.position) <= AROUND]
        if not near:
            print(f"{lane['id']:16} did not come to position {args.position} in {args.minutes:g} minutes")
            continue
        shown, measured = statistics.median(near), [bench(args, lane["id"]) for _ in range(2)]
        difference = shown / statistics.mean(measured) - 1
        compared += 1
        right = right and abs(difference) <= args.tolerance
        print(f"{lane['id']:16} {shown:8.3f}   {measured[0]:8.3f} {measured[1]:8.3f} {difference:13.1%}")
    return 0 if right and compared > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
