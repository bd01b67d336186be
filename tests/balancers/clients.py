# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a balancer, which check every answer and write down every failure."""
import collections
import http.client
import itertools
import json
import queue
import struct
import threading
import time

import grpc

SECONDS = 20
LENGTH = 40           # requests of a sequence
PAUSE_SECONDS = 0.06  # between them: a sequence is longer than the wait between the drain and SIGTERM
NEEDS_START = "must specify the START flag on the first request of the sequence"

Answer = collections.namedtuple("Answer", "value server place")


class Refused(Exception):
    """With the words of a server: it has not begun."""


class Lost(Exception):
    """Without an answer of a server. `began`: of the stream, where the request was not the first one on it."""

    def __init__(self, text, began=None):
        super().__init__(text)
        self.began = began


class Http:
    def __init__(self, balancer):
        self._connection = http.client.HTTPConnection("127.0.0.1", balancer.http_port, timeout=SECONDS)

    def ask(self, model, value, parameters, headers):
        body = {"parameters": parameters,
                "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 1], "data": [value]}]}
        try:
            self._connection.request("POST", f"/v2/models/{model}/infer", json.dumps(body), headers)
            reply = self._connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Lost(repr(error)) from None
        if reply.status == 400:
            raise Refused(json.loads(text)["error"])
        if reply.status != 200:
            raise Lost(f"{reply.status} {text[:200]}")
        outputs = {one["name"]: one["data"][0] for one in json.loads(text)["outputs"]}
        number = outputs["SUM" if model == "sums" else "OUTPUT0"]
        return Answer(number, outputs["INSTANCE"].partition("_")[0], reply.headers.get("Neso-Server"))

    def close(self):
        self._connection.close()


class Grpc:
    def __init__(self, balancer, client_type, stubs):
        self._channel = grpc.insecure_channel(f"127.0.0.1:{balancer.grpc_port}",
                                              options=[("grpc.use_local_subchannel_pool", 1)])
        self._client = client_type(self._channel, stubs)

    def ask(self, model, value, parameters, headers):
        try:
            reply, call = self._client.ModelInfer.with_call(self.message(model, value, parameters), timeout=SECONDS,
                                                            metadata=self.metadata(headers))
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                raise Refused(error.details()) from None
            raise Lost(f"{error.code()} {error.details()}") from None
        return self.answer(model, reply, call)

    def message(self, model, value, parameters):
        return self._client.request(model, [("INPUT0", "INT32", [1, 1])], [struct.pack("<i", value)],
                                    parameters=parameters)

    @staticmethod
    def metadata(headers):
        return [(name.lower(), text) for name, text in headers.items()]

    @staticmethod
    def answer(model, reply, call):
        raw = {one.name: reply.raw_output_contents[at] for at, one in enumerate(reply.outputs)}
        number = struct.unpack("<i", raw["SUM" if model == "sums" else "OUTPUT0"])[0]
        return Answer(number, raw["INSTANCE"][4:].decode().partition("_")[0],
                      dict(call.initial_metadata()).get("neso-server"))

    def close(self):
        self._channel.close()


class GrpcStream(Grpc):
    """A stream for each sequence, and another one after a stream was lost."""

    _wishes = None

    def ask(self, model, value, parameters, headers):
        if self._wishes is None:
            self._wishes = queue.SimpleQueue()
            self._began = time.monotonic()
            self._call = self._client.ModelStreamInfer(iter(self._wishes.get, None), timeout=2 * SECONDS,
                                                       metadata=self.metadata(headers))
        self._wishes.put(self.message(model, value, parameters))
        try:
            reply = next(self._call)
        except grpc.RpcError as error:
            self._wishes.put(None)
            self._wishes = None
            raise Lost(f"{error.code()} {error.details()}", self._began) from None
        if reply.error_message:
            self._end()
            raise Refused(reply.error_message)
        if parameters.get("sequence_end"):
            self._end()
        return self.answer(model, reply.infer_response, self._call)

    def _end(self):
        self._wishes.put(None)
        self._wishes = None
        try:
            if list(self._call):
                raise AssertionError("a stream has an answer too many")
        except grpc.RpcError as error:
            raise Lost(f"the end of a stream: {error.code()} {error.details()}", self._began) from None


class Failure:
    """`server`: the one that has the sequence, as far as the client knows it. `nth`: of this sequence, from 1."""

    def __init__(self, client, began, error, server=None, nth=1):
        self.client, self.error, self.server, self.nth = client, error, server, nth
        self.began = getattr(error, "began", None) or began

    @property
    def is_missing_start(self):
        return isinstance(self.error, Refused) and NEEDS_START in str(self.error)

    def __str__(self):
        where = f", on {self.server}" if self.server else ""
        return f"{self.client}{where}: {type(self.error).__name__}: {self.error}"


class Load:
    """Threads that send requests until they are stopped."""

    def __init__(self):
        self.failures = []                 # append() alone changes it
        self.mistakes = []                 # wrong answers, and what a client did not expect
        self._lock = threading.Lock()
        self._answers = collections.Counter()  # by (kind, server)
        self.n_sequences = 0
        self._numbers = itertools.count(1)
        self._is_over = threading.Event()
        self._threads = []

    def start(self, ways):
        """Each way is used by one client; half of them send sequences."""
        for at, (name, way) in enumerate(ways):
            work = self._send_sequences if at % 2 else self._send_plain
            thread = threading.Thread(target=self._guarded, args=(work, f"{name} {at}", way))
            thread.start()
            self._threads.append(thread)

    def stop(self):
        """Returns when the sequences that have begun have ended."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(2 * SECONDS + LENGTH)
            if thread.is_alive():
                self.mistakes.append("a client does not end")

    def answers(self):
        with self._lock:
            return collections.Counter(self._answers)

    def _count(self, kind, server):
        with self._lock:
            self._answers[kind, server] += 1

    def _guarded(self, work, name, way):
        try:
            while not self._is_over.is_set():
                work(name, way)
        except Exception as error:  # the thread ends, and the test reports it
            self.mistakes.append(f"{name}: {error!r}")
        finally:
            way.close()

    def _send_plain(self, name, way):
        value = next(self._numbers) % 1000000
        began = time.monotonic()
        try:
            answer = way.ask("plain", value, {}, {})
        except (Refused, Lost) as error:
            self.failures.append(Failure(name, began, error))
            return
        if answer.value != value:
            self.mistakes.append(f"{name}: sent {value}, got {answer.value}")
        self._count("plain", answer.server)
        self._is_over.wait(0.01)

    def _send_sequences(self, name, way):
        """One sequence. After a failure it goes on once more, to see what the servers say of it then."""
        headers = {"Neso-Sequence": f"{name}-{next(self._numbers)}"}
        total, server, n_failures = 0, None, 0
        for step in range(LENGTH):
            parameters = {"sequence_id": headers["Neso-Sequence"], "sequence_start": step == 0,
                          "sequence_end": step == LENGTH - 1}
            total += step + 1
            began = time.monotonic()
            try:
                answer = way.ask("sums", step + 1, parameters, headers)
            except (Refused, Lost) as error:
                n_failures += 1
                self.failures.append(Failure(name, began, error, server, n_failures))
                if n_failures == 2:
                    return
                continue
            self._check(name, answer, total, server, n_failures)
            server = answer.server
            if answer.place:
                headers["Neso-Server"] = answer.place
            time.sleep(PAUSE_SECONDS)
        with self._lock:
            self.n_sequences += n_failures == 0

    def _check(self, name, answer, total, server, n_failures):
        self._count("sums", answer.server)
        if n_failures:
            self.mistakes.append(f"{name}: an answer after a failure, by {answer.server}")
        if answer.value != total:
            self.mistakes.append(f"{name}: the sum is {answer.value}, not {total}")
        if server not in (None, answer.server):
            self.mistakes.append(f"{name}: the sequence went from {server} to {answer.server}")


class Sequence:
    """One that the test itself sends, on a server of its choice."""

    def __init__(self, way, server):
        self._way = way
        self.result = None
        for number in itertools.count():
            self._id = f"own-{id(self)}-{number}"
            self._headers = {"Neso-Sequence": self._id}
            answer = way.ask("sums", 1, {"sequence_id": self._id, "sequence_start": True}, self._headers)
            if answer.place:
                self._headers["Neso-Server"] = answer.place
            if answer.server == server:
                break
            way.ask("sums", 1, {"sequence_id": self._id, "sequence_end": True}, self._headers)

    def start(self, **parameters):
        """Sends the next request; join() returns the answer, or why there is none."""
        self._thread = threading.Thread(target=self._ask, args=(parameters,))
        self._thread.start()

    def _ask(self, parameters):
        try:
            self.result = self._way.ask("sums", 1, {"sequence_id": self._id, **parameters}, self._headers)
        except (Refused, Lost) as error:
            self.result = error

    def is_in(self, rows):
        """Whether its request is among these: the sequences of a server."""
        return any(row["id"] == self._id and row["requests"] > 0 for row in rows)

    def join(self):
        self._thread.join(2 * SECONDS)
        self._way.close()
        return self.result
