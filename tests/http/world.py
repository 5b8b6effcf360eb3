"""RWKV World in a few lines of Python, and vocabularies in its format: the C reader and encoder must equal them."""

import random


def vocabulary(seed=1, n=3000):
    """Bytes first, as the real one has them, then pieces of many sorts; with holes between the ids."""
    rng = random.Random(seed)
    tokens = [bytes([b]) for b in range(256)]
    known = set(tokens)
    while len(tokens) < n:
        token = "".join(rng.choices("abcdeo it's\\\n\t\"春風é😀", k=rng.randint(1, 8))).encode()
        if rng.random() < 0.2:
            token = rng.randbytes(rng.randint(2, 5))
        if token and token not in known:
            known.add(token)
            tokens.append(token)
    ids = rng.sample(range(257, n + 300), n - 256)
    return dict(zip([*range(1, 257), *sorted(ids)], tokens))


def lines(tokens):
    out = []
    for id_, token in tokens.items():
        try:
            literal = repr(token.decode())
        except UnicodeDecodeError:
            literal = repr(token)
        out.append(f"{id_} {literal} {len(token)}\n")
    return "".join(out)


def encoder(tokens):
    """The function from a text to its ids."""
    by_bytes = {token: id_ for id_, token in tokens.items()}
    lengths = {}  # of the tokens that begin with a byte, the longest first
    for token in sorted(by_bytes, key=len, reverse=True):
        lengths.setdefault(token[0], {})[len(token)] = None

    def ids_of(text):
        ids, at = [], 0
        while at < len(text):
            n = next(n for n in lengths[text[at]] if text[at:at + n] in by_bytes and at + n <= len(text))
            ids.append(by_bytes[text[at:at + n]])
            at += n
        return ids

    return ids_of


def encode(tokens, text):
    return encoder(tokens)(text)
