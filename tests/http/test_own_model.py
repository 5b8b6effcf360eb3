"""Models that weights/train makes of a few lines: the server computes what PyTorch does with the same weights. Without
PyTorch these are skipped."""

import math
import subprocess
import sys

import pytest

import client
from server import Server
from settings import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")
TRAIN = ROOT / "weights" / "train"
sys.path.insert(0, str(TRAIN))

import text  # noqa: E402

LINES = [f"{who} {does} {where}，{n}。" for n in range(1, 7) for who in ("the fox", "a bird", "春風")
         for does in ("sees", "leaves") for where in ("the hill", "明月")]
SMALL = ["--layers", "2", "--width", "32", "--heads", "2", "--length", "64", "--batch-tokens", "512", "--tokens", "30000",
         "--threads", "1", "--device", "cpu"]


def train(recipe, data, out, *flags):
    """Runs a recipe as a user does; returns its arguments."""
    arguments = ["--data", str(data), "--run", str(out.parent / f"{out.name}-run"), "--out", str(out), *flags]
    done = subprocess.run([sys.executable, TRAIN / recipe, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return arguments


def trained(monkeypatch, arguments):
    """The recipe with the weights of its checkpoint, rounded as they are written."""
    monkeypatch.setattr(sys, "argv", ["text.py", *arguments])
    recipe = text.Text(text.parse_arguments())
    recipe.model.load_state_dict(torch.load(recipe.args.run / "checkpoint.pt", weights_only=True)["model"])
    with torch.no_grad():
        for name, p in recipe.model.named_parameters():
            if not name.endswith(("A_log", "dt_bias")):
                p.copy_(p.bfloat16())
    return recipe


@pytest.mark.parametrize("flags", [
    ["--lines"],
    ["--kind", "delta_net", "--tokenizer", "bytes"],
    ["--lines", "--kind", "linear", "--min-count", "60"],
], ids=" ".join)
def test_the_server_computes_what_was_trained(monkeypatch, tmp_path, flags):
    data, out = tmp_path / "lines.txt", tmp_path / "own"
    data.write_text("\n".join(LINES * 6))
    recipe = trained(monkeypatch, train("text.py", data, out, *SMALL, *flags))
    known = recipe.tokenizer
    prompt, rest = "the fox sees", " the hill，7。\na 鱼!"  # a character that was never read
    begin = [known.end] if known.end is not None else []
    ids = begin + known.encode(prompt) + known.encode(rest)
    with torch.no_grad():
        logits = recipe.model(torch.tensor(ids)[None, :, None])[0].double().log_softmax(-1)
    first = len(begin) + len(known.encode(prompt))
    want = [-logits[i - 1, ids[i]].item() for i in range(first, len(ids))]
    with Server("--precision", "f32", model_dir=out) as server:
        reply = client.call(server.port, "POST", "/v1/score", {"model": "own", "prompt": prompt, "completion": rest})
        assert reply.status == 200, reply.text
        assert reply.json()["usage"]["prompt_tokens"] == first
        assert reply.json()["surprise"] == pytest.approx(want, abs=1e-3)
        answer = client.complete_ok(server.port, model="own", prompt="the", temperature=0, max_tokens=60)
        assert answer["usage"]["completion_tokens"] > 0 and ("--lines" not in flags or "\n" not in answer["choices"][0]["text"]), answer
    learned = want[1:6]  # of "the hill", which every line may say
    assert sum(learned) / len(learned) < 0.6 * math.log(known.size) and max(want) > 4, want
