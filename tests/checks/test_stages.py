"""Checks that scripts/test begins early: in their order, each awaited alone, and counted with its own processor time."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = """
set -uo pipefail
logs=$(mktemp -d) stage=here last="" passed=0 failed=0 failures=() left_out=()
declare -A begun=()
. tests/run/count.sh
. tests/run/begin.sh
trap 'end_begun; rm -rf "$logs"' EXIT
set -m
renice() { :; }
endless() { tail -f /dev/null; }
busy() { python3 -c $'import time\\nwhile time.process_time() < 2.5: pass'; }
ended() { tail --pid="${begun[$1]}" -f /dev/null; }
"""


def lines_of(script):
    result = subprocess.run(["bash", "-c", PARTS + script], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result
    return result.stdout.splitlines()


def cpu_of(name, lines):
    return int(re.search(rf"^--- {name}: .* (\d+) s of CPU$", "\n".join(lines), re.M)[1])


def test_a_check_waits_for_its_own_work_alone():
    lines = lines_of("later first echo its output; later second endless; check first false; echo $passed of $((passed + failed))")
    assert lines[-1] == "1 of 1" and "its output" in lines  # and it did not run again


def test_checks_that_begin_early_run_one_after_the_other():
    lines = lines_of("""
        mkfifo "$logs/go"
        first() { read -r _ <"$logs/go"; echo first >>"$logs/notes"; }
        later first first; later second eval 'echo second >>"$logs/notes"'
        echo go >"$logs/go"
        check second true; cat "$logs/notes"
    """)
    assert lines[-2:] == ["first", "second"]


def test_a_failure_is_counted_in_its_place():
    lines = lines_of("""
        later bad bash -c 'echo "3 tests passed"; exit 3'
        check good true; check bad true; echo "status $?, $passed passed, $failed failed: ${failures[*]}"
    """)
    assert lines[-1] == "status 3, 1 passed, 1 failed: here: bad (1)"
    assert lines.index("--- bad") < lines.index("3 tests passed")


def test_processor_time_is_that_of_the_check():
    lines = lines_of("later heavy busy; check light ended heavy; check heavy false; check last true")
    assert cpu_of("heavy", lines) >= 2
    assert cpu_of("light", lines) <= 1 and cpu_of("last", lines) <= 1


def test_a_stage_that_can_do_nothing_is_left_out():
    lines = lines_of("""
        . tests/run/stages.sh
        nvcc_here() { return 1; }
        stage_cuda; echo "$passed passed, ${#left_out[@]} left out: ${left_out[*]}"
    """)
    assert lines[-1].startswith("0 passed, 1 left out: cuda: no nvcc here")


def test_all_leaves_out_what_takes_long_and_a_named_stage_nothing():
    lines = lines_of("""
        . tests/run/parts.sh
        stages=(http asan) short=yes; not_repeated
        short=""; not_repeated
        stages=(http); echo "[$(not_repeated)]"
    """)
    assert lines == ["(not asan or heavy or tsan) and not long", "(not asan or heavy or tsan)", "[]"]


def test_the_night_runs_whole_what_all_shortens():
    code = (ROOT / "scripts/test").read_text() + (ROOT / "tests/run/stages.sh").read_text()
    stages = re.findall(r"^stage_(\w+)\(\) \{\n(.*?)^\}", code, re.M | re.S)
    shortened = {name for name, body in stages if re.search(r"\bshort\b|not_repeated|check_kernels", body)}
    assert {"http", "arm", "cuda"} <= shortened
    night = (ROOT / ".github/workflows/nightly.yml").read_text()
    named = re.findall("[a-z]+", re.search(r"^ +stages: \[(.*)\]$", night, re.M)[1])
    assert shortened - {"cuda"} <= set(named)
    assert re.search(r"exec scripts/check-kernels'?$", night, re.M)  # of all architectures
