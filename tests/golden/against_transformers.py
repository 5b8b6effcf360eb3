"""Compares the float64 readings of kinds.py with transformers' own models, where it has the kind:

    python3 tests/golden/against_transformers.py

Wants torch and transformers, and prints the largest difference of a logit; more than 1e-5 of the largest one is an error.
"""

import re
import sys

import numpy
import torch
import transformers
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

import folders
import kind_cases
import kinds

KNOWN = {"mamba": transformers.MambaForCausalLM, "falcon_mamba": transformers.FalconMambaForCausalLM,
         "jamba": transformers.JambaForCausalLM, "mamba2": transformers.Mamba2ForCausalLM, "qwen3_5_text": transformers.Qwen3_5ForCausalLM,
         "lfm2": transformers.Lfm2ForCausalLM, "granitemoehybrid": transformers.GraniteMoeHybridForCausalLM,
         "falcon_h1": transformers.FalconH1ForCausalLM, "lfm2_moe": transformers.Lfm2MoeForCausalLM,
         "qwen3_5_moe_text": transformers.Qwen3_5MoeForCausalLM, "qwen3_next": transformers.Qwen3NextForCausalLM,
         "nemotron_h": transformers.NemotronHForCausalLM}  # others have other names in files than in the library


def fused(weights, backbone):
    """Experts as the library has them: one tensor of all gates and products up, and one of all products down. The library
    has the prefix `backbone` where files have "backbone."."""
    out, experts = {}, {}
    other = {"w1": "gate", "w3": "up", "w2": "down"}
    moe = {"block_sparse_moe.input_linear.weight": "block_sparse_moe.experts.gate_up_proj",
           "block_sparse_moe.output_linear.weight": "block_sparse_moe.experts.down_proj", "router.layer": "router",
           "backbone.": backbone}
    for name, t in weights.items():
        found = re.fullmatch(r"(.*\.experts)\.(\d+)\.(?:(gate|up|down)_proj|(w[123]))\.weight", name)
        for theirs, ours in moe.items():
            name = name.replace(theirs, ours)
        if found:
            experts.setdefault(found[1].replace("backbone.", backbone), {})[int(found[2]), found[3] or other[found[4]]] = t
        else:
            out[name] = t
    for prefix, parts in experts.items():
        numbers = range(1 + max(i for i, _ in parts))
        up = [numpy.concatenate([parts[i, "gate"], parts[i, "up"]]) if (i, "gate") in parts else parts[i, "up"] for i in numbers]
        out[f"{prefix}.{'gate_up' if (0, 'gate') in parts else 'up'}_proj"] = numpy.stack(up)
        out[f"{prefix}.down_proj"] = numpy.stack([parts[i, "down"] for i in numbers])
    return out


def compare(name, config, tensors, reading):
    weights = kinds.make_tensors(tensors, 5)
    ids = list(range(3, 80))
    theirs = transformers.AutoConfig.for_model(**config, experts_implementation="eager")  # others have no doubles
    model = KNOWN[config["model_type"]](theirs).double().eval()
    renamed = fused(weights, model.base_model_prefix + ".")
    missing, unexpected = model.load_state_dict({n: torch.tensor(t) for n, t in renamed.items()}, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()
    ours = reading(weights, config, ids)
    off = abs(logits - ours).max() / abs(ours).max()
    print(f"{name}: {off:.2g}")
    return bool(numpy.isfinite(off)) and off < 1e-5


def compare_lightning():
    """One layer, because models of this kind in transformers have experts after it."""
    worst = 0.0
    for layer in range(3):
        config = transformers.MiniMaxConfig(hidden_size=16, num_attention_heads=3, head_dim=6, num_hidden_layers=3, block_size=7,
                                            num_key_value_heads=3, layer_types=["linear_attention"] * 3)
        theirs = MiniMaxLightningAttention(config, layer).double().eval()
        c = folders.LIGHTNING | {"attention": {"eps": theirs.norm.variance_epsilon}}
        own = {name.removeprefix("layers.0.attn."): t for name, t in
               kinds.make_tensors(folders.lightning_tensors(folders.LIGHTNING), 5).items() if name.startswith("layers.0.attn.")}
        theirs.load_state_dict({{"qkv": "qkv_proj", "g": "output_gate", "out": "out_proj"}.get(name[:-7], name[:-7]) + ".weight":
                                torch.tensor(t) for name, t in own.items()}, strict=False)
        x = numpy.random.default_rng(layer).normal(size=(40, 16))
        ours = kinds.lightning_mixer(own, c, layer, numpy.zeros((3, 6, 6)), x)
        with torch.no_grad():
            given = theirs(torch.tensor(x)[None], None, None)[0][0].numpy()
        worst = max(worst, abs(ours - given).max() / abs(ours).max())
    print(f"lightning: {worst:.2g}")
    return bool(numpy.isfinite(worst)) and worst < 1e-5


if __name__ == "__main__":
    # Of several groups transformers norms the row at once; fla's configs are not its own; Nemotron's head is never tied there.
    found = [case for case in kind_cases.cases() if case[1].get("model_type") in KNOWN and (
        "norm_eps" not in case[1] or case[1]["model_type"].startswith("lfm2")) and not (
        case[1]["model_type"] == "nemotron_h" and case[1]["tie_word_embeddings"])]
    results = [compare(*case) for case in found] + [compare_lightning()]
    sys.exit(0 if results and all(results) else 1)
