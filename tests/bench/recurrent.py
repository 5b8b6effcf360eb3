#!/usr/bin/env python3
"""Recurrent models on a CPU: Linnet and other servers for such models, in turn on the same cores.

    python3 tests/bench/recurrent.py [--build build] [--size full|large|half|small] [--precisions f32,bf16,q8,q4,q4_k_m]
    python3 tests/bench/recurrent.py --trained MODEL.bin

The models have random weights and layers of width 768: RWKV-7 0.1B (12 layers), Mamba-1 and Mamba-2 130M (24), Qwen3.5's hybrid of
Gated DeltaNet and softmax (12). `experts` is that hybrid with 8 feed-forward nets, of which a token takes 2, and one more for all
tokens. For comparison `softmax` is Llama's transformer of that size with a cache. All have 256
tokens, and all programs get the same numbers. With --size small the weights fit the caches, with
large they are 24 layers of width 1536. --trained measures a trained
RWKV-7 of 256 tokens in rwkv.cpp's format instead.

The other programs are llama.cpp's server, built for this processor, and for RWKV-7 its authors' package `rwkv`, whose loop
takes one stream. scripts/peers makes both; without them `--alone` measures Linnet.

The same client loads both servers over HTTP: 1, 8 and 64 streams at once, and prompts of 512 tokens. Streams take the
likeliest token. Linnet guesses none, because random weights repeat themselves, which makes guesses too easy. A figure is
the median over --rounds rounds, in each of which all programs take turns. A process is bound to the first --threads
cores, the client to the remaining cores. llama.cpp's Q8_0 is compared with Linnet's int8, its
Q4_0 with int4. With q4_k_m both serve one GGUF file.

The last column is Linnet's share of the roofline. The least time is the time to read the weights once, or to multiply
by them if that takes longer, and to read and write the states. These rates come from roofline.c before and after. It
leaves out rows that attention keeps. The weights of experts count if one of the step's tokens chooses them, and every
choice is taken as equally likely. With --isa avx2 there is no such share, because roofline.c has no rates of AVX2 alone
for a processor with AVX-512.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import llama
import machine
import numpy
from machine import ROOT, number, pinned

sys.path.append(str(ROOT / "tests" / "golden"))
import folders  # noqa: E402

spec = importlib.util.spec_from_file_location("convert_rwkv", ROOT / "weights" / "convert" / "rwkv.py")
converter = importlib.util.module_from_spec(spec)  # by its path: a package of that name may be there
spec.loader.exec_module(converter)

PEERS = Path(__file__).with_name("recurrent_peers.py")
SIZES = {"full": {"width": 768, "layers": 12, "mamba_layers": 24, "state": 128, "hidden": 3072},
         "large": {"width": 1536, "layers": 24, "mamba_layers": 48, "state": 128, "hidden": 6144},
         "half": {"width": 384, "layers": 12, "mamba_layers": 24, "state": 64, "hidden": 1536},
         "small": {"width": 128, "layers": 4, "mamba_layers": 2, "state": 32, "hidden": 256}}
THEIR = {"f32": "F32", "bf16": "BF16", "q8": "Q8_0", "q4": "Q4_0", "q4_k_m": "Q4_K_M"}
OUR = {"f32": "f32", "bf16": "auto", "q8": "int8", "q4": "int4", "q4_k_m": "auto"}
MOST_TOKENS = 4096  # of a stream
CONTEXT, PAGE = 1 << 17, 64  # tokens
TEXT = "abcdefghijklmnopqrstuvwxyz .,;"


def parse_arguments():
    def words(text):
        return text.split(",")

    def numbers(text):
        return [int(x) for x in text.split(",")]

    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    llama.add_argument(p)
    p.add_argument("--isa", choices=["auto", "avx2"], default="auto",
                   help="avx2: both as on a processor without AVX-512; scripts/peers --isa avx2 builds llama.cpp so")
    p.add_argument("--python", type=Path, default=llama.PLACE / "bin" / "python", help="with gguf, rwkv, torch and numpy")
    p.add_argument("--alone", action="store_true", help="measure no other program")
    p.add_argument("--size", choices=list(SIZES), default="full")
    p.add_argument("--trained", type=Path, metavar="MODEL.bin", help="this RWKV-7 in place of random weights")
    p.add_argument("--kinds", type=words, default=["rwkv7", "mamba2", "gated_deltanet", "softmax"])
    p.add_argument("--precisions", type=words, default=["f32"])
    p.add_argument("--threads", type=numbers, default=[1, 2])
    p.add_argument("--streams", type=numbers, default=[1, 8, 64])
    p.add_argument("--tokens", type=int, default=32, help="drawn by a stream, at least")
    p.add_argument("--seconds", type=float, default=2.0, help="a figure takes, about")
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    if args.trained is not None:
        args.kinds, args.size = ["rwkv7"], args.trained.stem
    args.options = ["--isa", args.isa]
    if args.isa == "avx2" and args.llama == p.get_default("llama"):
        args.llama = args.llama.parent / "avx2" / args.llama.name
    return args


# --- models: {name: f32 array} as their authors or trainers name them


def spread(rng, shape, mean=0.0, scale=0.05):
    return (mean + scale * rng.standard_normal(shape, numpy.float32)).astype(numpy.float32)


def rwkv7(size, rng):
    d, hidden, ranks, tokens = size["width"], size["hidden"], {"w": 64, "a": 64, "v": 32, "g": 128}, size.get("tokens", 256)
    out = {"emb.weight": spread(rng, (tokens, d), scale=0.5), "head.weight": spread(rng, (tokens, d))}
    for i in range(size["layers"]):
        p = f"blocks.{i}."
        for norm in (["ln0"] if i == 0 else []) + ["ln1", "ln2", "att.ln_x"]:
            out |= {f"{p}{norm}.weight": spread(rng, d, 1), f"{p}{norm}.bias": spread(rng, d)}
        for mix in "rwkvag":
            out[f"{p}att.x_{mix}"] = spread(rng, (1, 1, d), 0.5)
        for pair, rank in ranks.items():
            out |= {f"{p}att.{pair}1": spread(rng, (d, rank)), f"{p}att.{pair}2": spread(rng, (rank, d))}
            if pair != "g":
                out[f"{p}att.{pair}0"] = spread(rng, (1, 1, d), -1)
        out |= {f"{p}att.k_k": spread(rng, (1, 1, d), 0.8), f"{p}att.k_a": spread(rng, (1, 1, d), 1),
                f"{p}att.r_k": spread(rng, (d // 64, 64)), f"{p}ffn.x_k": spread(rng, (1, 1, d), 0.5),
                f"{p}ffn.key.weight": spread(rng, (hidden, d), scale=d**-0.5),
                f"{p}ffn.value.weight": spread(rng, (d, hidden), scale=hidden**-0.5)}
        for name in ("receptance", "key", "value", "output"):
            out[f"{p}att.{name}.weight"] = spread(rng, (d, d), scale=d**-0.5)
    return out | {"ln_out.weight": spread(rng, d, 1), "ln_out.bias": spread(rng, d)}


def filled(tensors, rng):
    return {name: spread(rng, t["shape"], t["mean"], t["scale"] / 3**0.5) for name, t in tensors.items()}


def mamba2_config(size):
    return folders.MAMBA2 | {"hidden_size": size["width"], "num_hidden_layers": size["mamba_layers"], "head_dim": 64,
                             "num_heads": 2 * size["width"] // 64, "state_size": size["state"], "max_position_embeddings": CONTEXT}


def mamba_config(size):
    width = size["width"]
    return folders.MAMBA1 | {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": size["mamba_layers"],
                             "state_size": 16, "time_step_rank": width // 16, "tie_word_embeddings": False,
                             "max_position_embeddings": CONTEXT}


def gdn_config(size):
    """Qwen3.5's dense transformer: llama.cpp serves Gated DeltaNet between layers of attention only, of four the last."""
    heads, layers = size["width"] // 128, size["layers"]
    return folders.QWEN | {"hidden_size": size["width"], "num_hidden_layers": layers, "linear_num_key_heads": heads, "rms_norm_eps": 1e-5,
                           "linear_num_value_heads": heads, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "head_dim": 128,
                           "num_attention_heads": heads, "num_key_value_heads": max(1, heads // 3),
                           "layer_types": ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(layers)],
                           "intermediate_size": 2 * size["width"], "max_position_embeddings": CONTEXT}


def experts_config(size):
    return {key: value for key, value in gdn_config(size).items() if key != "intermediate_size"} | {
        "model_type": folders.QWEN_MOE["model_type"], "architectures": folders.QWEN_MOE["architectures"], "num_experts": 8,
        "num_experts_per_tok": 2, "moe_intermediate_size": size["width"], "shared_expert_intermediate_size": size["width"]}


def pure_gdn_config(size):
    """Gated DeltaNet in all layers, which llama.cpp does not serve."""
    return folders.GATED | {"hidden_size": size["width"], "num_hidden_layers": size["layers"], "head_dim": 128, "expand_v": 1.0,
                            "num_heads": size["width"] // 128, "intermediate_size": 2 * size["width"], "max_position_embeddings": CONTEXT}


def softmax_config(size):
    layers, heads = size["layers"], size["width"] // 64
    attention = folders.ATTN | {"layers": list(range(layers)), "num_heads": heads, "num_kv_heads": heads}
    return folders.GATED | {"hidden_size": size["width"], "num_hidden_layers": layers, "head_dim": 64, "expand_v": 1.0, "num_heads": heads,
                            "attn": attention, "intermediate_size": size["width"] * 8 // 3 // 32 * 32, "max_position_embeddings": CONTEXT}


def trained_rwkv7(path):
    tensors = {name: converter.as_f32(dtype, array) for name, (dtype, array) in converter.read_bin(path).items()}
    if tensors["emb.weight"].shape[0] != 256:
        sys.exit(f"{path}: its tokens are not bytes, which the peers are asked in")
    return tensors


def make(kind, size, trained):
    """(config of the folder, its tensors, those of the peers)"""
    rng = numpy.random.default_rng(1)
    if kind == "rwkv7":
        own = rwkv7(size, rng) if trained is None else trained_rwkv7(trained)
        config = converter.config_of({name: ("F32", array) for name, array in own.items()})
        pairs = (converter.their_tensor(name, array) for name, array in own.items())
        return config, {pair[0]: pair[1] for pair in pairs if pair is not None}, own
    config_of, tensors_of = {"mamba": (mamba_config, folders.mamba1_tensors),
                             "mamba2": (mamba2_config, folders.mamba2_tensors), "gated_deltanet": (gdn_config, folders.qwen_tensors),
                             "experts": (experts_config, folders.qwen_tensors),
                             "pure_gdn": (pure_gdn_config, folders.delta_tensors),
                             "softmax": (softmax_config, folders.delta_tensors)}[kind]
    config = config_of(size)
    tensors = filled(tensors_of(config), rng)
    return config | {"eos_token_id": None, "bos_token_id": None}, tensors, tensors


def write_folder(path, config, tensors, precision):
    path.mkdir()
    text = json.dumps(config).replace("Infinity", '{"__float__": "Infinity"}')
    (path / "config.json").write_text(text)
    wanted = "BF16" if precision == "bf16" else "F32"
    out = {}
    for name, array in tensors.items():
        dtype, data = converter.encode("F32", array, wanted if array.ndim == 2 else None)
        out[name] = (dtype, array.shape, data)
    converter.files.write(path / "model.safetensors", [(name, *tensor) for name, tensor in out.items()], "pt")


# --- who is measured


def ids_of(prompt):
    return [ord(TEXT[i % len(TEXT)]) for i in prompt]


class Linnet:
    def __init__(self, args, model, threads, precision):
        self.name, self.model = f"Linnet {OUR[precision]}", model.stem
        command = [args.build / "linnet", "serve", "--model", model, "--port", "0", "--threads", threads, "--slots", max(args.streams),
                   "--precision", OUR[precision], "--device", "cpu", "--prefix-every", "0", *getattr(args, "options", [])]
        self.process = subprocess.Popen(pinned(command, threads), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            ready = re.search(r"ready: (http://\S+)", line)
            if ready:
                self.url = ready[1] + "/v1/completions"
                return
        sys.exit("".join(lines))

    def body(self, prompt, tokens):
        return {"model": self.model, "prompt": ids_of(prompt), "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "draft": False}

    def close(self):
        self.process.terminate()
        self.process.communicate()


class Llama:
    def __init__(self, args, file, threads, precision):
        self.name = f"llama.cpp {THEIR[precision]}"
        room = max(args.prompt, MOST_TOKENS) + 64
        self.server = llama.serve(pinned(llama.command_of(args.llama, file, threads, max(args.streams), room), threads))
        self.url = self.server.__enter__()[0] + "/completion"

    def body(self, prompt, tokens):
        return {"prompt": ids_of(prompt), "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False}

    def close(self):
        self.server.__exit__(None, None, None)


def ask(server, prompt, tokens):
    body = json.dumps(server.body(prompt, tokens)).encode()
    request = urllib.request.Request(server.url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=3600) as answer:
            said = json.load(answer)
    except urllib.error.HTTPError as e:
        sys.exit(f"{server.name}: {e.read().decode()}")
    drawn = said["usage"]["completion_tokens"] if "usage" in said else said["tokens_predicted"]
    if drawn != tokens:
        sys.exit(f"{server.name}: {drawn} tokens, not {tokens}")


def tokens_a_second(args, server, streams):
    """All begin together; they draw so many tokens that a request's own time does not matter. Before, all states have been in
    use: a virtual machine's host may take seconds for memory that is touched for the first time."""
    tokens = args.tokens
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        list(pool.map(lambda i: ask(server, range(i, i + 4), tokens), range(streams)))
        while True:
            start = time.perf_counter()
            list(pool.map(lambda i: ask(server, range(i, i + 4), tokens), range(streams)))
            seconds = time.perf_counter() - start
            if seconds >= args.seconds or 2 * tokens > MOST_TOKENS:
                return streams * tokens / seconds
            tokens *= 2


def prompt_tokens_a_second(server, n, salt):
    """Each prompt is another one, so that none finds its beginning kept."""
    times = []
    for i in range(4):  # the first warms up
        start = time.perf_counter()
        ask(server, [7 * k + k * k + 11 * i + salt for k in range(n)], 1)
        times.append(time.perf_counter() - start)
    return n / statistics.median(times[1:])


# --- the roofline

BYTES = {"f32": 4, "bf16": 2, "q8": 1, "q4": 4.5 / 8}  # of an element; a mix has its file's


class Roofline:
    """Of a model: elements of the products that every token needs, elements of all experts, the share of experts that a token
    takes. And the bytes of a stream's state that does not grow."""

    def __init__(self, args, model, config, tensors, threads, precision):
        products = {name: array.size for name, array in tensors.items() if array.ndim == 2 and "embed" not in name}
        self.routed = sum(n for name, n in products.items() if ".experts." in name)
        self.elements = sum(products.values()) - self.routed
        self.element = BYTES.get(precision) or model.stat().st_size / sum(array.size for array in tensors.values())
        self.share = config.get("num_experts_per_tok", 0) / config.get("num_experts", 1)
        said = subprocess.run([args.build / "linnet", "inspect", model, "--json"], stdout=subprocess.PIPE, check=True).stdout
        said, self.precision = json.loads(said), precision
        self.state = said["state_bytes"] - said["state_page_bytes"] * (CONTEXT // PAGE)
        self.args, self.threads, self.found = args, threads, []
        self.look()

    def look(self):
        steps = [*self.args.streams, self.args.prompt]
        sizes = sorted({self.weight_bytes(n) for n in steps} | {n * self.state for n in self.args.streams if self.state})
        self.found.append(machine.rates(self.args.build, self.threads, sizes))

    def weight_bytes(self, tokens):
        chosen = 1 - (1 - self.share) ** tokens
        return int((self.elements + chosen * self.routed) * self.element)

    def rate(self, what, size=None):
        return max(found[what] if size is None else found[what][str(size)] for found in self.found)

    def seconds(self, tokens, streams):
        """The least time of a step of so many tokens."""
        reading = self.weight_bytes(tokens) / self.rate("read", self.weight_bytes(tokens))
        flops = {"f32": "f32_flops", "bf16": "bf16_flops"}.get(self.precision, "int8_ops")
        flops = flops if flops in self.found[0] else "f32_flops"
        changed = streams * self.state
        states = changed / self.rate("update", changed) if changed else 0
        return max(reading, 2 * (self.elements + self.share * self.routed) * tokens / self.rate(flops)) + states

    def reached(self, tokens, streams, tokens_a_second):
        return f"{self.seconds(tokens, streams) * tokens_a_second / tokens:.0%}"


# --- a table for each precision


def measure(args, kind, precision, threads, place):
    config, tensors, theirs = make(kind, SIZES.get(args.size), args.trained)
    folder, file, saved = place / f"{kind}-{precision}", place / f"{kind}-{precision}.gguf", place / f"{kind}.npz"
    one_file = precision == "q4_k_m"
    model = file if one_file else folder
    if not one_file and not folder.exists():
        write_folder(folder, config, tensors, precision)
    if (one_file or not args.alone) and not file.exists():
        if not saved.exists():
            numpy.savez(saved, **theirs)
        subprocess.run([args.python, PEERS, "gguf", kind, saved, file, THEIR[precision]], check=True)
    racers, packaged = [lambda: Linnet(args, model, threads, precision)], None
    if not args.alone:
        racers.append(lambda: Llama(args, file, threads, precision))
        if kind == "rwkv7" and precision == "f32" and args.isa == "auto":
            packaged = place / "rwkv7"
            if not packaged.with_suffix(".pth").exists():
                subprocess.run([args.python, PEERS, "pth", saved, packaged], check=True)
    roofline, figures = Roofline(args, model, config, tensors, threads, precision), {}
    for round_ in range(args.rounds):
        for start in racers if round_ % 2 == 0 else racers[::-1]:
            server = start()
            try:
                found = figures.setdefault(server.name, {})
                for streams in args.streams:
                    found.setdefault(f"{streams} streams", []).append(tokens_a_second(args, server, streams))
                found.setdefault("prompt", []).append(prompt_tokens_a_second(server, args.prompt, round_))
            finally:
                server.close()
        if packaged is not None:
            command = pinned([args.python, PEERS, "rwkv", packaged, threads, 64, args.prompt], threads)
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
            said = json.loads(done.stdout.split("RESULT ")[1])
            found = figures.setdefault("rwkv f32", {})
            found.setdefault("1 streams", []).append(said["step"])
            found.setdefault("prompt", []).append(said["prompt"])
    roofline.look()
    return figures, roofline


def rows_of(args, kind, threads, figures, roofline):
    """[label, threads, {name: tokens per second}, times the best other, share of the roofline] of each load"""
    names = sorted(figures, key=lambda name: not name.startswith("Linnet"))
    for what in [f"{n} streams" for n in args.streams] + ["prompt"]:
        median = {name: statistics.median(figures[name][what]) for name in names if what in figures[name]}
        label = f"prompt of {args.prompt}" if what == "prompt" else what.replace("1 streams", "1 stream")
        best = max((x for name, x in median.items() if not name.startswith("Linnet")), default=None)
        streams = 0 if what == "prompt" else int(what.split()[0])
        reached = roofline.reached(streams or args.prompt, streams, median[names[0]]) if args.isa == "auto" else "-"
        ratio = number(median[names[0]] / best) if best else "-"
        yield [f"{kind}, {label}", str(threads), median, ratio, reached]


def print_table(precision, rows):
    names = list(dict.fromkeys(name for _, _, median, *_ in rows for name in median))
    print(f"\n{precision}, tokens per second:\n")
    cells = [[label, threads, *(number(median.get(name)) for name in names), *rest] for label, threads, median, *rest in rows]
    print(machine.table(["", "threads", *names, "times the best other", "share of the roofline"], cells), flush=True)


def main():
    args = parse_arguments()
    print(machine.describe(max(args.threads)))
    if not args.alone:
        print(llama.describe(args.llama, args.isa), flush=True)
    with tempfile.TemporaryDirectory(prefix="recurrent-") as scratch:
        for precision in args.precisions:
            rows = []
            for kind in args.kinds:
                for threads in args.threads:
                    rows += rows_of(args, kind, threads, *measure(args, kind, precision, threads, Path(scratch)))
            print_table(precision, rows)


if __name__ == "__main__":
    main()
