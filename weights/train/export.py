"""Writes a trained module in the server's weights format (docs/weights-format.md)."""

import json
import pathlib
import struct

import torch

# Parameter name in the module -> tensor name in the file, by part.
RENAMES = [
    ("embedding.tables.", "embed."),
    (".attention.qkv.", ".attn.qkv."),
    (".attention.out.", ".attn.out."),
    (".feed_forward.up.", ".ff.up."),
    (".feed_forward.down.", ".ff.down."),
]


def check_exportable(config: dict):
    """The server has one attention kind with one feature map."""
    attention = config["attention"]
    if (attention["kind"], attention["feature_map"]) != ("linear", "elu+1"):
        raise SystemExit(f"--out: the server has no {attention['kind']} attention with {attention['feature_map']}")


def tensor_name(name: str) -> str:
    for old, new in RENAMES:
        name = name.replace(old, new)
    return name


def encode(name: str, tensor: torch.Tensor, config: dict) -> tuple[str, bytes]:
    """bf16, but f32 for the head of a mixture: a mean wants more than 8 bits."""
    exact = name.startswith("head.") and config["head"]["kind"] == "logistic_mixture"
    tensor = tensor.detach().cpu().contiguous()
    if exact:
        return "F32", tensor.float().numpy().tobytes()
    return "BF16", tensor.bfloat16().view(torch.int16).numpy().tobytes()


def write_safetensors(path: pathlib.Path, tensors: dict[str, torch.Tensor], config: dict):
    """The safetensors layout; data begins at a multiple of 64 bytes."""
    header, offset, blobs = {"__metadata__": {"format": "linnet"}}, 0, []
    for name, tensor in tensors.items():
        dtype, blob = encode(name, tensor, config)
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def export_model(out: pathlib.Path, model: torch.nn.Module, config: dict, vocabulary: list[str] | None):
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(out / "model.safetensors", {tensor_name(k): v for k, v in model.state_dict().items()}, config)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if vocabulary:
        (out / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
