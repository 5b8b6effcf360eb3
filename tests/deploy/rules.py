"""Writes deploy/k8s/overlays/monitored/rules.yaml, the alerts for the Prometheus operator: the groups of deploy/prometheus/alerts.yml
and slo.yml, as they are, in a PrometheusRule.

    python3 tests/deploy/rules.py"""

from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILE = DEPLOY / "k8s/overlays/monitored/rules.yaml"
HEAD = """\
# Made by tests/deploy/rules.py from deploy/prometheus/alerts.yml and slo.yml: change those.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: linnet
  labels:
    app.kubernetes.io/name: linnet
    app.kubernetes.io/component: server
spec:
  groups:
"""


def groups_of(path):
    """The lines after `groups:`, two spaces further in."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join("  " + line for line in lines[lines.index("groups:\n") + 1:])


def text():
    return HEAD + "".join(groups_of(DEPLOY / "prometheus" / name) for name in ("alerts.yml", "slo.yml"))


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
