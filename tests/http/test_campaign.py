"""The scripts of tests/campaign, each for a few requests, so that they work when they are needed; and the
defects they have found."""

import re
import subprocess
import sys

import pytest

from server import run
from settings import LINNET, ROOT

CAMPAIGN = ROOT / "tests" / "campaign"
FEW = ("--turns", "20", "--clients", "3", "--between", "0.3", "--states", "10", "--kinds", "2", "--allocations", "20")


def campaign(script, *args):
    return subprocess.run([sys.executable, CAMPAIGN / script, *args], capture_output=True, text=True,
                          timeout=600)


def test_alerts_come_quicker_in_equal_words(monkeypatch):
    """tests/campaign/alerts.py divides every duration of the rules, and nothing else."""
    monkeypatch.syspath_prepend(CAMPAIGN)
    from alerts import quicker
    for name in ("alerts.yml", "slo.yml"):
        text = (ROOT / "deploy/prometheus" / name).read_text()
        times = re.findall(r"(?:\[|offset |for: )(\d+[smh])\b", text)
        assert len(times) > 15
        assert re.sub(r"\d+ms", "X", quicker(text, 10)) == re.sub(r"(?<=\[)\d+[smh]\b|(?<=offset )\d+[smh]|(?<=for: )\d+[smh]", "X", text)
    assert quicker("a[5m] offset 30m > 6 * 0.01 for: 1m ratio_rate5m", 10) == "a[30000ms] offset 180000ms > 6 * 0.01 for: 6000ms ratio_rate5m"


@pytest.mark.parametrize("totals, numbers", [
    ([0, 10, 31], [2, 2, 2]),
    ([34] * 4, [2] * 4),  # within a tenth of the target of two replicas
    ([0] + [128] * 8, [2, 2, 4, 4, 6, 6, 8, 8, 8]),  # a window of 15 s, then two pods in 30 s
    ([0, 128, 0, 128, 0], [2] * 5),  # a burst between two decisions
    ([0] + [1000] * 7 + [0] * 23, None),
])
def test_the_autoscaler_decides_by_its_manifest(monkeypatch, totals, numbers):
    """Of deploy/k8s/base/hpa.yaml: 16 waiting requests a pod, from 2 to 8 pods."""
    monkeypatch.syspath_prepend(CAMPAIGN)
    from alerts import Autoscaler
    decided = Autoscaler().decide(totals)
    if numbers is not None:
        assert decided == numbers
    else:  # down after 300 s, one pod in 60 s
        assert decided[6:28] == [8] * 22 and decided[28:] == [7, 7, 7]


@pytest.mark.heavy
@pytest.mark.parametrize(("clock", "words"), [(1, "0.025 minutes,"), (24, "0.025 minutes (0.01 hours by the server's clock),")])
def test_soak_of_seconds(clock, words):
    result = campaign("soak.py", "--minutes", "0.025", "--clock", str(clock), "--tolerance", "100", "--workers", "3")
    if "needs libfaketime" in result.stderr:
        pytest.skip(result.stderr)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"soak: held: {words}" in result.stdout.splitlines()[-1]


def test_soak_tells_growth_from_noise(monkeypatch):
    monkeypatch.syspath_prepend(CAMPAIGN)
    from soak import judge_flat
    noise = [100 + i % 2 + 30 * (i % 17 == 0) for i in range(100)]
    assert judge_flat("MB", noise, 2)[0]
    assert judge_flat("MB", [150, 120, *noise], 2)[0]  # warming up
    few, many = [100] * 6 + [102.1] * 4, [102.1] * 6 + [100] * 4  # one huge page at the moment of a sample
    assert judge_flat("MB", [*few * 9, *many], 2)[0]
    assert not judge_flat("MB", [x + 0.04 * i for i, x in enumerate(noise)], 2)[0]
    assert not judge_flat("MB", [x - 0.04 * i for i, x in enumerate(noise)], 2)[0]


@pytest.mark.heavy
@pytest.mark.parametrize("case", ["kill", "disk", "memory-limit", *(pytest.param(case, marks=pytest.mark.long) for case in (
    "file-killed", "conversations-killed", "file-full", "file-read-only", "redis-slow", "redis-full", "redis-restarted",
    "network-stalls", "network-cut", "clock", "out-of-memory"))])
def test_faults(case):
    result = campaign("faults.py", *FEW, case)
    assert result.returncode == 0, result.stdout + result.stderr
    if "1 not run" in result.stdout:
        pytest.skip(result.stdout.splitlines()[0])
    assert result.stdout.splitlines()[-1] == "1 held, 0 not, 0 not run"


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["stream", "edit, a form", "score of a line"])
def test_out_of_memory_at_every_allocation(name):
    """The kinds of requests in which lack of memory once corrupted the heap (JSON), blamed the client, cut a
    stream without a word, or was answered with nothing."""
    if not (LINNET.parent / "campaign_allocations.so").exists():
        pytest.skip("no campaign_allocations.so next to the program")
    code = f"import sys; sys.path.insert(0, {str(CAMPAIGN)!r}); import common, walk; walk.check({name!r})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]


def test_a_full_disk_is_an_error_of_every_command():
    with open("/dev/full", "w") as full:
        for args in (["--version"], ["--help"], ["serve", "--help"], ["inspect"],
                     ["generate", "--prompt", "海上明月"]):
            result = subprocess.run([LINNET, *args], stdout=full, stderr=subprocess.PIPE, text=True,
                                    cwd=ROOT, timeout=180)
            assert result.returncode == 1, args
            assert "standard output" in result.stderr, (args, result.stderr)
    assert run("--version").returncode == 0


def test_a_ping_is_not_a_part_of_an_answer(monkeypatch):
    monkeypatch.syspath_prepend(CAMPAIGN)
    from common import lasting
    events = b'data: {"text":"a"}\n\n%sdata: {"text":": ping"}\n\n%sdata: [DONE]\n\n'
    assert lasting(events % (b": ping\n\n", b": ping\n\n: ping\n\n")) == lasting(events % (b"", b""))
    assert lasting(events % (b"", b"")) != lasting(events.replace(b'": ping"', b'""') % (b"", b""))
