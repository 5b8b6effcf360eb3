"""/metrics: well-formed for Prometheus, and its numbers are those of the work that was done."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import client
from client import call, complete, complete_ok, stream_ok
from server import Server

pytestmark = pytest.mark.quick


@pytest.fixture
def own():
    with Server("--slots", "4") as server:
        yield server


def test_format(port):
    stream_ok(port, prompt="海上明月", n=2)
    reply = call(port, "GET", "/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert reply.body.endswith(b"\n")
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    result = subprocess.run([promtool, "check", "metrics"], input=reply.body, capture_output=True,
                            timeout=60)
    assert result.returncode == 0, result.stderr.decode()


def test_histograms_are_cumulative(port):
    complete_ok(port, prompt="海上明月")
    histograms = {}
    for line in call(port, "GET", "/metrics").text.splitlines():
        name, mark, _ = line.partition("_bucket{")
        if mark:
            histograms.setdefault(name, []).append(float(line.rpartition(" ")[2]))
    assert {"linnet_time_to_first_token_seconds", "linnet_inter_token_seconds"} <= set(histograms)
    for name, counts in histograms.items():
        assert counts == sorted(counts), name
    first = next(line for line in call(port, "GET", "/metrics").text.splitlines()
                 if line.startswith("linnet_time_to_first_token_seconds_bucket"))
    assert 'le="1e-05"' in first


def test_counters_count(own):
    before = own.metrics()
    complete_ok(own.port, prompt="海上明月", n=3, seed=1)
    stream_ok(own.port, prompt="春江夜雨")
    assert complete(own.port, prompt="").status == 400
    assert complete(own.port, prompt="月下", n=0).status == 400
    own.wait_idle()
    after = own.metrics()

    def moved(name, **labels):
        def total(metrics):
            return sum(value for (series, pairs), value in metrics.items()
                       if series == name and labels.items() <= dict(pairs).items())
        return total(after) - total(before)

    assert moved("linnet_requests_total", outcome="ok") == 2
    assert moved("linnet_requests_total", outcome="invalid") == 2
    assert moved("linnet_requests_total", outcome="error") == 0
    assert moved("linnet_generated_tokens_total") == 3 * 4 + 4
    assert moved("linnet_time_to_first_token_seconds_count") == 2
    assert moved("linnet_inter_token_seconds_count") == 3 * 3 + 3
    assert moved("linnet_request_duration_seconds_count") == 2
    assert moved("linnet_queue_time_seconds_count") == 2
    assert moved("linnet_steps_total") >= 8
    assert moved("linnet_step_duration_seconds_count") == moved("linnet_steps_total")


def test_prompt_is_computed_once_for_all_samples(own):
    def prompt_rows(**fields):
        before = own.metric("linnet_prompt_tokens_total")
        complete_ok(own.port, prompt="海上明月", **fields)
        own.wait_idle()
        return own.metric("linnet_prompt_tokens_total") - before

    one, four = prompt_rows(n=1), prompt_rows(n=4)
    assert one >= 5
    assert four - one <= 3, "every further sample may cost one row, not the whole prompt"


def test_gauges_are_at_rest(own):
    assert own.metric("linnet_slots") == 4
    assert own.metric("linnet_slots_used") == 0
    assert own.metric("linnet_queue_length") == 0


def test_metrics_never_name_what_was_asked(own):
    complete_ok(own.port, prompt="海上明月")
    call(own.port, "GET", "/secret-path")
    page = call(own.port, "GET", "/metrics").text
    assert "海上明月" not in page and "secret" not in page
    assert client.MODEL in page


def test_the_process(own):
    """As the system has them; the names are those of Prometheus' client libraries."""
    complete_ok(own.port, prompt="海上明月")
    files = own.open_files()
    found = own.metrics("process_")
    value = {name: number for (name, _), number in found.items()}
    assert abs(value["process_resident_memory_bytes"] - own.resident_bytes()) < 64 << 20
    assert value["process_virtual_memory_bytes"] > value["process_resident_memory_bytes"]
    assert 0 < value["process_cpu_seconds_total"] <= own.cpu_seconds() + 1
    assert abs(value["process_open_fds"] - files) <= 3  # the connection of the request, and files that are read for it
    assert value["process_max_fds"] >= value["process_open_fds"]
    assert abs(value["process_start_time_seconds"] - (time.time() - age(own.pid))) < 60  # the clock may be set while a machine runs


def age(pid):
    """Seconds since the start of a process."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def test_reloads_are_counted(own):
    assert own.metric("linnet_reloads_total") == 0
    loaded = own.metric("linnet_models_loaded_timestamp_seconds")
    assert abs(loaded - time.time()) < 600
    assert call(own.port, "POST", "/v1/models/reload").status == 200
    assert own.metric("linnet_reloads_total", part="models", result="ok") == 1
    assert own.metric("linnet_reloads_total", result="failed") == 0
    assert own.metric("linnet_models_loaded_timestamp_seconds") >= loaded
