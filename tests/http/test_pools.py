"""Pools of couplets and poems: the answers are chosen, differ, and count in full; tones; lines that are lower lines."""

import asyncio

import pytest

import client
import lines
import poem_model
from client import call, join_stream, stream_ok
from couplet_rules import broken_rules
from server import Server
from settings import MODEL, ROOT

pytestmark = pytest.mark.quick

UPPER, LOWER = "书山有路勤为径", "春满乾坤福满门"
POOL, POEM_POOL = 80, 48
REVIEWED = 12  # samples that are scored once more
MARKS = set("平仄中")


def pooled(port, headers=None, **fields):
    reply = call(port, "POST", "/v1/completions", {"model": MODEL, "prompt": UPPER, "seed": 1, **fields}, headers)
    assert reply.status == 200, reply.text
    return reply.json()


def texts(answer):
    return [choice["text"] for choice in answer["choices"]]


def warned(answer, param):
    return [w["message"] for w in answer.get("warnings", []) if w["param"] == param]


def test_five_answers_differ_and_keep_the_rules(port):
    for upper in lines.OWN[:40]:
        answer = pooled(port, prompt=upper, n=5)
        assert len(set(texts(answer))) == 5, (upper, texts(answer))
        assert not any(broken_rules(upper.strip(), text) for text in texts(answer)), upper


def test_equal_seeds_give_equal_answers(port):
    answer = pooled(port, n=5)
    assert texts(pooled(port, n=5)) == texts(answer) == texts(pooled(port, n=5, rank=True))
    assert texts(pooled(port, n=2)) == texts(answer)[:2]


def test_every_sample_counts(port):
    answer = pooled(port, max_tokens=32)  # the longest line
    assert answer["usage"]["completion_tokens"] == POOL * len(UPPER)
    assert len(answer["choices"]) == 1 and not answer.get("warnings")


WAYS = [{"rank": False}, {"temperature": 0.8}, {"best_of": 2}, {"top_p": 1}, {"stop": "门"}, {"max_tokens": 31}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_request_that_says_how_to_draw_gets_no_pool(port, way):
    plain = pooled(port, n=2, **way)
    assert plain["usage"]["completion_tokens"] == 2 * len(UPPER)
    streamed, _ = join_stream(stream_ok(port, prompt=UPPER, seed=1, n=2))
    assert sorted(texts(plain)) == sorted(streamed.values())


@pytest.mark.parametrize("field", [{"temperature": 0.5}, {"stream": True}, {"best_of": 3}], ids=str)
def test_rank_beside_another_way_is_refused(port, field):
    reply = call(port, "POST", "/v1/completions", {"model": MODEL, "prompt": UPPER, "rank": True, **field})
    assert reply.status == 400 and reply.json()["error"]["param"] == "rank", reply.text
    assert next(iter(field)) in reply.json()["error"]["message"]


def test_tones_are_told(port):
    answer = pooled(port, prompt="春风送暖，花开", n=3)
    assert answer["prompt_tones"] == "平平仄仄，平平"
    for choice in answer["choices"]:
        assert len(choice["tones"]) == len(choice["text"]) and choice["tones"][4] == "，"
        assert set(choice["tones"]) - MARKS == {"，"}


def test_a_lower_line_gets_an_upper_one(port):
    answer = pooled(port, prompt=LOWER, n=5)
    assert answer["answered"] == "upper" and warned(answer, "prompt")
    assert not any(choice["tones"].endswith("平") for choice in answer["choices"])
    plain = pooled(port, prompt=LOWER, rank=False)
    assert plain["answered"] == "lower" and not warned(plain, "prompt")
    assert pooled(port)["answered"] == "lower"


def test_several_prompts_are_told_in_lists(port):
    answer = pooled(port, prompt=[UPPER, LOWER])
    assert answer["answered"] == ["lower", "upper"]
    assert [len(tones) for tones in answer["prompt_tones"]] == [len(UPPER), len(LOWER)]
    assert texts(answer) == texts(pooled(port)) + texts(pooled(port, prompt=LOWER))


def test_a_small_server_draws_smaller_pools():
    with Server("--slots", "16") as server:
        answer = pooled(server.port, n=5)
        assert answer["usage"]["completion_tokens"] == 10 * len(UPPER)
        assert "10 samples" in warned(answer, "rank")[0] and f"{POOL}" in warned(answer, "rank")[0]
        assert pooled(server.port, n=12)["usage"]["completion_tokens"] == 12 * len(UPPER)
        server.wait_idle()


def test_a_pool_keeps_the_limits_of_a_key_and_of_the_server(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first sk-first\n")
    bearer = {"Authorization": "Bearer sk-first"}
    limit = (40 + REVIEWED + 20 + REVIEWED) * len(UPPER)
    with Server("--api-key-file", keys, "--key-tokens", limit, "--max-n", "40") as server:
        n_tokens = [pooled(server.port, bearer, n=2, seed=None)["usage"]["completion_tokens"] for _ in range(2)]
        assert n_tokens[0] == 40 * len(UPPER)  # --max-n
        assert n_tokens[1] == 20 * len(UPPER)  # with the reviews this uses up the limit
        # With a seed the answer is independent of the earlier requests of the key.
        body = {"model": MODEL, "prompt": UPPER, "seed": 1, "n": 2}
        assert call(server.port, "POST", "/v1/completions", body, bearer).status == 429


def test_many_clients_get_smaller_pools_and_are_told(port):
    requests = [{"prompt": UPPER, "n": 5, "rank": None} for i in range(64)]
    replies = asyncio.run(client.answer_all(port, requests, in_flight=64))
    for reply in replies:
        assert reply.status == 200, reply.text
        answer = reply.json()
        n_samples = answer["usage"]["completion_tokens"] // len(UPPER)
        assert n_samples in (POOL, 40, 20, 10, 5)
        assert bool(warned(answer, "rank")) == (n_samples < POOL)
        assert len(texts(answer)) == 5


def test_a_seed_gives_one_answer_under_any_load(port):
    alone = [pooled(port, seed=seed, n=5) for seed in range(4)]
    requests = [{"prompt": UPPER, "seed": i % 4, "n": 5, "rank": None} for i in range(32)]
    for i, reply in enumerate(asyncio.run(client.answer_all(port, requests, in_flight=32))):
        assert reply.status == 200, reply.text
        assert texts(reply.json()) == texts(alone[i % 4]) and warned(reply.json(), "rank") == warned(alone[i % 4], "rank")


def test_reviews_need_no_place_in_the_queue():
    """A server without a queue accepts no second request now, but the reviews belong to the accepted one."""
    answers = []
    for queue in ("0", "64"):
        with Server("--slots", "16", "--queue", queue) as server:
            answers.append(texts(pooled(server.port, n=5)))
            server.wait_idle()
    assert answers[0] == answers[1]


def test_a_cancelled_pool_leaves_nothing(port):
    """A client may leave at any time: in the pool, in the reviews, or before the answer."""
    for wait_ms in range(0, 40, 2):
        sock = client.connect(port)
        sock.sendall(client.encode_request("POST", "/v1/completions", {"model": MODEL, "prompt": UPPER, "n": 5}, port=port))
        sock.settimeout(wait_ms / 1000 + 0.001)
        try:
            sock.recv(1)
        except TimeoutError:
            pass
        client.reset(sock)
    assert len(set(texts(pooled(port, n=5)))) == 5


def test_a_poem_is_the_best_of_a_pool():
    with Server(model_dir=ROOT / "weights/poem") as server:
        body = {"model": "poem", "prompt": "唐《静夜思》", "form": "5x4", "seed": 1, "n": 2}
        reply = call(server.port, "POST", "/v1/completions", body)
        assert reply.status == 200, reply.text
        answer = reply.json()
        assert answer["usage"]["completion_tokens"] == POEM_POOL * 25
        assert len(set(texts(answer))) == 2 and "tones" not in answer["choices"][0]
        assert texts(call(server.port, "POST", "/v1/completions", body).json()) == texts(answer)
        server.wait_idle()


def test_tokens_that_are_parts_of_characters(tmp_path):
    """Without a form a random model draws bytes that are no UTF-8."""
    poem_model.write(tmp_path / "verses")
    with Server(model_dir=tmp_path / "verses") as server:
        for seed in range(4):
            body = {"model": "verses", "prompt": "唐《春》", "seed": seed, "n": 3, "max_tokens": 200}
            reply = call(server.port, "POST", "/v1/completions", body)
            assert reply.status == 200 and len(texts(reply.json())) == 3, reply.text
