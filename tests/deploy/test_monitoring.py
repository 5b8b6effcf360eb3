"""Prometheus and Grafana: promtool accepts page, config and alerts, and every query names metrics and
labels that the server has."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from places import DEPLOY

PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = json.loads((DEPLOY / "grafana" / "linnet.json").read_text())
ALERTS = [rule for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
          for rule in group["rules"]]
SCRAPED = {"job", "instance", "le"}


def promtool(*args, **options):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    return subprocess.run(["promtool", *args], capture_output=True, text=True, cwd=PROMETHEUS,
                          **options)


def test_promtool_accepts_the_page(metrics_page):
    result = promtool("check", "metrics", input=metrics_page)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("args", [
    ["check", "config", "prometheus.yml"],
    ["check", "rules", "alerts.yml"],
    ["test", "rules", "alerts.test.yml"],
])
def test_promtool_accepts_the_files(args):
    result = promtool(*args)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "SUCCESS" in result.stdout


def test_every_alert_has_a_test_and_a_line_in_the_manual():
    tests = (PROMETHEUS / "alerts.test.yml").read_text()
    manual = (DEPLOY.parent / "docs" / "operations.md").read_text()
    for rule in ALERTS:
        assert f"alertname: {rule['alert']}\n" in tests, rule["alert"]
        assert re.search(rf"^\| [^|]*\b{rule['alert']}\b", manual, re.MULTILINE), rule["alert"]


# --- names

@pytest.fixture(scope="session")
def series(metrics_page):
    """{name: the labels its samples have}"""
    found = {}
    for line in metrics_page.splitlines():
        if not line.startswith("#"):
            name, _, labels = re.match(r"(\w+)(\{(.*)\})? ", line).groups()
            found.setdefault(name, set()).update(re.findall(r"(\w+)=", labels or ""))
    return found


def queries():
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]
    for rule in ALERTS:
        yield rule["alert"], rule["expr"]
    adapter = yaml.safe_load((PROMETHEUS / "adapter-rules.yaml").read_text())
    yield "adapter", adapter["rules"]["custom"][0]["seriesQuery"]
    hpa = yaml.safe_load((DEPLOY / "k8s/base/hpa.yaml").read_text())
    yield "HorizontalPodAutoscaler", hpa["spec"]["metrics"][0]["pods"]["metric"]["name"]


QUERIES = list(queries())


@pytest.mark.parametrize("where, query", QUERIES, ids=[f"{i}-{q[0]}" for i, q in enumerate(QUERIES)])
def test_queries_name_what_exists(where, query, series):
    names = set(re.findall(r"\blinnet_\w+", query))
    assert names or query.startswith("up{"), where
    for name in names:
        assert name in series, f"{where}: /metrics has no {name}"
        used = set()
        for labels in re.findall(rf"\b{name}\{{([^}}]*)\}}", query):
            used |= set(re.findall(r"(\w+)(?:=|!)", labels))
        added = {"namespace", "pod"} if where == "adapter" else set()
        assert used <= series[name] | SCRAPED | added, f"{where}: {used} of {name}"


def test_labels_that_queries_group_by_exist(series):
    known = set().union(*series.values()) | SCRAPED
    for where, query in QUERIES:
        for labels in re.findall(r"\bby \(([^)]*)\)", query):
            assert set(re.split(r"[ ,]+", labels)) <= known, where


def test_panels_do_not_overlap():
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
