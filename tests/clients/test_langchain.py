"""LangChain, through its package for OpenAI: a chain of a template and a model, streams, responses, batches."""

import openai
import pytest
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI

import said
from conftest import TALK

TEMPLATE = ChatPromptTemplate.from_messages([("system", "Be {how}."), ("user", "{what}")])
WORDS = {"how": "kind", "what": "hello 春"}


def chain(base, **more):
    model = ChatOpenAI(base_url=base, api_key="none", model=TALK, max_tokens=said.LENGTH, temperature=0.8, max_retries=0, **more)
    return TEMPLATE | model | StrOutputParser()


@pytest.mark.parametrize("more", [{"seed": said.SEED}, {"use_responses_api": True, "extra_body": {"seed": said.SEED}}],
                         ids=["chat", "responses"])
def test_a_chain(base, port, more):
    want = said.chat(port, TALK)
    assert chain(base, **more).invoke(WORDS) == want
    assert "".join(chain(base, **more).stream(WORDS)) == want


def test_a_conversation(base):
    """LangChain sends the new messages only, after the id of the last response."""
    model = ChatOpenAI(base_url=base, api_key="none", model=TALK, max_tokens=said.LENGTH, max_retries=0, use_previous_response_id=True,
                       use_responses_api=True, extra_body={"seed": said.SEED})
    first = model.invoke("hello 春")
    later = model.invoke([HumanMessage("hello 春"), first, HumanMessage("more")])
    assert later.usage_metadata["input_token_details"]["cache_read"] > 0
    with openai.OpenAI(base_url=base, api_key="none") as api:
        kept = api.responses.retrieve(later.response_metadata["id"])
        assert kept.previous_response_id == first.response_metadata["id"] and kept.output_text == later.text
        assert [item.content[0].text for item in api.responses.input_items.list(kept.id)] == ["more"]
    streamed = model.stream([HumanMessage("hello 春"), first, HumanMessage("more")])
    assert "".join(part.text for part in streamed) == later.text


def test_a_conversation_object(base):
    """The server has the conversation; LangChain sends the new message only."""
    with openai.OpenAI(base_url=base, api_key="none") as api:
        talk = api.conversations.create()
        model = ChatOpenAI(base_url=base, api_key="none", model=TALK, max_tokens=said.LENGTH, max_retries=0, use_responses_api=True,
                           extra_body={"seed": said.SEED, "conversation": talk.id})
        answers = [model.invoke("hello 春").text, "".join(part.text for part in model.stream("more"))]
        items = list(api.conversations.items.list(talk.id, order="asc"))
        assert [item.content[0].text for item in items] == ["hello 春", answers[0], "more", answers[1]]


def test_a_batch(base, port):
    asked = [WORDS | {"what": f"hello {i}"} for i in range(8)]
    want = [said.chat(port, TALK, [said.MESSAGES[0], {"role": "user", "content": w["what"]}]) for w in asked]
    assert chain(base, seed=said.SEED).batch(asked) == want


def test_completions(base, port):
    model = OpenAI(base_url=base, api_key="none", model=TALK, max_tokens=said.LENGTH, temperature=0.8, seed=said.SEED)
    want = said.text(port, TALK, "Once")
    assert model.invoke("Once") == want
    assert "".join(model.stream("Once")) == want
