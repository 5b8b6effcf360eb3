"""weights/train: recurrent kinds in chunks compared with their steps. A whole model of them, exported under the names
of flash-linear-attention, compared with the float64 reading that the server must equal too (tests/golden/kinds.py).
Compressed rows compared with their equation, and linear attention with every feature map compared with its steps."""

import itertools
import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "weights" / "train"), str(ROOT / "tests" / "golden")]

import copy_task  # noqa: E402
import classes  # noqa: E402
import export  # noqa: E402
import export_hf  # noqa: E402
import float64  # noqa: E402
import kinds  # noqa: E402
import linear_transformer  # noqa: E402
import trainer  # noqa: E402
import unfit  # noqa: E402
from mixers import delta, linear, lsh, memory_compressed  # noqa: E402

pytestmark = pytest.mark.training

KINDS = {
    "gated_deltanet": {"conv": 4, "beta": "twice_sigmoid", "gate": "silu", "eps": 1e-6, "n_heads": 4, "key_heads": 2},
    "delta_net": {"conv": 3, "beta": "sigmoid", "gate": "none", "eps": 1e-6},
}


@pytest.mark.parametrize("tokens", [1, 3, 95, 96, 97, 300])
@pytest.mark.parametrize("decay", [0, 0.01, 1, 30])
def test_chunks_are_steps(tokens, decay):
    torch.manual_seed(tokens)
    q, k, v = (torch.randn(2, 3, tokens, n, dtype=torch.float64) for n in (8, 8, 5))
    q, k = delta.l2(q), delta.l2(k)
    log_decay = -torch.rand(2, 3, tokens, dtype=torch.float64) * decay
    beta = torch.rand(2, 3, tokens, dtype=torch.float64) * 2
    want = delta.steps(q, k, v, log_decay, beta)
    got = delta.delta_rule(q, k, v, log_decay, beta)
    assert (got.double() - want).abs().max() < 5e-5 * (1 + want.abs().max())  # of decays that add up to e^-960


def test_gradients_are_those_of_the_steps():
    torch.manual_seed(1)
    inputs = [torch.randn(1, 2, 130, n, requires_grad=True) for n in (6, 6, 4)]
    decay, beta = torch.rand(1, 2, 130, requires_grad=True), torch.rand(1, 2, 130, requires_grad=True)
    grads = []
    for form in (delta.steps, delta.delta_rule):
        q, k, v = inputs
        y = form(delta.l2(q), delta.l2(k), v, -decay, beta)
        grads.append(torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum(), [*inputs, decay, beta]))
    for want, got in zip(*grads):
        assert (got - want).abs().max() < 1e-4 * (1 + want.abs().max())


def make(own):
    torch.manual_seed(7)
    config = linear_transformer.model_config(
        "text", [("token", 256)], {"kind": "categorical", "size": 256, "bias": False}, 2, norm_kind="rms",
        feed_forward={"kind": "gated_mlp"}, text={"tokenizer": "bytes", "context": 128, "end": [10]})
    config |= {"n_heads": 2, "d_model": 16, "d_ff": 24, "norm_eps": 1e-6, "attention": own}
    model = linear_transformer.LinearTransformer(config)
    with torch.no_grad():
        for name, p in model.named_parameters():  # weights that begin as zeros show nothing
            if p.ndim == 2:
                p.copy_(torch.randn_like(p) * p.shape[1] ** -0.5)
            if not name.endswith(("A_log", "dt_bias")):
                p.copy_(p.bfloat16())
    return config, model


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_is_what_was_trained(tmp_path, kind):
    config, model = make({"kind": kind} | KINDS[kind])
    export.export_model(tmp_path / "own", model, config, None)
    export_hf.convert(tmp_path / "own", tmp_path / "theirs")
    theirs = json.loads((tmp_path / "theirs" / "config.json").read_text())
    tensors = {name: t.double().numpy() for name, t in export.read_safetensors(tmp_path / "theirs" / "model.safetensors").items()}
    ids = torch.randint(256, (90,))
    want = kinds.fla_model(kinds.delta)(tensors, theirs, ids.tolist())
    with torch.no_grad():
        got = model(ids[None, :, None])[0].double().numpy()
    assert abs(got - want).max() < 1e-4 * (1 + abs(want).max())
    assert abs(want).max() > 0.1


def test_what_has_no_place_is_refused(tmp_path):
    config, model = make({"kind": "delta_net"} | KINDS["delta_net"])
    export.export_model(tmp_path, model, config | {"norm": "post"}, None)
    with pytest.raises(SystemExit, match="norm is"):
        export_hf.convert(tmp_path, tmp_path / "theirs")


def copy_args(run, *settings):
    """Of a run of a few small batches."""
    words = ["copy_task.py", "--run", str(run), "--length", "6", "--batch-tokens", "60", "--tokens", "600", "--no-compile",
             "--threads", "1", *(word for setting in settings for word in ("--set", setting))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        return copy_task.parse_arguments()


def test_what_is_drawn_once_stays(tmp_path):
    """Hashes are no optimizer's, averages and checkpoints have them; everything else is trained."""
    made = []

    def recipe(args):
        made.append(copy_task.Copy(args))
        before.append({name: p.detach().clone() for name, p in made[-1].model.named_parameters()})
        return made[-1]

    before = []
    trainer.train(recipe, copy_args(tmp_path, "mixer=lsh", "n_layers=1"))
    after = dict(made[0].model.named_parameters())
    same = {name for name in after if torch.equal(before[0][name], after[name])}
    assert same == {"layers.0.attn.hashes"}
    trainer.train(recipe, copy_args(tmp_path, "mixer=lsh", "n_layers=1"))  # from the checkpoint, and complete
    assert all(torch.equal(p, after[name]) for name, p in made[1].model.named_parameters())


@pytest.mark.parametrize("rounds, scale", [(1, "key"), (4, "none")])
def test_hashed_attention_as_it_is_defined(rounds, scale):
    """A token at a time: the last `cap` before it of its bucket, a bucket in every round; values where there are none."""
    torch.manual_seed(rounds)
    own = {"rounds": rounds, "buckets": 4, "cap": 3, "scale": scale, "n_heads": 2, "d_key": 4, "d_value": 5}
    mixer = lsh.Mixer({"d_model": 8}, own)
    torch.nn.init.normal_(mixer.out.weight)
    x = torch.randn(2, 23, 8)
    qk, v = (part.double().unflatten(-1, (2, -1)) for part in mixer.qk_v(x).split([8, 10], -1))  # [B, T, H, D]
    hashes = mixer.hashes.double().view(rounds, 4, 2)
    want = torch.zeros(2, 23, 2, 5, dtype=torch.float64)
    alone = 0
    for b, h, i in itertools.product(range(2), range(2), range(23)):
        q, total, weights = qk[b, i, h], 0, 0
        for r in range(rounds):
            bucket = [torch.cat([qk[b, j, h] @ hashes[r], -(qk[b, j, h] @ hashes[r])]).argmax() for j in range(i + 1)]
            for j in [j for j in range(i) if bucket[j] == bucket[i]][-3:]:
                k = qk[b, j, h]
                w = torch.exp(q @ k / k.norm() / (2 if scale == "key" else 1))
                total, weights = total + w * v[b, j, h], weights + w
        alone += not isinstance(weights, torch.Tensor)
        want[b, i, h] = total / weights if isinstance(weights, torch.Tensor) else v[b, i, h]
    assert 4 <= alone < 60  # the first tokens at least
    assert torch.allclose(mixer(x), mixer.out(want.flatten(2).float()), atol=1e-5)


def test_layers_of_several_kinds(tmp_path):
    recipe = copy_task.Copy(copy_args(tmp_path, 'attention=[{"kind": "local_block", "block": 3}, {"kind": "memory_compressed"}]'))
    kinds_of_layers = [type(layer.attn).__module__ for layer in recipe.model.layers]
    assert kinds_of_layers == ["mixers.local_block", "mixers.memory_compressed"]
    assert recipe.config["attention"][0]["block"] == 3 and recipe.config["attention"][1]["factor"] == 3
    with pytest.raises(unfit.Unfit, match="attention has 1 entries, but n_layers is 2"):
        copy_task.Copy(copy_args(tmp_path, 'attention=[{"kind": "linear"}]'))


@pytest.mark.parametrize("visible", ["strict", "inclusive"])
@pytest.mark.parametrize("null", ["learned", "first"])
def test_compressed_rows_are_those_of_the_equation(visible, null):
    """memory_compressed, all tokens at once, compared with a loop over tokens, heads, rows and places."""
    torch.manual_seed(3)
    own = {"n_heads": 2, "d_key": 3, "d_value": 4, "factor": 3, "visible": visible, "null": null}
    mixer = memory_compressed.Mixer({"d_model": 5}, own).double()
    with torch.no_grad():
        for p in mixer.parameters():
            p.copy_(torch.randn_like(p))
        x = torch.randn(1, 11, 5, dtype=torch.float64)
        q, k, v = (part[0] for part in mixer.heads(mixer.qkv(x)))
        got = mixer.attend(q[None], k[None], v[None])[0]
        for h in range(2):
            for i in range(11):
                first = mixer.null[h].split([3, 4]) if null == "learned" else (k[h, 0], v[h, 0])
                rows = [first]
                for c in range((i + (visible == "inclusive")) // 3):
                    row = [mixer.compress_k_bias.view(2, 3)[h].clone(), mixer.compress_v_bias.view(2, 4)[h].clone()]
                    for t in range(3):
                        row[0] += k[h, 3 * c + t] @ mixer.compress_k.view(2, 3, 3, 3)[h, t]
                        row[1] += v[h, 3 * c + t] @ mixer.compress_v.view(2, 3, 4, 4)[h, t]
                    rows.append(row)
                weights = torch.softmax(torch.stack([q[h, i] @ row[0] / 3**0.5 for row in rows]), 0)
                want = sum(weight * row[1] for weight, row in zip(weights, rows))
                assert (got[h, i] - want).abs().max() < 1e-12


@pytest.mark.parametrize("tokens", [5, linear.CHUNK + 1, 3 * linear.CHUNK])
@pytest.mark.parametrize("feature_map", linear.FEATURE_MAPS)
def test_every_feature_map_is_that_of_the_steps(feature_map, tokens):
    """In chunks, compared with the float64 reading that the server must equal too (tests/golden/relu and so on)."""
    torch.manual_seed(4)
    own = {"n_heads": 2, "d_key": 6, "d_value": 5, "feature_map": feature_map, "eps": 1e-6}
    mixer = linear.Mixer({"d_model": 7}, own).double()
    with torch.no_grad():
        for p in mixer.parameters():
            p.copy_(torch.randn_like(p))
        x = 3 * torch.randn(1, tokens, 7, dtype=torch.float64)  # so that exp reaches its end
        got = mixer(x)[0]
        steps = float64.Linear({f"attn.{name}": p for name, p in mixer.named_parameters()}, "attn", own)
        want = torch.stack([steps(row) for row in x[0]])
    assert mixer.heads(mixer.qkv(x))[1].max() > 8
    assert (got - want).abs().max() < 2e-4 * (1 + want.abs().max())  # sums between chunks are f32


def test_no_such_feature_map():
    with pytest.raises(unfit.Unfit, match="attention.feature_map cosine is none of elu.1, relu, relu2, exp"):
        linear.Mixer({"d_model": 7}, {"n_heads": 1, "d_key": 1, "d_value": 1, "feature_map": "cosine", "eps": 1e-6})


def test_a_model_without_its_classes_is_what_it_was_without_being_asked():
    torch.manual_seed(1)
    streams = [("token", 257), ("n", 257), ("row", 4), ("column", 4), ("class", 3)]
    config = linear_transformer.model_config("image", streams, {"kind": "categorical", "size": 256}, n_layers=2,
                                             image={"width": 4, "height": 4, "channels": 1, "classes": ["a", "b"]})
    model = linear_transformer.LinearTransformer(config).double()
    torch.nn.init.normal_(model.head.weight)
    ids = torch.stack([torch.randint(0, size, (2, 16)) for _, size in streams[:-1]], -1)
    none = torch.cat([ids, torch.full((2, 16, 1), 2)], -1)
    with torch.no_grad():
        before = model(none)
        left = classes.fold(model, config)
        assert [s["name"] for s in left["inputs"]] == ["token", "n", "row", "column"] and "classes" not in left["image"]
        assert torch.allclose(model(ids), before, atol=1e-12)
    with pytest.raises(unfit.Unfit):
        classes.fold(model, left)


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="this PyTorch has no torch.compile")
@pytest.mark.parametrize("dynamic", [None, True])
def test_one_layer_is_compiled_for_all(dynamic):
    """The tables, and one layer for both directions of three shapes; the results stay unchanged."""
    from torch._dynamo.testing import CompileCounter  # PyTorch 1 has none

    torch._dynamo.reset()
    config, model = make({"kind": "linear"} | linear.DEFAULTS)
    ids = [torch.randint(256, (count, 9, 1)) for count in ((3, 4, 5) if dynamic else (3, 3, 3))]
    want = [model.hidden(each) for each in ids]
    counter = CompileCounter()
    model.compile_parts(dynamic=dynamic, backend=counter)
    assert len(model.layers) > 1 and all(torch.allclose(model.hidden(each), w, atol=1e-5) for each, w in zip(ids, want))
    assert counter.frame_count == 2
