# SPDX-License-Identifier: BSD-3-Clause
"""What a model without weights answers: the words of the prompt in turn, or what a special prompt asks for.

    @sampling   the parameters of sampling that were given, as JSON
    @json       the schema that must hold
    @lora       the folder of the adapter
    @hold       nothing; it goes on until it is aborted, and notes "holds" and "aborted" in the log
    @held       after the other words nothing until the file <log>.go exists
    @die        the engine ends

The word "@end" is a token without text. The words of choice 1 end with "#1", and so on.
"""
import json


def prompt_words(prompt):
    return prompt.split()


def answer_words(prompt, given, adapter):
    """The tokens, and why they end. `given`: the parameters of sampling by name."""
    special = {"@json": lambda: given["structured_outputs"], "@lora": lambda: str(adapter),
               "@sampling": lambda: json.dumps({k: v for k, v in given.items() if k != "lora_name"})}
    if prompt in special:
        return [special[prompt]()], "stop"
    words, end = [], given.get("max_tokens", 16)
    for word in prompt.split():
        if word in given.get("stop", []):
            return words, "stop"
        if len(words) == end:
            return words, "length"
        if word != "@held":
            words.append("" if word == "@end" else f" {word}" if words else word)
    return words, "length" if len(words) == end else "stop"


def choice_words(words, choice):
    return [f"{word}#{choice}" if choice and word else word for word in words]


def likely_tokens(word, count):
    """The token that was taken and its rivals: number, logarithm of probability, rank, text."""
    return [(len(word), -0.5, 1, word)] + [(1000 + i, -0.5 - i, i + 1, f"rival{i}") for i in range(1, count)]


def vector(text, dimensions):
    return [float(len(text))] * (dimensions or 3)
