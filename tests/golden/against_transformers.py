"""Compares the float64 readings of kinds.py with transformers' own models, where it has the kind:

    python3 tests/golden/against_transformers.py

Wants torch and transformers, and prints the largest difference of a logit; more than 1e-5 of the largest one is an error.
"""

import sys

import numpy
import torch
import transformers

import kinds

KNOWN = {"mamba2": transformers.Mamba2ForCausalLM, "qwen3_5_text": transformers.Qwen3_5ForCausalLM}


def compare(name, config, tensors, reading):
    weights = kinds.make_tensors(tensors, 5)
    ids = list(range(3, 80))
    model = KNOWN[config["model_type"]](transformers.AutoConfig.for_model(**config)).double().eval()
    missing, unexpected = model.load_state_dict({n: torch.tensor(t) for n, t in weights.items()}, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    with torch.no_grad():
        theirs = model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()
    ours = reading(weights, config, ids)
    off = abs(theirs - ours).max() / abs(ours).max()
    print(f"{name}: {off:.2g}")
    return bool(numpy.isfinite(off)) and off < 1e-5


if __name__ == "__main__":
    # Of several groups transformers norms the row at once; fla's configs are not its own.
    found = [case for case in kinds.cases() if case[1]["model_type"] in KNOWN and "norm_eps" not in case[1]]
    results = [compare(*case) for case in found]
    sys.exit(0 if results and all(results) else 1)
