"""Modules that are slow to import: each worker collects every file of tests, and runs a few of them."""

import importlib.util
import sys

import pytest


def lazily(name):
    """The module, which is imported when something of it is used; without it the file is skipped."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None:
        pytest.skip(f"the {name} package is not installed", allow_module_level=True)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
