"""The grammars that llama.cpp publishes (GBNF), from the sources of llama-cpp-python. Each answer of a random model is a text of
its grammar, by a recogniser in Python that shares nothing with the server."""

import json
import re

import pytest

import text_model
from client import call
from server import Server
from test_published_templates import sources  # noqa: F401 (a fixture)

ANSWERS, LENGTH = 8, 1500
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*(::=|"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|[A-Za-z0-9-]+|[()|*+?.])')


def unescape(text):
    """Of a text in quotes."""
    def character(found):
        digits = found[1] or found[2]
        return chr(int(digits, 16)) if digits else ESCAPES.get(found[3], found[3])

    return re.sub(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", character, text, flags=re.S)


class Grammar:
    """Rules as trees: (kind, ...), read from the tokens of the file by recursive descent."""

    def __init__(self, text):
        self.tokens, self.at, self.rules = TOKEN.findall(text), 0, {}
        while self.at < len(self.tokens):
            name, arrow = self.tokens[self.at:self.at + 2]
            assert arrow == "::=", (name, arrow)
            self.at += 2
            self.rules[name] = self.ways()
        self.known = {}

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else None

    def ways(self):
        found = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            found.append(self.sequence())
        return ("ways", found)

    def sequence(self):
        found = []
        while self.peek() not in (None, "|", ")") and self.peek(1) != "::=":
            found.append(self.repeated(self.part()))
        return ("all", found)

    def part(self):
        token = self.tokens[self.at]
        self.at += 1
        if token == "(":
            inside = self.ways()
            assert self.tokens[self.at] == ")"
            self.at += 1
            return inside
        if token[0] == '"':
            return ("text", unescape(token[1:-1]))
        if token[0] == "[":
            return ("set", re.compile(token, re.S))
        return ("set", re.compile(".", re.S)) if token == "." else ("rule", token)

    def repeated(self, part):
        while (token := self.peek()) is not None and token[0] in "*+?{":
            self.at += 1
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(token) or self.bounds(token)
            part = ("repeat", part, least, most)
        return part

    @staticmethod
    def bounds(token):
        least, comma, most = token[1:-1].partition(",")
        return int(least or 0), int(most) if most else (None if comma else int(least))

    def ends(self, tree, text, at):
        """Where a text of the tree that begins at `at` may end."""
        kind = tree[0]
        if kind == "text":
            return {at + len(tree[1])} if text.startswith(tree[1], at) else set()
        if kind == "set":
            return {at + 1} if at < len(text) and tree[1].match(text, at) else set()
        key = (id(tree), at)
        if key not in self.known:
            self.known[key] = self.find(tree, text, at)
        return self.known[key]

    def find(self, tree, text, at):
        if tree[0] == "rule":
            return self.ends(self.rules[tree[1]], text, at)
        if tree[0] == "ways":
            return set().union(*(self.ends(way, text, at) for way in tree[1]))
        if tree[0] == "all":
            places = {at}
            for part in tree[1]:
                places = set().union(*(self.ends(part, text, place) for place in places))
            return places
        _, part, least, most = tree
        found, places, n = {at} if least == 0 else set(), {at}, 0
        while places and n != most:
            n += 1
            places = set().union(*(self.ends(part, text, place) for place in places)) - (found if n > least else set())
            found |= places if n >= least else set()
        return found

    def accepts(self, text):
        self.known = {}
        return len(text) in self.ends(self.rules["root"], text, 0)


@pytest.fixture(scope="module")
def grammars(sources):  # noqa: F811
    found = {path.stem: path.read_text() for path in sorted(sources.glob("*.gbnf"))}
    assert len(found) >= 8
    return found


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    text_model.write_bytes(path / "bytes", context=3000, end=[0])
    text_model.write_bpe(path / "words", context=3000)
    with Server("--models", path, "--max-tokens", str(LENGTH), "--max-n", str(ANSWERS)) as server:
        yield server.port


def test_the_recogniser():
    grammar = Grammar('root ::= a{2,3} ("-" [x-z]+)? "\\n" # an end\na ::= "a" | "(" root ")"\n')
    for text, wanted in {"aa\n": True, "aaa-xyz\n": True, "a(aa\n)\n": True, "a\n": False, "aaaa\n": False, "aa-\n": False, "aa": False}.items():
        assert grammar.accepts(text) == wanted, text


def test_answers_are_texts_of_their_grammar(port, grammars):
    for name, source in grammars.items():
        grammar, whole = Grammar(source), 0
        for model in ("bytes", "words"):
            reply = call(port, "POST", "/v1/completions", {"model": model, "prompt": "Write: ", "max_tokens": LENGTH, "temperature": 1, "seed": 3,
                                                           "n": ANSWERS, "grammar": source})
            assert reply.status == 200, (name, reply.text)
            texts = [c["text"] for c in reply.json()["choices"] if c["finish_reason"] == "stop"]
            for text in texts:
                assert grammar.accepts(text), (name, text)
                if name.startswith("json"):
                    json.loads(text)
            whole += len(texts)
        print(f"{name}: {whole} of {2 * ANSWERS} answers ended, all are texts of the grammar")
