"""Markers and docstrings of Python tests: each file says its purpose, each route is asked in the quick tests."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "run" / "list.py"
ROUTE = re.compile(r'^    \{"(?:GET|POST|PUT|DELETE)", "([^"]+)"', re.M)
# Second names of routes that are asked by their first ones.
OTHER_NAMES = {"/v1/states/*/look", "/v1/health", "/v2/health/ready", "/v2/health/live"}


def listed(*arguments):
    result = subprocess.run([LIST, *arguments], check=True, capture_output=True, text=True, timeout=60)
    return result.stdout.splitlines()


def test_every_file_says_its_purpose():
    lines = listed()
    assert len(lines) > 100
    assert [name for name, purpose in zip(lines[::2], lines[1::2], strict=True) if not purpose.strip()] == []


def test_every_route_has_a_quick_test():
    routes = set(ROUTE.findall((ROOT / "server" / "routes" / "routes.c").read_text())) - OTHER_NAMES
    assert len(routes) > 20
    helpers = [path for path in (ROOT / "tests" / "http").glob("*.py") if not path.name.startswith("test_")]
    text = "".join((ROOT / name).read_text() for name in [*listed("--marked", "quick"), *helpers])
    patterns = {route: re.compile(re.escape(route).replace(r"\*", r"[^/\"' ]+") + r"""["'?]""") for route in routes}
    assert {route for route, pattern in patterns.items() if not pattern.search(text)} == set()


def test_a_test_that_trains_is_marked():
    files = [path for folder in ("http", "checks") for path in (ROOT / "tests" / folder).glob("test_*.py")]
    needs = re.compile(r'^(torch = )?pytest\.importorskip\("torch"', re.M)
    unmarked = {path.name for path in files if needs.search(path.read_text())} - {
        Path(name).name for name in listed("--marked", "training", "tests/http", "tests/checks")}
    assert unmarked == set()
