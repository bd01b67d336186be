# SPDX-License-Identifier: BSD-3-Clause
"""How prompts share the tokens of a step, without the library."""
import random
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "backends" / "llamacpp"))
from llama_shares import divide_room  # noqa: E402


@pytest.mark.parametrize("room, left, sizes", [
    (512, [4000], [512]),
    (512, [100], [100]),
    (512, [4000, 20], [492, 20]),  # the short one as a whole, although it came later
    (512, [20, 4000], [20, 492]),
    (512, [4000, 1000], [128, 384]),
    (512, [4000] * 4, [320, 64, 64, 64]),  # the oldest first among equals
    (512, [4000, 600, 30, 700], [64, 354, 30, 64]),
    (512, [10] * 8, [10] * 8),
    (3, [9, 9, 9], [3, 0, 0]),
    (1, [900, 5], [1, 0]),  # the oldest is not overtaken without an end
    (0, [900, 5], [0, 0])])
def test_division(room, left, sizes):
    assert divide_room(room, left) == sizes


def test_no_token_is_wasted_and_no_prompt_starves():
    rng = random.Random(5)
    for _ in range(3000):
        room = rng.randint(1, 600)
        left = [rng.choice((1, 7, 60, 700, 9000)) + rng.randint(0, 9) for _ in range(rng.randint(1, 12))]
        sizes = divide_room(room, left)
        assert sum(sizes) == min(room, sum(left))
        assert all(min(n, room // (2 * len(left))) <= size <= n for size, n in zip(sizes, left))
        assert sizes[0] > 0


def steps_to_read(room, left):
    """The step with which each prompt is complete."""
    left, done = list(enumerate(left)), {}
    step = 0
    while left:
        step += 1
        sizes = divide_room(room, [n for _, n in left])
        left = [(i, n - size) for (i, n), size in zip(left, sizes)]
        done.update((i, step) for i, n in left if n == 0)
        left = [(i, n) for i, n in left if n > 0]
    return [done[i] for i in sorted(done)]


def test_equal_prompts_are_read_one_after_the_other_in_the_main():
    """With equal shares each of them would be complete with the last step."""
    steps = steps_to_read(512, [4096] * 8)
    assert steps == [15, 27, 38, 46, 54, 59, 63, 64]


def test_a_long_prompt_among_short_ones_takes_at_most_twice_its_equal_share():
    """Three others are always being read, and are shorter."""
    n, step = 4096, 0
    while n > 0:
        n -= divide_room(512, [n, 300, 300, 300])[0]
        step += 1
    assert step <= 2 * 4 * 4096 // 512
