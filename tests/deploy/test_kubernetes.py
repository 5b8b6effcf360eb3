"""deploy/k8s: every overlay renders, every manifest is right by key and by type, and the parts fit
each other: selectors, ports, probes, times."""

import copy
import json
import shutil
import subprocess

import pytest
import yaml

import manifests
from places import DEPLOY

OVERLAYS = ["base"] + sorted(
    f"overlays/{p.parent.name}" for p in DEPLOY.glob("k8s/overlays/*/kustomization.yaml"))


@pytest.fixture(scope="module", params=OVERLAYS)
def rendered(request):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: overlays are not rendered, files are checked alone")
    result = subprocess.run(["kubectl", "kustomize", DEPLOY / "k8s" / request.param],
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def documents(rendered):
    return {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(rendered)}


def test_the_overlays_of_the_manual_are_there():
    assert {"base", "overlays/gpu", "overlays/minimal", "overlays/monitored", "overlays/public"} <= set(OVERLAYS)


def test_rendered_manifests_are_right(rendered):
    found, documents = manifests.check(rendered)
    assert not found, "\n".join(found)
    assert len(documents) >= 3


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("k8s/base/*.yaml")), ids=lambda p: p.name)
def test_files_of_the_base_are_right(path):
    if path.name == "kustomization.yaml":
        names = yaml.safe_load(path.read_text())["resources"]
        others = {p.name for p in path.parent.glob("*.yaml")} - {path.name}
        assert set(names) == others
        return
    found, documents = manifests.check(path.read_text())
    assert not found and documents, "\n".join(found)


def own_resources():
    """Documents that overlays add to the base: whole ones, right without being rendered."""
    for path in sorted(DEPLOY.glob("k8s/overlays/*/kustomization.yaml")):
        for name in yaml.safe_load(path.read_text())["resources"]:
            if name.endswith(".yaml"):
                yield path.parent / name


@pytest.mark.parametrize("path", list(own_resources()), ids=lambda p: p.name)
def test_files_that_overlays_add_are_right(path):
    found, documents = manifests.check(path.read_text())
    assert not found and len(documents) == 1, "\n".join(found)


def test_there_is_a_monitor_and_an_ingress_with_tls():
    documents = {d["kind"]: d for d in (yaml.safe_load(path.read_text()) for path in own_resources())}
    assert {"ServiceMonitor", "Ingress"} <= set(documents) and documents["Ingress"]["spec"]["tls"]


# --- the checker itself can fail

def change(document, path, value):
    *parents, last = path
    for key in parents:
        document = document[key]
    document[last] = value


CONTAINER = ("spec", "template", "spec", "containers", 0)


@pytest.mark.parametrize("path, value, fault", [
    ((*CONTAINER, "securityContext", "runAsNonRoo"), True, "no such key"),
    ((*CONTAINER, "securityContext", "readOnlyRootFilesystem"), "yes", "is no bool"),
    ((*CONTAINER, "readinessProbe", "periodSeconds"), "5", "is no int"),
    ((*CONTAINER, "readinessProbe", "httpGet"), {"path": "/readyz"}, "port"),
    ((*CONTAINER, "resources", "limits", "memory"), "1 GB", "is no quantity"),
    ((*CONTAINER, "env", 0, "value"), 60, "is no str"),
    ((*CONTAINER, "ports"), {"containerPort": 80}, "is no list"),
    (("spec", "selector"), None, "selector"),
    (("spec", "replicas"), True, "is no int"),
    (("kind",), "Deploymnt", "has no such kind"),
    (("apiVersion",), "apps/v2", "has no such kind"),
])
def test_a_fault_is_found(path, value, fault):
    document = yaml.safe_load((DEPLOY / "k8s/base/deployment.yaml").read_text())
    assert manifests.check(yaml.safe_dump(document))[0] == []
    broken = copy.deepcopy(document)
    change(broken, path, value)
    found = manifests.check(yaml.safe_dump(broken))[0]
    assert any(fault in f for f in found), found


@pytest.mark.parametrize("path, value, fault", [
    (("spec", "selectors"), {}, "no such key"),
    (("spec", "endpoints"), {"port": "http"}, "is no list"),
    (("spec", "endpoints", 0), {"path": "/metrics"}, "port"),
])
def test_a_fault_of_a_monitor_is_found(path, value, fault):
    document = yaml.safe_load((DEPLOY / "k8s/overlays/monitored/servicemonitor.yaml").read_text())
    assert manifests.check(yaml.safe_dump(document))[0] == []
    change(document, path, value)
    found = manifests.check(yaml.safe_dump(document))[0]
    assert any(fault in f for f in found), found


# --- the parts fit each other

def pod_of(documents, kind, name):
    template = documents[kind, name]["spec"]["template"]
    return template["metadata"]["labels"], template["spec"]


def test_selectors_select(documents):
    server, _ = pod_of(documents, "Deployment", "linnet")
    for (kind, name), d in documents.items():
        spec = d.get("spec", {})  # a ConfigMap has none
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is None:
            continue
        wanted = selector.get("matchLabels", selector)
        labels = server if name == "linnet" else pod_of(documents, "StatefulSet", name)[0]
        assert wanted and wanted.items() <= labels.items(), (kind, name)


def test_ports_have_the_names_that_are_used(documents):
    _, spec = pod_of(documents, "Deployment", "linnet")
    names = {p["name"]: p["containerPort"] for p in spec["containers"][0]["ports"]}
    assert names == {"http": 8080}
    assert documents["Service", "linnet"]["spec"]["ports"][0]["targetPort"] == "http"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert spec["containers"][0][probe]["httpGet"]["port"] == "http"


def test_pods_are_closed(documents):
    for kind, name in [k for k in documents if k[0] in ("Deployment", "StatefulSet")]:
        _, spec = pod_of(documents, kind, name)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            own = container["securityContext"]
            assert own["readOnlyRootFilesystem"] and not own["allowPrivilegeEscalation"]
            assert own["capabilities"]["drop"] == ["ALL"]
            assert "memory" in container["resources"]["limits"]


def test_there_is_time_to_drain(documents):
    _, spec = pod_of(documents, "Deployment", "linnet")
    container = spec["containers"][0]
    values = {e["name"]: e.get("value") for e in container["env"]}
    delay, drain = int(values["LINNET_DRAIN_DELAY"]), int(values["LINNET_DRAIN_TIMEOUT"])
    assert 0 < delay and delay + drain < spec["terminationGracePeriodSeconds"]


def test_the_autoscaler_scales_the_deployment(documents):
    hpa = documents.get(("HorizontalPodAutoscaler", "linnet"))
    if hpa is None:  # the minimal overlay
        assert documents["Deployment", "linnet"]["spec"]["replicas"] == 1
        return
    assert hpa["spec"]["scaleTargetRef"] == {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "linnet"}
    assert [m["pods"]["metric"]["name"] for m in hpa["spec"]["metrics"]] == ["linnet_queue_length"], \
        "one client takes a whole processor, and no other waits"
    assert "replicas" not in documents["Deployment", "linnet"]["spec"]


def test_the_monitor_selects_the_service_and_names_the_job(documents):
    monitor = documents.get(("ServiceMonitor", "linnet"))
    if monitor is None:
        return
    service = documents["Service", "linnet"]
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == "linnet"  # the job of deploy/prometheus and the dashboard
    assert {e["port"] for e in monitor["spec"]["endpoints"]} <= {p["name"] for p in service["spec"]["ports"]}
    redis = documents.get(("Service", "linnet-redis"))
    assert redis is None or not monitor["spec"]["selector"]["matchLabels"].items() <= redis["metadata"]["labels"].items()


def test_the_operators_find_alerts_and_dashboard(documents):
    if ("ServiceMonitor", "linnet") not in documents:
        assert ("PrometheusRule", "linnet") not in documents
        return
    assert documents["PrometheusRule", "linnet"]["spec"]["groups"]
    dashboard = documents["ConfigMap", "linnet-dashboard"]
    assert dashboard["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert json.loads(dashboard["data"]["linnet.json"]) == json.loads((DEPLOY / "grafana/linnet.json").read_text())


def test_redis_and_its_password_go_together(documents, rendered):
    """Without the option there is neither its file, which the server would refuse, nor a Secret that a pod waits
    for."""
    _, spec = pod_of(documents, "Deployment", "linnet")
    names = {e["name"]: e["value"] for e in spec["containers"][0]["env"]}
    has_redis = ("StatefulSet", "linnet-redis") in documents
    assert names["LINNET_STATE_STORE"].startswith("redis://") == has_redis
    assert ("LINNET_STATE_STORE_PASSWORD_FILE" in names) == has_redis == ("secretName: linnet-redis" in rendered)


def test_the_ingress_leads_to_the_service(documents):
    ingress = documents.get(("Ingress", "linnet"))
    if ingress is None:
        return
    hosts = {rule["host"] for rule in ingress["spec"]["rules"]}
    assert {host for entry in ingress["spec"]["tls"] for host in entry["hosts"]} == hosts
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    service = documents["Service", backend["name"]]
    assert backend["port"]["name"] in {p["name"] for p in service["spec"]["ports"]}
    _, spec = pod_of(documents, "Deployment", "linnet")
    allowed = {e["name"]: e["value"] for e in spec["containers"][0]["env"]}["LINNET_ALLOWED_HOSTS"]
    assert set(allowed.split(",")) == hosts
