"""Small image models with random weights, written as model folders: real forward passes in no time.

Their pictures make no sense; no test depends on that.
"""

import json
import random
import struct
from array import array

D_MODEL, D_FF, HEADS, LAYERS, COMPONENTS, LEVELS = 32, 64, 4, 2, 3, 256

MIXTURE = {"kind": "logistic_mixture", "components": COMPONENTS, "levels": LEVELS}


LINEAR = {"kind": "linear", "feature_map": "elu+1", "eps": 1e-6}
RANK = 4
RWKV7 = {"kind": "rwkv7", "w_rank": RANK, "a_rank": RANK, "v_rank": RANK, "g_rank": RANK, "group_eps": 64e-5}


def config(width, height, channels, mixture, classes=(), head_sizes=None, attention=LINEAR, feed_forward=None):
    neighbours = ["token", "ww", "n", "nw", "ne"]
    inputs = [{"name": name, "size": LEVELS + 1} for name in neighbours]
    inputs += [{"name": "row", "size": height}, {"name": "column", "size": width}]
    if channels > 1:
        inputs.append({"name": "channel", "size": channels})
    if classes:
        inputs.append({"name": "class", "size": len(classes) + 1})
    heads = {"d_key": head_sizes[0], "d_value": head_sizes[1]} if head_sizes else {}
    named = {"classes": classes} if classes else {}
    return {
        "format": "linnet",
        "format_version": 1,
        "task": "image",
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "d_model": D_MODEL,
        "d_ff": D_FF,
        **heads,
        "norm": "pre",
        "norm_eps": 1e-5,
        "activation": "gelu",
        "attention": attention,
        **({"feed_forward": feed_forward} if feed_forward else {}),
        "inputs": inputs,
        "head": MIXTURE if mixture else {"kind": "categorical", "size": LEVELS},
        "image": {"width": width, "height": height, "channels": channels, **named},
    }


def rwkv7_shapes(first):
    """Of a layer's products, their biases where they have one, and arrays."""
    d = D_MODEL
    products = {name: ([d, d], d**-0.5) for name in ("attn.r", "attn.k", "attn.v", "attn.out")}
    for letter in "wag" if first else "wagv":
        products |= {f"attn.{letter}1": ([RANK, d], d**-0.5), f"attn.{letter}2": ([d, RANK], RANK**-0.5)}
    arrays = {f"attn.x_{letter}": ([d], 0.5) for letter in "rwkvag"}
    arrays |= {"attn.k_k": ([d], None), "attn.k_a": ([d], None), "attn.r_k": ([HEADS, d // HEADS], 0.1)}
    arrays |= {"attn.norm.weight": ([d], None), "attn.norm.bias": ([d], 0.1)}
    biases = {f"{name}.bias": ([d], 0.1) for name in products if name in ("attn.w2", "attn.a2", "attn.v2")}
    return {f"{name}.weight": shape for name, shape in products.items()} | biases | arrays


def channel_mix_shapes():
    return {"ff.x_k": ([D_MODEL], 0.5), "ff.key.weight": ([D_FF, D_MODEL], D_MODEL**-0.5),
            "ff.value.weight": ([D_MODEL, D_FF], D_FF**-0.5)}


def norm(name):
    return {f"{name}.weight": ([D_MODEL], None), f"{name}.bias": ([D_MODEL], 0.1)}


def product(name, rows, columns):
    return {f"{name}.weight": ([rows, columns], columns**-0.5), f"{name}.bias": ([rows], 0.1)}


def compressed_shapes(layer, own, keys, values):
    """The extra parameters of `memory_compressed`."""
    result, heads = {}, own["n_heads"]
    for name, all_heads in (("k", keys), ("v", values)):
        rows, n = own["factor"] * all_heads, all_heads // heads
        result[f"{layer}attn.compress_{name}"] = ([rows, n], (own["factor"] * n) ** -0.5)
        result[f"{layer}attn.compress_{name}_bias"] = ([all_heads], 0.1)
    if own["null"] == "learned":
        result[f"{layer}attn.null"] = ([heads, (keys + values) // heads], 0.5)
    return result


def layer_shapes(conf, i):
    """As `shapes`, of layer i."""
    d, layer = D_MODEL, f"layers.{i}."
    own = conf | (conf["attention"][i] if isinstance(conf["attention"], list) else conf["attention"])
    keys, values = (own["n_heads"] * own.get(size, d // HEADS) for size in ("d_key", "d_value"))
    out = product(f"{layer}attn.out", d, values)
    if own["kind"] in ("gau_quad", "flash"):
        maps = ("q", "k") if own["kind"] == "gau_quad" else ("q", "k", "far_q", "far_k")
        arrays = {f"{layer}attn.{name}_{of}": ([keys], 1.0) for of in maps for name in ("gamma", "beta")}
        return norm(f"{layer}norm1") | product(f"{layer}attn.uvz", 2 * values + keys, d) | arrays | out
    if own["kind"] == "rwkv7":
        parts = rwkv7_shapes(i == 0) | channel_mix_shapes()
        return norm(f"{layer}norm1") | norm(f"{layer}norm2") | {layer + name: shape for name, shape in parts.items()}
    projected = product(f"{layer}attn.qkv", 2 * keys + values, d)
    if own["kind"] == "lsh":
        hashes = [own["rounds"] * (keys // own["n_heads"]), own["buckets"] // 2]
        projected = product(f"{layer}attn.qk_v", keys + values, d) | {f"{layer}attn.hashes": (hashes, 1.0)}
    result = norm(f"{layer}norm1") | norm(f"{layer}norm2") | projected | out
    if own["kind"] == "global_window":
        result |= product(f"{layer}attn.global", 2 * keys + values, d)
    if own["kind"] == "memory_compressed":
        result |= compressed_shapes(layer, own, keys, values)
    if own["kind"] == "adaptive_span":
        result[f"{layer}attn.distance"] = ([own.get("d_key", d // HEADS), own["max_span"]], 1.0)
    return result | product(f"{layer}ff.up", D_FF, d) | product(f"{layer}ff.down", d, D_FF)


def shapes(conf):
    """Every tensor's shape, and the spread of its random weights (None: ones)."""
    d = D_MODEL
    result = {f"embed.{x['name']}.weight": ([x["size"], d], 0.5) for x in conf["inputs"]}
    for i in range(LAYERS):
        result |= layer_shapes(conf, i)
    result |= norm("final_norm")
    rows = conf["head"].get("size", 3 * COMPONENTS)
    result["head.weight"] = ([rows, d], 0.1)
    result["head.bias"] = ([rows], 0.5)
    return result


def write_tensors(path, conf, seed, tensors=None):
    rng = random.Random(seed)
    head, data = {}, b""
    for name, (shape, spread) in (tensors or shapes(conf)).items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = [1.0] * count if spread is None else [rng.gauss(0, spread) for _ in range(count)]
        part = array("f", values).tobytes()
        span = [len(data), len(data) + len(part)]
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": span}
        data += part
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write(folder, width, height, channels=1, mixture=True, seed=1, classes=(), head_sizes=None, attention=LINEAR,
          feed_forward=None):
    """A model folder, with a mixture of logistics as head or with one row a level; returns it."""
    folder.mkdir(parents=True)
    conf = config(width, height, channels, mixture, classes, head_sizes, attention, feed_forward)
    (folder / "config.json").write_text(json.dumps(conf))
    write_tensors(folder / "model.safetensors", conf, seed)
    return folder
