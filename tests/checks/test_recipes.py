"""weights/train: data that is too little, of the wrong size or broken, and a loss that is no number, end a run with one line."""

import argparse
import gzip
import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = ROOT / "weights" / "train"
sys.path.insert(0, str(TRAIN))

import mnist  # noqa: E402
import mnist_kinds  # noqa: E402
import trainer  # noqa: E402

pytestmark = pytest.mark.training


def write_idx(path, values):
    head = numpy.array([2048 + values.ndim, *values.shape], ">i4").tobytes()
    data = head + values.astype(numpy.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_mnist(folder, count, side=28, labels=None, largest=9):
    write_idx(folder / "train-images-idx3-ubyte.gz", numpy.zeros((count, side, side)))
    write_idx(folder / "train-labels-idx1-ubyte", numpy.full(labels if labels is not None else count, largest))


def refused(monkeypatch, folder, *flags):
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--data", str(folder), "--run", str(folder / "run"), *flags])
    with pytest.raises(SystemExit) as ended:
        trainer.run(mnist.Mnist, mnist.parse_arguments())
    assert str(ended.value).startswith("mnist.py: ") and "\n" not in str(ended.value)
    assert not (folder / "run").exists()
    return str(ended.value)


@pytest.mark.parametrize("data, flags, words", [
    ({"count": 3000}, [], ["3000", "5000", "12"]),
    ({"count": 5011}, [], ["5011", "too few"]),
    ({"count": 6000, "side": 8}, [], ["8 x 8", "28 x 28"]),
    ({"count": 6000, "labels": 5999}, [], ["6000", "5999"]),
    ({"count": 6000, "largest": 10}, [], ["label 10"]),
    ({"count": 6000}, ["--batch-tokens", "500"], ["--batch-tokens", "784"]),
    ({"count": 6000}, ["--validate-on", "3"], ["--validate-on 3", "12"]),
    (None, [], ["train-images-idx3-ubyte"]),
])
def test_data_that_does_not_fit(monkeypatch, tmp_path, data, flags, words):
    if data is not None:
        write_mnist(tmp_path, **data)
    line = refused(monkeypatch, tmp_path, *flags)
    assert all(word in line for word in words), line


@pytest.mark.parametrize("broken", [b"", b"\0\0\10\3", b"no idx file at all, but long enough"])
def test_a_file_that_is_broken(monkeypatch, tmp_path, broken):
    write_mnist(tmp_path, 6000)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(broken)
    assert "labels" in refused(monkeypatch, tmp_path)


class Recipe:
    """One weight, whose loss is what the test says."""
    report, vocabulary, config = "figure", None, {}

    def __init__(self, losses):
        self.model, self.losses = torch.nn.Linear(1, 1), losses

    def batches(self, rng):
        return list(self.losses)

    def count(self, batch):
        return 1

    def loss(self, batch):
        return self.model.weight.sum() * 0 + batch

    def validate(self):
        return 0.0


def run_recipe(folder, losses):
    p = argparse.ArgumentParser()
    trainer.add_arguments(p, tokens=4, batch_tokens=7, head_lr=0.1, data=False)
    trainer.run(lambda args: Recipe(losses), p.parse_args(["--run", str(folder), "--device", "cpu"]))


def test_a_run_ends(tmp_path):
    run_recipe(tmp_path, [1.0, 2.0])
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])["tokens"] == 4


def test_data_that_fills_no_batch_ends_the_run(tmp_path):
    with pytest.raises(SystemExit) as ended:
        run_recipe(tmp_path, [])
    assert "too little" in str(ended.value) and "7 tokens" in str(ended.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_the_run(tmp_path, value):
    with pytest.raises(SystemExit) as ended:
        run_recipe(tmp_path, [1.0, value])
    assert "step 2" in str(ended.value) and str(value) in str(ended.value) and "--muon-lr" in str(ended.value)
    assert not (tmp_path / "checkpoint.pt").exists()  # the broken weights are not kept


def test_mnist_kinds(monkeypatch, tmp_path, capsys):
    """Models of two kinds by one recipe; the figure is what the program says of what was exported."""
    write_mnist(tmp_path, 5012)
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", numpy.zeros((3, 28, 28)))
    program = tmp_path / "linnet"
    program.write_text('#!/bin/sh\necho "$@" >>"$0.called"\necho \'{"bits_per_dim": 0.5}\'\n')
    program.chmod(0o755)
    runs = tmp_path / "runs"
    flags = ["--data", str(tmp_path), "--runs", str(runs), "--only", "lsh-4", "linear", "--tokens", "1568", "--batch-tokens", "1568",
             "--validate-on", "2", "--linnet", str(program)]
    for trained in (2, 0):  # what is complete is not trained again
        monkeypatch.setattr(sys, "argv", ["mnist_kinds.py", *flags])
        mnist_kinds.main()
        out = capsys.readouterr()
        assert out.out.splitlines()[2:] == ["| lsh-4 | 0.676 | 0.500 |", "| linear | 0.644 | 0.500 |"]
        assert out.err.count("training") == trained
    config = json.loads((runs / "lsh-4" / "model" / "config.json").read_text())
    assert config["attention"]["rounds"] == 4 and config["n_layers"] == 3
    assert [i["name"] for i in config["inputs"]] == ["token", "row", "column"]
    assert "--model " + str(runs / "linear" / "model") in (tmp_path / "linnet.called").read_text()
