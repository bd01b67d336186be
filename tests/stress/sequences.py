#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A thousand sequences at a time while their model is replaced all the time: none lost, none mixed.

  make soak-sequences   or   tests/stress/sequences.py --build=build [--seconds=60] [--oldest]

Sixteen connections have 63 sequences at a time each: four with JSON over HTTP, four with binary
tensors, four with gRPC, and four gRPC streams on which all 63 are mixed. One more client sends the
requests of each of its sequences over all four ways in turn. The model adds up the values of a
sequence in the memory of an instance: every answer must be the sum of what was sent. Meanwhile the
model is loaded with another configuration, its instances change their number, and a further client
begins sequences whose requests it cancels.

There are always more slots than sequences, as the clients wait for each answer.
"""
import argparse
import http.client
import itertools
import json
import os
import pathlib
import queue
import random
import struct
import sys
import tempfile
import threading
import time
import types

import grpc
import requests

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = 60
N_LIVE = 63        # sequences of a connection at a time
LENGTH = 6         # requests of a sequence
SLOTS = 256        # of each instance
COUNTS = (5, 6)    # instances: the slots of those that stay are enough for all sequences
NEEDS_START = "must specify the START flag"


def config(count, variant, is_oldest):
    strategy = f"oldest {{ max_candidate_sequences: {SLOTS} }}" if is_oldest else "direct { }"
    return f'''backend: "testing"
max_batch_size: {SLOTS}
input {{ name: "INPUT0" data_type: TYPE_INT32 dims: 1 }}
output {{ name: "SUM" data_type: TYPE_INT32 dims: 1 }}
sequence_batching {{ max_sequence_idle_microseconds: 120000000 {strategy} }}
instance_group {{ count: {count} kind: KIND_CPU }}
parameters {{ key: "variant" value {{ string_value: "{variant}" }} }}
'''


class Json:
    """JSON over one HTTP connection."""

    def __init__(self, place):
        self._connection = http.client.HTTPConnection("127.0.0.1", place.http_port, timeout=SECONDS)

    def _post(self, body, headers):
        self._connection.request("POST", "/v2/models/m/infer", body, headers)
        reply = self._connection.getresponse()
        answer = reply.read()
        if reply.status != 200:
            raise Refused(json.loads(answer)["error"])
        return reply, answer

    def ask(self, sequence, value, start, end):
        body = {"parameters": {"sequence_id": sequence, "sequence_start": start,
                               "sequence_end": end},
                "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 1],
                            "data": [value]}]}
        _, answer = self._post(json.dumps(body), {})
        return json.loads(answer)["outputs"][0]["data"][0]


class Binary(Json):
    """The same with binary tensors."""

    def ask(self, sequence, value, start, end):
        head = json.dumps({
            "parameters": {"sequence_id": sequence, "sequence_start": start, "sequence_end": end,
                           "binary_data_output": True},
            "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 1],
                        "parameters": {"binary_data_size": 4}}]}).encode()
        reply, answer = self._post(head + struct.pack("<i", value),
                                   {"Inference-Header-Content-Length": str(len(head))})
        return struct.unpack("<i", answer[int(reply.headers["Inference-Header-Content-Length"]):])[0]


class Unary:
    """ModelInfer on a channel of its own."""

    def __init__(self, place):
        self._place = place
        channel = grpc.insecure_channel(f"127.0.0.1:{place.grpc_port}",
                                        options=[("grpc.use_local_subchannel_pool", 1)])
        self.client = place.Client(channel, place.stubs)

    def message(self, sequence, value, start, end, **fields):
        return self.client.request("m", [("INPUT0", "INT32", [1, 1])], [struct.pack("<i", value)],
                                   parameters={"sequence_id": sequence, "sequence_start": start,
                                               "sequence_end": end}, **fields)

    @staticmethod
    def sum_of(reply):
        return struct.unpack("<i", reply.raw_output_contents[0])[0]

    def ask(self, *arguments):
        try:
            return self.sum_of(self.client.ModelInfer(self.message(*arguments), timeout=SECONDS))
        except grpc.RpcError as refusal:
            raise Refused(refusal.details()) from None


class Stream(Unary):
    """One stream on which a request is sent and its answer awaited."""

    def __init__(self, place):
        super().__init__(place)
        self._wishes = queue.SimpleQueue()
        self._replies = self.client.ModelStreamInfer(iter(self._wishes.get, None))

    def send(self, *arguments, **fields):
        self._wishes.put(self.message(*arguments, **fields))

    def next(self):
        reply = next(self._replies)
        if reply.error_message:
            raise Refused(reply.error_message)
        return reply.infer_response

    def ask(self, *arguments):
        self.send(*arguments)
        return self.sum_of(self.next())

    def close(self):
        self._wishes.put(None)
        for _ in self._replies:
            raise AssertionError("an answer too many")


class Refused(Exception):
    """With the server's words."""


class Sequence:
    """What one has sent, and what the next answer must be."""

    def __init__(self, number):
        # Numbers and texts.
        self.id = number if number % 2 else f"sequence {number}"
        self.number = number
        self.n_sent = self.total = 0

    def next(self):
        """(id, value, start, end), and the sum that follows."""
        value = self.number % 1000 + self.n_sent
        self.n_sent += 1
        self.total += value
        return (self.id, value, self.n_sent == 1, self.n_sent == LENGTH), self.total

    @property
    def has_ended(self):
        return self.n_sent == LENGTH


class Load:
    def __init__(self, place, seconds, is_oldest):
        self.place = place
        self.is_oldest = is_oldest
        self.until = time.monotonic() + seconds
        self.numbers = itertools.count(1)
        self.failures = []
        self.n_answers = self.n_sequences = self.n_reloads = self.n_updates = self.n_cancelled = 0
        self._lock = threading.Lock()

    def is_over(self):
        return time.monotonic() >= self.until or bool(self.failures)

    def count(self, **counts):
        with self._lock:
            for name, n in counts.items():
                setattr(self, name, getattr(self, name) + n)

    def check(self, sequence, got, expected):
        if got != expected:
            raise AssertionError(f"sequence {sequence.id!r}, request {sequence.n_sent}: the sum is "
                                 f"{got}, not {expected}")

    # ---- clients ----

    def interleave(self, ways):
        """Many sequences, one request of each in turn, each next one another way."""
        live = [Sequence(next(self.numbers)) for _ in range(N_LIVE)]
        for turn in itertools.count():
            for at, sequence in enumerate(live):
                wish, expected = sequence.next()
                self.check(sequence, ways[(turn + at) % len(ways)].ask(*wish), expected)
            self.count(n_answers=len(live), n_sequences=sum(s.has_ended for s in live))
            # Once a round is under way it is finished: no sequence is left behind.
            if all(s.has_ended for s in live):
                if self.is_over():
                    return
                live = [Sequence(next(self.numbers)) for _ in range(N_LIVE)]

    def mix(self, stream):
        """All requests of all sequences of a stream without waiting; answers by their ids."""
        while not self.is_over():
            expected, live = {}, [Sequence(next(self.numbers)) for _ in range(N_LIVE)]
            for step in range(LENGTH):
                for sequence in random.sample(live, len(live)):
                    wish, total = sequence.next()
                    name = f"{sequence.number}.{step}"
                    expected[name] = sequence, total
                    stream.send(*wish, id=name)
            for _ in range(len(expected)):
                reply = stream.next()
                sequence, total = expected.pop(reply.id)
                self.check(sequence, stream.sum_of(reply), total)
            self.count(n_answers=LENGTH * N_LIVE, n_sequences=N_LIVE)
        stream.close()

    def cancel(self, way):
        """A cancelled request has run or has not: then its sequence is known, or is not."""
        while not self.is_over():
            sequence = Sequence(next(self.numbers))
            wish, expected = sequence.next()
            self.check(sequence, way.ask(*wish), expected)
            before = sequence.total
            wish, expected = sequence.next()
            call = way.client.ModelInfer.future(way.message(*wish), timeout=SECONDS)
            if random.random() < 0.5:
                time.sleep(random.random() / 500)
            call.cancel()
            try:
                got = way.ask(sequence.id, 1, False, True)
                if got not in (before + 1, expected + 1):
                    raise AssertionError(f"after a cancellation the sum is {got}, neither "
                                         f"{before + 1} nor {expected + 1}")
            except Refused as refusal:
                if NEEDS_START not in str(refusal):
                    raise
            self.count(n_cancelled=1)

    # ---- changes ----

    def change(self):
        variant, count = 0, COUNTS[0]
        while not self.is_over():
            for kind in ("reload", "update", "reload", "both"):
                if kind != "update":
                    variant += 1
                if kind != "reload":
                    count = COUNTS[COUNTS.index(count) - 1]
                self.place.write_config(config(count, variant, self.is_oldest))
                self.place.load()
                self.count(**{"n_updates" if kind == "update" else "n_reloads": 1})
                if self.is_over():
                    return
                time.sleep(0.1)

    # ---- all ----

    def guarded(self, work, *arguments):
        try:
            work(*arguments)
        except BaseException as failure:  # also of a thread: the others end, and all is told
            self.failures.append(f"{work.__name__}: {type(failure).__name__}: {failure}")

    def run(self):
        place = self.place
        works = [(self.interleave, [kind(place)]) for kind in (Json, Binary, Unary)
                 for _ in range(4)]
        works += [(self.mix, Stream(place)) for _ in range(4)]
        works += [(self.interleave, [Json(place), Binary(place), Unary(place)]),
                  (self.cancel, Unary(place)), (self.change,)]
        threads = [threading.Thread(target=self.guarded, args=work, daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0, self.until - time.monotonic()) + 2 * SECONDS)
            if thread.is_alive():
                self.failures.append("a client does not end")
                break
        return self.failures


def wait_until(condition, reported):
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(reported())
        time.sleep(0.05)


def load(server):
    """It answers when the instances that go have ended their sequences."""
    reply = requests.post(f"{server.url}/v2/repository/models/m/load", timeout=4 * SECONDS)
    if reply.status_code != 200:
        raise AssertionError(reply.text)


def run(seconds, is_oldest):
    sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
    from conftest import Server
    from grpc_stubs import Client, generate
    from models import write
    from scrape import metric

    with tempfile.TemporaryDirectory() as folder:
        repository = os.path.join(folder, "models")
        os.makedirs(os.path.join(repository, "m", "1"))
        with open(os.path.join(repository, "m", "config.pbtxt"), "w", encoding="ascii") as file:
            file.write(config(COUNTS[0], 0, is_oldest))
        os.makedirs(os.path.join(folder, "stubs"))
        modules = generate(pathlib.Path(folder) / "stubs")
        server = Server(repository, ("--model-control-mode=explicit", "--load-model=*",
                                     "--http-thread-count=2"))
        try:
            place = types.SimpleNamespace(
                http_port=server.http_port, grpc_port=server.port("grpc"), Client=Client,
                stubs=types.SimpleNamespace(service=modules["grpc_service"]),
                write_config=lambda text: write(server, "m/config.pbtxt", text),
                load=lambda: load(server))
            test = Load(place, seconds, is_oldest)
            failures = test.run()
            print(f"{test.n_answers} answers, {test.n_sequences} sequences, {test.n_cancelled} "
                  f"cancelled, {test.n_reloads} reloads, {test.n_updates} updates of instances")
            if not failures:
                # The loads that were replaced have ended: no sequence is left on them.
                wait_until(lambda: server.text().count("successfully unloaded 'm'")
                           == test.n_reloads, lambda: "an old load has not ended")
                if metric(server, "neso_sequences_active", "m") != 0:
                    failures.append("a sequence is left")
                if min(test.n_answers, test.n_reloads, test.n_updates, test.n_cancelled) == 0:
                    failures.append("something was never done")
        finally:
            code = server.stop()
        if code != 0:
            failures.append(f"exit code {code}")
        for failure in failures:
            print("FAILED:", failure)
        return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--oldest", action="store_true")
    options = parser.parse_args()
    os.environ["NESO_BUILD"] = os.path.abspath(options.build)
    sys.exit(run(options.seconds, options.oldest))


if __name__ == "__main__":
    main()
