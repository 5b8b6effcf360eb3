"""Folders of random weights of any size, as trainers write them: bf16, in shards, with some tensors in f32."""

import json
import struct
import sys
from pathlib import Path

import numpy

sys.path.append(str(Path(__file__).resolve().parents[1] / "golden"))

import folders  # noqa: E402

SHARDS = 4  # about


def delta_config(n_layers, large):
    """Gated DeltaNet: dense, with a few large tensors per layer."""
    width, heads, key = (2048, 6, 256) if large else (512, 4, 96)
    return folders.GATED | {"hidden_size": width, "num_hidden_layers": n_layers, "num_heads": heads, "head_dim": key,
                            "expand_v": 2.0, "intermediate_size": width * 11 // 4, "eos_token_id": None}


def experts_config(n_layers, large):
    """LFM2 with experts, each of which has tensors of its own. Large: LFM2-8B-A1B's layers."""
    width, hidden, n = (2048, 1792, 32) if large else (512, 512, 128)
    return folders.LFM2_MOE | {
        "hidden_size": width, "num_hidden_layers": n_layers, "num_attention_heads": width // 64, "num_key_value_heads": width // 256,
        "layer_types": ["full_attention" if i % 4 == 2 else "conv" for i in range(n_layers)], "intermediate_size": width * 7 // 2,
        "moe_intermediate_size": hidden, "num_experts": n, "num_experts_per_tok": 4, "num_dense_layers": 1, "eos_token_id": None}


FAMILIES = {"deltanet": (delta_config, folders.delta_tensors), "experts": (experts_config, folders.lfm2_tensors)}


def bytes_of(tensors):
    return sum(int(numpy.prod(t["shape"])) * (2 if t["dtype"] == "BF16" else 4) for t in tensors.values())


def of_megabytes(wanted, family="deltanet", large=False):
    """A config of as many layers as that takes, and its tensors."""
    config_of, tensors_of = FAMILIES[family]
    for n_layers in range(2, 256):
        config = config_of(n_layers, large)
        tensors = folders.in_bf16(tensors_of(config))
        if bytes_of(tensors) >= wanted << 20:
            return config, tensors
    raise AssertionError(f"{wanted} MB are more than 255 layers")


def data_of(t, numbers):
    """numbers: uniform in -1 to 1, again and again."""
    n = int(numpy.prod(t["shape"]))
    values = numpy.resize(numbers, n) * numpy.float32(t["scale"]) + numpy.float32(t["mean"])
    return (values.view(numpy.uint32) >> 16).astype("<u2").tobytes() if t["dtype"] == "BF16" else values.tobytes()


def write_shard(path, tensors, numbers):
    """The tensors in sequence, so that memory holds one at a time."""
    head, at = {}, 0
    for name, t in tensors.items():
        end = at + bytes_of({name: t})
        head[name], at = {"dtype": t["dtype"], "shape": t["shape"], "data_offsets": [at, end]}, end
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            file.write(data_of(t, numbers))


def write(folder, config, tensors):
    """Returns the number of shards."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    parts, weight_map, at, total = [{} for _ in range(SHARDS)], {}, 0, bytes_of(tensors)
    for name, t in tensors.items():
        parts[at * SHARDS // total][name] = t
        at += bytes_of({name: t})
    numbers = numpy.random.default_rng(1).uniform(-1, 1, 1 << 20).astype(numpy.float32)
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05}-of-{len(parts):05}.safetensors"
        write_shard(folder / file, part, numbers)
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return len(parts)
