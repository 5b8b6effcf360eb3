"""weights/train/speech.py: features equal the server's fixtures, and bidirectional attention equals its equation.
Streams have the digits of their recordings, the export of a short run has every tensor, and data that does not fit is
refused."""

import importlib
import itertools
import json
import pathlib
import sys
import wave

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "train"))

import export  # noqa: E402
import speech  # noqa: E402
import speech_data as data  # noqa: E402
import speech_kinds  # noqa: E402
import trainer  # noqa: E402
from mixers import bilstm, linear  # noqa: E402

pytestmark = pytest.mark.training

SETTINGS = ["sample_rate", "frame", "hop", "bands", "lowest", "stride", "context"]


@pytest.mark.parametrize("name", ["digits", "one-frame", "wide-band", "silence"])
def test_features_are_those_of_the_fixture(name):
    blob = (ROOT / f"tests/golden/speech/{name}.bin").read_bytes()
    n, rows, width, *settings = numpy.frombuffer(blob, "<i4", 10).tolist()
    samples = numpy.frombuffer(blob, "<f4", n, 40)
    want = numpy.frombuffer(blob, "<f4", rows * width, 40 + 4 * n).reshape(rows, width)
    config = dict(zip(SETTINGS, settings))
    assert data.row_width(config) == width
    assert numpy.abs(data.features(samples.astype(numpy.float64), config) - want).max() < 1e-6
    assert numpy.abs(data.features(samples, config) - want).max() < 1e-3  # the features that a model learns from


def test_less_than_a_frame_is_refused():
    with pytest.raises(data.Unfit, match="199 samples"):
        data.features(numpy.zeros(199), data.make_config(8000))


def test_attention_both_ways_is_its_equation():
    torch.manual_seed(1)
    q, k, v = (torch.rand(2, 3, 17, n, dtype=torch.float64) for n in (8, 8, 5))
    got = linear.both_ways(q, k, v, 1e-6)
    for b, h, i in itertools.product(range(2), range(3), range(17)):
        weights = k[b, h] @ q[b, h, i]
        assert torch.allclose(got[b, h, i], weights @ v[b, h] / (weights.sum() + 1e-6), rtol=1e-5)


KINDS = {"linear": {}, "softmax": {}, "lsh": {"rounds": 3, "buckets": 6, "cap": 4}, "bilstm": {"hidden": 7}}


def make_mixer(kind, d_model=8, task="speech", **settings):
    module = importlib.import_module(f"mixers.{kind}")
    own = module.DEFAULTS | KINDS[kind] | {"n_heads": 2, "d_key": 4, "d_value": 3, "direction": "both"} | settings
    return module.Mixer({"task": task, "d_model": d_model}, own)


@pytest.mark.parametrize("task, direction", [("text", "both"), ("speech", "forward"), ("speech", "back")])
@pytest.mark.parametrize("kind", KINDS)
def test_only_speech_looks_both_ways(kind, task, direction):
    with pytest.raises(data.Unfit, match="attention.direction"):
        make_mixer(kind, task=task, direction=direction)


def test_an_lstm_looks_both_ways():
    own = bilstm.DEFAULTS | {"n_heads": 1, "d_key": 2, "d_value": 2}
    with pytest.raises(data.Unfit, match="attention.direction of bilstm"):
        bilstm.Mixer({"task": "speech", "d_model": 2}, own)


def step_by_step(mixer, x):
    """[T, d] -> [T, d] of an LSTM both ways, by its equations."""
    n, rows = len(mixer.u) // 2, [[], []]
    for way in range(2):
        w, u, b = (part.chunk(2)[way] for part in (mixer.x.weight, mixer.u, mixer.x.bias))
        h = c = torch.zeros(n, dtype=x.dtype)
        for row in x if way == 0 else x.flip(0):
            i, f, g, o = (w @ row + h @ u + b).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            rows[way].append(h)
    return torch.stack([mixer.out(torch.cat([a, b])) for a, b in zip(rows[0], rows[1][::-1])])


def attended(q, k, v, seen):
    """Softmax of q . k over the rows that are listed, a row as often as it is listed."""
    weights = torch.stack([q @ k[j] for j in seen]).softmax(0)
    return sum(w * v[j] for w, j in zip(weights, seen))


def row_by_row(kind, mixer, x):
    """[T, d] -> [T, d] of softmax and lsh."""
    rows, (t, heads) = (mixer.qkv if kind == "softmax" else mixer.qk_v)(x), (len(x), mixer.n_heads)
    y = torch.empty(t, heads, 3, dtype=x.dtype)
    for h, i in itertools.product(range(heads), range(t)):
        q, v = rows[:, 4 * h : 4 * h + 4], rows[:, rows.shape[1] - 3 * (heads - h) :][:, :3]
        if kind == "softmax":
            k, seen = rows[:, 4 * (heads + h) :][:, :4], range(t)
        else:
            k, seen = q / q.norm(dim=1, keepdim=True), []
            for hashes in mixer.hashes.to(x.dtype).view(3, 4, 3):
                said = [[*(row @ hashes).tolist(), *(-row @ hashes).tolist()] for row in q]
                order = sorted(range(t), key=lambda j: (said[j].index(max(said[j])), j))
                chunk = order.index(i) // 4
                seen += [j for at, j in enumerate(order) if abs(at // 4 - chunk) <= 1 and j != i]
        y[i, h] = attended(q[i] / 2, k, v, seen) if seen else v[i]
    return mixer.out(y.flatten(1))


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 21])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "linear"])
def test_a_mixer_both_ways_is_its_equation(kind, rows):
    """Alone, and as the middle one of three inputs."""
    torch.manual_seed(3)
    mixer, x = make_mixer(kind).double(), torch.randn(3, rows, 8, dtype=torch.float64)
    torch.nn.init.normal_(mixer.out.weight)
    with torch.no_grad():
        want = step_by_step(mixer, x[1]) if kind == "bilstm" else row_by_row(kind, mixer, x[1])
        for got in mixer(x[1:2])[0], mixer(x)[1]:
            assert (got - want).abs().max() < (1e-5 if kind == "lsh" else 1e-12)  # which computes in f32


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_learned_has_a_gradient(kind):
    torch.manual_seed(4)
    mixer = make_mixer(kind)
    torch.nn.init.normal_(mixer.out.weight)
    mixer(torch.randn(2, 21, 8)).square().sum().backward()
    for name, parameter in mixer.named_parameters():
        assert not parameter.requires_grad or (parameter.grad.isfinite().all() and parameter.grad.abs().max() > 0), name


def test_a_kind_that_looks_back_alone_is_refused(monkeypatch, tmp_path):
    write_digits(tmp_path / "data")
    with pytest.raises(SystemExit, match="mixer rwkv7 does not look both ways"):
        run(monkeypatch, tmp_path, "--set", "mixer=rwkv7")


def test_errors_are_the_least_changes():
    assert data.errors([], []) == 0 and data.errors([1, 2], []) == 2 and data.errors([], [3]) == 1
    assert data.errors([1, 2, 3], [1, 3]) == 1 and data.errors([1, 2, 3], [2, 3, 4]) == 2 and data.errors([5, 5], [5]) == 1
    rng = numpy.random.default_rng(1)
    for _ in range(50):
        a, b = (rng.integers(3, size=rng.integers(6)).tolist() for _ in range(2))
        assert abs(len(a) - len(b)) <= data.errors(a, b) == data.errors(b, a) <= max(len(a), len(b))


def test_repeats_become_one_and_blanks_none():
    assert speech.collapse([0, 3, 3, 0, 3, 1, 0, 0]) == [2, 2, 0] and speech.collapse([0, 0]) == []


def write_wav(path, samples, rate=8000, channels=1):
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes((samples * 32767).astype("<i2").tobytes())


def write_digits(folder, speakers=("ann", "bob"), indexes=10):
    """A digit is a tone of its own."""
    folder.mkdir()
    for speaker, digit, index in itertools.product(speakers, range(10), range(indexes)):
        t = numpy.arange(1200 + 20 * index) / 8000
        write_wav(folder / f"{digit}_{speaker}_{index}.wav", 0.5 * numpy.sin(2 * numpy.pi * (200 + 300 * digit) * t))


def test_streams_are_what_was_joined(tmp_path):
    write_digits(tmp_path / "data")
    found = data.Recordings(tmp_path / "data")
    assert found.rate == 8000
    part, rng = found.part(["ann"], 8, 1000), numpy.random.default_rng(2)
    for _ in range(30):
        samples, digits = data.join(part, found.rate, rng, 5)
        assert 1 <= len(digits) <= 5
        spectrum = numpy.abs(numpy.fft.rfft(samples))
        at = [round((200 + 300 * d) * len(samples) / 8000) for d in range(10)]
        loud = {d for d in range(10) if spectrum[max(0, at[d] - 3) : at[d] + 4].max() > 0.1 * spectrum.max()}
        assert loud == set(digits)


def run(monkeypatch, folder, *flags):
    monkeypatch.setattr(sys, "argv", ["speech.py", "--data", str(folder / "data"), "--run", str(folder / "run"), "--no-compile",
                                      "--threads", "1", "--layers", "1", "--width", "16", "--heads", "2", "--unseen", "bob", *flags])
    trainer.run(speech.Speech, speech.parse_arguments())


def test_a_run_exports_a_model(monkeypatch, tmp_path):
    write_digits(tmp_path / "data")
    run(monkeypatch, tmp_path, "--tokens", "900", "--batch-tokens", "300", "--out", str(tmp_path / "model"))
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["task"] == "speech" and config["speech"] == data.make_config(8000)
    assert config["attention"]["direction"] == "both" and config["head"] == {"kind": "ctc", "size": 11}
    assert (tmp_path / "model/vocab.txt").read_text().split() == speech.VOCABULARY
    tensors = export.read_safetensors(tmp_path / "model/model.safetensors")
    assert list(tensors["features.weight"].shape) == [16, 600] and list(tensors["embed.position.weight"].shape) == [1024, 16]
    assert tensors["head.bias"].abs().max() > 0  # it has learned
    assert {"layers.0.attn.qkv.weight", "layers.0.ff.down.bias", "final_norm.weight", "head.weight"} <= set(tensors)


@pytest.mark.parametrize("kind, tensors", [
    ("softmax", {"attn.qkv.weight", "ff.up.weight"}),
    ("lsh", {"attn.qk_v.bias", "attn.hashes", "ff.up.weight"}),
    ("bilstm", {"attn.x.weight", "attn.x.bias", "attn.u", "attn.out.bias"})])
def test_other_kinds_export_theirs(kind, tensors, monkeypatch, tmp_path):
    write_digits(tmp_path / "data")
    run(monkeypatch, tmp_path, "--tokens", "600", "--batch-tokens", "300", "--set", f"mixer={kind}", "--out", str(tmp_path / "model"))
    attention = json.loads((tmp_path / "model/config.json").read_text())["attention"]
    assert attention == {"kind": kind, "direction": "both"} | importlib.import_module(f"mixers.{kind}").DEFAULTS
    names = set(export.read_safetensors(tmp_path / "model/model.safetensors"))
    assert {f"layers.0.{name}" for name in tensors} <= names and ("layers.0.ff.up.weight" in names) == (kind != "bilstm")


def test_speech_kinds(monkeypatch, tmp_path, capsys):
    """Models of two kinds by one recipe; the figures are the program's for the exported models."""
    write_digits(tmp_path / "data")
    program = tmp_path / "linnet"
    program.write_text('#!/bin/sh\necho "$@" >>"$0.called"\necho \'{"parameters": 1234, "token_error_rate": 0.0625}\'\n')
    program.chmod(0o755)
    flags = ["--data", str(tmp_path / "data"), "--runs", str(tmp_path / "runs"), "--only", "bilstm", "lsh-4", "--tokens", "900",
             "--linnet", str(program), "--unseen", "bob", "--streams", "3", "--batch-tokens", "300", "--width", "16"]
    for trained in (2, 0):  # a complete model is not trained again
        monkeypatch.setattr(sys, "argv", ["speech_kinds.py", *flags])
        speech_kinds.main()
        out = capsys.readouterr()
        assert out.out.splitlines()[2:] == ["| bilstm | 3 | 1,234 | 10.94 % | 6.25 % | 6.25 % |",
                                           "| lsh-4 | 4 | 1,234 | 9.33 % | 6.25 % | 6.25 % |"]
        assert out.err.count("training") == trained
    config = json.loads((tmp_path / "runs/lsh-4/model/config.json").read_text())
    assert config["attention"]["cap"] == 8 and config["n_layers"] == 4 and config["d_model"] == 16
    assert all(len((tmp_path / "runs" / part / "list.tsv").read_text().splitlines()) == 3 for part in ("test", "unseen"))
    called = (tmp_path / "linnet.called").read_text()
    assert "eval --model " + str(tmp_path / "runs/bilstm/model") in called and "inspect " in called


def test_a_batch_is_the_same_whenever_it_is_made(tmp_path, monkeypatch):
    write_digits(tmp_path / "data")
    made = []

    class Kept(speech.Speech):
        def loss(self, seed):
            made.append(self.streams(seed))
            again = self.streams(seed)
            assert [d for _, d in again] == [d for _, d in made[-1]]
            assert all((a == b).all() for (a, _), (b, _) in zip(again, made[-1]))
            assert len({len(samples) for samples, _ in again}) == 1
            return super().loss(seed)

    monkeypatch.setattr(speech, "Speech", Kept)
    run(monkeypatch, tmp_path, "--tokens", "600", "--batch-tokens", "300")
    assert len(made) == 2 and made[0][0][1] != made[1][0][1]


@pytest.mark.parametrize("change, flags, words", [
    (lambda d: [p.unlink() for p in d.iterdir()], [], "no recordings"),
    (lambda d: (d / "1_ann_0.wav").rename(d / "one.wav"), [], "not named DIGIT_SPEAKER_INDEX.wav"),
    (lambda d: (d / "1_ann_0.wav").write_bytes(b"RIFF"), [], "1_ann_0.wav is no WAV file"),
    (lambda d: write_wav(d / "1_ann_0.wav", numpy.zeros(1000), channels=2), [], "is not mono of 16 bits"),
    (lambda d: write_wav(d / "1_ann_0.wav", numpy.zeros(1000), rate=16000), [], "samples per second"),
    (lambda d: [(d / f"7_ann_{i}.wav").unlink() for i in (5, 6, 7)], [], "recordings 5 to 7 of a digit are missing for ann"),
    (lambda d: None, ["--unseen", "eve"], "--unseen eve is none of the speakers ann, bob"),
    (lambda d: None, ["--most", "0"], "--most 0 is not from 1 to 20"),
])
def test_data_that_does_not_fit(monkeypatch, tmp_path, change, flags, words):
    write_digits(tmp_path / "data")
    change(tmp_path / "data")
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, tmp_path, *flags)
    assert str(ended.value).startswith("speech.py: ") and words in str(ended.value) and not (tmp_path / "run").exists()
