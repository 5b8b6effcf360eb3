"""States as objects. An answer that continues from a state equals, byte for byte, the answer without a stop. States are
described, fetched, sent, copied, inspected and removed; no other blob is accepted."""

import base64
import contextlib
import json
import math
import struct
import time

import pytest

import image_model
import images
import png
from client import call
from images import COLOUR, COLOUR_HEIGHT, COLOUR_WIDTH, HEIGHT, PIXELS, SMALL, SPECKS, SPECKS_SIDE, WIDTH, a_picture, data_url, generate_ok
from server import Server
from settings import MODEL, MODEL_DIR

pytestmark = [pytest.mark.quick, pytest.mark.asan]

LINE = "海上明月共潮生"
OCTETS = "application/octet-stream"
MADE_BY, N_FLOATS = 88, 32  # their offsets in a blob, see docs/state-format.md


def post(port, path, status, **fields):
    reply = call(port, "POST", path, fields)
    assert reply.status == status, reply.text
    return reply.json() if status < 400 else reply.error


def complete(port, **fields):
    return post(port, "/v1/completions", 200, rank=False, **fields)  # states have no pools


def text_of(answer):
    return answer["choices"][0]["text"]


def begun(port, tokens, **fields):
    """The answer's first tokens, and the id of the state after them."""
    fields = {"model": MODEL, "prompt": LINE, "seed": 7, **fields}
    answer = complete(port, max_tokens=tokens, return_state=True, **fields)
    return answer, answer["states"][0]["id"]


def blob_of(port, state):
    reply = call(port, "GET", f"/v1/states/{state}", headers={"Accept": OCTETS})
    assert reply.status == 200 and reply.headers["content-type"] == OCTETS, reply.text
    return reply.body


def put(port, state, blob):
    return call(port, "PUT", f"/v1/states/{state}", blob, {"Content-Type": OCTETS})


@pytest.mark.parametrize("accept,octets", [
    (OCTETS, True), (OCTETS.upper(), True), (f"text/html, {OCTETS};q=0.9, */*;q=0.1", True), (f"{OCTETS};q=0", False),
    (f"{OCTETS};q=0.5, application/json", False), (f"application/json;q=0.5, {OCTETS}", True), ("*/*", False),
    (f"{OCTETS}2", False)])
def test_accept_chooses_facts_or_the_state(port, accept, octets):
    _, state = begun(port, 2)
    reply = call(port, "GET", f"/v1/states/{state}", headers={"Accept": accept})
    assert reply.status == 200 and (reply.headers["content-type"] == OCTETS) == octets, reply.text


def test_a_content_type_in_capitals(port):
    _, state = begun(port, 2)
    reply = call(port, "PUT", f"/v1/states/{state}", blob_of(port, state), {"Content-Type": OCTETS.upper()})
    assert reply.status == 201, reply.text


@pytest.fixture
def start_server():
    """Starts servers that end with the test."""
    with contextlib.ExitStack() as servers:
        yield lambda *flags: servers.enter_context(Server(*flags))


# --- going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", range(1, len(LINE)))
def test_a_line_goes_on_at_every_character(port, tokens):
    whole = complete(port, model=MODEL, prompt=LINE, seed=7, logprobs=2)
    first, state = begun(port, tokens, logprobs=2)
    rest = complete(port, model=MODEL, prompt="", state=state, logprobs=2)
    assert text_of(first) + text_of(rest) == text_of(whole)
    assert rest["seed"] == 7
    for key in ("tokens", "token_logprobs"):
        parts = [a["choices"][0]["logprobs"][key] for a in (first, rest)]
        assert parts[0] + parts[1] == whole["choices"][0]["logprobs"][key]
    assert rest["usage"]["completion_tokens"] == len(LINE) - tokens
    rows = rest["usage"]["prompt_tokens"]
    assert rest["usage"]["prompt_tokens_details"]["cached_tokens"] == rows - 1


@pytest.mark.parametrize("tokens", [1, WIDTH, WIDTH + 1, PIXELS // 2, PIXELS - 1])
def test_an_image_goes_on_at_any_pixel(image_port, tokens):
    whole = generate_ok(image_port, model=SMALL, seed=3)["data"][0]
    first = generate_ok(image_port, model=SMALL, seed=3, max_tokens=tokens, return_state=True)
    rest = generate_ok(image_port, state=first["states"][0]["id"])
    assert rest["data"][0]["b64_json"] == whole["b64_json"]
    assert first["usage"]["output_tokens"] == tokens
    assert rest["usage"]["output_tokens"] == PIXELS - tokens
    bits = [first["data"][0]["bits_per_dim"] * tokens, rest["data"][0]["bits_per_dim"] * (PIXELS - tokens)]
    assert sum(bits) == pytest.approx(whole["bits_per_dim"] * PIXELS, rel=1e-5)


def fork_one(port, state):
    (copy,) = post(port, f"/v1/states/{state}/fork", 201)["data"]
    return copy["id"]


@pytest.mark.parametrize("model, size", [(SPECKS, SPECKS_SIDE**2), (COLOUR, 3 * COLOUR_WIDTH * COLOUR_HEIGHT)])
def test_an_image_goes_on_and_forks_at_every_value(image_port, model, size):
    (whole,) = images.files(generate_ok(image_port, model=model, seed=5))
    states = images.states_of_every_value(image_port, size, model=model, seed=5)
    assert len(states) == size - 1
    for state in states:
        assert images.picture_from(image_port, state, model=model) == whole
        assert images.picture_from(image_port, fork_one(image_port, state), model=model) == whole


def test_a_line_forks_at_every_character(port):
    whole = text_of(complete(port, model=MODEL, prompt=LINE, seed=7))
    for tokens in range(1, len(LINE)):
        first, state = begun(port, tokens)
        copies = post(port, f"/v1/states/{state}/fork", 201, n=2)["data"]
        together = [c["text"] for c in complete(port, state=state, n=2)["choices"]]
        rests = [text_of(complete(port, state=c["id"])) for c in copies]
        assert text_of(first) + rests[0] == whole
        assert sorted(rests) == sorted(together)


def test_an_image_goes_on_from_bytes(image_port):
    (whole,) = images.files(generate_ok(image_port, model=SMALL, seed=3))
    first = generate_ok(image_port, model=SMALL, seed=3, max_tokens=40, return_state=True)
    blob = base64.b64encode(blob_of(image_port, first["states"][0]["id"])).decode()
    assert images.picture_from(image_port, blob) == whole


def test_an_image_streams_on(image_port):
    whole = generate_ok(image_port, model=SMALL, seed=3)["data"][0]["b64_json"]
    first = generate_ok(image_port, model=SMALL, seed=3, max_tokens=PIXELS // 2, return_state=True)
    fields = {"state": first["states"][0]["id"], "stream": True, "stream_unit": "pixel"}
    reply = call(image_port, "POST", "/v1/images/generations", fields)
    events = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    values = [e for e in events if "values" in e["type"]]
    assert values[0]["start"] == PIXELS // 2
    assert events[-1]["b64_json"] == whole


def test_streams(port):
    whole = complete(port, model=MODEL, prompt=LINE, seed=7)
    _, state = begun(port, 3)
    fields = {"state": state, "stream": True, "return_state": True}
    reply = call(port, "POST", "/v1/completions", fields)
    chunks = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    assert "".join(c["choices"][0]["text"] for c in chunks[:-1]) == text_of(whole)[3:]
    assert chunks[-1]["choices"] == [] and chunks[-1]["states"][0]["tokens"] == len(LINE)
    assert reply.text.endswith("data: [DONE]\n\n")


def test_chat_returns_states(port):
    messages = [{"role": "user", "content": LINE}]
    fields = {"model": MODEL, "messages": messages, "seed": 7, "max_tokens": 2, "return_state": True}
    first = post(port, "/v1/chat/completions", 200, **fields)
    rest = complete(port, state=first["states"][0]["id"])
    whole = complete(port, model=MODEL, prompt=LINE, seed=7)
    assert first["choices"][0]["message"]["content"] + text_of(rest) == text_of(whole)


def test_a_state_of_a_prompt(port):
    whole = complete(port, model=MODEL, prompt=LINE, seed=7, n=3)
    state = post(port, "/v1/states", 201, model=MODEL, prompt=LINE, seed=7)
    assert state["object"] == "state" and state["tokens"] == 0
    again = complete(port, state=state["id"], n=3)
    assert again["choices"] == whole["choices"]
    other = complete(port, state=state["id"], seed=8)
    assert other == {**complete(port, model=MODEL, prompt=LINE, seed=8), **different(other)}


def different(answer):
    return {k: answer[k] for k in ("id", "created", "timings", "usage")}


def test_a_state_of_an_image(image_port):
    half = png.write(WIDTH, HEIGHT // 2, a_picture()[: WIDTH * (HEIGHT // 2)])
    state = post(image_port, "/v1/states", 201, model=SMALL, image=data_url(half), seed=1)
    assert state["modality"] == "image" and state["position"] == WIDTH * (HEIGHT // 2)
    picture = generate_ok(image_port, state=state["id"])["data"][0]["b64_json"]
    edited = images.edit_json(image_port, half, model=SMALL, seed=1)
    assert edited.json()["data"][0]["b64_json"] == picture
    blank = post(image_port, "/v1/states", 201, model=SMALL, seed=3)
    assert blank["position"] == 0
    whole = generate_ok(image_port, model=SMALL, seed=3)["data"][0]["b64_json"]
    assert generate_ok(image_port, state=blank["id"])["data"][0]["b64_json"] == whole


def test_every_sample_has_its_own(port):
    whole = complete(port, model=MODEL, prompt=LINE, seed=7, n=3)
    first = complete(port, model=MODEL, prompt=LINE, seed=7, n=3, max_tokens=2, return_state=True)
    assert [s["index"] for s in first["states"]] == [0, 1, 2]
    ends = [text_of(complete(port, state=s["id"])) for s in first["states"]]
    texts = {c["text"] for c in whole["choices"]}
    starts = {c["text"] for c in first["choices"]}
    assert {t[2:] for t in texts} == set(ends) and {t[:2] for t in texts} == starts


@pytest.mark.parametrize("route", ["/v1/completions", "/v1/chat/completions"])
def test_a_state_has_the_index_of_its_choice(port, route):
    """Choices are in the order of their scores, prompt after prompt. The samples that are no choices come last."""
    both = {"prompt": [LINE, LINE[::-1]]} if route == "/v1/completions" else {"messages": [{"role": "user", "content": LINE}]}
    fields = {"model": MODEL, "n": 4, "temperature": 1.3, **both}
    for seed, more in ((1, {}), (2, {}), (3, {"best_of": 7})):
        if more and route != "/v1/completions":
            continue
        every = fields | {"n": more.get("best_of", 4)}
        whole = post(port, route, 200, seed=seed, **every)["choices"]
        parts = post(port, route, 200, seed=seed, max_tokens=2, return_state=True, **fields, **more)
        texts = {c["index"]: c.get("text") or c["message"]["content"] for c in parts["choices"]}
        n = len(texts)
        assert [s["index"] for s in parts["states"]] == list(range(n * more.get("best_of", 4) // 4))
        ends = [texts[s["index"]] + text_of(complete(port, state=s["id"], temperature=1.3)) for s in parts["states"][:n]]
        known = [c.get("text") or c["message"]["content"] for c in whole]
        assert all(end in known for end in ends) and len(set(ends)) > 1


# --- as objects ----------------------------------------------------------------------------------


def test_facts(port):
    _, state = begun(port, 2)
    facts = call(port, "GET", f"/v1/states/{state}").json()
    assert (facts["id"], facts["object"], facts["model"]) == (state, "state", MODEL)
    assert (facts["tokens"], facts["position"]) == (2, len(LINE) + 2 + 1)
    assert facts["bytes"] == len(blob_of(port, state)) and facts["seed"] == 7
    assert 3500 < facts["expires_in_s"] <= 3600


def test_a_blob_travels(port, start_server):
    whole = complete(port, model=MODEL, prompt=LINE, seed=7)
    _, state = begun(port, 4)
    blob = blob_of(port, state)
    other = start_server()
    assert put(other.port, "mine", blob).status == 201
    assert text_of(complete(other.port, state="mine")) == text_of(whole)[4:]
    assert text_of(complete(other.port, state=base64.b64encode(blob).decode())) == text_of(whole)[4:]
    assert blob_of(other.port, "mine") == blob


def test_forks(port):
    whole = complete(port, model=MODEL, prompt=LINE, seed=7)
    _, state = begun(port, 2)
    copies = post(port, f"/v1/states/{state}/fork", 201, n=4)["data"]
    assert [c["sample"] for c in copies] == [0, 1, 2, 3]
    ends = [text_of(complete(port, state=c["id"])) for c in copies]
    assert ends[0] == text_of(whole)[2:] and len(set(ends)) > 1
    together = complete(port, state=state, n=4)
    assert sorted(c["text"] for c in together["choices"]) == sorted(ends)
    seeded = post(port, f"/v1/states/{state}/fork", 201, n=2, seeds=[1, 2])["data"]
    assert [c["seed"] for c in seeded] == [1, 2]
    assert [c["seed"] for c in post(port, f"/v1/states/{state}/fork", 201, seeds=[1, 2])["data"]] == [1, 2]
    for bad in ({"n": 1, "seeds": [1, 2]}, {"seeds": []}, {"seeds": [1] * 1000}, {"seeds": 1}):
        assert call(port, "POST", f"/v1/states/{state}/fork", bad).error["param"] == "seeds", bad
    assert text_of(complete(port, state=seeded[0]["id"])) == text_of(complete(port, state=state, seed=1))
    assert post(port, f"/v1/states/{state}/fork", 201)["data"][0]["sample"] == 0


def test_a_state_is_inspected(port):
    _, state = begun(port, 2)
    look = call(port, "GET", f"/v1/states/{state}/inspect?layer=1&head=3").json()
    assert call(port, "GET", f"/v1/states/{state}/look?layer=1&head=3").json() == look, "its first name"
    assert (look["layer"], look["head"]) == (1, 3)
    assert (len(look["s"]), len(look["s"][0]), len(look["z"])) == (32, 32, 32)
    assert all(z > 0 for z in look["z"]) and look["denominator"]["healthy"]
    assert look["denominator"]["min"] == pytest.approx(min(look["z"]))
    norm = math.sqrt(sum(x * x for row in look["s"] for x in row))
    assert look["s_norm"] == pytest.approx(norm, rel=1e-6)
    # Of a token more: z is a sum of positive numbers and only grows.
    _, longer = begun(port, 3)
    later = call(port, "GET", f"/v1/states/{longer}/inspect?layer=1&head=3").json()
    assert all(b > a for a, b in zip(look["z"], later["z"]))


@pytest.mark.parametrize("d_key, d_value", [(3, 5), (5, 3), (16, 1), (1, 2)])
def test_inspecting_heads_of_other_sizes(tmp_path, d_key, d_value):
    """Not d_model / n_heads: every head of every layer, so that none can be taken from its neighbour's place."""
    image_model.write(tmp_path / "odd", 6, 5, head_sizes=(d_key, d_value))
    with Server("--models", tmp_path) as server:
        fields = {"model": "odd", "seed": 1, "max_tokens": 7, "return_state": True}
        state = generate_ok(server.port, **fields)["states"][0]["id"]
        blob = call(server.port, "GET", f"/v1/states/{state}", headers={"Accept": "application/octet-stream"}).body
        layers, heads, size = image_model.LAYERS, image_model.HEADS, d_key * d_value + d_key
        floats = struct.unpack(f"<{layers * heads * size}f", blob[-4 - 4 * layers * heads * size : -4])
        for layer in range(layers):
            for head in range(heads):
                look = call(server.port, "GET", f"/v1/states/{state}/inspect?layer={layer}&head={head}").json()
                own = floats[(layer * heads + head) * size :][:size]
                assert [x for row in look["s"] for x in row] == pytest.approx(own[: d_key * d_value], rel=1e-6)
                assert look["z"] == pytest.approx(own[d_key * d_value :], rel=1e-6)
                assert (len(look["s"]), len(look["s"][0])) == (d_key, d_value)


@pytest.mark.parametrize("query, param", [
    ("layer=8", "layer"), ("head=8", "head"), ("layer=-1", "layer"), ("head=x", "head"), ("layer=", "layer"),
])
def test_inspecting_what_is_not_there(port, query, param):
    _, state = begun(port, 1)
    reply = call(port, "GET", f"/v1/states/{state}/inspect?{query}")
    assert reply.status == 400 and reply.error["param"] == param


def test_removed(port):
    _, state = begun(port, 1)
    assert call(port, "DELETE", f"/v1/states/{state}").status == 204
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/inspect"), ("GET", "/look"), ("POST", "/fork")]:
        reply = call(port, method, f"/v1/states/{state}{path}")
        assert (reply.status, reply.error["code"]) == (404, "not_found"), (method, path)
    error = post(port, "/v1/completions", 404, state=state)
    assert (error["param"], error["code"]) == ("state", "not_found")


def test_time_and_limits(start_server):
    server = start_server("--max-states", "2")
    begun(server.port, 1)
    begun(server.port, 1)
    full = complete(server.port, model=MODEL, prompt=LINE, max_tokens=1, return_state=True)
    assert text_of(full) and full["states"][0]["id"] is None and "limits" in full["states"][0]["error"]["message"]
    assert [w["param"] for w in full["warnings"]] == ["return_state"] and "kept: 1" in full["warnings"][0]["message"]
    assert post(server.port, "/v1/states", 429, model=MODEL, prompt=LINE)["param"] == "state"
    server = start_server("--state-ttl", "1", "--max-states", "2")
    _, state = begun(server.port, 1)
    end = time.monotonic() + 60
    while call(server.port, "GET", f"/v1/states/{state}").status == 200:
        assert time.monotonic() < end  # a read starts its time anew, so ask less often than that
        time.sleep(1.05)  # check-tests: longer than its time to live, which a look starts anew
    assert begun(server.port, 1)[1] and begun(server.port, 1)[1]


# --- refused states ----------------------------------------------------------------------------


def test_a_damaged_blob(port):
    blob = bytearray(blob_of(port, begun(port, 1)[1]))
    for at in (0, 7, 9, 30, 100, len(blob) // 2, len(blob) - 1):
        blob[at] ^= 1
        reply = put(port, "bad", bytes(blob))
        assert reply.status == 400 and reply.error["param"] == "state", at
        blob[at] ^= 1
    for part in (b"", b"x", bytes(blob[:-1]), bytes(blob) + b"x", bytes(blob[:200])):
        assert put(port, "bad", part).status == 400
    encoded = base64.b64encode(bytes(blob[:-1])).decode()
    assert post(port, "/v1/completions", 400, state=encoded)["param"] == "state"
    assert call(port, "GET", "/v1/states/bad").status == 404


def crc32c(data):
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def with_bytes(blob, at, data):
    """The blob with other bytes somewhere, and the CRC that belongs to them."""
    changed = blob[:at] + data + blob[at + len(data) : -4]
    return changed + struct.pack("<I", crc32c(changed))


@pytest.mark.parametrize("byte", [b"\xff", b"\x80", b"\x7f", b"\n", b"\x1b"])
def test_a_maker_without_a_proper_name(port, byte):
    blob = blob_of(port, begun(port, 1)[1])
    assert put(port, "maker", with_bytes(blob, MADE_BY, b"A")).status == 201
    assert call(port, "DELETE", "/v1/states/maker").status == 204
    bad = with_bytes(blob, MADE_BY, byte)
    reply = put(port, "maker", bad)
    assert reply.status == 400 and reply.error["param"] == "state", reply.text
    assert call(port, "GET", "/v1/states/maker").status == 404
    error = post(port, "/v1/completions", 400, state=base64.b64encode(bad).decode())
    assert error["param"] == "state" and "maker" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_absurd_numbers_are_the_clients_fault(start_server, stream):
    server = start_server()
    blob = blob_of(server.port, begun(server.port, 2)[1])
    (n,) = struct.unpack_from("<Q", blob, N_FLOATS)
    bad = with_bytes(blob, len(blob) - 4 - 4 * n, struct.pack(f"<{n}f", *[3e38] * n))
    before = server.requests("invalid")
    body = {"state": base64.b64encode(bad).decode(), "stream": stream}
    reply = call(server.port, "POST", "/v1/completions", body)
    if stream:
        assert '"invalid_request_error"' in reply.text and '"state"' in reply.text, reply.text
    else:
        assert reply.status == 400 and reply.error["param"] == "state", reply.text
    assert server.requests("error") == 0
    assert server.requests("invalid") == before + 1


@pytest.mark.parametrize("path, fields", [
    ("/v1/states", {"prompt": LINE}),
    ("/v1/completions", {"prompt": LINE}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": LINE}]}),
    ("/v1/score", {"prompt": LINE, "completion": LINE}),
    ("/v1/images/generations", {}),
])
@pytest.mark.parametrize("timeout", [86_400_001, 9_223_372_036_855, 2**53, 2**63 - 1, 0, -1])
def test_one_limit_of_times(image_port, port, path, fields, timeout):
    at, model = (image_port, SMALL) if "images" in path else (port, MODEL)
    reply = call(at, "POST", path, {"model": model, "timeout_ms": timeout, **fields})
    assert reply.status == 400 and reply.error["param"] == "timeout_ms", reply.text


def test_a_foreign_blob(port, image_port):
    """Made by weights that are not served here."""
    state = post(image_port, "/v1/states", 201, model=SMALL)["id"]
    blob = blob_of(image_port, state)
    reply = put(port, "foreign", blob)
    assert reply.status == 400 and "not served here" in reply.error["message"]
    error = post(port, "/v1/completions", 400, state=base64.b64encode(blob).decode())
    assert error["param"] == "state"


def test_signatures(start_server, port):
    unsigned = blob_of(port, begun(port, 2)[1])
    server = start_server("--state-key", "one key")
    _, state = begun(server.port, 2)
    blob = blob_of(server.port, state)
    assert len(blob) == len(unsigned) + 32
    assert put(server.port, "again", blob).status == 201
    assert "not signed" in put(server.port, "no", unsigned).error["message"]
    other = start_server("--state-key", "another key")
    assert "not signed with this server's key" in put(other.port, "no", blob).error["message"]
    assert put(port, "any", blob).status == 201  # a server without a key asks for none
    call(port, "DELETE", "/v1/states/any")


@pytest.mark.parametrize("fields, param", [
    ({"state": 5}, "state"),
    ({"state": ""}, "state"),
    ({"state": "état"}, "state"),
    ({"state": "x", "prompt": LINE}, "prompt"),
    ({"model": MODEL, "prompt": LINE, "return_state": 1}, "return_state"),
])
def test_wrong_fields(port, fields, param):
    assert post(port, "/v1/completions", 400, **fields)["param"] == param


def test_wrong_place(image_port, port):
    _, ended = begun(port, len(LINE))
    assert "nothing is left" in post(port, "/v1/completions", 400, state=ended)["message"]
    _, state = begun(image_port, 2)
    assert post(image_port, "/v1/images/generations", 400, state=state)["param"] == "state"
    assert post(image_port, "/v1/completions", 400, state=state, model=SMALL)["param"] == "model"
    image = post(image_port, "/v1/states", 201, model=SMALL)["id"]
    assert post(image_port, "/v1/completions", 400, state=image)["param"] == "state"
    assert post(image_port, "/v1/images/generations", 400, state=image, model=COLOUR)["param"] == "state"
    chat = {"model": MODEL, "messages": [{"role": "user", "content": LINE}], "state": state}
    assert post(image_port, "/v1/chat/completions", 400, **chat)["param"] == "state"


@pytest.mark.parametrize("name", ["a.b", "a%20b", "ü", "x" * 65])
def test_ids_that_cannot_be(port, name):
    reply = call(port, "GET", f"/v1/states/{name}" if name != "ü" else "/v1/states/%C3%BC")
    assert reply.status == 400 and reply.error["param"] == "id"


@pytest.mark.parametrize("fields, param", [
    ({"n": 0}, "n"), ({"n": 1 << 20}, "n"), ({"n": 2, "seeds": [1]}, "seeds"), ({"n": 1, "seeds": ["a"]}, "seeds"),
    ({"n": 1, "seeds": [-1]}, "seeds"), ({"n": 1, "seeds": 5}, "seeds"),
])
def test_wrong_forks(port, fields, param):
    _, state = begun(port, 1)
    assert post(port, f"/v1/states/{state}/fork", 400, **fields)["param"] == param


@pytest.mark.parametrize("fields, status, param", [
    ({"model": MODEL}, 400, "prompt"), ({"model": "none", "prompt": LINE}, 404, "model"),
    ({"model": MODEL, "prompt": 5}, 400, "prompt"), ({"model": MODEL, "prompt": LINE, "seed": -2}, 400, "seed"),
])
def test_wrong_states(port, fields, status, param):
    assert post(port, "/v1/states", status, **fields)["param"] == param


def test_methods(port):
    reply = call(port, "POST", "/v1/states/x")
    assert reply.status == 405 and set(reply.headers["allow"].split(", ")) >= {"GET", "PUT", "DELETE"}
    assert call(port, "PUT", "/v1/states/x", b"{}", {"Content-Type": "application/json"}).status == 415


def test_without_a_file_of_states_nothing_is_left():
    """States in memory end with the process: the next one knows none of them."""
    with Server(model_dir=MODEL_DIR) as server:
        _, state = begun(server.port, 1)
    with Server(model_dir=MODEL_DIR) as server:
        assert call(server.port, "GET", f"/v1/states/{state}").status == 404
