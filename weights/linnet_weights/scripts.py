"""The commands linnet-train, linnet-convert and linnet-check: the scripts of weights/train and weights/convert, run as
`python3 weights/train/NAME.py` runs them."""

import pathlib
import runpy
import sys

HERE = pathlib.Path(__file__).resolve().parent


def folder(name: str) -> pathlib.Path:
    """Next to this module in an installation, next to its folder in a clone."""
    own = HERE / name
    return own if own.is_dir() else HERE.parent / name


def names(place: pathlib.Path) -> list[str]:
    """Scripts, without the modules that they import."""
    return sorted(p.stem for p in place.glob("*.py") if '__name__ == "__main__"' in p.read_text(encoding="utf-8"))


def run(place: pathlib.Path, name: str, arguments: list[str]):
    path = place / f"{name}.py"
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(place))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except ModuleNotFoundError as error:
        # Not a name that pip looks up elsewhere: who holds it there is not known.
        sys.exit(f"{name}: there is no Python package {error.name} here: in a clone of Linnet, pip install './weights[train]' brings it")


def choose(program: str, place: pathlib.Path, known: list[str]):
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    if chosen in ("-h", "--help"):
        print(f"usage: {program} NAME ARGUMENTS...\n\n{program} NAME --help lists them. NAME is one of {', '.join(known)}")
    elif chosen in known:
        run(place, chosen, sys.argv[2:])
    else:
        print(f"{program}: {chosen or 'nothing'} is none of {', '.join(known)}", file=sys.stderr)
        sys.exit(2)


def train():
    choose("linnet-train", folder("train"), names(folder("train")))


def convert():
    choose("linnet-convert", folder("convert"), [name for name in names(folder("convert")) if name != "check"])


def check():
    run(folder("convert"), "check", sys.argv[1:])
