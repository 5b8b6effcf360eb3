"""Conversations as objects: /v1/conversations with their items, and responses that belong to one. Such a response has the
text of one that follows by previous_response_id. Asked by the official Python client."""

import resource
import signal

import pytest

import image_model
import text_model
from client import call, complete_ok
from cluster import Redis
from lazy import lazily
from server import Server, run, wait_until
from settings import MODEL
from states import without_sqlite
from test_chat_templates import with_template
from test_conversations import LENGTH, SEED, UPPER, after, api, ask, client_of, folder, server, tokens_of  # noqa: F401
from test_keys import bearer

pytestmark = [pytest.mark.quick, pytest.mark.asan]

openai = lazily("openai")

UNKNOWN = f"conv_{0:032x}"


def say(api, talk, text, model="rwkv", **fields):
    return ask(api, model, text, conversation=talk.id, **fields)


def texts_of(api, talk, **fields):
    return [item.content[0].text for item in api.conversations.items.list(talk.id, order="asc", **fields)]


def message(text, role="user"):
    return {"type": "message", "role": role, "content": text}


def test_a_conversation_is_made_changed_and_deleted(api):
    talk = api.conversations.create(items=[message("one"), message("two", "assistant")], metadata={"topic": "春"})
    assert talk.object == "conversation" and talk.id.startswith("conv_") and talk.metadata == {"topic": "春"}
    assert api.conversations.retrieve(talk.id) == talk
    changed = api.conversations.update(talk.id, metadata={"topic": "秋", "more": "yes"})
    assert changed.metadata == {"topic": "秋", "more": "yes"} and changed.created_at == talk.created_at
    assert api.conversations.retrieve(talk.id) == changed
    gone = api.conversations.delete(talk.id)
    assert gone.deleted and gone.object == "conversation.deleted" and gone.id == talk.id
    for again in (api.conversations.retrieve, api.conversations.delete):
        with pytest.raises(openai.NotFoundError):
            again(talk.id)


def test_an_empty_conversation(api, port):
    talk = api.conversations.create()
    assert talk.metadata == {} and texts_of(api, talk) == []
    assert call(port, "POST", "/v1/conversations", b"", {"Content-Type": "application/json"}).status == 200
    reply = call(port, "GET", f"/v1/states/{talk.id}")
    assert reply.status == 400 and "no state yet" in reply.error["message"]
    blob = call(port, "GET", f"/v1/states/{talk.id}", headers={"Accept": "application/octet-stream"})
    assert blob.status == 400 and "no state yet" in blob.error["message"]


def test_items_are_added_listed_and_deleted(api):
    talk = api.conversations.create(items=[message("one")])
    added = api.conversations.items.create(talk.id, items=[message("two", "assistant"), message("three")])
    assert [item.content[0].text for item in added.data] == ["two", "three"] and not added.has_more
    assert added.first_id == added.data[0].id and added.last_id == added.data[1].id
    assert texts_of(api, talk) == texts_of(api, talk, limit=1) == ["one", "two", "three"]  # the client asks for all pages
    newest = api.conversations.items.list(talk.id, limit=1)
    assert newest.data[0].content[0].text == "three" and newest.has_more
    two = api.conversations.items.retrieve(added.data[0].id, conversation_id=talk.id)
    assert two.role == "assistant" and two.content[0].text == "two"
    assert api.conversations.items.delete(two.id, conversation_id=talk.id).id == talk.id
    assert texts_of(api, talk) == ["one", "three"]
    with pytest.raises(openai.NotFoundError) as caught:
        api.conversations.items.retrieve(two.id, conversation_id=talk.id)
    assert caught.value.param == "item_id"
    with pytest.raises(openai.NotFoundError):
        api.conversations.items.delete(two.id, conversation_id=talk.id)
    with pytest.raises(openai.BadRequestError) as caught:
        api.conversations.items.list(talk.id, after=two.id)
    assert caught.value.param == "after"


@pytest.mark.parametrize("model", ["rwkv", "rows", "chatml", "own"])
@pytest.mark.parametrize("store", [True, False])
def test_a_turn_equals_one_that_follows_a_response(api, model, store):
    talk, previous, said = api.conversations.create(), None, []
    for text in ("hello", "more of it", "and again"):
        expected = ask(api, model, text, previous)
        answer = say(api, talk, text, model, store=store)
        assert answer.output_text == expected.output_text and answer.usage == expected.usage
        assert answer.conversation.id == talk.id and answer.previous_response_id is None and answer.store == store
        said += [text, answer.output_text]
        previous = expected
    assert texts_of(api, talk) == said
    items = list(api.conversations.items.list(talk.id, order="asc"))
    assert [item.role for item in items] == ["user", "assistant"] * 3 and items[-1].id == answer.output[0].id


def test_a_stream_belongs_to_a_conversation(api):
    whole, talk = api.conversations.create(), api.conversations.create()
    for text in ("hello", "more"):
        expected = say(api, whole, text)
        body = {"conversation": {"id": talk.id}} | SEED
        with api.responses.stream(model="rwkv", input=text, max_output_tokens=LENGTH, extra_body=body) as stream:
            last = list(stream)[-1].response
        assert last.output_text == expected.output_text and last.conversation.id == talk.id
    assert texts_of(api, talk) == texts_of(api, whole)


def test_a_response_of_a_conversation_is_stored_and_followed(api):
    talk = api.conversations.create()
    first = say(api, talk, "hello")
    kept = api.responses.retrieve(first.id)
    assert kept.conversation.id == talk.id and kept.output_text == first.output_text
    assert [item.content[0].text for item in api.responses.input_items.list(first.id)] == ["hello"]
    fork = ask(api, "rwkv", "more", first)
    assert fork.output_text == say(api, talk, "more").output_text and fork.conversation is None


def test_nothing_but_the_conversation_is_stored(api, port):
    talk = api.conversations.create()
    answer = say(api, talk, "hello", store=False)
    assert call(port, "GET", f"/v1/responses/{answer.id}").status == 404
    facts = call(port, "GET", f"/v1/states/{talk.id}").json()
    assert facts["model"] == "rwkv" and facts["tokens"] == answer.usage.output_tokens
    kept = {entry["id"]: entry["object"] for entry in call(port, "GET", "/v1/states?limit=1000").json()["data"]}
    assert kept[talk.id] == "conversation"


def test_items_between_turns_are_messages(api):
    """They come before the next input, and are read once."""
    talk = api.conversations.create(items=[message("zero")])
    first = say(api, talk, "one")
    alike = ask(api, "rwkv", [message("zero"), message("one")])
    assert first.output_text == alike.output_text and first.usage == alike.usage
    api.conversations.items.create(talk.id, items=[message("two"), message("three", "assistant")])
    second = say(api, talk, "four")
    expected = ask(api, "rwkv", [message("two"), message("three", "assistant"), message("four")], alike)
    assert second.output_text == expected.output_text and second.usage == expected.usage
    assert texts_of(api, talk) == ["zero", "one", first.output_text, "two", "three", "four", second.output_text]
    assert say(api, talk, "five").output_text == ask(api, "rwkv", "five", expected).output_text


def test_a_deleted_item_is_forgotten(api):
    """The state has read it, so the next response reads all other items."""
    talk = api.conversations.create()
    first = say(api, talk, "a secret")
    items = list(api.conversations.items.list(talk.id, order="asc"))
    api.conversations.items.delete(items[0].id, conversation_id=talk.id)
    second = say(api, talk, "more")
    expected = ask(api, "rwkv", [message(first.output_text, "assistant"), message("more")])
    assert second.output_text == expected.output_text and second.usage == expected.usage
    assert "a secret" not in texts_of(api, talk)
    assert say(api, talk, "again").output_text == ask(api, "rwkv", "again", expected).output_text


def test_instructions_stay(api):
    talk = api.conversations.create()
    first = say(api, talk, "hello", instructions="Be kind.")
    expected = ask(api, "rwkv", "hello", instructions="Be kind.")
    assert first.output_text == expected.output_text
    for text, instructions in (("more", "Be kind."), ("again", None), ("and", "Be brief.")):
        later = say(api, talk, text, instructions=instructions)
        expected = ask(api, "rwkv", text, expected, instructions=instructions)
        assert later.output_text == expected.output_text and later.usage == expected.usage
    assert "Be kind." not in texts_of(api, talk)


def test_a_stop_string_is_no_part_of_the_conversation(api):
    text = ask(api, "chatml", "hello").output_text
    stop = {"extra_body": {"stop": text[4:6]}}
    talk, cut = api.conversations.create(), ask(api, "chatml", "hello", **stop)
    assert say(api, talk, "hello", "chatml", **stop).output_text == cut.output_text
    assert say(api, talk, "more", "chatml").output_text == ask(api, "chatml", "more", cut).output_text


def test_calls_of_one_id_are_items_of_their_own(api, port):
    """The client names calls, so its names are no cursors: a page after one of them would come again and again."""
    call_ = {"type": "function_call", "call_id": 'c"1', "name": "f", "arguments": "{}"}
    talk = api.conversations.create(items=[call_] * 3 + [{"type": "function_call_output", "call_id": 'c"1', "output": "y"}])
    items = list(api.conversations.items.list(talk.id, order="asc", limit=1))
    assert [item.type for item in items] == ["function_call"] * 3 + ["function_call_output"]
    assert {item.call_id for item in items} == {'c"1'} and len({item.id for item in items}) == 4
    assert [api.conversations.items.retrieve(item.id, conversation_id=talk.id) for item in items] == items
    reply = call(port, "POST", "/v1/responses", {"model": "rwkv", "input": "x", "conversation": talk.id})
    assert reply.status == 400 and reply.error["param"] == "conversation"
    assert "the conversation has a function_call_output, which model rwkv does not know" in reply.error["message"]
    reply = call(port, "POST", "/v1/responses", {"model": "rwkv", "input": [{"type": "function_call_output", "call_id": "c", "output": "y"}]})
    assert reply.status == 400 and reply.error["param"] == "input" and reply.error["message"].startswith("input[0] has")
    reply = call(port, "POST", f"/v1/conversations/{talk.id}/items", {"items": [call_ | {"arguments": "["}]})
    assert reply.status == 400 and reply.error["message"].startswith("items[0].arguments must be")


def test_lines_have_no_conversations(api, port):
    talk = api.conversations.create()
    reply = call(port, "POST", "/v1/responses", {"model": MODEL, "input": UPPER, "conversation": talk.id})
    assert reply.status == 400 and reply.error["param"] == "conversation" and "single lines" in reply.error["message"]


@pytest.mark.parametrize("method, path, more", [
    ("POST", "/v1/conversations/{}", {"metadata": {}}), ("POST", "/v1/conversations/{}/items", {"items": [message("x")]}),
    ("POST", "/v1/responses", {"model": "rwkv", "input": "more", "max_output_tokens": 1}), ("DELETE", "/v1/conversations/{}", {}),
    ("DELETE", "/v1/states/{}", {})])
def test_one_request_at_a_time(api, port, method, path, more):
    """A second request that would change the conversation is refused; clients try again."""
    body = {"model": "rwkv", "input": "hello", "max_output_tokens": 100, "stream": True}

    def refuse():
        talk = api.conversations.create()
        sent = more | ({"conversation": talk.id} if path == "/v1/responses" else {})
        with api.responses.with_streaming_response.create(**body, conversation=talk.id) as first:
            reply = call(port, method, path.format(talk.id), sent)
            for _ in first.iter_bytes():
                pass
        if reply.status in (200, 204):  # the stream had ended already
            return False
        assert reply.status == 409 and reply.error["code"] == "conversation_locked" and reply.error["param"] == "conversation"
        assert texts_of(api, talk)[0] == "hello" and len(texts_of(api, talk)) == 2
        return call(port, method, path.format(talk.id), sent).status in (200, 204)

    wait_until(refuse, 120, "a refusal")


@pytest.mark.parametrize("method, path, body, status, param", [
    ("GET", f"/v1/conversations/{UNKNOWN}", None, 404, "conversation_id"),
    ("GET", "/v1/conversations/conv_x", None, 404, "conversation_id"),
    ("GET", f"/v1/conversations/{'a' * 100}", None, 404, "conversation_id"),
    ("POST", f"/v1/conversations/{UNKNOWN}", {"metadata": {}}, 404, "conversation_id"),
    ("DELETE", f"/v1/conversations/{UNKNOWN}", None, 404, "conversation_id"),
    ("GET", f"/v1/conversations/{UNKNOWN}/items", None, 404, "conversation_id"),
    ("POST", f"/v1/conversations/{UNKNOWN}/items", {"items": [message("x")]}, 404, "conversation_id"),
    ("GET", f"/v1/conversations/{UNKNOWN}/items/msg_1", None, 404, "conversation_id"),
    ("DELETE", f"/v1/conversations/{UNKNOWN}/items/msg_1", None, 404, "conversation_id"),
    *[("GET", f"/v1/conversations/{UNKNOWN}/items?limit={limit}", None, 400, "limit") for limit in ("0", "101", "", "%201", "+1", "1e1")],
    ("POST", "/v1/conversations", {"items": [message("x")] * 21}, 400, "items"),
    ("POST", "/v1/conversations", {"items": [{"type": "reasoning"}]}, 400, "items"),
    ("POST", "/v1/conversations", {"metadata": {str(i): "x" for i in range(17)}}, 400, "metadata"),
    ("POST", "/v1/conversations", {"metadata": {"k": 7}}, 400, "metadata"),
    ("POST", "/v1/conversations", {"metadata": {"春" * 65: "x"}}, 400, "metadata"),
    ("POST", "/v1/conversations", {"metadata": {"k": "春" * 513}}, 400, "metadata"),
    ("POST", f"/v1/conversations/{UNKNOWN}", {}, 400, "metadata"),
    ("POST", f"/v1/conversations/{UNKNOWN}/items", {}, 400, "items"),
    ("POST", f"/v1/conversations/{UNKNOWN}/items", {"items": []}, 400, "items"),
    ("POST", "/v1/responses", {"conversation": UNKNOWN}, 404, "conversation"),
    ("POST", "/v1/responses", {"conversation": "no id at all="}, 404, "conversation"),
    ("POST", "/v1/responses", {"conversation": 7}, 400, "conversation"),
    ("POST", "/v1/responses", {"conversation": {"name": "x"}}, 400, "conversation"),
    ("POST", "/v1/responses", {"conversation": UNKNOWN, "previous_response_id": "resp_1"}, 400, "conversation"),
])
def test_bad_requests(port, method, path, body, status, param):
    if path == "/v1/responses":
        body = {"model": "rwkv", "input": "hello", **body}
    reply = call(port, method, path, body)
    assert reply.status == status and reply.error["param"] == param, reply.text


def test_limits_of_metadata_are_characters(api):
    most = {"春" * 64: "秋" * 512}
    assert api.conversations.create(metadata=most).metadata == most


def test_other_objects_are_no_conversations(api, port):
    answer = ask(api, "rwkv", "hello")
    blob = call(port, "GET", f"/v1/states/{answer.id}", headers={"Accept": "application/octet-stream"}).body
    assert call(port, "PUT", f"/v1/states/{UNKNOWN}", blob, {"Content-Type": "application/octet-stream"}).status == 201
    try:
        assert call(port, "GET", f"/v1/conversations/{UNKNOWN}").status == 404
        body = {"model": "rwkv", "input": "more", "conversation": UNKNOWN}
        assert call(port, "POST", "/v1/responses", body).status == 404
        assert call(port, "POST", f"/v1/conversations/{UNKNOWN}", {"metadata": {}}).status == 404
    finally:
        call(port, "DELETE", f"/v1/states/{UNKNOWN}")


def test_a_conversation_has_a_largest_size(api, port):
    talk = api.conversations.create()
    items = {"items": [message("x" * 25_000)] * 20}
    statuses = [call(port, "POST", f"/v1/conversations/{talk.id}/items", items).status for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 413]
    assert len(texts_of(api, talk, limit=100)) == 80
    body = {"model": "rwkv", "input": "y" * 200_000, "conversation": talk.id}
    reply = call(port, "POST", "/v1/responses", body)
    assert reply.status == 413 and reply.error["param"] == "conversation"


@pytest.mark.parametrize("model, status", [("rwkv", 200), ("rows", 400), (MODEL, 200)])
def test_truncation(port, model, status):
    """A state of fixed size needs no cut. For one that grows none is made."""
    body = {"model": model, "input": UPPER, "truncation": "auto", "max_output_tokens": LENGTH}
    reply = call(port, "POST", "/v1/responses", body)
    assert reply.status == status, reply.text
    if status == 200:
        assert reply.json()["truncation"] == "auto"
    else:
        assert reply.error["param"] == "truncation" and "grows" in reply.error["message"]
    whole = call(port, "POST", "/v1/responses", body | {"truncation": "disabled"}).json()
    assert whole["truncation"] == "disabled"
    assert call(port, "POST", "/v1/responses", body | {"truncation": "middle"}).error["param"] == "truncation"


def test_another_key_finds_nothing(folder, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("alice ka\nbob kb\n")
    with Server("--models", folder, "--api-key-file", keys, "--public", "/readyz") as server, client_of(server.port, "ka") as alice:
        talk = alice.conversations.create(items=[message("hers")])
        item = alice.conversations.items.list(talk.id).data[0].id
        for method, path, body in (("GET", "", None), ("POST", "", {"metadata": {}}), ("DELETE", "", None), ("GET", "/items", None),
                                   ("POST", "/items", {"items": [message("his")]}), ("GET", f"/items/{item}", None),
                                   ("DELETE", f"/items/{item}", None)):
            replies = [call(server.port, method, f"/v1/conversations/{i}{path}", body, bearer("kb")) for i in (talk.id, UNKNOWN)]
            assert replies[0].text.replace(talk.id, UNKNOWN) == replies[1].text
            assert {reply.status for reply in replies} == {404}
        body = {"model": "rwkv", "input": "hello", "conversation": talk.id}
        assert call(server.port, "POST", "/v1/responses", body, bearer("kb")).error["code"] == "conversation_not_found"
        assert texts_of(alice, talk) == ["hers"]


@pytest.mark.parametrize("place", ["memory", "file", "redis"])
def test_every_store_keeps_conversations(folder, tmp_path, place):
    if place == "file":
        without_sqlite()
    with Redis() as redis:
        store = {"memory": "memory", "file": tmp_path / "states.db", "redis": redis.url}[place]
        with Server("--models", folder, "--state-store", store) as server, client_of(server.port) as api:
            talk, other = api.conversations.create(), api.conversations.create()
            first = say(api, talk, "hello", store=False)
            expected = say(api, other, "hello", store=False), say(api, other, "more", store=False)
            if place != "memory":
                server.signal(signal.SIGKILL)
                server.wait()
                server.process.returncode = 0
                with Server("--models", folder, "--state-store", store) as next_one, client_of(next_one.port) as again:
                    check_second_turn(again, talk, first, expected)
            else:
                check_second_turn(api, talk, first, expected)


def check_second_turn(api, talk, first, expected):
    second = say(api, talk, "more", store=False)
    assert [first.output_text, second.output_text] == [answer.output_text for answer in expected]
    assert second.usage.input_tokens_details.cached_tokens > 0
    assert texts_of(api, talk) == ["hello", first.output_text, "more", second.output_text]
    api.conversations.delete(talk.id)
    with pytest.raises(openai.NotFoundError):
        api.conversations.retrieve(talk.id)


def test_other_weights_read_all_items(tmp_path):
    models = tmp_path / "models"
    with_template(text_model.write_bytes(models / "one", seed=1, end=[], context=4000), "rwkv")
    with Server("--models", models) as server, client_of(server.port) as api:
        talk = api.conversations.create()
        first = say(api, talk, "hello", "one")
        conf = text_model.config(260, {"tokenizer": "bytes", "context": 4000, "end": [], "begin": 256})
        image_model.write_tensors(tmp_path / "new", conf, 2)
        (tmp_path / "new").rename(models / "one" / "model.safetensors")
        assert call(server.port, "POST", "/v1/models/reload").status == 200
        second = say(api, talk, "more", "one")
        assert second.usage.input_tokens_details.cached_tokens == 0
        alike = ask(api, "one", [message("hello"), message(first.output_text, "assistant"), message("more")])
        assert second.output_text == alike.output_text and second.usage.input_tokens == alike.usage.input_tokens
        third = say(api, talk, "again", "one")
        assert third.usage.input_tokens_details.cached_tokens == second.usage.total_tokens - 1


def test_expired_conversations_are_not_found(folder):
    with Server("--models", folder, "--state-ttl", "1") as server, client_of(server.port) as api:
        talk = api.conversations.create()
        wait_until(lambda: server.metric("linnet_states") == 0, 60, "the end of its time")
        with pytest.raises(openai.NotFoundError) as caught:
            say(api, talk, "hello")
        assert caught.value.code == "conversation_not_found" and caught.value.param == "conversation"


def test_a_full_store_refuses_new_conversations_and_keeps_old_ones(folder):
    with Server("--models", folder, "--max-states", "2") as server, client_of(server.port) as api:
        talk = api.conversations.create()
        complete_ok(server.port, model="rwkv", prompt="a state that nothing drops", max_tokens=1, return_state=True)
        assert call(server.port, "POST", "/v1/conversations", {}).status == 429
        answer = say(api, talk, "hello")
        assert not answer.store and [note["param"] for note in answer.warnings] == ["store"]
        assert texts_of(api, talk) == ["hello", answer.output_text]


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_that_cannot_be_kept_is_an_error(folder, tmp_path, stream):
    """The conversation stays as it was."""
    without_sqlite()
    with Server("--models", folder, "--state-store", tmp_path / "states.db") as server, client_of(server.port) as api:
        talk = api.conversations.create()
        first = say(api, talk, "hello", store=False)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 12, resource.RLIM_INFINITY))
        body = {"model": "rwkv", "input": "more", "conversation": talk.id, "max_output_tokens": LENGTH, "stream": stream}
        reply = call(server.port, "POST", "/v1/responses", body)
        assert reply.status == (200 if stream else 503) and "state store" in reply.text
        assert not stream or "response.completed" not in reply.text
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert texts_of(api, talk) == ["hello", first.output_text]
        assert say(api, talk, "more").usage.input_tokens_details.cached_tokens > 0


def test_what_is_deleted_is_gone_from_the_disk(folder, tmp_path):
    """After a vacuum; also from the file of prompts' states, which has tokens, here one per byte."""
    without_sqlite()
    store = tmp_path / "store" / "states.db"
    store.parent.mkdir()
    secret = "a secret of a hundred characters and more, which no other client may read when the conversation is deleted"
    spelt = {secret.encode(), b"".join(code.to_bytes(4, "little") for code in secret.encode())}

    def found():
        held = b"".join(path.read_bytes() for path in store.parent.iterdir())
        return {form for form in spelt if form in held}

    with Server("--models", folder, "--state-store", store) as server, client_of(server.port) as api:
        talk, other = api.conversations.create(), api.conversations.create()
        answer = say(api, talk, secret)
        say(api, other, "hello", store=False)
        wait_until(lambda: server.metric("linnet_prefix_store_written_total", model="rwkv") > 0, 60, "a prompt's state")
        api.responses.delete(answer.id)
        api.conversations.delete(talk.id)
    assert found(), "the files keep unused bytes"
    vacuumed = run("states", "vacuum", store)
    assert vacuumed.returncode == 0 and "states-prefixes.db with the states of prompts was removed" in vacuumed.stdout
    assert found() == set()
    with Server("--models", folder, "--state-store", store) as server, client_of(server.port) as api:
        assert say(api, other, "more").usage.input_tokens_details.cached_tokens > 0
        busy = run("states", "vacuum", store)
        assert busy.returncode == 1 and "in use by another process" in busy.stderr
