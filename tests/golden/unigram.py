#!/usr/bin/env python3
"""Unigram tokenizers, and the ids and texts that the library `tokenizers` makes of them, for
tests/unit/model/test_tokenizers.c.

    python3 tests/golden/unigram.py     writes tests/golden/unigram.json (needs the package tokenizers)
"""

import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "http"))

import vocabularies  # noqa: E402


def golden(tokenizer, texts):
    cases = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        decoded = tokenizer.decode(ids, skip_special_tokens=False)
        if "\0" not in decoded:
            cases.append({"text": text, "ids": ids, "decoded": decoded})
    return {"file": json.loads(tokenizer.to_str()), "cases": cases}


def main():
    out = {}
    for name, make in vocabularies.unigrams(count=260):
        rng = random.Random(name)
        out[name] = golden(make(), [vocabularies.with_added(rng) for _ in range(10)] +
                           [vocabularies.text(rng, rng.randint(1, 12)) for _ in range(10)] + ["", " ", "e\u0301ﬁx①", "a\u0301\r\n字b"])
    for seed in range(3):
        tokenizer, texts = vocabularies.random_unigram(seed)
        out[f"random-{seed}"] = golden(tokenizer, texts[:20])
    (HERE / "unigram.json").write_text("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in out.items()) + "}\n")


if __name__ == "__main__":
    main()
