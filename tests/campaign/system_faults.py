"""Faults of the machine under a server: its clock jumps, its disk is full, its memory has a limit."""

import contextlib
import os
import subprocess
import tempfile
import threading
from pathlib import Path

import client
import lines
from client import complete, complete_ok
from common import LINNET, MODEL_DIR, Row, Server, find_faketime, temporary
from conversations import Conversation, text_of
from disks import small_disk
from server import environment, wait_until

DAY = 86400


def skipped(what, why):
    return Row(what, False, why, skipped=True)


# --- clock ------------------------------------------------------------------------------------------


def clock_jumps(options):
    """The time of day jumps by days, both ways, while requests run and states wait."""
    what = "clock jumps by days, both ways, under load"
    faketime = find_faketime()
    if faketime is None:
        return skipped(what, "no libfaketime (Debian package libfaketime)")
    faults, seen = [], set()
    with temporary() as folder:
        offset = Path(folder) / "offset"
        offset.write_text("+0")
        env = {"LD_PRELOAD": faketime, "FAKETIME_TIMESTAMP_FILE": str(offset),
               "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        store = "--state-store", Path(folder) / "states.db"  # whose times are written down
        with Server("--slots", "8", "--timeout", "60", "--state-ttl", "300", *store, env=env) as server:
            first = complete_ok(server.port, prompt=lines.of_length(32), seed=1)
            talk = Conversation(lines.of_length(32), 1, 1)
            for i in range(28):
                step = (10, -10, 400, -400, 0)[i % 5]
                beside = threading.Thread(target=complete, args=(server.port,), kwargs={
                    "prompt": lines.of_length(32), "n": 4})
                beside.start()
                offset.write_text(f"{step:+d}d")
                try:
                    talk.turn(server.port)
                    now = complete_ok(server.port, prompt=lines.of_length(32), seed=1)
                except AssertionError as error:
                    faults.append(f"{step:+d} days: {error}")
                    continue
                finally:
                    beside.join()
                seen.add(round((now["created"] - first["created"]) / DAY))
                if text_of(now) != text_of(first):
                    faults.append(f"{step:+d} days: other bytes")
            if talk.text != text_of(first)[: len(talk.text)]:
                faults.append("the conversation went on wrongly")
            server.check_unharmed()
    for fault in faults[:5]:
        print(f"  {what}: {fault}")
    held = not faults and {10, -10, 400, -400} <= seen
    return Row(what, held, f"28 jumps, seen by the server: {sorted(seen)} days; {len(faults)} faults")


# --- disk -------------------------------------------------------------------------------------------


def disk_full(options):
    """The log's disk is full, and is free again; a picture that does not fit on it."""
    what = "disk full: log, generate --png"
    faults = []
    with temporary() as folder, small_disk(Path(folder)) as disk:
        if disk is None:
            return skipped(what, "no right to mount a small disk")
        server = Server("--slots", "4")
        server.log_file = tempfile.NamedTemporaryFile(dir=disk.place)
        with server:
            fields = {"prompt": lines.of_length(7), "seed": 1}
            expected = text_of(complete_ok(server.port, **fields))
            disk.fill()
            full = len(server.log)
            for _ in range(200):
                if text_of(complete_ok(server.port, **fields)) != expected:
                    faults.append("other bytes")
            if len(server.log) > full + 4096:
                faults.append("the disk was not full")
            disk.free()
            reply = complete(server.port, **fields)
            wait_until(lambda: reply.headers["x-request-id"] in server.log, 30, "the log goes on")
            disk.fill()
            picture = disk.place / "sheet.png"
            result = subprocess.run(
                [LINNET, "generate", "--model", MODEL_DIR.parent / "mnist", "-n", "4", "--seed", "1",
                 "--png", picture], capture_output=True, text=True, env=environment(), timeout=300)
            if result.returncode == 0 or "--png" not in result.stderr:
                faults.append(f"generate --png: {result.returncode} {result.stderr[-300:]}")
            disk.free()
        server.log_file.close()
    with open("/dev/full", "w") as nowhere:
        result = subprocess.run([LINNET, "generate", "--prompt", "海上明月", "--model", MODEL_DIR],
                                stdout=nowhere, stderr=subprocess.PIPE, text=True, env=environment(),
                                timeout=300)
    if result.returncode == 0 or not result.stderr.strip():
        faults.append(f"generate to a full disk: {result.returncode} {result.stderr[-300:]}")
    for fault in faults[:5]:
        print(f"  {what}: {fault}")
    return Row(what, not faults, f"200 answers while the log could not be written, the log went on after; "
                                 f"generate fails and says so; {len(faults)} faults")


# --- memory -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def cgroup(limit):
    """A memory cgroup's folder; None where cgroups are not writable."""
    for base, name in ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
                       (Path("/sys/fs/cgroup"), "memory.max")):
        folder = base / f"linnet-campaign-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / name).write_text(str(limit))
        except OSError:
            folder.rmdir()
            continue
        try:
            yield folder
        finally:
            with contextlib.suppress(OSError):
                wait_until(lambda: not (folder / "cgroup.procs").read_text().split(), 30, "empty")
            folder.rmdir()
        return
    yield None


def memory_limit(options):
    """A server in 256 MiB that is asked to keep more states than fit, while it answers other requests."""
    what, limit = "memory limit of a cgroup, 256 MiB: states until none fits, answers beside", 256 << 20
    with cgroup(limit) as folder:
        if folder is None:
            return skipped(what, "no writable memory cgroup")
        enter = ("sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh")
        faults, kept, refused = [], 0, 0
        with Server("--slots", "16", before=enter) as server:
            expected = text_of(complete_ok(server.port, prompt=lines.of_length(32), seed=1))
            for seed in range(options.states):
                reply = complete(server.port, prompt=lines.of_length(32), seed=seed, n=8, max_tokens=1,
                                 return_state=True)
                if reply.status != 200:
                    refused += 1
                    continue
                kept += sum(state["id"] is not None for state in reply.json()["states"])
                refused += sum(state["id"] is None for state in reply.json()["states"])
            if text_of(complete_ok(server.port, prompt=lines.of_length(32), seed=1)) != expected:
                faults.append("other bytes")
            server.check_unharmed()
            resident = server.resident_bytes()
    if resident > limit:
        faults.append(f"{resident >> 20} MiB in use")
    for fault in faults:
        print(f"  {what}: {fault}")
    return Row(what, not faults and (refused > 0 or options.states < 100),
               f"{kept} kept, {refused} refused, {resident >> 20} MiB resident, not killed; {len(faults)} faults")
