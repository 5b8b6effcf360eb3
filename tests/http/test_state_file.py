"""States in a file: they survive kill -9, one process has the file, a full or damaged file is one clear error, and
`linnet states` works on it."""

import json
import random
import resource
import signal
import sqlite3
import threading
import time

import pytest

import lines
from client import call, complete, complete_ok
from conversations import UPPER, Conversation, TurnFailed, state_of, text_of, whole
from disks import small_disk
from server import Server, run, wait_until
from states import check_sound, without_sqlite

pytestmark = [pytest.mark.quick, pytest.mark.asan]

TALKERS, TURNS, KILLS = 4, 60, 5


@pytest.fixture(autouse=True)
def path(tmp_path):
    without_sqlite()
    return tmp_path / "states.db"


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path) as made:
        if made is None:
            pytest.skip("no right to mount a small disk")
        yield made


def serve(path, *flags):
    return Server("--slots", "4", "--state-store", path, *flags)


def kept(port, **fields):
    return state_of(complete_ok(port, prompt=UPPER, seed=3, max_tokens=4, return_state=True, **fields))


def rest_of(port, state):
    return text_of(complete_ok(port, state=state))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_states_outlive_the_server(path, how):
    with serve(path) as first:
        expected, talk = whole(first.port, UPPER, 9), Conversation(UPPER, 9, 8)
        talk.turn(first.port)
        first.signal(how)
        assert first.wait() == (-how if how == signal.SIGKILL else 0)
        first.process.returncode = 0
    with serve(path) as second:
        assert second.metric("linnet_states") == 1
        assert talk.text + rest_of(second.port, talk.state) == expected
    check_sound(path)


class Talker(threading.Thread):
    """Talks in turns, again where a turn was not acknowledged."""

    def __init__(self, number, port, turns):
        super().__init__(daemon=True)
        self.number, self.port, self.turns, self.talks, self.lost = number, port, turns, [], []

    def run(self):
        done = 0
        while done < self.turns and not self.lost:
            talk = Conversation(lines.of_length(12), 1000 * self.number + len(self.talks), 1)
            self.talks.append(talk)
            while not talk.done and not self.lost:
                done += self.try_turn(talk)

    def try_turn(self, talk):
        try:
            reply = complete(self.port(), **talk.request())
            if reply.status in (429, 503):
                raise TurnFailed(reply.text)
            if reply.status != 200:
                self.lost.append(reply.text)
                return False
            talk.take(reply.json())
            return True
        except (OSError, AssertionError, IndexError, TurnFailed):  # the server is down
            time.sleep(0.01)  # check-tests: a client's pause before it tries again
            return False


@pytest.mark.heavy
def test_acknowledged_turns_survive_kills_at_random_moments(path):
    rng, server = random.Random(1), serve(path).start()
    try:
        talkers = [Talker(i, lambda: server.port, TURNS) for i in range(TALKERS)]
        for talker in talkers:
            talker.start()
        for _ in range(KILLS):
            count = sum(len(talk.ids) for talker in talkers for talk in talker.talks)
            more = rng.randint(1, 40)
            wait_until(lambda: sum(len(t.ids) for one in talkers for t in one.talks) >= count + more or not any(
                one.is_alive() for one in talkers), 120, "turns")
            server.kill()
            server = serve(path).start()
        for talker in talkers:
            talker.join(300)
        assert [talker.lost for talker in talkers] == [[]] * TALKERS
        talks = [talk for talker in talkers for talk in talker.talks]
        assert sum(len(talk.ids) for talk in talks) >= TALKERS * TURNS
        for talk in rng.sample(talks, 20):
            assert talk.text == whole(server.port, talk.prompt, talk.seed)
            for state in talk.ids:
                assert call(server.port, "GET", f"/v1/states/{state}").status == 200
        server.stop()
    finally:
        server.kill()
    check_sound(path)


def test_a_second_process_is_refused(path):
    with serve(path) as server:
        state = kept(server.port)
        for args in (("serve", "--port", "0", "--state-store", path), ("states", "list", path)):
            refused = run(*args)
            assert refused.returncode == 1
            assert refused.stderr.splitlines()[-1].endswith(f"--state-store: {path} is in use by another process")
        assert len(rest_of(server.port, state)) == len(UPPER) - 4


@pytest.mark.parametrize("harm, words", [
    (lambda path: path.write_bytes(b"no database" * 99), "is no store of states, or it is damaged"),
    (lambda path: path.mkdir(), "cannot be opened"),
    (lambda path: sqlite3.connect(path).execute("CREATE TABLE t(x)").connection.close(), "another program"),
])
def test_other_files_are_refused(path, harm, words):
    harm(path)
    refused = run("serve", "--port", "0", "--state-store", path)
    assert refused.returncode == 1 and words in refused.stderr.splitlines()[-1], refused.stderr


def test_a_full_disk_refuses_states_and_answers_all_else(path):
    def limit(size):
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    with serve(path) as server:
        state = kept(server.port)
        limit(1 << 19)
        answer = complete_ok(server.port, prompt=UPPER, seed=3, max_tokens=4, return_state=True)
        assert answer["states"][0]["id"] is None and "state store" in answer["states"][0]["error"]["message"]
        assert answer["warnings"] and server.metric("linnet_state_store_up") == 0
        refused = call(server.port, "POST", f"/v1/states/{state}/fork", {"n": 1})
        assert refused.status == 503 and "retry-after" in refused.headers
        expected = whole(server.port, UPPER, 3)
        assert expected[4:] == rest_of(server.port, state)  # which can be read
        limit(resource.RLIM_INFINITY)
        assert rest_of(server.port, kept(server.port)) == expected[4:]
        assert server.metric("linnet_state_store_up") == 1
    check_sound(path)


def refuse_new(server, state, words):
    """A new state is refused and says so, and all else is answered. The store does not work until a new state is kept."""
    expected = whole(server.port, UPPER, 3)
    answer = complete_ok(server.port, prompt=UPPER, seed=3, max_tokens=4, return_state=True)
    assert answer["states"][0]["id"] is None and words in answer["states"][0]["error"]["message"], answer
    assert expected[4:] == rest_of(server.port, state)
    assert call(server.port, "GET", "/v1/states/unknown").status == 404
    assert [entry["id"] for entry in call(server.port, "GET", "/v1/states").json()["data"]] == [state]
    assert server.metric("linnet_state_store_up") == 0
    assert server.log.count("state store:") == 1 and "works again" not in server.log


def accept_new(server):
    assert rest_of(server.port, kept(server.port)) == whole(server.port, UPPER, 3)[4:]
    assert server.metric("linnet_state_store_up") == 1 and server.log.count("works again") == 1


def test_a_disk_that_fills(disk):
    path = disk.place / "states.db"
    with serve(path) as server:
        state = kept(server.port)
        disk.fill()
        refuse_new(server, state, "the disk of the state store is full")
        server.kill()
        server.process.returncode = 0
    with serve(path) as server:  # on the full disk
        refuse_new(server, state, "the disk of the state store is full")
        disk.free()
        accept_new(server)
    check_sound(path)


def test_a_disk_that_becomes_read_only(disk):
    path = disk.place / "states.db"
    with serve(path) as server:
        state = kept(server.port)
        disk.protect()
        refuse_new(server, state, "fails or is read-only")
        assert call(server.port, "DELETE", f"/v1/states/{state}").status == 503
        disk.protect(False)
        accept_new(server)
        assert call(server.port, "DELETE", f"/v1/states/{state}").status == 204
    check_sound(path)


def test_a_disk_that_is_read_only(disk):
    """A server does not start, and the command says why."""
    path, other = disk.place / "states.db", disk.place / "other.db"
    with serve(path) as server:
        state = kept(server.port)
    disk.remount("ro")
    for args, words in ((("serve", "--port", "0", "--state-store", path), "cannot be written: the file or its disk is read-only"),
                        (("states", "vacuum", path), "cannot be written: the file or its disk is read-only"),
                        (("serve", "--port", "0", "--state-store", other), "cannot be made: Read-only file system"),
                        (("states", "import", other, path), "cannot be made: Read-only file system")):
        refused = run(*args)
        assert refused.returncode == 1 and words in refused.stderr.splitlines()[-1], refused.stderr
    disk.remount()
    with serve(path) as server:
        assert len(rest_of(server.port, state)) == len(UPPER) - 4


def test_a_backup_on_a_read_only_disk(disk, tmp_path):
    """Also one whose name SQLite would read as a URI, or in a part of it."""
    path, other = disk.place / "own.db", disk.place / "a ?#%41.db"
    with serve(path) as server:
        state = kept(server.port)
    assert run("states", "export", path, other).returncode == 0
    disk.remount("ro")
    for number, source in enumerate((path, other)):
        copy, new = tmp_path / f"copy{number}.db", tmp_path / f"new{number}.db"
        assert run("states", "list", source).stdout.split()[0] == state
        assert run("states", "export", source, copy).stdout.startswith("1 states")
        assert run("states", "import", new, source).stdout.startswith("1 states")
        with serve(copy) as server:
            assert len(rest_of(server.port, state)) == len(UPPER) - 4
    disk.remount()


def test_a_log_on_a_read_only_disk_is_not_left_out(disk):
    path = disk.place / "states.db"
    with serve(path) as server:
        kept(server.port)
        server.kill()
        server.process.returncode = 0
    disk.remount("ro")
    refused = run("states", "list", path)
    assert refused.returncode == 1 and "cannot be written" in refused.stderr, refused
    disk.remount()
    assert run("states", "list", path).stdout.startswith("state-")


@pytest.mark.parametrize("name", ["file:u.db", ":memory:.db", "file:x?mode=memory&x=.db"])
def test_a_name_is_no_uri(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with serve(name) as server:
        state = kept(server.port)
    assert (tmp_path / name).stat().st_size > 0 and not (tmp_path / "u.db").exists()
    assert run("states", "list", name).stdout.startswith(state)
    assert run("states", "export", name, f"file:{name}").returncode == 0
    assert run("states", "list", f"file:{name}").stdout.startswith(state)


def test_a_damaged_state_is_refused_and_others_go_on(path):
    with serve(path) as server:
        bad, good = kept(server.port), kept(server.port)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE blobs SET bytes=zeroblob(1000) WHERE n=(SELECT n FROM states WHERE id=?)", (bad,))
    db.close()
    with serve(path) as server:
        reply = complete(server.port, state=bad)
        assert reply.status == 400 and reply.error["param"] == "state"
        assert len(rest_of(server.port, good)) == len(UPPER) - 4


def test_the_least_recently_used_are_dropped(path):
    with serve(path, "--max-states", "3") as server:
        states = [kept(server.port) for _ in range(3)]
        rest_of(server.port, states[0])  # a use
        states.append(kept(server.port))
        found = [call(server.port, "GET", f"/v1/states/{state}").status for state in states]
        assert found == [200, 404, 200, 200]


def test_a_list_has_pages(port):
    made = sorted(kept(port) for _ in range(5))
    seen, after = [], ""
    while True:
        page = call(port, "GET", f"/v1/states?limit=2{after}").json()
        assert page["object"] == "list" and len(page["data"]) <= 2
        seen += page["data"]
        if not page["has_more"]:
            break
        after = f"&after={page['data'][-1]['id']}"
    ids = [state["id"] for state in seen]
    assert ids == sorted(ids) and set(made) <= set(ids)
    assert all(state["object"] == "state" and state["bytes"] > 0 and state["expires_in_s"] > 0
               for state in seen if state["id"] in made)


@pytest.mark.parametrize("query, param", [("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit"),
                                          ("after=a.b", "after")])
def test_bad_lists(port, query, param):
    reply = call(port, "GET", f"/v1/states?{query}")
    assert reply.status == 400 and reply.error["param"] == param


def test_the_command_lists_copies_and_compacts(path, tmp_path):
    other = tmp_path / "other.db"
    with serve(path) as server:
        gone, stays = kept(server.port), kept(server.port)
        expected = rest_of(server.port, stays)
        assert call(server.port, "DELETE", f"/v1/states/{gone}").status == 204
    listed = json.loads(run("states", "list", "--json", path).stdout)
    assert listed["id"] == stays and listed["owner"] == "" and listed["bytes"] > 0
    assert run("states", "list", path).stdout.split()[0] == stays
    assert run("states", "vacuum", path).stdout.startswith("the file is sound; 1 states")
    assert run("states", "export", path, other).stdout.startswith("1 states")
    again = run("states", "export", path, other)
    assert again.returncode == 1 and "is there" in again.stderr
    path.unlink()
    assert run("states", "import", path, other).stdout == "1 states were added; 0 were there\n"
    assert run("states", "import", path, other).stdout == "0 states were added; 1 were there\n"
    with serve(path) as server:
        assert rest_of(server.port, stays) == expected
    check_sound(path)


def run_with_small_files(*args):
    return run(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY)))


@pytest.fixture
def large_file(path):
    """A file of 1 MB or so, which no process with small files can copy or write anew."""
    with serve(path) as server:
        for _ in range(4):
            kept(server.port)
    assert path.stat().st_size > 800_000
    return path


def test_an_export_that_fails_leaves_nothing_and_can_be_repeated(large_file, tmp_path):
    there, other = set(tmp_path.iterdir()), tmp_path / "other.db"
    for _ in range(2):
        failed = run_with_small_files("states", "export", large_file, other)
        assert failed.returncode == 1 and "cannot be written: File too large" in failed.stderr, failed
        assert set(tmp_path.iterdir()) == there
    (tmp_path / "other.db.part").write_bytes(b"the rest of an export that was killed")
    assert run("states", "export", large_file, other).stdout.startswith("4 states")
    assert set(tmp_path.iterdir()) == there | {other} and other.stat().st_mode & 0o777 == 0o600
    check_sound(other)


def test_an_export_to_a_full_disk(large_file, disk):
    disk.fill()
    failed = run("states", "export", large_file, disk.place / "other.db")
    assert failed.returncode == 1 and "the disk is full" in failed.stderr, failed
    assert not list(disk.place.glob("other.db*"))
    disk.free()
    assert run("states", "export", large_file, disk.place / "other.db").stdout.startswith("4 states")


def test_an_import_that_fails_can_be_repeated(large_file, tmp_path):
    new = tmp_path / "new.db"
    assert run("states", "import", new, tmp_path / "missing.db").returncode == 1 and not new.exists()
    failed = run_with_small_files("states", "import", new, large_file)
    assert failed.returncode == 1 and "the disk of the state store" in failed.stderr, failed
    check_sound(new)
    run("states", "import", new, large_file)
    assert run("states", "list", new).stdout.count("state-") == 4


def test_a_vacuum_that_fails_keeps_the_states(large_file):
    failed = run_with_small_files("states", "vacuum", large_file)
    assert failed.returncode == 1 and "the disk of the state store" in failed.stderr, failed
    check_sound(large_file)
    assert run("states", "vacuum", large_file).stdout.startswith("the file is sound; 4 states")


@pytest.mark.parametrize("args, status, words", [
    (("list",), 2, "FILE.db"), (("look", "x.db"), 2, "no task"), (("export", "x.db"), 2, "two files"),
    (("list", "x.db", "y.db"), 2, "one file"), (("list", "missing.db"), 1, "No such file"),
])
def test_wrong_commands(tmp_path, args, status, words):
    ended = run("states", *args, cwd=tmp_path)
    assert ended.returncode == status and words in ended.stderr.splitlines()[-1], ended.stderr
    assert not list(tmp_path.iterdir())
