#!/usr/bin/env python3
"""An operator's bad day: which alerts fire, and none else: tests/campaign/alerts.py [--speed N]

Two replicas with Redis, deploy/haproxy.cfg and Prometheus with the rules of deploy/prometheus, under load: a rolling restart, a
killed replica, a replica that leaves, a full queue. For each part the script prints the alerts that fired, and the number of replicas that
the HorizontalPodAutoscaler of deploy/k8s/base would have wanted by its formula and the recorded metric.

Every duration of the rules, of the recorded metric and of the autoscaler is divided by --speed. Rates, shares and counts stay. Replicas are found
by a file, as deploy/prometheus/prometheus.yml finds them by name: a stopped container leaves the list, a killed process stays in it.
Exit status 1 when an expected alert did not fire, when another one did, or when the restart lost a request; 77 without Prometheus
(Debian package prometheus).
"""

import argparse
import contextlib
import json
import math
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

import yaml

from common import client, http_server, temporary
from cluster import HAProxy, Process, Redis, free_ports
from settings import ROOT

DEPLOY = ROOT / "deploy"
SLOTS, QUEUE, CALM, CROWD = 4, 64, 2, 200
PATIENCE = 600
UNITS = {"s": 1, "m": 60, "h": 3600}
REQUEST = {"model": "couplet", "prompt": "海上明月海上明月，春江花月春江花月", "n": 4, "rank": False}
wait_until = http_server.wait_until


def quicker(text, speed):
    """Rules, or a query, whose durations are shorter: [5m], offset 30m, for: 2m."""
    return re.sub(r"(?<=\[)(\d+)([smh])(?=\])|(?<=offset )(\d+)([smh])|(?<=for: )(\d+)([smh])",
                  lambda m: f"{round(1000 * int(m[m.lastindex - 1]) * UNITS[m[m.lastindex]] / speed)}ms", text)


class Replica(http_server.Server):
    """Starts again on the port it had."""

    def __init__(self, *flags):
        super().__init__("--slots", SLOTS, "--queue", QUEUE, "--drain-delay", "2", *flags)
        self.args[3] = str(free_ports(1)[0])

    def start_again(self):
        self.ending = False
        self.log_file = tempfile.NamedTemporaryFile(prefix="linnet-log-", suffix=".txt")
        return self.start()


class Prometheus(Process):
    """With the rules of deploy/prometheus, quicker; `found` are the replicas that it asks."""

    def __init__(self, folder, speed):
        super().__init__()
        self.folder, self.every = folder, 5 / speed
        for name in ("alerts.yml", "slo.yml"):
            text = (DEPLOY / "prometheus" / name).read_text(encoding="utf-8")
            (folder / name).write_text(quicker(text, speed), encoding="utf-8")
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {key: f"{round(1000 * self.every)}ms" for key in ("scrape_interval", "scrape_timeout", "evaluation_interval")},
            "rule_files": ["alerts.yml", "slo.yml"],
            "scrape_configs": [{"job_name": "linnet", "file_sd_configs": [{"files": ["replicas.json"], "refresh_interval": "1s"}]}],
        }), encoding="utf-8")

    def find(self, replicas):
        new = self.folder / "replicas.new"
        new.write_text(json.dumps([{"targets": [f"{client.HOST}:{replica.port}" for replica in replicas]}]), encoding="utf-8")
        new.replace(self.folder / "replicas.json")

    def run_on(self, port):
        self.spawn(["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                    f"--web.listen-address={client.HOST}:{port}"])

    def ask(self, what, **fields):
        reply = client.call(self.port, "GET", f"/api/v1/{what}?{urllib.parse.urlencode(fields)}")
        assert reply.status == 200, reply.text
        return reply.json()["data"]["result"]

    def firing(self):
        return {one["metric"]["alertname"] for one in self.ask("query", query='ALERTS{alertstate="firing"}')}

    def fired(self, since):
        """{name: severity} of the alerts that fired at any time since."""
        found = self.ask("query", query=f'max_over_time(ALERTS{{alertstate="firing"}}[{math.ceil(1000 * (time.time() - since))}ms])')
        return {one["metric"]["alertname"]: one["metric"]["severity"] for one in found}

    def series(self, query, since, step):
        found = self.ask("query_range", query=query, start=since, end=time.time(), step=step)
        return [float(value) for _, value in found[0]["values"]] if found else []


class Load:
    """Clients that wait for their answers, and then a second after a refusal."""

    def __init__(self, port):
        self.port, self.end, self.lock, self.threads = port, threading.Event(), threading.Lock(), []
        self.answers = {}  # {status: how many}; 0 is a cut connection

    def work(self, number):
        while not self.end.is_set():
            number += 1
            try:
                status = client.call(self.port, "POST", "/v1/completions", {**REQUEST, "seed": number % 1000}).status
            except (OSError, AssertionError):
                status = 0
            with self.lock:
                self.answers[status] = self.answers.get(status, 0) + 1
            self.end.wait(0.2 if status == 200 else 1)

    @contextlib.contextmanager
    def of(self, clients):
        self.end.clear()
        self.answers, threads = {}, [threading.Thread(target=self.work, args=(1000 * i,)) for i in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.end.set()
            for thread in threads:
                thread.join()  # check-tests: a client's answer has a limit of its own


class Autoscaler:
    """How many replicas the algorithm of Kubernetes wants, by the manifest. It decides every 15 s, with a tolerance of a tenth. The least
    recommendation of a window counts upwards, the largest one downwards, and a period has a limit of new or removed pods."""

    SYNC = 15

    def __init__(self):
        spec = yaml.safe_load((DEPLOY / "k8s/base/hpa.yaml").read_text(encoding="utf-8"))["spec"]
        self.least, self.most = spec["minReplicas"], spec["maxReplicas"]
        self.target = float(spec["metrics"][0]["pods"]["target"]["averageValue"])
        self.up, self.down = spec["behavior"]["scaleUp"], spec["behavior"]["scaleDown"]

    def decide(self, totals):
        """The number after each decision; totals: the metric's sum over all pods, one for each decision."""
        now, numbers, wanted = self.least, [], []
        for total in totals:
            ratio = total / (self.target * now)
            wanted.append(now if abs(ratio - 1) <= 0.1 else min(self.most, max(self.least, math.ceil(total / self.target))))
            numbers.append(now)
            up = min(self.last(wanted, self.up["stabilizationWindowSeconds"]))
            down = max(self.last(wanted, self.down["stabilizationWindowSeconds"]))
            if up > now:
                now = min(up, self.before(numbers, self.up) + self.up["policies"][0]["value"])
            elif down < now:
                now = max(down, self.before(numbers, self.down) - self.down["policies"][0]["value"])
            numbers[-1] = now
        return numbers

    def last(self, values, seconds):
        return values[-(seconds // self.SYNC + 1):]

    def before(self, numbers, rule):
        """The number at the beginning of the policy's period."""
        return numbers[max(0, len(numbers) - 1 - rule["policies"][0]["periodSeconds"] // self.SYNC)]


class Day:
    def __init__(self, speed, folder, replicas, proxy):
        self.speed, self.replicas = speed, replicas
        self.prometheus = Prometheus(folder, speed)
        self.load = Load(proxy.port)
        self.began, self.faults = time.time(), []

    def minutes(self, count):
        """Of the rules."""
        time.sleep(60 * count / self.speed)  # check-tests: alerts that must not fire have this time to do so

    def part(self, name, happen, required=(), allowed=(), clients=CALM):
        """Expected alerts have as long as they need, other alerts as long as that takes, and ten minutes."""
        since = time.time()
        with self.load.of(clients):
            happen()
            wait_until(lambda: set(required) <= set(self.prometheus.fired(since)), PATIENCE, f"{name}: {required}")
            self.minutes(10)
        fired, numbers = self.prometheus.fired(since), self.decisions(since)
        wrong = fired.keys() - {*required, *allowed}
        alerts = ", ".join(f"{alert} ({fired[alert]})" for alert in sorted(fired)) or "none"
        answers = ", ".join(f"{count} x {status or 'cut'}" for status, count in sorted(self.load.answers.items()))
        print(f"| {name} | {alerts} | {max(numbers)} | {answers} |", flush=True)
        if wrong:
            self.faults.append(f"{name}: {', '.join(sorted(wrong))} fired")
        return numbers

    def decisions(self, since):
        rule = yaml.safe_load((DEPLOY / "prometheus/adapter-rules.yaml").read_text(encoding="utf-8"))["rules"]["custom"][0]
        query = rule["metricsQuery"].replace("<<.LabelMatchers>>", "").replace("<<.GroupBy>>", "job")
        return Autoscaler().decide(self.prometheus.series(quicker(query, self.speed), since, Autoscaler.SYNC / self.speed))

    def expect(self, held, text):
        if not held:
            self.faults.append(text)

    def run(self):
        first, second = self.replicas
        self.prometheus.find(self.replicas)
        print("| part | alerts | most replicas wanted | answers |\n| --- | --- | --- | --- |")
        with self.prometheus:
            # Half an hour of both replicas is known before one of them goes.
            calm = self.part("calm", lambda: self.minutes(25))
            self.expect(max(calm) == 2, "calm: the autoscaler wants more replicas")
            self.part("rolling restart", self.restart)
            self.expect(set(self.load.answers) == {200}, f"rolling restart: answers {self.load.answers}")
            self.part("a replica is killed", lambda: second.signal(signal.SIGKILL), ["LinnetDown"])
            second.process.wait(PATIENCE)
            second.start_again()
            self.calm_down("LinnetDown")
            self.part("a replica leaves", lambda: (self.prometheus.find([first]), second.stop()), ["LinnetReplicaVanished"])
            second.start_again()
            self.prometheus.find(self.replicas)
            self.calm_down("LinnetReplicaVanished")
            full = self.part("a full queue", lambda: None, ["LinnetQueueFilling", "LinnetRefusing"],
                             ["LinnetSlowFirstToken", "LinnetBudgetLateFast", "LinnetBudgetLateSlowly"], CROWD)
            self.expect(max(full) == 8, f"a full queue: the autoscaler wants {max(full)} replicas, not 8")
            self.calm_down("LinnetQueueFilling", "LinnetRefusing", "LinnetSlowFirstToken", "LinnetBudgetLateFast")
        return self.faults

    def calm_down(self, *names):
        wait_until(lambda: not self.prometheus.firing() & set(names), PATIENCE, f"the end of {names}")

    def restart(self):
        """The second replica stops when the balancer uses the new process of the first."""
        for replica in self.replicas:
            replica.stop()
            replica.start_again()
            wait_until(lambda replica=replica: replica.requests("ok") > 0, PATIENCE, "a request for the new process")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--speed", type=float, default=10.0, help="the rules' durations are divided by it")
    speed = p.parse_args().speed
    if shutil.which("prometheus") is None:
        print("alerts.py: there is no prometheus (Debian package prometheus); nothing was run")
        return 77
    with temporary() as folder, Redis() as redis:
        flags = "--state-store", redis.url
        with Replica(*flags) as a, Replica(*flags) as b, HAProxy(a.port, b.port) as proxy:
            faults = Day(speed, Path(folder), (a, b), proxy).run()
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
