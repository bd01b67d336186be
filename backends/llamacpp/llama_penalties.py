# SPDX-License-Identifier: BSD-3-Clause
"""Changes of logits before a token is chosen: biases of tokens, and penalties of generated tokens."""
import collections

import numpy as np


class Penalties:
    """Of one sequence. Frequency and presence count the whole answer, repetition its last tokens."""

    def __init__(self, logit_bias, repeat_penalty, repeat_last_n, frequency_penalty, presence_penalty):
        self._biased = np.array(list(logit_bias), np.int64)
        self._biases = np.array(list(logit_bias.values()), np.float32)
        self._repeat = repeat_penalty
        self._frequency = frequency_penalty
        self._presence = presence_penalty
        self._counts = collections.Counter()
        self._last = collections.deque(maxlen=repeat_last_n)

    def apply(self, row):
        """Changes the logits of a row in their place."""
        if len(self._biased):
            row[self._biased] += self._biases
        if self._repeat != 1 and self._last:
            tokens = np.array(list(set(self._last)), np.int64)
            logits = row[tokens]
            row[tokens] = np.where(logits > 0, logits / self._repeat, logits * self._repeat)
        if (self._frequency or self._presence) and self._counts:
            tokens = np.array(list(self._counts), np.int64)
            counts = np.array(list(self._counts.values()), np.float32)
            row[tokens] -= counts * self._frequency + self._presence

    def accept(self, token):
        self._counts[token] += 1
        self._last.append(token)


def make_penalties(sampling):
    """Takes its settings out of `sampling`; None when they change nothing."""
    names = ("logit_bias", "repeat_penalty", "repeat_last_n", "frequency_penalty", "presence_penalty")
    settings = {name: sampling.pop(name) for name in names}
    if not settings["logit_bias"] and settings["repeat_penalty"] == 1 and not settings["frequency_penalty"] \
            and not settings["presence_penalty"]:
        return None
    return Penalties(**settings)
