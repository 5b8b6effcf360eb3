"""Hybrid models of transformers in float64, as kinds.py has other kinds: only their equations, token by token, in numpy."""

import numpy
from kinds import Rows, convolved, rms_norm, rotated, silu


def attention(w, memory, x, heads, size, base=0, scale=None, eps=None, out="o_proj"):
    """Softmax over all rows up to this one. base 0: no rotation; eps: of the norms of queries and keys, if there are any."""
    q, k, v = ((w[f"{part}_proj.weight"] @ x).reshape(-1, size) for part in "qkv")
    if eps is not None:
        q, k = (rms_norm(rows, w[f"{part}_layernorm.weight"], eps) for part, rows in (("q", q), ("k", k)))
    if base:
        q, k = rotated(q, memory.position, base), rotated(k, memory.position, base)
    keys, values, found = memory.append("k", k), memory.append("v", v), []
    for h in range(heads):
        logits = keys[:, h * len(k) // heads] @ q[h] * (scale or size**-0.5)
        weights = numpy.exp(logits - logits.max())
        found.append(weights @ values[:, h * len(k) // heads] / weights.sum())
    return w[f"{out}.weight"] @ numpy.concatenate(found)


def below(w, prefix):
    return {name[len(prefix):]: t for name, t in w.items() if name.startswith(prefix)}


def model(w, c, ids, layer, final_norm, eps):
    """Logits. layer(tensors of the layer, its number, its memory, x) gives the next x."""
    memories, out = [Rows() for _ in range(c["num_hidden_layers"])], []
    layers = [below(w, f"model.layers.{i}.") for i in range(len(memories))]
    embedding, head = w["model.embed_tokens.weight"], w.get("lm_head.weight")
    for token in ids:
        x = embedding[token] * c.get("embedding_multiplier", 1)
        for i, memory in enumerate(memories):
            x = layer(layers[i], i, memory, x)
            memory.position += 1
        out.append((embedding if head is None else head) @ rms_norm(x, w[f"model.{final_norm}.weight"], eps))
    return numpy.array(out)


def lfm2(w, c, ids):
    heads, eps = c["num_attention_heads"], c["norm_eps"]

    def short_conv(own, memory, x):
        b, gate, u = numpy.split(own["in_proj.weight"] @ x + own.get("in_proj.bias", 0), 3)
        y = convolved(memory.append("u", b * u), own["conv.weight"]) + own.get("conv.bias", 0)
        return own["out_proj.weight"] @ (gate * y) + own.get("out_proj.bias", 0)

    def layer(own, i, memory, x):
        y = rms_norm(x, own["operator_norm.weight"], eps)
        if c["layer_types"][i] == "conv":
            x = x + short_conv(below(own, "conv."), memory, y)
        else:
            x = x + attention(below(own, "self_attn."), memory, y, heads, len(x) // heads,
                              c["rope_parameters"]["rope_theta"], eps=eps, out="out_proj")
        y = rms_norm(x, own["ffn_norm.weight"], eps)
        hidden = silu(own["feed_forward.w1.weight"] @ y) * (own["feed_forward.w3.weight"] @ y)
        return x + own["feed_forward.w2.weight"] @ hidden

    return model(w, c, ids, layer, "embedding_norm", eps)
