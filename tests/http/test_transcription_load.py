"""Transcriptions when there are many: full queues, times, clients that leave, limits of keys, reloads, the end."""

import shutil
import threading

import pytest

import client
import sounds
import speech_model
from server import Server, wait_until
from settings import SANITIZED
from sounds import MODEL, ROUTE, babble, transcribe, transcribe_ok, wav

SAID = wav(babble(0.5))
# A search as wide as it may be, of the longest sound of a model with many words, takes seconds.
ROWS, WORDS = 1500, [chr(0x4E00 + i) for i in range(60 if SANITIZED else 150)]
SLOW = wav(babble(1) * round(0.03 * ROWS - 1))


@pytest.fixture(scope="module")
def slow_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow")
    speech_model.write(folder / MODEL, ROWS, WORDS)
    return folder


def send(port, file, headers=None, **fields):
    """A request whose answer is not read yet."""
    own, body = sounds.form_of(file, **fields)
    sock = client.connect(port)
    sock.sendall(client.encode_request("POST", ROUTE, body, own | (headers or {}), port))
    return sock


def hold(server, **fields):
    """The thread that reads and writes is busy with a search."""
    before = server.metric("linnet_steps_total", model=MODEL)
    sock = send(server.port, SLOW, beam=256, **fields)
    wait_until(lambda: server.metric("linnet_steps_total", model=MODEL) > before, 60, "the pass is over")
    return sock


def waiting(server):
    return server.metric("linnet_queue_length", model=MODEL)


def read(sock):
    (reply,), rest = client.parse_replies(client.read_all(sock, client.PATIENCE))
    sock.close()
    assert rest == b""
    return reply


def start(folder, *flags):
    return Server("--models", folder, *flags)


def test_a_full_queue(slow_models):
    with start(slow_models, "--queue", "2") as server:
        holder = hold(server)
        others = [send(server.port, SAID) for _ in range(2)]
        wait_until(lambda: waiting(server) == 2, 60, "two wait")
        reply = transcribe(server.port, SAID)
        assert reply.status == 429 and reply.error["code"] == "server_is_overloaded"
        assert int(reply.headers["retry-after"]) >= 1
        assert client.call(server.port, "GET", "/livez").status == 200
        assert [read(sock).status for sock in (holder, *others)] == [200] * 3
        assert server.requests("busy") == 1
        wait_until(lambda: sounds.reserved(server) == 0, 60, "all bytes are given back")


def test_health_is_answered_while_sound_is_read(slow_models):
    """With a single HTTP thread: none of them decodes, encodes or searches."""
    with start(slow_models, "--http-threads", "1") as server:
        holder = hold(server)
        for _ in range(20):
            assert client.call(server.port, "GET", "/livez").status == 200
        assert server.metric("linnet_requests_total", model=MODEL, outcome="ok") == 0, "the search was over before"
        assert read(holder).status == 200


def test_a_request_times_out(slow_models):
    with start(slow_models) as server:
        holder = hold(server)
        late = send(server.port, SAID, timeout_ms=1)
        assert read(holder).status == 200
        reply = read(late)
        assert reply.status == 504 and reply.error["code"] == "deadline_exceeded"
        assert server.requests("timeout") == 1


def test_the_time_in_the_queue(slow_models):
    """To read so long a sound alone takes longer."""
    with start(slow_models, "--queue-timeout", "0.0001") as server:
        reply = transcribe(server.port, SLOW)
        assert reply.status == 429 and int(reply.headers["retry-after"]) >= 1
        assert server.requests("busy") == 1


def test_clients_that_leave(slow_models):
    with start(slow_models) as server:
        holder = hold(server, stream=True)
        others = [send(server.port, SAID, stream=i % 2 == 0) for i in range(6)]
        wait_until(lambda: waiting(server) == 6, 60, "six wait")
        for sock in others[:5]:
            client.reset(sock)
        wait_until(lambda: waiting(server) == 1, 60, "their places are free")
        assert server.metric("linnet_requests_abandoned_total", model=MODEL, phase="queue") == 5
        assert server.metric("linnet_requests_total", model=MODEL, outcome="ok") == 0, "the search was over before"
        client.reset(holder)
        assert read(others[5]).status == 200
        wait_until(lambda: sounds.reserved(server) == 0, 60, "all bytes are given back")
        assert server.requests("cancelled") == 6
        assert transcribe_ok(server.port, SAID)


def test_limits_of_a_key(slow_models, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("one sk-one\ntwo sk-two\n")
    one, two = {"Authorization": "Bearer sk-one"}, {"Authorization": "Bearer sk-two"}
    flags = ["--api-key-file", keys, "--public", "/metrics,/readyz,/livez", "--key-samples", "1", "--key-tokens", str(2 * ROWS)]
    with start(slow_models, *flags) as server:
        assert transcribe(server.port, SAID).status == 401
        holder = hold(server, headers=one)
        reply = transcribe(server.port, SAID, headers=one)
        assert reply.status == 429 and reply.error["code"] == "rate_limit_exceeded"
        other = send(server.port, SAID, headers=two)
        assert [read(holder).status, read(other).status] == [200, 200]
        wait_until(lambda: sounds.reserved(server) == 0, 60, "both are over")
        assert transcribe(server.port, SAID, headers=one).status == 200
        wait_until(lambda: sounds.reserved(server) == 0, 60, "it is over")
        reply = transcribe(server.port, SAID, headers=one)
        assert reply.status == 429 and "tokens" in reply.error["message"]


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg-vorbis"])
def test_a_key_pays_for_decoding(slow_models, tmp_path, kind):
    """A file of many samples counts as many tokens, with any number of bytes; one of few as the longest sound."""
    def of(rate, channels, seconds):
        samples = [0.0] * int(rate * seconds)
        return wav(samples, rate, channels) if kind == "wav" else sounds.encode(kind, samples, rate, channels)

    keys = tmp_path / "keys"
    keys.write_text("one sk-one\ntwo sk-two\n")
    one, two = {"Authorization": "Bearer sk-one"}, {"Authorization": "Bearer sk-two"}
    longest = 0.9 * 0.03 * ROWS
    flags = ["--api-key-file", keys, "--public", "/metrics,/readyz,/livez", "--key-tokens", str(6 * ROWS)]
    with start(slow_models, *flags) as server:
        low, high, highest = of(8000, 1, longest), of(16000, 2, longest), of(48000, 2, longest)
        for _ in range(3):
            assert transcribe(server.port, low, headers=one).status == 200
        reply = transcribe(server.port, high, headers=one)  # 3.6 times
        assert reply.status == 429 and "tokens" in reply.error["message"], reply.text
        assert transcribe(server.port, high, headers=two).status == 200
        assert transcribe(server.port, low, headers=two).status == 200
        reply = transcribe(server.port, highest, headers=two)
        assert reply.status == 400 and reply.error["param"] == "file" and "--key-tokens" in reply.error["message"], reply.text
        reply = transcribe(server.port, b"no sound", headers=two)
        assert reply.status == 400 and reply.error["param"] == "file", reply.text


def test_a_reload(slow_models, tmp_path):
    """Requests that had begun end on the old weights; later ones get the new weights."""
    folder = tmp_path / "models"
    shutil.copytree(slow_models, folder)
    with start(folder) as server:
        before = transcribe_ok(server.port, SAID)
        holder = hold(server)
        speech_model.write(tmp_path / "new" / MODEL, ROWS, WORDS, seed=2)
        for name in ("model.safetensors", "config.json", "vocab.txt"):
            (tmp_path / "new" / MODEL / name).rename(folder / MODEL / name)
        assert client.call(server.port, "POST", "/v1/models/reload", {}).status == 200
        after = transcribe_ok(server.port, SAID)
        assert after["system_fingerprint"] != before["system_fingerprint"]
        assert read(holder).json()["system_fingerprint"] == before["system_fingerprint"]
        wait_until(lambda: "the last request of" in server.log, 60, "the old weights are freed")
        assert server.metric("linnet_requests_total", model=MODEL, outcome="ok") == 3


def test_what_has_begun_is_finished_when_the_server_stops(slow_models):
    with start(slow_models, "--drain-timeout", "600") as server:
        holder, other = hold(server), send(server.port, SAID)
        wait_until(lambda: waiting(server) == 1, 60, "one waits")
        server.signal()
        assert read(holder).status == 200
        assert read(other).status == 200


def test_what_waits_is_told_when_the_time_is_over(slow_models):
    with start(slow_models, "--drain-timeout", "0") as server:
        holder = hold(server)
        others = [send(server.port, SAID, stream=stream) for stream in (True, False)]
        wait_until(lambda: waiting(server) == 2, 60, "two wait")
        server.signal()
        streamed, whole = (read(sock) for sock in others)
        (event,) = sounds.events_of(streamed)
        assert whole.status == 503 and event["error"]["message"] == whole.error["message"]
        assert "shutting down" in whole.error["message"]
        holder.close()


def test_many_at_once(slow_models):
    """Threads that ask and leave in disorder, for as long as it takes to be answered a hundred times."""
    with start(slow_models, "--queue", "8") as server:
        want = {i: transcribe_ok(server.port, wav(babble(0.2 + 0.1 * i, seed=i)))["text"] for i in range(5)}
        statuses = []

        def ask(number):
            for i in range(20):
                file = wav(babble(0.2 + 0.1 * (i % 5), seed=i % 5))
                if (number + i) % 7 == 0:
                    client.reset(send(server.port, file))
                    continue
                reply = transcribe(server.port, file, stream=False)
                statuses.append(reply.status)
                assert reply.status == 429 or reply.json()["text"] == want[i % 5]

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(client.PATIENCE)
            assert not thread.is_alive()
        assert set(statuses) <= {200, 429} and statuses.count(200) >= 100
        wait_until(lambda: sounds.reserved(server) == 0, 60, "all bytes are given back")
        assert waiting(server) == 0
