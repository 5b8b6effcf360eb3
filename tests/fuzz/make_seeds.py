#!/usr/bin/env python3
"""Writes the seeds of every fuzzer, a folder each: tests/fuzz/make_seeds.py OUT

All of them are made here, from nothing; the same ones every time.
"""

import base64
import gzip
import json
import math
import pathlib
import random
import struct
import sys
import zlib

from sound_seeds import sounds

SIDE = 28
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width: int, height: int, depth: int, colour: int, interlaced: bool) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))


def rows(width: int, height: int, depth: int, colour: int, interlaced: bool, rng: random.Random) -> bytes:
    """Rows of random bytes; every filter comes."""
    out = b""
    for x0, y0, dx, dy in PASSES if interlaced else [(0, 0, 1, 1)]:
        columns = len(range(x0, width, dx))
        for y in range(y0, height, dy) if columns else []:
            size = (columns * CHANNELS[colour] * depth + 7) // 8
            out += bytes([y % 5]) + rng.randbytes(size)
    return out


def png(depth: int, colour: int, interlaced=False, side=(11, 13), extra=b"", level=9) -> bytes:
    rng = random.Random(depth * 100 + colour * 2 + interlaced)
    palette = chunk(b"PLTE", rng.randbytes(3 << depth)) if colour == 3 else b""
    data = zlib.compress(rows(*side, depth, colour, interlaced, rng), level)
    return header(*side, depth, colour, interlaced) + palette + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def pngs() -> dict[str, bytes]:
    seeds = {}
    for depth, colour in [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (8, 2), (16, 2), (1, 3), (2, 3), (4, 3), (8, 3),
                          (8, 4), (16, 4), (8, 6), (16, 6)]:
        for interlaced in (False, True):
            seeds[f"{depth}-bit-type-{colour}-{interlaced:d}"] = png(depth, colour, interlaced)
    whole = png(8, 0, side=(SIDE, SIDE))
    seeds["whole"] = whole
    seeds["cut"] = whole[: len(whole) // 2]
    seeds["cut-head"] = whole[:20]
    seeds["damaged"] = whole[:60] + b"\xff" + whole[61:]
    seeds["transparent"] = png(8, 3, extra=chunk(b"tRNS", bytes(range(200))))
    seeds["grey-key"] = png(8, 0, extra=chunk(b"tRNS", b"\0\7"))
    seeds["split"] = header(5, 5, 8, 0, False) + b"".join(
        chunk(b"IDAT", bytes([b])) for b in zlib.compress(rows(5, 5, 8, 0, False, random.Random(1)))) + chunk(b"IEND", b"")
    seeds["huge-head"] = header(60000, 60000, 8, 6, False) + whole[33:]
    seeds["bomb"] = header(SIDE, SIDE, 8, 0, False) + chunk(b"IDAT", zlib.compress(bytes(1 << 20), 9)) + chunk(b"IEND", b"")
    seeds["too-long"] = header(SIDE, SIDE, 8, 0, False) + chunk(b"IDAT", bytes(80000)) + chunk(b"IEND", b"")
    seeds["text-bomb"] = png(8, 0, extra=chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(1 << 20), 9)))
    seeds["profile-bomb"] = png(8, 2, extra=chunk(b"iCCP", b"icc\0\0" + zlib.compress(bytes(1 << 20), 9)))
    seeds["no-data"] = header(4, 4, 8, 0, False) + chunk(b"IEND", b"")
    seeds["no-palette"] = header(4, 4, 8, 3, False) + chunk(b"IDAT", zlib.compress(bytes(20))) + chunk(b"IEND", b"")
    return seeds


def config(task: str) -> dict:
    head = {"kind": "logistic_mixture", "components": 10, "levels": 256}
    own = {"image": {"width": SIDE, "height": SIDE, "channels": 1}}
    if task == "couplet":
        head, own = {"kind": "categorical", "size": 300}, {"max_chars": 32}
    attention = {"kind": "linear", "feature_map": "elu+1", "eps": 1e-6}
    return {"format": "linnet", "format_version": 1, "task": task, "n_layers": 2, "n_heads": 4, "d_model": 32,
            "d_ff": 64, "norm": "pre", "norm_eps": 1e-5, "activation": "gelu", "attention": attention,
            "inputs": [{"name": "token", "size": 257}, {"name": "row", "size": SIDE}], "head": head, **own}


def configs() -> dict[str, bytes]:
    seeds = {task: json.dumps(config(task)).encode() for task in ("couplet", "image")}
    seeds["sizes"] = json.dumps(config("image") | {"d_key": 7, "d_value": 5, "norm": "post"}).encode()
    seeds["unknown"] = json.dumps(config("image") | {"rope": True}).encode()
    seeds["base"] = json.dumps({"base": "../none", "d_model": 64}).encode()
    hears = {"sample_rate": 8000, "frame": 200, "hop": 80, "bands": 6, "lowest": 20, "stride": 3, "context": 1}
    seeds["speech"] = json.dumps(config("speech") | {"head": {"kind": "ctc", "size": 11}, "speech": hears}).encode()
    rwkv7 = {"model_type": "rwkv7", "hidden_size": 128, "head_dim": 64, "num_hidden_layers": 2, "vocab_size": 256}
    seeds["rwkv7"] = json.dumps(rwkv7 | {"value_dim": [128, 128], "eos_token_id": [0, 2], "hidden_ratio": 3.5}).encode()
    seeds["deep"] = b"[" * 3000
    return seeds


def tensors(entries: list[tuple[str, str, list[int], bytes]]) -> bytes:
    offset, head, data = 0, {"__metadata__": {"format": "linnet", "linnet_blocks": "1"}}, b""
    for name, dtype, shape, blob in entries:
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(blob)]}
        offset, data = offset + len(blob), data + blob
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors() -> dict[str, bytes]:
    floats = struct.pack("<6f", *range(6))
    return {
        "f32": tensors([("a", "F32", [2, 3], floats)]),
        "all": tensors([("a.weight", "F32", [6], floats), ("b", "BF16", [1, 2], bytes(4)), ("c", "F16", [3], bytes(6))]),
        "blocks": tensors([("a", "Q4_0", [2, 32], bytes(36)), ("b", "Q8_0", [32], bytes(34))]),
        "not-finite": tensors([("a", "F32", [1], b"\0\0\x80\x7f")]),
        "short": tensors([("a", "F32", [3, 3], floats)]),
        "cut": tensors([("a", "F32", [2, 3], floats)])[:-5],
        "long-head": struct.pack("<Q", 1 << 60) + b"{}",
    }


def gguf(keys: list[tuple[bytes, int, bytes]], entries: list[tuple[bytes, list[int], int, bytes]], start: bytes = b"GGUF\3\0\0\0") -> bytes:
    """keys: name, type and value as the file has them; entries: name, dimensions, type and values of each tensor."""
    head, data = struct.pack("<QQ", len(entries), len(keys)), b""
    for name, kind, value in keys:
        head += struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value
    for name, shape, kind, values in entries:
        head += struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += values + bytes(-len(values) % 32)
    return start + head + bytes(-len(start + head) % 32) + data


def gguf_text(*texts: bytes) -> bytes:
    return b"".join(struct.pack("<Q", len(text)) + text for text in texts)


def gguf_keys(arch: str, numbers: dict[str, int | float], flags: dict[str, list[int]] | None = None) -> list[tuple[bytes, int, bytes]]:
    keys = [(b"general.architecture", 8, gguf_text(arch.encode())), (b"tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 3))]
    keys += [(f"{arch}.{key}".encode(), 4 if isinstance(x, int) else 6, struct.pack("<I" if isinstance(x, int) else "<f", x))
             for key, x in {"block_count": 2, "embedding_length": 32, "feed_forward_length": 32, **numbers}.items()]
    return keys + [(f"{arch}.{key}".encode(), 9, struct.pack("<IQ", 7, len(x)) + bytes(x)) for key, x in (flags or {}).items()]


def gguf_bpe() -> list[tuple[bytes, int, bytes]]:
    tokens = [*(letter.encode() for letter in byte_letters()), b"ab"]
    return [(b"tokenizer.ggml.model", 8, gguf_text(b"gpt2")), (b"tokenizer.ggml.pre", 8, gguf_text(b"gpt-2")),
            (b"tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, len(tokens)) + gguf_text(*tokens)),
            (b"tokenizer.ggml.merges", 9, struct.pack("<IQ", 8, 1) + gguf_text(b"a b"))]


def gguf_world() -> list[tuple[bytes, int, bytes]]:
    tokens = [b"<s>", *(f"\\x{byte:02x}".encode() for byte in range(256))]
    return [(b"tokenizer.ggml.model", 8, gguf_text(b"rwkv")),
            (b"tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, len(tokens)) + gguf_text(*tokens))]


def gguf_tensors(shapes: dict[str, list[int]], layers: list[dict[str, list[int]]]) -> list[tuple[bytes, list[int], int, bytes]]:
    """Rows of 32 numbers in Q8_0, other tensors in F32; all numbers are 0, or -1 where they must be below 0."""
    named = {"token_embd.weight": [32, 257], **shapes} | {f"blk.{i}.{name}": shape for i, layer in enumerate(layers) for name, shape in layer.items()}
    out = []
    for name, shape in named.items():
        n = math.prod(shape)
        blocks = shape[0] == 32 and len(shape) > 1
        out.append((name.encode(), shape, 8 if blocks else 0, bytes(n // 32 * 34) if blocks else struct.pack("<f", -1.0 if "ssm_a" in name else 0) * n))
    return out


def both(*names: str) -> dict[str, list[int]]:
    """Weight and bias of norms."""
    return {f"{name}.{part}": [32] for name in names for part in ("weight", "bias")}


def gguf_models() -> dict[str, bytes]:
    ff = {f"ffn_{part}.weight": [32, 32] for part in ("gate", "up", "down")}
    softmax = {f"attn_{part}.weight": [32, 32] for part in ("q", "k", "v", "output")}
    llama = {"attention.head_count": 2, "attention.layer_norm_rms_epsilon": 1e-5}
    norms = {"attn_norm.weight": [32], "ffn_norm.weight": [32]}
    ssm = {"conv_kernel": 4, "state_size": 8, "group_count": 2, "time_step_rank": 4, "inner_size": 32}
    ssm = {f"ssm.{key}": x for key, x in ssm.items()}
    linear = {"attn_norm.weight": [32], "post_attention_norm.weight": [32], "attn_qkv.weight": [32, 64], "ssm_conv1d.weight": [4, 64],
              "attn_gate.weight": [32, 32], "ssm_beta.weight": [32, 4], "ssm_alpha.weight": [32, 4], "ssm_dt.bias": [4], "ssm_a": [4],
              "ssm_norm.weight": [8], "ssm_out.weight": [32, 32], **ff}
    full = {"attn_norm.weight": [32], "post_attention_norm.weight": [32], "attn_q.weight": [32, 64], "attn_k.weight": [32, 16],
            "attn_v.weight": [32, 16], "attn_output.weight": [32, 32], "attn_q_norm.weight": [16], "attn_k_norm.weight": [16], **ff}
    qwen = llama | ssm | {"attention.head_count_kv": 1, "attention.key_length": 16, "attention.value_length": 16}
    mamba = {"attn_norm.weight": [32], "ssm_in.weight": [32, 100], "ssm_out.weight": [32, 32], "ssm_conv1d.weight": [4, 64],
             "ssm_conv1d.bias": [64], "ssm_dt.bias": [4], "ssm_a": [1, 4], "ssm_d": [1, 4], "ssm_norm.weight": [16, 2]}
    rwkv = {"wkv.head_size": 8, "attention.layer_norm_epsilon": 1e-5}
    frame = both("token_embd_norm", "output_norm")
    square = {f"time_mix_{part}.weight": [32, 32] for part in ("receptance", "key", "value", "output")}
    six = both("attn_norm", "attn_norm_2", "time_mix_ln") | square | {
        "time_mix_gate.weight": [32, 32], "time_mix_lerp_x.weight": [32], "time_mix_w1.weight": [32, 15], "time_mix_w2.weight": [3, 32, 5],
        "time_mix_lerp_fused.weight": [32, 1, 1, 5], "time_mix_decay_w1.weight": [32, 4], "time_mix_decay_w2.weight": [4, 32],
        "time_mix_decay.weight": [32], "time_mix_first.weight": [8, 4], "channel_mix_lerp_k.weight": [32], "channel_mix_lerp_r.weight": [32],
        "channel_mix_key.weight": [32, 32], "channel_mix_value.weight": [32, 32], "channel_mix_receptance.weight": [32, 32]}
    pairs = {f"time_mix_{pair}{n}.weight": [32, 4] if n == 1 else [4, 32] for pair in "wavg" for n in (1, 2)}
    seven = both("attn_norm", "attn_norm_2", "time_mix_ln") | square | pairs | {f"time_mix_{part}.weight": [32] for part in (
        "w0", "a0", "v0", "k_k", "k_a", "r_k")} | {"time_mix_lerp_fused.weight": [32, 1, 1, 6], "channel_mix_lerp_k.weight": [32, 1, 1],
        "channel_mix_key.weight": [32, 32], "channel_mix_value.weight": [32, 32]}
    ranks = {f"attention.{name}_lora_rank": 4 for name in ("decay", "iclr", "value_residual_mix", "gate")}
    last = {"output_norm.weight": [32]}
    return {
        "llama": gguf(gguf_keys("llama", llama) + gguf_bpe(), gguf_tensors(last, [norms | softmax | ff] * 2)),
        "qwen35": gguf(gguf_keys("qwen35", qwen, {"attention.recurrent_layers": [1, 0]}) + gguf_bpe(), gguf_tensors(last, [linear, full])),
        "mamba2": gguf(gguf_keys("mamba2", ssm | {"attention.layer_norm_rms_epsilon": 1e-5}) + gguf_bpe(), gguf_tensors(last, [mamba] * 2)),
        "rwkv6": gguf(gguf_keys("rwkv6", rwkv | {"block_count": 1, "time_mix_extra_dim": 3, "time_decay_extra_dim": 4}) + gguf_world(), gguf_tensors(frame, [six])),
        "rwkv7": gguf(gguf_keys("rwkv7", rwkv | ranks) + gguf_world(), gguf_tensors(frame, [seven] * 2)),
    }


def gguf_files() -> dict[str, bytes]:
    """Whole ones, and one for each kind of fault that readers of such files have had."""
    models = gguf_models()
    arch, one = [(b"general.architecture", 8, gguf_text(b"llama"))], [(b"a", [32], 0, bytes(128))]
    kinds = [(f"k{kind}".encode(), kind, bytes(size)) for kind, size in enumerate((1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8))]
    blocks = [(f"b{kind}".encode(), [256], kind, bytes(size)) for kind, size in (
        (10, 84), (11, 110), (12, 144), (13, 176), (14, 210), (23, 136), (20, 144))]
    return {
        **models, "cut": models["llama"][:-200], "kinds": gguf(arch + kinds[:9], one), "blocks": gguf(arch, blocks), "big-endian": gguf(arch, one, b"GGUF\0\0\0\3"),
        "wraps": gguf(arch, [(b"a", [1 << 32, 1 << 32], 0, b"")]), "five": gguf(arch, [(b"a", [32, 1, 1, 1, 1], 0, bytes(128))]),
        "many": b"GGUF\3\0\0\0" + struct.pack("<QQ", 1 << 62, 1 << 62), "long-text": gguf([(b"general.name", 8, struct.pack("<Q", 1 << 60))], one),
        "long-list": gguf([(b"a", 9, struct.pack("<IQ", 8, 1 << 60))], one), "alignment": gguf([(b"general.alignment", 4, struct.pack("<I", 1 << 30))], one),
        "twice": gguf(arch + arch, one), "type": gguf(arch, [(b"a", [32], 0xFFFFFFFF, bytes(128))]),
        "lists": gguf([(b"a", 9, struct.pack("<IQIQ", 9, 1, 9, 1))], one),
    }


def vocabularies() -> dict[str, bytes]:
    return {
        "whole": "<unk>\n<s>\n<sep>\n<none>\n，\n海\na\n𠀀\n".encode(),
        "twice": b"<s>\na\n<s>\n",
        "no-end": b"a\nb",
        "not-utf8": b"a\n\xe4\xbd\n",
    }


def byte_letters() -> list[str]:
    """The letters that byte-level files write bytes as."""
    kept = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    moved = iter(range(0x100, 0x200))
    return [chr(b if b in kept else next(moved)) for b in range(256)]


def tokenizer_file(letters: list[str], merges: list[list[str]], **fields) -> dict:
    pieces = [*letters, *("".join(pair) for pair in merges)]
    model = {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}, "merges": merges}
    added = {"id": 400, "content": "<s>", "single_word": False, "lstrip": True, "rstrip": True, "normalized": False, "special": True}
    return {"version": "1.0", "added_tokens": [added, added | {"id": 401, "content": "<m>", "normalized": True}], "model": model, **fields}


def charsmap() -> bytes:
    """A table of characters with one rule, "x" to "fi": the root, then the nodes of "x" and of its leaf."""
    units = [0] * 256
    units[0], units[1 ^ ord("x")], units[2] = 1 << 10, ord("x") | 1 << 8 | (1 ^ ord("x") ^ 2) << 10, 1 << 31
    return struct.pack("<257I", 4 * 256, *units) + b"fi\0"


def tokenizers() -> dict[str, bytes]:
    """A file of each family; the text after the first NUL is encoded."""
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    split = {"type": "Split", "pattern": {"Regex": r"(?i:'s)|[^\r\n\p{L}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"},
             "behavior": "Isolated", "invert": False}
    files = {
        "byte-level": tokenizer_file(byte_letters(), [["a", "b"], ["Ġ", "ab"]], normalizer={"type": "NFC"}, decoder={"type": "ByteLevel"},
                                     pre_tokenizer={"type": "Sequence", "pretokenizers": [split, {"type": "ByteLevel"}]}),
        "fallback": tokenizer_file([f"<0x{b:02X}>" for b in range(256)] + ["a", "b", "▁"], [["▁", "a"]],
                                   normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]},
                                   decoder={"type": "Sequence", "decoders": [
                                       replace, {"type": "ByteFallback"}, {"type": "Fuse"},
                                       {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
        "metaspace": tokenizer_file(["a", "b", "▁"], [["▁", "a"]], pre_tokenizer={"type": "Metaspace", "replacement": "▁"},
                                    decoder={"type": "Metaspace", "replacement": "▁"}, post_processor={
                                        "type": "TemplateProcessing",
                                        "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                                        "special_tokens": {"<s>": {"id": "<s>", "ids": [400], "tokens": ["<s>"]}}})}
    files["fallback"]["model"] |= {"byte_fallback": True}
    files["unigram"] = tokenizer_file([], [], normalizer={"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap()).decode()}, {"type": "Lowercase"},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}, {"type": "StripAccents"}]},
        pre_tokenizer={"type": "Metaspace", "replacement": "▁"}, decoder={"type": "Metaspace", "replacement": "▁"})
    scores = [["<unk>", 0.0], ["▁", -2.0], ["a", -1.5], ["b", -3.0], ["ab", -3.25], ["▁a", -2.5], ["fi", -4.0], ["<0x41>", -9.0]]
    files["unigram"]["model"] = {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": scores}
    seeds = {name: json.dumps(file).encode() + b"\0 ab <s> b's 12\xc3\xa9" for name, file in files.items()}
    seeds["metaspace"] = json.dumps(files["metaspace"]).encode() + b"\0 ab <s> ba  b"
    # An error quotes a name of the file.
    seeds["bad-name"] = seeds["metaspace"].replace(b'"<s>": {"id": "<s>", "ids": [400]', b'"<s\x7f>": {"id": "<s>", "ids": 400')
    seeds["bad-name"] = seeds["bad-name"].replace(b'[{"SpecialToken": {"id": "<s>"}}', b'[{"SpecialToken": {"id": "<s\x7f>"}}')
    world = "".join(f"{b + 1} {bytes([b])!r} 1\n" for b in range(256)) + "300 'ab' 2\n301 'a\\u00e9' 3\n"
    seeds["world"] = world.encode() + b"\0aba\xc3\xa9"
    seeds["characters"] = "<unk>\n<s>\na\né\n".encode() + b"\0a\xc3\xa9b"
    return seeds


def idx_files() -> dict[str, bytes]:
    whole = struct.pack(">iiii", 2051, 3, 2, 5) + bytes(range(30))
    return {
        "plain": whole,
        "gzip": gzip.compress(whole, mtime=0),
        "colours": struct.pack(">5i", 2052, 2, 1, 2, 3) + bytes(range(12)),
        "cut": whole[:-1],
        "cut-gzip": gzip.compress(whole, mtime=0)[:-9],
        "many": struct.pack(">iiii", 2051, 1 << 24, 8, 8) + bytes(64),
        "bomb": gzip.compress(struct.pack(">iiii", 2051, 256, 64, 64) + bytes(1 << 20), mtime=0),
    }


def forms() -> dict[str, bytes]:
    """The content type, a line, and the body."""
    kind, end = b"multipart/form-data; boundary=XyZ\n", b"--XyZ--\r\n"

    def part(head: str, value: bytes) -> bytes:
        return f"--XyZ\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + value + b"\r\n"

    image = part('name="image"; filename="a;b.png"\r\nContent-Type: image/png', b"\x89PNG\r\n\x1a\n\r\n--Xy")
    return {
        "whole": kind + part('name="n"', b"3") + image + end,
        "sound": kind + part('name="file"; filename="a.wav"', b"RIFF") + part('name="response_format"', b"verbose_json")
        + part('name="timestamp_granularities[]"', b"word") + part('name="beam"', b"8") + part('name="language"', b"en") + end,
        "none": kind.replace(b"XyZ", b'"XyZ"; charset=utf-8') + end,
        "full": kind + b"".join(part(f'name="f{i}"', b"v") for i in range(32)) + end,
        "more": kind + b"".join(part(f'name="f{i}"', b"v") for i in range(33)) + end,
        "no-name": kind + part('filename="x"', b"") + end,
        "cut": kind + image,
        "another": b"application/json\n{}",
    }


def bodies() -> dict[str, bytes]:
    """The route's number and a body: completions, chat, pictures, edits, scores, states, their forks, responses."""
    text = {"model": "m", "prompt": "海上明月", "n": 2, "seed": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 3,
            "stop": ["天", "ab"], "logit_bias": {"5": -100, "17": 2.5}, "stream": True, "logprobs": 2, "echo": True,
            "stream_options": {"include_usage": True}, "max_tokens": 3, "timeout_ms": 1000, "user": "u"}
    message = {"role": "user", "content": [{"type": "text", "text": "月"}]}
    chat = {"model": "m", "messages": [{"role": "system", "content": "s"}, message], "logprobs": True, "top_logprobs": 3,
            "response_format": {"type": "text"}, "max_completion_tokens": 2}
    picture = {"image_url": "data:image/png;base64,iVBORw0KGgo="}
    images = {"model": "m", "prompt": "", "n": 2, "size": "28x28", "stream": True, "partial_images": 2, "stream_unit": "row"}
    seeds = {
        "text": (0, text),
        "list": (0, {"model": "m", "prompt": ["a", "b"], "n": 1, "best_of": 3, "suffix": "", "presence_penalty": 0}),
        "tokens": (0, {"model": "m", "prompt": [5, 6, 7]}),
        "token-lists": (0, {"model": "m", "prompt": [[5], [6, 7]], "stop": "x"}),
        "bad-bias": (0, {"model": "m", "prompt": "a", "logit_bias": {"01": 1, "x": 2}}),
        "chat": (1, chat),
        "images": (2, images),
        "edit": (3, {**images, "images": [picture], "mask": picture}),
        "score": (4, {"model": "m", "prompt": "a", "completion": "b", "image": picture["image_url"]}),
        "go-on": (0, {"state": "state-1", "prompt": "", "return_state": True, "park": True, "max_tokens": 3}),
        "chat-park": (1, chat | {"return_state": False, "park": True}),
        "image-go-on": (2, {"state": "AAAA", "max_tokens": 9, "return_state": True, "park": False}),
        "state": (5, {"model": "m", "prompt": "月", "rules": False, "seed": 3, "timeout_ms": 5}),
        "image-state": (5, {"image": picture["image_url"], "mask": picture["image_url"]}),
        "fork": (6, {"n": 2, "seeds": [1, 9007199254740991]}),
        "response": (7, {"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "月"}]}],
                         "instructions": "s", "include": ["message.output_text.logprobs"], "top_logprobs": 3, "stream": True,
                         "max_output_tokens": 3, "text": {"format": {"type": "text"}}, "truncation": "disabled"}),
        "response-text": (7, {"model": "m", "input": "月", "stop": "x", "seed": 3, "tools": []}),
        "response-in": (7, {"input": "月", "conversation": {"id": "conv_1"}, "truncation": "auto", "store": False}),
        "message": (10, {"model": "m", "system": "s", "max_tokens": 3, "stop_sequences": ["x"], "thinking": {"type": "enabled"}, "messages": [
            message, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": ""}, {"type": "text", "text": "a"},
                                                       {"type": "tool_use", "id": "c", "name": "f", "input": {"x": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "月"}]}, {"type": "text", "text": "b"}]}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "tool", "name": "f"}}),
        "message-tokens": (11, {"messages": [message], "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]}),
        "conversation": (8, {"items": [{"role": "user", "content": "月"}], "metadata": {"a": "月"}}),
        "items": (9, {"items": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "月"}]}]}),
    }
    made = {name: bytes([route]) + json.dumps(body, ensure_ascii=False).encode() for name, (route, body) in seeds.items()}
    deep = b'{"model":"m","prompt":' + b"[" * 40 + b"]" * 40 + b"}"
    return made | {"deep": b"\0" + deep, "twice": b'\0{"n":1,"n":2}', "surrogate": b'\0{"prompt":"\\ud800"}',
                   "number": b'\0{"model":"m","prompt":"a","seed":1e999}', "empty": b"\1", "list-body": b"\2[]"}


def heads() -> dict[str, bytes]:
    """Method and version, then the headers of a request, a line each."""
    host = b"POST HTTP/1.1\nHost: a\n"
    return {
        "plain": host + b"Content-Type: application/json\nContent-Length: 12",
        "chunked": host + b"Transfer-Encoding: chunked",
        "old": b"GET HTTP/1.0\nAccept: */*",
        "both": host + b"Content-Length: 3\nTransfer-Encoding: chunked",
        "two-lengths": host + b"Content-Length: 3\nContent-Length: 4",
        "two-hosts": host + b"Host: b",
        "space": host + b"Content-Length : 3",
        "sign": host + b"Content-Length: +3",
        "huge": host + b"Content-Length: 99999999999999999999",
        "over": host + b"Content-Length: 65537",
        "gzip": host + b"Transfer-Encoding: gzip, chunked",
        "many": host + b"A: b\n" * 65,
        "control": host + b"A: b\x01c\rd",
        "version": b"GET HTTP/2.0\nHost: a",
        "id": b"a.B-9_z",
    }


def clients() -> dict[str, bytes]:
    """The bytes of a connection; the first byte also chooses the pieces."""
    post = b"POST /x HTTP/1.1\r\nHost: h\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    return {
        "get": b"GET /a?b=c&d HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer  k \r\n\r\n" * 2,
        "absolute": b"GET http://a:1/b HTTP/1.1\r\nHost: h\r\n\r\n", "old": b"GET / HTTP/1.0\r\n\r\n",
        "length": post + b"Content-Length: 3 \r\n\r\nabc" + post + b"\r\n",
        "chunks": chunked + b"2;a=b\r\nab\r\n03\r\ncde\r\n0\r\nA: b\r\n\r\n" + post + b"\r\n",
        "folded": post + b"Transfer-Enc: chunked\r\n oding\r\n\r\n", "nul": post + b"A: b\0c\r\n\r\n",
        "lf": post + b"A: b\n\n", "chunk-lf": chunked + b"1\na\n0\n\n", "chunk-end": chunked + b"1\r\nabc",
        "trailer": chunked + b"0\r\nA: b\r\n c\r\n\r\n", "many": b"GET /?" + b"a&" * 40 + b" HTTP/1.1\r\n",
        "ampersands": b"POST /" + b"&" * 77 + b"x HTTP/1.1\r\nHost: h\r\n\r\n2;a=H: ss: h\r\n\r\n",
        "long": post + b"A: " + b"a" * 17000, "long-url": b"GET /" + b"a" * 17000, "tls": b"\x16\x03\x01\r\n\r\n",
        "stand-in": b"GE[ \xff\xff/ HTTP/1.0\r\n\r\n",
    }


def state(request=b"abc", tokens=(1, 2), floats=12, rows=5, flags=0, modality=0, magic=b"LINSTAT1", made_by=b"m",
          padding=b"\0\0\0") -> bytes:
    """docs/state-format.md; the fuzzer puts size and CRC in."""
    n = floats if rows else 0
    head = struct.pack("<8sQQQQQIIIIIIIIII96sQ", magic, 0, 7, 9, n, floats, flags, modality, 1, 1, 2, 3, rows,
                       len(tokens), len(request), 0, made_by, 0)
    return (head + request + padding[: -len(request) % 4] + struct.pack(f"<{len(tokens)}i", *tokens)
            + struct.pack(f"<{n}f", *range(n)) + bytes(4))


def states() -> dict[str, bytes]:
    return {
        "text": state(), "rules": state(flags=2), "image": state(bytes(range(20)), modality=1),
        "fresh": state(tokens=(), rows=0), "empty": state(b"", (), 4, 1), "odd": state(b"abcde", (5,), 1, 2),
        "signed": state(flags=1) + bytes(32), "version": state(magic=b"LINSTAT2"), "other": state(magic=b"GGUF1234"),
        "large": state(bytes(1000), tuple(range(300)), 500, 900), "no-maker": state(made_by=b""),
        "unended": state(made_by=b"x" * 96), "short": b"LINSTAT1", "nothing": b"",
        "behind-the-name": state(b"abc", (), 4, 1, made_by=b"m\0\0\x80"), "padding": state(padding=b"\0\0\1"),
    }


def prefixes() -> dict[str, bytes]:
    """Kept states of prompts, as fuzz_prefix.c names the right one; the fuzzer puts the CRC in."""
    def blob(magic=b"LINPREF2", floats=11, rows=130, width=2, base=0, maker=b"m", first=(1, 2, 3, 4, 5, 6)):
        head = struct.pack("<8sQIIII192s", magic, floats, rows, width, base, 0, maker)
        return head + struct.pack("<260i", *first, *(0,) * 254) + struct.pack(f"<{floats}f", *range(floats)) + bytes(4)

    return {"right": blob(), "rows": blob(first=(1, 2, 3, 4, 5, 7)), "fewer": blob(rows=129), "maker": blob(maker=b"n"),
            "floats": blob(floats=10), "magic": blob(b"LINPREF1"), "padding": blob(maker=b"m\0x"), "short": b"LINPREF2", "nothing": b"",
            "longer": blob() + bytes(4), "base": blob(base=70, floats=9), "bases": blob(base=129, floats=7), "itself": blob(base=130, floats=7),
            "less": blob(base=70)}


def templates() -> dict[str, bytes]:
    """Those of tests/golden/jinja.py."""
    cases = json.loads((pathlib.Path(__file__).parents[1] / "golden/jinja/cases.json").read_text())
    return {str(i): case["template"].encode() for i, case in enumerate(cases)}


def grammars() -> dict[str, bytes]:
    """The first byte is the reader: JSON Schema, regular expression, GBNF, choices."""
    schemas = [
        b"", b"{}", b'{"type":"object","properties":{"a":{"type":"string","maxLength":9},"b":{"$ref":"#"}},"additionalProperties":true}',
        b'{"$defs":{"n":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/n"}},{"const":1.5}]}},"$ref":"#/$defs/n"}',
        b'{"type":"number","minimum":-3,"exclusiveMaximum":12}', b'{"type":["string","null"],"pattern":"^[^a\\"]{2}|x$"}',
        b'{"type":"string","format":"date-time"}', b'{"enum":["a\nb",{"c":[]},null]}', b'{"not\n":1}', b'{"$ref":"#"}', b"[",
    ]
    regexes = [b"a(b|c)*d{2,3}?", b"[^\\w\xc3\xa9-\xc3\xbf]+$", b"(?P<n>\\D)\\.", b"(a", b"\\u12", b"(a*)*b{,4}"]
    rules = [
        b'root ::= "a" root "b" | [^x-z\\n]{2,} # end\n', b'root ::= (x\n| y)+\nx ::= "\\x41" y?\ny ::= .', b"root ::= root", b"root ::= a", b'root ::= "',
    ]
    lists = [b'["yes","no"]', b'["a\u0000", "\\""]', b"[]", b"{}"]
    return {f"{kind}-{i}": bytes([kind]) + text for kind, texts in enumerate((schemas, regexes, rules, lists)) for i, text in enumerate(texts)}


def main():
    out = pathlib.Path(sys.argv[1])
    kinds = {"png": pngs, "config": configs, "safetensors": safetensors, "gguf": gguf_files, "vocab": vocabularies,
             "tokenizer": tokenizers, "idx": idx_files, "multipart": forms, "json": bodies, "headers": heads,
             "front": clients, "state": states, "prefix": prefixes, "sound": sounds, "jinja": templates, "grammar": grammars}
    for kind, make in kinds.items():
        folder = out / kind
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in make().items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
