# SPDX-License-Identifier: BSD-3-Clause
"""The objects of OpenAI's form that answer a request. The server adds id, object, created and model."""
import json

import numpy as np


def _dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def usage(n_prompt, n_generated, n_cached):
    return {"prompt_tokens": n_prompt, "completion_tokens": n_generated,
            "total_tokens": n_prompt + n_generated, "prompt_tokens_details": {"cached_tokens": n_cached}}


# ---- log-probabilities ----------------------------------------------------------------------------------


def token_logprobs(row, token, n_top, name_of):
    """(bytes, log-probability, [(bytes, log-probability)]) of a chosen token. `row`: its logits."""
    highest = float(row.max())
    total = highest + float(np.log(np.exp(row - highest, dtype=np.float64).sum()))
    order = []
    if n_top > 0:
        n_top = min(n_top, len(row))
        found = np.argpartition(row, -n_top)[-n_top:]
        order = found[np.argsort(-row[found], kind="stable")].tolist()
    return (name_of(token), float(row[token]) - total,
            [(name_of(one), float(row[one]) - total) for one in order])


def _described(text, logprob):
    return {"token": text.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(text)}


def chat_logprobs(entries):
    return {"content": [{**_described(text, logprob), "top_logprobs": [_described(*one) for one in top]}
                        for text, logprob, top in entries]}


def completion_logprobs(entries, offset):
    """`offset`: characters of the text before the first of these tokens."""
    made = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for text, logprob, top in entries:
        name = text.decode("utf-8", "replace")
        made["tokens"].append(name)
        made["token_logprobs"].append(logprob)
        made["top_logprobs"].append({one.decode("utf-8", "replace"): p for one, p in top})
        made["text_offset"].append(offset)
        offset += len(name)
    return made


# ---- choices --------------------------------------------------------------------------------------------


def text_chunk(is_chat, index, text):
    """A piece of a stream. The most frequent object: it is made of texts."""
    if is_chat:
        return '{"choices":[{"index":%d,"delta":{"content":%s},"finish_reason":null}]}' % (index, _dump(text))
    return '{"choices":[{"index":%d,"text":%s,"finish_reason":null}]}' % (index, _dump(text))


def chunk(is_chat, index, text=None, reason=None, logprobs=None, delta=None, used=None):
    choice = {"index": index}
    if is_chat:
        choice["delta"] = dict(delta or {})
        if text:
            choice["delta"]["content"] = text
    else:
        choice["text"] = text or ""
    if logprobs is not None:
        choice["logprobs"] = logprobs
    choice["finish_reason"] = reason
    made = {"choices": [choice]}
    if used is not None:
        made["usage"] = used
    return _dump(made)


def usage_chunk(used):
    return _dump({"choices": [], "usage": used})


def whole_choice(is_chat, index, text, reason, logprobs, tool_calls=None):
    if not is_chat:
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
    message = {"role": "assistant", "content": text}
    if tool_calls is not None:
        message = {"role": "assistant", "content": None, "tool_calls": tool_calls}
    return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}


def whole(choices, used):
    return _dump({"choices": choices, "usage": used})


# ---- embeddings -----------------------------------------------------------------------------------------


def normalised(vector):
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector


def embeddings(vectors, n_tokens):
    rows = [{"object": "embedding", "index": i, "embedding": [float(v) for v in vector]}
            for i, vector in enumerate(vectors)]
    return _dump({"data": rows, "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens}})
