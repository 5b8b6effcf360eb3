"""The peers of library.py: fast-transformers where it is installed, and its equations in plain PyTorch.

A process of its own, so that it may run in another environment. The first line of its output names the available
libraries. Then each line of standard input is a question, {"what", "dtype", "kind", "size", "seconds"}, and its answer
is {"ms": median}, or {"ms": null} where it cannot be measured.

The plain form is written for cheap steps: no autograd, one qkv product, biases inside the products. States are updated
in place by a batched outer product, and only results are allocated. Prompts run
in chunks: within a chunk the masked product of queries and keys, before it the state.
"""

import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

LAYERS, HEADS, D_MODEL, D_FF, COMPONENTS = 8, 8, 256, 1024, 10
D = D_MODEL // HEADS
LEVELS, SIDE, EPS, CHUNK = 256, 256, 1e-6, 128

try:
    from fast_transformers.builders import RecurrentEncoderBuilder, TransformerEncoderBuilder
    from fast_transformers.masking import TriangularCausalMask

    WHY = "fast-transformers 0.4.0"
except ImportError as error:
    RecurrentEncoderBuilder = None
    WHY = f"without fast-transformers ({error})"


def random_linear(rows, columns, dtype):
    return torch.randn(rows, columns, dtype=torch.float32).mul_(columns**-0.5).to(dtype), torch.zeros(rows, dtype=dtype)


def embeddings(dtype):
    return [torch.randn(size, D_MODEL).mul_(0.5).to(dtype) for size in (LEVELS + 1, SIDE, SIDE)]


class Equations:
    """s += phi(k) v^T, z += phi(k), y = phi(q)^T s / (phi(q)^T z + eps); pre-norm layers."""

    def __init__(self, dtype):
        self.dtype, self.tables = dtype, embeddings(dtype)
        sizes = [(3 * D_MODEL, D_MODEL), (D_MODEL, D_MODEL), (D_FF, D_MODEL), (D_MODEL, D_FF)]
        self.layers = [[random_linear(*size, dtype) for size in sizes] for _ in range(LAYERS)]
        self.head = random_linear(3 * COMPONENTS, D_MODEL, dtype)
        self.gamma, self.beta = torch.ones(D_MODEL, dtype=dtype), torch.zeros(D_MODEL, dtype=dtype)

    def state(self, batch):
        """f32 in every precision, as Linnet's: s [layer, batch, head, D, D], z [.., D, 1]"""
        self.s = [torch.zeros(batch * HEADS, D, D) for _ in range(LAYERS)]
        self.z = [torch.zeros(batch * HEADS, D, 1) for _ in range(LAYERS)]

    def norm(self, x):
        return F.layer_norm(x, (D_MODEL,), self.gamma, self.beta)

    def forward(self, x, attend):
        for i, (qkv, out, up, down) in enumerate(self.layers):
            x = x + F.linear(attend(i, F.linear(self.norm(x), *qkv)).to(self.dtype), *out)
            x = x + F.linear(F.gelu(F.linear(self.norm(x), *up)), *down)
        return F.linear(self.norm(x), *self.head)

    def embed(self, ids):
        return self.tables[0][ids % LEVELS] + self.tables[1][ids % SIDE] + self.tables[2][ids // 7 % SIDE]

    def attend_step(self, i, qkv):
        """qkv [batch, 3 d]"""
        q, k, v = qkv.float().view(-1, 3, HEADS, D).unbind(1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        n = q.shape[0] * HEADS
        k = k.reshape(n, D, 1)
        self.s[i].baddbmm_(k, v.reshape(n, 1, D))
        self.z[i] += k
        q = q.reshape(n, 1, D)
        return (torch.bmm(q, self.s[i]) / (torch.bmm(q, self.z[i]) + EPS)).view(-1, D_MODEL)

    def attend_prompt(self, i, qkv):
        """qkv [T, 3 d], from an empty state"""
        q, k, v = qkv.float().view(-1, 3, HEADS, D).permute(1, 2, 0, 3)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        out = torch.empty_like(q)
        s, z = torch.zeros(HEADS, D, D), torch.zeros(HEADS, D, 1)
        for at in range(0, q.shape[1], CHUNK):
            qc, kc, vc = (x[:, at : at + CHUNK] for x in (q, k, v))
            scores = torch.tril(qc @ kc.mT)
            below = scores.sum(-1, keepdim=True) + qc @ z + EPS
            out[:, at : at + CHUNK] = (scores @ vc + qc @ s) / below
            s, z = s.baddbmm_(kc.mT, vc), z + kc.sum(1).unsqueeze(-1)
        return out.permute(1, 0, 2).reshape(-1, D_MODEL)

    def stepper(self, batch):
        self.state(batch)
        ids = torch.arange(batch) * 7 + 3
        return lambda: self.forward(self.embed(ids), self.attend_step)

    def prompter(self, length):
        ids = torch.arange(length) * 5 + 1
        return lambda: self.forward(self.embed(ids), self.attend_prompt)


class Library:
    """fast-transformers' own encoders between the same tables and head."""

    def __init__(self):
        self.tables, self.head = embeddings(torch.float32), random_linear(3 * COMPONENTS, D_MODEL, torch.float32)

    def build(self, builder, attention):
        kinds = {"n_layers": LAYERS, "n_heads": HEADS, "query_dimensions": D, "value_dimensions": D}
        kinds |= {"feed_forward_dimensions": D_FF, "attention_type": attention, "activation": "gelu", "dropout": 0.0}
        return builder.from_kwargs(**kinds).get().eval()

    embed = Equations.embed

    def stepper(self, batch):
        encoder, ids, memory = self.build(RecurrentEncoderBuilder, "linear"), torch.arange(batch) * 7 + 3, [None]

        def step():
            x, memory[0] = encoder(self.embed(ids), memory[0])
            return F.linear(x, *self.head)

        return step

    def prompter(self, length):
        encoder = self.build(TransformerEncoderBuilder, "causal-linear")
        ids, mask = (torch.arange(length) * 5 + 1).unsqueeze(0), TriangularCausalMask(length)
        return lambda: F.linear(encoder(self.embed(ids), attn_mask=mask), *self.head)


def median_ms(work, seconds):
    work()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main():
    torch.set_num_threads(int(sys.argv[1]))
    there = RecurrentEncoderBuilder is not None
    print(json.dumps({"torch": torch.__version__, "fast_transformers": there, "why": WHY}), flush=True)
    nets = {("equations", "f32"): Equations(torch.float32), ("equations", "bf16"): Equations(torch.bfloat16)}
    if there:
        nets["library", "f32"] = Library()
    with torch.inference_mode():
        for line in sys.stdin:
            q = json.loads(line)
            net = nets[q["what"], q["dtype"]]
            work = net.stepper(q["size"]) if q["kind"] == "step" else net.prompter(q["size"])
            print(json.dumps({"ms": median_ms(work, q["seconds"])}), flush=True)
            del work


if __name__ == "__main__":
    main()
