"""Small models of text with random weights, written as model folders: bytes, or byte-level BPE, as tokens.

Their words make no sense; no test depends on that. The byte model's tokens are mostly parts of characters, so that its
answers are the hard case for the code that puts them together.
"""

import json

import image_model
import vocabularies

CONTEXT = 300
END = 10  # of bytes: the line feed
BEGIN = 256  # after the bytes


def config(size, text, attention=image_model.LINEAR):
    return {
        "format": "linnet",
        "format_version": 1,
        "task": "text",
        "n_layers": image_model.LAYERS,
        "n_heads": image_model.HEADS,
        "d_model": image_model.D_MODEL,
        "d_ff": image_model.D_FF,
        "norm": "pre",
        "norm_eps": 1e-5,
        "activation": "gelu",
        "attention": attention,
        "inputs": [{"name": "token", "size": size}],
        "head": {"kind": "categorical", "size": size},
        "text": text,
    }


def write(folder, size, text, tokenizer=None, seed=1, attention=image_model.LINEAR):
    """A model folder; returns it."""
    folder.mkdir(parents=True)
    conf = config(size, text, attention)
    (folder / "config.json").write_text(json.dumps(conf))
    if tokenizer is not None:
        (folder / text["tokenizer"]).write_text(tokenizer.to_str())
    image_model.write_tensors(folder / "model.safetensors", conf, seed)
    return folder


def write_bytes(folder, seed=1, attention=image_model.LINEAR, **text):
    """Its rows 257 to 259 have no token."""
    return write(folder, 260, {"tokenizer": "bytes", "context": CONTEXT, "end": [END], "begin": BEGIN, **text},
                 seed=seed, attention=attention)


def write_bpe(folder, seed=1, **text):
    """Byte-level BPE with special tokens around every prompt; </s>, 3, ends an answer. Returns its tokenizer."""
    tokenizer = vocabularies.byte_level(pattern=vocabularies.QWEN2, template=True)
    text = {"tokenizer": "tokenizer.json", "context": CONTEXT, "end": [3], **text}
    write(folder, tokenizer.get_vocab_size(), text, tokenizer, seed)
    return tokenizer
