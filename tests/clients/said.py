"""The server's answer to a plain request: every client must bring it to its user."""

from client import call, complete_ok

SEED, LENGTH = 7, 40
MESSAGES = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello 春"}]


def text(port, model, prompt, **fields):
    return complete_ok(port, model=model, prompt=prompt, seed=SEED, max_tokens=LENGTH, **fields)["choices"][0]["text"]


def chat(port, model, messages=None, **fields):
    body = {"model": model, "messages": messages or MESSAGES, "seed": SEED, "max_tokens": LENGTH, **fields}
    reply = call(port, "POST", "/v1/chat/completions", body)
    assert reply.status == 200, reply.text
    return reply.json()["choices"][0]["message"]["content"]
