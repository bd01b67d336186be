# SPDX-License-Identifier: BSD-3-Clause
"""Which sequence gets the next free slot: deficit round robin over the API keys of their clients.

Each key has a queue and a credit in tokens. A key whose credit is above 0 gets one slot a turn; it pays with
the tokens of the prompt that must be computed, and with the new tokens when they are known, at the end. When
no key that waits has a credit, each gets QUANTUM_TOKENS, as often as it takes. A key that neither waits nor has
a slot is forgotten, with its debt; when it comes back it is the next one.

Threads: used by the thread that computes; len() by any.
"""
import collections

QUANTUM_TOKENS = 512


class _Key:
    __slots__ = ("name", "queue", "credit", "n_running")

    def __init__(self, name):
        self.name = name
        self.queue = collections.deque()  # in the order in which they came
        self.credit = QUANTUM_TOKENS
        self.n_running = 0


class Turns:
    """`most_owed`: no key owes more tokens, so none waits longer than for so many tokens of each other key."""

    def __init__(self, most_owed):
        self._most_owed = most_owed
        self._keys = {}
        self._round = collections.deque()  # keys that wait; the first one has the next turn
        self._n = 0

    def __len__(self):
        return self._n

    def add(self, name, sequence):
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = _Key(name)
            self._round.appendleft(key)
        elif not key.queue:
            self._round.append(key)
        key.queue.append(sequence)
        self._n += 1

    def take(self, must_wait):
        """The sequence that gets the slot, as if it had one already; None when all must wait.

        Sequences for which must_wait(sequence) is true keep their places."""
        heads = [(key, at) for key in self._round if (at := self._first(key, must_wait)) is not None]
        if not heads:
            return None
        self._give_credit([key for key, _ in heads])
        key, at = next((key, at) for key, at in heads if key.credit > 0)
        sequence = key.queue[at]
        del key.queue[at]
        self._n -= 1
        key.n_running += 1
        self._round.remove(key)
        if key.queue:
            self._round.append(key)
        return sequence

    @staticmethod
    def _first(key, must_wait):
        """Where the first sequence is that need not wait. Those of one prompt wait together."""
        waiting = None
        for at, sequence in enumerate(key.queue):
            if sequence.prompt is waiting:
                continue
            if not must_wait(sequence):
                return at
            waiting = sequence.prompt
        return None

    @staticmethod
    def _give_credit(keys):
        most = max(key.credit for key in keys)
        if most > 0:
            return
        rounds = -most // QUANTUM_TOKENS + 1
        for key in keys:
            key.credit += rounds * QUANTUM_TOKENS

    def pay(self, name, n_tokens):
        key = self._keys[name]
        key.credit = max(key.credit - n_tokens, -self._most_owed)

    def leave(self, name):
        """A sequence that was taken gives its slot back."""
        key = self._keys[name]
        key.n_running -= 1
        self._forget_idle(key)

    def drop(self, should_drop):
        """Removes sequences that wait, and returns them."""
        dropped = []
        for key in list(self._round):
            kept = collections.deque()
            for sequence in key.queue:
                (dropped if should_drop(sequence) else kept).append(sequence)
            key.queue = kept
            if not kept:
                self._round.remove(key)
                self._forget_idle(key)
        self._n -= len(dropped)
        return dropped

    def _forget_idle(self, key):
        if key.n_running == 0 and not key.queue:
            del self._keys[key.name]
