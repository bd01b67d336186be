# SPDX-License-Identifier: BSD-3-Clause
"""The loop of an instance: it takes requests while it has room, and computes step by step.

Threads: execute() of the model submits requests and waits for room; one thread computes; one looks for
clients that have left, which costs a question to the server for each request. `changed` guards nothing but
the waits: `waiting` and `jobs` are changed by one operation each, and a thread that visits all of one takes
a copy first, by list(), since a list that grows meanwhile cannot be visited.
"""
import collections
import threading
import time

import triton_python_backend_utils as pb_utils

from llama_library import LibraryError

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
INVALID = pb_utils.TritonError.INVALID_ARG

WATCH_SECONDS = 0.02  # between two looks for clients that have left
LONG_STEP_SECONDS = 0.1  # a step that takes longer may be broken off


class Job:
    """A request of a client in progress."""
    key = ""  # the name of the client's API key

    def __init__(self, request, sender):
        self.request = request
        self.sender = sender
        self.is_cancelled = False  # the client has left
        self.is_answered = False

    def send(self, response, flags=0):
        """A client that left, or a server that ends, must not end the loop."""
        if self.is_answered:
            return
        self.is_answered = flags == FINAL
        try:
            self.sender.send(response, flags=flags)
        except Exception as error:  # noqa: B902 - the module raises its own kinds
            pb_utils.Logger.log_warn("a response cannot be sent: %s" % error)

    def end_with_error(self, message, code=None):
        code = pb_utils.TritonError.INTERNAL if code is None else code
        self.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code)), FINAL)


class Loop:
    """What loops of texts and of embeddings share. A subclass has step(), free_slots() and owners()."""

    def __init__(self, context, n_ahead, meters):
        self.context = context
        self.waiting = collections.deque()  # work in the order in which it came
        self.jobs = set()
        self.changed = threading.Condition()
        self.is_stopping = False
        self.is_feeder_waiting = False
        self.has_cancelled = False
        self.step_began = 0.0  # monotonic time; 0: none is being computed
        self._n_ahead = n_ahead
        self._meters = meters
        self._threads = [threading.Thread(target=target, name=name, daemon=True)
                         for target, name in ((self._run, "steps"), (self._watch, "cancellations"))]
        for thread in self._threads:
            thread.start()

    # ---- called by execute() ----

    def submit(self, job, work):
        self.jobs.add(job)
        self.waiting.extend(work)
        with self.changed:
            self.changed.notify_all()

    def wait_for_room(self):
        """Returns when a request that comes next would get a slot soon, so that requests wait in the server's
        queue, with its limits, priorities and time limits."""
        if self._has_room():
            return
        with self.changed:
            self.is_feeder_waiting = True
            self.changed.wait_for(self._has_room)
            self.is_feeder_waiting = False

    def _has_room(self):
        return self.is_stopping or self.n_waiting() < self.free_slots() + self._n_ahead

    def n_waiting(self):
        """How much work waits for a slot."""
        return len(self.waiting)

    def stop(self):
        self.is_stopping = True
        with self.changed:
            self.changed.notify_all()
        for thread in self._threads:
            thread.join()

    # ---- the thread that computes ----

    def _run(self):
        while self._wait_for_work():
            try:
                if self.has_cancelled:
                    self._drop_cancelled()
                self.step()
            except Exception as error:  # noqa: B902 - the requests must not hang
                pb_utils.Logger.log_error("a step failed: %s: %s" % (type(error).__name__, error))
                self.fail_all("the step failed: %s" % error)
            if self.is_feeder_waiting and self._has_room():
                with self.changed:
                    self.changed.notify_all()

    def _wait_for_work(self):
        if self.jobs and not self.is_stopping:
            return True
        with self.changed:  # work without a job is that of one which failed while it was submitted
            self.changed.wait_for(lambda: self.jobs or self.waiting or self.is_stopping)
        return not self.is_stopping

    def compute(self, n):
        """Computes the batch and returns the library's status."""
        self.step_began = time.monotonic()
        try:
            return self.context.decode(n)
        finally:
            self.step_began = 0.0

    def finish(self, job):
        self.jobs.discard(job)

    def _drop_cancelled(self):
        self.has_cancelled = False
        self.context.set_abort(False)
        for job in [job for job in list(self.jobs) if job.is_cancelled]:
            self.drop(job)
            job.end_with_error("the client has left", pb_utils.TritonError.CANCELLED)
            self.finish(job)

    def fail_all(self, message):
        for job in list(self.jobs):
            self.drop(job)
            job.end_with_error(message)
            self.finish(job)

    # ---- the thread that looks for clients that have left ----

    def _watch(self):
        while True:
            self._meters.publish(self)
            with self.changed:
                self.changed.wait_for(lambda: self.jobs or self.is_stopping)
            while self.jobs and not self.is_stopping:
                with self.changed:
                    self.changed.wait_for(lambda: self.is_stopping, WATCH_SECONDS)
                self._look()
                self._meters.publish(self)
            if self.is_stopping:
                return

    def _look(self):
        for job in list(self.jobs):
            if not job.is_cancelled and not job.is_answered and job.sender.is_cancelled():
                job.is_cancelled = True
                self.has_cancelled = True
        began = self.step_began
        if self.has_cancelled and began and time.monotonic() - began > LONG_STEP_SECONDS:
            left = [job.is_cancelled for job in self.owners()]
            if left and 2 * sum(left) >= len(left):
                self.context.set_abort(True)


class EmbeddingWork:
    def __init__(self, job, index, tokens):
        self.job = job
        self.index = index
        self.tokens = tokens


class EmbeddingLoop(Loop):
    """Computes the vectors of texts, as many in a step as fit."""

    def __init__(self, context, n_slots, n_batch, answer, **more):
        self._n_slots = n_slots
        self._n_batch = n_batch
        self._answer = answer  # answer(job, vectors) -> text
        self._step = []
        super().__init__(context, **more)

    def free_slots(self):
        return self._n_slots

    def owners(self):
        return [work.job for work in self._step]

    def usage(self):
        return len(self._step), len(self.waiting), 0.0

    def drop(self, job):
        for work in list(self.waiting):
            if work.job is job:
                self.waiting.remove(work)

    def _take(self):
        found, n = [], 0
        while self.waiting and len(found) < self._n_slots:
            work = self.waiting[0]
            if n + len(work.tokens) > self._n_batch and found:
                break
            found.append(self.waiting.popleft())
            n += len(work.tokens)
        return found

    def step(self):
        self._step = step = self._take()
        at = 0
        for slot, work in enumerate(step):
            self.context.forget(slot)
            self.context.fill(at, slot, work.tokens, 0)
            at += len(work.tokens)
        self.context.wants[:at] = 1
        if at == 0:
            return
        status = self.compute(at)
        if status == 2:  # broken off, perhaps for clients that were dropped since
            self.context.set_abort(False)
            self.waiting.extendleft(reversed(step))
            return
        if status != 0:
            raise LibraryError("llama_decode() gives %d" % status)
        for slot, work in enumerate(step):
            self._keep(work, self.context.embedding(slot))
        self._step = []

    def _keep(self, work, vector):
        job = work.job
        job.vectors[work.index] = vector
        job.n_open -= 1
        if job.n_open == 0 and not job.is_answered:
            job.send(self._answer(job), FINAL)
            self.finish(job)
