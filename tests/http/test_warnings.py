"""What an answer warns of: fields that change nothing, characters that are not read as they stand."""

from client import call, complete, complete_ok, stream_ok
from test_text import PROMPT, models, port, server  # noqa: F401 (fixtures)

UNKNOWN = "characters that are not in the vocabulary, read as <unk>: "


def test_ignored_fields_are_told(port):
    fields = {"model": "bytes", "prompt": PROMPT, "max_tokens": 3, "seed": 1, "ignore_eos": True}
    plain = complete_ok(port, **fields)
    assert "warnings" not in plain
    told = complete_ok(port, **fields, repeat_penalty=1.3, mirostat=2, grammar=None, user="me")
    assert [w["param"] for w in told["warnings"]] == ["repeat_penalty", "mirostat"]
    assert told["warnings"][0]["message"] == "repeat_penalty changes nothing here"
    assert told["choices"] == plain["choices"]
    events = list(stream_ok(port, **fields, n=2, tools=[]))
    assert [w["param"] for w in events[0]["warnings"]] == ["tools"]
    assert not any("warnings" in e for e in events[1:])


def test_unknown_characters_are_told(port):
    told = complete_ok(port, model="couplet", prompt="海㒲明月")
    assert told["warnings"] == [{"param": "prompt", "message": UNKNOWN + "1"}]
    two = complete_ok(port, model="couplet", prompt=["海上明月", "㒲㒲"])
    assert two["warnings"][0]["message"] == UNKNOWN + "2"


def test_traditional_characters_and_spaces_are_read(port):
    """As the simplified line, which the warning counts; only when it is wished."""
    fields = {"model": "couplet", "seed": 5, "echo": True}
    simple = complete_ok(port, prompt="云淡风轻近午天", **fields)
    told = complete_ok(port, prompt="雲淡風輕 近午天", **fields)
    assert told["choices"] == simple["choices"]
    assert told["warnings"] == [{"param": "prompt", "message": "characters read as their simplified forms: 3"}]
    both = complete_ok(port, prompt="雲㒲", **fields)
    assert [w["message"] for w in both["warnings"]] == [UNKNOWN + "1", "characters read as their simplified forms: 1"]
    exact = complete_ok(port, prompt="雲淡風輕近午天", normalize=False, **fields)
    assert exact["choices"][0]["text"].startswith("雲淡風輕近午天") and exact["warnings"][0]["message"] == UNKNOWN + "1"
    spaced = complete(port, prompt="云淡风轻 近午天", normalize=False, **fields)
    assert spaced.status == 400 and spaced.error["param"] == "prompt"
    made = call(port, "POST", "/v1/states", {"model": "couplet", "prompt": "雲淡 風輕"})
    assert made.status == 201, made.text
    whole = complete_ok(port, model="couplet", prompt="云淡风轻", temperature=0)
    assert complete_ok(port, model="couplet", state=made.json()["id"], temperature=0)["choices"][0]["text"] == whole["choices"][0]["text"]
