"""Prometheus and Grafana: promtool accepts page, config and alerts, and every query names metrics and
labels that the server has."""

import json
import math
import re
import shutil
import subprocess

import pytest
import yaml

import rules
from places import DEPLOY

PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = json.loads((DEPLOY / "grafana" / "linnet.json").read_text())
RULES = [rule for name in ("alerts.yml", "slo.yml")
         for group in yaml.safe_load((PROMETHEUS / name).read_text())["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDS = {rule["record"] for rule in RULES if "record" in rule}
MANUAL = (DEPLOY.parent / "docs" / "operations.md").read_text()
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
    ["check", "rules", "slo.yml"],
    ["test", "rules", "alerts.test.yml"],
    ["test", "rules", "slo.test.yml"],
])
def test_promtool_accepts_the_files(args):
    result = promtool(*args)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "SUCCESS" in result.stdout


def rule_cases():
    for name in ("alerts.test.yml", "slo.test.yml"):
        yield from yaml.safe_load((PROMETHEUS / name).read_text())["tests"]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_fires_in_one_test_and_not_in_another(rule):
    expected = [bool(case["exp_alerts"]) for test in rule_cases() for case in test.get("alert_rule_test", [])
                if case["alertname"] == rule["alert"]]
    assert set(expected) == {True, False}


@pytest.mark.parametrize("record", sorted(RECORDS))
def test_every_recorded_value_is_tested_beyond_its_limits_and_within(record):
    """As for alerts: one series that burns the budget, and one that does not."""
    limits = [math.prod(map(float, factors.split("*"))) for rule in ALERTS
              for factors in re.findall(rf"\b{record} > ([\d. *]+)", rule["expr"])]
    assert limits, "no alert looks at it"
    values = [sample["value"] for test in rule_cases() for case in test.get("promql_expr_test", [])
              if re.search(rf"\b{record}\b", case["expr"]) for sample in case["exp_samples"]]
    assert any(value > limit for value in values for limit in limits) and any(value <= min(limits) for value in values), values


def test_every_alert_leads_to_its_section():
    sections = {title.lower() for title in re.findall(r"^### (\w+)$", MANUAL, re.MULTILINE)}
    for rule in ALERTS:
        page, _, section = rule["annotations"]["runbook_url"].partition("#")
        assert page.endswith("/operations.md") and section == rule["alert"].lower()
        assert section in sections, f"docs/operations.md has no section {rule['alert']}"


def test_alertmanager_accepts_its_configuration():
    config = yaml.safe_load((DEPLOY / "alertmanager.yml").read_text())
    receivers = {receiver["name"] for receiver in config["receivers"]}
    routes = [config["route"], *config["route"]["routes"]]
    assert {route["receiver"] for route in routes} == receivers
    known = {rule["alert"] for rule in ALERTS}
    named = {name for rule in config["inhibit_rules"] for side in ("source_matchers", "target_matchers")
             for matcher in rule[side] for name in re.findall(r"Linnet\w+", matcher)}
    assert named <= known, named - known
    if shutil.which("amtool") is None:
        pytest.skip("amtool is not installed (Debian package prometheus-alertmanager): the file was read as YAML alone")
    result = subprocess.run(["amtool", "check-config", DEPLOY / "alertmanager.yml"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


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
    for rule in RULES:
        yield rule.get("alert") or rule["record"], rule["expr"]
    adapter = yaml.safe_load((PROMETHEUS / "adapter-rules.yaml").read_text())
    yield "adapter", adapter["rules"]["custom"][0]["seriesQuery"]
    hpa = yaml.safe_load((DEPLOY / "k8s/base/hpa.yaml").read_text())
    yield "HorizontalPodAutoscaler", hpa["spec"]["metrics"][0]["pods"]["metric"]["name"]


QUERIES = list(queries())


@pytest.mark.parametrize("where, query", QUERIES, ids=[f"{i}-{q[0]}" for i, q in enumerate(QUERIES)])
def test_queries_name_what_exists(where, query, series):
    recorded = set(re.findall(r"\blinnet:[\w:]+", query))
    names = set(re.findall(r"\b(?:linnet|process)_\w+", query))
    assert names or recorded or "up{" in query, where
    assert recorded <= RECORDS, where
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


def test_every_metric_has_a_panel(series):
    """A histogram is shown by its buckets."""
    shown = {name for panel in DASHBOARD["panels"] for target in panel.get("targets", [])
             for name in re.findall(r"\b(?:linnet|process)_\w+", target["expr"])}
    families = {name for name in series if not name.endswith(("_bucket", "_sum", "_count"))}
    families |= {name for name in series if name.endswith("_bucket")}
    assert families - shown == set()


def test_the_operators_rules_are_ours():
    assert rules.FILE.read_text() == rules.text(), "python3 tests/deploy/rules.py writes the file"
    operators = yaml.safe_load(rules.FILE.read_text())["spec"]["groups"]
    assert [rule for group in operators for rule in group["rules"]] == RULES


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


def test_metrics_named_in_documents_exist(series):
    """Every linnet_... in code of a document, and in the manifests' comments, is a metric (or the beginning of a family's)."""
    known = set(series) | {re.sub(r"_(bucket|sum|count)$", "", name) for name in series}
    listed = subprocess.run(["git", "-C", DEPLOY.parent, "ls-files", "*.md"], check=True, capture_output=True, text=True, timeout=60)
    pages = [DEPLOY.parent / name for name in listed.stdout.split()]
    found = {(path, name) for path in [*pages, *DEPLOY.rglob("*.y*ml")] if path.is_file()
             for code in re.findall(r"`([^`\n]+)`", path.read_text()) for name in re.findall(r"(?<![\w/-])linnet_[a-z_]+\b(?!\.py)", code)}
    assert len(found) > 50
    for path, name in found:
        assert name in known | NO_METRICS, f"{path.relative_to(DEPLOY.parent)}: {name}"


NO_METRICS = {"linnet_task", "linnet_blocks", "linnet_weights"}  # keys of config.json and of a file of weights, a Python package
