"""weights/train: data that is too little, of the wrong size or broken, and a loss that is no number, end a run with one line."""

import argparse
import gzip
import importlib
import json
import os
import pathlib
import re
import signal
import sys

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
tqdm = pytest.importorskip("tqdm")
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
    """One weight, whose loss the test sets."""
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


def run_recipe(folder, losses, *flags, make=None):
    p = argparse.ArgumentParser()
    trainer.add_arguments(p, tokens=4, batch_tokens=7, head_lr=0.1, data=False)
    args = p.parse_args(["--run", str(folder), "--device", "cpu", "--no-compile", *flags])
    trainer.run(make or (lambda args: Recipe(losses)), args)


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


class Stopping(Recipe):
    """Sends itself a signal in its third step."""
    data = [numpy.arange(3)]

    def __init__(self, number):
        super().__init__([1.0] * 5)
        self.number, self.steps = number, 0

    def loss(self, batch):
        self.steps += 1
        if self.number and self.steps == 3:
            os.kill(os.getpid(), self.number)
        return self.model.weight.square().sum() + batch


@pytest.fixture(autouse=True)
def ctrl_c_is_heard():
    """A shell that starts the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_same_command_goes_on(tmp_path, capsys, number):
    before = signal.getsignal(number)
    weights = []
    for run, numbers in (("whole", [None]), ("halves", [number, None])):
        for n in numbers:
            torch.manual_seed(1)
            recipe = Stopping(n)
            if n is None:
                run_recipe(tmp_path / run, [], "--tokens", "9", make=lambda args: recipe)  # noqa: B023 (it is called here)
                continue
            with pytest.raises(SystemExit) as ended:
                run_recipe(tmp_path / run, [], "--tokens", "9", make=lambda args: recipe)  # noqa: B023
            assert ended.value.code == 128 + number and recipe.steps == 3
            assert "stopped at step 3" in capsys.readouterr().err.splitlines()[-1]
            assert signal.getsignal(number) == before
        weights.append(recipe.model.weight.item())
    assert weights[0] == weights[1]
    assert json.loads((tmp_path / "halves/log.jsonl").read_text().splitlines()[-1])["step"] == 9


def test_a_second_signal_stops_at_once(tmp_path, capsys):
    recipe = Stopping(signal.SIGINT)
    recipe.loss = lambda batch: [os.kill(os.getpid(), signal.SIGINT) for _ in range(2)]
    with pytest.raises(SystemExit) as ended:
        run_recipe(tmp_path, [], make=lambda args: recipe)
    assert ended.value.code == 130 and capsys.readouterr().err.endswith(": interrupted\n")


def test_a_run_goes_on_with_its_own_data_only(tmp_path):
    run_recipe(tmp_path, [], make=lambda args: Stopping(None))
    run_recipe(tmp_path, [], "--tokens", "6", make=lambda args: Stopping(None))
    other = Stopping(None)
    other.data = [numpy.arange(4)]
    with pytest.raises(SystemExit, match="other data") as ended:
        run_recipe(tmp_path, [], "--tokens", "8", make=lambda args: other)
    assert "\n" not in str(ended.value)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)  # as checkpoints were written before
    del state["data"]
    torch.save(state, tmp_path / "checkpoint.pt")
    run_recipe(tmp_path, [], "--tokens", "8", make=lambda args: other)


def test_a_run_goes_on_with_its_own_arguments_only(tmp_path):
    """Those that decide what is learned; how long and where may change."""
    run_recipe(tmp_path, [1.0] * 5, "--seed", "3")
    recorded = json.loads((tmp_path / "arguments.json").read_text())
    assert recorded["seed"] == 3 and recorded["muon_lr"] == 0.02 and recorded["threads"] >= 1
    for flags, words in ((["--seed", "4"], "--seed 3, not 4"), (["--muon-lr", "0.01", "--seed", "3"], "--muon-lr 0.02, not 0.01"),
                         (["--seed", "3", "--set", "a=1"], "--set")):
        with pytest.raises(SystemExit) as ended:
            run_recipe(tmp_path, [1.0] * 5, *flags)
        assert words in str(ended.value) and "another --run" in str(ended.value) and "\n" not in str(ended.value)
    threads = recorded["threads"] + 1
    run_recipe(tmp_path, [1.0] * 5, "--seed", "3", "--tokens", "6", "--threads", str(threads), "--validate-every", "2")
    run_recipe(tmp_path, [1.0] * 5, "--seed", "3", "--tokens", "8")
    assert json.loads((tmp_path / "arguments.json").read_text())["threads"] == threads, "the number decides the order of sums"
    (tmp_path / "arguments.json").unlink()  # as runs were begun before
    run_recipe(tmp_path, [1.0] * 5, "--seed", "4", "--tokens", "10")


def scalars_of(folder):
    """{name: {step: value}} of the files that TensorBoard shows."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator").EventAccumulator(str(folder))
    loader.Reload()
    return {name: {event.step: round(event.value, 4) for event in loader.Scalars(name)} for name in loader.Tags()["scalars"]}


def test_tensorboard_shows_the_log(tmp_path):
    """Of both halves of a run: the option may be new when a run goes on."""
    pytest.importorskip("tensorboard")
    run_recipe(tmp_path / "without", [1.0] * 100)
    assert not (tmp_path / "without/tensorboard").exists()
    run_recipe(tmp_path / "without", [2.0] * 100, "--tensorboard", "--tokens", "60")
    assert scalars_of(tmp_path / "without/tensorboard")["figure"] == {60: 0.0}
    flags = ["--tensorboard", "--validate-every", "50"]
    for tokens in ("100", "150"):
        run_recipe(tmp_path / "run", [1.0] * 200, *flags, "--tokens", tokens)
    written = {}
    for line in (tmp_path / "run/log.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name in record.keys() - {"step"}:
            written.setdefault(name, {})[record["step"]] = round(record[name], 4)
    assert written["loss"].keys() == {50, 100, 150}
    assert scalars_of(tmp_path / "run/tensorboard") == written


def test_tensorboard_is_refused_before_training_if_it_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(SystemExit, match="--tensorboard needs the Python package tensorboard .* pip install tensorboard") as ended:
        run_recipe(tmp_path / "run", [], "--tensorboard", make=pytest.fail)
    assert "\n" not in str(ended.value) and not (tmp_path / "run").exists()


def test_threads_are_the_idle_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(trainer.pathlib.Path, "read_text", lambda path, encoding: "max 100000")
    for load, threads in ((0.2, 8), (3.1, 5), (50, 4)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0, 0))
        assert trainer.free_threads() == threads
    monkeypatch.setattr(trainer.pathlib.Path, "read_text", lambda path, encoding: "150000 100000")
    assert trainer.free_threads() == 1
    monkeypatch.setattr(os, "getloadavg", lambda: (0, 0, 0))
    assert trainer.free_threads() == 2


class Figures(Recipe):
    """Each step adds 1 to the weight; the figures of the validations are given."""
    config = {}

    def __init__(self, figures):
        super().__init__([1.0] * 1000)
        self.figures = iter(figures)
        self.exported = None
        with torch.no_grad():
            self.model.weight.fill_(0)

    def loss(self, batch):
        with torch.no_grad():
            self.model.weight += 1
        return super().loss(batch)

    def validate(self):
        return next(self.figures)

    def export(self, out):
        self.exported = round(self.model.weight.item())


QUIET = ["--muon-lr", "1e-12", "--adam-lr", "1e-12"]  # the optimizer moves nothing


@pytest.mark.parametrize("flags, exported", [([], 200), (["--best"], 100)])
def test_the_best_weights_are_kept(tmp_path, capsys, flags, exported):
    recipe = Figures([3.0, 1.0, 2.0, 2.0, 2.0])
    run_recipe(tmp_path, [], "--tokens", "200", "--validate-every", "50", "--out", str(tmp_path / "out"), *QUIET, *flags, make=lambda args: recipe)
    assert recipe.exported == exported
    assert capsys.readouterr().out.endswith(f"the model is in {tmp_path / 'out'}\n")
    assert round(torch.load(tmp_path / "best.pt", weights_only=True)["weight"].item()) == 100
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert last["figure"] == (1.0 if flags else 2.0)


def test_a_run_that_gets_no_better_ends(tmp_path):
    recipe = Figures([3.0, 1.0, float("nan"), 2.0, 2.5])
    run_recipe(tmp_path, [], "--tokens", "900", "--validate-every", "50", "--patience", "2", "--out", str(tmp_path / "out"), *QUIET,
               make=lambda args: recipe)
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])["step"] == 200
    assert recipe.exported == 100


def test_records_come_by_the_minute(monkeypatch, tmp_path, capsys):
    """Steps of 30 seconds: a record every minute, on standard output where there is no terminal."""
    clock = Clock()
    monkeypatch.setattr(trainer, "time", clock)
    recipe = Timed(clock)
    recipe.loss = lambda batch: (setattr(clock, "now", clock.now + 30), Recipe.loss(recipe, batch))[1]
    run_recipe(tmp_path, [], "--tokens", "9", make=lambda args: recipe)
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [record["step"] for record in records] == [2, 4, 6, 8]
    assert all({"loss", "tokens_per_second", "rate"} <= set(record) for record in records)


@pytest.mark.parametrize("recipe", ["couplet", "image", "mnist", "text", "poem", "copy_task", "speech"])
def test_help_has_every_default(monkeypatch, capsys, recipe):
    monkeypatch.setattr(sys, "argv", [f"{recipe}.py", "--help"])
    with pytest.raises(SystemExit):
        importlib.import_module(recipe).parse_arguments()
    options = dict((" ".join(entry.split()) + " ").split(" ", 1) for entry in re.split(r"\n  (?=--)", capsys.readouterr().out)[1:])
    assert len(options) > 20
    for option, default in (("--muon-lr", "0.02"), ("--seed", "1"), ("--batch-tokens", ""), ("--threads", "the idle cores")):
        assert f"(default: {default}" in options[option], options[option]
    bare = [option for option, rest in options.items() if not re.search("[a-z]{3}", re.sub(r"\{.*\}|\(default.*", "", rest))]
    assert not bare, f"without a word of help: {bare}"


@pytest.mark.parametrize("out", ["a-file", "a-file/below", "/proc/nothing/there"])
def test_a_model_that_cannot_be_written_is_not_trained(tmp_path, out):
    (tmp_path / "a-file").write_text("")
    with pytest.raises(SystemExit, match="--out .* cannot be written") as ended:
        run_recipe(tmp_path / "run", [], "--out", str(tmp_path / out), make=pytest.fail)
    assert "\n" not in str(ended.value) and not (tmp_path / "run").exists()


def test_a_refused_run_leaves_no_folder(tmp_path):
    def refuse(args):
        raise trainer.Unfit("no")

    with pytest.raises(SystemExit):
        run_recipe(tmp_path / "run", [], "--out", str(tmp_path / "out"), make=refuse)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("device", [*([] if torch.cuda.is_available() else ["cuda", "cuda:3"]), "foo"])
def test_a_device_that_is_not_there(tmp_path, device):
    with pytest.raises(SystemExit, match=f"--device {device}") as ended:
        run_recipe(tmp_path / "run", [], "--device", device, make=pytest.fail)
    assert "\n" not in str(ended.value)


class Clock:
    def __init__(self):
        self.now = trainer.BEGUN

    def time(self):
        return self.now


class Timed(Recipe):
    """Its first step takes 30 seconds, each later one 1, and its figure 4."""

    def __init__(self, clock):
        super().__init__([1.0] * 1000)
        self.clock, self.steps = clock, 0

    def loss(self, batch):
        self.clock.now += 1 if self.steps else 30
        self.steps += 1
        return super().loss(batch)

    def validate(self):
        self.clock.now += 4
        return 0.0


@pytest.mark.parametrize("every", ["50", "100000"])
def test_minutes_end_in_time(monkeypatch, tmp_path, every):
    clock, bars, rates = Clock(), [], []
    monkeypatch.setattr(trainer, "time", clock)
    monkeypatch.setattr(trainer, "tqdm", lambda **options: bars.append(trainer_bar(**options)) or bars[-1])
    recipe = Timed(clock)
    true_rate = trainer.rate
    monkeypatch.setattr(trainer, "rate", lambda progress, *more: rates.append(progress) or true_rate(progress, *more))
    run_recipe(tmp_path, [], "--minutes", "3", "--validate-every", every, make=lambda args: recipe)
    assert 175 <= clock.now - trainer.BEGUN <= 180, "the last figure is in time, too"
    assert bars[0].total == 180 and bars[0].unit == "s" and 170 <= bars[0].n <= 180
    assert rates[:2] == [0, 0] and rates[2] < 0.02 and 0.98 < rates[-1] < 1  # the compiling process is not the run
    steps = recipe.steps
    run_recipe(tmp_path, [], "--minutes", "3", make=lambda args: recipe)
    assert recipe.steps == steps, "it is complete"


def trainer_bar(**options):
    return tqdm.tqdm(**options | {"disable": False, "file": open(os.devnull, "w", encoding="utf-8")})


def test_mnist_kinds(monkeypatch, tmp_path, capsys):
    """Models of two kinds by one recipe; the figure is the program's for the exported models."""
    write_mnist(tmp_path, 5012)
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", numpy.zeros((3, 28, 28)))
    program = tmp_path / "linnet"
    program.write_text('#!/bin/sh\necho "$@" >>"$0.called"\necho \'{"bits_per_dim": 0.5}\'\n')
    program.chmod(0o755)
    runs = tmp_path / "runs"
    flags = ["--data", str(tmp_path), "--runs", str(runs), "--only", "lsh-4", "linear", "--tokens", "1568", "--batch-tokens", "1568",
             "--validate-on", "2", "--linnet", str(program)]
    for trained in (2, 0):  # a complete model is not trained again
        monkeypatch.setattr(sys, "argv", ["mnist_kinds.py", *flags])
        mnist_kinds.main()
        out = capsys.readouterr()
        assert out.out.splitlines()[2:] == ["| lsh-4 | 0.676 | 0.500 |", "| linear | 0.644 | 0.500 |"]
        assert out.err.count("training") == trained
    config = json.loads((runs / "lsh-4" / "model" / "config.json").read_text())
    assert config["attention"]["rounds"] == 4 and config["n_layers"] == 3
    assert [i["name"] for i in config["inputs"]] == ["token", "row", "column"]
    assert "--model " + str(runs / "linear" / "model") in (tmp_path / "linnet.called").read_text()
