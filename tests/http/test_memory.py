"""The memory of requests: reserved before work from a budget, or refused with the bytes; all of it given back however a
request ends."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import client
import holding
import images
import text_model
from client import MODEL, call, complete, complete_ok
from server import Server, run, wait_until
from settings import ROOT
from test_footprint import SLACK

WEIGHTS = ROOT / "weights"
USED, REFUSED, LIMIT = "linnet_answer_bytes", "linnet_answer_bytes_refused_total", "linnet_answer_bytes_limit"
STATE_STORE = 32 << 20
MIB = 1 << 20


def peak_bytes(server):
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


def wait_given_back(server, name=USED):
    wait_until(lambda: server.metric(name) == 0, 60, f"{name} is 0")


def many_states(n_prompts, n):
    return {"prompt": ["山"] * n_prompts, "n": n, "max_tokens": 1, "return_state": True}


@pytest.fixture(scope="module")
def shared():
    with Server("--answer-memory", "64", "--max-state-bytes", str(STATE_STORE), "--slots", "4") as server:
        yield server


@pytest.fixture
def small(shared):
    wait_given_back(shared)
    yield shared
    shared.check_unharmed()
    wait_given_back(shared)


@pytest.mark.parametrize(
    "fields, param",
    [
        (many_states(256, 32), "return_state"),
        (many_states(256, 128), "return_state"),
        (many_states(2, 128), "return_state"),
        ({"prompt": [holding.LONG] * 256, "n": 128, "logprobs": 5}, "logprobs"),
        ({"prompt": [holding.LONG] * 256, "n": 128}, "n"),
    ],
)
def test_a_request_that_never_fits_is_refused_with_its_bytes(small, fields, param):
    computed, refused = small.metric("linnet_steps_total"), small.metric(REFUSED)
    reply = complete(small.port, **fields)
    assert reply.status == 400 and reply.error["param"] == param, reply.text
    needed, limit = map(int, re.search(r"need (\d+) bytes.* (\d+) \(--answer-memory\)",
                                       reply.error["message"]).groups())
    assert needed > limit == small.metric(LIMIT) == 64 * MIB
    state = call(small.port, "GET", f"/v1/models/{MODEL}").json()["meta"]["state_bytes"]
    if param == "return_state":
        assert needed >= state * len(fields["prompt"]) * fields["n"]
    assert small.metric("linnet_steps_total") == computed
    assert small.metric(REFUSED) == refused + 1


def test_what_does_not_fit_now_is_refused_for_now():
    flags = ("--answer-memory", "64", "--slots", "1", *holding.FLAGS)
    with Server(*flags) as server:
        held = holding.hold(server, stream=True)
        used = server.metric(USED)
        assert 0 < used < 64 * MIB
        refused = complete(server.port, **many_states(1, 1000)).error["message"]
        each = int(re.search(r"need (\d+) bytes", refused).group(1)) / 1000
        n = int((64 * MIB - used / 2) / each)  # fits alone, but not next to the held bytes
        reply = complete(server.port, **many_states(1, n))
        assert reply.status == 429 and int(reply.headers["retry-after"]) >= 1, reply.text
        assert reply.error["param"] == "return_state" and "bytes" in reply.error["message"]
        capacity = call(server.port, "GET", "/v1/capacity").json()["answer_bytes"]
        assert capacity == {"limit": 64 * MIB, "used": used, "free": 64 * MIB - used}
        client.reset(held)
        wait_given_back(server)
        assert complete(server.port, **many_states(1, n)).status == 200
        wait_given_back(server)


def test_given_back_after_every_end(small):
    """After an answer, a refusal, a failure, a deadline, and clients that leave at any point."""
    complete_ok(small.port, prompt="海上明月")
    assert complete(small.port, prompt=["山", "no line"]).status == 400
    assert complete(small.port, prompt="山", state="x").status in (400, 404)
    assert complete(small.port, prompt=holding.LONG, n=128, timeout_ms=1).status == 504
    client.stream_ok(small.port, prompt="海上明月")
    state = complete_ok(small.port, prompt="山水", max_tokens=1, return_state=True)["states"][0]["id"]
    complete_ok(small.port, state=state)
    assert complete(small.port, state="state-none").status == 404
    reply = call(small.port, "POST", "/v1/states", {"model": MODEL, "prompt": "海上明月"})
    assert reply.status == 201, reply.text
    assert call(small.port, "POST", f"/v1/states/{state}/fork", {"n": 3}).status == 201
    reply = call(small.port, "POST", "/v1/score", {"model": MODEL, "prompt": "海上", "completion": "天涯"})
    assert reply.status == 200, reply.text
    wait_given_back(small)
    for stream in (False, True):
        sockets = [holding.send(small.port, {"prompt": holding.LONG, "n": 64}, stream) for _ in range(8)]
        wait_until(lambda: small.metric(USED) > 0, 60, "reserved")
        for sock in sockets:
            client.reset(sock)
        wait_given_back(small)


def test_images(image_server):
    answer = images.generate_ok(image_server.port, n=3, max_tokens=1, return_state=True)
    assert len(answer["states"]) == 3
    images.generate_ok(image_server.port, n=3, contact_sheet=True)
    wait_given_back(image_server)


@pytest.mark.heavy  # a build with sanitizers has memory of its own
def test_peak_of_many_large_requests(tmp_path):
    """For any requests at once: no more than weights, states, the budget and 64 MiB."""
    budget, slots = 256 * MIB, 16
    (tmp_path / "mnist").symlink_to(WEIGHTS / "mnist")
    with Server("--models", tmp_path, "--answer-memory", str(budget // MIB), "--slots", str(slots),
                "--max-state-bytes", str(STATE_STORE), model_dir=WEIGHTS / "couplet") as server:
        allowed = SLACK + budget + STATE_STORE
        for model in call(server.port, "GET", "/v1/models").json()["data"]:
            allowed += (slots + 1) * model["meta"]["state_bytes"]
        allowed += sum(f.stat().st_size for f in WEIGHTS.glob("*/model.safetensors"))
        allowed += 2 * 32 * MIB  # --prefix-cache-mb of both

        def ask(i):
            pictures = {"model": "mnist", "n": 400, "max_tokens": 1, "return_state": True}
            kinds = [(images.GENERATIONS, pictures),
                     ("/v1/completions", {"model": MODEL, **many_states(16, 32)}),
                     ("/v1/completions", {"model": MODEL, **many_states(256, 128)})]
            statuses = [429]
            while statuses[-1] == 429:  # as long as others have the budget
                statuses.append(call(server.port, "POST", *kinds[i % 3]).status)
            return statuses[-1]

        with ThreadPoolExecutor(6) as pool:
            statuses = list(pool.map(ask, range(12)))
        peak = peak_bytes(server)
        print(f"peak {peak / MIB:.0f} MiB, {allowed / MIB:.0f} allowed; {statuses}")
        assert statuses == [200, 200, 400] * 4
        assert server.metric(REFUSED) >= 4
        assert peak < allowed
        wait_given_back(server)


@pytest.mark.heavy  # slow with a sanitizer
def test_peak_of_a_large_response(tmp_path):
    """A stream of a response has all of its text, and the log-probabilities, in its last events again."""
    budget = 48 * MIB
    text_model.write_bytes(tmp_path / "bytes", context=9000)
    with Server("--models", tmp_path, "--answer-memory", str(budget // MIB), "--slots", "2", "--max-tokens", "8000") as server:
        before = peak_bytes(server)

        def ask(tokens):
            fields = {"model": "bytes", "input": "a", "stream": True, "ignore_eos": True, "max_output_tokens": tokens,
                      "include": ["message.output_text.logprobs"], "top_logprobs": 20}
            return call(server.port, "POST", "/v1/responses", fields)

        tokens = next(n for n in range(8000, 0, -500) if (reply := ask(n)).status == 200)
        assert tokens < 8000 and reply.body.count(b"event: response.completed") + reply.body.count(b"event: response.incomplete") == 1
        peak = peak_bytes(server)
        print(f"{tokens} tokens, peak {peak / MIB:.0f} MiB after {before / MIB:.0f}")
        # Bytes are reserved for tokens of the longest text, every byte of it escaped, in a buffer that is growing.
        assert budget / 16 < peak - before < budget
        wait_given_back(server)


# --- bodies ---------------------------------------------------------------------------------------

BODIES = "linnet_body_bytes"
BODY_MEMORY = 24  # MiB: just enough for one body of any kind, forms being no larger
WHOLE = 1 << 20  # --max-body


def unfinished(port, length=WHOLE, sent=0, headers=None, source=None):
    """A request whose body does not come."""
    sock = client.connect(port, source=source)
    lines = {"Content-Type": "application/json", **(headers or {})}
    if "Transfer-Encoding" not in lines:
        lines["Content-Length"] = str(length)
    sock.sendall(client.encode_request("POST", "/v1/completions", headers=lines) + b" " * sent)
    return sock


def reply_of(sock, patience=client.PATIENCE):
    data = client.read_all(sock, patience)
    replies, _ = client.parse_replies(data)
    assert len(replies) == 1, data[:400]
    return replies[0]


@pytest.fixture
def filled():
    """A server of which a client holds its whole budget for bodies, since it never finishes them, and its sockets."""
    with Server("--body-memory", str(BODY_MEMORY), "--max-upload", str(WHOLE), "--slots", "2") as server:
        sockets = [unfinished(server.port, sent=WHOLE - 1) for _ in range(BODY_MEMORY // 2 - 1)]
        wait_until(lambda: server.metric(BODIES) >= len(sockets) * WHOLE, 60, "bodies reserved")
        yield server, sockets
        for sock in sockets:
            client.reset(sock)
        wait_given_back(server, BODIES)
        server.check_unharmed()
        wait_given_back(server, BODIES)


def check_no_room(reply):
    assert reply.status == 503 and int(reply.headers["retry-after"]) >= 1, reply.text
    assert reply.error["param"] == "body" and "--body-memory" in reply.error["message"]


def test_a_body_without_room_is_refused_before_it_is_read(filled):
    server, _ = filled
    refused = server.metric(BODIES + "_refused_total")
    late = unfinished(server.port)
    check_no_room(reply_of(late))  # none of it was sent
    assert server.metric(BODIES + "_refused_total") > refused
    assert call(server.port, "GET", "/livez").status == 200
    capacity = call(server.port, "GET", "/v1/capacity").json()["body_bytes"]
    assert capacity["limit"] == BODY_MEMORY * MIB and capacity["free"] <= BODY_MEMORY // 2 * MIB + WHOLE


def test_a_body_takes_room_as_it_comes(small):
    """Announced bytes cost nothing."""
    sockets = [unfinished(small.port, sent=100) for _ in range(2 * BODY_MEMORY)]
    wait_until(lambda: small.metric(BODIES) >= len(sockets) * 100, 60, "bodies begun")
    assert small.metric(BODIES) < len(sockets) * 1000
    complete_ok(small.port, prompt="海上明月")
    for sock in sockets:
        client.reset(sock)
    wait_given_back(small, BODIES)


def hold(port, **options):
    """Unfinished bodies of one client, large ones first: more than it may hold. Their sockets."""
    sockets = []
    for size in (WHOLE, WHOLE // 16, WHOLE // 256, 64):
        for _ in range(BODY_MEMORY):
            sock = unfinished(port, size, **options)
            sockets.append(sock)
            try:
                sock.sendall(b" " * (size - 1))
            except OSError:  # refused and closed
                pass
    return sockets


def check_room_for_others(server, attackers, victim):
    """However slow and large a client's uploads are: a small request of another client is answered."""
    refused, sockets = server.metric(BODIES + "_refused_total"), []
    for attacker in attackers:
        sockets += hold(server.port, **attacker)
        wait_until(lambda: server.metric(BODIES + "_refused_total") > refused, 60, "the share is full")
        refused = server.metric(BODIES + "_refused_total")
        reply = call(server.port, "POST", "/v1/completions", {"model": MODEL, "prompt": "海上明月"}, **victim)
        assert reply.status == 200, (attacker, reply.text)
    for sock in sockets:
        client.reset(sock)
    wait_given_back(server, BODIES)


def test_another_address_has_room():
    with Server("--body-memory", str(BODY_MEMORY), "--max-upload", str(WHOLE), "--slots", "2") as server:
        check_room_for_others(server, [{"source": f"127.0.0.{i}"} for i in (2, 3, 4)], {"source": "127.0.0.9"})


def test_another_key_has_room(tmp_path):
    """A key is one client from all its addresses, and two keys of one address are two."""
    def of(key):
        return {"headers": {"Authorization": f"Bearer {key}"}}

    keys = tmp_path / "keys"
    keys.write_text("slow 0123456789abcdef\nquick fedcba9876543210\n")
    keys.chmod(0o600)
    with Server("--api-key-file", keys, "--public", "/readyz,/metrics,/health", "--body-memory", str(BODY_MEMORY),
                "--max-upload", str(WHOLE), "--slots", "2") as server:
        slow = [{"source": f"127.0.0.{i}", **of("0123456789abcdef")} for i in (2, 3, 4, 5)]
        check_room_for_others(server, slow, of("fedcba9876543210"))


def test_a_chunked_body_is_refused_when_it_grows(filled):
    server, _ = filled
    sock = unfinished(server.port, headers={"Transfer-Encoding": "chunked"})
    sock.sendall((b"8000\r\n" + b" " * 0x8000 + b"\r\n") * 31 + b"0\r\n\r\n")
    check_no_room(reply_of(sock))


def test_room_comes_back_with_each_client_that_leaves(filled):
    server, sockets = filled
    while sockets:
        client.reset(sockets.pop())
    wait_given_back(server, BODIES)
    complete_ok(server.port, prompt="海上明月")


@pytest.mark.parametrize("piece", ["{}", "[]", "0", '""', '{"a":0}'])
def test_json_of_too_many_values_is_refused(small, piece):
    n = (WHOLE - 20) // (len(piece) + 1)
    body = ('{"x":[' + ",".join([piece] * n) + "]}").encode()
    reply = call(small.port, "POST", "/v1/completions", body, {"Content-Type": "application/json"})
    assert reply.status == 400 and reply.error["param"] == "x", reply.text
    assert "too many values" in reply.error["message"]
    wait_given_back(small, BODIES)


@pytest.mark.heavy
def test_peak_of_bodies():
    """500 unfinished bodies and as much JSON as is read: the budget and 64 MiB."""
    with Server("--body-memory", "32", "--slots", "2") as server:
        server.check_unharmed()
        before = server.resident_bytes()
        sockets = []
        for _ in range(500):
            sock = unfinished(server.port)
            try:
                sock.sendall(b" " * (WHOLE - 1))
            except OSError:  # refused and closed
                pass
            sockets.append(sock)
        assert call(server.port, "GET", "/livez").status == 200
        assert peak_bytes(server) < before + 32 * MIB + SLACK
        for sock in sockets:
            client.reset(sock)
        wait_given_back(server, BODIES)
        body = ('{"x":[' + ",".join(["{}"] * 32000) + "]}").encode()
        for _ in range(20):
            call(server.port, "POST", "/v1/completions", body, {"Content-Type": "application/json"})
        assert peak_bytes(server) < before + 32 * MIB + SLACK


def test_too_little_for_one_body():
    result = run("serve", "--body-memory", "4", "--port", "0")
    assert result.returncode == 2 and "--body-memory is 4 MiB" in result.stderr, result.stderr


def test_states_on_their_way_are_counted(small):
    """Reading a state needs room too, and gives it back."""
    state = complete_ok(small.port, prompt="山水", max_tokens=1, return_state=True)["states"][0]["id"]
    for headers in ({}, {"Accept": "application/octet-stream"}):
        assert call(small.port, "GET", f"/v1/states/{state}", headers=headers).status == 200
    assert call(small.port, "GET", f"/v1/states/{state}/inspect").status == 200
    assert call(small.port, "DELETE", f"/v1/states/{state}").status == 204
    assert call(small.port, "GET", f"/v1/states/{state}").status == 404
    wait_given_back(small)
    with Server("--answer-memory", "1") as server:
        reply = call(server.port, "GET", f"/v1/states/{state}")
        assert reply.status == 400 and "--answer-memory" in reply.error["message"], reply.text
        wait_given_back(server)


def test_livez_answers_while_the_largest_bodies_are_read():
    """With one thread for all of HTTP: no kind of body of the largest size keeps it busy for long."""
    json_type = {"Content-Type": "application/json"}
    values = b'{"x":[' + b",".join([b"{}"] * 32000) + b"]}"
    text = b'{"model":"' + b"a" * (WHOLE - 20) + b'"}'
    blob = b'{"model":"couplet","state":"' + b"QUJD" * ((WHOLE - 64) // 4) + b'"}'
    kind, form = images.encode_form({"image": images.File(b"\r\n--" * (WHOLE // 5))})
    bodies = [("/v1/completions", values, json_type), ("/v1/completions", text, json_type),
              ("/v1/completions", blob, json_type),
              (images.EDITS, form[:WHOLE], {"Content-Type": kind})]
    with Server("--http-threads", "1", "--slots", "2") as server, ThreadPoolExecutor(4) as pool:
        before = server.cpu_seconds()

        def ask(i):
            path, body, headers = bodies[i % 4]
            return call(server.port, "POST", path, body, headers).status

        asked = [pool.submit(ask, i) for i in range(80)]
        answered = 0
        while not all(reply.done() for reply in asked):
            assert call(server.port, "GET", "/livez", timeout=10).status == 200
            answered += 1
        assert {reply.result() for reply in asked} <= {400, 404}
        each = (server.cpu_seconds() - before) / len(asked)
        print(f"{answered} answers of /livez next to 80 bodies of {each * 1000:.1f} ms of the processor each")
        assert answered > 0 and each < 0.05
        wait_given_back(server, BODIES)
