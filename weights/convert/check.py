#!/usr/bin/env python3
"""Compares Linnet's log-probabilities of a model with its authors' software, token by token.

    python3 weights/convert/check.py FOLDER --against torch       transformers' own model, in float64 where it can; for a
                                                                  folder in Linnet's own format, training's model
    python3 weights/convert/check.py FOLDER --against float64     the equations in numpy, of tests/golden/kinds.py
                            [--text FILE] [--tokens 200] [--linnet build/linnet] [--precision f32] [--within 1e-3]

Starts `linnet serve` on FOLDER and gets the log-probability of every token of a text but the first ones from /v1/score. Compares
each with the reference's. `--against torch` needs torch and transformers, and flash-linear-attention for kinds that only it
has (its kernels need a GPU). A folder in Linnet's own format needs torch alone, and must be a model of text. Ends with status 1 if a log-probability differs by more than --within nats.
"""

import argparse
import importlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path


def package(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        sys.exit(f"check: there is no Python package {e.name} here: pip install {name}")


sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))
import tensors as files  # noqa: E402 (the line above says where)

numpy = package("numpy")
ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "linnet"
TEXT = ("It was a bright cold day in April, and the clocks were striking thirteen. Numbers: 1 2 3 5 8 13 21. "
        "def f(x):\n    return x + 1\nThe quick brown fox jumps over the lazy dog; 春江潮水连海平。 ") * 4
FIRST = 8  # characters that are given, not scored


# --- Linnet


def read_config(folder):
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as e:
        sys.exit(f"check: {path} is not JSON: {e}")
    if not isinstance(config, dict):
        sys.exit(f"check: {path} is not an object")
    return config


def is_own(config):
    return config.get("format") == "linnet"


def check_own(args, config):
    """Before a server is started."""
    if is_own(config) and args.against != "torch":
        sys.exit(f"check: {args.folder} is in Linnet's own format: only --against torch reads it, with training's own model")
    if is_own(config) and config.get("task") != "text":
        sys.exit(f"check: {args.folder} is a model of the task {config.get('task')} in Linnet's own format, and only models of text are "
                 "compared: `linnet eval` has the figure that its training ended with")


def tokens_of(args, text, template):
    config = read_config(args.folder)
    if config.get("text_config", config).get("vocab_size") == 256 and not (args.folder / "tokenizer.json").exists():
        return list(text.encode())
    if is_own(config) and config.get("text", {}).get("tokenizer") == "bytes":
        begin = [config["text"]["begin"]] if template and "begin" in config["text"] else []
        return begin + list(text.encode())
    flag = "--template" if template else "--no-template"
    command = [args.linnet, "tokenize", "--model", args.folder, flag, "-"]
    said = subprocess.run(list(map(str, command)), input=text.encode(), capture_output=True)
    if said.returncode != 0:
        sys.exit(said.stderr.decode())
    return [int(word) for word in said.stdout.split()]


def our_scores(args, prompt, completion):
    """Log-probabilities of the completion's tokens, and how many tokens the prompt has."""
    with tempfile.TemporaryFile("w+") as log:
        command = [args.linnet, "serve", "--model", args.folder, "--port", "0", "--precision", args.precision, "--slots", "1"]
        server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            for line in server.stdout:
                log.write(line)
                ready = re.search(r"ready: (http://\S+)", line)
                if ready:
                    return ask(ready[1], args.folder.resolve().name, prompt, completion)
            log.seek(0)
            sys.exit(log.read())
        finally:
            server.terminate()
            server.wait()


def ask(url, model, prompt, completion):
    body = json.dumps({"model": model, "prompt": prompt, "completion": completion}).encode()
    request = urllib.request.Request(f"{url}/v1/score", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            said = json.load(answer)
    except urllib.error.HTTPError as e:
        sys.exit(f"check: {e.read().decode()}")
    return -numpy.array(said["surprise"]), said["usage"]["prompt_tokens"]


# --- references: logits of every token, [tokens, ids]


def own_logits(args, ids):
    """Of the model that training made, in f32."""
    torch = package("torch")
    import export
    import linear_transformer

    try:
        model = linear_transformer.LinearTransformer(read_config(args.folder))
    except (KeyError, TypeError) as e:
        sys.exit(f"check: {args.folder}/config.json is not of training: {e}")
    export.load_exported(args.folder, model)
    model.eval()
    with torch.no_grad():
        return model(torch.tensor([ids])[..., None])[0].double().numpy()


def torch_logits(args, ids):
    if is_own(read_config(args.folder)):
        return own_logits(args, ids)
    torch, transformers = package("torch"), package("transformers")
    try:
        import fla  # noqa: F401  (registers its kinds)
    except ImportError:
        pass
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(args.folder, dtype=torch.float32)
    except (ValueError, KeyError, OSError) as e:
        sys.exit(f"check: transformers cannot read this folder: {str(e).splitlines()[0]}")
    try:
        model = model.double()
        with torch.no_grad():
            return model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()
    except RuntimeError:  # kinds that insist on f32 somewhere
        model = model.float()
        with torch.no_grad():
            return model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()


def read_safetensors(folder):
    """{name: float64 array}"""
    out = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, dtype, shape, data in files.read(file):
            if dtype == "BF16":
                array = (numpy.frombuffer(data, "<u2").astype(numpy.uint32) << 16).view(numpy.float32)
            else:
                array = numpy.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[dtype])
            out[name] = array.astype(numpy.float64).reshape(shape)
    return out


def float64_logits(args, ids):
    place = ROOT / "tests" / "golden"
    if not place.exists():
        sys.exit("check: --against float64 wants a clone of the repository: its equations are in tests/golden/kinds.py")
    sys.path.insert(0, str(place))
    import hybrids
    import kinds

    readings = {"gated_deltanet": kinds.fla_model(kinds.delta), "delta_net": kinds.fla_model(kinds.delta),
                "kda": kinds.fla_model(kinds.delta), "gla": kinds.fla_model(kinds.gla), "retnet": kinds.fla_model(kinds.retnet),
                "hgrn2": kinds.fla_model(kinds.hgrn2), "rwkv6": kinds.rwkv6, "rwkv7": kinds.rwkv7, "mamba": kinds.mamba1,
                "falcon_mamba": kinds.mamba1, "mamba2": kinds.mamba2, "jamba": hybrids.jamba,
                "qwen3_5_text": kinds.qwen, "qwen3_5": kinds.qwen, "lfm2": hybrids.lfm2, "granitemoehybrid": hybrids.granite,
                "falcon_h1": hybrids.falcon_h1, "kimi_linear": hybrids.kimi, "bailing_hybrid": hybrids.ling, "olmo_hybrid": hybrids.olmo_hybrid,
                "lfm3": hybrids.lfm3}
    config = read_config(args.folder)
    if config.get("model_type") not in readings:
        sys.exit(f"check: there is no reading of {config.get('model_type')} in tests/golden/kinds.py")
    return readings[config["model_type"]](read_safetensors(args.folder), config, ids)


# --- the comparison


def log_probabilities(logits, ids):
    logits = logits[:-1] - logits[:-1].max(-1, keepdims=True)
    normed = logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))
    return normed[numpy.arange(len(normed)), ids[1:]]


def report(args, ids, first, ours, theirs):
    off = abs(ours - theirs)
    bad = numpy.flatnonzero(~(off <= args.within))
    worst = int(off.argmax()) if numpy.isfinite(off).all() else int(numpy.flatnonzero(~numpy.isfinite(off))[0])
    print(f"{len(ours)} tokens scored behind {first} that were given, precision {args.precision}, against {args.against}")
    print(f"largest difference of a log-probability: {off[worst]:.3g} at token {first + worst}; mean {off.mean():.3g}")
    if not len(bad):
        print(f"all within {args.within:g}")
        return 0
    print(f"they part at token {first + bad[0]}: {len(bad)} of {len(ours)} are further off than {args.within:g}")
    print("token      id        ours      theirs")
    for i in range(max(0, bad[0] - 3), min(len(ours), bad[0] + 4)):
        print(f"{first + i:5} {ids[first + i]:7} {ours[i]:11.6f} {theirs[i]:11.6f}{'  <' if off[i] > args.within else ''}")
    return 1


def check(args):
    config = read_config(args.folder)
    check_own(args, config)
    if shutil.which(args.linnet) is None:
        sys.exit(f"check: there is no program {args.linnet}: build it, or name it with --linnet")
    for name in () if args.against != "torch" else ("torch",) if is_own(config) else ("torch", "transformers"):
        package(name)
    text = args.text.read_text(encoding="utf-8") if args.text is not None else TEXT
    prompt, rest = text[:FIRST], text[FIRST:]
    while len(rest) > 1 and len(tokens_of(args, rest, False)) > args.tokens:
        rest = rest[: max(1, int(len(rest) * 0.9))]
    ids = tokens_of(args, prompt, True) + tokens_of(args, rest, False)
    ours, first = our_scores(args, prompt, rest)
    if first + len(ours) != len(ids):
        sys.exit(f"check: the server counts {first + len(ours)} tokens, `linnet tokenize` {len(ids)}")
    logits = (torch_logits if args.against == "torch" else float64_logits)(args, ids)
    theirs = log_probabilities(logits, ids)[first - 1 :]
    return report(args, ids, first, ours, theirs)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("folder", type=Path)
    p.add_argument("--against", choices=["torch", "float64"], required=True)
    p.add_argument("--text", type=Path, help="what is scored instead of some lines of our own")
    p.add_argument("--tokens", type=int, default=200, help="at most, about")
    p.add_argument("--linnet", type=Path, default=BUILT if BUILT.exists() else Path("linnet"))
    p.add_argument("--precision", default="f32")
    p.add_argument("--within", type=float, default=1e-3)
    args = p.parse_args()
    try:
        sys.exit(check(args))
    except (OSError, UnicodeDecodeError) as e:
        sys.exit(f"check: {e}")


if __name__ == "__main__":
    main()
