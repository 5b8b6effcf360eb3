"""weights/train/mixers of Mamba-2 and RWKV-7: chunks compared with steps, and a mixer's parameters as the float64
readings of tests/golden/kinds.py expect them, which the server must equal too. tests/http/test_own_model.py tests that
the server computes the trained model."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "weights" / "train"), str(ROOT / "tests" / "golden")]

import kinds  # noqa: E402
import unfit  # noqa: E402
from mixers import mamba2, rwkv7  # noqa: E402

pytestmark = pytest.mark.training

LENGTHS = [1, 2, 31, 32, 33, 64, 65, 150]


def drawn(*shape):
    return torch.randn(2, 3, *shape, dtype=torch.float64)


def is_close(got, want, error=2e-5):
    return (got.double() - want).abs().max() < error * (1 + want.abs().max())


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("decay", [0, 0.01, 1, 30])
def test_chunks_of_mamba2_are_steps(tokens, decay):
    torch.manual_seed(tokens)
    inputs = drawn(tokens, 8), drawn(tokens, 8), drawn(tokens, 5), -torch.rand(2, 3, tokens, dtype=torch.float64) * decay
    assert is_close(mamba2.in_parallel(*inputs), mamba2.steps(*inputs))


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("fastest", [0, 1e-3, 1])
def test_chunks_of_rwkv7_are_steps(tokens, fastest):
    torch.manual_seed(tokens)
    r, k, v = drawn(tokens, 8), drawn(tokens, 8), drawn(tokens, 5)
    e = torch.nn.functional.normalize(drawn(tokens, 8), dim=-1)
    log_w = fastest * rwkv7.FASTEST * torch.rand(2, 3, tokens, 8, dtype=torch.float64).round()  # the fastest there is, or none
    inputs = r, log_w, k, v, e, torch.rand_like(e) * e
    assert is_close(rwkv7.in_parallel(*inputs), rwkv7.steps(*inputs))


@pytest.mark.parametrize("module, shapes", [
    (mamba2, [(70, 6), (70, 6), (70, 4), (70,)]),
    (rwkv7, [(70, 6), (70, 6), (70, 6), (70, 4), (70, 6), (70, 6)]),
], ids=["mamba2", "rwkv7"])
def test_gradients_are_those_of_the_steps(module, shapes):
    torch.manual_seed(1)
    inputs = [0.3 * torch.randn(1, 2, *shape) for shape in shapes]
    at = 3 if module is mamba2 else 1
    inputs[at] = -inputs[at].abs()
    inputs = [x.requires_grad_() for x in inputs]
    grads = []
    for form in (module.steps, module.in_parallel):
        y = form(*inputs)
        grads.append(torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum(), inputs))
    for want, got in zip(*grads):
        assert (got - want).abs().max() < 2e-4 * (1 + want.abs().max())


def shaken(mixer):
    """With no parameter that begins as zero or one, which would say nothing."""
    with torch.no_grad():
        for p in mixer.parameters():
            p.add_(torch.randn_like(p) * (p.shape[-1] ** -0.5 if p.ndim == 2 else 0.3))
    return mixer, {name: p.detach().double().numpy() for name, p in mixer.named_parameters()}


@pytest.mark.parametrize("groups", [1, 2])
def test_mamba2_as_the_server_reads_it(groups):
    torch.manual_seed(groups)
    own = mamba2.DEFAULTS | {"groups": groups, "n_heads": 4, "d_key": 5, "d_value": 3, "layer": 0}
    mixer, w = shaken(mamba2.Mixer({"d_model": 10}, own))
    names = {"in.weight": "in_proj.weight", "out.weight": "out_proj.weight", "conv.weight": "conv1d.weight", "conv.bias": "conv1d.bias"}
    w = {names.get(name, name): array for name, array in w.items()}
    w["conv1d.weight"] = w["conv1d.weight"][:, None]
    c = {"num_heads": 4, "head_dim": 3, "n_groups": groups, "state_size": 5, "norm_eps": own["eps"]}
    x, memory = torch.randn(1, 75, 10), kinds.Rows()
    want = numpy.array([kinds.mamba2_mixer(w, c, memory, row) for row in x[0].double().numpy()])
    with torch.no_grad():
        assert is_close(mixer(x)[0], torch.from_numpy(want), 1e-4)
    assert abs(want).max() > 0.1


def test_rwkv7_as_the_server_reads_it():
    """Two mixers in turn: the second takes values of the first."""
    torch.manual_seed(1)
    c, x = {"head_dim": 4, "norm_eps": rwkv7.DEFAULTS["group_eps"] / 4}, torch.randn(1, 75, 12)
    names = {f"{part}.weight": f"{part}_proj.weight" for part in "rkv"} | {"out.weight": "o_proj.weight"}
    names |= {f"{pair}{n}.{part}": f"{pair}_lora.lora.{2 * n - 2}.{part}" for pair in "wavg" for n in (1, 2) for part in ("weight", "bias")}
    names |= {f"norm.{part}": f"g_norm.{part}" for part in ("weight", "bias")}
    carried, firsts = {}, [None] * 75
    for layer in range(2):
        own = rwkv7.DEFAULTS | {"n_heads": 3, "d_key": 4, "d_value": 4, "layer": layer}
        mixer, w = shaken(rwkv7.Mixer({"d_model": 12, "n_layers": 2}, own))
        w, memory = {names.get(name, name): array for name, array in w.items()}, kinds.Rows()
        found = [kinds.rwkv7_mixer(w, c, memory, row, first) for row, first in zip(x[0].double().numpy(), firsts)]
        firsts, want = [first for _, first in found], numpy.array([row for row, _ in found])
        with torch.no_grad():
            assert is_close(mixer(x, carried)[0], torch.from_numpy(want), 2e-4)
        assert abs(want).max() > 0.1


def test_what_is_not_trained_is_refused():
    own = mamba2.DEFAULTS | {"n_heads": 2, "d_key": 4, "d_value": 4, "layer": 0}
    with pytest.raises(unfit.Unfit, match="gate_first"):
        mamba2.Mixer({"d_model": 8}, own | {"norm": "none"})
