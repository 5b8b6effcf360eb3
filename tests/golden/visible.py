"""Which tokens token i sees in a head, by kinds of softmax attention (docs/weights-format.md): SEES[kind](own, head, i)
with the object of config.json that names the kind. Positions before 0 or after i do not exist."""


def in_turn(values, head):
    return values[head % len(values)]


def strided(own, head, i):
    local, column = set(range(i - own["stride"] + 1, i + 1)), set(range(i, -1, -own["stride"]))
    return {"local": local, "column": column, "merged": local | column, "apart": column if head % 2 else local}[own["heads"]]


def fixed(own, head, i):
    size, cell = own["stride"], head % own["cells"]
    block = i // size * size
    ends = range(size - own["summary"] * (cell + 1), size - own["summary"] * cell)
    return set(range(block, i + 1)) | {before + end for before in range(0, block, size) for end in ends}


def local_block(own, head, i):
    return set(range((i // own["block"] - own["look_back"]) * own["block"], i + 1))


def blockwise(own, head, i):
    block, shift = i // own["block"], in_turn(own["shifts"], head)
    if shift > block:
        return local_block({"block": own["block"], "look_back": 0}, head, i) if own["on_empty"] == "own" else set()
    begin = (block - shift) * own["block"]
    return set(range(begin, begin + own["block"]))


def memory_compressed(own, head, i):
    """Whole blocks, as the one row that is kept of each; the first row, where it is a token's."""
    ended = (i + (own["visible"] == "inclusive")) // own["factor"]
    return set(range(ended * own["factor"])) | ({0} if own["null"] == "first" else set())


def adaptive_span(own, head, i):
    rows = min(in_turn(own["spans"], head) + own["ramp"], own["max_span"])
    return set(range(i - rows, i))


SEES = {
    "softmax": lambda own, head, i: set(range(i + 1)),
    "sliding_window": lambda own, head, i: set(range(own.get("sinks", 0))) | set(range(i - own["window"] + 1, i + 1)),
    "dilated_window": lambda own, head, i: {i - t * in_turn(own["dilation"], head) for t in range(own["window"])},
    "global_window": lambda own, head, i: set(range(own["global_prefix"])) | set(range(i - own["window"] + 1, i + 1)),
    "strided": strided,
    "fixed": fixed,
    "local_block": local_block,
    "blockwise": blockwise,
    "memory_compressed": memory_compressed,
    "adaptive_span": adaptive_span,
    "softmax_recompute": lambda own, head, i: set(range(i + 1)),
}
