"""A text file as token sequences: documents, tokenizer, rows of a batch.

The file is UTF-8 and is one document, or holds one a line. The tokens are bytes (0 to 255), then `END` where documents
end, then the characters that the training text has often enough; other characters are their bytes. Lines
are read as

    END l i n e END l i n e END ...

so that a model sees END first, predicts END last, and knows nothing of the line before. Rows begin at an END, and by
tokenizer.json the server puts it before every prompt. A document longer than a row is cut into several.
"""

import collections
import json
import pathlib
from dataclasses import dataclass

import numpy as np

from unfit import Unfit

BYTES = 256
END = "<|end|>"


def read_text(path: pathlib.Path) -> str:
    data = path.read_bytes()
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")  # a mark that Windows writes
    except UnicodeDecodeError as error:
        raise Unfit(f"{path} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from error
    if not text.strip():
        raise Unfit(f"{path} has no text")
    return text


def lines_of(text: str) -> list[str]:
    """The non-empty documents."""
    return [line for line in (line.rstrip("\r") for line in text.split("\n")) if line]


class Tokenizer:
    """characters: their tokens follow those of the bytes, and END's where `ends`."""

    def __init__(self, characters: list[str], ends: bool):
        self.characters, self.end = characters, BYTES if ends else None
        self.first = BYTES + ends
        self.size = self.first + len(characters)
        self.ids = {c: self.first + i for i, c in enumerate(characters)}

    def encode(self, text: str) -> list[int]:
        out = []
        for c in text:
            known = self.ids.get(c)
            if known is None:
                out.extend(c.encode("utf-8"))
            else:
                out.append(known)
        return out

    def file(self) -> dict | None:
        """tokenizer.json: BPE without a merge, with bytes to fall back to. None where the server needs no file."""
        if self.size == BYTES:
            return None
        vocab = {f"<0x{byte:02X}>": byte for byte in range(BYTES)}
        added, template = [], None
        if self.end is not None:
            vocab[END] = self.end
            flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            added = [{"id": self.end, "content": END} | flags]
            special, text = {"SpecialToken": {"id": END, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
            template = {"type": "TemplateProcessing", "single": [special, text],
                        "pair": [special, text, {"Sequence": {"id": "B", "type_id": 1}}],
                        "special_tokens": {END: {"id": END, "ids": [self.end], "tokens": [END]}}}
        return {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": None, "post_processor": template,
            "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": True, "ignore_merges": False,
                      "vocab": vocab | self.ids, "merges": []},
        }

    def write(self, path: pathlib.Path):
        """A file that was there is gone where there is none to write."""
        file = self.file()
        if file is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(json.dumps(file, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def make_tokenizer(name: str, documents: list[str], min_count: int, ends: bool) -> Tokenizer:
    """`bytes`, or `characters`: those that the documents have min_count times."""
    counts = collections.Counter()
    if name == "characters":
        for document in documents:
            counts.update(document)
    kept = [c for c, n in counts.items() if n >= min_count and c != "\0"]  # JSON's readers do not take a zero byte
    return Tokenizer(sorted(kept, key=lambda c: (-counts[c], c)), ends)


@dataclass
class Tokens:
    """Documents as one array; document i is values[starts[i]] to values[starts[i + 1]], both included."""

    values: np.ndarray  # int32
    counted: np.ndarray  # bool: whether a token is predicted; given tokens are not
    starts: np.ndarray  # int64 [documents + 1]

    def rows(self, length: int, offset: int = 0) -> np.ndarray:
        """[rows, 2]: first input, and how many there are, at most `length`. The first row of a document longer than
        that has `offset` of them, where that is not 0, so that documents are not cut at the same places each time."""
        rows = []
        for start, last in zip(self.starts[:-1].tolist(), self.starts[1:].tolist()):
            if offset and last - start > length:
                rows.append((start, offset))
                start += offset
            rows += [(at, min(length, last - at)) for at in range(start, last, length)]
        return np.array(rows, dtype=np.int64).reshape(-1, 2)

    def arrays(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Input ids [rows, longest], the tokens to be predicted [N], and the places [N], among all inputs, of the tokens
        that predict them. Tokens after a row's end cannot change the tokens before it."""
        inside = np.arange(rows[:, 1].max())[None, :]
        at = np.minimum(rows[:, :1] + inside, len(self.values) - 2)
        places = np.flatnonzero((inside < rows[:, 1:]) & self.counted[at + 1])
        return self.values[at].astype(np.int64), self.values[at.ravel()[places] + 1].astype(np.int64), places


def tokenize(documents: list[str], tokenizer: Tokenizer, given: str | None) -> Tokens:
    """given: the part of a document up to the last occurrence of this character is read but not predicted."""
    values, counted, starts = [], [], []
    for document in documents:
        starts.append(len(values))
        before = document[: document.rfind(given) + 1] if given else ""
        if tokenizer.end is not None:
            values.append(tokenizer.end)
            counted.append(True)
        free = len(values) + len(tokenizer.encode(before))
        values += tokenizer.encode(document)
        counted += [i >= free for i in range(len(counted), len(values))]
    if tokenizer.end is not None:
        starts.append(len(values))
        values.append(tokenizer.end)
        counted.append(True)
    else:
        starts.append(len(values) - 1)
    return Tokens(np.array(values, np.int32), np.array(counted), np.array(starts, np.int64))


def batches(rows: np.ndarray, batch_tokens: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows of about one length together, in random order; padding counts as tokens."""
    rows = rows[rng.permutation(len(rows))]
    rows = rows[np.argsort(rows[:, 1], kind="stable")]
    out, first = [], 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or (i + 1 - first) * rows[i, 1] > batch_tokens:
            out.append(rows[first:i])
            first = i
    return [out[i] for i in rng.permutation(len(out))]
