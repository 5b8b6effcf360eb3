"""Writes a trained module in the server's weights format (docs/weights-format.md), and reads one back."""

import json
import pathlib

import mixers
import tensors as files
import torch


def encode(name: str, tensor: torch.Tensor, config: dict) -> tuple[str, bytes]:
    """bf16, but f32 for the head of a mixture, where a mean wants more than 8 bits, and for rates of decay, which are
    multiplied once per token."""
    exact = name.startswith("head.") and config["head"]["kind"] == "logistic_mixture"
    exact = exact or name.endswith(("A_log", "dt_bias"))
    tensor = tensor.detach().cpu().contiguous()
    if exact:
        return "F32", tensor.float().numpy().tobytes()
    return "BF16", tensor.bfloat16().view(torch.int16).numpy().tobytes()


def write_safetensors(path: pathlib.Path, tensors: dict[str, torch.Tensor], config: dict):
    encoded = {name: encode(name, tensor, config) for name, tensor in tensors.items()}
    files.write(path, [(name, dtype, list(tensors[name].shape), blob) for name, (dtype, blob) in encoded.items()], "linnet")


def export_model(out: pathlib.Path, model: torch.nn.Module, config: dict, vocabulary: list[str] | None):
    out.mkdir(parents=True, exist_ok=True)
    config = mixers.learned_config(config, model.layers)
    write_safetensors(out / "model.safetensors", mixers.of_the_file(model.state_dict(), model.layers), config)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if vocabulary:
        (out / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")


TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def read_safetensors(path: pathlib.Path) -> dict[str, torch.Tensor]:
    return {name: torch.frombuffer(data, dtype=TYPES[dtype]).view(shape) for name, dtype, shape, data in files.read(path)}


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
                raise SystemExit(f"{folder}: its weights have no {name} of shape {list(parameter.shape)}")
            else:
                parameter.copy_(saved)
    if tensors:
        raise SystemExit(f"{folder}: its weights have {', '.join(tensors)}, which this model has not")
