# SPDX-License-Identifier: BSD-3-Clause
"""The order in which sequences of several API keys get slots, without the library."""
import random
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "backends" / "llamacpp"))
from llama_turns import QUANTUM_TOKENS, Turns  # noqa: E402


class Sequence:
    def __init__(self, key, n_prompt=10, n_new=10):
        self.key, self.prompt, self.n_new = key, [0] * n_prompt, n_new


def goes(_):
    return False


class Slots:
    """Slots that are always full while something waits; the oldest sequence ends first."""

    def __init__(self, n, most_owed=8192):
        self.turns, self._n, self.running, self.order = Turns(most_owed), n, [], []

    def add(self, *sequences):
        for sequence in sequences:
            self.turns.add(sequence.key, sequence)
        self.fill()

    def fill(self):
        while len(self.running) < self._n and (taken := self.turns.take(goes)) is not None:
            self.turns.pay(taken.key, len(taken.prompt))
            self.running.append(taken)
            self.order.append(taken)

    def end_one(self):
        ended = self.running.pop(0)
        self.turns.pay(ended.key, ended.n_new)
        self.turns.leave(ended.key)
        self.fill()


def test_one_key_is_served_in_the_order_of_arrival():
    slots = Slots(2)
    sequences = [Sequence("", 10, 3000) for _ in range(20)]
    slots.add(*sequences)
    while slots.running:
        slots.end_one()
    assert slots.order == sequences and len(slots.turns) == 0 and not slots.turns._keys


def test_a_single_request_beside_a_hundred_of_another_key():
    """It gets the next slot that becomes free."""
    slots = Slots(4)
    slots.add(*[Sequence("greedy", 10, 400) for _ in range(100)])
    for _ in range(9):
        slots.end_one()
    single = Sequence("modest")
    slots.add(single)
    assert single not in slots.order
    slots.end_one()
    assert slots.order[-1] is single


def test_keys_share_by_tokens_not_by_requests():
    """Requests of one have ten times as many tokens."""
    slots = Slots(4)
    slots.add(*[Sequence("long", 100, 900) for _ in range(50)], *[Sequence("short", 50, 50) for _ in range(400)])
    for _ in range(220):
        slots.end_one()
    tokens = {"long": 0, "short": 0}
    for sequence in slots.order:
        tokens[sequence.key] += len(sequence.prompt) + sequence.n_new
    assert 0.8 < tokens["long"] / tokens["short"] < 1.25, tokens


def test_a_key_does_not_pay_for_what_it_had_alone():
    """What it owes is at most one context, however much it has used before."""
    slots = Slots(1, most_owed=2000)
    slots.add(*[Sequence("first", 10, 9000) for _ in range(40)])
    for _ in range(30):
        slots.end_one()
    slots.add(*[Sequence("second", 100, 400) for _ in range(40)])
    before = len(slots.order)
    while slots.order[-1].key == "first" or len(slots.order) == before:
        slots.end_one()
    begin = len(slots.order)
    while slots.order[-1].key == "second":
        slots.end_one()
    used = 500 * (len(slots.order) - begin)
    assert used <= 2000 + 2 * QUANTUM_TOKENS


def test_sequences_that_must_wait_keep_their_places_and_stop_no_other():
    turns, siblings = Turns(8192), [Sequence("a") for _ in range(3)]
    for one in siblings:
        one.prompt = siblings[0].prompt
    other, last = Sequence("b"), Sequence("a")
    for one in (*siblings, last, other):
        turns.add(one.key, one)
    asked = []

    def waits(sequence):
        asked.append(sequence)
        return sequence.prompt is siblings[0].prompt

    assert {turns.take(waits), turns.take(waits)} == {other, last}
    assert turns.take(waits) is None
    assert len([one for one in asked if one in siblings]) == 3  # one of the three for each take()
    assert [turns.take(goes) for _ in range(4)] == [*siblings, None]


def test_dropped_sequences_leave_nothing():
    rng, turns = random.Random(2), Turns(100)
    taken = []
    for _ in range(3000):
        what = rng.random()
        if what < 0.5:
            turns.add(*(lambda one: (one.key, one))(Sequence(rng.choice("abcdef"), rng.randint(1, 900))))
        elif what < 0.75:
            one = turns.take(goes)
            if one is not None:
                turns.pay(one.key, len(one.prompt))
                taken.append(one)
        elif what < 0.9 and taken:
            one = taken.pop(rng.randrange(len(taken)))
            turns.pay(one.key, one.n_new)
            turns.leave(one.key)
        else:
            key = rng.choice("abcdef")
            assert all(one.key == key for one in turns.drop(lambda one: one.key == key))
        assert len(turns) == sum(len(key.queue) for key in turns._keys.values())
        assert sorted(key.name for key in turns._round) == sorted(
            key.name for key in turns._keys.values() if key.queue)
        assert all(-100 <= key.credit <= QUANTUM_TOKENS for key in turns._keys.values())
    turns.drop(lambda one: True)
    for one in taken:
        turns.leave(one.key)
    assert len(turns) == 0 and not turns._keys and not turns._round
