"""The model in float64, computed independently of the C program.

Follows the recurrent form of every kind of attention token by token, with the basic operations of PyTorch only, and
without weights/train. The linear kind follows the paper (Katharopoulos et al. 2020, eq. 16-20), the others the sets of
tokens of docs/weights-format.md.
"""

import json
import math
import pathlib
import struct

import torch

from visible import SEES

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def read_safetensors(path: pathlib.Path) -> dict[str, torch.Tensor]:
    raw = path.read_bytes()
    (n,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + n])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        blob = bytearray(raw[8 + n + begin : 8 + n + end])
        tensors[name] = torch.frombuffer(blob, dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"]).double()
    return tensors


PHI = {
    "elu+1": lambda x: torch.where(x > 0, x + 1, torch.exp(x)),
    "relu": lambda x: x.clamp(min=0),
    "relu2": lambda x: x.clamp(min=0) ** 2,
    "exp": lambda x: torch.exp(x.clamp(max=8)),
}


def layer_norm(x, w, name, eps):
    mean = x.mean()
    variance = ((x - mean) ** 2).mean()
    return (x - mean) / torch.sqrt(variance + eps) * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return w[name + ".weight"] @ x + w[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def silu(x):
    return x / (1 + torch.exp(-x))


# --- attention of a layer: called with the x of one token after the other ---


class Heads:
    def __init__(self, w, prefix, own):
        self.w, self.prefix, self.own = w, prefix, own
        self.n, self.d, self.m = own["n_heads"], own["d_key"], own["d_value"]

    def project(self, x, name="qkv"):
        rows, keys = linear(x, self.w, f"{self.prefix}.{name}"), self.n * self.d
        return rows[:keys].view(self.n, self.d), rows[keys : 2 * keys].view(self.n, self.d), rows[2 * keys :].view(self.n, self.m)

    def back(self, y):
        return linear(y.reshape(-1), self.w, f"{self.prefix}.out")


class Linear(Heads):
    def __init__(self, w, prefix, own):
        super().__init__(w, prefix, own)
        self.s = torch.zeros(self.n, self.d, self.m, dtype=torch.float64)
        self.z = torch.zeros(self.n, self.d, dtype=torch.float64)

    def __call__(self, x):
        q, k, v = self.project(x)
        q, k = (PHI[self.own["feature_map"]](x) for x in (q, k))
        self.s += k[:, :, None] * v[:, None, :]
        self.z += k
        numerator = (q[:, :, None] * self.s).sum(1)
        return self.back(numerator / ((q * self.z).sum(1, keepdim=True) + self.own["eps"]))


class Rows(Heads):
    """Softmax over the tokens that a kind sees. The first ones of a global_window have projections of their own among
    themselves."""

    def __init__(self, w, prefix, own):
        super().__init__(w, prefix, own)
        self.k, self.v, self.first = [], [], []

    def attend(self, q, keys, values):
        weights = torch.softmax(torch.stack([k @ q for k in keys]) / math.sqrt(self.d), 0)
        return sum(weight * v for weight, v in zip(weights, values))

    def __call__(self, x):
        q, k, v = self.project(x)
        i = len(self.k)
        self.k.append(k)
        self.v.append(v)
        if i < self.own.get("global_prefix", 0):
            q, *row = self.project(x, "global")
            self.first.append(row)
            return self.back(torch.stack([self.attend(q[h], [k[h] for k, _ in self.first], [v[h] for _, v in self.first])
                                          for h in range(self.n)]))
        heads = []
        for h in range(self.n):
            seen = sorted(j for j in SEES[self.own["kind"]](self.own, h, i) if 0 <= j <= i)
            heads.append(self.attend(q[h], [self.k[j][h] for j in seen], [self.v[j][h] for j in seen])
                         if seen else torch.zeros(self.m, dtype=torch.float64))
        return self.back(torch.stack(heads))


class Compressed(Heads):
    """Softmax over a first row and one row of every block that has ended."""

    def __init__(self, w, prefix, own):
        super().__init__(w, prefix, own)
        self.k, self.v = [], []

    def block(self, rows, h, c, name, n):
        """Row c of the blocks."""
        taps = self.w[f"{self.prefix}.compress_{name}"].view(self.n, self.own["factor"], n, n)[h]
        bias = self.w[f"{self.prefix}.compress_{name}_bias"].view(self.n, n)[h]
        return bias + sum(rows[c * self.own["factor"] + t][h] @ taps[t] for t in range(self.own["factor"]))

    def __call__(self, x):
        q, k, v = self.project(x)
        self.k.append(k)
        self.v.append(v)
        ended = (len(self.k) - (self.own["visible"] == "strict")) // self.own["factor"]
        heads = []
        for h in range(self.n):
            first = self.k[0][h], self.v[0][h]
            if self.own["null"] == "learned":
                first = self.w[f"{self.prefix}.null"][h].split([self.d, self.m])
            keys = [first[0], *(self.block(self.k, h, c, "k", self.d) for c in range(ended))]
            values = [first[1], *(self.block(self.v, h, c, "v", self.m) for c in range(ended))]
            weights = torch.softmax(torch.stack([k @ q[h] for k in keys]) / math.sqrt(self.d), 0)
            heads.append(sum(weight * v for weight, v in zip(weights, values)))
        return self.back(torch.stack(heads))


class Spans(Heads):
    """Softmax over the tokens before, weighed by how far they lie, in spans of the heads' own."""

    def __init__(self, w, prefix, own):
        super().__init__(w, prefix, own)
        self.k, self.v = [], []

    def head(self, q, h):
        own, i = self.own, len(self.k) - 1
        span, distances = own["spans"][h % len(own["spans"])], self.w[f"{self.prefix}.distance"]
        total, y = torch.zeros((), dtype=torch.float64), torch.zeros(self.m, dtype=torch.float64)
        for x in range(own["max_span"]):
            j = i - 1 - x
            if j < 0 and not own.get("pad_memory"):
                break
            key = distances[:, x] + (self.k[j][h] if j >= 0 else 0)
            weight = min(max((own["ramp"] + span - x) / own["ramp"], 0), 1) * torch.exp(q @ key / math.sqrt(self.d))
            total = total + weight
            y = y + (weight * self.v[j][h] if j >= 0 else 0)
        return y / total if total > 0 else y

    def __call__(self, x):
        q, k, v = self.project(x)
        self.k.append(k)
        self.v.append(v)
        return self.back(torch.stack([self.head(q[h], h) for h in range(self.n)]))


class Lsh(Heads):
    """Softmax over the newest tokens before of the same bucket, a bucket in every round; the token's own v where there
    are none."""

    def __init__(self, w, prefix, own):
        super().__init__(w, prefix, own)
        self.k, self.v, self.buckets = [], [], []

    def seen(self, h):
        """Tokens before the newest, each as often as it shares a bucket."""
        own, found = self.buckets[-1][h], []
        for r, bucket in enumerate(own):
            found += [j for j, of_heads in enumerate(self.buckets[:-1]) if of_heads[h][r] == bucket][-self.own["cap"] :]
        return found

    def __call__(self, x):
        rows, keys = linear(x, self.w, f"{self.prefix}.qk_v"), self.n * self.d
        qk, v = rows[:keys].view(self.n, self.d), rows[keys:].view(self.n, self.m)
        hashes = self.w[f"{self.prefix}.hashes"].view(self.own["rounds"], self.d, -1)
        sides = torch.einsum("hd,rdb->hrb", qk, hashes)
        self.buckets.append(torch.cat([sides, -sides], -1).argmax(-1).tolist())
        self.k.append(qk / torch.sqrt((qk ** 2).sum(-1, keepdim=True) + 1e-12))
        self.v.append(v)
        scale, heads = 1 / math.sqrt(self.d) if self.own["scale"] == "key" else 1, []
        for h in range(self.n):
            seen = self.seen(h)
            weights = torch.softmax(torch.tensor([scale * (qk[h] @ self.k[j][h]) for j in seen], dtype=torch.float64), 0)
            heads.append(sum(weight * self.v[j][h] for weight, j in zip(weights, seen)) if seen else v[h])
        return self.back(torch.stack(heads))


class Gau:
    """The gated attention unit: the whole layer."""

    def __init__(self, w, prefix, own):
        self.w, self.prefix, self.own = w, prefix, own
        self.k, self.v = [], []

    def weight(self, logit):
        own, seen = self.own, len(self.k)
        if own["div_place"] == "inside":
            return max(logit / own["length"], 0) ** 2
        return max(logit, 0) ** 2 / (own["d_key"] * (seen if own["div"] == "count" else own["length"]))

    def __call__(self, x):
        e = self.own["d_value"]
        rows = silu(linear(x, self.w, f"{self.prefix}.uvz"))
        u, v, z = rows[:e], rows[e : 2 * e], rows[2 * e :]
        q, k = (self.w[f"{self.prefix}.gamma_{name}"] * z + self.w[f"{self.prefix}.beta_{name}"] for name in "qk")
        self.k.append(k)
        self.v.append(v)
        y = sum(self.weight(float(q @ k)) * v for k, v in zip(self.k, self.v))
        return linear(u * y, self.w, f"{self.prefix}.out")


class Flash(Gau):
    """The unit with chunks: tokens of its own one as in gau_quad, those of the chunks before through a sum."""

    def affine(self, z, name):
        return self.w[f"{self.prefix}.gamma_{name}"] * z + self.w[f"{self.prefix}.beta_{name}"]

    def __call__(self, x):
        e, chunk = self.own["d_value"], self.own["chunk"]
        rows = silu(linear(x, self.w, f"{self.prefix}.uvz"))
        u, v, z = rows[:e], rows[e : 2 * e], rows[2 * e :]
        i = len(self.v)
        self.k.append((self.affine(z, "k"), self.affine(z, "far_k")))
        self.v.append(v)
        y = torch.zeros(e, dtype=torch.float64)
        for j, ((near, far), value) in enumerate(zip(self.k, self.v)):
            if j // chunk == i // chunk:
                y += max(float(self.affine(z, "q") @ near) / chunk, 0) ** 2 * value
            else:
                y += self.affine(z, "far_q") @ far / chunk * value
        return linear(u * y, self.w, f"{self.prefix}.out")


FORMS = {"linear": Linear, "gau_quad": Gau, "flash": Flash, "lsh": Lsh, "memory_compressed": Compressed,
         "adaptive_span": Spans}


def make_layers(w, c):
    """Of every layer its attention, and whether a feed-forward net follows."""
    d = c["d_model"] // c["n_heads"]
    for i in range(c["n_layers"]):
        own = c["attention"][i] if isinstance(c["attention"], list) else c["attention"]
        own = {"n_heads": c["n_heads"], "d_key": c.get("d_key", d), "d_value": c.get("d_value", d)} | own
        form = FORMS.get(own["kind"], Rows)
        yield form(w, f"layers.{i}.attn", own), not issubclass(form, Gau)


def head_rows(rows, w, c) -> list[torch.Tensor]:
    """The head's output for every row of input ids."""
    assert c["norm"] == "pre" and c["activation"] == "gelu" and "feed_forward" not in c and "input_norm" not in c
    layers, out = list(make_layers(w, c)), []
    for row in rows:
        x = sum(w[f"embed.{stream['name']}.weight"][i] for stream, i in zip(c["inputs"], row))
        for i, (attention, feeds) in enumerate(layers):
            p = f"layers.{i}."
            x = x + attention(layer_norm(x, w, p + "norm1", c["norm_eps"]))
            if feeds:
                hidden = gelu(linear(layer_norm(x, w, p + "norm2", c["norm_eps"]), w, p + "ff.up"))
                x = x + linear(hidden, w, p + "ff.down")
        out.append(linear(layer_norm(x, w, "final_norm", c["norm_eps"]), w, "head"))
    return out


def read_model(path: pathlib.Path) -> tuple[dict, dict[str, torch.Tensor]]:
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    if "base" in config:
        base, tensors = read_model(path / config.pop("base"))
        return base | config, tensors
    return config, read_safetensors(path / "model.safetensors")
