"""The commands that need no server."""

import json
import math
import os
import re
import subprocess

import pytest

import client
from couplet_rules import broken_rules
from server import run, run_on_terminal
from settings import LINNET, MODEL_DIR

UPPER = "海上明月"
COMMANDS = ["serve", "generate", "chat", "eval", "bench", "inspect", "tokenize", "transcribe"]
PAIRS = """海上明月\t天涯故人
山远云低，归舟一叶\t天高日暖，去雁几行
一盏青灯听夜雨\t半窗翠竹待春风
谁来\t客至
"""


def generate(*args):
    result = run("generate", "--model", MODEL_DIR, *args)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def words_of_failure(result, status):
    assert result.returncode == status, result
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command):
    result = run(command, "--help")
    assert result.returncode == 0
    assert result.stderr == ""
    assert result.stdout.startswith(f"usage: linnet {command}")
    assert "--model" in result.stdout
    options = result.stdout.split("\noptions:")[1].split("-h, --help")[0].splitlines()
    assert all(len(line) <= 100 or len(line.split()) == 1 for line in options)


def test_help_of_the_program():
    result = run("--help")
    assert result.returncode == 0
    for command in COMMANDS:
        assert command in result.stdout
    assert run("--version").stdout.startswith("linnet ")


def test_no_or_wrong_command():
    assert run().returncode == 2
    assert "srve" in words_of_failure(run("srve"), 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_misspelt_option_is_answered_with_the_right_one(command):
    words = words_of_failure(run(command, "--modle", "x"), 2)
    assert "--modle" in words and "--model" in words


def test_generate():
    answers = generate(UPPER, "-n", 3, "--seed", 1)
    assert len(answers) == 3
    assert all(broken_rules(UPPER, answer) == set() for answer in answers)
    assert answers == generate(UPPER, "-n", 3, "--seed", 1)


def test_generate_is_what_the_server_says(port):
    prompt = "山远云低，归舟一叶"
    served = client.complete_ok(port, prompt=prompt, n=5, seed=11, temperature=0.9)["choices"]
    flags = ("-n", 5, "--seed", 11, "--temperature", 0.9)
    assert generate(prompt, *flags) == [choice["text"] for choice in served]


def test_generate_threads_change_nothing():
    flags = (UPPER, "-n", 4, "--seed", 3)
    assert generate(*flags, "--threads", 1) == generate(*flags, "--threads", 2)


@pytest.mark.parametrize("prompt", ["", "山" * 33, "海上😀明月", "a\tb"])
def test_generate_refuses_a_bad_prompt(prompt):
    words_of_failure(run("generate", "--model", MODEL_DIR, prompt), 2)


def test_generate_without_prompt_and_without_model(tmp_path):
    assert "PROMPT is missing" in words_of_failure(run("generate", "--model", MODEL_DIR), 2)
    words = words_of_failure(run("generate", "--model", tmp_path / "none", UPPER), 1)
    assert "none" in words


@pytest.mark.parametrize("given", [UPPER, UPPER + "\n"])
def test_generate_reads_standard_input(given):
    said = run("generate", "--model", MODEL_DIR, "-", "--seed", 1, input=given)
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines() == generate(UPPER, "--seed", 1)


@pytest.mark.parametrize("flags", [(), ("--scores",)])
def test_generate_says_the_same_on_a_terminal(flags):
    status, words, other = run_on_terminal("stdout", "generate", "--model", MODEL_DIR, UPPER, "--seed", 1, *flags)
    assert (status, other) == (0, "")
    assert words.split("\r\n") == [*generate(UPPER, "--seed", 1, *flags), ""]


def test_generate_wants_one_prompt():
    flags = ("generate", "--model", MODEL_DIR)
    assert "twice" in words_of_failure(run(*flags, UPPER, "--prompt", UPPER), 2)
    assert run(*flags, "--prompt", UPPER, "--seed", 1).stdout.splitlines() == generate(UPPER, "--seed", 1)
    assert run(*flags, "--prompt", "-", input=UPPER).stdout == "-\n"  # a hyphen, without an argument
    words_of_failure(run(*flags, "-", input=""), 2)
    assert "67108864 bytes" in words_of_failure(run(*flags, "-", input="a" * (64 << 20) + "ab"), 2)
    folder = os.open(MODEL_DIR, os.O_RDONLY)
    words = words_of_failure(run(*flags, "-", stdin=folder), 1)
    os.close(folder)
    assert "standard input: Is a directory" in words


def test_generate_prints_json(port):
    flags = ("-n", 3, "--seed", 1)
    said = json.loads("\n".join(generate(UPPER, *flags, "--json")))
    assert (said["model"], said["seed"]) == ("couplet", 1)
    served = client.complete_ok(port, prompt=UPPER, n=3, seed=1, temperature=0.8)
    assert said["prompt_tokens"] == served["usage"]["prompt_tokens"]
    assert [c["text"] for c in said["choices"]] == generate(UPPER, *flags) == [c["text"] for c in served["choices"]]
    assert [c["index"] for c in said["choices"]] == [0, 1, 2]
    scores = [float(line.split("\t")[1]) for line in generate(UPPER, *flags, "--scores")]
    assert all(math.isclose(c["mean_logprob"], s, abs_tol=6e-4) for c, s in zip(said["choices"], scores, strict=True))
    assert {(c["tokens"], c["finish_reason"]) for c in said["choices"]} == {(4, "stop")}
    (cut,) = json.loads("\n".join(generate(UPPER, "--json", "--max-tokens", 3)))["choices"]
    assert (len(cut["text"]), cut["tokens"], cut["finish_reason"]) == (3, 3, "length")


def test_one_letter_means_one_thing():
    """-p is the port, wherever there is one, and so on."""
    meanings = {}
    for command in [*COMMANDS, "states", "health", "convert"]:
        table = run(command, "--help=markdown").stdout
        for name, letter in re.findall(r"^\| `--(?:\[no-\])?([\w-]+)[^`]*`, `-(\w)`", table, re.MULTILINE):
            meanings.setdefault(letter, set()).add(name)
    assert meanings["p"] == {"port"}
    assert {letter: names for letter, names in meanings.items() if len(names) > 1} == {}


def rows_of_options(command):
    """[(name, variable, meaning)] of --help=markdown."""
    rows = re.findall(r"^\| `--(?:\[no-\])?([\w-]+)[^`]*`[^|]*\| (?:`(\w+)`)? *\|(?:(?:\\\||[^|])*\|){2} (.*) \|$",
                      run(command, "--help=markdown").stdout, re.MULTILINE)
    assert rows
    return rows


@pytest.mark.parametrize("command", [*COMMANDS, "states", "health", "convert"])
def test_help_is_whole_sentences(command):
    for name, _, meaning in rows_of_options(command):
        assert re.fullmatch(r"[A-Z0-9].*\.", meaning) and len(meaning.split()) >= 4, f"--{name}: {meaning}"


@pytest.mark.parametrize("command", [*COMMANDS, "states", "health", "convert"])
def test_a_variable_has_its_options_name(command):
    rows = rows_of_options(command)
    for name, variable, _ in rows:
        assert variable in ("", "LINNET_" + name.upper().replace("-", "_"))
    assert command != "serve" or all(variable for _, variable, _ in rows)


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(PAIRS, "utf-8")
    return path


def test_eval(pairs):
    result = run("eval", "--model", MODEL_DIR, "--json", pairs)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    numbers = {key: value for key, value in report.items() if isinstance(value, (int, float))}
    (nats,) = [value for key, value in numbers.items() if "nll" in key or "nats" in key]
    (perplexity,) = [value for key, value in numbers.items() if "perplexity" in key]
    assert 1 < nats < 12
    assert math.isclose(perplexity, math.exp(nats), rel_tol=1e-2)
    text = run("eval", "--model", MODEL_DIR, pairs)
    assert text.returncode == 0
    assert "perplexity" in text.stdout


def test_eval_prefers_a_real_lower_line(tmp_path):
    def nats(lower):
        path = tmp_path / "pair.tsv"
        path.write_text(f"一盏青灯听夜雨\t{lower}\n", "utf-8")
        result = run("eval", "--model", MODEL_DIR, "--json", "--no-answers", path)
        report = json.loads(result.stdout)
        return next(v for k, v in report.items() if "nll" in k or "nats" in k)

    assert nats("半窗翠竹待春风") + 1 < nats("的了是在不有和")


@pytest.mark.parametrize("text, word", [
    ("no tab\n", "TAB"), ("海上明月\t天涯\n", "1"), ("\t\n", "1"), ("海上\x01月\t天涯故人\n", "1"),
])
def test_eval_names_the_bad_line(tmp_path, text, word):
    path = tmp_path / "bad.tsv"
    path.write_text(text, "utf-8")
    result = run("eval", "--model", MODEL_DIR, path)
    assert result.returncode in (1, 2)
    last = result.stderr.strip().splitlines()[-1]
    assert "bad.tsv" in last and word in last, last


def test_eval_of_nothing(tmp_path):
    path = tmp_path / "empty.tsv"
    path.write_text("")
    assert run("eval", "--model", MODEL_DIR, path).returncode in (1, 2)
    assert run("eval", "--model", MODEL_DIR, tmp_path / "none.tsv").returncode in (1, 2)
    assert run("eval", "--model", MODEL_DIR).returncode == 2
    assert "directory" in words_of_failure(run("eval", "--model", MODEL_DIR, tmp_path), 1)


def test_inspect():
    text = run("inspect", "--model", MODEL_DIR)
    assert text.returncode == 0
    assert "parameters" in text.stdout and "state" in text.stdout
    result = run("inspect", "--model", MODEL_DIR, "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)


def test_inspect_lists_the_kinds():
    text = run("inspect", "--kinds")
    assert text.returncode == 0 and "linear " in text.stdout and "feature_map" in text.stdout
    kinds = json.loads(run("inspect", "--kinds", "--json").stdout)
    (linear,) = [kind for kind in kinds if kind["kind"] == "linear"]
    assert [key["name"] for key in linear["keys"]] == ["feature_map", "eps", "direction"]


def test_bench():
    result = run("bench", "--model", MODEL_DIR, "--batch", "1,4", "--threads", "1", "--steps", 3,
                 "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    (rows,) = [value for value in report.values() if isinstance(value, list)]
    assert len(rows) == 2
    assert run("bench", "--model", MODEL_DIR, "--batch", "x").returncode == 2


def test_bench_of_batches_at_a_token():
    flags = ["bench", "--model", MODEL_DIR, "--batch", "1,3", "--steps", 2, "--json"]
    result = run(*flags, "--at", 700)
    assert result.returncode == 0, result.stderr
    assert [row["batch"] for row in json.loads(result.stdout)["rows"]] == [1, 3]
    assert run(*flags, "--at", 0).returncode == 2
    assert "--at" in words_of_failure(run(*flags[:3], "--at", 5, "--positions", "7"), 2)


def test_bench_of_prompts():
    flags = ["bench", "--model", MODEL_DIR, "--prefill", "3,600", "--steps", 1]
    result = run(*flags, "--json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["rows"]
    assert [row["prompt"] for row in rows] == [3, 600]
    assert all(row["ms_per_prompt"] > 0 for row in rows)
    assert "one of --positions, --prefill and --draft" in run(*flags, "--positions", 5).stderr


@pytest.mark.parametrize("flag, inside, beyond", [("--prefill", "3,65", "65,66"), ("--positions", "65", "1,66"), ("--at", "65", "66")])
def test_bench_says_what_is_beyond_the_context(flag, inside, beyond):
    flags = ["bench", "--model", MODEL_DIR, "--batch", 1, "--steps", 1]
    assert run(*flags, flag, inside).stderr == ""
    (line,) = run(*flags, flag, beyond).stderr.splitlines()
    assert f"{flag} 66 is beyond the 65 tokens that {MODEL_DIR.name} reads" in line


def test_bench_of_drafts():
    flags = ["bench", "--model", MODEL_DIR, "--draft", "1,3", "--steps", 2]
    result = run(*flags, "--prompt", "海上明月，春风", "--json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["rows"]
    assert [row["streams"] for row in rows] == [1, 3]
    assert all(row["ms_without"] > 0 and row["ms_with"] > 0 for row in rows)
    assert rows[0]["tokens"] == 2 * 7 and rows[0]["drafted"] >= rows[0]["accepted"] >= 2  # the comma is forced
    assert "one of --positions" in run(*flags, "--prefill", 5).stderr
    assert "--prompt goes with --draft" in run("bench", "--model", MODEL_DIR, "--prompt", "月").stderr
