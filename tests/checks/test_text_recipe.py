"""weights/train/text.py: tokens and rows of a text, the rows that a row may read, runs that are refused with one line,
and runs that continue. tests/http/test_own_model.py tests that the server computes the trained model."""

import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "train"))

import text  # noqa: E402
import text_data as data  # noqa: E402
import trainer  # noqa: E402

pytestmark = pytest.mark.training

LINES = ["宋\t春風\t明月", "a\tb\tcde", "唐\t\té\r", "", "x"] * 6
SMALL = ["--layers", "1", "--width", "16", "--heads", "2", "--length", "32", "--batch-tokens", "128", "--tokens", "1000",
         "--threads", "1", "--device", "cpu"]


def arguments(monkeypatch, file, run, *flags):
    monkeypatch.setattr(sys, "argv", ["text.py", "--data", str(file), "--run", str(run), *SMALL, *flags])
    return text.parse_arguments()


def refused(args):
    with pytest.raises(SystemExit) as ended:
        trainer.run(text.Text, args)
    line = str(ended.value)
    assert line.startswith("text.py: ") and "\n" not in line, line
    return line


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes("\n".join(LINES).encode())
    return path


# --- tokens and rows


@pytest.mark.parametrize("name", ["bytes", "characters"])
@pytest.mark.parametrize("ends", [False, True])
def test_tokens_are_the_text(name, ends):
    known = data.make_tokenizer(name, ["aab春春c"], 2, ends)
    assert known.size == 256 + ends + (2 if name == "characters" else 0)
    ids = known.encode("ab春\0月")
    texts = {i: bytes([i]) for i in range(256)} | {i: c.encode() for c, i in known.ids.items()}
    assert b"".join(texts[i] for i in ids).decode() == "ab春\0月"
    assert len(ids) == (1 + 1 + 1 + 1 + 3 if name == "characters" else 9)
    assert (known.file() is None) == (name == "bytes" and not ends)


def test_documents_lie_between_ends_and_what_is_given_is_not_predicted():
    known = data.make_tokenizer("bytes", [], 2, True)
    part = data.tokenize(["ab\tc\td", "e"], known, "\t")
    end = known.end
    assert part.values.tolist() == [end, 97, 98, 9, 99, 9, 100, end, 101, end]
    assert part.counted.tolist() == [True] + [False] * 5 + [True] * 4
    ids, targets, places = part.arrays(part.rows(8))
    assert ids[0].tolist()[:7] == [end, 97, 98, 9, 99, 9, 100] and ids[1].tolist()[:2] == [end, 101]
    assert targets.tolist() == [100, end, 101, end] and places.tolist() == [5, 6, 7, 8]


def test_a_text_that_windows_wrote(tmp_path):
    (tmp_path / "text").write_bytes("\ufeff一\r\n\r\n二\ufeff\r\n".encode())
    assert data.lines_of(data.read_text(tmp_path / "text")) == ["一", "二\ufeff"]


@pytest.mark.parametrize("length, offset", [(7, 0), (7, 3), (7, 6), (100, 5), (1, 0)])
def test_rows_predict_every_token_once(length, offset):
    known = data.make_tokenizer("bytes", [], 2, True)
    part = data.tokenize(["x" * n for n in (1, 2, 7, 8, 30)], known, None)
    rows = part.rows(length, offset)
    predicted = [at + 1 + i for at, n in rows.tolist() for i in range(n)]
    assert predicted == list(range(1, len(part.values))) and rows[:, 1].max() <= length
    for batch in data.batches(rows, 12 + length, numpy.random.default_rng(1)):
        assert len(batch) * batch[:, 1].max() <= 12 + length
    joined = numpy.concatenate(data.batches(rows, 12 + length, numpy.random.default_rng(1)))
    assert sorted(map(tuple, joined.tolist())) == sorted(map(tuple, rows.tolist()))


def test_what_a_row_is_padded_with_changes_nothing(monkeypatch, tmp_path, file):
    made = text.Text(arguments(monkeypatch, file, tmp_path / "run", "--lines"))
    torch.nn.init.normal_(made.model.head.weight)
    rows = made.train.rows(32)
    assert len(set(rows[:, 1].tolist())) > 1
    alone = sum(made.sum_of(made.train, row[None])[0].item() for row in rows)
    together, count = made.sum_of(made.train, rows)
    assert count == rows[:, 1].sum() and abs(together.item() - alone) < 2e-2 * alone  # products in bf16


# --- refused runs


@pytest.mark.parametrize("content, flags, words", [
    (b"", [], ["no text"]),
    (b" \n\n", ["--lines"], ["no text"]),
    (b"abc\xff", [], ["not UTF-8", "byte 3", "0xff"]),
    ("春".encode()[:2], [], ["not UTF-8", "byte 0"]),
    (b"x", [], ["too little"]),
    (b"one line", ["--lines"], ["too little", "1 lines"]),
    (b"twenty characters ..", [], ["too little", "17 tokens", "--length"]),
    (b"xyz" * 50, ["--width", "15"], ["--width 15", "--heads 2"]),
    (b"xyz" * 50, ["--layers", "0"], ["--layers 0"]),
    (b"xyz" * 50, ["--length", "1000"], ["--batch-tokens 128", "1000"]),
    (b"xyz" * 50, ["--held-out", "1"], ["--held-out 1"]),
    (b"xyz" * 50, ["--given", "\\t"], ["--given", "--lines"]),
    (b"xyz" * 50, ["--width", "65536", "--layers", "200", "--heads", "16"], ["parameters", "GiB", "--width"]),
    (b"xyz" * 50, ["--width", "65536", "--layers", "200"], ["d_key 32768", "4096"]),
    (b"xyz" * 50, ["--tokens", "0"], ["--tokens 0"]),
    (b"xyz" * 50, ["--minutes", "nan"], ["--minutes nan"]),
    (b"xyz" * 50, ["--threads", "0"], ["--threads 0"]),
    (b"xyz" * 50, ["--valid", "/nowhere/at/all"], ["/nowhere/at/all"]),
    (None, [], ["lines.txt", "No such file"]),
])
def test_what_cannot_be_trained(monkeypatch, tmp_path, file, content, flags, words):
    file.unlink() if content is None else file.write_bytes(content)
    line = refused(arguments(monkeypatch, file, tmp_path / "run", *flags))
    assert all(word in line for word in words), line
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_no_number_ends_the_run(monkeypatch, tmp_path, file):
    args = arguments(monkeypatch, file, tmp_path / "run", "--muon-lr", "1e30", "--adam-lr", "1e30", "--head-lr", "1e30",
                     "--warmup", "0", "--out", str(tmp_path / "out"))
    assert "lower rates" in refused(args) and not (tmp_path / "out").exists()


# --- runs that go on


def test_a_run_goes_on_and_not_with_another_text_or_size(monkeypatch, tmp_path, file):
    def begin(*flags):
        return arguments(monkeypatch, file, tmp_path / "run", "--lines", *flags)

    def tokens():
        return json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])["tokens"]

    trainer.run(text.Text, begin())
    first = tokens()
    trainer.run(text.Text, begin("--tokens", "2000"))
    assert first < 2000 <= tokens()
    assert "holds a run with --width 16, not 32" in refused(begin("--width", "32"))
    file.write_text("other words\n" * 40)
    assert "another --run" in refused(begin())


def test_a_run_on_bytes_does_not_go_on_with_another_text(monkeypatch, tmp_path, file):
    """Every text has the same 256 bytes as tokens, so no tokenizer tells them apart."""
    def begin(*flags):
        return arguments(monkeypatch, file, tmp_path / "run", "--tokenizer", "bytes", *flags)

    trainer.run(text.Text, begin())
    file.write_text("other words\n" * 40)
    assert "other data" in refused(begin("--tokens", "2000")) and "--run" in refused(begin("--tokens", "2000"))


@pytest.mark.parametrize("kind", text.THEIRS + text.OURS)
def test_every_kind_learns_and_is_written(monkeypatch, tmp_path, file, kind):
    file.write_text("abcdefgh" * 400)
    out = tmp_path / "out"
    trainer.run(text.Text, arguments(monkeypatch, file, tmp_path / "run", "--kind", kind, "--tokens", "16000",
                                     "--tokenizer", "bytes", "--out", str(out)))
    figure = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])["held_out"]
    assert figure < 1.6, figure  # of ln 8 = 2.08 nats, if the letter before is not looked at
    config = json.loads((out / "config.json").read_text())
    assert config.get("model_type", config.get("format")) == (kind if kind in text.THEIRS else "linnet")
