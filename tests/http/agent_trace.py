"""An agent's day, made by a script: requests of POST /v1/messages with tools, thoughts and results, and the text that a template makes
of them. The model's answers are thoughts, which its client sends back. The texts are ASCII, so that bytes are tokens.

Some turns are asked twice. Some end with the user's next message, after which the template drops earlier thoughts. After some turns the
user edits an earlier message, which ends the chat then, or older results are cut.
"""

import json
import random

LONG = {"retry": 10, "next": 12, "edit": 25, "cut": 30, "kept": 20}  # each so many turns; messages whose results are never cut
SHORT = {"retry": 4, "next": 5, "edit": 9, "cut": 11, "kept": 8}
TOOLS = 34
LETTERS = [ord(c) for c in "abcdefghijklmnopqrstuvwxyz"]
WORDS = ("list read write file folder line branch commit test build server client time value name error search replace open close first last every "
         "number text string result path").split()

# Marks of this template are no special tokens. Thoughts before the user's last message are dropped, as Qwen's templates drop them.
TEMPLATE = """{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.role == 'assistant' and m.reasoning_content and loop.index0 > ns.last %}{{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n' }}{% endif %}
{{- m.content }}
{%- if loop.first and tools %}{{- '\\n\\n# Tools\\n' }}{% for t in tools %}{{- t|tojson + '\\n' }}{% endfor %}{% endif %}
{%- for c in m.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}{{- c.function.arguments|tojson }}{{- '}\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"""


def words(r, n):
    return " ".join(r.choice(WORDS) for _ in range(n))


def make_tools(n=TOOLS):
    r = random.Random(0)
    return [{"name": f"{r.choice(WORDS)}_{i}", "description": words(r, 12),
             "input_schema": {"type": "object", "properties": {f"{r.choice(WORDS)}_{k}": {"type": "string", "description": words(r, 5)} for k in range(2)}}}
            for i in range(n)]


def system_of(n_words=40):
    return words(random.Random(-1), n_words)


def user(text):
    return {"role": "user", "content": text}


def turn_of(r, thought, turn):
    """What follows an answer: a call with this thought, and its result."""
    call = {"type": "tool_use", "id": f"c{turn}", "name": f"{r.choice(WORDS)}_{turn % TOOLS}", "input": {"path": words(r, 3)}}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": words(r, r.choice([3, 6, 30]))}
    return [{"role": "assistant", "content": [{"type": "thinking", "thinking": thought, "signature": ""}, call]}, {"role": "user", "content": [result]}]


def cut(message):
    blocks = message["content"]
    if isinstance(blocks, str) or blocks[0]["type"] != "tool_result":
        return message
    return {"role": "user", "content": [blocks[0] | {"content": "(cut)"}]}


def day(number, turns, each=LONG):
    """Yields the messages of each request and is sent the thought that the model answered."""
    r = random.Random(number)
    messages = [user(words(r, 20))]
    for turn in range(1, turns + 1):
        thought = yield messages
        if turn % each["retry"] == 0:
            thought = yield messages
        messages = messages + turn_of(r, thought, turn)
        if turn % each["cut"] == 0:
            messages = [cut(m) for m in messages[:-each["kept"]]] + messages[-each["kept"]:]
        if turn % each["edit"] == 0:
            last = max(i for i, m in enumerate(messages) if isinstance(m["content"], str))
            messages = [*messages[:last], user(messages[last]["content"] + " " + words(r, 4))]
        elif turn % each["next"] == 0:
            messages = [*messages, user(words(r, 15))]


def render(system, tools, messages):
    """The text that TEMPLATE makes."""
    last = max(i for i, m in enumerate(messages) if isinstance(m["content"], str))
    out = [f"<|im_start|>system\n{system}"]
    if tools:
        out.append("\n\n# Tools\n")
        out += [json.dumps({"type": "function", "function": {"name": t["name"], "description": t["description"], "parameters": t["input_schema"]}}) + "\n"
                for t in tools]
    out.append("<|im_end|>\n")
    for i, m in enumerate(messages):
        if isinstance(m["content"], str):
            out.append(f"<|im_start|>user\n{m['content']}<|im_end|>\n")
            continue
        if m["role"] == "user":
            out += [f"<|im_start|>tool\n{b['content']}<|im_end|>\n" for b in m["content"]]
            continue
        thought, call = m["content"]
        thoughts = f"<think>\n{thought['thinking']}\n</think>\n" if i > last else ""
        arguments = json.dumps(call["input"])
        out.append(f"<|im_start|>assistant\n{thoughts}\n<tool_call>\n" + f'{{"name": "{call["name"]}", "arguments": {arguments}}}\n</tool_call><|im_end|>\n')
    return "".join(out) + "<|im_start|>assistant\n<think>\n"


def shared(a, b):
    """Characters with which both begin."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low


class Known:
    """The texts that a server has read and written, to count the rows that are new to it."""

    def __init__(self):
        self.texts = []

    def new_rows(self, prompt):
        """Rows of a prompt that no earlier text begins with; the last row is always computed."""
        return max(1, len(prompt) - max((shared(prompt, t) for t in self.texts), default=0))

    def add(self, text):
        self.texts = [t for t in self.texts if not text.startswith(t)] + [text]
