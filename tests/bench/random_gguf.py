"""python3 tests/bench/random_gguf.py FILE: the size of the mnist model, for llama.cpp.

Softmax attention as in GPT-2, which is the paper's transformer but for the attention: 8 layers, 8 heads
of 32, d_ff 1024, learned positions, bf16 weights, random. A token is one of 256 pairs of letters. No
other token is ever drawn: the last norm makes one component a constant, on which their logits hang.
Wants gguf and numpy.
"""

import sys

import gguf
import numpy as np

LAYERS, HEADS, D_MODEL, D_FF, POSITIONS, LEVELS = 8, 8, 256, 1024, 1024, 256
SPECIAL = [("<unk>", "UNKNOWN"), ("<s>", "CONTROL"), ("</s>", "CONTROL"), ("<0x0A>", "BYTE")]
NEVER = -1000.0


def add_vocabulary(writer):
    pairs = [chr(97 + i // 16) + chr(97 + i % 16) for i in range(LEVELS)]
    tokens = [(name, gguf.TokenType[kind]) for name, kind in SPECIAL] + [(t, gguf.TokenType.NORMAL) for t in pairs]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([name.encode() for name, _ in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(False)
    return len(tokens)


def add_parameters(writer):
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(D_MODEL)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(D_FF)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)


def make_tensors(n_tokens):
    """{name: f32 array}"""
    rng = np.random.default_rng(1)
    tensors = {}

    def normal(name, *shape, scale):
        tensors[name + ".weight"] = rng.standard_normal(shape, np.float32) * np.float32(scale)

    def linear(name, rows, columns):
        normal(name, rows, columns, scale=columns**-0.5)
        tensors[name + ".bias"] = np.zeros(rows, np.float32)

    def norm(name):
        tensors[name + ".weight"] = np.ones(D_MODEL, np.float32)
        tensors[name + ".bias"] = np.zeros(D_MODEL, np.float32)

    normal("token_embd", n_tokens, D_MODEL, scale=0.5)
    normal("position_embd", POSITIONS, D_MODEL, scale=0.5)
    for i in range(LAYERS):
        layer = f"blk.{i}."
        norm(layer + "attn_norm")
        norm(layer + "ffn_norm")
        linear(layer + "attn_qkv", 3 * D_MODEL, D_MODEL)
        linear(layer + "attn_output", D_MODEL, D_MODEL)
        linear(layer + "ffn_up", D_FF, D_MODEL)
        linear(layer + "ffn_down", D_MODEL, D_FF)
    norm("output_norm")
    normal("output", n_tokens, D_MODEL, scale=D_MODEL**-0.5)
    tensors["output_norm.weight"][0], tensors["output_norm.bias"][0] = 0, 1
    tensors["output.weight"][:, 0] = 0
    tensors["output.weight"][: len(SPECIAL), 0] = NEVER
    return tensors


def main():
    writer = gguf.GGUFWriter(sys.argv[1], "gpt2")
    add_parameters(writer)
    bf16 = gguf.GGMLQuantizationType.BF16
    for name, array in make_tensors(add_vocabulary(writer)).items():
        if array.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(array, bf16), raw_dtype=bf16)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
