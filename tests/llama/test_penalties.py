# SPDX-License-Identifier: BSD-3-Clause
"""Penalties and biases by their formulas, without the library."""
import sys

import numpy as np
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "backends" / "llamacpp"))
from llama_penalties import make_penalties  # noqa: E402

NONE = {"logit_bias": {}, "repeat_penalty": 1.0, "repeat_last_n": 64, "frequency_penalty": 0.0,
        "presence_penalty": 0.0}


def changed(tokens, **more):
    penalties = make_penalties({**NONE, **more})
    for token in tokens:
        penalties.accept(token)
    row = np.array([4, 2, 0, -2, -4], np.float32)
    penalties.apply(row)
    return row.tolist()


@pytest.mark.parametrize("tokens, more, row", [
    ([], {"logit_bias": {1: 5.0, 4: -100.0}}, [4, 7, 0, -2, -104]),
    ([0, 0, 3], {"frequency_penalty": 0.5}, [3, 2, 0, -2.5, -4]),
    ([0, 0, 3], {"presence_penalty": 0.5}, [3.5, 2, 0, -2.5, -4]),
    ([0, 3, 3], {"repeat_penalty": 2.0}, [2, 2, 0, -4, -4]),
    ([0, 3, 1], {"repeat_penalty": 2.0, "repeat_last_n": 2}, [4, 1, 0, -4, -4]),
    ([0], {"repeat_penalty": 2.0, "repeat_last_n": 0}, [4, 2, 0, -2, -4]),
    ([0, 1], {"frequency_penalty": -1.0, "presence_penalty": -1.0}, [6, 4, 0, -2, -4])])
def test_rows(tokens, more, row):
    assert changed(tokens, **more) == row


def test_nothing_to_change():
    settings = {**NONE, "temperature": 0}
    assert make_penalties(settings) is None and settings == {"temperature": 0}
