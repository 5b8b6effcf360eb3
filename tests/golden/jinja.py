#!/usr/bin/env python3
"""Chat templates in Jinja, rendered by Python's jinja2 with the settings of Hugging Face's transformers, for
tests/unit/model/test_jinja.c.

    python3 tests/golden/jinja.py            writes tests/golden/jinja/cases.json (needs the package jinja2)
    python3 tests/golden/jinja.py FOLDER     renders each *.jinja of a folder with every conversation below, and
                                             writes such a file to standard output, for templates
                                             outside this repository
"""

import datetime
import functools
import itertools
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1764200000


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def make_environment():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = to_json
    environment.filters["from_json"] = json.loads
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda f: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(f)
    return environment


# Each with the variables below.
TEMPLATES = [
    "plain text\n",
    "a\n\nb\n\n",
    "{# a comment #}\nx{#- another -#} y",
    "  {% if true %}\n  indented\n  {% endif %}\nafter",
    "a {%- if true -%} \n b {%- endif -%} \n c",
    "a\n  {%+ if true %}b{% endif +%}\nc",
    "{{- 1 -}} \n {{- 2 }}\n{{ 3 -}}\n\n4",
    "{% raw %}{{ not }} {% this %}{% endraw %}\nend",
    "{% for m in messages %}<|{{ m.role }}|>{{ m['content'] }}{% if not loop.last %}\n{% endif %}{% endfor %}",
    "{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ loop.first }}{{ loop.revindex0 }}:{{ m.content|trim }};{% else %}none{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}empty{% endfor %}",
    "{% for k, v in data.items() %}{{ k }}={{ v }},{% endfor %}|{% for k in data %}{{ k }} {% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for a in [[1, [2, [3]]]] recursive %}{{ a if a is number else loop(a) }}{% endfor %}",
    "{% for x in 'añb' %}[{{ x }}]{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(found=false, n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% if i == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }} {{ ns.found }}",
    "{% set a, b = (1, 'two') %}{{ a }}{{ b }}{% set c %}<{{ a }}>{% endset %}{{ c }}{% set d | upper | trim %} low {% endset %}{{ d }}.",
    "{% if false %}a{% elif 0 %}b{% elif messages %}c{% else %}d{% endif %}",
    "{% macro show(text, around='*', n=2) %}{{ around * n }}{{ text }}{{ around }}{% endmacro %}{{ show('x') }}{{ show('y', n=1) }}{{ show('z', '-', 3) }}",
    "{% macro wrap(tag) %}<{{ tag }}>{{ caller('in') }}</{{ tag }}>{% endmacro %}{% call(x) wrap('b') %}{{ x }}side{% endcall %}",
    "{% filter upper | replace('B', '-') %}abc{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
    "{% generation %}said{% endgeneration %}",
    "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 ** 2 }} {{ 7 / 2 }} {{ 1e3 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1.5e-7 }}",
    "{{ 1 ~ 'a' ~ none ~ true ~ [1, 'x', none] ~ {'k': 1.0} ~ (1,) ~ 2.50 }}",
    "{{ 'a' 'b' }}{{ \"it's\" }}{{ 'q\"' }}{{ ['it\\'s', 'q\"', 'b\\\\', 'n\\n', 'é'] }}",
    "{{ 'tab\\t|nl\\n|\\u00e9|\\x41|\\q' }}",
    "{{ 1 < 2 < 3 }}{{ 1 < 2 > 3 }}{{ 'a' in 'cat' }}{{ 'k' in {'k': 1} }}{{ 3 not in [1, 2] }}{{ 1 == 1.0 }}{{ 1 == true }}{{ 'a' == 1 }}{{ none == false }}",
    "{{ not true or true and false }}{{ (1 if false else 2) }}{{ 'x' if false }}{{ 0 or 'or' }}{{ 1 and 'and' }}",
    "{{ missing is defined }}{{ missing is undefined }}{{ missing }}{{ missing|default('d') }}{{ ''|default('e', true) }}{{ messages[99] is defined }}{{ data.none is none }}",
    "{{ 'abc'[0] }}{{ 'abc'[-1] }}{{ 'aébcd'[1:3] }}{{ 'abcdef'[::2] }}{{ 'abc'[::-1] }}{{ [1, 2, 3][1:] }}{{ [1, 2, 3][:-1] }}{{ messages[-1]['role'] }}{{ messages[::-1][0].role }}",
    "{{ ' a '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xya'.lstrip('yx') }}|{{ 'a\\n\\u3000'.rstrip() }}|{{ '\\u200ba\\x1c'.strip() }}|",
    "{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a b c d'.split(' ', 2) }}{{ 'a--b--c'.rsplit('--', 1) }}{{ 'a b c '.split(none, 1) }}{{ 'x</think>y'.split('</think>')[-1] }}",
    "{{ 'abc'.startswith('a') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abcabc'.replace('b', '', 1) }}{{ 'abc'.find('c') }}{{ 'aXa'.count('a') }}{{ ','.join(['a', 'b']) }}{{ 'hello World'.title() }}{{ 'hELLO'.capitalize() }}{{ '12'.isdigit() }}",
    "{{ '{} and {}'.format(1, 'x') }}{{ '{1}{0}{n}'.format('a', 'b', n=3) }}{{ '{{}}'.format() }}",
    "{{ 'one\\ntwo\\r\\nthree'.splitlines() }}",
    "{{ data.get('a') }}{{ data.get('zz', 7) }}{{ data.get('zz') }}{{ data.keys()|list }}{{ data.values()|list }}{{ data['a'] }}{{ data.text[:4].upper() }}",
    "{{ messages|length }}{{ 'é'|length }}{{ data|length }}{{ messages|map(attribute='role')|join(', ') }}{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|rejectattr('role', 'eq', 'user')|map(attribute='content')|first }}",
    "{{ ['a', 'B', 'c']|map('upper')|join }}{{ [1, 2, 3, 4]|select('odd')|list }}{{ [0, 1, '']|reject|list|length }}{{ [3, 1, 2]|sort }}{{ ['b', 'A']|sort }}{{ [1, 2]|sort(reverse=true) }}{{ ['b', 'a', 'b']|unique|list }}{{ [1, 2, 3]|last }}{{ [1, 2]|reverse|list }}{{ [4, 2]|min }}{{ [4, 2]|max }}",
    "{{ data|tojson }}{{ data|tojson(indent=2) }}{{ []|tojson(indent=4) }}{{ {'b': 1, 'a': 'é\\u0007\"\\\\'}|tojson(sort_keys=true, ensure_ascii=true) }}{{ [1, 2.0, none, true]|tojson(separators=(',', ':')) }}",
    "{{ data|dictsort|first }}{{ data|items|list|length }}{{ 'a\\nb\\n\\nc'|indent(2) }}{{ 'a\\nb'|indent(2, true) }}{{ '7'|int + 1 }}{{ 'x'|int(3) }}{{ 3.9|int }}{{ -3|abs }}{{ 'Xy'|lower }}{{ 'some word-here'|title }}{{ 5|string + '!' }}{{ ('a', 'b')|join('/') }}",
    "{{ 1 is odd }}{{ 2 is even }}{{ 9 is divisibleby 3 }}{{ 'x' is string }}{{ data is mapping }}{{ [] is iterable }}{{ [] is sequence }}{{ 1 is number }}{{ 1.0 is float }}{{ true is boolean }}{{ 1 is integer }}{{ true is true }}{{ 1 is in [1] }}{{ none is not none }}{{ 2 is gt 1 }}",
    "{{ strftime_now('%d %b %Y') }}{{ bos_token }}{{ eos_token is defined }}{{ add_generation_prompt }}",
    "{% for m in messages %}{{ loop.cycle('a', 'b') }}{{ loop.changed(m.role) }}{{ loop.depth }}{% endfor %}",
    "{{ {'a': {'b': [1, 2]}}.a.b[1] }}{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2).y }}{{ (messages[0].role + 'x')|upper }}{{ [1] + [2] }}{{ 'ab' * 2 }}",
    """{{ ('{"a": [1, 2.5, null, true, "x"]}'|from_json).a[1:] }}{{ '7'|from_json + 1 }}{{ '"é"'|from_json }}""",
    """{{ '<b>'|safe + '<i>' + 'x&"' }}{{ '<i>' + '<b>'|safe }}{{ '<i>'|safe ~ '<b>' }}{{ '<&>'|e }}{{ '<'|escape + '>' }}""",
    "{% set users = messages|selectattr('role', 'eq', 'user') %}{{ users|list|length }}{{ users|list|length }}{{ 'on' if users }}",
    "{{ ['a', 'A', 'b']|unique|join }}{{ ['a', 'A']|unique(true)|join }}{{ [{'n': 2}, {'n': 1}]|min(attribute='n') }}{{ ['b', 'A']|max }}",
    "{% macro m(a) %}{{ a }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{% call m('x') %}y{% endcall %}{% filter trim %} z {% endfilter %}",
    "{{- bos_token }}\n{%- for message in messages %}\n    {%- if message.role == 'system' %}\n        {{- '<<' + message.content + '>>\\n' }}\n    {%- else %}\n        {{- message.role + ': ' + message.content|trim + '\\n' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- 'assistant:' }}\n{%- endif %}",
    # errors
    "{{ raise_exception('roles must alternate') }}",
    "{{ missing.attribute }}",
    "{{ 'a' + 1 }}",
    "{{ 1 // 0 }}",
    "{{ [1, 2].append(3) }}",
    "{% for a, b in [[1]] %}{% endfor %}",
    "{{ missing() }}",
    "{{ none|length }}",
    "{{ {'a': missing}|tojson }}",
    "{% set data.x = 1 %}",
    "{{ messages|map(attribute='role')|tojson }}",
    "{{ '{'|from_json }}",
    "{{ 'a'|trim(sausage=1) }}",
    "{{ 'a'.startswith(1) }}",
    "{{ 'a'|upper(1, 2) }}",
    "{{ 1|from_json }}",
]
# Parsed by neither.
BROKEN = ["{{", "{% if %}", "{% if true %}", "{% endif %}", "{{ 1 + }}", "{{ 'a }}", "{% nothing %}", "{{ x|nothing }}", "{{ x is nothing }}",
          "{# never", "{% for x %}{% endfor %}", "{{ (1 }}", "{{ [1 }}", "{{ } }}", "{{ a.b. }}", "{% set %}", "{% macro m( %}{% endmacro %}",
          "{{ a[] }}", "{% include 'x' %}", "{% if true %}{% endfor %}"]
DATA = {"b": [1, {"c": None}], "a": 1.5, "text": "Some <text> & é", "none": None, "yes": True}
CHAT = [{"role": "system", "content": "Be kind. "}, {"role": "user", "content": " hello 春\n"}, {"role": "assistant", "content": "Hi <|x|>"},
        {"role": "user", "content": "more"}]
OWN = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}

# Conversations of every shape, for templates of models.
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather \"now\" <b>é</b>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "n": {"type": ["integer", "null"], "default": 3}}, "required": ["city"]}}}
CALL = {"id": "call_123456", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris", "x": 1.5, "deep": [1, None, True]}}}


def user(text):
    return {"role": "user", "content": text}


def answer(text, **more):
    return {"role": "assistant", "content": text, **more}


CONVERSATIONS = {
    "one": [user("Hello!")],
    "system": [{"role": "system", "content": "You are  helpful.\n"}, user(" Hi \n")],
    "turns": [{"role": "system", "content": "s"}, user("a"), answer("b"), user("c <|im_end|>"), answer("<think>\nhm\n</think>\n\nd"), user("你好\té")],
    "without system": [user("a"), answer("b"), user("c")],
    "unanswered": [user("a"), answer("partial")],
    "reasoning": [user("a"), answer("b", reasoning_content="why"), user("c")],
    "tool": [user("weather?"), answer("", tool_calls=[CALL]), {"role": "tool", "name": "get_weather", "tool_call_id": "call_123456", "content": "{}"}, user("x")],
    "two tools": [user("w"), answer(None, tool_calls=[CALL, CALL]), {"role": "tool", "tool_call_id": "call_123456", "content": "r"}, answer("it rains")],
    "parts": [user([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])],
    "empty": [user("")],
    "late system": [user("a"), {"role": "system", "content": "late"}, user("b")],
    "none": [],
}
EXTRAS = [{}, {"tools": [TOOL]}, {"tools": [TOOL, TOOL], "enable_thinking": False}, {"enable_thinking": True}]


@functools.lru_cache(maxsize=8)
def parse(environment, template):
    return environment.from_string(template)


def render(environment, template, own, client):
    try:
        return {"text": parse(environment, template).render(**{**client, **own})}
    except Exception as error:  # any of Python's, too
        return {"error": f"{type(error).__name__}: {error}"}


def cases():
    environment = make_environment()
    client = {"messages": CHAT, "data": DATA}
    for template in TEMPLATES + BROKEN:
        yield {"template": template, "own": OWN, "client": client, **render(environment, template, OWN, client)}


def cases_of(folder):
    environment = make_environment()
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        template = path.read_text()
        for (name, messages), more, answers in itertools.product(CONVERSATIONS.items(), EXTRAS, [True, False]):
            own, client = OWN | {"add_generation_prompt": answers}, {**more, "messages": messages}
            yield {"name": f"{path.name}, {name}", "template": template, "own": own, "client": client, **render(environment, template, own, client)}


def main():
    if len(sys.argv) > 1:
        json.dump(list(cases_of(sys.argv[1])), sys.stdout)
        return
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases())
    (pathlib.Path(__file__).parent / "jinja/cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
