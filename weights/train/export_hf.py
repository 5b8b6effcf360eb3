#!/usr/bin/env python3
"""Writes an exported model of text as flash-linear-attention writes its own: the same numbers under its names.

    python3 weights/train/export_hf.py FOLDER OUT

FOLDER is what export.py wrote: one input, RMSNorm, a gated feed-forward net, no bias at the head, and in every layer
the same gated_deltanet or delta_net. A tokenizer.json is copied. Settings without a place there are refused by name.
"""

import json
import pathlib
import shutil
import sys

import tensors as files

LAYER = {
    "norm1": "attn_norm", "norm2": "mlp_norm", "ff.gate": "mlp.gate_proj", "ff.up": "mlp.up_proj",
    "ff.down": "mlp.down_proj", "attn.out": "attn.o_proj", "attn.norm": "attn.o_norm",
    **{f"attn.{part}": f"attn.{part}_proj" for part in "qkvabg"},
    **{f"attn.{part}_conv": f"attn.{part}_conv1d" for part in "qkv"},
    "attn.A_log": "attn.A_log", "attn.dt_bias": "attn.dt_bias",
}
MODEL = {"embed.token.weight": "model.embeddings.weight", "final_norm.weight": "model.norm.weight",
         "head.weight": "lm_head.weight"}


def wanted(config: dict, field: str, is_so: bool):
    if not is_so:
        raise SystemExit(f"export_hf: {field} is {json.dumps(config.get(field.split('.')[0]))}: there is no such model there")


def their_name(name: str) -> str:
    if name in MODEL:
        return MODEL[name]
    _, layer, rest = name.split(".", 2)
    stem, dot, weight = rest.rpartition(".") if rest.endswith(".weight") else (rest, "", "")
    return f"model.layers.{layer}.{LAYER[stem]}{dot}{weight}"


def sizes_of(config: dict, own: dict) -> dict:
    """Heads as their config classes count them."""
    heads = own.get("n_heads", config["n_heads"])
    d_key, d_value = (own.get(key, config.get(key, config["d_model"] // config["n_heads"])) for key in ("d_key", "d_value"))
    key_heads = own.get("key_heads", heads)
    if own["kind"] == "gated_deltanet":
        return {"num_heads": key_heads, "num_v_heads": heads, "head_dim": d_key, "expand_v": d_value / d_key}
    wanted(config, "attention.key_heads", key_heads == heads)
    return {"num_heads": heads, "expand_k": heads * d_key / config["d_model"], "expand_v": heads * d_value / config["d_model"],
            "qk_norm": "l2", "qk_activation": "silu", "use_beta": True}


def their_config(config: dict) -> dict:
    own, text = config["attention"], config.get("text", {})
    wanted(config, "task", config["task"] in ("text", "poem"))
    wanted(config, "attention", isinstance(own, dict) and own["kind"] in ("gated_deltanet", "delta_net"))
    wanted(config, "attention.eps", own["eps"] == config["norm_eps"])
    wanted(config, "norm", config["norm"] == "pre")
    wanted(config, "norm_kind", config.get("norm_kind") == "rms")
    wanted(config, "input_norm", not config.get("input_norm"))
    wanted(config, "feed_forward", config.get("feed_forward") == {"kind": "gated_mlp"})
    wanted(config, "head.bias", config["head"].get("bias") is False)
    name = {"gated_deltanet": "GatedDeltaNetForCausalLM", "delta_net": "DeltaNetForCausalLM"}[own["kind"]]
    return {
        "model_type": own["kind"], "architectures": [name], "attn": None, "attn_mode": "chunk", **sizes_of(config, own),
        "hidden_size": config["d_model"], "intermediate_size": config["d_ff"], "hidden_act": "swish",
        "num_hidden_layers": config["n_layers"], "norm_eps": config["norm_eps"], "use_gate": own["gate"] == "silu",
        "use_short_conv": own["conv"] > 0, "conv_size": own["conv"] or 4, "allow_neg_eigval": own["beta"] == "twice_sigmoid",
        "vocab_size": config["head"]["size"], "max_position_embeddings": text["context"], "tie_word_embeddings": False,
        "bos_token_id": text.get("begin"), "eos_token_id": text.get("end") or None, "torch_dtype": "bfloat16",
    } | ({} if config["task"] == "text" else {"linnet_task": config["task"]})


def convert(folder: pathlib.Path, out: pathlib.Path):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    theirs = their_config(config)
    out.mkdir(parents=True, exist_ok=True)
    tensors = []
    for name, dtype, shape, data in files.read(folder / "model.safetensors"):
        shape = [shape[0], 1, shape[1]] if "_conv." in name else shape
        tensors.append((their_name(name), dtype, shape, data))
    files.write(out / "model.safetensors", tensors, "pt")
    (out / "config.json").write_text(json.dumps(theirs, indent=2) + "\n", encoding="utf-8")
    ends = {key: theirs[key] for key in ("bos_token_id", "eos_token_id") if theirs[key] is not None}
    (out / "generation_config.json").write_text(json.dumps(ends, indent=2) + "\n", encoding="utf-8")
    tokenizer = config["text"]["tokenizer"]
    wanted(config["text"], "tokenizer", tokenizer in ("tokenizer.json", "bytes"))
    if tokenizer == "tokenizer.json":
        shutil.copy(folder / tokenizer, out / tokenizer)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    convert(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
