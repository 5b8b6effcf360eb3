"""Every line gets an answer over HTTP and every answer keeps every rule."""

import asyncio

import pytest

import client
import lines
from couplet_rules import broken_rules

IN_FLIGHT = 48


def check_answers(uppers, replies):
    faults = []
    for upper, reply in zip(uppers, replies):
        if reply.status != 200:
            faults.append((upper, reply.status, reply.text))
            continue
        for choice in reply.json()["choices"]:
            broken = broken_rules(upper, choice["text"])
            if broken or choice["finish_reason"] != "stop":
                faults.append((upper, choice["text"], broken, choice["finish_reason"]))
    assert not faults, f"{len(faults)} of {len(uppers)}: {faults[:10]}"


def ask_all(port, uppers, **fields):
    requests = [{"prompt": upper, "seed": i, **fields} for i, upper in enumerate(uppers)]
    return asyncio.run(client.answer_all(port, requests, IN_FLIGHT))


def test_own_lines_cover_all_lengths():
    assert {len(line.strip()) for line in lines.OWN} == set(range(1, 33))


def test_own_lines(port):
    check_answers(lines.OWN, ask_all(port, lines.OWN))


@pytest.mark.heavy
def test_official_lines(port):
    uppers = lines.official()
    if uppers is None:
        pytest.skip("no data was given (LINNET_DATA): the 4,000 official lines are not asked")
    check_answers(uppers, ask_all(port, uppers))


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 2}, {"top_k": 1},
                                    {"top_p": 0.3}, {"temperature": 10, "top_k": 0}])
def test_rules_hold_however_it_is_sampled(port, fields):
    uppers = lines.OWN[::3]
    check_answers(uppers, ask_all(port, uppers, n=2, **fields))


@pytest.mark.parametrize("length", [1, 32])
@pytest.mark.parametrize("n", [1, 8])
def test_shortest_and_longest_line(port, length, n):
    upper = lines.of_length(length)
    answer = client.complete_ok(port, prompt=upper, n=n, seed=length)
    assert len(answer["choices"]) == n
    for choice in answer["choices"]:
        assert len(choice["text"]) == length
        assert broken_rules(upper, choice["text"]) == set()


def test_thirty_two_different_and_thirty_two_equal_characters(port):
    different = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳"
    assert len(set(different)) == len(different) == 32
    for upper in (different, "山" * 32):
        check_answers([upper], ask_all(port, [upper]))


def test_white_space_around_the_line_is_dropped(port):
    plain = client.complete_ok(port, prompt="海上明月", seed=5)
    padded = client.complete_ok(port, prompt=" \t海上明月\u3000\n", seed=5)
    assert plain["choices"] == padded["choices"]
