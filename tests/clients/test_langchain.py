"""LangChain, through its package for OpenAI: a chain of a template and a model, streams, responses, batches."""

import pytest
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


def test_a_batch(base, port):
    asked = [WORDS | {"what": f"hello {i}"} for i in range(8)]
    want = [said.chat(port, TALK, [said.MESSAGES[0], {"role": "user", "content": w["what"]}]) for w in asked]
    assert chain(base, seed=said.SEED).batch(asked) == want


def test_completions(base, port):
    model = OpenAI(base_url=base, api_key="none", model=TALK, max_tokens=said.LENGTH, temperature=0.8, seed=said.SEED)
    want = said.text(port, TALK, "Once")
    assert model.invoke("Once") == want
    assert "".join(model.stream("Once")) == want
