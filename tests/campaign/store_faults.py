"""States in Redis and in a file while things go wrong: no turn that was acknowledged may be lost, and no answer be another."""

import random
import resource
import signal
import tempfile
import threading
import time
from pathlib import Path

import client
import lines
import text_model
from client import call, complete
from cluster import Redis
from common import Row, Server, temporary
from conversations import Conversation, TurnFailed, text_of, whole
from disks import small_disk
from server import run, wait_until

TOKENS, PATIENCE = 1, 300.0  # a turn's tokens; seconds until a conversation must have got on
STORE = ("--slots", "16", "--state-store-timeout", "1")
MODEL, MESSAGES = "talker", [f"message {i}" for i in range(10)]
REQUEST = {"model": MODEL, "max_output_tokens": 8, "seed": 1}


def said_in(answer):
    return answer["output"][0]["content"][0]["text"]


class Talkers:
    """Clients that talk in turns to any server that answers, and check every acknowledged turn."""

    def __init__(self, ports, turns, options):
        self.ports, self.turns, self.seed = ports, turns, options.seed  # ports() is the list of now
        self.lock = threading.Lock()
        self.acknowledged = self.again = self.number = 0
        self.lost, self.wrong = [], []
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(options.clients)]
        for thread in self.threads:
            thread.start()

    def wait(self):
        for thread in self.threads:
            thread.join()

    def running(self):
        return any(thread.is_alive() for thread in self.threads)

    def run(self, i):
        rng = random.Random(f"{self.seed}-{i}")
        while self.acknowledged < self.turns:
            with self.lock:
                self.number += 1
                number = self.number
            prompt = lines.of_length(rng.choice((7, 12, 32)))
            talk = Conversation(prompt, number, TOKENS)
            try:
                self.talk(talk, rng)
                self.check(talk, rng)
            except Exception as error:  # a case that the campaign cannot run is one of its findings
                self.wrong.append(f"conversation {number}: {error!r}")
                return

    def insist(self, rng, ask):
        """ask(port) until it has an answer that is not a passing refusal."""
        end = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < end, "no answer for too long"
            try:
                return ask(rng.choice(self.ports()))
            except (TurnFailed, OSError, AssertionError, IndexError):
                self.again += 1
                time.sleep(0.02)

    def talk(self, talk, rng):
        def turn(port):
            reply = complete(port, **talk.request())
            if reply.status in (429, 503):
                raise TurnFailed(reply.text)
            if reply.status != 200:
                self.lost.append(f"{talk.state}: {reply.status} {reply.text}")
                return False
            if reply.json()["states"][0]["id"] is None:
                raise TurnFailed("the state could not be kept")
            talk.take(reply.json())
            return True
        while not talk.done and self.insist(rng, turn):
            self.acknowledged += 1

    def check(self, talk, rng):
        """Every acknowledged state exists, and the text equals the answer without turns."""
        def get(state):
            def ask(port):
                reply = call(port, "GET", f"/v1/states/{state}")
                if reply.status in (429, 503):
                    raise TurnFailed(reply.text)
                return reply.status
            return ask

        def delete(state):
            return lambda port: call(port, "DELETE", f"/v1/states/{state}")

        for state in talk.ids:
            if self.insist(rng, get(state)) != 200:
                self.lost.append(state)
        text = self.insist(rng, lambda port: whole(port, talk.prompt, talk.seed))
        if talk.done and talk.text != text:
            self.wrong.append(f"{talk.text} for {text}")
        for state in talk.ids:
            self.insist(rng, delete(state))

    def row(self, what, more):
        held = not self.lost and not self.wrong and self.acknowledged >= self.turns
        for fault in [*self.lost, *self.wrong][:5]:
            print(f"  {what}: {fault}")
        return Row(what, held, f"{len(self.lost)} of {self.acknowledged} acknowledged turns lost, "
                               f"{len(self.wrong)} wrong, {self.again} said again, {more}")


class Speakers(Talkers):
    """Clients that hold conversations by /v1/responses: half of them name the newest response, half a conversation object.
    All say the same messages, so the answers of a turn are equal."""

    def __init__(self, ports, turns, options):
        (port,), previous, self.expected = ports(), {}, []
        for message in MESSAGES:
            answer = call(port, "POST", "/v1/responses", REQUEST | {"input": message} | previous).json()
            self.expected.append(said_in(answer))
            previous = {"previous_response_id": answer["id"]}
        super().__init__(ports, turns, options)

    def run(self, i):
        rng = random.Random(f"{self.seed}-{i}")
        try:
            while self.acknowledged < self.turns and not self.lost:
                (self.follow if i % 2 else self.converse)(rng)
        except Exception as error:  # a case that the campaign cannot run is one of its findings
            self.wrong.append(f"client {i}: {error!r}")

    def ask(self, rng, method, path, body=None):
        """A lasting reply. Clients ask for acknowledged objects only, so a missing object is lost."""
        def ask(port):
            reply = call(port, method, path, body)
            if reply.status in (409, 429, 503) or body and reply.status == 200 and not reply.json().get("store", True):
                raise TurnFailed(reply.text)
            return reply
        reply = self.insist(rng, ask)
        if reply.status != 200 and method != "DELETE":  # which may have been carried out without an answer
            self.lost.append(f"{method} {path}: {reply.status} {reply.text}")
        return reply.json()

    def take(self, answer, expected):
        self.acknowledged += 1
        if said_in(answer) != expected:
            self.wrong.append(f"{said_in(answer)} for {expected}")

    def follow(self, rng):
        said = []
        for message, expected in zip(MESSAGES, self.expected, strict=True):
            previous = {"previous_response_id": said[-1]["id"]} if said else {}
            said.append(self.ask(rng, "POST", "/v1/responses", REQUEST | {"input": message} | previous))
            self.take(said[-1], expected)
        for answer in said:
            if self.ask(rng, "GET", f"/v1/responses/{answer['id']}") != answer:
                self.wrong.append(f"{answer['id']} differs")
            self.ask(rng, "DELETE", f"/v1/responses/{answer['id']}")

    def converse(self, rng):
        """A turn whose answer did not arrive may be in the conversation."""
        talk = self.ask(rng, "POST", "/v1/conversations", {"metadata": {}})["id"]
        path, body = f"/v1/conversations/{talk}", REQUEST | {"conversation": talk, "store": False}

        def items(port):
            reply = call(port, "GET", f"{path}/items?order=asc&limit=100")
            if reply.status in (429, 503):
                raise TurnFailed(reply.text)
            return [item["content"][0]["text"] for item in reply.json()["data"]]

        whole = []
        for message, expected in zip(MESSAGES, self.expected, strict=True):
            def turn(port, body=body | {"input": message}):
                if len(items(port)) > len(whole):
                    return None
                reply = call(port, "POST", "/v1/responses", body)
                if reply.status in (409, 429, 503):
                    raise TurnFailed(reply.text)
                return reply.json()
            answer = self.insist(rng, turn)
            whole += [message, expected]
            if answer is not None:
                self.take(answer, expected)
        if (found := self.insist(rng, items)) != whole:
            self.wrong.append(f"{found} for {whole}")
        self.ask(rng, "DELETE", path)


def kill_minus_nine(options):
    """Two servers, one Redis; at random moments one of them is killed and started anew."""
    rng, kills = random.Random(options.seed), 0
    with Redis() as redis:
        flags = *STORE, "--state-store", redis.url
        servers = [Server(*flags).start() for _ in range(2)]
        try:
            talkers = Talkers(lambda: [server.port for server in servers], options.turns, options)
            while talkers.running():
                time.sleep(rng.uniform(0.1, options.between))
                victim = rng.randrange(2)
                servers[victim].signal(signal.SIGKILL)
                servers[victim].process.wait()
                servers[victim] = Server(*flags).start()
                kills += 1
            talkers.wait()
        finally:
            for server in servers:
                server.kill()
    row = talkers.row("kill -9 of servers at random moments under load", f"{kills} kills")
    row.held = row.held and kills > 0
    return row


def with_proxy(what, options, harm, heal, more):
    """Talkers during faults of the network: `harm` and `heal` take the proxy in turns."""
    from proxy import Proxy
    rng, count = random.Random(options.seed), 0
    with Redis() as redis, Proxy(redis.port) as proxy:
        url = f"redis://{client.HOST}:{proxy.port}/0"
        with Server(*STORE, "--state-store", url) as server:
            talkers = Talkers(lambda: [server.port], options.turns // 10, options)
            while talkers.running():
                time.sleep(rng.uniform(0.1, options.between / 2))
                harm(proxy)
                time.sleep(rng.uniform(0.1, options.between / 2))
                heal(proxy)
                count += 1
            talkers.wait()
            wait_until(lambda: server.metric("linnet_state_store_up") == 1, 60, "store is back")
            server.check_unharmed()
    return talkers.row(what, f"{count} {more}")


def set_to(**values):
    def change(proxy):
        for name, value in values.items():
            setattr(proxy, name, value)
    return change


def row_of_file(talkers, what, faults, path, held=True):
    """The row of talkers that have ended, whose file must be sound, too."""
    row = talkers.row(what, faults)
    row.held = row.held and held and run("states", "vacuum", path).stdout.startswith("the file is sound")
    return row


def file_killed(options, what="kill -9 of a server with a file of states", make=Talkers, models=None):
    """One server with a file; it is killed at random moments and started anew with the file."""
    rng, kills = random.Random(options.seed), 0
    with temporary() as folder:
        path = f"{folder}/states.db"

        def start():
            return Server(*STORE, "--state-store", path, models=models).start()

        servers = [start()]
        try:
            talkers = make(lambda: [server.port for server in servers], options.turns, options)
            while talkers.running():
                time.sleep(rng.uniform(0.1, options.between))
                servers[0].kill()
                servers[0] = start()
                kills += 1
            talkers.wait()
        finally:
            servers[0].kill()
        return row_of_file(talkers, what, f"{kills} kills", path, kills > 0)


def conversations_killed(options):
    """As file_killed, with conversations of /v1/responses."""
    with temporary() as folder:
        model = text_model.write_bytes(Path(folder) / MODEL, end=[], context=10_000)
        (model / "tokenizer_config.json").write_text('{"chat_template": "rwkv"}')
        return file_killed(options, "kill -9 of a server, conversations of /v1/responses", Speakers, folder)


def file_full(options):
    """The file reaches a limit of its size under load, again and again: a disk that is full for a while."""
    rng, spells, refused = random.Random(options.seed), 0, 0
    with temporary() as folder:
        path = f"{folder}/states.db"
        with Server(*STORE, "--state-store", path) as server:
            talkers = Talkers(lambda: [server.port], options.turns // 10, options)
            while talkers.running():
                resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
                time.sleep(rng.uniform(0.05, options.between / 4))
                refused += server.metric("linnet_state_store_up") == 0
                resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                time.sleep(rng.uniform(0.05, options.between / 4))
                spells += 1
            talkers.wait()
            server.check_unharmed()
        return row_of_file(talkers, "a file of states that cannot grow, at times", f"{spells} spells, {refused} of them noticed", path)


def file_read_only(options):
    """The file becomes read-only under load, again and again; after some of these spells the server is killed and started
    anew."""
    what, rng, spells, refused = "a file of states that becomes read-only, at times", random.Random(options.seed), 0, 0
    with temporary() as folder, small_disk(Path(folder), 1 << 30) as disk:
        if disk is None:
            return Row(what, False, "no right to mount a small disk", skipped=True)
        path = disk.place / "states.db"
        flags = *STORE, "--state-store", path
        servers = [Server(*flags).start()]
        try:
            talkers = Talkers(lambda: [server.port for server in servers], options.turns // 10, options)
            while talkers.running():
                time.sleep(rng.uniform(0.1, options.between / 2))
                disk.protect()
                time.sleep(rng.uniform(0.05, options.between / 4))
                refused += servers[0].metric("linnet_state_store_up") == 0
                if rng.random() < 0.5:
                    servers[0].kill()
                disk.protect(False)
                if servers[0].process.poll() is not None:
                    servers[0] = Server(*flags).start()
                spells += 1
            talkers.wait()
            servers[0].check_unharmed()
        finally:
            servers[0].kill()
        return row_of_file(talkers, what, f"{spells} spells, {refused} of them noticed", path, spells > 0)


def redis_slow(options):
    return with_proxy("Redis slow: every packet 20 ms late", options, set_to(delay=0.02),
                      set_to(delay=0.0), "spells")


def network_stalls(options):
    return with_proxy("network to Redis stalls beyond the store's time-out", options,
                      set_to(stalled=True), set_to(stalled=False), "stalls")


def network_cut(options):
    def harm(proxy):
        proxy.refusing = True
        proxy.cut()
    return with_proxy("network to Redis cut", options, harm, set_to(refusing=False), "cuts")


def redis_restarted(options):
    """A Redis that writes every change to disk, killed with -9 and started again."""
    rng, count = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory(prefix="linnet-campaign-") as folder:
        durable = "--appendonly", "yes", "--appendfsync", "always", "--dir", folder
        with Redis(*durable) as redis, Server(*STORE, "--state-store", redis.url) as server:
            talkers = Talkers(lambda: [server.port], options.turns // 10, options)
            while talkers.running():
                time.sleep(rng.uniform(0.1, options.between))
                redis.kill()
                redis.start_again()
                count += 1
            talkers.wait()
            server.check_unharmed()
    return talkers.row("Redis killed with -9 and restarted (appendfsync always)", f"{count} restarts")


def redis_full(options):
    """noeviction: new states are refused with a reason, old ones continue, and freed room is used."""
    kept, refusals, wrong = [], 0, []
    with Redis("--maxmemory", "6mb", "--maxmemory-policy", "noeviction") as redis:
        with Server(*STORE, "--state-store", redis.url) as server:
            for seed in range(max(20, options.turns // 100)):
                talk = Conversation(lines.of_length(32), seed, 4)
                reply = complete(server.port, **talk.request())
                if reply.status != 200 or reply.json()["states"][0]["id"] is None:
                    refusals += 1
                    reason = reply.json()["states"][0]["error"] if reply.status == 200 else reply.error
                    if not reason:
                        wrong.append(f"no reason: {reply.text}")
                    if kept and refusals % 3 == 0:  # room again
                        call(server.port, "DELETE", f"/v1/states/{kept.pop(0).state}")
                else:
                    talk.take(reply.json())
                    kept.append(talk)
            for talk in kept:
                rest = complete(server.port, state=talk.state)
                if rest.status != 200 or talk.text + text_of(rest.json()) != whole(
                        server.port, talk.prompt, talk.seed):
                    wrong.append(f"{talk.state}: {rest.text}")
            server.check_unharmed()
    for fault in wrong[:5]:
        print(f"  Redis full: {fault}")
    return Row("Redis full (maxmemory, noeviction)", not wrong and refusals > 0 and bool(kept),
               f"{refusals} states refused with a reason, {len(kept)} of {len(kept)} kept ones went on, "
               f"{len(wrong)} faults")
