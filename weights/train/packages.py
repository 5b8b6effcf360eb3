"""A Python package that is missing ends a recipe with one line. Each recipe imports this module before its packages."""

import os
import pathlib
import sys

REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")


def report(kind, error, trace):
    if not issubclass(kind, ModuleNotFoundError) or error.name is None:
        sys.__excepthook__(kind, error, trace)
        return
    recipe, package = pathlib.Path(sys.argv[0]).name, error.name.split(".")[0]
    print(f"{recipe}: the Python package {package} is missing: pip install -r {os.path.relpath(REQUIREMENTS)}", file=sys.stderr)


sys.excepthook = report
