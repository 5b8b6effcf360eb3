"""Answers of a given shape: JSON Schemas, regular expressions, grammars and lists of texts, on models with random weights."""

import collections
import itertools
import json
import os
import re
from pathlib import Path

import pytest

import shapes
import text_model
from client import call, complete, join_stream, stream_ok
from lazy import lazily
from server import Server
from test_states import blob_of

jsonschema, openai, pydantic = map(lazily, ("jsonschema", "openai", "pydantic"))
pytestmark = pytest.mark.quick

MODELS = ("bytes", "words")
EACH = 8  # answers of a schema and a model
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
SCHEMAS = shapes.BY_HAND + shapes.schemas(60, 1)


FAR = 2**64 - 1  # of an unsigned number, as pydantic's Field(le=...) writes it


def test_bounds_beyond_64_bits_are_read(port):
    schema = {"type": "integer", "minimum": 0, "maximum": FAR, "exclusiveMaximum": 10**30}
    answer = complete(port, model="words", prompt="a", seed=1, max_tokens=60, response_format={
        "type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    assert answer.status == 200 and json.loads(answer.json()["choices"][0]["text"]) >= 0, answer.text
    for number in "seed", "max_tokens":
        assert complete(port, model="words", prompt="a", **{number: FAR}).error["param"] == number
    assert "x" in [w["param"] for w in complete(port, model="words", prompt="a", max_tokens=1, x=[-FAR]).json()["warnings"]]


@pytest.mark.parametrize("shape", [{"regex": "[a-z]{3}"}, {"guided_choice": ["ab"]}, {"response_format": {"type": "json_object"}}])
def test_a_shape_does_not_go_with_a_list_of_tokens(port, shape):
    reply = complete(port, model="words", prompt="a", allowed_token_ids=[5], **shape)
    assert (reply.status, reply.error["param"]) == (400, "allowed_token_ids"), reply.text


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("shapes")
    text_model.write_bytes(path / "bytes", context=6000)
    text_model.write_bpe(path / "words", context=6000)
    text_model.write_bpe(path / "chats", context=6000)
    (path / "chats" / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    text_model.write_bytes(path / "endless", context=300, end=[])
    with Server("--models", path, "--max-tokens", "5000", "--slots", "8", "--max-n", "64") as started:
        yield started
        started.wait_idle()


@pytest.fixture
def port(server):
    return server.port


def choices(port, model="bytes", **fields):
    asked = {"model": model, "prompt": "Write: ", "max_tokens": 4000, "temperature": 1, "seed": 1, **fields}
    reply = call(port, "POST", "/v1/completions", asked)
    assert reply.status == 200, reply.text
    return reply.json()["choices"]


def whole(port, **fields):
    """The texts of the answers that their shape ended."""
    return [c["text"] for c in choices(port, **fields) if c["finish_reason"] == "stop"]


def refused(port, field, **fields):
    reply = complete(port, model=fields.pop("model", "bytes"), prompt="a", max_tokens=5, **fields)
    assert reply.status == 400, reply.text
    assert reply.error["param"] == field, reply.text
    return reply.error["message"]


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_answers_are_valid_by_their_schema(port, number):
    schema = SCHEMAS[number]
    judge = jsonschema.Draft202012Validator(shapes.for_the_judge(schema), format_checker=jsonschema.FormatChecker())
    texts = [text for model in MODELS for text in whole(port, model=model, n=EACH, seed=number, json_schema=json.dumps(schema))]
    for text in texts:
        judge.validate(json.loads(text))
    assert texts


def test_answers_differ(port):
    assert len(set(whole(port, n=32, json_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}))) > 16


@pytest.mark.parametrize("pattern", [
    "a", "a|bc|", "(yes|no)( please){0,2}", "[a-f0-9]{4}-[^a-z\\n]{2,3}", "\\d+\\.\\d{2}", "^\\w+@\\w+\\.com$", "(?:ab?)+c*?", ".{3}", "[\\w.-]{2}",
    "\\S\\s\\S", "\\D{2}\\W", "(?P<year>\\d{4})", "é{2}[α-ω]", "x{,2}y", "\\x41\\u00e9\\t", "[\\]x]", "(a{2}){3}",
    "a{2}?", "a{,}b", "a{", "{", "{}", "a{b}", "a{2", "{2", "a{2}{", "a}", "}{1,", "(?P<a_1>b)"])
def test_regular_expressions_match_as_a_whole(port, pattern):
    for model in MODELS:
        texts = whole(port, model=model, n=16, regex=pattern)
        assert texts
        for text in texts:
            assert re.fullmatch(pattern, text) and re.fullmatch(pattern, text, re.ASCII), (pattern, text)


@pytest.mark.parametrize("pattern", ["(?=a)b", "(a)\\1", "\\bword", "(?i)a", "a++", "*a", "(a", "a)", "[b-a]", "[a", "a$b", "\\p{L}", "a{3,2}", "a{200000}",
                                     "a{2}{3}", "{3}", "a|{3}", "({2,})", "^{3}", "a**", "a{2}*", "a{2}?{3}", "a?{2}", "a+?{2,3}", "a{2}{,3}", "{,3}",
                                     "{,}", "(?P<>a)", "(?P<1>a)", "(?P<a-b>a)", "(?P<a"])
def test_other_expressions_are_refused(port, pattern):
    refused(port, "regex", regex=pattern)


ARITHMETIC = r"""
# llama.cpp's grammars/arithmetic.gbnf
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"""
LIST = 'root ::= item+\nitem ::= "- " [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ "."\n'


def test_grammars(port):
    for model in MODELS:
        for text in whole(port, model=model, n=16, grammar=ARITHMETIC, max_tokens=600):
            assert re.fullmatch(r"[-+*/=()\sa-z0-9_]+", text) and text.count("(") == text.count(")") and text.endswith("\n")
        assert set(whole(port, model=model, n=32, ebnf='root ::= "a" b{2,3} | "z" # or\nb ::= [x-y]')) <= \
            {"z"} | {"a" + "".join(b) for n in (2, 3) for b in itertools.product("xy", repeat=n)}
        for text in whole(port, model=model, n=8, guided_grammar=LIST, max_tokens=600):
            assert re.fullmatch(r"(- [^\r\n]+?\.)+", text), text
    balanced = 'root ::= "<" root ">" | "."'
    for text in whole(port, n=32, grammar=balanced):
        assert re.fullmatch(r"<*\.>*", text) and text.count("<") == text.count(">") <= 200


def test_ambiguous_grammars_have_all_their_texts(port):
    """Two readings of one text count once: the bytes a and b are drawn as if there were one rule."""
    twice = whole(port, n=64, grammar='root ::= x | y | x\nx ::= "a"\ny ::= "a" | "b"')
    assert twice == whole(port, n=64, regex="a|b") and set(twice) == {"a", "b"}


@pytest.mark.parametrize("grammar, said", [
    (r'root ::= "\UFFFFFFFF"', "above U+10FFFF"), (r'root ::= "\U0010FFF"', "hexadecimal"),
    ('root ::= root "a" | "b"', "left"), ('root ::= a "x" | "y"\na ::= "" root', "left"), ('root ::= "a" root', "no text"), ("", None),
    ("root ::= missing", "missing"), ('a ::= "b"', "root"), ('root ::= "a', "quote"), ("root ::= [z-a]", "range"), ('root ::= ("a"', "parenthesis"),
    ('root ::= "a"{300000}', "repeats"), ('root ::= (("a"{1000}){1000}){1000}', "states"), ('root ::= "a" )', "rule"), ('root ::= "a"\nroot ::= "b"', "twice")])
def test_wrong_grammars_are_refused(port, grammar, said):
    if said is None:
        assert complete(port, model="bytes", prompt="a", max_tokens=1, grammar=grammar).status == 200
        return
    assert said in refused(port, "grammar", grammar=grammar)


@pytest.mark.parametrize("n", [1, 16])
def test_an_answer_that_no_token_continues_is_an_error_of_the_grammar(port, n):
    """The line feed ends this model's answers, so it is in no text. Other answers of the request may go on."""
    assert "no token" in refused(port, "grammar", n=n, grammar='root ::= ("a" | "b" | "c" [d-z]{2}) "\\n"')


@pytest.mark.parametrize("schema, said", [
    ({"type": "string", "contentSchema": {}}, "contentSchema"), ({"not": {}}, "not"), ({"type": "object", "patternProperties": {}}, "patternProperties"),
    ({"type": "array", "uniqueItems": True}, "uniqueItems"), ({"type": "number", "multipleOf": 0.5}, "multipleOf"), ({"type": "integer", "multipleOf": 103}, "multipleOf"), ({"type": "text"}, "text"),
    ({"$ref": "#/$defs/a"}, "#/$defs/a"), ({"$ref": "#"}, "no text"), ({"anyOf": [{}], "type": "string"}, "type"), ({"enum": []}, "enum"), (False, "no text"),
    ({"type": "string", "format": "iri"}, "iri"), ({"type": "number", "minimum": 0.12345678901234567}, "minimum"), ({"type": "integer", "minimum": 1e20}, "minimum"), ({"allOf": [{}, {}]}, "allOf"),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, "required"),
    ({"type": "string", "pattern": "^a{3}$", "maxLength": 2}, "maxLength"), ({"type": "string", "format": "uuid", "minLength": 40}, "minLength"),
    ({"propertyNames": {"pattern": "^x"}, "properties": {"x": {}}}, "propertyNames"), ({"propertyNames": {"not": {}}}, "not next to propertyNames"),
    ({"propertyNames": {"type": "integer"}}, "propertyNames"), ({"type": "string", "minLength": 3, "maxLength": 2}, "maxLength"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "no text"), ({"type": "string", "pattern": "(?=a)"}, "look around"),
    ({"prefixItems": [{"type": "null"}], "items": {"$ref": "#/prefixItems/x"}}, "#/prefixItems/x"), ({"$ref": 7}, "$ref must be a string"),
    ({"type": "string", "format": 7}, "format must be a string"), ({"properties": {"a": {}}, "required": [7]}, "required must be a list of strings"),
    ({"properties": {f"p{i}": {} for i in range(2000)}}, "too many ways")])
def test_other_schemas_are_refused_by_name(port, schema, said):
    assert said in refused(port, "json_schema", json_schema=json.dumps(schema))


EXPLODING = {
    "copies": ("grammar", 'root ::= (("a"{1000}){1000}){1000}', "states"),
    "groups": ("grammar", "root ::= " + "(" * 5000 + '"a"' + ")" * 5000, "nested"),
    "left": ("grammar", 'root ::= "" b "x"\nb ::= "c"? root | "d"', "left"),
    "endless": ("grammar", 'root ::= "a" root', "no text"),
    "ranges": ("regex", "(.{0,1000}){0,100}", "states"),
    "ambiguous": ("regex", "(a|aa|aaa)*" * 2000, "ways"),
    "members": ("json_schema", {"properties": {f"p{i}": {} for i in range(3000)}}, "ways"),
    "multiples": ("json_schema", {"type": "array", "prefixItems": [{"type": "integer", "multipleOf": 97}] * 200}, "large"),
    "strings": ("json_schema", {"type": "array", "prefixItems": [{"type": "string", "pattern": "^.{9000}$"}] * 60}, "states"),
}


@pytest.mark.parametrize("name", EXPLODING)
def test_grammars_that_explode_are_refused_soon(server, name):
    field, value, said = EXPLODING[name]
    before = processor_seconds(server)
    assert said in refused(server.port, field, **{field: value})
    assert processor_seconds(server) - before < 0.1


def processor_seconds(server):
    """Of the server's process; a busy machine changes it little."""
    used = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def test_choices(port):
    words = ["yes", "no", "maybe", "日本"]
    for field, value in (("guided_choice", words), ("structured_outputs", {"choice": words})):
        assert set(whole(port, n=64, **{field: value})) == set(words)
    refused(port, "guided_choice", guided_choice=["a", ""])


@pytest.mark.parametrize("field", ["guided_choice", "json_schema"])
def test_long_lists(port, field):
    """Values that begin alike share their beginning, so that their number has no bound of its own."""
    words = [f"value {i}" for i in range(8000)]
    for text in whole(port, n=16, **{field: words if field == "guided_choice" else {"enum": words}}):
        assert (text if field == "guided_choice" else json.loads(text)) in words


@pytest.mark.parametrize("field, value", [
    ("response_format", {"type": "json_object"}), ("response_format", {"type": "json_object", "schema": {"type": "object"}}),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "object"}}}),
    ("guided_json", {"type": "object"}), ("json_schema", {"type": "object"}), ("structured_outputs", {"json": {"type": "object"}}),
    ("structured_outputs", {"json_object": True})])
def test_every_name_of_an_object_gives_one(port, field, value):
    for text in whole(port, n=4, **{field: value}):
        assert isinstance(json.loads(text), dict)


def test_two_shapes_are_refused(port):
    refused(port, "regex", regex="a", grammar='root ::= "b"')
    assert "two members" in refused(port, "structured_outputs", structured_outputs={"json": {}, "regex": "a"})
    refused(port, "ignore_eos", regex="a", ignore_eos=True)
    assert "end" in refused(port, "regex", regex="a", model="endless")


@pytest.mark.parametrize("field, value, said", [
    ("structured_outputs", {"json_object": "yes"}, "json_object"), ("response_format", {"strict": "yes"}, "response_format.json_schema.strict"),
    ("response_format", {"name": 7}, "response_format.json_schema.name"), ("response_format", {"description": []}, "json_schema.description")])
def test_members_of_another_type_are_refused_by_name(port, field, value, said):
    if field == "response_format":
        value = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "null"}, **value}}
    assert said in refused(port, field, **{field: value})


def test_a_format_without_a_schema_names_it_as_openai_does(port):
    for inner in ({}, {"json_schema": {}}):
        assert "response_format.json_schema.schema is missing" in refused(port, "response_format", response_format={"type": "json_schema", **inner})


def test_models_of_other_tasks_refuse_shapes(port):
    assert "couplet" in refused(port, "grammar", model="couplet", grammar='root ::= "a"')


# --- the draw

def test_a_shape_draws_like_a_list_of_tokens(port):
    """A mask and a bias that bans all other tokens are two ways to one distribution, and so to the same draws."""
    for temperature, cuts in ((1, {}), (0.7, {"top_p": 0.6}), (2, {"top_k": 2}), (0, {}), (1, {"min_p": 0.3}), (1, {"typical_p": 0.5})):
        drawn = {"n": 32, "temperature": temperature, "max_tokens": 8, **cuts}
        shaped = [c["text"] for c in choices(port, regex="[a-d]{8}", **drawn)]
        listed = [c["text"] for c in choices(port, allowed_token_ids=list(b"abcd"), **drawn)]
        assert shaped == listed


def test_a_shape_has_no_bias(port):
    """Chi-square: of free draws those are kept that the shape allows."""
    free, shaped = collections.Counter(), collections.Counter()
    for seed in range(150):
        free.update(c["text"] for c in choices(port, n=64, seed=seed, max_tokens=1))
        shaped.update(c["text"] for c in choices(port, n=64, seed=1000 + seed, max_tokens=1, regex="[a-h]"))
    kept = sum(free[c] for c in "abcdefgh")
    n = sum(shaped.values())
    assert n == 9600 and set(shaped) == set("abcdefgh") and kept > 200
    both = kept * n / (kept + n)
    chi = sum(both * (free[c] / kept - shaped[c] / n) ** 2 / ((free[c] + shaped[c]) / (kept + n)) for c in "abcdefgh")
    assert chi < 24.3  # 7 degrees of freedom, p = 0.001


# --- drafts, states, streams

SCHEMA = {"type": "object", "properties": {"first_long_name": {"type": "string", "maxLength": 9}, "second": {"enum": ["alpha", "beta"]},
                                           "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 4}},
          "required": ["first_long_name", "second", "list"]}


def test_drafts_change_no_byte(port):
    for model in MODELS:
        for seed in range(6):
            fields = {"model": model, "prompt": "Write: ", "max_tokens": 900, "temperature": 1, "seed": seed, "json_schema": SCHEMA}
            guessed, plain = (complete(port, draft=draft, **fields).json() for draft in (True, False))
            assert guessed["choices"][0]["text"] == plain["choices"][0]["text"]
            assert plain["timings"].get("draft_n", 0) == 0


def test_an_answer_goes_on_from_its_state_at_every_token(port):
    fields = {"model": "words", "prompt": "Write: ", "temperature": 1, "seed": 4}
    want = complete(port, max_tokens=400, json_schema=SCHEMA, **fields).json()["choices"][0]
    for n in (1, 2, 5, 9, 14, 20):
        begun = complete(port, max_tokens=n, json_schema=SCHEMA, return_state=True, **fields).json()
        state = begun["states"][0]["id"]
        rest = complete(port, model="words", state=state, max_tokens=400, temperature=1).json()["choices"][0]
        assert begun["choices"][0]["text"] + rest["text"] == want["text"] and rest["finish_reason"] == want["finish_reason"]
        assert blob_of(port, state)
        forks = call(port, "POST", f"/v1/states/{state}/fork", {"n": 3, "seeds": [4, 5, 6]}).json()["data"]
        for fork in forks:
            other = complete(port, model="words", state=fork["id"], max_tokens=400).json()["choices"][0]
            jsonschema.validate(json.loads(begun["choices"][0]["text"] + other["text"]), SCHEMA)
    reply = complete(port, model="words", state=state, regex="a")
    assert reply.status == 400 and reply.error["param"] == "regex"


def test_streams_and_samples_are_the_same(port):
    fields = {"model": "words", "prompt": "Write: ", "max_tokens": 400, "temperature": 1, "seed": 7, "json_schema": SCHEMA, "n": 5}
    want = [c["text"] for c in complete(port, **fields).json()["choices"]]
    texts, _ = join_stream(stream_ok(port, **fields))
    assert sorted(texts.values()) == sorted(want)


def test_long_texts_outlive_the_memory_of_places(port):
    text, = whole(port, json_schema={"type": "string", "minLength": 2500, "maxLength": 2600}, max_tokens=5000)
    assert 2500 <= len(json.loads(text)) <= 2600


def test_min_tokens_do_not_keep_an_answer_from_its_only_end(port):
    assert whole(port, regex="ab", min_tokens=3, max_tokens=4) == ["ab"]
    assert len(whole(port, regex="a*", min_tokens=7, max_tokens=4000, seed=3)[0]) >= 7


# --- the client


def test_structured_outputs_of_the_client(port):
    class Step(pydantic.BaseModel):
        explanation: str = pydantic.Field(max_length=20)
        output: int

    class Reasoning(pydantic.BaseModel):
        steps: list[Step] = pydantic.Field(max_length=3)
        final_answer: str | None
        kind: "str" = pydantic.Field(pattern="^(sum|product)$")
        share: float = pydantic.Field(gt=0.5, le=0.99)
        dozens: int = pydantic.Field(ge=0, le=144, multiple_of=12)

    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as api:
        asked = [{"role": "user", "content": "Solve it: "}]
        answer = api.chat.completions.parse(model="chats", messages=asked, response_format=Reasoning, max_tokens=4000, seed=1)
        parsed = answer.choices[0].message.parsed
        assert isinstance(parsed, Reasoning) and parsed.kind in ("sum", "product")
        said = api.responses.parse(model="chats", input="Solve it: ", text_format=Reasoning, max_output_tokens=4000, temperature=1,
                                   extra_body={"seed": 1})
        assert isinstance(said.output_parsed, Reasoning)
