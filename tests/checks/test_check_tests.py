"""scripts/check-tests finds planted faults, reads reasons, and accepts proper waits."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).resolve().parents[2] / "scripts" / "check-tests"
PORT = 8080
MARK = "check-" + "tests:"  # in one piece it would be a reason for this line

BAD = {
    "time.sleep": (".py", "import time\ntime.sleep(0.1)\n", "2: sleep"),
    "imported": (".py", "from time import sleep\nsleep(1)\n", "2: sleep"),
    "asyncio": (".py", "async def f():\n    await asyncio.sleep(1)\n", "2: sleep"),
    "page": (".py", "page.wait_for_timeout(500)\n", "1: sleep"),
    "spin": (".py", "while not ready():\n    pass\n", "1: spin"),
    "run": (".py", "subprocess.run(['true'], check=True)\n", "1: no limit"),
    "process": (".py", "self.process.wait()\n", "1: no limit"),
    "thread": (".py", "def f(workers):\n    workers[0].join()\n", "2: no limit"),
    "connection": (".py", "s = socket.create_connection((HOST, port))\n", "1: no limit"),
    "socket": (".py", "def f():\n    s = socket.socket()\n    s.connect(a)\n", "2: no limit"),
    "returned": (".py", "def f():\n    s = socket.socket()\n    return s\n", "2: no limit"),
    "with": (".py", "with socket.socket() as s:\n    s.connect(a)\n", "1: no limit"),
    "accepted": (".py", "def f(l):\n    c = l.accept()[0]\n    c.recv(1)\n", "2: no limit"),
    "unpacked": (".py", "def f(l):\n    c, _ = l.accept()\n    c.recv(1)\n", "2: no limit"),
    "http": (".py", "http.client.HTTPConnection(host, port)\n", "1: no limit"),
    "settimeout": (".py", "sock.settimeout(0.5)\n", "1: short limit"),
    "timeout": (".py", "client.call(port, 'GET', '/', timeout=2)\n", "1: short limit"),
    "measured": (".py", "assert time.monotonic() - start < 1.5\n", "1: short limit"),
    "bind": (".py", "sock.bind(('127.0.0.1', 8080))\n", "1: fixed port"),
    "flag": (".py", "run('serve', '--port', '8080')\n", "1: fixed port"),
    "list": (".py", "args = ['serve', '--port', 8080]\n", "1: fixed port"),
    "address": (".py", f"url = 'http://127.0.0.1:{PORT}/'\n", "1: fixed port"),
    "nanosleep": (".c", "void f(void)\n{\n    (void)nanosleep(&t, NULL);\n}\n", "3: sleep"),
    "usleep": (".c", "usleep(2000);\n", "1: sleep"),
    "select": (".c", "select(0, NULL, NULL, NULL, &t);\n", "1: sleep"),
    "empty loop": (".c", "    while (!done);\n", "1: spin"),
    "yield": (".c", "while (!done)\n    sched_yield();\n", "2: spin"),
    "htons": (".c", "a.sin_port = htons(8080);\n", "1: fixed port"),
    "shell": (".sh", "until true; do sleep 1; done\n", "1: sleep"),
    "own line": (".sh", "start &\nsleep 5\n", "2: sleep"),
    "curl": (".sh", f"curl http://127.0.0.1:{PORT}/\n", "1: fixed port"),
    "idle reason": (".py", f"x = 1  # {MARK} nothing is here\n", "1: a reason where nothing is found"),
    "no reason": (".py", f"time.sleep(1)  # {MARK}\n", "1: no reason"),
    "one word": (".c", f"usleep(1); /* {MARK} ok */\n", "1: no reason"),
}

GOOD = {
    "poll": (".py", f"time.sleep(0.01)  # {MARK} between two looks\n"),
    "yielding": (".py", "async def f():\n    await asyncio.sleep(0)\n"),
    "limits": (".py", "subprocess.run(['true'], timeout=60)\nthread.join(60)\nprocess.wait(timeout=30)\n"),
    "text": (".py", "', '.join(words)\n"),
    "socket": (".py", "def f():\n    s = socket.socket()\n    s.settimeout(60)\n    s.connect(a)\n"),
    "unused": (".py", "def f():\n    s = socket.socket()\n    s.bind((HOST, 0))\n    s.close()\n"),
    "any port": (".py", "run('serve', '--port', '0')\nsock.bind((HOST, 0))\nbad = ['--port', '99999']\n"),
    "generous": (".py", "sock.settimeout(60)\nassert time.monotonic() - start < 20\n"),
    "comment": (".c", "/* usleep(5) would wait */\nputs(\"usleep(5)\");\nlast_sleep(x);\n"),
    "above": (".c", f"/* {MARK} a slow client is tested */\nusleep(1);\n"),
    "do while": (".c", "    do {\n        f();\n    } while (!done);\n"),
    "reason": (".sh", f"sleep 0.1 # {MARK} between two looks\n"),
}


def judge(tmp_path, suffix, text):
    path = tmp_path / f"planted{suffix}"
    path.write_text(text)
    result = subprocess.run([sys.executable, CHECKER, path], capture_output=True, text=True, timeout=60)
    assert not result.stderr, result.stderr
    *found, _ = result.stdout.splitlines()
    assert result.returncode == (1 if found else 0)
    return [line.removeprefix(f"{path}:").strip() for line in found]


@pytest.mark.parametrize("name", BAD)
def test_a_planted_fault_is_found(tmp_path, name):
    suffix, text, want = BAD[name]
    found = judge(tmp_path, suffix, text)
    assert len(found) == 1 and found[0].startswith(want), found


@pytest.mark.parametrize("name", GOOD)
def test_what_waits_as_it_should_is_left_alone(tmp_path, name):
    assert judge(tmp_path, *GOOD[name]) == []


def test_a_reason_belongs_to_the_next_line(tmp_path):
    found = judge(tmp_path, ".c", f"/* {MARK} a reason given */\n\nusleep(1);\n")
    assert found == ["1: a reason where nothing is found", "3: sleep"]
