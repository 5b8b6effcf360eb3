"""Writes a trained module in the server's weights format (docs/weights-format.md), and reads one back."""

import json
import pathlib
import struct

import mixers
import torch

def check_exportable(config: dict):
    """The server's linear attention has one feature map."""
    for layer in range(config["n_layers"]):
        own = mixers.own_config(config, layer)
        if own["kind"] == "linear" and own["feature_map"] != "elu+1":
            raise SystemExit(f"--out: the server has no linear attention with {own['feature_map']}")


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
    config = mixers.learned_config(config, model.layers)
    write_safetensors(out / "model.safetensors", mixers.of_the_file(model.state_dict(), model.layers), config)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if vocabulary:
        (out / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")


TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def read_safetensors(path: pathlib.Path) -> dict[str, torch.Tensor]:
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        part = memoryview(data)[8 + length + begin : 8 + length + end]
        tensors[name] = torch.frombuffer(part, dtype=TYPES[entry["dtype"]]).view(entry["shape"])
    return tensors


def load_exported(folder: pathlib.Path, model: torch.nn.Module):
    """Gives the module the weights of an exported one. An input that one did not have starts at zero, and changes
    nothing until it is trained."""
    tensors = read_safetensors(folder / "model.safetensors")
    with torch.no_grad():
        for name, parameter in mixers.of_the_file(dict(model.named_parameters()), model.layers).items():
            saved = tensors.pop(name, None)
            if saved is None and name.startswith("embed."):
                parameter.zero_()
            elif saved is None or saved.shape != parameter.shape:
                raise SystemExit(f"--init {folder}: it has no {name} of shape {list(parameter.shape)}")
            else:
                parameter.copy_(saved)
    if tensors:
        raise SystemExit(f"--init {folder}: this model has no {', '.join(tensors)}")
