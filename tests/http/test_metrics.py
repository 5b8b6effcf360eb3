"""/metrics: well-formed for Prometheus, and its numbers are those of the work that was done."""

import shutil
import subprocess

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
