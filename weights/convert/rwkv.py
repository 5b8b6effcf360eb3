#!/usr/bin/env python3
"""Makes a folder that Linnet serves of an RWKV-7 model as its authors save it.

    python3 weights/convert/rwkv.py MODEL.pth OUT [--vocabulary FILE] [--dtype bf16]
    python3 weights/convert/rwkv.py MODEL.bin OUT                 rwkv.cpp's files of f32 and f16

OUT gets config.json and model.safetensors with the names of flash-linear-attention. FILE is RWKV World's
rwkv_vocab_v20230424.txt; a model of 256 tokens reads bytes and needs none. Numbers keep their type unless --dtype says
another one. Tuned states (blocks.I.att.time_state, by --state) become the first state of every request. A .pth is read without
running its code (torch.load, weights_only), which needs torch; a .bin needs numpy only. Unknown tensors are refused by name.
"""

import argparse
import inspect
import json
import re
import shutil
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))
import packages  # noqa: E402, F401 (the line above says where; before the packages that may be missing)

import numpy  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))
import tensors as files  # noqa: E402 (the line above says where)

NORM_EPS = 1e-5  # fixed in the authors' code, as is that of the heads' norm, 64 times as much
MODEL = {"emb.weight": "model.embeddings.weight", "head.weight": "lm_head.weight",
         "ln_out.weight": "model.norm.weight", "ln_out.bias": "model.norm.bias"}
LAYER = {"ln0": "pre_norm", "ln1": "attn_norm", "ln2": "ffn_norm", "att.receptance": "attn.r_proj", "att.key": "attn.k_proj",
         "att.value": "attn.v_proj", "att.output": "attn.o_proj", "att.ln_x": "attn.g_norm", "ffn.key": "ffn.key",
         "ffn.value": "ffn.value"}
VECTORS = {f"att.x_{c}": f"attn.x_{c}" for c in "rwkvag"} | {"att.k_k": "attn.k_k", "att.k_a": "attn.k_a", "ffn.x_k": "ffn.x_k"}
MIXES = "rwkvag"  # the order in att.x_rwkvag of a .bin
MAGIC, VERSIONS = 0x67676D66, (100, 101)


# --- reading: {name: (dtype, array of numpy)}, bf16 as its 16 bits


def read_pth(path):
    import torch

    mapped = {"mmap": True} if "mmap" in inspect.signature(torch.load).parameters else {}  # since PyTorch 2.1
    tensors = torch.load(path, map_location="cpu", weights_only=True, **mapped)
    kinds = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
    out = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in kinds:
            sys.exit(f"rwkv: {path}: {name} is no tensor of f32, f16 or bf16")
        dtype = kinds[tensor.dtype]
        tensor = tensor.contiguous()
        out[name] = (dtype, (tensor.view(torch.int16) if dtype == "BF16" else tensor).numpy())
    return out


def read_bin(path):
    data = Path(path).read_bytes()
    magic, version, *_ = struct.unpack_from("<6I", data)
    if magic != MAGIC or version not in VERSIONS:
        sys.exit(f"rwkv: {path}: not one of rwkv.cpp's files")
    out, at = {}, 24
    while at < len(data):
        n_dims, length, kind = struct.unpack_from("<3I", data, at)
        if n_dims not in (1, 2, 3) or kind not in (0, 1):
            sys.exit(f"rwkv: {path}: a tensor of {n_dims} dimensions and type {kind}: f32 and f16 are read, quantised files are not")
        shape = struct.unpack_from(f"<{n_dims}I", data, at + 12)[::-1]  # the fastest first
        at += 12 + 4 * n_dims
        name = data[at : at + length].decode()
        dtype = numpy.dtype("<f4" if kind == 0 else "<f2")
        n = int(numpy.prod(shape))
        array = numpy.frombuffer(data, dtype, n, at + length).reshape(shape)
        at += length + n * dtype.itemsize
        if name.endswith("att.x_rwkvag"):
            for mix, row in zip(MIXES, array.reshape(len(MIXES), -1)):
                out[name.replace("x_rwkvag", f"x_{mix}")] = ("F32" if kind == 0 else "F16", row)
        else:  # low-rank pairs lie transposed there
            array = array.T if re.search(r"att\.[wavg][12]$", name) else array
            out[name] = ("F32" if kind == 0 else "F16", array)
    return out


# --- names


def their_tensor(name, array):
    """(name there, array); None for a tensor that no layer reads."""
    if name in MODEL:
        return MODEL[name], array
    found = re.fullmatch(r"blocks\.(\d+)\.(.+)", name)
    layer, rest = found.groups() if found else (None, name)
    stem, _, part = rest.rpartition(".")
    prefix = f"model.layers.{layer}."
    if found and stem in LAYER and part in ("weight", "bias"):
        return f"{prefix}{LAYER[stem]}.{part}", array
    if found and rest in VECTORS:
        return prefix + VECTORS[rest], array.reshape(-1)
    if found and rest == "att.r_k":
        return f"{prefix}attn.r_k", array
    if found and rest == "att.time_state":  # [H, V, K] there
        return f"{prefix}attn.time_state", numpy.ascontiguousarray(numpy.swapaxes(array, 1, 2)).reshape(-1, array.shape[1])
    pair = re.fullmatch(r"att\.([wavg])([012])", rest)
    if not found or pair is None:
        sys.exit(f"rwkv: {name} is not a tensor of RWKV-7")
    if layer == "0" and pair[1] == "v":  # values of the first layer are mixed with nothing
        return None
    if pair[2] == "0":
        return f"{prefix}attn.{pair[1]}_lora.lora.2.bias", array.reshape(-1)
    return f"{prefix}attn.{pair[1]}_lora.lora.{0 if pair[2] == '1' else 2}.weight", array.T


def config_of(tensors):
    shapes = {name: array.shape for name, (_, array) in tensors.items()}
    for name in ("emb.weight", "blocks.0.att.r_k", "blocks.0.ffn.key.weight", "blocks.0.att.w1"):
        if name not in shapes:
            sys.exit(f"rwkv: there is no {name}: this is no RWKV-7")
    layers = 1 + max(int(name.split(".")[1]) for name in shapes if name.startswith("blocks."))
    vocab, width = shapes["emb.weight"]
    heads = shapes["blocks.0.att.r_k"][0]
    ranks = {c: shapes.get(f"blocks.{layers - 1}.att.{c}1", (0, 32))[1] for c in "wavg"}
    return {"architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "hidden_size": width, "num_hidden_layers": layers,
            "head_dim": width // heads, "intermediate_size": shapes["blocks.0.ffn.key.weight"][0], "hidden_act": "sqrelu",
            "decay_low_rank_dim": ranks["w"], "a_low_rank_dim": ranks["a"], "v_low_rank_dim": ranks["v"],
            "gate_low_rank_dim": ranks["g"], "norm_first": "blocks.0.ln0.weight" in shapes, "norm_bias": True,
            "norm_eps": NORM_EPS, "vocab_size": vocab, "tie_word_embeddings": False, "max_position_embeddings": 1 << 18,
            "time_state": "blocks.0.att.time_state" in shapes, "bos_token_id": None, "eos_token_id": None if vocab == 256 else 0}


# --- writing


def as_f32(dtype, array):
    if dtype == "BF16":
        return (array.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    return array.astype(numpy.float32)


def encode(dtype, array, wanted):
    """(dtype, bytes); bf16 rounded to nearest, ties to even."""
    if wanted is None or wanted == dtype:
        return dtype, numpy.ascontiguousarray(array).tobytes()
    single = as_f32(dtype, array)
    if wanted == "F32":
        return wanted, single.tobytes()
    bits = numpy.ascontiguousarray(single).view(numpy.uint32)
    return wanted, (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(numpy.uint16).tobytes()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("model", help="a .pth, or a .bin of rwkv.cpp")
    p.add_argument("out", type=Path, help="a folder that is not there yet")
    p.add_argument("--vocabulary", type=Path, help="RWKV World's rwkv_vocab_v20230424.txt")
    p.add_argument("--state", help="a .pth of tuned states, for this model")
    p.add_argument("--dtype", choices=["f32", "bf16"], help="of all matrices")
    args = p.parse_args()
    tensors = (read_bin if args.model.endswith(".bin") else read_pth)(args.model)
    if args.state is not None:
        states = read_pth(args.state)
        if not states or not all(name.endswith("att.time_state") and len(array.shape) == 3 for name, (_, array) in states.items()):
            sys.exit(f"rwkv: {args.state} holds something else than tuned states, blocks.I.att.time_state")
        tensors |= states
    config, out = config_of(tensors), {}
    if config["vocab_size"] != 256 and args.vocabulary is None:
        sys.exit(f"rwkv: {config['vocab_size']} tokens: name their file by --vocabulary")
    for name, (dtype, array) in tensors.items():
        found = their_tensor(name, array)
        if found is not None:
            theirs, array = found
            wanted = args.dtype.upper() if args.dtype is not None and array.ndim > 1 else None
            stored, data = encode(dtype, array, wanted)
            out[theirs] = (stored, array.shape, data)
    args.out.mkdir(parents=True)
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if args.vocabulary is not None:
        shutil.copyfile(args.vocabulary, args.out / "rwkv_vocab_v20230424.txt")
    files.write(args.out / "model.safetensors", [(name, *tensor) for name, tensor in out.items()], "pt")
    print(f"{args.out}: {config['num_hidden_layers']} layers of {config['hidden_size']}, {len(out)} tensors")


if __name__ == "__main__":
    main()
