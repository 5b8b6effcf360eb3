"""GGUF files made on the spot: a folder of hf_model.py as llama.cpp's converter writes it (conversion/qwen.py, rwkv.py,
mamba.py, llama.py), with values of any of its plain types and simple blocks."""

import json
import struct

import numpy

import hf_model

ALIGNMENT = 32
# Numbers of the file: kinds of metadata, types of values with the numbers and bytes of a block.
U32, I32, F32, BOOL, TEXT, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34),
         "Q4_1": (3, 32, 20), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210)}
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


# --- the container


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    if kind == TEXT:
        return text(value)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}[kind], value)


def kind_of(value):
    if isinstance(value, bool):
        return BOOL
    return {int: U32, float: F32, str: TEXT, bytes: TEXT}[type(value)]


def metadata(key, value):
    """An array is a list, or a pair (kind, list)."""
    if isinstance(value, (list, tuple)):
        kind, items = value if isinstance(value, tuple) else (kind_of(value[0]), value)
        return text(key) + struct.pack("<IIQ", ARRAY, kind, len(items)) + b"".join(scalar(kind, item) for item in items)
    return text(key) + struct.pack("<I", kind_of(value)) + scalar(kind_of(value), value)


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT) if len(data) % ALIGNMENT else data


def whole(keys, tensors, version=3):
    """keys: name to value; tensors: name to (type, shape, bytes)."""
    head, data, at = b"", [], 0
    for name, (kind, shape, values) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), TYPES[kind][0], at)
        data.append(padded(values))
        at += len(data[-1])
    start = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    return padded(start + b"".join(metadata(*pair) for pair in keys.items()) + head) + b"".join(data)


# --- values


def blocks_of(values, kind):
    """Blocks of 32 as (scales, whole numbers), rounded as ggml's plain code does."""
    rows = values.reshape(-1, 32)
    if kind == "Q8_0":
        scale = numpy.abs(rows).max(1, keepdims=True) / 127
    else:
        scale = numpy.take_along_axis(rows, numpy.abs(rows).argmax(1, keepdims=True), 1) / -8
    quotient = rows / numpy.where(scale == 0, 1, scale)
    least, most = (-127, 127) if kind == "Q8_0" else (-8, 7)
    return scale.astype(numpy.float16), numpy.clip(numpy.round(quotient), least, most).astype(numpy.int8)


def encode_q4_1(values):
    rows = values.reshape(-1, 32)
    low = rows.min(1, keepdims=True).astype(numpy.float16)
    scale = ((rows.max(1, keepdims=True) - low) / 15).astype(numpy.float16)
    d, m = scale.astype(numpy.float32), low.astype(numpy.float32)
    q = numpy.clip(numpy.round((rows - m) / numpy.maximum(d, 1e-7)), 0, 15).astype(numpy.uint8)
    data = numpy.concatenate([scale.view(numpy.uint8), low.view(numpy.uint8), q[:, :16] | q[:, 16:] << 4], 1)
    return data.tobytes(), (q * d + m).reshape(values.shape).astype(numpy.float32)


def encode_q4_k(values, most=15):
    """Eight parts of a block have scales and minima of six bits, which share twelve bytes. Q5_K has a fifth bit of every number."""
    parts = values.reshape(-1, 8, 32)
    low = numpy.minimum(parts.min(2), 0)
    span = parts.max(2) - low
    step = numpy.stack([span.max(1) / most / 63, -low.min(1) / 63], 1).astype(numpy.float16)
    d, e = (numpy.maximum(step.astype(numpy.float32)[:, i, None], 1e-7) for i in range(2))
    s, m = (numpy.clip(numpy.round(x), 0, 63).astype(numpy.uint8) for x in (span / most / d, -low / e))
    d, e = (step.astype(numpy.float32)[:, i, None] for i in range(2))
    factor, minus = (d * s)[:, :, None], (e * m)[:, :, None]
    q = numpy.clip(numpy.round((parts + minus) / numpy.maximum(factor, 1e-7)), 0, most).astype(numpy.uint8)
    shared = (x[:, :4] | x[:, 4:] >> 4 << 6 for x in (s, m))
    fifth = [] if most < 16 else [sum((q[:, i] >> 4) << i for i in range(8)).astype(numpy.uint8)]
    pairs = (q & 15).reshape(-1, 4, 2, 32)
    body = [step.view(numpy.uint8).reshape(-1, 4), *shared, s[:, 4:] & 15 | (m[:, 4:] & 15) << 4, *fifth,
            (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)]
    return numpy.concatenate(body, 1).tobytes(), (factor * q - minus).reshape(values.shape).astype(numpy.float32)


def encode_q6_k(values):
    """Parts of one scale each; of six bits four lie in the low half, four numbers share a byte of the upper two."""
    rows = values.reshape(-1, 256)
    scale = (numpy.abs(rows).max(1, keepdims=True) / 31).astype(numpy.float16)
    numbers = numpy.clip(numpy.round(rows / numpy.maximum(scale.astype(numpy.float32), 1e-8)), -32, 31).astype(numpy.int8)
    bits = (numbers + 32).astype(numpy.uint8).reshape(-1, 2, 4, 32)  # half, part, number
    low = bits[:, :, :2] & 15 | (bits[:, :, 2:] & 15) << 4
    high = sum((bits[:, :, part] >> 4) << 2 * part for part in range(4))
    n = len(rows)
    parts = [low.reshape(n, 128), high.astype(numpy.uint8).reshape(n, 64), numpy.ones((n, 16), numpy.uint8), scale.view(numpy.uint8).reshape(n, 2)]
    return numpy.concatenate(parts, 1).tobytes(), (numbers * scale.astype(numpy.float32)).reshape(values.shape)


def encode(values, kind):
    """The bytes, and the numbers that they stand for."""
    values = numpy.ascontiguousarray(values, numpy.float32)
    if kind == "F32":
        return values.tobytes(), values
    if kind == "F16":
        half = values.astype(numpy.float16)
        return half.tobytes(), half.astype(numpy.float32)
    if kind == "BF16":
        bits = values.view(numpy.uint32)
        high = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return high.astype(numpy.uint16).tobytes(), (high << 16).astype(numpy.uint32).view(numpy.float32)
    if kind in ("Q4_K", "Q5_K"):
        return encode_q4_k(values, 15 if kind == "Q4_K" else 31)
    if kind in ("Q4_1", "Q6_K"):
        return (encode_q4_1 if kind == "Q4_1" else encode_q6_k)(values)
    scale, numbers = blocks_of(values, kind)
    if kind == "Q8_0":
        bodies = numbers
    else:
        nibbles = (numbers + 8).astype(numpy.uint8)
        bodies = nibbles[:, :16] | nibbles[:, 16:] << 4
    data = numpy.concatenate([scale.view(numpy.uint8).reshape(len(scale), 2), bodies.view(numpy.uint8)], 1).tobytes()
    return data, (numbers * scale.astype(numpy.float32)).reshape(values.shape).astype(numpy.float32)


# --- the converter of a folder


def tiled(values, axis, c, size):
    """The heads of values, of `size` rows each: from a group per head of keys to turns."""
    keys, heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
    shape = values.shape
    values = values.reshape(*shape[:axis], keys, heads // keys, size, *shape[axis + 1:])
    return numpy.swapaxes(values, axis, axis + 1).reshape(shape)


def tiled_after_keys(values, c):
    n = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"]
    return numpy.concatenate([values[:n], tiled(values[n:], 0, c, c["linear_value_head_dim"])])


def qwen35(c, t):
    rope, size = c["rope_parameters"], c["linear_value_head_dim"]
    keys = {"context_length": c["max_position_embeddings"], "embedding_length": c["hidden_size"],
            "block_count": c["num_hidden_layers"], "feed_forward_length": c["intermediate_size"],
            "attention.head_count": c["num_attention_heads"], "attention.head_count_kv": c["num_key_value_heads"],
            "attention.key_length": c["head_dim"], "attention.value_length": c["head_dim"],
            "attention.layer_norm_rms_epsilon": c["rms_norm_eps"], "rope.freq_base": float(rope["rope_theta"]),
            "rope.dimension_count": int(c["head_dim"] * rope["partial_rotary_factor"]),
            "rope.dimension_sections": (I32, [11, 11, 10, 0]), "ssm.conv_kernel": c["linear_conv_kernel_dim"],
            "ssm.state_size": c["linear_key_head_dim"], "ssm.group_count": c["linear_num_key_heads"],
            "ssm.time_step_rank": c["linear_num_value_heads"], "ssm.inner_size": c["linear_num_value_heads"] * size,
            "attention.recurrent_layers": [kind == "linear_attention" for kind in c["layer_types"]], "full_attention_interval": 4}
    out = {"token_embd.weight": t["model.embed_tokens.weight"], "output_norm.weight": t["model.norm.weight"] + 1}
    for i in range(c["num_hidden_layers"]):
        p, q = f"model.layers.{i}.", f"blk.{i}."
        out |= {f"{q}attn_norm.weight": t[f"{p}input_layernorm.weight"] + 1,
                f"{q}post_attention_norm.weight": t[f"{p}post_attention_layernorm.weight"] + 1}
        out |= {f"{q}ffn_{part}.weight": t[f"{p}mlp.{part}_proj.weight"] for part in ("gate", "up", "down")}
        if c["layer_types"][i] == "full_attention":
            out |= {f"{q}attn_{part}.weight": t[f"{p}self_attn.{part}_proj.weight"] for part in "qkv"}
            out |= {f"{q}attn_{part}_norm.weight": t[f"{p}self_attn.{part}_norm.weight"] + 1 for part in "qk"}
            out[f"{q}attn_output.weight"] = t[f"{p}self_attn.o_proj.weight"]
            continue
        p += "linear_attn."
        conv = t[f"{p}conv1d.weight"]
        out |= {f"{q}attn_qkv.weight": tiled_after_keys(t[f"{p}in_proj_qkv.weight"], c),
                f"{q}ssm_conv1d.weight": tiled_after_keys(conv.reshape(conv.shape[0], -1), c),
                f"{q}attn_gate.weight": tiled(t[f"{p}in_proj_z.weight"], 0, c, size),
                f"{q}ssm_beta.weight": tiled(t[f"{p}in_proj_b.weight"], 0, c, 1),
                f"{q}ssm_alpha.weight": tiled(t[f"{p}in_proj_a.weight"], 0, c, 1),
                f"{q}ssm_dt.bias": tiled(t[f"{p}dt_bias"], 0, c, 1), f"{q}ssm_a": -numpy.exp(tiled(t[f"{p}A_log"], 0, c, 1)),
                f"{q}ssm_norm.weight": t[f"{p}norm.weight"], f"{q}ssm_out.weight": tiled(t[f"{p}out_proj.weight"], 1, c, size)}
    return keys, out


def lfm2(c, t):
    shared = [c["num_key_value_heads"] if kind != "conv" else 0 for kind in c["layer_types"]]
    width = t["model.layers.0.feed_forward.w1.weight"].shape[0]
    keys = {"context_length": c["max_position_embeddings"], "embedding_length": c["hidden_size"], "vocab_size": c["vocab_size"],
            "block_count": c["num_hidden_layers"], "feed_forward_length": width, "attention.head_count": c["num_attention_heads"],
            "attention.head_count_kv": (I32, shared), "attention.layer_norm_rms_epsilon": c["norm_eps"],
            "rope.freq_base": c["rope_parameters"]["rope_theta"], "shortconv.l_cache": c["conv_L_cache"]}
    out = {"token_embd.weight": t["model.embed_tokens.weight"], "token_embd_norm.weight": t["model.embedding_norm.weight"]}
    for i in range(c["num_hidden_layers"]):
        p, q = f"model.layers.{i}.", f"blk.{i}."
        out |= {f"{q}attn_norm.weight": t[f"{p}operator_norm.weight"], f"{q}ffn_norm.weight": t[f"{p}ffn_norm.weight"]}
        out |= {f"{q}ffn_{part}.weight": t[f"{p}feed_forward.{own}.weight"] for part, own in (("gate", "w1"), ("up", "w3"), ("down", "w2"))}
        if c["layer_types"][i] == "conv":
            conv = t[f"{p}conv.conv.weight"]
            out |= {f"{q}shortconv.{part}_proj.weight": t[f"{p}conv.{part}_proj.weight"] for part in ("in", "out")}
            out[f"{q}shortconv.conv.weight"] = conv.reshape(conv.shape[0], -1)
        else:
            out |= {f"{q}attn_{part}.weight": t[f"{p}self_attn.{part}_proj.weight"] for part in "qkv"}
            out |= {f"{q}attn_{part}_norm.weight": t[f"{p}self_attn.{part}_layernorm.weight"] for part in "qk"}
            out[f"{q}attn_output.weight"] = t[f"{p}self_attn.out_proj.weight"]
    return keys, out


def norms(out, theirs, t, own):
    out |= {f"{theirs}.{part}": t[f"{own}.{part}"] for part in ("weight", "bias")}


def rwkv_keys(c, size):
    return {"context_length": 1 << 20, "embedding_length": c["hidden_size"], "block_count": c["num_hidden_layers"],
            "attention.layer_norm_epsilon": c["norm_eps"], "wkv.head_size": size, "feed_forward_length": c["intermediate_size"],
            "attention.head_count": 0}


def rwkv7(c, t):
    ranks = {"decay": "decay", "iclr": "a", "value_residual_mix": "v", "gate": "gate"}
    keys = rwkv_keys(c, c["head_dim"]) | {f"attention.{name}_lora_rank": c[f"{own}_low_rank_dim"] for name, own in ranks.items()}
    out = {"token_embd.weight": t["model.embeddings.weight"]}
    norms(out, "token_embd_norm", t, "model.layers.0.pre_norm")
    norms(out, "output_norm", t, "model.norm")
    for i in range(c["num_hidden_layers"]):
        p, q = f"model.layers.{i}.", f"blk.{i}."
        for theirs, own in (("attn_norm", "attn_norm"), ("attn_norm_2", "ffn_norm"), ("time_mix_ln", "attn.g_norm")):
            norms(out, q + theirs, t, p + own)
        out[f"{q}time_mix_lerp_fused.weight"] = numpy.stack([t[f"{p}attn.x_{mix}"].reshape(1, 1, -1) for mix in "rwkvag"])
        for pair in "wavg":
            own = "a" if pair == "v" and i == 0 else pair  # layer 0 has no use for v: a dummy
            lora = f"{p}attn.{own}_lora.lora."
            out |= {f"{q}time_mix_{pair}1.weight": t[f"{lora}0.weight"], f"{q}time_mix_{pair}2.weight": t[f"{lora}2.weight"]}
            if pair != "g":
                out[f"{q}time_mix_{pair}0.weight"] = t[f"{lora}2.bias"]
        out |= {f"{q}time_mix_{name}.weight": t[f"{p}attn.{name}"].reshape(-1) for name in ("k_k", "k_a", "r_k")}
        for theirs, own in (("receptance", "r"), ("key", "k"), ("value", "v"), ("output", "o")):
            out[f"{q}time_mix_{theirs}.weight"] = t[f"{p}attn.{own}_proj.weight"]
        out |= {f"{q}channel_mix_lerp_k.weight": t[f"{p}ffn.x_k"].reshape(1, 1, -1),
                f"{q}channel_mix_key.weight": t[f"{p}ffn.key.weight"], f"{q}channel_mix_value.weight": t[f"{p}ffn.value.weight"]}
    return keys, out


RESCALE = 2  # layers after which weights are halved


def rwkv6(c, t):
    d, rank = c["hidden_size"], c["proj_low_rank_dim"]
    keys = rwkv_keys(c, d // c["num_heads"]) | {"rescale_every_n_layers": RESCALE, "time_mix_extra_dim": rank,
                                               "time_decay_extra_dim": c["gate_low_rank_dim"]}
    order = [1, 2, 3, 0, 4]  # w, k, v, r, g of r, w, k, v, g
    out = {"token_embd.weight": t["model.embeddings.weight"]}
    norms(out, "token_embd_norm", t, "model.layers.0.pre_norm")
    norms(out, "output_norm", t, "model.norm")
    for i in range(c["num_hidden_layers"]):
        p, q, half = f"model.layers.{i}.attn.", f"blk.{i}.", numpy.float32(2.0 ** -(i // RESCALE))
        for theirs, own in (("attn_norm", "attn_norm"), ("attn_norm_2", "ffn_norm"), ("time_mix_ln", "attn.g_norm")):
            norms(out, q + theirs, t, f"model.layers.{i}.{own}")
        low = t[f"{p}x_proj.0.linear.weight"].reshape(5, rank, d)[order].reshape(5 * rank, d)
        high = t[f"{p}x_proj.2.weight"].reshape(d, 5, rank)[:, order].transpose(1, 0, 2)
        out |= {f"{q}time_mix_lerp_x.weight": t[f"{p}x_proj.0.mu"], f"{q}time_mix_w1.weight": low, f"{q}time_mix_w2.weight": high,
                f"{q}time_mix_lerp_fused.weight": t[f"{p}x_bias"][order].reshape(5, 1, 1, d)}
        for theirs, own in (("receptance", "r"), ("key", "k"), ("value", "v"), ("gate", "g")):
            out[f"{q}time_mix_{theirs}.weight"] = t[f"{p}{own}_proj.linear.weight"]
        lora, ffn = f"{p}w_proj.linear.lora.", f"model.layers.{i}.ffn."
        out |= {f"{q}time_mix_output.weight": t[f"{p}o_proj.weight"] * half, f"{q}time_mix_decay.weight": t[f"{lora}2.bias"],
                f"{q}time_mix_decay_w1.weight": t[f"{lora}0.weight"], f"{q}time_mix_decay_w2.weight": t[f"{lora}2.weight"],
                f"{q}time_mix_first.weight": t[f"{p}bonus"], f"{q}channel_mix_lerp_k.weight": t[f"{ffn}key.mu"],
                f"{q}channel_mix_lerp_r.weight": t[f"{ffn}receptance.mu"], f"{q}channel_mix_key.weight": t[f"{ffn}key.linear.weight"],
                f"{q}channel_mix_receptance.weight": t[f"{ffn}receptance.linear.weight"],
                f"{q}channel_mix_value.weight": t[f"{ffn}value.weight"] * half}
    return keys, out


def mamba2(c, t):
    inner = c["num_heads"] * c["head_dim"]
    keys = {"context_length": 1 << 20, "embedding_length": c["hidden_size"], "feed_forward_length": 0, "attention.head_count": 0,
            "block_count": c["num_hidden_layers"], "ssm.conv_kernel": c["conv_kernel"], "ssm.inner_size": inner,
            "ssm.state_size": c["state_size"], "ssm.time_step_rank": c["num_heads"], "ssm.group_count": c["n_groups"],
            "attention.layer_norm_rms_epsilon": c["layer_norm_epsilon"]}
    out = {"token_embd.weight": t["backbone.embeddings.weight"], "output_norm.weight": t["backbone.norm_f.weight"]}
    for i in range(c["num_hidden_layers"]):
        p, q = f"backbone.layers.{i}.", f"blk.{i}."
        conv = t[f"{p}mixer.conv1d.weight"]
        out |= {f"{q}attn_norm.weight": t[f"{p}norm.weight"], f"{q}ssm_in.weight": t[f"{p}mixer.in_proj.weight"],
                f"{q}ssm_out.weight": t[f"{p}mixer.out_proj.weight"], f"{q}ssm_conv1d.weight": conv.reshape(conv.shape[0], -1),
                f"{q}ssm_conv1d.bias": t[f"{p}mixer.conv1d.bias"], f"{q}ssm_dt.bias": t[f"{p}mixer.dt_bias"],
                f"{q}ssm_a": -numpy.exp(t[f"{p}mixer.A_log"]).reshape(-1, 1), f"{q}ssm_d": t[f"{p}mixer.D"].reshape(-1, 1),
                f"{q}ssm_norm.weight": t[f"{p}mixer.norm.weight"].reshape(c["n_groups"], -1)}
    return keys, out


def mamba(c, t):
    """With `mixer_rms_eps` Falcon-Mamba, whose norms of dt, B and C have the eps of all others in such a file."""
    keys = {"context_length": 1 << 20, "embedding_length": c["hidden_size"], "feed_forward_length": 0, "attention.head_count": 0,
            "block_count": c["num_hidden_layers"], "ssm.conv_kernel": c["conv_kernel"], "ssm.inner_size": c["intermediate_size"],
            "ssm.state_size": c["state_size"], "ssm.time_step_rank": c["time_step_rank"],
            "attention.layer_norm_rms_epsilon": c["layer_norm_epsilon"], "ssm.dt_b_c_rms": "mixer_rms_eps" in c}
    out = {"token_embd.weight": t["backbone.embeddings.weight"], "output_norm.weight": t["backbone.norm_f.weight"]}
    for i in range(c["num_hidden_layers"]):
        p, q = f"backbone.layers.{i}.", f"blk.{i}."
        conv = t[f"{p}mixer.conv1d.weight"]
        out |= {f"{q}attn_norm.weight": t[f"{p}norm.weight"], f"{q}ssm_conv1d.weight": conv.reshape(conv.shape[0], -1),
                f"{q}ssm_conv1d.bias": t[f"{p}mixer.conv1d.bias"], f"{q}ssm_dt.bias": t[f"{p}mixer.dt_proj.bias"],
                f"{q}ssm_a": -numpy.exp(t[f"{p}mixer.A_log"]), f"{q}ssm_d": t[f"{p}mixer.D"]}
        out |= {f"{q}ssm_{part}.weight": t[f"{p}mixer.{part}_proj.weight"] for part in ("in", "x", "dt", "out")}
    return keys, out


def in_pairs(values, heads):
    """Llama's order of a head's rotated rows."""
    rows, columns = values.shape
    return values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def dense(c, t):
    """Softmax layers only, of a folder of our own, as `linnet_arch` says: llama, qwen2 or qwen3."""
    arch, mixer = c["linnet_arch"], c["attention"]
    heads, shared = c["n_heads"], mixer["key_heads"]
    keys = {"context_length": c["text"]["context"], "embedding_length": c["d_model"], "block_count": c["n_layers"],
            "feed_forward_length": c["d_ff"], "attention.head_count": heads, "attention.head_count_kv": shared,
            "attention.key_length": c["d_key"], "attention.value_length": c["d_key"], "rope.freq_base": float(mixer["base"]),
            "rope.dimension_count": c["d_key"], "attention.layer_norm_rms_epsilon": c["norm_eps"]}
    out = {"token_embd.weight": t["embed.token.weight"], "output_norm.weight": t["final_norm.weight"]}
    names = {"attn_norm": "norm1", "ffn_norm": "norm2", "attn_v": "attn.v", "attn_output": "attn.out", "ffn_gate": "ff.gate",
             "ffn_up": "ff.up", "ffn_down": "ff.down", "attn_q": "attn.q", "attn_k": "attn.k"}
    if arch == "qwen3":
        names |= {"attn_q_norm": "attn.q_norm", "attn_k_norm": "attn.k_norm"}
    for i in range(c["n_layers"]):
        p, q = f"layers.{i}.", f"blk.{i}."
        out |= {f"{q}{theirs}.weight": t[f"{p}{own}.weight"] for theirs, own in names.items()}
        if arch == "qwen2":
            out |= {f"{q}attn_{part}.bias": t[f"{p}attn.{part}.bias"] for part in "qkv"}
        if arch == "llama":
            out |= {f"{q}attn_{part}.weight": in_pairs(t[f"{p}attn.{part}.weight"], n) for part, n in (("q", heads), ("k", shared))}
    return keys, out


ARCHS = {"qwen3_5_text": ("qwen35", qwen35), "rwkv7": ("rwkv7", rwkv7), "rwkv6": ("rwkv6", rwkv6), "mamba2": ("mamba2", mamba2),
         "mamba": ("mamba", mamba), "falcon_mamba": ("mamba", mamba),
         "lfm2": ("lfm2", lfm2)}


# --- tokenizers


def bpe_keys(file, pre, n):
    """Of a tokenizer.json, as an object; n tokens, as the table of inputs has."""
    tokens = {i: (token, NORMAL) for token, i in file["model"]["vocab"].items()}
    for token in file["added_tokens"]:
        tokens[token["id"]] = token["content"], CONTROL if token["special"] else USER_DEFINED
    listed = [tokens.get(i, (f"[PAD{i}]", UNUSED)) for i in range(max(n, max(tokens) + 1))]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in file["model"]["merges"]]
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": [token for token, _ in listed],
            "tokenizer.ggml.token_type": (I32, [kind for _, kind in listed]), "tokenizer.ggml.merges": merges}


# --- a model

# Matrices that the converter keeps in f32, and one that has three dimensions in the file.
KEPT = ("norm.weight", "conv1d.weight", "shortconv.conv.weight", "time_mix_first.weight")
KEPT_IN_FOLDER = "x_proj.2.weight"


def read_folder(folder):
    data = (folder / "model.safetensors").read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + n])
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            at, end = t["data_offsets"]
            out[name] = numpy.frombuffer(data[8 + n + at : 8 + n + end], numpy.float32).reshape(t["shape"])
    return json.loads((folder / "config.json").read_text()), out


def parts_of(folder, kind="F32", pre="qwen2", others=(), **more):
    """Keys and tensors of the file that a folder becomes; matrices whose rows are whole blocks have values of `kind`, or of the type
    that `others` has for the end of their name."""
    config, tensors = read_folder(folder)
    arch, convert = ARCHS.get(config.get("model_type")) or (config["linnet_arch"], dense)
    own, converted = convert(config, tensors)
    head = tensors.get("lm_head.weight", tensors.get("head.weight"))
    if head is not None:
        converted["output.weight"] = head
    keys = {"general.architecture": arch, "general.alignment": ALIGNMENT, **{f"{arch}.{key}": value for key, value in own.items()}}
    if pre is not None:
        keys |= bpe_keys(json.loads((folder / "tokenizer.json").read_text()), pre, len(converted["token_embd.weight"]))
        keys |= {"tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.eos_token_id": 3, "tokenizer.ggml.add_bos_token": True}
    out = {}
    for name, values in converted.items():
        wanted = next((other for end, other in dict(others).items() if name.endswith(end)), kind)
        block = TYPES[wanted][1]
        fits = name.endswith(".weight") and values.ndim == 2 and values.shape[1] % block == 0 and not name.endswith(KEPT)
        type_name = wanted if fits else "F32"
        out[name] = type_name, list(values.shape), encode(values, type_name)[0]
    return keys | more, out


def write(path, folder, kind="F32", pre="qwen2", **more):
    path.write_bytes(whole(*parts_of(folder, kind, pre, **more)))


def write_rounded(target, folder, kind):
    """The folder with the values that the file of the type has: of matrices that are not reordered in a row."""
    config, tensors = read_folder(folder)
    block = TYPES[kind][1]
    rounded = {}
    for name, values in tensors.items():
        flat = name.endswith(".weight") and values.ndim == 2 and values.shape[1] % block == 0 and not name.endswith(KEPT_IN_FOLDER)
        rounded[name] = encode(values, kind)[1] if flat else values
    target.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "generation_config.json"):
        if (folder / name).exists():
            (target / name).write_bytes((folder / name).read_bytes())
    hf_model.write_safetensors(target / "model.safetensors", {name: (list(v.shape), v.tobytes()) for name, v in rounded.items()})
