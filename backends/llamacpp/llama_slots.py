# SPDX-License-Identifier: BSD-3-Clause
"""Continuous batching: slots with sequences, each step of which has one token of those that generate and a
share of the prompts that are being read."""
import time

import numpy as np

from llama_library import GRAMMAR_SECONDS, NO_TOKEN, LibraryError, Sampler
from llama_loop import INVALID, Loop
from llama_penalties import make_penalties
from llama_shares import divide_room
from llama_text import TextStream
from llama_turns import Turns

TOO_SLOW = ("the schema has too many alternatives that begin alike: its grammar took more than %g s for a token"
            % GRAMMAR_SECONDS)
MIN_SHARED = 16  # tokens that make copying another slot's prefix worth while


class Sequence:
    """One choice of a request: a prompt and what follows it."""
    __slots__ = ("job", "index", "prompt", "limit", "sampler", "penalties", "text", "slot", "n_read",
                 "n_cached", "n_new", "last", "entries", "n_bytes", "order")

    def __init__(self, job, index, prompt, limit, stops):
        self.job = job
        self.index = index
        self.prompt = prompt  # token ids, an array
        self.limit = limit  # of new tokens
        self.sampler = None  # None: the most probable token
        self.penalties = None  # None: the logits are not changed
        self.text = TextStream(stops)
        self.slot = None
        self.n_read = 0  # tokens of the prompt that the slot holds
        self.n_cached = 0  # those that it held before
        self.n_new = 0
        self.last = NO_TOKEN  # chosen, but not in the slot yet
        self.entries = []  # (end in bytes, log-probabilities) of tokens whose text is not given yet
        self.n_bytes = 0  # of all tokens
        self.order = 0


class _Part:
    """Tokens of a prompt in a step."""
    __slots__ = ("slot", "size", "last_row")

    def __init__(self, slot, size, last_row):
        self.slot = slot
        self.size = size
        self.last_row = last_row


class Slot:
    """A sequence of the library, and the tokens that it holds, which stay after the end of a request."""
    __slots__ = ("id", "tokens", "n", "scope", "sequence", "used_at")

    def __init__(self, number, n_ctx):
        self.id = number
        self.tokens = np.zeros(n_ctx, np.int32)
        self.n = 0
        self.scope = None  # requests of other scopes must not use the tokens
        self.sequence = None
        self.used_at = 0.0

    def common(self, prompt):
        """How many tokens at the begin are those of the prompt."""
        n = min(self.n, len(prompt))
        if n == 0 or self.tokens[0] != prompt[0]:
            return 0
        differs = self.tokens[:n] != prompt[:n]
        at = int(differs.argmax())
        return at if differs[at] else n


class SlotLoop(Loop):
    """`answers` gets the text: begin(sequence), text(sequence, text, entries), end(sequence, reason, ...).

    `waiting` is where submit() leaves sequences; the thread that computes gives them to `_turns`."""

    def __init__(self, context, settings, answers, n_ahead_of_keys=1, **more):
        self._slots = [Slot(i, settings.n_ctx) for i in range(settings.slots)]
        self._free = list(self._slots)
        self._generating = []
        self._reading = []  # in the order in which they came
        self._settings = settings
        self._answers = answers
        self._n_admitted = 0
        self._n_ahead_of_keys = n_ahead_of_keys
        self._turns = Turns(settings.n_ctx)
        self._shares = context.model.has_partial_memory and settings.prompt_cache != "off"
        super().__init__(context, **more)

    def submit(self, job, work):
        if job.key:  # a fair order needs more than one request to choose from
            self._n_ahead = max(self._n_ahead, self._n_ahead_of_keys)
        super().submit(job, work)

    def free_slots(self):
        return len(self._free)

    def n_waiting(self):
        return len(self.waiting) + len(self._turns)

    def owners(self):
        return [slot.sequence.job for slot in self._generating + self._reading if slot.sequence]

    def usage(self):
        held = sum(slot.n for slot in self._slots)
        return (len(self._slots) - len(self._free), self.n_waiting(),
                held / (len(self._slots) * self._settings.n_ctx))

    # ---- which sequence gets which slot ----

    def _scope_of(self, job):
        return job.scope if self._settings.prompt_cache == "key" else None

    def _admit(self):
        while self.waiting:
            sequence = self.waiting[0]
            self._turns.add(sequence.job.key, sequence)
            self.waiting.popleft()  # last: n_waiting() must not be too low meanwhile
        while self._free:
            sequence = self._turns.take(self._waits_for_sibling)
            if sequence is None:
                return
            self._place(sequence)

    def _waits_for_sibling(self, sequence):
        """Choices of one prompt: the first one reads it, the others copy it."""
        if not self._shares or len(sequence.prompt) < MIN_SHARED:
            return False
        return any(slot.sequence.prompt is sequence.prompt for slot in self._reading)

    def _place(self, sequence):
        scope = self._scope_of(sequence.job)
        slot, n = self._choose(sequence.prompt, scope)
        n = self._keep_prefix(slot, n) if self._shares else self._clear(slot)
        if self._shares:
            n = self._copy_prefix(slot, n, sequence.prompt, scope)
        self._free.remove(slot)
        slot.scope = scope
        slot.sequence = sequence
        sequence.slot = slot
        sequence.n_read = sequence.n_cached = n
        self._turns.pay(sequence.job.key, len(sequence.prompt) - n)
        sequence.order = self._n_admitted
        self._n_admitted += 1
        self._reading.append(slot)

    def _choose(self, prompt, scope):
        """The free slot with the longest common prefix; among equals the one that is unused for longest. At
        least one token of the prompt is computed, for its logits."""
        best, best_n = None, -1
        for slot in self._free:
            n = min(slot.common(prompt), len(prompt) - 1) if slot.scope == scope else 0
            if n > best_n or (n == best_n and slot.used_at < best.used_at):
                best, best_n = slot, n
        return best, best_n

    def _clear(self, slot):
        self.context.forget(slot.id)
        slot.n = 0
        return 0

    def _keep_prefix(self, slot, n):
        if n == slot.n:
            return n
        if n == 0 or not self.context.forget(slot.id, n):
            return self._clear(slot)
        slot.n = n
        return n

    def _copy_prefix(self, slot, n, prompt, scope):
        best, best_n = None, n + MIN_SHARED - 1
        for other in self._slots:
            if other is not slot and other.scope == scope and other.n > best_n:
                common = min(other.common(prompt), len(prompt) - 1)
                if common > best_n:
                    best, best_n = other, common
        if best is None:
            return n
        self._clear(slot)
        self.context.share(best.id, slot.id, best_n)
        slot.tokens[:best_n] = prompt[:best_n]
        slot.n = best_n
        return best_n

    def _release(self, slot):
        sequence, slot.sequence = slot.sequence, None
        sequence.slot = None
        self._turns.pay(sequence.job.key, sequence.n_new)
        self._turns.leave(sequence.job.key)
        if sequence.sampler is not None:
            sequence.sampler.close()
            sequence.sampler = None
        slot.used_at = time.monotonic()
        for places in (self._generating, self._reading):
            if slot in places:
                places.remove(slot)
        self._free.append(slot)

    def drop(self, job):
        for slot in self._slots:
            if slot.sequence is not None and slot.sequence.job is job:
                self._release(slot)
        dropped = self._turns.drop(lambda sequence: sequence.job is job)
        for sequence in [s for s in list(self.waiting) if s.job is job]:
            self.waiting.remove(sequence)
            dropped.append(sequence)
        for sequence in dropped:
            if sequence.sampler is not None:
                sequence.sampler.close()

    # ---- a step ----

    def step(self):
        if self.waiting or len(self._turns) > 0:
            self._admit()
        singles = list(self._generating)
        if singles:
            self.context.fill_singles([slot.id for slot in singles], [slot.sequence.last for slot in singles],
                                      [slot.n for slot in singles])
        parts = self._fill_prompts(len(singles)) if self._reading else []
        n = len(singles) + sum(part.size for part in parts)
        if n == 0:
            return
        status = self.compute(n)
        if status != 0:
            self._recover(status, singles + [part.slot for part in parts])
            return
        for slot in singles:
            slot.tokens[slot.n] = slot.sequence.last
            slot.n += 1
        complete = self._take_prompts(parts)
        self._choose_tokens(singles + [part.slot for part in complete],
                            list(range(len(singles))) + [part.last_row for part in complete])

    def _fill_prompts(self, n):
        """The rest of the step is for prompts; a share of it while others generate."""
        room = self._settings.tokens_per_step - n
        if n > 0:
            room = min(room, max(1, int(self._settings.tokens_per_step * self._settings.prompt_share)))
        left = [len(slot.sequence.prompt) - slot.sequence.n_read for slot in self._reading]
        parts = []
        for slot, size in zip(self._reading, divide_room(room, left)):
            if size > 0:
                parts.append(self._fill_prompt(slot, size, n))
                n += size
        return parts

    def _fill_prompt(self, slot, size, at):
        sequence = slot.sequence
        begin = sequence.n_read
        self.context.fill(at, slot.id, sequence.prompt[begin:begin + size], begin)
        if begin + size == len(sequence.prompt):
            self.context.wants[at + size - 1] = 1
        return _Part(slot, size, at + size - 1)

    def _take_prompts(self, parts):
        """Notes what was read; returns the parts that complete their prompt."""
        complete = []
        for part in parts:
            slot, sequence = part.slot, part.slot.sequence
            begin = sequence.n_read
            slot.tokens[begin:begin + part.size] = sequence.prompt[begin:begin + part.size]
            sequence.n_read = slot.n = begin + part.size
            if sequence.n_read == len(sequence.prompt):
                complete.append(part)
                self._reading.remove(slot)
                self._generating.append(slot)
                self._answers.begin(sequence)
        return complete

    def _choose_tokens(self, slots, rows):
        if not slots:
            return
        logits = self.context.rows(len(slots))
        kept = self._change_logits(slots, logits)
        greedy = None
        for i, slot in enumerate(slots):
            sequence = slot.sequence
            if sequence is None:  # another choice of its request was lost
                continue
            if sequence.sampler is None:
                if greedy is None:
                    greedy = logits.argmax(axis=1).tolist()
                token = greedy[i]
            else:
                token = sequence.sampler.sample(rows[i])
                if sequence.sampler.is_too_slow:
                    self._lose(slot, TOO_SLOW, INVALID)
                    continue
            self._take_token(slot, token, kept.get(i, logits[i]))

    @staticmethod
    def _change_logits(slots, logits):
        """Biases and penalties; returns the rows before it whose log-probabilities are wanted."""
        kept = {}
        for i, slot in enumerate(slots):
            sequence = slot.sequence
            if sequence.penalties is not None:
                if sequence.job.request.logprobs is not None:
                    kept[i] = logits[i].copy()
                sequence.penalties.apply(logits[i])
        return kept

    def _take_token(self, slot, token, logits):
        sequence = slot.sequence
        piece = self.context.model.piece(token) if token != NO_TOKEN else None
        if piece is None:
            self._end(slot, "stop")
            return
        sequence.n_new += 1
        sequence.last = token
        if sequence.penalties is not None:
            sequence.penalties.accept(token)
        entries = None
        if sequence.job.request.logprobs is not None:
            sequence.n_bytes += len(piece)
            sequence.entries.append((sequence.n_bytes, self._answers.logprobs(sequence, logits, token)))
        text = sequence.text.push(piece)
        if sequence.text.has_stopped:
            self._end(slot, "stop", text)
            return
        if sequence.n_new >= sequence.limit:
            self._end(slot, "length", text)
            return
        if sequence.entries:
            entries = self._given_entries(sequence)
        if text or entries:
            self._answers.text(sequence, text, entries)

    @staticmethod
    def _given_entries(sequence):
        """Log-probabilities go out with the text of their tokens."""
        given = [values for at, values in sequence.entries if at <= sequence.text.n_given]
        sequence.entries = sequence.entries[len(given):]
        return given

    def _end(self, slot, reason, text=""):
        sequence = slot.sequence
        if not sequence.text.has_stopped:
            text += sequence.text.end()
        entries = self._given_entries(sequence)
        self._release(slot)
        if self._answers.end(sequence, reason, text, entries):
            self.finish(sequence.job)

    def _recover(self, status, slots):
        """The step was not computed, or a part of it was."""
        for slot in slots:
            if slot.n > 0 and not self.context.forget(slot.id, slot.n):
                if slot.sequence is None:  # another choice of its request was lost
                    self._clear(slot)
                    continue
                self._lose(slot, "the model's memory cannot be restored after a step that was broken off")
            elif slot.n == 0:
                self.context.forget(slot.id)
        if status == 2:  # broken off; the clients that left are dropped before the next step
            self.context.set_abort(False)
        elif status == 1 and self._drop_caches():
            pass
        elif status == 1:
            newest = max((slot for slot in slots if slot.sequence), key=lambda s: s.sequence.order)
            self._lose(newest, "the model's memory has no room for the request")
        else:
            raise LibraryError("llama_decode() gives %d" % status)

    def _drop_caches(self):
        """Frees the tokens of idle slots; False when there are none."""
        idle = [slot for slot in self._free if slot.n > 0]
        for slot in idle:
            self._clear(slot)
        return bool(idle)

    def _lose(self, slot, message, code=None):
        job = slot.sequence.job
        self._clear(slot)
        self.drop(job)
        job.end_with_error(message, code)
        self.finish(job)


def prepare_sampling(context, sequence, grammar):
    """How the tokens of a sequence are chosen. The most probable one needs no sampler."""
    request = sequence.job.request
    settings = dict(request.sampling)
    sequence.penalties = make_penalties(settings)
    if settings["temperature"] == 0 and grammar is None:
        return
    settings["seed"] = (settings["seed"] + sequence.index) & 0xFFFFFFFF
    sequence.sampler = Sampler(context, grammar, **settings)
