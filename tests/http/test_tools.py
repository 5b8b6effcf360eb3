"""Calls of tools: every format, required, named and free, whole and streamed, on chats and on responses, on models with random weights."""

import json
from typing import Literal

import pytest

import tools as families
from client import call, complete_ok, parse_events
from lazy import lazily
from server import Server
from test_states import blob_of

jsonschema, openai, pydantic = map(lazily, ("jsonschema", "openai", "pydantic"))

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
WEATHER = {"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9},
    "exact": {"type": "boolean"}, "near": {"type": "array", "items": {"type": ["null", "integer"], "maximum": 99}, "maxItems": 2}},
    "required": ["city", "days"]}
TIME = {"type": "object", "properties": {"zone": {"type": "string", "pattern": "^[A-Z]{3}$"}}, "required": ["zone"], "additionalProperties": False}
SCHEMAS = {"weather": WEATHER, "time_of-day": TIME, "ping": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER, "strict": True}},
         {"type": "function", "function": {"name": "time_of-day", "description": "now", "parameters": TIME}},
         {"type": "function", "function": {"name": "ping"}}]
NAMED = {"type": "function", "function": {"name": "time_of-day"}}
HELLO = [{"role": "user", "content": "hello"}]
FAMILIES = [*families.FAMILIES]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("tools")
    return path, families.write_all(path)


@pytest.fixture(scope="module")
def server(models):
    with Server("--models", models[0], "--max-tokens", "3000", "--slots", "8", "--max-n", "16") as started:
        yield started
        started.wait_idle()


def post(port, model, route=CHAT, **fields):
    asked = {"model": model, "messages": HELLO, "max_tokens": 2000, "temperature": 1, "seed": 1, "tools": TOOLS, **fields}
    return call(port, "POST", route, {k: v for k, v in asked.items() if v is not None})


def choices(port, model, **fields):
    reply = post(port, model, **fields)
    assert reply.status == 200, reply.text
    return reply.json()["choices"]


def refused(reply, param, words):
    assert reply.status == 400 and reply.error["param"] == param and words in reply.error["message"], reply.text


def calls_of(message):
    return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls", [])]


def raw_text(tokenizer, choice):
    return tokenizer.decode(choice["token_ids"], skip_special_tokens=False)


def check(message):
    """Every call has a name and arguments that are valid."""
    for name, arguments in calls_of(message):
        jsonschema.Draft202012Validator(SCHEMAS[name]).validate(arguments)
    assert all(c["type"] == "function" and c["id"].startswith("call_") for c in message["tool_calls"])
    assert len({c["id"] for c in message["tool_calls"]}) == len(message["tool_calls"])


def whole(answers):
    """The answers that max_tokens did not cut."""
    return [c for c in answers if c["finish_reason"] == "tool_calls"]


# --- required and named

@pytest.mark.parametrize("family", FAMILIES)
def test_required_calls_are_valid(port, models, family):
    answers = choices(port, family, tool_choice="required", n=16, return_token_ids=True)
    ended = whole(answers)
    assert ended and {c["finish_reason"] for c in answers} <= {"tool_calls", "length"}
    for choice in ended:
        message = choice["message"]
        check(message)
        assert message["content"] is None and message["role"] == "assistant"
        assert calls_of(message) == families.read(family, raw_text(models[1][family], choice), TOOLS)
    counts = {len(c["message"]["tool_calls"]) for c in ended}
    assert max(counts) == 1 if family == "llama3" else min(counts) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_named_and_single_calls(port, family):
    named = whole(choices(port, family, tool_choice=NAMED, parallel_tool_calls=False, n=8))
    assert named
    for choice in named:
        check(choice["message"])
        assert [c["function"]["name"] for c in choice["message"]["tool_calls"]] == ["time_of-day"]
    single = whole(choices(port, family, tool_choice="required", parallel_tool_calls=False, n=8, seed=2))
    assert single and all(len(c["message"]["tool_calls"]) == 1 for c in single)


def streamed(reply):
    """The message that the chunks build up, and the reason of its end."""
    assert reply.status == 200, reply.text
    text, calls, reason = "", [], None
    for event in parse_events(reply.body):
        for choice in event["choices"]:
            delta, reason = choice["delta"], choice["finish_reason"] or reason
            text += delta.get("content") or ""
            for part in delta.get("tool_calls", []):
                if part["index"] == len(calls):
                    calls.append({"id": part["id"], "type": part["type"], "function": {"name": part["function"]["name"], "arguments": ""}})
                calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    return text, calls, reason


@pytest.mark.parametrize("family", FAMILIES)
def test_streams_have_the_same_calls(port, family):
    for seed in range(4):
        fields = {"tool_choice": "required", "seed": seed, "max_tokens": 300}
        message = choices(port, family, **fields)[0]
        text, calls, reason = streamed(post(port, family, stream=True, **fields))
        assert text == "" and reason == message["finish_reason"]
        assert [c["function"] for c in calls] == [c["function"] for c in message["message"]["tool_calls"]]


# --- free answers

def mark_of(family):
    return {"lfm2": "<|tool_call_start|>", "granite": "<|tool_call|>", "nemotron": "<TOOLCALL>", "llama3": '{"name": "'}.get(family, "<tool_call>")


def mark_bias(tokenizer, family, by=100):
    """Tokens of which the call's mark begins, so that an answer with a call is likely."""
    mark = mark_of(family)
    at = tokenizer.token_to_id(mark)
    return {str(i): by for i in ([at] if at is not None else tokenizer.encode(mark, add_special_tokens=False).ids)}


@pytest.mark.parametrize("family", ["hermes", "xml", "lfm2", "granite"])
def test_a_free_answer_may_have_calls(port, models, family):
    """The bias writes the mark at once, and cannot do so within the call."""
    tokenizer = models[1][family]
    answers = choices(port, family, n=8, logit_bias=mark_bias(tokenizer, family), return_token_ids=True)
    assert whole(answers)
    for choice in whole(answers):
        check(choice["message"])
        assert calls_of(choice["message"]) == families.read(family, raw_text(tokenizer, choice), TOOLS)


@pytest.mark.parametrize("family", [*FAMILIES, "thinking"])
def test_a_free_answer_may_have_none(port, models, family):
    """Short texts are those of an answer without tools in its grammar, byte for byte, and no mark is missing from them."""
    for seed in range(6):
        choice = choices(port, family, seed=seed, max_tokens=20, return_token_ids=True)[0]
        raw = models[1][family].decode(choice["token_ids"])
        assert "tool_calls" not in choice["message"] and choice["finish_reason"] in ("stop", "length")
        assert raw.startswith(choice["message"]["content"].rstrip("�")) or "reasoning_content" in choice["message"]
        text, calls, reason = streamed(post(port, family, seed=seed, max_tokens=20, stream=True))
        assert (text, calls, reason) == (choice["message"]["content"], [], choice["finish_reason"])


@pytest.mark.parametrize("family", [*FAMILIES, "thinking"])
def test_without_a_call_the_tools_stay_in_the_prompt(port, models, family):
    """Kept states serve both. The bias writes the mark wherever the grammar allows it."""
    tokenizer, mark = models[1][family], mark_of(family)
    fields = {"n": 8, "max_tokens": 60, "logit_bias": mark_bias(tokenizer, family, 9), "return_token_ids": True}
    free, none = (post(port, family, tool_choice=choice, **fields).json() for choice in ("auto", "none"))
    assert none["prompt_token_ids"] == free["prompt_token_ids"] and len(none["choices"]) == 8
    for choice in none["choices"]:
        assert choice["finish_reason"] in ("stop", "length") and "tool_calls" not in choice["message"]
        raw = raw_text(tokenizer, choice)
        assert not raw.lstrip("\n").startswith(mark) if family == "llama3" else mark not in raw.rpartition("</think>")[2]


def test_text_before_a_call(port, models):
    """A text of one token, then the mark: the text is content, without the line feeds before the mark."""
    tokenizer = models[1]["hermes"]
    mark, word, feed = tokenizer.token_to_id("<tool_call>"), tokenizer.encode("a", add_special_tokens=False).ids[0], tokenizer.encode("\n", add_special_tokens=False).ids[0]
    begun = [*HELLO, {"role": "assistant", "content": ""}]
    seen = set()
    for seed in range(60):
        choice = choices(port, "hermes", messages=begun, logit_bias={str(mark): 4, str(word): 4, str(feed): 4}, temperature=3, seed=seed, max_tokens=400)[0]
        if choice["finish_reason"] == "tool_calls":
            assert choice["message"]["content"] is None or not choice["message"]["content"].endswith("\n")
            seen.add(choice["message"]["content"] is None)
            check(choice["message"])
    assert False in seen, "a call came after a text"


def test_an_answer_with_a_schema_or_a_call(port):
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}}}
    called = 0
    for choice in choices(port, "plain", response_format=schema, n=16):
        if choice["finish_reason"] == "tool_calls":
            check(choice["message"])
            called += 1
        elif choice["finish_reason"] == "stop":
            assert json.loads(choice["message"]["content"]).keys() == {"a"}
    refused(post(port, "plain", response_format=schema, tool_choice="required"), "response_format", "leave response_format out")
    refused(post(port, "plain", regex="a"), "regex", "leave regex out")
    assert choices(port, "plain", regex="a", tool_choice="none")[0]["message"]["content"] == "a"
    assert json.loads(choices(port, "plain", response_format=schema, tool_choice="none")[0]["message"]["content"]).keys() == {"a"}
    refused(post(port, "plain", ignore_eos=True), "ignore_eos", "ends with its grammar")


# --- thoughts

@pytest.mark.parametrize("opening", ["", "<think>\n"])
def test_calls_come_after_thoughts(port, models, opening):
    tokenizer = models[1]["thinking"]
    think, end, mark = (tokenizer.token_to_id(name) for name in ("<think>", "</think>", "<tool_call>"))
    fields = {"chat_template_kwargs": {"opening": opening}, "tool_choice": "required", "logit_bias": {str(end): 6, str(mark): 6, str(think): 6}}
    ended = [c for seed in range(4) for c in whole(choices(port, "thinking", n=8, seed=seed, return_token_ids=True, **fields))]
    assert ended
    for choice in ended:
        check(choice["message"])
        text = opening + raw_text(tokenizer, choice)
        thoughts, _, rest = text.partition("</think>") if text.startswith("<think>") else ("", "", text)
        assert choice["message"].get("reasoning_content", "") == thoughts.removeprefix("<think>").strip("\n")
        assert calls_of(choice["message"]) == families.read("hermes", rest, TOOLS)
    assert any("reasoning_content" in c["message"] for c in ended)


# --- results

@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_sent_back(port, models, family):
    """The template writes a call as the model wrote it, but for white space."""
    choice = whole(choices(port, family, tool_choice="required", n=8, return_token_ids=True, parallel_tool_calls=False))[0]
    results = [{"role": "tool", "tool_call_id": c["id"], "content": "sun"} for c in choice["message"]["tool_calls"]]
    messages = [*HELLO, choice["message"] | {"content": ""}, *results]
    reply = call(port, "POST", "/apply-template", {"model": family, "messages": messages, "tools": TOOLS})
    assert reply.status == 200, reply.text
    written = reply.json()["prompt"].split("assistant\n")[1].split(families.END)[0]
    assert families.read(family, written, TOOLS) == calls_of(choice["message"])
    assert choices(port, family, messages=messages, max_tokens=5)[0]["message"]["role"] == "assistant"


# --- states

def test_a_state_within_a_call_goes_on(port):
    """The rest of the answer, which a completion continues, has the tokens of an uninterrupted answer."""
    fields = {"tool_choice": "required", "return_token_ids": True, "seed": 7}
    ids = choices(port, "hermes", **fields, max_tokens=60)[0]["token_ids"]
    begun = post(port, "hermes", **fields, max_tokens=25, return_state=True).json()
    rest = complete_ok(port, model="hermes", state=begun["states"][0]["id"], max_tokens=35, return_token_ids=True)["choices"][0]["token_ids"]
    assert begun["choices"][0]["token_ids"] + rest == ids
    assert blob_of(port, begun["states"][0]["id"])


# --- bad requests

@pytest.mark.parametrize("fields, param, words", [
    ({"tool_choice": "any"}, "tool_choice", "auto, none, required"), ({"tool_choice": {"type": "function"}}, "tool_choice", "auto, none, required"),
    ({"tool_choice": {"type": "function", "function": {"name": "absent"}}}, "tool_choice", "names absent"),
    ({"tool_choice": "required", "tools": None}, "tool_choice", "tools has no tool"), ({"parallel_tool_calls": 1}, "parallel_tool_calls", "true or false"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools", "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "a", "strict": True, "parameters": {"type": "object", "not": {}}}}]}, "tools", "not"),
    ({"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}}]}, "tools", "must be object")])
def test_bad_tools(port, fields, param, words):
    for family in ("hermes", "xml", "lfm2"):
        refused(post(port, family, **fields), param, words)


@pytest.mark.parametrize("tool, name", [({}, "name"), ({"name": "a", "strict": 1}, "strict"), ({"name": "a", "description": 1}, "description"),
                                        ({"name": "a", "parameters": 1}, "parameters"), ({"name": "a b"}, "name")])
def test_bad_tools_are_named_as_the_route_has_them(port, tool, name):
    refused(post(port, "hermes", tools=[{"type": "function", "function": tool}]), "tools", f"tools[0].function.{name} must")
    refused(post(port, "hermes", RESPONSES, messages=None, max_tokens=None, input="a", tools=[{"type": "function", **tool}]), "tools", f"tools[0].{name} must")
    if name == "strict":
        refused(post(port, "hermes", "/v1/messages", tools=[tool | {"input_schema": {}}]), "tools", f"tools[0].{name} must")


def test_calls_without_results_are_not_continued(port):
    """The answer goes on with the last message's text. Its calls come after the text, and the prompt would lack them."""
    call = {"name": "ping", "arguments": "{}"}
    said = {"role": "assistant", "content": "Hm", "tool_calls": [{"id": "a", "type": "function", "function": call}]}
    for route, most in (("/v1/chat/completions", 1), ("/apply-template", None)):
        for more in ({}, {"continue_final_message": True}):
            refused(post(port, "hermes", route, messages=[*HELLO, said], max_tokens=most, **more), "messages", "ends with calls")
        done = [*HELLO, said, {"role": "tool", "tool_call_id": "a", "content": "pong"}]
        assert post(port, "hermes", route, messages=done, max_tokens=most).status == 200
    assert "ping" in post(port, "hermes", "/apply-template", messages=[*HELLO, said], max_tokens=None, add_generation_prompt=False).text
    items = [{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "a", **call}]
    refused(post(port, "hermes", RESPONSES, messages=None, max_tokens=None, input=items, tools=None), "input", "ends with calls")


def test_a_response_says_which_calls_are_whole(port):
    """A call that a stop or max_output_tokens cut must not be run."""
    tool = {"type": "function", "name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 9}}, "required": ["a"]}}
    fields = {"messages": None, "max_tokens": None, "input": "a", "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}
    for more, status in ({"max_output_tokens": 12}, "incomplete"), ({"stop": ['"a"']}, "incomplete"), ({"max_output_tokens": 600}, "completed"):
        answer = post(port, "hermes", RESPONSES, **fields, **more).json()
        assert answer["status"] == ("incomplete" if more == {"max_output_tokens": 12} else "completed")
        assert [item["status"] for item in answer["output"]] == [status], answer["output"]
        body = post(port, "hermes", RESPONSES, stream=True, **fields, **more).text
        events = [json.loads(line.removeprefix("data: ")) for line in body.split("\n") if line.startswith("data: ")]
        assert [e["item"]["status"] for e in events if e["type"] == "response.output_item.done"] == [status]


@pytest.mark.parametrize("arguments", ["{", '{"a": 1, "a": 2}'])
def test_a_conversation_is_read_again_with_the_calls_of_its_answers(port, arguments):
    items = [{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "c", "name": "ping", "arguments": arguments},
             {"type": "function_call_output", "call_id": "c", "output": "x"}]
    talk = call(port, "POST", "/v1/conversations", {"items": items}).json()["id"]
    answer = post(port, "hermes", RESPONSES, messages=None, max_tokens=None, input="b", conversation=talk, tools=None,
                  max_output_tokens=2)
    assert answer.status == 200, answer.text


def test_a_response_repeats_the_format_of_its_text(port):
    fields = {"messages": None, "max_tokens": None, "input": "a", "tools": None, "max_output_tokens": 200}
    schema = {"type": "json_schema", "name": "x", "strict": True, "schema": {"type": "object", "properties": {"é": {"type": "integer"}}}}
    for form in (schema, {"type": "json_object"}, {"type": "text"}):
        made = post(port, "hermes", RESPONSES, text={"format": form}, **fields).json()
        assert made["text"] == {"format": form} == call(port, "GET", f"{RESPONSES}/{made['id']}").json()["text"]
    assert post(port, "hermes", RESPONSES, **fields).json()["text"] == {"format": {"type": "text"}}


def test_two_tools_of_one_name_are_refused(port):
    """A call names its tool, and a client would run either. OpenAI and Anthropic refuse this too."""
    two = [{"name": name, "description": str(i)} for i, name in enumerate("aba")]
    words = "is the name of tools[0] too"
    chats = {"tools": [{"type": "function", "function": tool} for tool in two]}
    for choice in ("auto", "none", "required", {"type": "function", "function": {"name": "b"}}):
        refused(post(port, "hermes", **chats, tool_choice=choice), "tools", "tools[2].function.name " + words)
    refused(post(port, "hermes", "/apply-template", max_tokens=None, **chats), "tools", "tools[2].function.name " + words)
    items = {"input": "a", "tools": [{"type": "function", **tool} for tool in two]}
    refused(post(port, "hermes", RESPONSES, messages=None, max_tokens=None, **items), "tools", "tools[2].name " + words)
    for route, most in (("/v1/messages", 1), ("/v1/messages/count_tokens", None)):
        reply = post(port, "hermes", route, max_tokens=most, tools=[tool | {"input_schema": {}} for tool in two])
        refused(reply, "tools", "tools[2].name " + words)


def test_names_that_a_format_cannot_write(port):
    tool = {"type": "function", "function": {"name": "a", "parameters": {"type": "object", "properties": {"x-y": {}}, "required": ["x-y"]}}}
    refused(post(port, "lfm2", tools=[tool]), "tools", "cannot write the parameter x-y")
    assert post(port, "xml", tools=[tool], max_tokens=1).status == 200


@pytest.mark.parametrize("family", ["hermes", "xml", "lfm2"])
def test_a_schema_that_is_not_supported_keeps_names_and_types(port, family):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 0.5}, "s": {"type": "string"}}, "required": ["n", "s"]}
    reply = post(port, family, tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}], tool_choice="required", n=8)
    assert [w["param"] for w in reply.json()["warnings"]] == ["tools[0].function.parameters"]
    for choice in whole(reply.json()["choices"]):
        for _, arguments in calls_of(choice["message"]):
            assert isinstance(arguments["n"], int) and isinstance(arguments["s"], str)


# --- the openai client

def client_of(port):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize("family", ["hermes", "xml", "lfm2"])
def test_the_openai_client_calls_a_function(port, family):
    """The example of OpenAI's guide: a call, its result, an answer."""
    client = client_of(port)
    messages = [{"role": "user", "content": "What is the weather like in Paris today?"}]
    first = client.chat.completions.create(model=family, messages=messages, tools=TOOLS, tool_choice="required", seed=3, max_tokens=1500, temperature=1)
    answer = first.choices[0]
    assert answer.finish_reason == "tool_calls"
    messages.append(answer.message)
    for called in answer.message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": called.id, "content": str(json.loads(called.function.arguments))})
    second = client.chat.completions.create(model=family, messages=messages, tools=TOOLS, tool_choice="none", max_tokens=10)
    assert second.choices[0].message.content is not None
    with client.chat.completions.stream(model=family, messages=messages[:1], tools=TOOLS, tool_choice="required", seed=3, max_tokens=1500, temperature=1) as stream:
        final = stream.get_final_completion().choices[0]
    assert [c.function.arguments for c in final.message.tool_calls] == [c.function.arguments for c in answer.message.tool_calls]


# --- responses

FLAT = [{"type": "function", **tool["function"]} for tool in TOOLS]


@pytest.mark.parametrize("family", ["hermes", "xml", "lfm2"])
def test_responses_call_functions(port, family):
    client = client_of(port)
    asked = {"model": family, "tools": FLAT, "tool_choice": "required", "temperature": 1, "max_output_tokens": 1500, "extra_body": {"seed": 3}}
    first = client.responses.create(input="hello", **asked)
    assert first.status == "completed" and first.tool_choice == "required" and first.parallel_tool_calls
    assert [t.name for t in first.tools] == [*SCHEMAS]
    assert first.output and {item.type for item in first.output} == {"function_call"}
    for item in first.output:
        jsonschema.Draft202012Validator(SCHEMAS[item.name]).validate(json.loads(item.arguments))
    results = [{"type": "function_call_output", "call_id": item.call_id, "output": "sun"} for item in first.output]
    second = client.responses.create(input=results, previous_response_id=first.id, model=family, tools=FLAT, max_output_tokens=5)
    assert second.previous_response_id == first.id
    again = client.responses.create(input=[{"role": "user", "content": "hello"}, *[i.to_dict() for i in first.output], *results], model=family, tools=FLAT,
                                    max_output_tokens=5)
    stored = client.responses.input_items.list(again.id).data
    assert sorted(i.type for i in stored) == sorted(["message", *["function_call", "function_call_output"] * len(results)])
    events = list(client.responses.create(input="hello", stream=True, **asked))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    calls = [item.arguments for item in events[-1].response.output]
    assert calls == [item.arguments for item in first.output]
    for i, arguments in enumerate(calls):
        assert "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta" and e.output_index == i) == arguments
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert [e.arguments for e in done] == calls
    added = [e.item for e in events if e.type == "response.output_item.added"]
    assert [i.call_id for i in added] == [i.call_id for i in events[-1].response.output]


@pytest.mark.parametrize("family", ["hermes", "lfm2"])
def test_a_conversation_keeps_calls_and_their_results(port, family):
    client = client_of(port)
    fields = {"model": family, "tools": FLAT, "max_output_tokens": 1500, "temperature": 1, "extra_body": {"seed": 3}}
    talk = client.conversations.create()
    first = client.responses.create(input="hello", conversation=talk.id, tool_choice="required", **fields)
    calls = [item.to_dict() for item in first.output]
    kept = [item.to_dict() for item in client.conversations.items.list(talk.id, order="asc").data]
    assert calls and [item["type"] for item in kept] == ["message", *["function_call"] * len(calls)]
    assert [(c["id"], c["call_id"], c["name"], c["arguments"]) for c in kept[1:]] == [(c["id"], c["call_id"], c["name"], c["arguments"]) for c in calls]
    results = [{"type": "function_call_output", "call_id": c["call_id"], "output": "sun"} for c in calls]
    second = client.responses.create(input=results, conversation=talk.id, tool_choice="none", **fields | {"max_output_tokens": 5})
    types = [item.type for item in client.conversations.items.list(talk.id, order="asc", limit=100).data]
    assert types == ["message", *["function_call"] * len(calls), *["function_call_output"] * len(calls), "message"]
    alone = client.responses.create(input=results, previous_response_id=first.id, tool_choice="none", **fields | {"max_output_tokens": 5})
    assert second.output_text == alone.output_text and second.usage.input_tokens == alone.usage.input_tokens


def test_responses_without_a_call(port):
    """The text of a stream is that of its end."""
    client = client_of(port)
    for seed in range(4):
        events = list(client.responses.create(model="hermes", input="hello", tools=FLAT, stream=True, temperature=1, max_output_tokens=30, extra_body={"seed": seed}))
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        assert text == events[-1].response.output_text
        assert [e.type for e in events if "added" in e.type] == ["response.output_item.added", "response.content_part.added"]


@pytest.mark.parametrize("item, words", [
    ({"type": "function_call", "name": "a", "arguments": "{}"}, "call_id"), ({"type": "function_call", "call_id": "a", "arguments": "{}"}, "name"),
    ({"type": "function_call", "call_id": "a", "name": "a", "arguments": "["}, "object"), ({"type": "function_call_output", "output": "a"}, "call_id"),
    ({"type": "function_call_output", "call_id": "a", "output": 1}, "output"), ({"type": "reasoning"}, "function_call")])
def test_bad_items(port, item, words):
    refused(call(port, "POST", RESPONSES, {"model": "hermes", "input": [{"role": "user", "content": "a"}, item]}), "input", words)


def test_other_tools_of_responses_are_refused(port):
    refused(call(port, "POST", RESPONSES, {"model": "hermes", "input": "a", "tools": [{"type": "web_search"}]}), "tools", "the type function")


# --- the client's helpers

@pytest.mark.parametrize("model", FAMILIES)
def test_the_client_parses_calls_of_pydantic_models(server, model):
    """As the examples of the package do it: whole, as a stream, and on responses."""
    class GetWeather(pydantic.BaseModel):
        """The weather of a city."""

        city: str = pydantic.Field(max_length=12)
        unit: Literal["celsius", "fahrenheit"] | None
        days: int = pydantic.Field(ge=1, le=9)

    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as api:
        asked = {"model": model, "messages": HELLO, "tools": [openai.pydantic_function_tool(GetWeather)], "tool_choice": "required", "max_tokens": 2000,
                 "temperature": 1, "seed": 5}
        made = api.chat.completions.parse(**asked).choices[0].message.tool_calls
        assert made and all(isinstance(c.function.parsed_arguments, GetWeather) for c in made)
        with api.chat.completions.stream(**asked) as stream:
            done = [e for e in stream if e.type == "tool_calls.function.arguments.done"]
            final = stream.get_final_completion().choices[0].message.tool_calls
        assert [e.parsed_arguments for e in done] == [c.function.parsed_arguments for c in final] == [c.function.parsed_arguments for c in made]
        tool = openai.pydantic_function_tool(GetWeather)["function"]
        said = api.responses.parse(model=model, input="hello", tools=[{"type": "function", **tool}], tool_choice="required", max_output_tokens=2000,
                                   temperature=1, extra_body={"seed": 5})
        calls = [item for item in said.output if item.type == "function_call"]
        assert calls and all(GetWeather.model_validate_json(item.arguments) for item in calls)
