"""Model folders as Hugging Face's libraries write them, made on the spot: the configs and shapes of
tests/golden/folders.py, random numbers, and a tokenizer.json."""

import functools
import json
import random
import struct
import sys
from array import array
from pathlib import Path

import numpy
import vocabularies

sys.path.append(str(Path(__file__).resolve().parents[1] / "golden"))

import folders  # noqa: E402


def data_of(tensor, rng):
    n = 1
    for size in tensor["shape"]:
        n *= size
    low, high, draw = tensor["mean"] - tensor["scale"], tensor["mean"] + tensor["scale"], rng.random
    return array("f", [low + (high - low) * draw() for _ in range(n)]).tobytes()  # as rng.uniform does


def as_bf16(data):
    """Bytes of f32, rounded."""
    bits = numpy.frombuffer(data, "<u4").astype(numpy.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


def write_safetensors(path, tensors, dtype="F32"):
    """tensors: name to (shape, bytes)."""
    head, at = {}, 0
    for name, (shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps({**head, "__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def read_safetensors(path):
    """name to (shape, bytes)."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + length])
    return {name: (t["shape"], data[8 + length + t["data_offsets"][0] : 8 + length + t["data_offsets"][1]])
            for name, t in head.items() if name != "__metadata__"}


def write_shards(folder, tensors, n):
    """Files of about as many tensors each, and their index."""
    names, weight_map = list(tensors), {}
    for i in range(n):
        part = names[i * len(names) // n : (i + 1) * len(names) // n]
        file = f"model-{i + 1:05}-of-{n:05}.safetensors"
        write_safetensors(folder / file, {name: tensors[name] for name in part})
        weight_map |= dict.fromkeys(part, file)
    total = sum(len(data) for _, data in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))


@functools.cache
def tokenizer_of_all():
    return vocabularies.byte_level(pattern=vocabularies.QWEN2, template=True)


def write(folder, config, tensors_of, seed=1, shards=0, bf16=False, tokenizer=None):
    """tensors_of: of folders.py, the tensors that the config asks for; in so many shards, or in one file, there also in
    bf16. Returns the tokenizer: the given one, or one that all such folders share."""
    folder.mkdir(parents=True)
    tokenizer = tokenizer or tokenizer_of_all()
    own = {"vocab_size": tokenizer.get_vocab_size() + 6, "eos_token_id": 3, "bos_token_id": 2}
    config = config | ({"text_config": config["text_config"] | own} if "text_config" in config else own)
    rng = random.Random(seed)
    tensors = {name: (t["shape"], data_of(t, rng)) for name, t in tensors_of(config).items()}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 2, "eos_token_id": 3}))
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    if shards:
        write_shards(folder, tensors, shards)
    elif bf16:
        rounded = {name: (shape, as_bf16(data)) for name, (shape, data) in tensors.items()}
        write_safetensors(folder / "model.safetensors", rounded, "BF16")
    else:
        write_safetensors(folder / "model.safetensors", tensors)
    return tokenizer
