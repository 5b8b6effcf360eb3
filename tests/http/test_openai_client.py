"""The official Python client, unmodified."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import holding
from couplet_rules import broken_rules
from lazy import lazily
from server import Server, wait_until
from settings import MODEL, MODEL_DIR

openai = lazily("openai")

VOCAB = (MODEL_DIR / "vocab.txt").read_text(encoding="utf-8").split("\n")
UPPER = "山远云低，归舟一叶"
PLAIN = {"rank": False}  # as a stream or a chat is drawn


@pytest.fixture
def api(port):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as c:
        yield c


def test_models(api):
    assert MODEL in [model.id for model in api.models.list()]
    assert api.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        api.models.retrieve("no-such-model")


def test_completion(api):
    answer = api.completions.create(model=MODEL, prompt=UPPER, n=2, seed=1, temperature=0.7)
    assert len(answer.choices) == 2
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        assert broken_rules(UPPER, choice.text) == set()
    assert answer.usage.completion_tokens == 2 * len(UPPER)
    assert answer.system_fingerprint


def test_prompt_as_a_list_of_one(api):
    assert len(api.completions.create(model=MODEL, prompt=[UPPER]).choices[0].text) == len(UPPER)


def test_extensions_through_extra_body(api):
    answer = api.completions.create(model=MODEL, prompt=UPPER, extra_body={"top_k": 1})
    greedy = api.completions.create(model=MODEL, prompt=UPPER, temperature=0)
    assert answer.choices[0].text == greedy.choices[0].text


def test_lists_of_prompts_and_tokens(api):
    alone = [api.completions.create(model=MODEL, prompt=p, seed=3).choices[0].text for p in ("月", UPPER)]
    answer = api.completions.create(model=MODEL, prompt=["月", UPPER], seed=3)
    assert [c.text for c in answer.choices] == alone
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0
    tokens = [VOCAB.index(c) for c in UPPER]
    for prompt in (tokens, [tokens]):
        answer = api.completions.create(model=MODEL, prompt=prompt, seed=3)
        assert answer.choices[0].text == alone[1]


def test_stop_echo_bias_and_logprobs(api):
    whole = api.completions.create(model=MODEL, prompt=UPPER, seed=3, logprobs=2, extra_body=PLAIN)
    told = whole.choices[0].logprobs
    assert "".join(told.tokens) == whole.choices[0].text
    assert [len(top) in (2, 3) for top in told.top_logprobs] == [True] * len(UPPER)
    text = whole.choices[0].text
    stopped = api.completions.create(model=MODEL, prompt=UPPER, seed=3, echo=True, stop=[text[2]])
    assert stopped.choices[0].text == UPPER + text[: text.index(text[2])]
    assert stopped.choices[0].finish_reason == "stop"
    banned = {str(VOCAB.index(text[0])): -100}
    other = api.completions.create(model=MODEL, prompt=UPPER, seed=3, logit_bias=banned)
    assert text[0] not in other.choices[0].text
    cut = api.completions.create(model=MODEL, prompt=UPPER, seed=3, max_tokens=2, best_of=4)
    assert len(cut.choices[0].text) == 2 and cut.choices[0].finish_reason == "length"


def test_chat_logprobs(api):
    answer = api.chat.completions.create(model=MODEL, messages=chat(UPPER), seed=5, logprobs=True,
                                         top_logprobs=3, stop=["never"], max_completion_tokens=4)
    choice = answer.choices[0]
    entries = choice.logprobs.content
    assert "".join(entry.token for entry in entries) == choice.message.content
    assert all(len(entry.top_logprobs) == 3 for entry in entries)
    assert choice.finish_reason == "length" and len(entries) == 4
    stream = api.chat.completions.create(model=MODEL, messages=chat(UPPER), seed=5, logprobs=True,
                                         top_logprobs=3, max_completion_tokens=4, stream=True)
    streamed = [entry for event in stream for entry in event.choices[0].logprobs.content]
    assert streamed == entries


def client_of(server, retries):
    url = f"http://127.0.0.1:{server.port}/v1"
    return openai.OpenAI(base_url=url, api_key="none", max_retries=retries)


def test_a_refused_request_is_an_error():
    """A long request holds the only slot."""
    with Server("--slots", "1", "--queue", "0", *holding.FLAGS) as server:
        holder = holding.hold(server)
        with client_of(server, 0) as impatient, pytest.raises(openai.RateLimitError) as caught:
            impatient.completions.create(model=MODEL, prompt=UPPER)
        assert caught.value.code == "server_is_overloaded"
        assert int(caught.value.response.headers["retry-after"]) >= 1
        holder.close()


def test_a_refused_request_is_tried_again():
    """The only request that is allowed at a time is a long stream: 429. The client comes again by itself."""
    with Server("--slots", "1", "--key-concurrency", "1", *holding.FLAGS) as server:
        with client_of(server, 0) as streaming, client_of(server, 50) as patient:
            stream = streaming.completions.create(model=MODEL, prompt=UPPER, n=4096, stream=True)
            next(iter(stream))
            with ThreadPoolExecutor(1) as pool:
                answer = pool.submit(patient.completions.create, model=MODEL, prompt=UPPER)
                wait_until(lambda: "/v1/completions 429" in server.log, 60, "a refused request")
                stream.close()
                assert len(answer.result().choices[0].text) == len(UPPER)


def chat(text):
    return [{"role": "system", "content": "You write couplets."}, {"role": "user", "content": text}]


def test_chat(api):
    same = api.completions.create(model=MODEL, prompt=UPPER, n=2, seed=1, extra_body=PLAIN)
    answer = api.chat.completions.create(model=MODEL, messages=chat(UPPER), n=2, seed=1)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert [c.message.content for c in answer.choices] == [c.text for c in same.choices]
    assert {c.message.role for c in answer.choices} == {"assistant"}
    assert {c.finish_reason for c in answer.choices} == {"stop"}
    assert answer.usage.total_tokens == same.usage.total_tokens


def test_chat_stream(api):
    whole = api.chat.completions.create(model=MODEL, messages=chat(UPPER), seed=5)
    stream = api.chat.completions.create(model=MODEL, messages=chat(UPPER), seed=5, stream=True,
                                         stream_options={"include_usage": True})
    events = list(stream)
    assert {event.object for event in events} == {"chat.completion.chunk"}
    deltas = [choice.delta for event in events for choice in event.choices]
    assert [delta.role for delta in deltas] == ["assistant"] + [None] * (len(UPPER) - 1)
    assert "".join(delta.content for delta in deltas) == whole.choices[0].message.content
    assert [c.finish_reason for e in events for c in e.choices][-1] == "stop"
    assert events[-1].usage.completion_tokens == len(UPPER) and not events[-1].choices


def test_chat_errors_name_the_messages(api):
    for messages in ([], [{"role": "user", "content": ""}], [{"role": "assistant", "content": "月"}]):
        with pytest.raises(openai.BadRequestError) as caught:
            api.chat.completions.create(model=MODEL, messages=messages)
        assert caught.value.param == "messages"


def test_stream(api):
    whole = api.completions.create(model=MODEL, prompt=UPPER, seed=5, extra_body=PLAIN).choices[0].text
    text, usage = "", None
    stream = api.completions.create(
        model=MODEL, prompt=UPPER, seed=5, stream=True, stream_options={"include_usage": True}
    )
    for event in stream:
        for choice in event.choices:
            text += choice.text
        usage = event.usage or usage
    assert text == whole
    assert usage.completion_tokens == len(UPPER)


def test_stream_can_be_closed_early(api, server):
    with api.completions.create(model=MODEL, prompt=UPPER, n=8, stream=True) as stream:
        next(iter(stream))
    server.wait_idle()


def test_async_client(port):
    async def run():
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x") as c:
            answers = await asyncio.gather(
                *(c.completions.create(model=MODEL, prompt=UPPER, seed=i) for i in range(8))
            )
        return [answer.choices[0].text for answer in answers]

    texts = asyncio.run(run())
    assert all(broken_rules(UPPER, text) == set() for text in texts)


def test_errors_have_the_clients_types(api):
    with pytest.raises(openai.BadRequestError) as caught:
        api.completions.create(model=MODEL, prompt="")
    assert caught.value.param == "prompt"
    assert caught.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError) as caught:
        api.completions.create(model="no-such-model", prompt=UPPER)
    assert caught.value.param == "model"
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as caught:
        api.completions.create(model=MODEL, prompt=UPPER, n=1_000_000)
    assert caught.value.param == "n"
