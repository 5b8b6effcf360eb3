"""Models whose templates know tools, one for each format of calls, and readers of these formats that share nothing with the server's."""

import ast
import json
import re

import text_model
import vocabularies
from test_chat_templates import with_template

BEGIN, END = "<|im_start|>", "<|im_end|>"
HEAD = "{% if tools %}" + BEGIN + "system\n{% for t in tools %}{{ t|tojson }}\n{% endfor %}" + END + "\n{% endif %}"
TAIL = "{% if add_generation_prompt %}" + BEGIN + "assistant\n{{ opening|default('') }}{% endif %}"
MESSAGE = "{% for m in messages %}" + BEGIN + "{{ m.role }}\n{{ m.content }}{% set calls = m.tool_calls or [] %}CALLS" + END + "\n{% endfor %}"
HERMES = """{% for c in calls %}\n<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}}\n</tool_call>{% endfor %}"""
XML = """{% for c in calls %}\n<tool_call>\n<function={{ c.function.name }}>
{% for k, v in c.function.arguments|items %}<parameter={{ k }}>\n{{ v if v is string else v|tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}"""
PYTHON = """{% if calls %}<|tool_call_start|>[{% for c in calls %}{{ c.function.name }}({% for k, v in c.function.arguments|items %}{{ k }}={{ v|tojson }}{{ '' if loop.last else ', ' }}{% endfor %})
{{- '' if loop.last else ', ' }}{% endfor %}]<|tool_call_end|>{% endif %}"""
LISTED = """{% if calls %}MARK[{% for c in calls %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}}{{ '' if loop.last else ', ' }}{% endfor %}]END{% endif %}"""
LLAMA = """{% for c in calls %}{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments|tojson }}}{% endfor %}{# as "parameters": of ipython #}"""

# Name, calls of the template, marks that are tokens of their own, whether these are special.
FAMILIES = {
    "hermes": (HERMES, ["<tool_call>", "</tool_call>"], False),
    "plain": (HERMES, [], False),  # the marks are many tokens
    "xml": (XML, ["<tool_call>", "</tool_call>"], False),
    "lfm2": (PYTHON, ["<|tool_call_start|>", "<|tool_call_end|>"], True),
    "granite": (LISTED.replace("MARK", "<|tool_call|>").replace("END", ""), ["<|tool_call|>"], True),
    "nemotron": (LISTED.replace("MARK", "<TOOLCALL>").replace("END", "</TOOLCALL>"), [], False),
    "llama3": (LLAMA, [], False),
}
THINKING = HEAD + MESSAGE.replace("CALLS", HERMES) + TAIL + "{# <think> and </think> #}"


def write(folder, template, marks=(), special=False, thoughts=()):
    tokenizer = vocabularies.qwen2()
    tokenizer.add_special_tokens([BEGIN, END, *(marks if special else [])])
    tokenizer.add_tokens([*([] if special else marks), *thoughts])
    end = tokenizer.token_to_id(END)
    text_model.write(folder, tokenizer.get_vocab_size(), {"tokenizer": "tokenizer.json", "context": 8000, "end": [end]}, tokenizer, 2)
    with_template(folder, template)
    return tokenizer


def write_all(path):
    """The tokenizers by the names of the models."""
    made = {name: write(path / name, HEAD + MESSAGE.replace("CALLS", calls) + TAIL, marks, special)
            for name, (calls, marks, special) in FAMILIES.items()}
    made["thinking"] = write(path / "thinking", THINKING, ["<tool_call>", "</tool_call>"], False, ["<think>", "</think>"])
    return made


# --- the formats, read by Python

def value_of(text, schema):
    return text if schema.get("type") == "string" or schema.get("enum") else None if text == "null" else json.loads(text)


def read_xml(text, tools):
    schemas = {t["function"]["name"]: t["function"].get("parameters", {}).get("properties", {}) for t in tools}
    for name, body in re.findall(r"<tool_call>\n<function=([^>]+)>\n(.*?)</function>\n</tool_call>", text, re.S):
        pairs = re.findall(r"<parameter=([^>]+)>\n(.*?)\n</parameter>\n", body, re.S)
        yield name, {k: value_of(v, schemas[name][k]) for k, v in pairs}


class Words(ast.NodeTransformer):
    """JSON's words as Python's."""

    def visit_Name(self, node):
        words = {"true": True, "false": False, "null": None}
        return ast.Constant(words[node.id]) if node.id in words else node


def read_python(text):
    inside = re.search(r"<\|tool_call_start\|>(.*)<\|tool_call_end\|>", text, re.S)
    source = inside[1].replace("time_of-day(", "time_of_day(") if inside else "[]"  # the name is none in Python
    for node in ast.parse(source, mode="eval").body.elts:
        yield node.func.id.replace("_day", "-day"), {k.arg: ast.literal_eval(Words().visit(k.value)) for k in node.keywords}


def read_objects(objects, arguments="arguments"):
    return [(o["name"], o[arguments]) for o in objects]


def read(family, text, tools):
    """The names and arguments of the calls in an answer's text, with its special tokens."""
    text = text.removesuffix(END)
    if family == "xml":
        return list(read_xml(text, tools))
    if family == "lfm2":
        return list(read_python(text))
    if family == "llama3":
        return read_objects([json.loads(text)], "parameters") if text.startswith('{"name": "') else []
    if family in ("granite", "nemotron"):
        inside = re.search(r"(?:<\|tool_call\|>|<TOOLCALL>)(\[.*\])", text, re.S)
        return read_objects(json.loads(inside[1])) if inside else []
    return read_objects(json.loads(each) for each in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text, re.S))
