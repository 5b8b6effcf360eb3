"""`linnet transcribe`, and `eval` and `inspect` of models of speech: a small random model (tests/golden/hearing), which says
something about any sound, however little sense that makes."""

import json
import math
import random
import shutil
import struct
import wave

import pytest

from server import run
from settings import MODEL_DIR, ROOT

HEARING = ROOT / "tests/golden/hearing"
KINDS = sorted(path.name for path in HEARING.iterdir())
MODEL = HEARING / "linear"
RATE = 8000


def write_sound(path, seconds, seed=1, rate=RATE, channels=1):
    """Tones that come and go over noise."""
    drawn = random.Random(seed)
    samples = [round(9000 * math.sin(i * 0.05 * (1 + i // 1600 * seed % 5)) * (i // 800 % 2) + drawn.uniform(-1500, 1500))
               for i in range(round(seconds * rate)) for _ in range(channels)]
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return path


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    return [write_sound(folder / f"{i}.wav", 0.5 + 0.4 * i, seed=i + 1) for i in range(4)]


def ok(*args, **options):
    result = run(*args, **options)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def heard(*args, model=MODEL, **options):
    return ok("transcribe", "--model", model, *args, **options)


def objects(*args, **options):
    return [json.loads(line) for line in heard("--json", *args, **options).splitlines()]


def failure(status, *args, **options):
    result = run(*args, **options)
    assert result.returncode == status and result.stdout == "", result
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("kind", KINDS)
def test_one_file_is_one_line(sounds, kind):
    for sound in sounds:
        text = heard(sound, model=HEARING / kind)
        assert text.endswith("\n") and set(text[:-1]) <= set("abc")
        (said,) = objects(sound, model=HEARING / kind)
        assert said["file"] == str(sound) and said["text"] == text[:-1] == "".join(t["text"] for t in said["tokens"])
        assert said["log_p"] < 0 and math.isclose(said["duration"], 0.5 + 0.4 * sounds.index(sound))
        times = [(t["start"], t["end"]) for t in said["tokens"]]
        assert all(0 <= start < end <= said["duration"] for start, end in times)
        assert times == sorted(times)
    assert len({heard(sound) for sound in sounds}) > 1


def test_several_files_are_named(sounds):
    lines = heard(*sounds).splitlines()
    assert lines == [f"{sound}\t{heard(sound)[:-1]}" for sound in sounds]
    assert [o["text"] for o in objects(*sounds)] == [line.split("\t")[1] for line in lines]


def test_standard_input(sounds):
    with sounds[2].open("rb") as file:
        assert heard("-", stdin=file) == heard(sounds[2])
    with sounds[2].open("rb") as file:
        (said,) = objects("-", stdin=file)
    assert said["file"] == "-"


def test_how_it_is_computed_changes_no_bit(sounds):
    plain = heard("--json", *sounds, "--threads", 1, "--precision", "f32")
    assert plain == heard("--json", *sounds, "--threads", 2, "--precision", "f32", "--isa", "plain")
    usual = heard("--json", *sounds, "--threads", 1)
    assert usual == heard("--json", *sounds, "--threads", 3)
    oracle = objects(*sounds, "--backend", "reference")
    assert [o["text"] for o in oracle] == [json.loads(line)["text"] for line in plain.splitlines()]


def test_a_beam_finds_what_is_as_likely(sounds):
    """A line is no less likely than its likeliest path, and none is likelier to a wide search than to a narrow one."""
    greedy, narrow, wide = (objects(*sounds, "--beam", n) for n in (0, 4, 256))
    for a, b, c in zip(greedy, narrow, wide, strict=True):
        assert a["log_p"] <= c["log_p"] + 1e-9 and b["log_p"] <= c["log_p"] + 1e-9


def test_other_rates_and_two_channels(tmp_path):
    (said,) = objects(write_sound(tmp_path / "a.wav", 1.0, rate=44100, channels=2))
    assert math.isclose(said["duration"], 1.0, abs_tol=0.01)


@pytest.mark.parametrize("seconds, words", [(1.95, "the sound is longer than"), (0.02, "the sound is shorter than 0.025 s")])
def test_sounds_have_limits(tmp_path, seconds, words):
    line = failure(2, "transcribe", "--model", MODEL, write_sound(tmp_path / "a.wav", seconds))
    assert f"a.wav: {words}" in line


def test_what_is_no_sound(tmp_path, sounds):
    (tmp_path / "text.wav").write_text("no sound at all")
    (tmp_path / "empty.wav").write_bytes(b"")
    (tmp_path / "cut.wav").write_bytes(sounds[0].read_bytes()[:-100])
    flags = ("transcribe", "--model", MODEL)
    assert "text.wav: this is no WAV, FLAC or Ogg file" in failure(2, *flags, tmp_path / "text.wav")
    assert "cut.wav: the WAV file is cut" in failure(2, *flags, tmp_path / "cut.wav")
    assert "empty.wav" in failure(1, *flags, tmp_path / "empty.wav")
    assert "none.wav" in failure(1, *flags, tmp_path / "none.wav")
    assert "standard input: it is empty" in failure(2, *flags, "-", input="")
    assert "standard input: this is no WAV" in failure(2, *flags, "-", input="nothing")


def test_the_first_fault_ends_it(sounds, tmp_path):
    result = run("transcribe", "--model", MODEL, sounds[0], tmp_path / "none.wav", sounds[1])
    assert result.returncode == 1 and result.stdout.splitlines() == [f"{sounds[0]}\t{heard(sounds[0])[:-1]}"]


def test_options_have_limits(sounds):
    assert "FILE... is missing" in failure(2, "transcribe", "--model", MODEL)
    assert "--beam: 257 is not a whole number from 0 to 256" in failure(2, "transcribe", "--model", MODEL, sounds[0], "--beam", 257)


def test_models_do_what_their_task_is(sounds):
    assert "model couplet has the task couplet and does not transcribe sounds" in failure(2, "transcribe", "--model",
    MODEL_DIR, sounds[0])
    for command in (("generate", "ab"), ("bench",), ("chat",)):
        assert "model linear has the task speech" in failure(2, command[0], "--model", MODEL, *command[1:])


# --- eval


def write_list(path, lines):
    path.write_text("".join(f"{file}\t{text}\n" for file, text in lines))
    return path


def evaluated(path, *flags):
    return json.loads(ok("eval", "--model", MODEL, path, "--json", *flags))


def test_eval_counts_what_is_wrong(sounds, tmp_path):
    texts = [heard(sound)[:-1] for sound in sounds]
    assert all(texts)
    right = write_list(sounds[0].parent / "right.tsv", [(sound.name, text) for sound, text in zip(sounds, texts)])
    report = evaluated(right)
    assert (report["files"], report["tokens"], report["wrong"]) == (4, sum(map(len, texts)), 0)
    assert (report["token_error_rate"], report["files_right"]) == (0, 1) and report["nll"] > 0
    assert math.isclose(report["seconds"], 0.5 + 0.9 + 1.3 + 1.7)
    # One changed, one added, one left out.
    other = {"a": "b", "b": "c", "c": "a"}
    wrong = [other[texts[0][0]] + texts[0][1:], texts[1] + other[texts[1][-1]], texts[2][1:] or texts[2], texts[3]]
    left_out = len(texts[2]) > 1
    report = evaluated(write_list(tmp_path / "wrong.tsv", zip(sounds, wrong)))
    assert report["wrong"] == 2 + left_out and report["files_right"] == (0.25 if left_out else 0.5)
    assert evaluated(right, "--limit", 1)["files"] == 1
    words = ok("eval", "--model", MODEL, right)
    assert "wrong            0.000 %: 0 of" in words and "nats per token" in words and "sounds" not in words


def test_eval_knows_how_likely_a_text_is(sounds, tmp_path):
    """All texts of one token and of none are together no more likely than 1."""
    likely = [math.exp(-evaluated(write_list(tmp_path / "list.tsv", [(sounds[0], c)]))["nll"]) for c in "abc"]
    assert 0 < sum(likely) < 1
    text = heard(sounds[0])[:-1]
    best = len(text) * evaluated(write_list(tmp_path / "list.tsv", [(sounds[0], text)]))["nll"]
    (greedy,) = objects(sounds[0])
    assert best <= -greedy["log_p"] + 1e-4  # its likeliest path is one of its paths
    longer = evaluated(write_list(tmp_path / "list.tsv", [(sounds[0], "ab" * 60)]))
    assert longer["nll"] is None and longer["tokens"] == 120
    assert "infinite: 1 files" in ok("eval", "--model", MODEL, tmp_path / "list.tsv")


@pytest.mark.parametrize("line, words", [
    ("0.wav", "list.tsv:1: a line is FILE TAB TEXT"),
    ("0.wav\t", "list.tsv:1: a line is FILE TAB TEXT"),
    ("0.wav\ta\tb", "list.tsv:1: a line is FILE TAB TEXT"),
    ("0.wav\tabd", 'list.tsv:1: "abd": byte 3 is of no character'),
    ("none.wav\ta", "list.tsv:1: none.wav:"),
    ("list.tsv\ta", "list.tsv:1: list.tsv: this is no WAV"),
])
def test_eval_refuses_lists_that_do_not_fit(sounds, tmp_path, line, words):
    shutil.copy(sounds[0], tmp_path / "0.wav")
    (tmp_path / "list.tsv").write_text(line + "\n")
    result = run("eval", "--model", MODEL, tmp_path / "list.tsv")
    assert result.returncode in (1, 2) and words in result.stderr, result


def test_eval_wants_a_list(tmp_path):
    assert "FILE is missing" in failure(2, "eval", "--model", MODEL)
    (tmp_path / "list.tsv").write_text("")
    assert "holds no sound" in failure(2, "eval", "--model", MODEL, tmp_path / "list.tsv")


# --- inspect


def test_inspect_says_what_it_is():
    words = ok("inspect", MODEL)
    for part in ("task         speech", "direction both", "head         ctc[4]", "speech       8000 samples per second",
                 "sounds       0.025 to 1.945 s", "state        none", "features.weight"):
        assert part in words, part
    said = json.loads(ok("inspect", "--json", "--no-tensors", MODEL))
    assert (said["task"], said["state_bytes"], said["sample_rate"], said["longest_sound"]) == ("speech", 0, 8000, 1.945)
    assert said["drafts"] is False
    assert "direction" not in ok("inspect", MODEL_DIR)  # which is not in every config
