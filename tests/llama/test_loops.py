# SPDX-License-Identifier: BSD-3-Clause
"""The loops of the llamacpp backend with a library that the tests act: requests that come while others are
dropped, and steps that are broken off."""
import sys
import types

import numpy as np
import pytest

from conftest import ROOT

UTILS = "triton_python_backend_utils"
NAMES = ("llama_loop", "llama_slots")


class Thread:
    """One that never runs: the tests call what it would."""

    def __init__(self, **_):
        pass

    def start(self):
        pass


class Context:
    """Each computation ends with the next of `statuses`."""
    model = types.SimpleNamespace(has_partial_memory=False)

    def __init__(self, *statuses):
        self.statuses = list(statuses)
        self.is_aborting = True
        self.wants = np.zeros(64, np.int8)

    def set_abort(self, is_set):
        self.is_aborting = is_set

    def fill(self, *_):
        pass

    def decode(self, _):
        return self.statuses.pop(0)

    def forget(self, _, begin=0):
        return begin == 0  # what was read is lost as a whole


class Sender:
    def __init__(self):
        self.errors = []

    def send(self, response, flags):
        self.errors.append(response)

    def is_cancelled(self):
        return False


@pytest.fixture
def modules(monkeypatch):
    """llama_loop and llama_slots, with what they need of the server's module."""
    utils = types.ModuleType(UTILS)
    utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
    utils.TritonError = lambda message, code=None: message
    utils.TritonError.INTERNAL, utils.TritonError.CANCELLED, utils.TritonError.INVALID_ARG = 1, 2, 3
    utils.InferenceResponse = lambda error: error
    monkeypatch.setitem(sys.modules, UTILS, utils)
    monkeypatch.syspath_prepend(str(ROOT / "backends" / "llamacpp"))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import llama_loop
    import llama_slots
    monkeypatch.setattr(llama_loop, "threading", types.SimpleNamespace(
        Thread=Thread, Condition=llama_loop.threading.Condition))
    yield types.SimpleNamespace(loop=llama_loop, slots=llama_slots)
    for name in NAMES:
        sys.modules.pop(name, None)


SETTINGS = types.SimpleNamespace(slots=2, n_ctx=32, tokens_per_step=32, prompt_share=0.5, prompt_cache="off")


def text_loop(modules, context):
    return modules.slots.SlotLoop(context, SETTINGS, None, n_ahead=1, meters=None)


def vector_loop(modules, context):
    return modules.loop.EmbeddingLoop(context, 2, 32, None, n_ahead=1, meters=None)


class Work:
    """While a loop looks at it, the thread that reads requests submits `next_one`."""
    sampler = None

    def __init__(self, job, waiting, next_one):
        self._job, self._waiting, self._next = job, waiting, next_one

    @property
    def job(self):
        if self._next is not None:
            self._waiting.append(self._next)
            self._next = None
        return self._job


@pytest.mark.parametrize("make", [text_loop, vector_loop])
def test_a_request_that_comes_while_another_is_dropped_stays(modules, make):
    loop = make(modules, Context())
    waiting, kept, dropped = loop.waiting, object(), object()
    comes = Work(kept, waiting, None)
    waiting.extend([Work(kept, waiting, comes), Work(dropped, waiting, None)])
    loop.drop(dropped)
    assert loop.waiting is waiting  # to which the other thread appends
    assert len(waiting) == 2 and waiting[1] is comes


def test_a_request_that_comes_while_clients_leave_stays(modules):
    loop = text_loop(modules, Context())
    comes = modules.loop.Job(None, Sender())

    class Leaving(modules.loop.Job):
        is_asked = False

        @property
        def is_cancelled(self):
            if self.is_asked:
                loop.jobs.add(comes)
            return self.is_asked

        @is_cancelled.setter
        def is_cancelled(self, _):
            pass

    leaving = Leaving(None, Sender())
    leaving.is_asked = True
    loop.jobs.add(leaving)
    loop._drop_cancelled()
    assert loop.jobs == {comes} and leaving.sender.errors == ["the client has left"]


def test_vectors_are_computed_again_after_a_step_was_broken_off(modules):
    """The demand to break off may come when the step for which it was meant has ended."""
    context = Context(2)
    loop = vector_loop(modules, context)
    job = modules.loop.Job(None, Sender())
    work = modules.loop.EmbeddingWork(job, 0, [1, 2])
    loop.submit(job, [work])
    loop.step()
    assert list(loop.waiting) == [work] and not context.is_aborting


def test_choices_of_one_request_are_lost_together(modules):
    """Of a model whose memory cannot be restored: the request fails, and no other."""
    loop = text_loop(modules, Context())
    job = modules.loop.Job(None, Sender())
    loop.submit(job, [modules.slots.Sequence(job, i, np.array([1, 2, 3]), 8, []) for i in range(2)])
    loop._admit()
    for slot in loop._slots:
        slot.n = 2
    loop._recover(2, list(loop._slots))
    assert len(job.sender.errors) == 1 and "cannot be restored" in job.sender.errors[0]
    assert not loop.jobs and not loop._reading and [slot.n for slot in loop._slots] == [0, 0]
    assert len(loop._free) == 2


def test_a_grammar_that_is_too_slow_ends_its_request(modules):
    """All choices of it, and no other request. `rows` is of the order of the slots."""
    context = Context(0)
    context.rows = lambda n: np.zeros((n, 4), np.float32)
    context.model = types.SimpleNamespace(has_partial_memory=False, piece=lambda token: b"a")
    texts = []
    answers = types.SimpleNamespace(begin=lambda _: None, text=lambda sequence, *_: texts.append(sequence))
    settings = types.SimpleNamespace(**{**vars(SETTINGS), "slots": 3})
    loop = modules.slots.SlotLoop(context, settings, answers, n_ahead=1, meters=None)
    sampler = types.SimpleNamespace(sample=lambda row: 1, is_too_slow=True, close=lambda: None)
    slow, other = (modules.loop.Job(types.SimpleNamespace(logprobs=None), Sender()) for _ in range(2))
    choices = [modules.slots.Sequence(slow, i, np.ones(2, np.int32), 8, []) for i in range(2)]
    kept = modules.slots.Sequence(other, 0, np.ones(2, np.int32), 8, [])
    for one in choices:
        one.sampler = sampler
    loop.submit(slow, choices)
    loop.submit(other, [kept])
    loop.step()
    assert texts == [kept] and loop.jobs == {other} and loop.free_slots() == 2
    assert len(slow.sender.errors) == 1 and "took more than 0.25 s for a token" in slow.sender.errors[0]


def test_a_short_prompt_is_read_beside_a_long_one(modules):
    """It came later, and its first token comes with the first step."""
    context = Context(0)
    context.fill = lambda at, slot, tokens, pos: filled.append((at, slot, len(tokens), pos))
    context.rows = lambda n: np.zeros((n, 4), np.float32)
    context.model = types.SimpleNamespace(has_partial_memory=False, piece=lambda token: b"a")
    begun, filled = [], []
    answers = types.SimpleNamespace(begin=begun.append, text=lambda *_: None)
    loop = modules.slots.SlotLoop(context, SETTINGS, answers, n_ahead=1, meters=None)
    job = modules.loop.Job(types.SimpleNamespace(logprobs=None), Sender())
    long, short = (modules.slots.Sequence(job, i, np.ones(n, np.int32), 8, []) for i, n in enumerate((90, 5)))
    loop.submit(job, [long, short])
    loop.step()
    assert begun == [short] and short.n_new == 1 and long.n_read == 27
    assert [(at, size) for at, _, size, _ in filled] == [(0, 27), (27, 5)]
    assert context.wants[:32].tolist() == [0] * 31 + [1]


@pytest.mark.parametrize("key, n_waiting", [("", 1), ("a", 3)])
def test_more_requests_are_taken_when_clients_have_keys(modules, key, n_waiting):
    """One beyond the free slots without keys, else as many as a fair order needs."""
    loop = modules.slots.SlotLoop(Context(), SETTINGS, None, 3, n_ahead=1, meters=None)
    for n_taken in range(1, 99):
        job = modules.loop.Job(None, Sender())
        job.key = key
        loop.submit(job, [modules.slots.Sequence(job, 0, np.array([1]), 8, [])])
        loop._admit()
        if not loop._has_room():
            break
    assert n_taken == SETTINGS.slots + n_waiting and loop.n_waiting() == n_waiting


def test_a_text_that_is_far_too_long_is_not_split_as_a_whole(monkeypatch):
    """The library's time grows with the square of the size."""
    monkeypatch.syspath_prepend(str(ROOT / "backends" / "llamacpp"))
    from llama_library import Model
    sizes = []

    class Tokens(Model):
        """A blank belongs to the token of 100 of them; any other character is one."""

        def __init__(self):
            pass

        def tokenize(self, text, add_special):
            text.decode()  # no character is cut
            sizes.append(len(text))
            return [0] * (text.count(b" ") // 100 + len(text.decode().replace(" ", "")))

    def tokens_of(text):
        sizes.clear()
        found = Tokens().tokenize_at_most(text.encode(), True, 1000)
        return None if found is None else len(found)

    assert tokens_of("a" * 1000) == 1000 and sizes == [1000]
    assert tokens_of("a" + "\u20ac" * (5 << 20)) is None and sizes == [8254]
    assert tokens_of(" " * 8000 + "a" * (1 << 20)) is None and sizes == [8256, 16512]
    assert tokens_of(" " * 90000) == 900 and sizes[-1] == 90000
