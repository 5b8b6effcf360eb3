"""No client is held up by another client's large request. Slots are shared by requests, and by keys with their weights.
A large request that missed steps gives the same bytes. The limits of a key are counted."""

import contextlib
import threading

import pytest

import client
import holding
import image_model
import images
import lines
from client import complete, complete_ok
from server import Server, parse_metrics, wait_until

SOON = 3  # steps until a small request has begun
SLOTS = ("--slots", "8")


def small(port):
    """Steps that a request of four tokens waited, and took in all."""
    answer = complete_ok(port, prompt="海上明月", seed=1)
    return answer["timings"]["queue_steps"], answer["timings"]["total_steps"]


@contextlib.contextmanager
def beside(server, fields):
    """A request that takes all slots, until the end."""
    sock = holding.send(server.port, fields, stream=False)
    holding.wait_taken(server)
    yield
    client.reset(sock)


@pytest.mark.parametrize("fields", [holding.ENDLESS, {"prompt": [lines.of_length(32)] * 200, "n": 128}],
                         ids=["many samples", "many prompts"])
def test_a_small_request_beside_a_large_one(fields):
    with Server(*SLOTS, *holding.FLAGS) as server:
        alone = small(server.port)[1]

        def preempted():
            """After one more; a place that becomes free in time needs no preemption."""
            waited, total = small(server.port)
            assert waited <= SOON
            assert total <= alone + 2 * SOON
            return server.metric("linnet_preemptions_total") > 0

        with beside(server, fields):
            for _ in range(5):
                preempted()
            wait_until(preempted, 60, "a preemption")
        server.wait_idle()


def test_small_requests_beside_ten_large_ones():
    with Server(*SLOTS, *holding.FLAGS) as server, contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(beside(server, holding.ENDLESS))
        for _ in range(10):
            assert small(server.port)[0] <= SOON


def test_a_large_request_has_the_same_bytes():
    fields = {"prompt": lines.of_length(32), "n": 40, "seed": 5}

    def texts(port):
        return [choice["text"] for choice in complete_ok(port, **fields)["choices"]]

    with Server("--slots", "4") as server:
        alone, got = texts(server.port), []
        thread = threading.Thread(target=lambda: got.extend(texts(server.port)))
        before = server.metric("linnet_preemptions_total")
        thread.start()
        holding.wait_taken(server)
        while thread.is_alive():
            small(server.port)
        thread.join(600)
        assert server.metric("linnet_preemptions_total") > before
        assert got == alone


def test_a_small_request_finds_pages_beside_large_ones_of_another_key(tmp_path):
    """States that grow keep their pages until their end. 512 rows are 8 pages, of 32 in all; three large pictures have 24
    of them, and the rest is there for a small one at once."""
    keys = tmp_path / "keys"
    keys.write_text("alice ka\nbob kb\n")
    keys.chmod(0o600)
    image_model.write(tmp_path / "models" / "grows", 40, 40, attention={"kind": "softmax"})
    flags = ("--models", tmp_path / "models", "--slots", 8, "--state-mb", 1, "--api-key-file", keys, "--prefix-cache-mb", 0)

    def ask(key, **fields):
        body = {"model": "grows", "seed": 1, **fields}
        return client.call(server.port, "POST", images.GENERATIONS, body, {"Authorization": f"Bearer {key}"})

    def of_all(name):
        text = client.call(server.port, "GET", "/metrics", headers={"Authorization": "Bearer ka"}).text
        return sum(value for (series, _), value in parse_metrics(text, name).items() if series == name)

    with Server(*flags, "--public", "/readyz") as server, contextlib.ExitStack() as stack:
        for _ in range(6):
            sock = client.connect(server.port)
            stack.callback(client.reset, sock)
            body = {"model": "grows", "n": 400, "max_tokens": 512}
            headers = {"Authorization": "Bearer ka"}
            sock.sendall(client.encode_request("POST", images.GENERATIONS, body, headers, server.port))
        wait_until(lambda: of_all("linnet_growing_bytes") >= 24 << 15, 60, "large pictures have their pages")
        for _ in range(10):
            reply = ask("kb", max_tokens=60)
            assert reply.status == 200, reply.text
            assert reply.json()["timings"]["queue_steps"] <= SOON
        assert ask("kb", max_tokens=512).status == 200  # large ones take turns by key


@pytest.fixture(scope="module")
def limited():
    with Server("--key-samples", "4", "--key-tokens", "100") as server:
        yield server


def test_what_a_key_may_ask_for():
    with Server("--key-samples", "5", "--key-tokens", "100") as server:
        reply = complete(server.port, prompt="海上明月", n=6)
        assert reply.status == 400 and reply.error["param"] == "n" and "5 samples" in reply.error["message"]
        assert complete(server.port, prompt=lines.of_length(32), n=4).status == 400
        complete_ok(server.port, prompt=lines.of_length(32), n=3)

        replies = []

        def ask():  # the samples of the answer above count until all of it is sent
            replies.append(complete(server.port, prompt="海上明月", n=5))
            return "are being made" not in replies[-1].text

        wait_until(ask, 60, "the samples are given back")
        reply = replies[-1]
        assert reply.status == 429 and reply.error["code"] == "rate_limit_exceeded"
        assert "100 new tokens" in reply.error["message"] and 1 <= int(reply.headers["retry-after"]) <= 60


@pytest.mark.parametrize(
    "fields,param,text",
    [
        ({"prompt": ["海上明月"] * 5, "max_tokens": 1}, "prompt", "5 samples"),
        ({"prompt": ["海上明月"] * 2, "best_of": 3, "max_tokens": 1}, "best_of", "6 samples"),
        ({"prompt": ["海上明月"] * 2, "n": 3, "max_tokens": 1}, "n", "6 samples"),
        ({"prompt": "海上明月", "best_of": 5}, "best_of", "5 samples"),
        ({"prompt": [lines.of_length(32)] * 4, "max_tokens": 30}, "max_tokens", "120 new tokens"),
        ({"prompt": [lines.of_length(32)] * 4}, "prompt", "128 new tokens"),
    ],
)
def test_the_prompts_of_a_request_count_together(limited, fields, param, text):
    reply = complete(limited.port, **fields)
    assert reply.status == 400 and reply.error["param"] == param and text in reply.error["message"], reply.text
    assert "retry-after" not in reply.headers


def test_all_prompts_of_a_request_wait_for_the_key():
    with Server("--key-tokens", "60") as server:
        complete_ok(server.port, prompt=lines.of_length(30))
        complete_ok(server.port, prompt=lines.of_length(20))
        for _ in range(2):
            reply = complete(server.port, prompt=[lines.of_length(20)] * 3)
            assert reply.status == 429 and 40 <= int(reply.headers["retry-after"]) <= 50, reply.text
        complete_ok(server.port, prompt=lines.of_length(5))
