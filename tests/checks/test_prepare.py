"""weights/train/prepare.py: its results for sources as they are published, and that it refuses wrong sources."""

import gzip
import io
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "train"))

import prepare  # noqa: E402


def run(monkeypatch, *arguments):
    """The line with which it ends, or None."""
    monkeypatch.setattr(sys, "argv", ["prepare.py", *map(str, arguments)])
    try:
        prepare.main()
    except SystemExit as ended:
        assert str(ended.code).startswith("prepare.py: ") and "\n" not in str(ended.code)
        return str(ended.code)


def lines(path):
    return lzma.open(path, "rt", encoding="utf-8").read().splitlines()


# --- mnist


@pytest.fixture
def digits(tmp_path, monkeypatch):
    """Four files of which one is packed, and their sums."""
    folder = tmp_path / "digits"
    folder.mkdir()
    for i, name in enumerate(prepare.MNIST):
        data = bytes([i]) * (100 + i)
        path = folder / (f"{name}.gz" if i == 2 else name)
        path.write_bytes(gzip.compress(data) if i == 2 else data)
        monkeypatch.setitem(prepare.MNIST, name, prepare.sum_of(data))
    return folder


def test_mnist_is_unpacked(digits, tmp_path, monkeypatch):
    assert run(monkeypatch, "mnist", digits, tmp_path / "out") is None
    assert [(tmp_path / "out" / name).read_bytes() for name in prepare.MNIST] == [bytes([i]) * (100 + i) for i in range(4)]


def test_another_file_is_refused_and_nothing_written(digits, tmp_path, monkeypatch):
    (digits / "train-labels-idx1-ubyte").write_bytes(b"another")
    assert "train-labels-idx1-ubyte" in run(monkeypatch, "mnist", digits, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert run(monkeypatch, "mnist", digits, tmp_path / "out", "--any") is None
    assert (tmp_path / "out/train-labels-idx1-ubyte").read_bytes() == b"another"


def test_a_file_that_is_missing_or_cut(digits, tmp_path, monkeypatch):
    packed = digits / "t10k-images-idx3-ubyte.gz"
    packed.write_bytes(packed.read_bytes()[:-9])
    assert "t10k-images-idx3-ubyte" in run(monkeypatch, "mnist", digits, tmp_path / "out")
    packed.unlink()
    assert "t10k-images-idx3-ubyte" in run(monkeypatch, "mnist", digits, tmp_path / "out")


# --- cifar10


def archive(path, records, leave_out=None):
    """The records of five batches and of the test, by file."""
    with tarfile.open(path, "w:gz") as out:
        for name, data in records.items():
            if name != leave_out:
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
                member.size = len(data)
                out.addfile(member, io.BytesIO(data))
    return path


def test_cifar_becomes_idx(tmp_path, monkeypatch):
    numpy = pytest.importorskip("numpy")
    names = [*prepare.CIFAR_FILES["train"], *prepare.CIFAR_FILES["test"]]
    pixels = numpy.random.default_rng(1).integers(256, size=(6, 2, 32, 32, 3), dtype=numpy.uint8)
    records = {name: b"".join(bytes([i]) + picture.transpose(2, 0, 1).tobytes() for picture in pixels[i])
               for i, name in enumerate(names)}
    monkeypatch.setattr(prepare, "CIFAR", {"train": (prepare.sum_of(pixels[:5].tobytes()), prepare.sum_of(bytes([0, 0, 1, 1, 2, 2, 3, 3, 4, 4]))),
                                           "test": (prepare.sum_of(pixels[5].tobytes()), prepare.sum_of(bytes([5, 5])))})
    source = archive(tmp_path / "cifar.tar.gz", records)
    assert run(monkeypatch, "cifar10", source, tmp_path / "out") is None
    head = b"".join(n.to_bytes(4, "big") for n in (2052, 10, 32, 32, 3))
    assert (tmp_path / "out/train-images.idx").read_bytes() == head + pixels[:5].tobytes()
    assert (tmp_path / "out/test-labels.idx").read_bytes() == b"\0\0\x08\x01\0\0\0\2\5\5"
    records[names[0]] = records[names[1]]
    assert "images, train" in run(monkeypatch, "cifar10", archive(tmp_path / "other.tar.gz", records), tmp_path / "none")
    assert names[4] in run(monkeypatch, "cifar10", archive(tmp_path / "other.tar.gz", records, leave_out=names[4]), tmp_path / "none")
    (tmp_path / "no.tar.gz").write_bytes(b"no archive")
    assert run(monkeypatch, "cifar10", tmp_path / "no.tar.gz", tmp_path / "none") and not (tmp_path / "none").exists()


# --- couplets


def write_pairs(folder, pairs):
    folder.mkdir(parents=True)
    for i, name in enumerate(("in.txt", "out.txt")):
        (folder / name).write_text("".join(f"{' '.join(pair[i])} \n" for pair in pairs), encoding="utf-8")


def test_couplets_lose_what_is_tested_uneven_or_there_twice(tmp_path, monkeypatch):
    write_pairs(tmp_path / "train", [("海上明月", "天涯此时"), ("春风", "秋雨"), ("海上明月", "天涯此时"), ("长", "不短"), ("春风", "夏雨")])
    write_pairs(tmp_path / "test", [("山", "水")])
    (tmp_path / "bad").write_text("脏\n")
    monkeypatch.setattr(prepare, "BADWORDS", prepare.sum_of("脏\n".encode()))
    monkeypatch.setattr(prepare, "COUPLETS", 5)
    monkeypatch.setattr(prepare, "COUPLET_TEST", prepare.sum_of("山\t水\n".encode()))
    asked = "couplet", tmp_path, tmp_path / "out", "--badwords", tmp_path / "bad"
    assert run(monkeypatch, *asked) is None
    assert lines(tmp_path / "out/train.tsv.xz") == ["海上明月\t天涯此时", "春风\t秋雨", "春风\t夏雨"]
    assert lines(tmp_path / "out/test.tsv.xz") == ["山\t水"] and (tmp_path / "out/badwords.txt").read_text() == "脏\n"
    monkeypatch.setattr(prepare, "COUPLETS", 6)
    assert "pairs: 5" in run(monkeypatch, *asked) and "--badwords" in run(monkeypatch, *asked[:3])
    (tmp_path / "train/out.txt").write_text("one line\n")
    assert "differ in length" in run(monkeypatch, *asked)


# --- poems


@pytest.fixture
def opencc(tmp_path, monkeypatch):
    """A stand-in that knows three characters; which configuration it is asked for is checked."""
    program = tmp_path / "bin/opencc"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$*" = "-c t2s.json" ] || exit 1\nexec sed "s/靜/静/g; s/頭/头/g; s/詞/词/g"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_poems_are_simplified_lines(opencc, tmp_path, monkeypatch):
    source = tmp_path / "source"
    whole = "床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。"
    tang = [{"author": "李白", "title": "靜夜思", "paragraphs": [whole[:12], whole[12:]]},
            {"author": "李白", "title": "又", "paragraphs": [whole]},  # there twice
            {"author": "甲", "title": "短", "paragraphs": ["床前明月光。"]},
            {"author": "乙", "title": "缺", "paragraphs": ["床前□月光，疑是地上霜。"]},
            {"author": "丙", "title": "注", "paragraphs": ["白日依山盡，（一作曰）黃河入海流。"]}]
    ci = [{"author": "丁", "rhythmic": "調笑詞", "paragraphs": ["明月几时有，把酒问青天。"]}]
    for folder, name, poems in (("全唐诗", "poet.tang.0.json", tang), ("宋词", "ci.song.0.json", ci)):
        (source / folder).mkdir(parents=True)
        (source / folder / name).write_text(json.dumps(poems, ensure_ascii=False), encoding="utf-8")
    monkeypatch.setattr(prepare, "POEM_COUNT", 6)
    assert run(monkeypatch, "poem", source, tmp_path / "out") is None
    made = lines(tmp_path / "out/train.tsv.xz") + lines(tmp_path / "out/test.tsv.xz")
    assert sorted(made) == sorted(["唐\t李白\t静夜思\t床前明月光，疑是地上霜。舉头望明月，低头思故鄉。", "唐\t丙\t注\t白日依山盡，黃河入海流。",
                                   "词\t丁\t調笑词\t明月几时有，把酒问青天。"])
    monkeypatch.setattr(prepare, "POEM_COUNT", 7)
    assert "poems: 6" in run(monkeypatch, "poem", source, tmp_path / "none")


def test_poems_want_the_program(tmp_path, monkeypatch):
    (tmp_path / "全唐诗").mkdir()
    (tmp_path / "全唐诗/poet.tang.0.json").write_text("[]")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "opencc" in run(monkeypatch, "poem", tmp_path, tmp_path / "out")


def test_it_runs_without_what_training_wants(tmp_path):
    done = subprocess.run([sys.executable, "-I", "-c", "import sys; sys.modules['numpy'] = sys.modules['torch'] = None\n"
                           f"sys.path.insert(0, {str(ROOT / 'weights/train')!r}); import prepare; sys.argv = ['prepare.py', 'mnist', '.', 'o']; prepare.main()"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("prepare.py: ") and done.stderr.count("\n") == 1, done.stderr
