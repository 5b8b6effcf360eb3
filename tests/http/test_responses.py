"""POST /v1/responses, asked by the official Python client where that can ask it. The text equals that of the other
routes, in the form of responses. A feature that does not exist here is refused by its field's name."""

import pytest

import poem_model
import text_model
from client import call, complete_ok
from lazy import lazily
from server import Server
from settings import MODEL
from test_chat_templates import with_template

pytestmark = [pytest.mark.quick, pytest.mark.asan]

openai = lazily("openai")

UPPER = "山远云低，归舟一叶"
SEED = {"seed": 3}
TALK = [
    {"role": "user", "content": "hello 春"},
    {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
     "content": [{"type": "output_text", "text": "Hi!", "annotations": []}]},
    {"role": "user", "content": [{"type": "input_text", "text": "more\nof it"}]},
]
RWKV = "System: Be kind.\n\nUser: hello 春\n\nAssistant: Hi!\n\nUser: more\nof it\n\nAssistant:"
LOGPROBS = ["message.output_text.logprobs"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    with_template(text_model.write_bytes(path / "rwkv", end=[]), "rwkv")
    with_template(text_model.write_bytes(path / "strange"), "{{ messages | nothing }}")
    text_model.write_bytes(path / "plain")
    poem_model.write(path / "poem")
    with Server("--models", path, "--slots", "8", "--max-tokens", "100") as started:
        yield started
        started.wait_idle()


@pytest.fixture
def api(port):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as c:
        yield c


def completion(port, **fields):
    return complete_ok(port, **SEED, **fields)


def test_a_text_is_answered(api, port):
    answer = api.responses.create(model=MODEL, input=UPPER, extra_body=SEED)
    same = completion(port, model=MODEL, prompt=UPPER)
    assert answer.output_text == same["choices"][0]["text"]
    assert answer.object == "response" and answer.status == "completed" and answer.error is None
    assert answer.id.startswith("resp_") and answer.output[0].id.startswith("msg_")
    assert answer.usage.output_tokens == len(UPPER)
    assert answer.usage.total_tokens == same["usage"]["total_tokens"]
    assert answer.temperature == 0.8 and answer.top_p == 1 and answer.instructions is None
    assert answer.output[0].content[0].logprobs == [] and answer.store


def test_messages_are_a_chat(api, port):
    prompt = [text_model.BEGIN, *RWKV.encode()]
    same = completion(port, model="rwkv", prompt=prompt, max_tokens=30, stop=["\n\nUser:"])
    answer = api.responses.create(model="rwkv", instructions="Be kind.", input=TALK, max_output_tokens=30,
                                  extra_body=SEED)
    assert answer.output_text == same["choices"][0]["text"]
    assert answer.usage.input_tokens == len(prompt)
    assert answer.instructions == "Be kind." and answer.max_output_tokens == 30
    assert answer.status == answer.output[0].status == "incomplete"
    assert answer.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize("model, prompt, more", [("plain", "Once", {}), ("poem", "唐《静夜思》", {"form": "5x4"})])
def test_a_model_without_a_template_goes_on_with_a_text(api, port, model, prompt, more):
    same = completion(port, model=model, prompt=prompt, max_tokens=50, **more)["choices"][0]
    for asked in (prompt, [{"role": "user", "content": prompt}]):
        answer = api.responses.create(model=model, input=asked, max_output_tokens=50, extra_body=SEED | more)
        assert answer.output_text == same["text"]
        assert (answer.status == "completed") == (same["finish_reason"] == "stop")


def test_an_answer_is_as_long_as_it_likes(api):
    """Not 16 tokens, as a completion is that does not say its length."""
    body = SEED | {"ignore_eos": True}
    assert api.responses.create(model="rwkv", input="a", extra_body=body).usage.output_tokens == 100
    chat = api.chat.completions.create(model="rwkv", messages=[{"role": "user", "content": "a"}], extra_body=body)
    assert chat.usage.completion_tokens == 100


def check_stream(events, whole):
    """All events in order, numbered; their contents equal the whole answer's."""
    types = [e.type for e in events]
    deltas = [e for e in events if e.type == "response.output_text.delta"]
    assert types == ["response.created", "response.in_progress", "response.output_item.added",
                     "response.content_part.added", *["response.output_text.delta"] * len(deltas),
                     "response.output_text.done", "response.content_part.done", "response.output_item.done",
                     f"response.{whole.status}"]
    assert [e.sequence_number for e in events] == list(range(len(events)))
    text = whole.output_text
    assert "".join(e.delta for e in deltas) == text
    assert events[-4].text == events[-3].part.text == events[-2].item.content[0].text == text
    assert {e.item_id for e in deltas} <= {events[2].item.id}
    first, last = events[0].response, events[-1].response
    assert first.status == "in_progress" and first.output == [] and first.id == last.id
    assert last.output_text == text and last.usage.total_tokens == whole.usage.total_tokens
    return deltas


@pytest.mark.parametrize("fields", [
    {"model": MODEL, "input": UPPER},
    {"model": "rwkv", "instructions": "Be kind.", "input": TALK, "max_output_tokens": 60, "temperature": 1.5},
    {"model": "rwkv", "input": "a", "top_p": 0.9, "include": LOGPROBS, "top_logprobs": 3},
    {"model": "plain", "input": "Once", "max_output_tokens": 1},
], ids=["couplet", "chat", "logprobs", "short"])
def test_a_stream_says_what_a_whole_answer_says(api, fields):
    whole = api.responses.create(**fields, extra_body=SEED)
    events = list(api.responses.create(**fields, stream=True, extra_body=SEED))
    deltas = check_stream(events, whole)
    told = whole.output[0].content[0].logprobs
    assert [(x.token, x.logprob) for x in events[-4].logprobs] == [(x.token, x.logprob) for x in told]
    if "include" in fields:
        assert len(told) == whole.usage.output_tokens
        assert all(len(entry.top_logprobs) == 3 for entry in told)
        assert [x.logprob for e in deltas for x in e.logprobs] == [x.logprob for x in told]


def test_the_clients_own_stream(api):
    with api.responses.stream(model=MODEL, input=UPPER, extra_body=SEED) as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
        assert "".join(deltas) == stream.get_final_response().output_text != ""


def test_a_long_stream_for_a_slow_reader(api, port):
    """The last events are larger than the pieces in which a reader gets them."""
    instructions = "be kind " * 20_000
    fields = {"model": MODEL, "instructions": instructions, "input": UPPER, "extra_body": SEED}
    whole = api.responses.create(**fields)
    events = list(api.responses.create(**fields, stream=True))
    check_stream(events, whole)
    assert events[0].response.instructions == events[-1].response.instructions == instructions


def test_warnings_come_with_the_response(port):
    fields = {"model": MODEL, "input": UPPER, "tools": [], "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}}
    reply = call(port, "POST", "/v1/responses", fields)
    assert reply.status == 200, reply.text
    assert {w["param"] for w in reply.json()["warnings"]} == {"reasoning", "text.verbosity"}


def test_stop_strings_end_it(api):
    text = api.responses.create(model=MODEL, input=UPPER, extra_body=SEED).output_text
    answer = api.responses.create(model=MODEL, input=UPPER, extra_body=SEED | {"stop": [text[2]]})
    assert answer.output_text == text[: text.index(text[2])] and answer.status == "completed"


WRONG = [
    ("input", {"input": None}),
    ("input", {"input": []}),
    ("input", {"input": 5}),
    ("input", {"input": [{"role": "assistant", "content": "a"}]}),
    ("input", {"input": [{"role": "tool", "content": "a"}]}),
    ("input", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}),
    ("input", {"input": [{"type": "function_call_output", "call_id": "a", "output": "b"}]}),
    ("input", {"input": ""}),
    ("instructions", {"instructions": ["a"]}),
    ("max_output_tokens", {"max_output_tokens": 0}),
    ("temperature", {"temperature": 11}),
    ("top_p", {"top_p": 0}),
    ("include", {"include": ["reasoning.encrypted_content"]}),
    ("include", {"include": "message.output_text.logprobs"}),
    ("top_logprobs", {"top_logprobs": 2}),
    ("text", {"text": {"format": {"type": "json_object"}}}),
    ("truncation", {"truncation": "middle"}),
    ("stream_options", {"stream_options": {}}),
    ("stream_options", {"stream": True, "stream_options": {"include_obfuscation": True}}),
    *((name, {name: value}) for name, value in [
        ("background", True), ("prompt", {"id": "a"}),
        ("max_tokens", 5), ("max_completion_tokens", 5), ("logprobs", True), ("n", 2), ("messages", []),
        ("return_state", True), ("state", "state-1"), ("suspend", True)]),
]


@pytest.mark.parametrize("param, fields", WRONG, ids=[f"{n}-{i}" for i, (n, _) in enumerate(WRONG)])
def test_what_is_refused(port, param, fields):
    reply = call(port, "POST", "/v1/responses", {"model": MODEL, "input": UPPER, **fields})
    assert reply.status == 400, reply.text
    assert reply.error["param"] == param, reply.text
    assert param in reply.error["message"]


@pytest.mark.parametrize("model, fields, param, words", [
    ("plain", {"input": TALK}, "input", "no template"),
    ("plain", {"input": "a", "instructions": "b"}, "instructions", "no template"),
    ("strange", {"input": "a"}, "model", "the filter nothing"),
    ("rwkv", {"input": "a", "max_output_tokens": 101}, "max_output_tokens", "--max-tokens"),
    ("rwkv", {"input": "a" * 2000}, "input", "more than"),
    (MODEL, {"input": "x y z"}, "input", ""),
])
def test_what_the_model_refuses(port, model, fields, param, words):
    reply = call(port, "POST", "/v1/responses", {"model": model, **fields})
    assert reply.status == 400, reply.text
    assert reply.error["param"] == param and words in reply.error["message"], reply.text


def test_errors_have_the_clients_types(api):
    with pytest.raises(openai.NotFoundError):
        api.responses.create(model="no-such-model", input=UPPER)
    with pytest.raises(openai.BadRequestError) as caught:
        api.responses.create(model=MODEL, input=UPPER, top_logprobs=2)
    assert caught.value.param == "top_logprobs"
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve("resp_1")


def test_a_stream_that_times_out_ends_with_an_error(tmp_path):
    """Three hundred steps take longer than a millisecond."""
    with_template(text_model.write_bytes(tmp_path / "rwkv", end=[]), "rwkv")
    with Server("--models", tmp_path, "--slots", "1") as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as api:
            body = SEED | {"timeout_ms": 1, "ignore_eos": True}
            with pytest.raises(openai.APIError):
                list(api.responses.create(model="rwkv", input="a", stream=True, extra_body=body))
        server.wait_idle()


def test_a_client_that_leaves_frees_its_slot(api, server):
    with api.responses.create(model="rwkv", input="a", stream=True, extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))
    server.wait_idle()
