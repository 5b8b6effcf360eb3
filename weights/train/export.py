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


def tensor_name(name: str) -> str:
    for old, new in RENAMES:
        name = name.replace(old, new)
    return name


def write_safetensors(path: pathlib.Path, tensors: dict[str, torch.Tensor]):
    """bf16 tensors in the safetensors layout; data begins at a multiple of 64 bytes."""
    header, offset, blobs = {"__metadata__": {"format": "linnet"}}, 0, []
    for name, tensor in tensors.items():
        blob = tensor.detach().cpu().bfloat16().contiguous().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def export_model(out: pathlib.Path, model: torch.nn.Module, config: dict, vocabulary: list[str] | None):
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(out / "model.safetensors", {tensor_name(k): v for k, v in model.state_dict().items()})
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if vocabulary:
        (out / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
