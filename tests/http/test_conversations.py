"""Responses with memory: a response is kept with the state after its answer, and the next response reads its own message
only. Its text equals that of the whole conversation as one prompt. Asked by the official Python client."""

import signal

import pytest

import image_model
import text_model
from client import call, complete_ok
from cluster import Redis
from lazy import lazily
from server import Server, wait_until
from settings import MODEL
from states import without_sqlite
from test_chat_templates import CHATML, OWN, with_template, write_chatml
from test_keys import bearer

pytestmark = [pytest.mark.quick, pytest.mark.asan]

openai = lazily("openai")

SEED, LENGTH = {"seed": 3}, 12
SOFTMAX = {"kind": "softmax"}
UPPER = "山远云低，归舟一叶"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    text = {"end": [], "context": 4000}
    with_template(text_model.write_bytes(path / "rwkv", **text), "rwkv")
    with_template(text_model.write_bytes(path / "rows", attention=SOFTMAX, **text), "rwkv")
    write_chatml(path / "chatml", CHATML)
    write_chatml(path / "own", OWN)
    with_template(text_model.write_bytes(path / "upper"), "{% for m in messages %}{{ m.content | upper }}{% endfor %}")
    text_model.write_bytes(path / "plain")
    return path


@pytest.fixture(scope="module")
def server(folder):
    with Server("--models", folder, "--slots", "8", "--max-tokens", "100", "--prefix-cache-mb", "0") as started:
        yield started
        started.wait_idle()


def client_of(port, key="none"):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0)


@pytest.fixture
def api(port):
    with client_of(port) as c:
        yield c


def ask(api, model, text, previous=None, **fields):
    body = SEED | fields.pop("extra_body", {})
    more = {"previous_response_id": previous.id} if previous is not None else {}
    return api.responses.create(model=model, input=text, max_output_tokens=LENGTH, extra_body=body, **more, **fields)


def tokens_of(port, model, text):
    return call(port, "POST", "/tokenize", {"model": model, "content": text}).json()["tokens"]


def after(port, model, prompt):
    """The text of a completion of these tokens, and its tokens."""
    said = complete_ok(port, model=model, prompt=prompt, max_tokens=LENGTH, return_token_ids=True, **SEED)["choices"][0]
    return said["text"], said["token_ids"]


# The text of a first message with what begins the answer, and that of a message after an answer.
TEMPLATES = {
    "rwkv": ("User: {}\n\nAssistant:", "\n\nUser: {}\n\nAssistant:", [text_model.BEGIN]),
    "rows": ("User: {}\n\nAssistant:", "\n\nUser: {}\n\nAssistant:", [text_model.BEGIN]),
    "chatml": ("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
               "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n", []),
    "own": ("<|im_start|>[USER]{}<|im_end|><|im_start|>[ASSISTANT]",
            "<|im_end|><|im_start|>[USER]{}<|im_end|><|im_start|>[ASSISTANT]", []),
    "plain": ("{}", "{}", [text_model.BEGIN]),
}


@pytest.mark.parametrize("model", TEMPLATES)
def test_a_turn_equals_the_whole_conversation(api, port, model):
    first, later, prompt = TEMPLATES[model]
    previous = None
    for turn, message in enumerate(("hello", "more of it", "and again")):
        form = later if turn else first
        before = len(prompt)
        prompt = prompt + tokens_of(port, model, form.format(message))
        expected, ids = after(port, model, prompt)
        answer = ask(api, model, message, previous)
        assert answer.output_text == expected.removeprefix(" " if model in ("rwkv", "rows") else "")
        assert answer.store and answer.previous_response_id == (previous.id if previous else None)
        assert answer.usage.input_tokens == len(prompt)
        assert answer.usage.input_tokens_details.cached_tokens == (before - 1 if turn else 0)
        prompt, previous = prompt + [i for i in ids if model != "plain" or i != text_model.END], answer


@pytest.mark.parametrize("model", ["rwkv", "chatml"])
def test_messages_after_a_response_have_borders(folder, model):
    """A stop string makes the response's own state useless, so its followers compute the whole conversation. Two that differ in their
    last message share all rows before it."""
    first, later, prompt = TEMPLATES[model]
    texts = ["sun and moon " * 4, "wind and rain " * 4]
    with Server("--models", folder, "--max-tokens", "100") as server, client_of(server.port) as api:
        said = complete_ok(server.port, model=model, prompt=prompt + tokens_of(server.port, model, first.format("hello")), max_tokens=LENGTH, **SEED)
        root = ask(api, model, "hello", extra_body={"stop": [said["choices"][0]["text"][4:6]]})
        turns = [{"role": role, "content": text} for role, text in zip(("user", "assistant", "user"), [*texts, "a"], strict=True)]
        cached = []
        for last in ("one more of these " * 4, "another of these " * 4):
            turns[-1]["content"] = last
            answer = ask(api, model, turns, root)
            cached.append(answer.usage.input_tokens_details.cached_tokens)
        assert cached[1] >= answer.usage.input_tokens - len(tokens_of(server.port, model, later.format(last))) - len("<|im_end|>"), cached


def test_several_follow_one(api):
    root = ask(api, "rwkv", "hello")
    texts = [ask(api, "rwkv", message, root).output_text for message in ("one", "two", "one")]
    assert texts[0] == texts[2] != texts[1]


def test_a_stream_is_stored(api):
    whole = ask(api, "rwkv", "hello")
    with api.responses.stream(model="rwkv", input="hello", max_output_tokens=LENGTH, extra_body=SEED) as stream:
        events = list(stream)
    last = events[-1].response
    assert last.output_text == whole.output_text and last.store
    kept = api.responses.retrieve(last.id)
    assert kept.output_text == last.output_text and kept.usage == last.usage
    assert ask(api, "rwkv", "more", last).output_text == ask(api, "rwkv", "more", whole).output_text


def test_metadata_stand_in_the_response(api, port):
    metadata = {"topic": "春", "empty": ""}
    answer = ask(api, "rwkv", "hello", metadata=metadata)
    assert answer.metadata == api.responses.retrieve(answer.id).metadata == metadata
    assert ask(api, "rwkv", "more", answer).metadata == {}
    with api.responses.stream(model="rwkv", input="hello", max_output_tokens=LENGTH, metadata=metadata) as stream:
        assert all(event.response.metadata == metadata for event in stream if hasattr(event, "response"))
    longest = {chr(0x4e00 + i) * 64: "\n" * 512 for i in range(16)}
    assert ask(api, "rwkv", "hello", metadata=longest).metadata == longest
    reply = call(port, "POST", "/v1/responses", {"model": "rwkv", "input": "hello", "metadata": {"a": 1}})
    assert reply.status == 400 and reply.error["param"] == "metadata"


def test_a_response_is_retrieved_and_deleted(api, port):
    answer = ask(api, "rwkv", "hello", instructions="Be kind.")
    kept = api.responses.retrieve(answer.id)
    assert kept.to_dict() == answer.to_dict()
    api.responses.delete(answer.id)
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve(answer.id)
    with pytest.raises(openai.NotFoundError) as caught:
        ask(api, "rwkv", "more", answer)
    assert caught.value.code == "previous_response_not_found" and caught.value.param == "previous_response_id"
    assert call(port, "DELETE", f"/v1/responses/{answer.id}").status == 404


def test_input_items_have_pages(api):
    talk = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}]
    answer = ask(api, "rwkv", talk)
    items = list(api.responses.input_items.list(answer.id, order="asc", limit=2))  # the client asks for all pages
    assert [item.content[0].text for item in items] == ["one", "two", "three"]
    assert [item.role for item in items] == ["user", "assistant", "user"]
    page = api.responses.input_items.list(answer.id, limit=1)
    assert page.data[0].content[0].text == "three" and page.has_more
    assert [item.content[0].text for item in page] == ["three", "two", "one"]
    with pytest.raises(openai.BadRequestError) as caught:
        api.responses.input_items.list(answer.id, after="msg_0")
    assert caught.value.param == "after"


@pytest.mark.parametrize("kind", ["a state", "a conversation"])
def test_only_responses_are_followed(api, port, kind):
    """The unread items of a conversation, and the template's end of a state, would be lost."""
    if kind == "a state":
        other = complete_ok(port, model="rwkv", prompt="hello", max_tokens=2, return_state=True)["states"][0]["id"]
    else:
        other = api.conversations.create(items=[{"role": "user", "content": "hello"}]).id
        ask(api, "rwkv", "hello", conversation=other)
    reply = call(port, "POST", "/v1/responses", {"model": "rwkv", "input": "more", "previous_response_id": other})
    assert reply.status == 404 and reply.error["param"] == "previous_response_id", reply.text


def test_nothing_is_stored_where_store_is_false(api, port):
    answer = ask(api, "rwkv", "hello", store=False)
    assert not answer.store
    assert call(port, "GET", f"/v1/responses/{answer.id}").status == 404
    assert call(port, "GET", f"/v1/states/{answer.id}").status == 404


def test_instructions_stay(api, port):
    """Repeated instructions are no further message."""
    prompt = [text_model.BEGIN, *tokens_of(port, "rwkv", "System: Be kind.\n\nUser: hello\n\nAssistant:")]
    first = ask(api, "rwkv", "hello", instructions="Be kind.")
    _, ids = after(port, "rwkv", prompt)
    for instructions, text in (("Be kind.", ""), (None, ""), ("Be brief.", "System: Be brief.\n\n")):
        more = tokens_of(port, "rwkv", f"\n\n{text}User: more\n\nAssistant:")
        answer = ask(api, "rwkv", "more", first, instructions=instructions)
        assert answer.output_text == after(port, "rwkv", prompt + ids + more)[0].removeprefix(" ")
        assert answer.instructions == instructions
        assert answer.usage.input_tokens == len(prompt + ids + more)
        assert [item.content[0].text for item in api.responses.input_items.list(answer.id)] == ["more"]


def test_an_end_token_is_not_repeated(api, port):
    """The model ends its answer as the template ends messages."""
    (end,) = tokens_of(port, "chatml", "<|im_end|>")
    answer = ask(api, "chatml", "hello", extra_body={"logit_bias": {str(end): 100}})
    assert answer.output_text == "" and answer.status == "completed" and answer.usage.output_tokens == 1
    first, later, _ = TEMPLATES["chatml"]
    prompt = tokens_of(port, "chatml", first.format("hello") + later.format("more"))
    following = ask(api, "chatml", "more", answer)
    assert following.output_text == after(port, "chatml", prompt)[0] and following.usage.input_tokens == len(prompt)
    assert following.usage.input_tokens_details.cached_tokens == len(tokens_of(port, "chatml", first.format("hello")))


@pytest.mark.parametrize("stop", [1, 2])
def test_a_stop_string_is_no_part_of_the_conversation(api, port, stop):
    """Also where the state has read it: then the conversation is computed again."""
    text = ask(api, "chatml", "hello").output_text
    cut = ask(api, "chatml", "hello", extra_body={"stop": text[4:4 + stop]})
    assert text.startswith(cut.output_text) and len(cut.output_text) <= 4
    first, later, _ = TEMPLATES["chatml"]
    expected, _ = after(port, "chatml", tokens_of(port, "chatml", first.format("hello") + cut.output_text + later.format("more")))
    assert ask(api, "chatml", "more", cut).output_text == expected


def test_a_stored_response_is_a_state(api, port):
    answer = ask(api, "rwkv", "hello")
    facts = call(port, "GET", f"/v1/states/{answer.id}").json()
    assert facts["model"] == "rwkv" and facts["tokens"] == answer.usage.output_tokens
    blob = call(port, "GET", f"/v1/states/{answer.id}", headers={"Accept": "application/octet-stream"}).body
    copy = f"resp_{0xabc:032x}"
    assert call(port, "PUT", f"/v1/states/{copy}", blob, {"Content-Type": "application/octet-stream"}).status == 201
    moved = api.responses.create(model="rwkv", input="more", max_output_tokens=LENGTH, previous_response_id=copy, extra_body=SEED)
    assert moved.output_text == ask(api, "rwkv", "more", answer).output_text
    assert call(port, "GET", f"/v1/responses/{copy}").status == 404  # only its state is there
    kept = {entry["id"]: entry["object"] for entry in call(port, "GET", "/v1/states?limit=1000").json()["data"]}
    assert kept[answer.id] == "response"


@pytest.mark.parametrize("path, status, param", [
    ("/v1/responses/resp_1", 404, "response_id"), ("/v1/responses/../x", 404, None), ("/v1/responses/a.b", 404, "response_id"),
    (f"/v1/responses/{'a' * 100}", 404, "response_id"), ("/v1/responses/resp_1/input_items", 404, "response_id"),
    ("/v1/responses/resp_1/input_items?limit=0", 400, "limit"), ("/v1/responses/resp_1/input_items?order=x", 400, "order"),
    ("/v1/responses/resp_1?stream=true", 400, "stream"),
])
def test_bad_ids(port, path, status, param):
    reply = call(port, "GET", path)
    assert reply.status == status and (param is None or reply.error["param"] == param), reply.text


@pytest.mark.parametrize("fields, status, param", [
    ({"previous_response_id": "resp_1"}, 404, "previous_response_id"),
    ({"previous_response_id": "no id at all="}, 404, "previous_response_id"),
    ({"previous_response_id": 7}, 400, "previous_response_id"),
    ({"store": "yes"}, 400, "store"), ({"truncation": "middle"}, 400, "truncation"),
])
def test_bad_fields(port, fields, status, param):
    reply = call(port, "POST", "/v1/responses", {"model": "rwkv", "input": "hello", **fields})
    assert reply.status == status and reply.error["param"] == param, reply.text


def test_another_model_cannot_continue(api, port):
    answer = ask(api, "rwkv", "hello")
    for model, status in (("chatml", 400), ("nothing", 404)):
        body = {"model": model, "input": "more", "previous_response_id": answer.id}
        assert call(port, "POST", "/v1/responses", body).status == status
    reply = call(port, "POST", "/v1/responses", {"input": "more", "previous_response_id": answer.id})
    assert reply.json()["model"] == "rwkv"  # that of the conversation


def test_lines_and_strange_templates_have_no_conversations(api, port):
    line = api.responses.create(model=MODEL, input=UPPER, extra_body=SEED)
    odd = ask(api, "upper", "hello")
    for model, text, answer, words in ((MODEL, UPPER, line, "single lines"), ("upper", "more", odd, "chat template")):
        body = {"model": model, "input": text, "previous_response_id": answer.id}
        reply = call(port, "POST", "/v1/responses", body)
        assert reply.status == 400 and reply.error["param"] == "previous_response_id" and words in reply.error["message"]


def test_another_key_finds_nothing(folder, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("alice ka\nbob kb\n")
    with Server("--models", folder, "--api-key-file", keys, "--public", "/readyz") as server:
        with client_of(server.port, "ka") as alice, client_of(server.port, "kb") as bob:
            answer = ask(alice, "rwkv", "hello")
            unknown = f"resp_{0:032x}"
            for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items")):
                replies = [call(server.port, method, f"/v1/responses/{i}{path}", headers=bearer("kb")) for i in (answer.id, unknown)]
                texts = [reply.text.replace(answer.id, unknown) for reply in replies]
                assert texts[0] == texts[1] and {reply.status for reply in replies} == {404}
            with pytest.raises(openai.NotFoundError):
                ask(bob, "rwkv", "more", answer)
            assert ask(alice, "rwkv", "more", answer).usage.input_tokens_details.cached_tokens > 0


def test_other_weights_cannot_continue(folder, tmp_path):
    models = tmp_path / "models"
    with_template(text_model.write_bytes(models / "one", seed=1), "rwkv")
    with Server("--models", models) as server, client_of(server.port) as api:
        answer = ask(api, "one", "hello")
        conf = text_model.config(260, {"tokenizer": "bytes", "context": text_model.CONTEXT, "end": [10], "begin": 256})
        image_model.write_tensors(tmp_path / "new", conf, 2)
        (tmp_path / "new").rename(models / "one" / "model.safetensors")
        assert call(server.port, "POST", "/v1/models/reload").status == 200
        with pytest.raises(openai.BadRequestError) as caught:
            ask(api, "one", "more", answer)
        assert caught.value.param == "previous_response_id" and "other weights" in str(caught.value)
        assert api.responses.retrieve(answer.id).output_text == answer.output_text


def test_a_full_store_answers_and_says_so(folder):
    with Server("--models", folder, "--max-states", "1") as server, client_of(server.port) as api:
        first = ask(api, "rwkv", "hello")
        complete_ok(server.port, model="rwkv", prompt="a state that nothing drops", max_tokens=1, return_state=True)
        second = ask(api, "rwkv", "hello")
        assert second.output_text == first.output_text and first.store and not second.store
        assert [note["param"] for note in second.warnings] == ["store"]
        body = {"model": "rwkv", "input": "hello", "stream": True, "max_output_tokens": LENGTH}
        reply = call(server.port, "POST", "/v1/responses", body)
        assert '"store":false' in reply.text.splitlines()[-2]


@pytest.mark.parametrize("store", ["memory", "file"])
def test_the_least_recently_used_responses_make_room(folder, tmp_path, store):
    if store == "file":
        without_sqlite()
    place = tmp_path / "states.db" if store == "file" else store
    with Server("--models", folder, "--max-states", "2", "--state-store", place) as server, client_of(server.port) as api:
        first, second = ask(api, "rwkv", "one"), ask(api, "rwkv", "two")
        third = ask(api, "rwkv", "three", first)
        found = [call(server.port, "GET", f"/v1/responses/{answer.id}").status for answer in (first, second, third)]
        assert found == [200, 404, 200]


def test_expired_responses_are_not_found(folder):
    with Server("--models", folder, "--state-ttl", "1") as server, client_of(server.port) as api:
        answer = ask(api, "rwkv", "hello")
        wait_until(lambda: server.metric("linnet_states") == 0, 60, "the end of its time")
        with pytest.raises(openai.NotFoundError):
            ask(api, "rwkv", "more", answer)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_conversations_outlive_the_server(folder, tmp_path, how):
    without_sqlite()
    store = "--models", folder, "--state-store", tmp_path / "states.db"
    with Server(*store) as server, client_of(server.port) as api:
        answer = ask(api, "rwkv", "hello")
        expected = ask(api, "rwkv", "more", answer).output_text
        server.signal(how)
        assert server.wait() == (-how if how == signal.SIGKILL else 0)
        server.process.returncode = 0
    with Server(*store) as server, client_of(server.port) as api:
        assert ask(api, "rwkv", "more", answer).output_text == expected
        assert api.responses.retrieve(answer.id).to_dict() == answer.to_dict()


def test_another_server_continues(folder):
    with Redis() as redis:
        store = "--models", folder, "--state-store", redis.url
        with Server(*store) as a, Server(*store) as b, client_of(a.port) as one, client_of(b.port) as other:
            answer = ask(one, "rwkv", "hello")
            later = ask(other, "rwkv", "more", answer)
            assert later.output_text == ask(one, "rwkv", "more", answer).output_text
            assert later.usage.input_tokens_details.cached_tokens > 0
            assert one.responses.retrieve(later.id).to_dict() == later.to_dict()
