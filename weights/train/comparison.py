"""Shared code of scripts that run several recipes: ablate.py, copy_kinds.py, mnist_kinds.py, poem_kinds.py,
speech_kinds.py."""

import argparse
import json
import pathlib
import shutil
import signal
import subprocess
import sys


def make_parser(description: str, kinds, tokens: str) -> argparse.ArgumentParser:
    """tokens: of each run, where --tokens is not given."""
    p = argparse.ArgumentParser(description=description.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--runs", type=pathlib.Path, required=True, help="a folder for the runs and their models")
    p.add_argument("--only", nargs="+", choices=kinds, default=list(kinds))
    p.add_argument("--tokens", default=tokens, help="of each run")
    p.add_argument("--threads", default="1")
    p.add_argument("--linnet", type=pathlib.Path, default=pathlib.Path("build/linnet"))
    return p


def parse(p: argparse.ArgumentParser) -> argparse.Namespace:
    """Arguments that p does not know are for the recipe."""
    args, args.further = p.parse_known_args()
    check_program(args.linnet)
    return args


def check_program(linnet: pathlib.Path):
    """Before anything is trained for it to look at."""
    if shutil.which(linnet) is None:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: there is no program {linnet}: build it, or name it with --linnet")


def model_of(kind: str, args: argparse.Namespace) -> pathlib.Path:
    return args.runs / kind / "model"


def run_script(name: str, *words):
    """Run a script of this folder; its standard output is of no use here. A signal leaves the script the time to save its
    run: a terminal sends Ctrl-C to both processes, and SIGTERM is passed on. The handlers are there before the script
    is, as a signal between its start and theirs would end this process alone."""
    script, ended = None, False

    def pass_on(*_):
        nonlocal ended
        ended = True
        if script is not None:
            script.terminate()

    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None), signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on)}
    try:
        script = subprocess.Popen([sys.executable, pathlib.Path(__file__).parent / name, *words], stdout=subprocess.DEVNULL)
        if ended:
            script.terminate()
        status = script.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if status:  # the script has said why
        sys.exit(status if status > 0 else 128 - status)


def train(kind: str, args: argparse.Namespace, recipe: str, settings: list[str], *words):
    """Trains the model of this kind by a recipe, unless it is complete. settings: FIELD=VALUE each."""
    model = model_of(kind, args)
    if (model / "config.json").exists():
        return
    print(f"training {kind}", file=sys.stderr)
    run_script(recipe, "--data", args.data, "--run", args.runs / kind, "--out", model, "--tokens", args.tokens,
               "--threads", args.threads, *words, *(word for setting in settings for word in ("--set", setting)), *args.further)


def ask(args: argparse.Namespace, *words) -> dict:
    """The program's output."""
    said = subprocess.run([args.linnet, *words, "--json"], stdout=subprocess.PIPE, text=True)
    if said.returncode:  # it has said why
        sys.exit(said.returncode)
    return json.loads(said.stdout)
