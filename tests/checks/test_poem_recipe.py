"""weights/train/poem.py: poems as documents, their predicted part, held-out poems, and files that are no poems."""

import json
import lzma
import pathlib
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("numpy")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "train"))

import poem  # noqa: E402
import poem_kinds  # noqa: E402
import trainer  # noqa: E402

pytestmark = pytest.mark.training

WORDS = [f"{a}{b}{c}月光，疑是地上霜。" for a in "春夏秋冬" for b in "风花雪月" * 2 for c in "天地山水江河湖海东西南北红黄蓝绿"]


def recipe_of(monkeypatch, folder, lines, *flags):
    with lzma.open(folder / "train.tsv.xz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    monkeypatch.setattr(sys, "argv", [
        "poem.py", "--data", str(folder), "--run", str(folder / "run"), "--layers", "1", "--width", "16", "--heads", "2",
        "--length", "64", "--device", "cpu", "--threads", "1", *flags])
    return poem.parse_arguments()


def test_a_poem_is_read_up_to_its_text_and_predicted_from_there(monkeypatch, tmp_path):
    args = recipe_of(monkeypatch, tmp_path, [f"唐\t李白\t静 夜思\t{words}" for words in WORDS])
    recipe = poem.Poems(args)
    assert recipe.config["task"] == "poem"
    texts = {i: c for c, i in recipe.tokenizer.ids.items()} | {recipe.tokenizer.end: "|"}
    for part in (recipe.train, recipe.held_out):
        for first, last in zip(part.starts[:-1], part.starts[1:]):
            document = "".join(texts[i] for i in part.values[first : last + 1])
            given, _, words = document.partition("》")
            assert given == "|唐《静 夜思" and words[:-1] in WORDS and words[-1] == "|"
            assert part.counted[first + 1 : last + 1].tolist() == [False] * len(given) + [True] * len(words)
    held_out = sum(poem.is_held_out(words) for words in WORDS)
    assert 0 < held_out < len(WORDS) / 10
    assert (len(recipe.train.starts) - 1, len(recipe.held_out.starts) - 1) == (len(WORDS) - held_out, held_out)


@pytest.mark.parametrize("line", ["唐\t李白\t床前明月光。", "唐\t李白\t静夜思\t", "唐\t李白\t静《夜》思\t床前。", "唐\t李白\t静夜思\t床前\t。"])
def test_a_file_that_holds_no_poems_is_refused_by_its_line(monkeypatch, tmp_path, line):
    args = recipe_of(monkeypatch, tmp_path, [f"唐\t李白\t静夜思\t{WORDS[0]}", line])
    with pytest.raises(SystemExit) as ended:
        trainer.run(poem.Poems, args)
    assert str(ended.value).startswith("poem.py: ") and "train.tsv.xz:2: " in str(ended.value)


def test_poem_kinds(monkeypatch, tmp_path, capsys):
    """Models of two kinds by one recipe; the figures are the program's for the exported models."""
    for name in ("train", "test"):
        with lzma.open(tmp_path / f"{name}.tsv.xz", "wt", encoding="utf-8") as file:
            file.write("\n".join(f"唐\t李白\t静夜思\t{words}" for words in WORDS) + "\n")
    program = tmp_path / "linnet"
    program.write_text('#!/bin/sh\necho "$@" >>"$0.called"\necho \'{"parameters": 1234, "nll": 4.5}\'\n')
    program.chmod(0o755)
    runs = tmp_path / "runs"
    flags = ["--data", str(tmp_path), "--runs", str(runs), "--only", "linear", "mamba2", "--tokens", "4096", "--linnet", str(program)]
    for trained in (2, 0):  # a complete model is not trained again
        monkeypatch.setattr(sys, "argv", ["poem_kinds.py", *flags])
        poem_kinds.main()
        out = capsys.readouterr()
        assert out.out.splitlines()[2:] == ["| linear | 4 | 1,234 | 4.500 |", "| mamba2 | 8 | 1,234 | 4.500 |"]
        assert out.err.count("training") == trained
    config = json.loads((runs / "mamba2" / "model" / "config.json").read_text())
    assert config["attention"]["kind"] == "mamba2" and config["attention"]["n_heads"] == 4 and config["n_layers"] == 8
    called = (tmp_path / "linnet.called").read_text()
    assert f"eval --model {runs / 'linear' / 'model'} {runs / 'test.tsv'}" in called
    assert (runs / "test.tsv").read_text().startswith("唐\t李白")
