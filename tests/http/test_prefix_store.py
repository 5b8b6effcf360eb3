"""States of prompts in a file: after a restart a prompt starts from them, with the same bytes. Another key neither finds nor
reads them. A file that is damaged, full or read-only costs time only."""

import os
import random
import resource
import signal
import sqlite3
import subprocess

import pytest

import image_model
import text_model
from client import call, complete_ok
from server import Server, wait_until
from states import check_sound, without_sqlite

pytestmark = pytest.mark.asan

KINDS = {"linear": image_model.LINEAR, "rows": {"kind": "softmax"}}
FIELDS = {"max_tokens": 8, "ignore_eos": True, "logprobs": 1, "seed": 5}
KILLS = 25


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    for name, attention in KINDS.items():
        text_model.write_bytes(path / name, attention=attention, context=2000)
    return path


@pytest.fixture
def path(tmp_path):
    without_sqlite()
    return tmp_path / "states.db"


def serve(models, path, *flags):
    return Server("--models", models, "--slots", "4", "--state-store", path, *flags)


def file_of(path):
    return path.with_name("states-prefixes.db")


def prompt_of(seed, n):
    return random.Random(seed).choices(range(256), k=n)


def ask(server, prompt, model="linear", headers=None, **fields):
    """(choices, rows that were not computed)"""
    reply = call(server.port, "POST", "/v1/completions", {"model": model, "prompt": prompt, **FIELDS, **fields}, headers or {})
    assert reply.status == 200, reply.text
    answer = reply.json()
    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert answer["timings"]["cache_n"] == cached
    return answer["choices"], cached


def wait_written(server, n, model="linear"):
    wait_until(lambda: server.metric("linnet_prefix_store_written_total", model=model) >= n, 60, "states are written")


@pytest.mark.quick
@pytest.mark.parametrize("precision", [pytest.param("f32", marks=pytest.mark.long), "auto", "int8"])
@pytest.mark.parametrize("model", KINDS)
def test_a_prompt_starts_where_it_ended_before_the_restart(models, path, model, precision):
    prompt, flags = prompt_of(1, 700), ("--precision", precision)
    longer, parted = prompt + prompt_of(2, 50), prompt[:690] + prompt_of(3, 40)
    with Server("--models", models, "--prefix-cache-mb", "0", *flags) as plain:
        expected = [ask(plain, p, model, n=n)[0] for p, n in ((prompt, 1), (longer, 1), (parted, 1), (longer, 2))]
    with serve(models, path, *flags) as first:
        assert ask(first, prompt, model) == (expected[0], 0)
        wait_written(first, 1, model)
        assert first.metric("linnet_prefix_store_up", model=model) == 1
    with serve(models, path, *flags) as second:
        assert ask(second, longer, model) == (expected[1], 699)
        assert second.metric("linnet_prefix_store_read_total", model=model) == 1
        assert second.metric("linnet_cached_prompt_tokens_total", model=model) == 699
        assert second.metric("linnet_prompt_tokens_total", model=model) == len(longer) - 699
        assert second.metric("linnet_spared_seconds_total", model=model) > 0
        assert ask(second, longer, model)[0] == expected[1]  # from memory now
        assert second.metric("linnet_prefix_store_read_total", model=model) == 1
        assert ask(second, parted, model)[0] == expected[2]
    with serve(models, path, *flags) as third:
        choices, cached = ask(third, longer, model, n=2)
        assert choices == expected[3] and cached >= 699
    with serve(models, path, "--prefix-store-mb", "0", *flags) as off:
        assert ask(off, longer, model) == (expected[1], 0)
    check_sound(file_of(path))


@pytest.mark.quick
def test_another_precision_or_key_finds_nothing(models, path, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("alice ka\nbob kb\n")
    alice, bob = ({"Authorization": f"Bearer {key}"} for key in ("ka", "kb"))
    prompt = prompt_of(4, 400)
    flags = ("--api-key-file", keys, "--public", "/metrics,/readyz,/health", "--precision", "f32")
    with serve(models, path, *flags) as first:
        expected = ask(first, prompt, headers=alice)
        wait_written(first, 1)
    with serve(models, path, *flags) as second:
        assert ask(second, prompt, headers=bob) == expected
        assert second.metric("linnet_prefix_store_read_total") == 0
        assert ask(second, prompt, headers=alice) == (expected[0], 399)
    with serve(models, path, *flags[:-1], "auto") as other:
        assert ask(other, prompt, headers=alice)[1] == 0
        assert other.metric("linnet_prefix_store_read_total") == 0
    with serve(models, path, *flags, "--share-prefixes") as shared:
        assert ask(shared, prompt, headers=bob)[1] == 0, "the states of keys are not those of all"


@pytest.mark.quick
def test_short_prompts_are_not_written(models, path):
    with serve(models, path) as server:
        for seed in range(5):
            ask(server, prompt_of(seed, 30))
        ask(server, prompt_of(9, 300))
        wait_written(server, 1)
    with sqlite3.connect(file_of(path)) as db:
        ids = [i for (i,) in db.execute("SELECT id FROM states")]
        assert ids and all(int(i[1:9], 16) >= 64 for i in ids)
    db.close()


@pytest.mark.quick
def test_damaged_states_cost_time_only(models, path):
    prompt = prompt_of(5, 500)
    with serve(models, path) as first:
        expected = ask(first, prompt)[0]
        wait_written(first, 1)
    with sqlite3.connect(file_of(path)) as db:
        for n, blob in db.execute("SELECT n, bytes FROM blobs").fetchall():
            db.execute("UPDATE blobs SET bytes=? WHERE n=?", (blob[:-100] + bytes([blob[-100] ^ 1]) + blob[-99:], n))
    db.close()
    with serve(models, path) as second:
        assert ask(second, prompt) == (expected, 0)
        assert second.metric("linnet_prefix_store_lost_total") == 1
        assert second.log.count("a stored prompt state is damaged") == 1
        assert second.metric("linnet_cached_prompt_tokens_total") == 0
        wait_written(second, 1)  # in place of the damaged one
    with serve(models, path) as third:
        assert ask(third, prompt) == (expected, 499)


@pytest.mark.quick
def test_a_file_that_cannot_be_used_is_one_line_of_the_log(models, path):
    file_of(path).write_bytes(b"no database" * 100)
    with serve(models, path) as server:
        for seed in range(3):
            assert ask(server, prompt_of(seed, 300))[1] == 0
        assert server.metric("linnet_prefix_store_up") == 0
        assert server.log.count("prompt states are not kept on disk") == 1
        assert complete_ok(server.port, model="linear", prompt=[1, 2], return_state=True, **FIELDS)["states"], "the other file works"


class Someone:
    """A server's user whom rights hold back."""

    @staticmethod
    def run_in():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)


@pytest.fixture
def disk(tmp_path, models):
    """A folder for the file of prompt states, which becomes read-only; the file of states lies in another one."""
    without_sqlite()
    for path in (tmp_path, *tmp_path.parents, models, *models.parents):
        if "pytest" in str(path) and path.stat().st_uid == os.geteuid():
            path.chmod(0o755)
    folder, other = tmp_path / "disk", tmp_path / "other"
    for path in (folder, other):
        path.mkdir()
        path.chmod(0o777)
    path = other / "states.db"
    file_of(path).symlink_to(folder / "prompts.db")
    yield folder, path
    folder.chmod(0o777)


@pytest.mark.quick
def test_a_read_only_disk(models, disk):
    folder, path = disk
    flags = ("--models", models, "--slots", "4", "--state-store", path)
    try:
        with Server(*flags, container=Someone) as first:
            expected = ask(first, prompt_of(6, 400))[0]
            wait_written(first, 1)
    except (PermissionError, subprocess.SubprocessError, AssertionError) as fault:
        if os.geteuid() != 0 or isinstance(fault, AssertionError) and "ermission" not in str(fault):
            raise
        pytest.skip("another user cannot run the program or read its models")
    for name in folder.iterdir():
        name.chmod(0o444)
    folder.chmod(0o555)
    with Server(*flags, container=Someone) as second:
        assert ask(second, prompt_of(6, 400))[0] == expected
        assert ask(second, prompt_of(7, 400))[1] == 0 and ask(second, prompt_of(7, 400))[1] == 399
        wait_until(lambda: second.metric("linnet_prefix_store_up", model="linear") == 0, 60, "the store does not work")
        said = second.log.count("prompt states are not kept on disk") + second.log.count("state store:")
        assert said == 1, second.log
        assert complete_ok(second.port, model="linear", prompt=[1, 2], return_state=True, **FIELDS)["states"], "the other file works"


@pytest.mark.quick
def test_a_full_disk(models, path):
    with serve(models, path) as server:
        size = sum(p.stat().st_size for p in path.parent.glob("*-wal"))
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size // 4096 * 4096, resource.RLIM_INFINITY))
        expected = [ask(server, prompt_of(seed, 300)) for seed in range(8)]
        wait_until(lambda: server.metric("linnet_prefix_store_failed_total") > 0, 60, "a state could not be written")
        assert server.metric("linnet_prefix_store_up", model="linear") == 0
        assert server.log.count("state store:") == 1
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        before = server.metric("linnet_prefix_store_written_total")
        ask(server, prompt_of(99, 300))
        wait_written(server, before + 1)
        assert server.metric("linnet_prefix_store_up", model="linear") == 1
        assert [ask(server, prompt_of(seed, 300))[0] for seed in range(8)] == [choices for choices, _ in expected]


@pytest.mark.quick
def test_states_that_grow_share_pages_in_the_file(models, path):
    """A conversation's states lie in the file without the pages of the states before them. A damaged one costs time only."""
    whole, step = prompt_of(8, 1800), 150
    prompts = [whole[:n] for n in range(step, len(whole) + 1, step)]
    with Server("--models", models, "--prefix-cache-mb", "0") as plain:
        expected = [ask(plain, prompt, "rows")[0] for prompt in prompts]
    with serve(models, path) as first:
        for i, prompt in enumerate(prompts):
            assert ask(first, prompt, "rows") == (expected[i], max(0, i * step - 1))
            wait_written(first, i + 1, "rows")
    with sqlite3.connect(file_of(path)) as db:
        sizes = [size for (size,) in db.execute("SELECT size FROM states ORDER BY id")]
    db.close()
    assert len(sizes) == len(prompts) and max(sizes) < 2 * sizes[0], "each has its own rows only"
    with serve(models, path) as second:
        for i in (11, 3, 7):
            assert ask(second, prompts[i], "rows") == (expected[i], len(prompts[i]) - 1)
    with sqlite3.connect(file_of(path)) as db:
        n, blob = db.execute("SELECT n, bytes FROM blobs JOIN states USING(n) ORDER BY id LIMIT 1 OFFSET 5").fetchone()
        db.execute("UPDATE blobs SET bytes=? WHERE n=?", (blob[:-100] + bytes([blob[-100] ^ 1]) + blob[-99:], n))
    db.close()
    with serve(models, path) as third:
        assert ask(third, prompts[9], "rows") == (expected[9], 0), "its chain has the damaged state"
        assert third.metric("linnet_prefix_store_lost_total", model="rows") == 1
        assert ask(third, prompts[4], "rows")[0] == expected[4]
        wait_written(third, 1, "rows")
    with serve(models, path) as fourth:
        assert ask(fourth, prompts[9], "rows") == (expected[9], len(prompts[9]) - 1), "it was written again"
    check_sound(file_of(path))


@pytest.mark.parametrize("model", [pytest.param(kind, marks=pytest.mark.long) if kind == "linear" else kind for kind in KINDS])
def test_kills_while_states_are_written(models, path, model):
    """Most kills come while a state is on its way to the file. No answer differs. Each of the prompts that grow begins with the one before."""
    prompts = [prompt_of(seed, 600) for seed in range(4)] if model == "linear" else [prompt_of(0, n) for n in (300, 500, 700, 900)]
    with Server("--models", models, "--prefix-cache-mb", "0") as plain:
        expected = [ask(plain, prompt, model)[0] for prompt in prompts]
    spared, chance = 0, random.Random(7)
    for _ in range(KILLS):
        with serve(models, path) as server:
            new = False
            for i in chance.sample(range(4), 2):
                choices, cached = ask(server, prompts[i], model)
                assert choices == expected[i]
                spared += cached > 0
                new |= cached == 0
            if new and chance.random() < 0.5:
                wait_written(server, 1, model)
            os.kill(server.process.pid, signal.SIGKILL)
            server.wait()
            server.process.returncode = 0
    assert spared > KILLS, "most prompts start from a stored state"
    check_sound(file_of(path))
