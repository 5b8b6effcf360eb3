"""Folders of random variations of every family that transformers has, served by Linnet, next to transformers itself:

    LINNET=build/linnet python3 tests/golden/against_saved_folders.py [FAMILY ...]

Wants torch, transformers and numpy. The script prints of each variation of variations.py its refusal, or the largest
difference of a log-probability with products of f32, bf16 and int8. It also counts how many of 40 greedy tokens are
equal. With f32 a difference of 1e-4 is an error, and another token where the two best differ by 1e-3.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import urllib.request

import torch
import transformers
from safetensors.torch import save_file

import kinds
import variations

LINNET = os.environ.get("LINNET", "build/linnet")
KNOWN = ["mamba", "falcon_mamba", "jamba", "jamba_experts", "mamba2", "qwen", "lfm2", "lfm2_moe", "qwen_moe", "qwen_next", "granite", "granite_experts", "nemotron", "kimi", "ling", "ling_saved", "falcon_h1", "olmo_hybrid", "lfm3"]
DRAWS, TOKENS, BEGIN, BOUND, MARGIN = 20, 40, 20, 1e-4, 1e-3
TEXT = "".join(random.Random(5).choices("abcdefgh ijklmnopqrstu,.ABCDEFGH0123456789", k=60))


def write(folder, config, tensors_of, meant, seed):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    weights = kinds.make_tensors(tensors_of(meant), seed)
    save_file({name: torch.tensor(t, dtype=torch.float32) for name, t in weights.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def draw_folders(family, root):
    """{name: keys that changed} of the folders that are served."""
    rng, served = random.Random(family), {}
    for i in range(DRAWS):
        config, meant, keys = variations.draw(family, rng)
        folder = root / f"v{i}"
        try:
            write(folder, config, variations.FAMILIES[family][1], meant, i + 1)
        except (ArithmeticError, LookupError):  # sizes that fit no model
            continue
        said = subprocess.run([LINNET, "inspect", folder], capture_output=True, text=True, timeout=60)
        if said.returncode:
            print(f"{family} {folder.name} {keys}: refused: {said.stderr.strip()[-160:]}")
            folder.rename(root.parent / f"refused-{family}-{i}")
        else:
            served[folder.name] = keys
    return served


class Served:
    def __init__(self, root, precision):
        self.process = subprocess.Popen([LINNET, "serve", "--models", root, "--port", "0", "--precision", precision, "--slots", "4"],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.port = next(int(found[1]) for line in self.process.stdout if (found := re.search(r"ready: http://\S+:(\d+)", line)))

    def post(self, route, **body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{route}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)


def load(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, experts_implementation="eager")  # others want certain widths
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    return model.eval()


def last(model, ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0].double()


def off(model, server, name):
    ids, begin = list(TEXT.encode()), 3
    logs = torch.log_softmax(last(model, ids), -1)
    theirs = torch.tensor([-logs[i - 1, ids[i]] for i in range(begin, len(ids))])
    said = server.post("/v1/score", model=name, prompt=TEXT[:begin], completion=TEXT[begin:])
    return (torch.tensor(said["surprise"]) - theirs).abs().max().item()


def greedy(model, server, name):
    """How many tokens are equal, and by how much the two best differ where the first is not."""
    ids = list(TEXT.encode())[:BEGIN]
    said = server.post("/v1/completions", model=name, prompt=ids, max_tokens=TOKENS, temperature=0, return_token_ids=True,
                       ignore_eos=True)["choices"][0]["token_ids"]
    end = model.config.eos_token_id
    for i, token in enumerate(said):
        logits = last(model, ids)[-1]
        if end is not None:
            logits[end] = -1e9
        best = logits.topk(2).values
        if int(logits.argmax()) != token:
            return i, (best[0] - best[1]).item()
        ids.append(token)
    return TOKENS, MARGIN


def compare(family, root):
    served, good = draw_folders(family, root), True
    with Served(root, "f32") as f32, Served(root, "auto") as bf16, Served(root, "int8") as int8:
        for name, keys in served.items():
            try:
                model = load(root / name)
            except (ValueError, RuntimeError, TypeError, AssertionError) as error:
                print(f"{family} {name} {keys}: not by transformers: {str(error).splitlines()[0][:160]}")
                continue
            differences = [off(model, server, name) for server in (f32, bf16, int8)]
            equal, margin = greedy(model, f32, name)
            right = differences[0] < BOUND and (equal == TOKENS or margin < MARGIN)
            good = good and right
            print(f"{family} {name} {keys}: {'' if right else 'WRONG '}f32 {differences[0]:.2g}, bf16 {differences[1]:.2g}, "
                  f"int8 {differences[2]:.2g}, {equal} tokens equal")
    return good


def main():
    torch.set_num_threads(1)
    good = True
    with torch.no_grad():
        for family in sys.argv[1:] or KNOWN:
            with tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder) / "models"
                root.mkdir()
                good = compare(family, root) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
