"""weights/train/couplet.py and copy_task.py: files and options that cannot be trained on end with one line; a few couplets are
trained."""

import lzma
import pathlib
import re
import sys

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "train"))

import copy_task  # noqa: E402
import couplet  # noqa: E402
import couplet_data  # noqa: E402
import trainer  # noqa: E402

pytestmark = pytest.mark.training

PAIRS = [f"{a}{b}明月\t{b}{a}清风" for a in "春夏秋冬江河湖海天地山水" for b in "东南西北红黄蓝绿花草树木风雨云雪"]
PAIRS += [f"{a}{b}明月\t{b}{a}清风" for a in map(chr, range(0x5000, 0x5028)) for b in "东南西北红黄"]  # more characters than two lines
HELD_OUT = next(f"{a}{b}\t{b}{a}" for a in map(chr, range(0x4E00, 0x4F00)) for b in "一二三" if couplet_data.is_held_out((f"{a}{b}", "")))


def write(folder, content, bad="脏\n"):
    data = content if isinstance(content, bytes) else lzma.compress("".join(f"{line}\n" for line in content).encode())
    (folder / "train.tsv.xz").write_bytes(data)
    (folder / "badwords.txt").write_bytes(bad if isinstance(bad, bytes) else bad.encode())


def train(monkeypatch, folder, *flags, keep=None, settings=()):
    monkeypatch.setattr(sys, "argv", ["couplet.py", "--data", str(folder), "--run", str(folder / "run"), "--device", "cpu", "--threads", "1",
                                      "--no-compile", "--batch-tokens", "300", "--tokens", "900", *flags,
                                      *(f for s in ("n_layers=1", "n_heads=2", "d_model=16", "d_ff=16", *settings) for f in ("--set", s))])
    made = [] if keep is None else keep
    trainer.run(lambda args: made.append(couplet.Couplet(args)) or made[-1], couplet.parse_arguments())


def refused(monkeypatch, folder, *flags):
    with pytest.raises(SystemExit) as ended:
        train(monkeypatch, folder, *flags)
    line = str(ended.value)
    assert line.startswith("couplet.py: ") and "\n" not in line and not (folder / "run").exists(), line
    return line


def test_couplets_are_trained(monkeypatch, tmp_path):
    write(tmp_path, [*PAIRS, HELD_OUT, "不等\t长", "脏字\t在此"])
    train(monkeypatch, tmp_path)
    assert (tmp_path / "run/checkpoint.pt").exists()


WHOLE = lzma.compress("".join(f"{line}\n" for line in PAIRS).encode())


@pytest.mark.parametrize("content, words", [
    ([*PAIRS, HELD_OUT, "没有制表符"], [f"train.tsv.xz:{len(PAIRS) + 2}", "TAB"]),
    ([*PAIRS, "一\t二\t三"], [f"train.tsv.xz:{len(PAIRS) + 1}", "TAB"]),
    ([], ["too few", "held out"]),
    (["春风\t秋雨"], ["too few", "held out"]),
    ([HELD_OUT], ["too few", "trained on"]),
    (WHOLE[: len(WHOLE) // 2], ["train.tsv.xz", "unpacked"]),
    (b"no xz at all", ["train.tsv.xz", "unpacked"]),
    (lzma.compress("春\t秋\n".encode() + b"\xff\xfe\n"), ["train.tsv.xz", "UTF-8"]),
])
def test_files_that_cannot_be_trained_on(monkeypatch, tmp_path, content, words):
    write(tmp_path, content)
    line = refused(monkeypatch, tmp_path)
    assert all(word in line for word in words), line


@pytest.mark.parametrize("form", ["{}\r\n", "\ufeff{}\n", "\ufeff{}\r\n"], ids=["ends", "mark", "both"])
def test_files_that_windows_wrote(monkeypatch, tmp_path, form):
    """The mark is before the first line only."""
    mark, end = form.split("{}")
    pairs = [*PAIRS, "坏字\t一行", "坏事\t一日", "脏字\t在此", HELD_OUT]
    write(tmp_path, lzma.compress((mark + end.join([*pairs, ""])).encode()), bad=mark + end.join(["坏", "脏", ""]))
    made = []
    train(monkeypatch, tmp_path, keep=made)
    assert sum(made[0].couplets.values()) == len([p for p in PAIRS if not couplet_data.is_held_out(p.split("\t"))])
    assert not {"坏", "脏", "\r", "\ufeff"} & set(made[0].vocabulary)


def test_couplets_need_not_be_packed(monkeypatch, tmp_path):
    write(tmp_path, [*PAIRS, HELD_OUT])
    (tmp_path / "train.tsv").write_text("".join(f"{line}\n" for line in [*PAIRS, HELD_OUT]), encoding="utf-8")
    assert "both train.tsv and train.tsv.xz" in refused(monkeypatch, tmp_path)
    (tmp_path / "train.tsv.xz").unlink()
    train(monkeypatch, tmp_path)
    assert (tmp_path / "run/checkpoint.pt").exists()


def test_files_that_are_not_there(monkeypatch, tmp_path):
    assert "neither train.tsv nor train.tsv.xz" in refused(monkeypatch, tmp_path)
    write(tmp_path, [*PAIRS, HELD_OUT], bad=b"\xff")
    assert "badwords.txt" in refused(monkeypatch, tmp_path)
    (tmp_path / "badwords.txt").unlink()
    assert "badwords.txt is missing" in refused(monkeypatch, tmp_path)


@pytest.mark.parametrize("flags, words", [
    (["--alphabet", "37"], ["--alphabet 37", "36"]),
    (["--length", "0"], ["--length 0"]),
    (["--streams", "token,left"], ["--streams", "left"]),
    (["--batch-tokens", "0"], ["--batch-tokens 0"]),
])
def test_sequences_that_cannot_be_made(monkeypatch, tmp_path, flags, words):
    monkeypatch.setattr(sys, "argv", ["copy_task.py", "--run", str(tmp_path / "run"), "--device", "cpu", *flags])
    with pytest.raises(SystemExit) as ended:
        trainer.run(copy_task.Copy, copy_task.parse_arguments())
    line = str(ended.value)
    assert line.startswith("copy_task.py: ") and "\n" not in line and all(word in line for word in words), line
    assert not (tmp_path / "run").exists()


def test_inputs_are_those_of_the_task():
    """A pair of each length in one batch, compared with the docstring of couplet_data for each token."""
    pairs = {n: torch.arange(10, 10 + 4 * n).view(2, 2, n).to(torch.int16) for n in (1, 3, 4)}
    rows = torch.cat([torch.nn.functional.pad(p, (0, 4 - n)) for n, p in pairs.items()])
    ids, places, targets = couplet_data.make_inputs(rows, torch.tensor([1, 1, 3, 3, 4, 4]))
    for b, (n, i) in enumerate((n, i) for n in pairs for i in range(2)):
        upper, lower = pairs[n][i].tolist()
        want = [[couplet_data.BOS, 0, 0, couplet_data.NONE]]
        want += [[c, j + 1, 0, couplet_data.NONE] for j, c in enumerate(upper)]
        want += [[c, j + 1, n - j, upper[j]] for j, c in enumerate([couplet_data.SEP, *lower[:-1]])]
        assert ids[b, : 2 * n + 1].tolist() == want
        assert places[b, :n].tolist() == list(range(n + 1, 2 * n + 1))
        assert targets[b].tolist() == lower + [-100] * (4 - n)
        assert 0 <= ids[b].min() and ids[b, :, 1:3].max() <= couplet_data.MAX_CHARS and places[b].max() <= 8


def test_separators_say_what_is_given():
    rows = torch.arange(10, 22).view(3, 2, 2).to(torch.int16)
    ids, _, _ = couplet_data.make_inputs(rows, torch.tensor([2, 2, 2]), torch.tensor([couplet_data.SEP, 90, 91]))
    assert ids[:, 3, 0].tolist() == [couplet_data.SEP, 90, 91]


def verses(folder, lines):
    path = folder / "verses.tsv.xz"
    path.write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode()))
    return str(path)


def test_both_ways_and_verses(monkeypatch, tmp_path):
    write(tmp_path, [*PAIRS, HELD_OUT])
    made = []
    train(monkeypatch, tmp_path, "--both-ways", "0.5", "--verses", verses(tmp_path, ["白日依山尽\t黄河入海流", "春夏明月\t秋冬清风"]), "--verses-part", "1",
          "--out", str(tmp_path / "teacher"), keep=made)
    recipe = made[0]
    words = recipe.vocabulary
    assert words[-3:] == couplet_data.MARKS
    counted = dict.fromkeys(couplet_data.MARKS + ["<sep>"], 0)
    for batch in recipe.batches(numpy.random.default_rng(1)):
        parts, separators = recipe.parts_of(batch)
        rows = [row for part in parts for row in part.tolist()]
        assert len(rows) == len(separators)
        for (given, answer), separator in zip(rows, separators.tolist()):
            mark = words[separator]
            counted[mark] += 1
            if len(given) == 4 and mark in ("<sep>", "<back>"):  # 明月 ends every upper line, 清风 every lower one
                assert ("".join(words[i] for i in given)[2:] == "明月") == (mark == "<sep>")
    trained = [p for p in PAIRS if not couplet_data.is_held_out(tuple(p.split("\t")))]
    assert sum(counted.values()) == len(trained) + 2 and counted["<verse>"] + counted["<verseback>"] == 2
    assert counted["<back>"] > len(PAIRS) / 4 and counted["<sep>"] > len(PAIRS) / 4

    # A student begins as its teacher, whose distribution it then keeps: the cross entropy to it is its entropy.
    flags = ["--both-ways", "0.5", "--verses", str(tmp_path / "verses.tsv.xz"), "--init", str(tmp_path / "teacher"), "--run", str(tmp_path / "r2")]
    train(monkeypatch, tmp_path, *flags, "--teacher", str(tmp_path / "teacher"), "--teacher-part", "1", "--tokens", "1", keep=made)
    student = made[1]
    trainer.load_exported(tmp_path / "teacher", student.model)
    part = student.pairs[4][:5]
    with torch.no_grad():
        taught = student.loss_of([part], couplet_data.SEP, student.teacher).item()
        ids, _, _ = couplet_data.make_inputs(part, torch.full((5,), 4), couplet_data.SEP)
        logs = torch.log_softmax(student.teacher.double()(ids)[:, -4:], -1)
    assert taught == pytest.approx(-(logs.exp() * logs).sum(-1).mean().item(), abs=2e-2)


def test_too_few_characters_for_a_model_that_is_served(monkeypatch, tmp_path):
    write(tmp_path, [*PAIRS[:192], HELD_OUT])
    line = refused(monkeypatch, tmp_path)
    assert "too few" in line and "more than 64" in line
    characters = [chr(i) for i in range(0x4E00, 0x4E41)]
    couplet_data.check_vocabulary([*couplet_data.SPECIALS, *characters, "，", "·", *couplet_data.MARKS])
    with pytest.raises(couplet_data.Unfit, match=": 64 characters"):
        couplet_data.check_vocabulary([*couplet_data.SPECIALS, *characters[:64], "，", "·", *couplet_data.MARKS])


def test_punctuation_is_the_servers():
    code = (ROOT / "model/characters.c").read_text(encoding="utf-8")
    table = code[code.index("bool lx_char_is_punctuation") :]
    ranges = re.findall(r"\{(0x\w+), *(0x\w+)\}", table[: table.index("return")])
    assert [(int(a, 16), int(b, 16)) for a, b in ranges] == couplet_data.PUNCTUATION


@pytest.mark.parametrize("setting, words", [
    ("n_layers=0", ["n_layers 0", "1 to 256"]), ("n_layers=-1", ["n_layers -1"]), ("n_layers=257", ["n_layers 257"]),
    ("d_ff=0", ["d_ff 0"]), ("n_heads=3", ["d_model 16", "n_heads 3"]), ("n_heads=0", ["n_heads 0"]), ("norm_eps=0", ["norm_eps 0"]),
    ("attention.eps=2", ["eps 2"]), ("attention.n_heads=0", ["n_heads 0"]), ("attention.d_value=5000", ["d_value 5000"]),
    ("attention.feature_map=tanh", ["tanh"]), ("norm=sandwich", ["norm sandwich"]), ("activation=relu", ["activation relu"]),
    ("max_chars=16", ["max_chars=16", "data"]), ("head.size=5", ["head.size=5", "data"]), ("task=text", ["task=text", "data"]),
    ("n_layers=abc", ["n_layers=abc", "JSON"]), ("n_layers", ["FIELD=VALUE"]), ("n_layers=", ["n_layers=", "JSON"]),
    ("n_layers=2.5", ["n_layers=2.5", "kind"]), ("n_layers=true", ["n_layers=true"]), ('d_ff="16"', ["d_ff="]), ("norm_eps=NaN", ["NaN"]),
    ("nothing=1", ["nothing=1", "no such value"]), ("norm.kind=1", ["no such value"]), ("attention.eps.x=1", ["no such value"]),
    ("attention.feature_map.x=1", ["no such value"]), ("mixer=nothing", ["kind nothing"]), ("mixer=heads", ["kind heads"]),
    ("mixer=", ["there is no kind"]), ("attention=[", ["JSON"]), ("attention=5", ["list"]), ("attention=[{}]", ["kind"]),
    ('attention=[{"kind": "linear"}, {"kind": "linear"}]', ["2 entries"]),
])
def test_settings_that_no_server_takes(monkeypatch, tmp_path, setting, words):
    write(tmp_path, [*PAIRS, HELD_OUT])
    with pytest.raises(SystemExit) as ended:
        train(monkeypatch, tmp_path, settings=[setting])
    line = str(ended.value)
    assert line.startswith("couplet.py: ") and "\n" not in line and all(word in line for word in words), line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("flags", [["--seed", "-1"], ["--seed", "99999999999999999999"], ["--threads", "100000"], ["--threads", "0"]])
def test_seeds_and_threads_have_a_range(monkeypatch, tmp_path, flags):
    write(tmp_path, [*PAIRS, HELD_OUT])
    assert f"{' '.join(flags)} is not from" in refused(monkeypatch, tmp_path, *flags)


@pytest.mark.parametrize("flag", ["--both-ways", "--verses-part", "--teacher-part"])
def test_parts_are_from_0_to_1(monkeypatch, tmp_path, flag):
    write(tmp_path, [*PAIRS, HELD_OUT])
    assert f"{flag} 1.5 is not from 0 to 1" in refused(monkeypatch, tmp_path, flag, "1.5")


def test_a_teacher_of_another_vocabulary_is_refused(monkeypatch, tmp_path):
    write(tmp_path, [*PAIRS, HELD_OUT])
    train(monkeypatch, tmp_path, "--out", str(tmp_path / "teacher"))
    write(tmp_path, [*PAIRS, *["新字\t旧词"] * 9, HELD_OUT])
    with pytest.raises(SystemExit) as ended:
        train(monkeypatch, tmp_path, "--teacher", str(tmp_path / "teacher"), "--run", str(tmp_path / "r2"))
    assert "another vocabulary" in str(ended.value) and "\n" not in str(ended.value)


def test_verses_are_pairs_of_poems():
    import verses as recipe
    poem = "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。"
    assert recipe.pairs_of(poem + "短，句。一二三四、五六七八九。") == [("白日依山尽", "黄河入海流"), ("欲穷千里目", "更上一层楼")]
    assert recipe.choose([poem, poem], [("欲穷千里目", "更上一层楼")], []) == [("白日依山尽", "黄河入海流")]
    assert recipe.choose([poem], [], [("甲", "更上一层楼")]) == [("白日依山尽", "黄河入海流")]


def test_full_batches_hold_every_pair_once():
    data = {n: numpy.zeros((count, 2, n)) for n, count in ((1, 30), (2, 3), (3, 2), (7, 90), (32, 1))}
    batches = couplet_data.full_batches(data, 150, numpy.random.default_rng(3))
    seen = sorted((n, row) for batch in batches for n, rows in batch for row in rows.tolist())
    assert seen == [(n, row) for n in data for row in range(len(data[n]))]
    filled = sorted(sum(len(rows) for _, rows in batch) * (2 * max(n for n, _ in batch) + 1) for batch in batches)
    assert filled[-1] <= 150 and filled[2] > 150 - 65  # all but the last two: a pair of 32 characters is alone
    assert couplet_data.full_batches({}, 150, numpy.random.default_rng(3)) == []


def test_a_pair_has_the_same_loss_whatever_it_is_filled_up_to(monkeypatch, tmp_path):
    write(tmp_path, [*PAIRS, *(f"{p.split(chr(9))[0]}长\t{p.split(chr(9))[1]}短" for p in PAIRS[:9]), HELD_OUT])
    made = []
    train(monkeypatch, tmp_path, "--full-batches", keep=made)
    recipe = made[0]
    short, long = recipe.pairs[4][:3], recipe.pairs[5][:2]
    with torch.no_grad():
        alone, further, both = (recipe.loss_of(parts).item() for parts in ([short], [long], [short, long]))
    assert both == pytest.approx((12 * alone + 10 * further) / 22, abs=2e-2)  # products in bf16
