"""The peers' files and loops of recurrent.py, in their own environment (gguf, rwkv, torch, numpy; scripts/peers makes it):

    recurrent_peers.py gguf KIND TENSORS.npz OUT.gguf F32|BF16|Q8_0|Q4_0|Q4_K_M [TOKENS.json]
                                                               writes llama.cpp's file, with 256 tokens or with these
    recurrent_peers.py pth TENSORS.npz OUT                             writes OUT.pth for `rwkv`
    recurrent_peers.py rwkv OUT THREADS STEPS PROMPT                   {"step": tokens per second, "prompt": tokens per second}
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy

IDS, EPS, HEAD = 256, 1e-5, 64


# --- llama.cpp's file


def start_file(path, arch, config, gguf, layers, width, hidden, heads=0):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(1 << 17)  # CONTEXT of recurrent.py
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    return writer


def add_tokens(writer, gguf, file):
    """Pairs of letters, or the file's tokens, spelt as llama.cpp does, after a token 0 that ends a text."""
    writer.add_tokenizer_model("rwkv")
    if file is None:
        texts = [chr(97 + i // 16) + chr(97 + i % 16) for i in range(IDS)]
        types = [gguf.TokenType.NORMAL] * IDS
    else:
        texts = ["<s>", *json.loads(Path(file).read_text())]
        types = [gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(texts) - 1)
        writer.add_eos_token_id(0)
    writer.add_token_list([text.encode() for text in texts])
    writer.add_token_types(types)


def add_byte_tokens(writer, gguf):
    """GPT-2's letters of bytes, which Linnet reads in a file of 256 tokens, too. A last token has the one merge."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([chr(byte) if byte in visible else chr(256 + hidden.index(byte)) for byte in range(IDS - 1)] + ["ab"])
    writer.add_token_types([gguf.TokenType.NORMAL] * IDS)
    writer.add_token_merges(["a b"])


def rwkv7_file(path, t, gguf):
    layers = 1 + max(int(name.split(".")[1]) for name in t if name.startswith("blocks."))
    width, (heads, size) = t["emb.weight"].shape[1], t["blocks.0.att.r_k"].shape
    writer = start_file(path, "rwkv7", t, gguf, layers, width, t["blocks.0.ffn.key.weight"].shape[0])
    writer.add_layer_norm_eps(EPS)
    writer.add_wkv_head_size(size)
    last = f"blocks.{layers - 1}.att."
    for add, pair in ((writer.add_decay_lora_rank, "w"), (writer.add_iclr_lora_rank, "a"),
                      (writer.add_value_residual_mix_lora_rank, "v"), (writer.add_gate_lora_rank, "g")):
        add(t[f"{last}{pair}1"].shape[1])
    out = {"token_embd.weight": t["emb.weight"], "output.weight": t["head.weight"]}
    for theirs, own in (("token_embd_norm", "blocks.0.ln0"), ("output_norm", "ln_out")):
        out |= {f"{theirs}.{part}": t[f"{own}.{part}"] for part in ("weight", "bias")}
    for i in range(layers):
        p, q = f"blocks.{i}.", f"blk.{i}."
        for theirs, own in (("attn_norm", "ln1"), ("attn_norm_2", "ln2"), ("time_mix_ln", "att.ln_x")):
            out |= {f"{q}{theirs}.{part}": t[f"{p}{own}.{part}"] for part in ("weight", "bias")}
        mixes = [t[f"{p}att.x_{mix}"].reshape(1, 1, -1) for mix in "rwkvag"]
        out[f"{q}time_mix_lerp_fused.weight"] = numpy.stack(mixes)
        for pair in "wavg":
            own = "a" if pair == "v" and i == 0 else pair  # v of layer 0 is never read, and must be as large as a
            if pair != "g":
                out[f"{q}time_mix_{pair}0.weight"] = t[f"{p}att.{own}0"].reshape(-1)
            for n in "12":
                out[f"{q}time_mix_{pair}{n}.weight"] = numpy.ascontiguousarray(t[f"{p}att.{own}{n}"].T)
        for name in ("k_k", "k_a", "r_k"):
            out[f"{q}time_mix_{name}.weight"] = t[f"{p}att.{name}"].reshape(-1)
        for name in ("receptance", "key", "value", "output"):
            out[f"{q}time_mix_{name}.weight"] = t[f"{p}att.{name}.weight"]
        out[f"{q}channel_mix_lerp_k.weight"] = t[f"{p}ffn.x_k"].reshape(1, 1, -1)
        out[f"{q}channel_mix_key.weight"] = t[f"{p}ffn.key.weight"]
        out[f"{q}channel_mix_value.weight"] = t[f"{p}ffn.value.weight"]
    return writer, out


def mamba_file(path, t, gguf):
    layers = 1 + max(int(name.split(".")[2]) for name in t if name.startswith("backbone.layers."))
    width, (inner, state) = t["backbone.embeddings.weight"].shape[1], t["backbone.layers.0.mixer.A_log"].shape
    writer = start_file(path, "mamba", t, gguf, layers, width, 0)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_ssm_conv_kernel(t["backbone.layers.0.mixer.conv1d.weight"].shape[2])
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(t["backbone.layers.0.mixer.dt_proj.weight"].shape[1])
    out = {"token_embd.weight": t["backbone.embeddings.weight"], "output.weight": t["lm_head.weight"],
           "output_norm.weight": t["backbone.norm_f.weight"]}
    names = {"ssm_in.weight": "in_proj.weight", "ssm_out.weight": "out_proj.weight", "ssm_x.weight": "x_proj.weight",
             "ssm_dt.weight": "dt_proj.weight", "ssm_dt.bias": "dt_proj.bias", "ssm_conv1d.bias": "conv1d.bias", "ssm_d": "D"}
    for i in range(layers):
        p, q = f"backbone.layers.{i}.", f"blk.{i}."
        out |= {f"{q}{theirs}": t[f"{p}mixer.{own}"] for theirs, own in names.items()}
        out |= {f"{q}attn_norm.weight": t[f"{p}norm.weight"], f"{q}ssm_a": -numpy.exp(t[f"{p}mixer.A_log"]),
                f"{q}ssm_conv1d.weight": t[f"{p}mixer.conv1d.weight"][:, 0].copy()}
    return writer, out


def mamba2_file(path, t, gguf):
    layers = 1 + max(int(name.split(".")[2]) for name in t if name.startswith("backbone.layers."))
    width, heads = t["backbone.embeddings.weight"].shape[1], t["backbone.layers.0.mixer.A_log"].size
    inner = t["backbone.layers.0.mixer.norm.weight"].size
    channels, _, taps = t["backbone.layers.0.mixer.conv1d.weight"].shape
    writer = start_file(path, "mamba2", t, gguf, layers, width, 0)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size((channels - inner) // 2)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(1)
    out = {"token_embd.weight": t["backbone.embeddings.weight"], "output.weight": t["lm_head.weight"],
           "output_norm.weight": t["backbone.norm_f.weight"]}
    for i in range(layers):
        p, q = f"backbone.layers.{i}.", f"blk.{i}."
        m = {name: t[f"{p}mixer.{name}"] for name in ("in_proj.weight", "out_proj.weight", "conv1d.bias", "dt_bias", "D", "A_log")}
        out |= {f"{q}attn_norm.weight": t[f"{p}norm.weight"], f"{q}ssm_in.weight": m["in_proj.weight"],
                f"{q}ssm_out.weight": m["out_proj.weight"], f"{q}ssm_conv1d.bias": m["conv1d.bias"],
                f"{q}ssm_conv1d.weight": t[f"{p}mixer.conv1d.weight"][:, 0].copy(), f"{q}ssm_dt.bias": m["dt_bias"],
                f"{q}ssm_a": -numpy.exp(m["A_log"]).reshape(-1, 1), f"{q}ssm_d": m["D"].reshape(-1, 1),
                f"{q}ssm_norm.weight": t[f"{p}mixer.norm.weight"].reshape(1, -1)}
    return writer, out


def softmax_file(path, t, gguf):
    """Llama's. The order of a head's rotated components is another one there: as good for random weights."""
    layers = 1 + max(int(name.split(".")[2]) for name in t if name.startswith("model.layers."))
    hidden, width = t["model.layers.0.mlp.gate_proj.weight"].shape
    writer = start_file(path, "llama", t, gguf, layers, width, hidden, width // HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(EPS)
    out = {"token_embd.weight": t["model.embeddings.weight"], "output.weight": t["lm_head.weight"],
           "output_norm.weight": t["model.norm.weight"]}
    names = {"attn_norm": "attn_norm", "attn_q": "attn.q_proj", "attn_k": "attn.k_proj", "attn_v": "attn.v_proj", "attn_output": "attn.o_proj",
             "ffn_norm": "mlp_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    for i in range(layers):
        out |= {f"blk.{i}.{theirs}.weight": t[f"model.layers.{i}.{own}.weight"] for theirs, own in names.items()}
    return writer, out


def qwen_nets(t, p, q):
    """A layer's feed-forward net, or its experts."""
    names = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
    if f"{p}mlp.gate.weight" not in t:
        return {f"{q}ffn_{theirs}.weight": t[f"{p}mlp.{own}.weight"] for theirs, own in names.items()}
    out = {f"{q}ffn_gate_inp.weight": t[f"{p}mlp.gate.weight"],
           f"{q}ffn_gate_inp_shexp.weight": t[f"{p}mlp.shared_expert_gate.weight"].reshape(-1)}
    for theirs, own in names.items():
        all_of = [t[f"{p}mlp.experts.{expert}.{own}.weight"] for expert in range(len(t[f"{p}mlp.gate.weight"]))]
        out |= {f"{q}ffn_{theirs}_exps.weight": numpy.stack(all_of), f"{q}ffn_{theirs}_shexp.weight": t[f"{p}mlp.shared_expert.{own}.weight"]}
    return out


def gdn_file(path, t, gguf):
    """Qwen3.5's transformer, dense or with experts, of which a token takes two."""
    layers = 1 + max(int(name.split(".")[2]) for name in t if name.startswith("model.layers."))
    attention = min(int(name.split(".")[2]) for name in t if name.endswith("self_attn.q_norm.weight"))
    experts = t.get("model.layers.0.mlp.gate.weight")
    net = "gate_proj" if experts is None else "shared_expert.gate_proj"
    hidden, width = t[f"model.layers.0.mlp.{net}.weight"].shape
    arch = "qwen35" if experts is None else "qwen35moe"
    heads, size = t["model.layers.0.linear_attn.A_log"].size, t["model.layers.0.linear_attn.norm.weight"].size
    q_heads, kv_heads = (t[f"model.layers.{attention}.self_attn.{name}_proj.weight"].shape[axis] // size
                         for name, axis in (("o", 1), ("k", 0)))
    writer = start_file(path, arch, t, gguf, layers, width, hidden, q_heads)
    if experts is not None:
        writer.add_expert_count(len(experts))
        writer.add_expert_used_count(2)
        writer.add_expert_feed_forward_length(t["model.layers.0.mlp.experts.0.gate_proj.weight"].shape[0])
        writer.add_expert_shared_feed_forward_length(hidden)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(size // 2)
    writer.add_rope_dimension_sections([(size // 4 + 2 - i) // 3 for i in range(3)] + [0])  # those of a text are one
    writer.add_uint32(f"{arch}.full_attention_interval", attention + 1)
    writer.add_ssm_conv_kernel(t["model.layers.0.linear_attn.conv1d.weight"].shape[2])
    writer.add_ssm_inner_size(heads * size)
    writer.add_ssm_state_size(size)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(heads)
    out = {"token_embd.weight": t["model.embed_tokens.weight"], "output.weight": t["lm_head.weight"],
           "output_norm.weight": 1 + t["model.norm.weight"]}
    delta = {"attn_qkv": "in_proj_qkv", "attn_gate": "in_proj_z", "ssm_beta": "in_proj_b", "ssm_alpha": "in_proj_a", "ssm_norm": "norm",
             "ssm_out": "out_proj"}
    softmax = {"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj"}
    for i in range(layers):
        p, q = f"model.layers.{i}.", f"blk.{i}."
        out |= {f"{q}attn_norm.weight": 1 + t[f"{p}input_layernorm.weight"],
                f"{q}post_attention_norm.weight": 1 + t[f"{p}post_attention_layernorm.weight"]} | qwen_nets(t, p, q)
        if f"{p}self_attn.q_proj.weight" in t:
            out |= {f"{q}{theirs}.weight": t[f"{p}self_attn.{own}.weight"] for theirs, own in softmax.items()}
            out |= {f"{q}attn_{x}_norm.weight": 1 + t[f"{p}self_attn.{x}_norm.weight"] for x in "qk"}
        else:
            p += "linear_attn."
            out |= {f"{q}{theirs}.weight": t[f"{p}{own}.weight"] for theirs, own in delta.items()}
            out |= {f"{q}ssm_conv1d.weight": t[f"{p}conv1d.weight"][:, 0].copy(), f"{q}ssm_dt.bias": t[f"{p}dt_bias"],
                    f"{q}ssm_a": -numpy.exp(t[f"{p}A_log"])}
    return writer, out


FILES = {"rwkv7": rwkv7_file, "mamba": mamba_file, "mamba2": mamba2_file, "gated_deltanet": gdn_file, "experts": gdn_file,
         "softmax": softmax_file}
EXACT = ("ffn_gate_inp", "ssm_conv1d", "ssm_norm", "ssm_a", "ssm_d", "time_mix_lerp_fused")  # f32 in every file of theirs


def type_in_mix(name, array, layers):
    """A matrix's type in llama.cpp's Q4_K_M. Rows that are not blocks of 256 have blocks of 32 here."""
    layer, eighth = int(name.split(".")[1]) if name.startswith("blk.") else 0, layers // 8
    has_more = layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    if array.shape[-1] % 256 != 0:
        return "Q8_0"
    if name == "output.weight" or (has_more and name.endswith(("attn_v.weight", "ffn_down.weight"))):
        return "Q6_K"
    return "Q5_K" if name.endswith("attn_qkv.weight") else "Q4_K"


def encoded(array, kind, gguf):
    """gguf writes no blocks of 256. The tests do, without this folder: its tokenizers.py hides a package."""
    if not kind.endswith("_K"):
        return gguf.quants.quantize(array, gguf.GGMLQuantizationType[kind])
    sys.path[0] = str(Path(__file__).resolve().parents[1] / "http")
    import gguf_file

    return numpy.frombuffer(gguf_file.encode(array, kind)[0], numpy.uint8).reshape(*array.shape[:-1], -1)


def write_gguf(kind, tensors, path, precision, tokens=None):
    import gguf

    writer, out = FILES[kind](path, dict(numpy.load(tensors)), gguf)
    layers = 1 + max(int(name.split(".")[1]) for name in out if name.startswith("blk."))
    if precision == "Q4_K_M":
        add_byte_tokens(writer, gguf)
    else:
        add_tokens(writer, gguf, tokens)
    writer.add_file_type(gguf.LlamaFileType["ALL_F32" if precision == "F32" else f"MOSTLY_{precision}"])
    for name, array in out.items():
        wanted = type_in_mix(name, array, layers) if precision == "Q4_K_M" else precision
        small = (array.ndim != 2 and "_exps" not in name) or any(part in name for part in EXACT) or array.shape[-1] % 32 != 0
        if small or precision == "F32":
            writer.add_tensor(name, numpy.ascontiguousarray(array, dtype=numpy.float32))
        else:
            writer.add_tensor(name, encoded(array, wanted, gguf), raw_dtype=gguf.GGMLQuantizationType[wanted])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# --- loops


def run_rwkv(path, threads, steps, prompt):
    os.environ |= {"RWKV_V7_ON": "1", "RWKV_JIT_ON": "0", "RWKV_CUDA_ON": "0"}
    import torch

    torch.set_num_threads(threads)
    from rwkv.model import RWKV

    model = RWKV(model=path, strategy="cpu fp32")
    ids = [i % IDS for i in range(prompt)]
    model.forward(ids[:8], None)
    start = time.perf_counter()
    logits, state = model.forward(ids, None)
    at_prompt = prompt / (time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(steps):
        logits, state = model.forward([int(logits.argmax())], state)
    print("RESULT " + json.dumps({"step": steps / (time.perf_counter() - start), "prompt": at_prompt}))


def main():
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "gguf":
        write_gguf(*rest)
    elif what == "pth":
        import torch

        torch.save({name: torch.tensor(array) for name, array in numpy.load(rest[0]).items()}, rest[1] + ".pth")
    else:
        run_rwkv(rest[0], *map(int, rest[1:]))


if __name__ == "__main__":
    main()
