# SPDX-License-Identifier: BSD-3-Clause
"""Writes small GGUF files (version 3): a llama of random weights whose tokens are bytes.

    write(path)                                  the nano model: 1 layer, 32 wide, 27 000 parameters
    write(path, SMALL)                           2 layers, 64 wide, 115 000 parameters
    write(path, chat_template="...", context=64) other metadata

The vocabulary has 259 tokens: unknown, begin, end, and the 256 bytes. The output rows of bytes that are not
printable are zero, so that greedy text is readable.
"""
import struct

import numpy as np

NANO = {"layers": 1, "width": 32, "heads": 2, "hidden": 64}
SMALL = {"layers": 2, "width": 64, "heads": 4, "hidden": 128}
N_TOKENS = 259
FIRST_BYTE = 3
ALIGNMENT = 32

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


def string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    if kind == STRING:
        return string(content)
    if kind == ARRAY:
        inner, items = content
        return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, one) for one in items)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], content)


def vocabulary():
    texts = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % byte for byte in range(256)]
    kinds = [2, 3, 3] + [6] * 256  # unknown, control, byte
    return [("tokenizer.ggml.model", STRING, "llama"),
            ("tokenizer.ggml.tokens", ARRAY, (STRING, texts)),
            ("tokenizer.ggml.scores", ARRAY, (FLOAT32, [0.0] * N_TOKENS)),
            ("tokenizer.ggml.token_type", ARRAY, (INT32, kinds)),
            ("tokenizer.ggml.bos_token_id", UINT32, 1),
            ("tokenizer.ggml.eos_token_id", UINT32, 2),
            ("tokenizer.ggml.unknown_token_id", UINT32, 0),
            ("tokenizer.ggml.add_bos_token", BOOL, True),
            ("tokenizer.ggml.add_space_prefix", BOOL, False)]


def metadata(shape, context, chat_template, pooling):
    rows = [("general.architecture", STRING, "llama"),
            ("general.name", STRING, "tiny"),
            ("general.alignment", UINT32, ALIGNMENT),
            ("llama.context_length", UINT32, context),
            ("llama.embedding_length", UINT32, shape["width"]),
            ("llama.block_count", UINT32, shape["layers"]),
            ("llama.feed_forward_length", UINT32, shape["hidden"]),
            ("llama.attention.head_count", UINT32, shape["heads"]),
            ("llama.attention.head_count_kv", UINT32, shape["heads"]),
            ("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
            ("llama.rope.dimension_count", UINT32, shape["width"] // shape["heads"]),
            ("llama.vocab_size", UINT32, N_TOKENS)]
    if pooling is not None:
        rows.append(("llama.pooling_type", UINT32, pooling))
    if chat_template is not None:
        rows.append(("tokenizer.chat_template", STRING, chat_template))
    return rows + vocabulary()


def output_rows(rng, width, ends):
    rows = rng.normal(0, 1, (N_TOKENS, width)).astype(np.float32)
    for token in range(N_TOKENS):
        byte = token - FIRST_BYTE
        if not 32 <= byte < 127:
            rows[token] = 0
    if ends:  # the end gets a chance
        rows[2] = rng.normal(0, 1, width)
    return rows


def weights(shape, seed, ends):
    rng = np.random.default_rng(seed)
    width, hidden = shape["width"], shape["hidden"]

    def matrix(n_out, n_in):
        return rng.normal(0, 2 / np.sqrt(n_in), (n_out, n_in)).astype(np.float32)

    found = {"token_embd.weight": rng.normal(0, 1, (N_TOKENS, width)).astype(np.float32)}
    for layer in range(shape["layers"]):
        part = "blk.%d." % layer
        found[part + "attn_norm.weight"] = np.ones(width, np.float32)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            found[part + name + ".weight"] = matrix(width, width)
        found[part + "ffn_norm.weight"] = np.ones(width, np.float32)
        found[part + "ffn_gate.weight"] = matrix(hidden, width)
        found[part + "ffn_up.weight"] = matrix(hidden, width)
        found[part + "ffn_down.weight"] = matrix(width, hidden)
    found["output_norm.weight"] = np.ones(width, np.float32)
    found["output.weight"] = output_rows(rng, width, ends)
    return found


def padded(n):
    return (n + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def write(path, shape=NANO, context=512, chat_template=None, pooling=None, seed=7, ends=False):
    """`pooling`: 1 mean, 2 first token, 3 last token. `ends`: generation may end before the limit."""
    rows = metadata(shape, context, chat_template, pooling)
    tensors = weights(shape, seed, ends)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(rows))
    head += b"".join(string(key) + struct.pack("<I", kind) + value(kind, content)
                     for key, kind, content in rows)
    offset = 0
    for name, array in tensors.items():
        dims = array.shape[::-1]
        head += string(name) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims)
        head += struct.pack("<IQ", 0, offset)
        offset += padded(array.nbytes)
    with open(path, "wb") as file:
        file.write(head.ljust(padded(len(head)), b"\0"))
        for array in tensors.values():
            file.write(array.tobytes().ljust(padded(array.nbytes), b"\0"))
