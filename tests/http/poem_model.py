"""A small model of poems with random weights, as flash-linear-attention writes its own, with the tokenizer of
weights/train/poem.py: characters, and bytes for the rest. Its words make no sense; the forms that it keeps do not
depend on that."""

import json
import random
import sys

import hf_model
from hf_model import folders
from settings import ROOT

sys.path.append(str(ROOT / "weights" / "train"))

import text_data  # noqa: E402

WORDS = "春夏秋冬江月花山水人天地风雪唐宋日夜思行静白光上疑是霜举头望明低故乡"
MARKS = "，。《》？、"
RHYMES = [WORDS[i::4] for i in range(4)]


def write(folder, task="poem", seed=1, words=WORDS, **fields):
    """A model folder; returns it."""
    folder.mkdir(parents=True)
    tokenizer = text_data.Tokenizer([*MARKS, *words], ends=True)
    config = folders.GATED | {"vocab_size": tokenizer.size, "eos_token_id": tokenizer.end, "bos_token_id": tokenizer.end,
                              "max_position_embeddings": 200, "linnet_task": task} | fields
    rng = random.Random(seed)
    tensors = {name: (t["shape"], hf_model.data_of(t, rng)) for name, t in folders.delta_tensors(config).items()}
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer.write(folder / "tokenizer.json")
    (folder / "rhymes.txt").write_text("".join(f"{group}\n" for group in RHYMES), encoding="utf-8")
    hf_model.write_safetensors(folder / "model.safetensors", tensors)
    return folder
