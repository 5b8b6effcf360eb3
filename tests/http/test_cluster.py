"""Two servers with deploy/haproxy.cfg before them and one Redis: 200 conversations whose turns land on either server
while one of them is killed. No acknowledged turn is lost."""

import asyncio
import signal

import pytest

import client
import lines
from cluster import HAProxy, Redis
from conversations import Conversation, TurnFailed, whole
from server import Server

CONVERSATIONS, TOKENS, AT_ONCE = 200, 4, 32
TRIES = 20


class Progress:
    """Kills a server once half of all turns are acknowledged."""

    def __init__(self, total, victim):
        self.total, self.victim = total, victim
        self.acknowledged = self.failed = 0
        self.killed_at = None

    def count(self):
        self.acknowledged += 1
        if self.killed_at is None and self.acknowledged >= self.total // 2:
            self.killed_at = self.acknowledged
            self.victim.signal(signal.SIGKILL)


async def talk_to_the_end(talk, port, progress):
    """A failed turn is repeated from the last acknowledged state."""
    tries = 0
    while not talk.done:
        try:
            await talk.try_turn(port)
        except TurnFailed as failure:
            progress.failed += 1
            tries += 1
            assert tries < TRIES, failure
            await asyncio.sleep(0.05)  # check-tests: a client's pause before it tries again
        else:
            progress.count()
            tries = 0


@pytest.mark.heavy
def test_200_conversations_while_a_server_is_killed():
    uppers = [line for line in lines.mixed(CONVERSATIONS)]
    with Redis() as redis:
        flags = "--slots", "16", "--state-store", redis.url
        with Server(*flags) as a, Server(*flags) as b, HAProxy(a.port, b.port) as proxy:
            talks = [Conversation(upper.strip(), seed, TOKENS) for seed, upper in enumerate(uppers)]
            total = sum(-(-len(talk.prompt) // TOKENS) for talk in talks)
            progress = Progress(total, a)
            asyncio.run(client.gather_limited(AT_ONCE, [
                lambda talk=talk: talk_to_the_end(talk, proxy.port, progress) for talk in talks
            ]))
            assert a.wait() == -signal.SIGKILL
            a.process.returncode = 0
            assert progress.acknowledged == total
            assert 0 < progress.killed_at < total
            assert 0 < b.requests("ok") < total, "all turns landed on one server"
            print(f"{total} turns, {progress.failed} said again, {b.requests('ok'):.0f} on the other")
            for talk in talks:
                assert talk.text == whole(b.port, talk.prompt, talk.seed)
                for state in talk.ids:  # every single one that was acknowledged
                    assert client.call(b.port, "GET", f"/v1/states/{state}").status == 200
