# SPDX-License-Identifier: BSD-3-Clause
"""`neso bench` says what is true of servers that break connections, lose or refuse requests, or stop answering."""
import contextlib
import http.server
import json
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from conftest import BUILD, Server, patience, write_repository
from frames import GOAWAY, HEADERS, PREFACE, frame
from test_bench import DONE, FAILED, LIMIT, SECONDS, UNREACHABLE, adding, address, bench_raw

TAKES_SECONDS = 60

TENSOR = {"name": "T", "datatype": "INT32", "shape": [1]}
METADATA = {"name": "m", "versions": ["1"], "inputs": [TENSOR], "outputs": [TENSOR]}
SPEC = {"name": "T", "data_type": "TYPE_INT32", "dims": [1]}
CONFIG = {"name": "m", "max_batch_size": 0, "input": [SPEC], "output": [SPEC]}
STATISTICS = {"model_stats": [{"name": "m", "version": "1"}]}
ANSWER = {"model_name": "m", "outputs": [{**TENSOR, "data": [1]}]}


class Model(http.server.BaseHTTPRequestHandler):
    """A model `m`. The server's `infer` gets the handler and the number of the request, from 0."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def wait_forever(self):
        """Until the test has ended."""
        self.server.has_ended.wait()
        self.close_connection = True

    def do_GET(self):
        if self.server.is_silent.is_set():
            self.wait_forever()
        else:
            self.answer(CONFIG if self.path.endswith("/config")
                        else STATISTICS if self.path.endswith("/stats") else METADATA)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.is_silent.is_set():
            self.wait_forever()
        elif not self.path.endswith("/infer"):  # shared memory
            self.answer({})
        else:
            with self.server.lock:
                number = self.server.n_requests
                self.server.n_requests += 1
            self.server.infer(self, number)


class Place(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def served_by(handler):
    found = Place(("127.0.0.1", 0), handler)
    found.lock, found.n_requests = threading.Lock(), 0
    found.is_silent, found.has_ended = threading.Event(), threading.Event()
    found.at = ("-u", f"127.0.0.1:{found.server_address[1]}", "-m", "m")
    threading.Thread(target=found.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        found.has_ended.set()
        found.shutdown()
        found.server_close()


@pytest.fixture
def place():
    """A server whose `infer` a test sets."""
    with served_by(Model) as found:
        yield found


def measure(place, *arguments, code=DONE):
    ended = bench_raw(*place.at, *arguments, "--json")
    assert ended[0] == code, ended
    return json.loads(ended[1])


def test_a_connection_that_breaks_at_the_end_of_the_warm_up(place):
    """Its lane rests when the load begins, which needs it."""
    def infer(handler, number):
        if number == 0:
            handler.close_connection = True
            return
        if number == 1:  # the last answer of the warm-up, within the rest of the lane
            time.sleep(0.005)
        handler.answer(ANSWER)
    place.infer = infer
    [load] = measure(place, "--concurrency-range", 2, "--warmup-request-count", 2, "--request-count", 6)["loads"]
    assert (load["requests"], load["failed"]) == (6, 0)


def test_names_of_steps_are_no_paths(place, tmp_path, monkeypatch):
    """The server names the steps of an ensemble; their files stay in the folder that the user chose."""
    step = {"model_name": "../../outside", "model_version": -1}
    monkeypatch.setitem(CONFIG, "ensemble_scheduling", {"step": [step]})
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    place.infer = lambda handler, _: handler.answer(ANSWER)
    code, _, err = bench_raw(*place.at, "--request-count", 4, "-f", folder / "out.csv")
    assert code == FAILED
    assert "the server has a step '../../outside' of version '1'" in err
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["out.csv"]


def test_files_of_steps_with_one_model(place, tmp_path, monkeypatch):
    """The newest version may be another one than that which a step names."""
    place.infer = lambda handler, _: handler.answer(ANSWER)
    for steps, files in (([("a", 1), ("a", -1), ("b", -1)], ["a_v1", "a_vnewest", "b_v1"]),
                         ([("a", 2), ("a", -1)], ["a_v1", "a_v2"])):
        monkeypatch.setitem(CONFIG, "ensemble_scheduling", {"step": [
            {"model_name": name, "model_version": version} for name, version in steps]})
        folder = tmp_path / str(len(steps))
        folder.mkdir()
        code, _, err = bench_raw(*place.at, "--request-count", 4, "-f", folder / "out.csv")
        assert code == DONE, err
        assert sorted(file.name for file in folder.iterdir()) == [*(f"{name}.out.csv" for name in files), "out.csv"]


@pytest.mark.parametrize("error", ["no \"x\" in caf\u00e9", {"message": "no \"x\" in caf\u00e9"}], ids=["text", "object"])
def test_text_of_a_refusal(place, error):
    """As it was meant, not as JSON writes it."""
    place.infer = lambda handler, _: handler.answer({"error": error}, 400)
    _, out, _ = bench_raw(*place.at, "--request-count", 4, "--json")
    [found] = json.loads(out)["loads"][0]["errors"]
    assert found["text"] == "no \"x\" in caf\u00e9"
    _, out, _ = bench_raw(*place.at, "--request-count", 4)
    assert 'no "x" in caf\u00e9' in out


def test_steps_with_one_model(place, monkeypatch):
    """Each version of it has figures of its own; a step that is there twice has the same."""
    steps = [("a", 1), ("a", -1), ("a", 2), ("b", 3), ("a", 1), ("b", 3)]
    monkeypatch.setitem(CONFIG, "ensemble_scheduling", {"step": [
        {"model_name": name, "model_version": version} for name, version in steps]})
    place.infer = lambda handler, _: handler.answer(ANSWER)
    code, out, err = bench_raw(*place.at, "--request-count", 4, "--json")
    assert code == DONE, err
    keys = []
    json.loads(out, object_pairs_hook=lambda pairs: keys.append([key for key, _ in pairs]) or dict(pairs))
    assert ["a:1", "a", "a:2", "b"] in keys
    assert all(len(set(names)) == len(names) for names in keys)
    _, out, _ = bench_raw(*place.at, "--request-count", 4)
    rows = out[out.index("Server, mean of a request"):].splitlines()[2:7]
    assert [row.split()[1] for row in rows] == ["m", "a:1", "a", "a:2", "b"], out


def answers_all_but(*lost):
    """For `place.infer`: the requests with these numbers get no answer."""
    def infer(handler, number):
        if number in lost:
            handler.wait_forever()
        else:
            handler.answer(ANSWER)
    return infer


def test_requests_that_are_never_answered(place):
    place.infer = answers_all_but(3, 5)
    line = ("--concurrency-range", 4, "-p", 100, "-r", 3)
    [load] = measure(place, *line)["loads"]
    assert (load["failed"], load["unanswered"]) == (0, 2) and load["requests"] > 0
    place.n_requests = 0
    code, out, _ = bench_raw(*place.at, *line)
    assert code == DONE and "load 4: 2 requests were dropped without an answer at the end of the load" in out


def test_requests_that_are_never_answered_count_as_errors(place):
    """Of a limit, and of the threshold: those that have an answer are as quick as without the others."""
    place.infer = answers_all_but(7)
    code, out, err = bench_raw(*place.at, "--concurrency-range", "4:8:4", "-p", 100, "-r", 3, "-l", int(patience(9000)),
                               "--fail-if", "errors>0", "--fail-if", f"max>{int(patience(9))}s", "--fail-if", "p50>90s",
                               "--json")
    assert code == LIMIT
    [load] = json.loads(out)["loads"]  # the first one is beyond the threshold
    assert (load["failed"], load["unanswered"], load["lost"]) == (0, 1, 1)
    assert "load 4: errors>0\n" in err and "load 4: max>" in err and "p50" not in err


def binary(value):
    """An answer with the output as bytes, and the length of its JSON."""
    head = json.dumps({"model_name": "m", "outputs": [{**TENSOR, "parameters": {"binary_data_size": 4}}]}).encode()
    return head + struct.pack("<i", value), len(head)


def test_wrong_outputs_count_whenever_they_come(place, tmp_path):
    """Those of the warm-up, and of windows before the last ones, are not in the figures."""
    def infer(handler, number):
        body, length = binary(1 if number > 2 else 2)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Inference-Header-Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(body)
    place.infer = infer
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"data": [{"T": [1]}], "validation_data": [{"T": [1]}]}))
    line = ("--input-data", data, "--measurement-mode=count_windows", "--measurement-request-count=10", "-s", 100000)
    for more in (), ("--request-count=10",):
        place.n_requests = 0
        code, out, err = bench_raw(*place.at, *line, *more, "--warmup-request-count=10", "--json")
        assert code == FAILED
        assert json.loads(out)["loads"][0]["failed"] == 0
        assert "3 outputs that are not in the figures were not the expected ones" in err
    code, _, err = bench_raw(*place.at, *line, "--warmup-request-count=10")
    assert (code, err) == (DONE, "")


def test_a_directory_of_inputs_is_not_left(place, tmp_path, monkeypatch):
    """The server names the inputs; it must not get files that the user did not offer."""
    (tmp_path / "inputs").mkdir()
    (tmp_path / "secret").write_bytes(b"abcd")
    monkeypatch.setitem(METADATA, "inputs", [{**TENSOR, "name": "../secret"}])
    place.infer = lambda handler, _: handler.answer(ANSWER)
    code, _, err = bench_raw(*place.at, "--input-data", tmp_path / "inputs", "--request-count", 2)
    assert code == FAILED and "the server has a tensor '../secret'" in err
    assert place.n_requests == 0


def test_a_load_without_answers_has_no_latency(place, tmp_path):
    """Zero would be the best of all."""
    table, page = tmp_path / "out.csv", tmp_path / "out.html"
    place.infer = lambda handler, number: (handler.answer(ANSWER) if number < 5 else
                                           handler.answer({"error": "busy"}, 503))
    code, out, _ = bench_raw(*place.at, "--concurrency-range", "1:2", "--request-count", 5, "-f", table, "--report",
                             page)
    assert code == DONE
    assert re.search(r"^ +2 +0\.0( +-){7} +5 ", out, re.M), out
    assert re.findall("^Concurrency: (.*), thr", out, re.M) == ["1"]
    assert [line.split(",")[0] for line in table.read_text().splitlines()] == ["Concurrency", "1"]
    assert page.read_text().count("<td>-</td>") == 7


def test_too_few_windows_to_be_stable(place):
    place.infer = lambda handler, _: handler.answer(ANSWER)
    for n in 1, 2:
        code, out, _ = bench_raw(*place.at, "-p", 50, "-r", n)
        assert code == DONE and f"load 1 is not stable: it has {n} of the 3 windows that must agree\n" in out


def test_a_load_with_errors_is_beyond_the_threshold(place):
    """A server that refuses what is too much for it is as quick with 8 requests as with 1."""
    slots = threading.Semaphore(2)

    def infer(handler, number):
        if not slots.acquire(blocking=False):
            handler.answer({"error": "busy"}, 503)
            return
        time.sleep(0.02)
        handler.answer(ANSWER)
        slots.release()
    place.infer = infer
    line = ("-l", int(patience(5000)), "-r", 1, "--measurement-mode=count_windows",
            "--measurement-request-count=30", "--warmup-request-count=4")
    found = measure(place, *line, "--binary-search", "--concurrency-range", "1:8")
    assert found["found"] < 4 and found["loads"][0]["value"] == 1 and found["loads"][1]["value"] == 8
    assert found["loads"][1]["failed"] > 0
    # A range without an end ends there, too.
    assert measure(place, *line, "--concurrency-range", "1:0")["loads"][-1]["value"] < 10


def interrupt(bench):
    """The output, and the seconds until it has ended."""
    begin = time.monotonic()
    bench.send_signal(signal.SIGINT)
    out, err = bench.communicate(timeout=SECONDS)
    return out.decode(), err.decode(), time.monotonic() - begin


def test_an_interruption_while_a_load_ends(place):
    """Requests without an answer have ten seconds, or one."""
    place.infer = lambda handler, number: (handler.wait_forever() if number == 3 else handler.answer(ANSWER))
    bench = subprocess.Popen([BUILD / "neso", "bench", *place.at, "-v", "--concurrency-range=2", "-p", "100", "-r",
                              "3", "-s", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for n in range(3):
        assert f"window {n + 1}:".encode() in bench.stderr.readline()
    time.sleep(1)  # the load has ended, and waits for the request
    out, _, seconds = interrupt(bench)
    assert bench.returncode == FAILED and "Concurrency: 2, throughput: " in out and "Interrupted" in out
    assert seconds < 7


@pytest.mark.parametrize("more", [(), ("--shared-memory", "system")])
def test_an_interruption_while_the_server_is_silent(place, more, tmp_path):
    """Each question that it does not answer would take 30 s. A window without an answer, which a busy machine makes of a
    short one, would end the load before."""
    place.infer = lambda handler, number: handler.answer(ANSWER)
    files = [tmp_path / name for name in ("out.csv", "out.html", "out.json")]
    bench = subprocess.Popen([BUILD / "neso", "bench", *place.at, *more, "-v", "-s", "0", "-r", "10000", "-f",
                              files[0], "--report", files[1], "--profile-export-file", files[2],
                              "--measurement-mode=count_windows", "--measurement-request-count=20"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert b"window 1" in bench.stderr.readline()
    place.is_silent.set()
    out, err, seconds = interrupt(bench)
    assert bench.returncode in (FAILED, UNREACHABLE) and seconds < patience(20)
    assert "Concurrency: 1, throughput: " in out and "Interrupted" in out
    assert "interrupted: no answer from 127.0.0.1" in err
    # What was measured before is not lost.
    assert files[0].read_text().splitlines()[1].startswith("1,")
    assert "</html>" in files[1].read_text() and json.loads(files[2].read_text())["experiments"][0]["requests"]


def test_an_interruption_before_the_first_answer():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        bench = subprocess.Popen([BUILD / "neso", "bench", "-m", "m", "-u",
                                  f"127.0.0.1:{mute.getsockname()[1]}"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        connection, _ = mute.accept()
        with connection:
            assert connection.recv(10)
            _, err, seconds = interrupt(bench)
    assert bench.returncode == UNREACHABLE and seconds < patience(20)
    assert "interrupted: no answer from" in err


def test_a_request_that_is_lost(place):
    """The load ends long before the ten minutes that a first answer may take."""
    place.infer = answers_all_but(5)
    [load] = measure(place, "--concurrency-range", 1, "--request-count", 20)["loads"]
    assert (load["requests"], load["failed"], load["unanswered"]) == (5, 0, 1)


# ---- gRPC -------------------------------------------------------------------------------------------

@contextlib.contextmanager
def measures_grpc(tmp_path, option):
    """A function that measures a model of a server with that option, on one connection, and returns the output."""
    write_repository(tmp_path, {"one": adding(1)})
    server = Server(tmp_path, [option], waits_for=("grpc",))

    def run(*arguments):
        code, out, err = bench_raw(*address(server, "grpc"), "-m", "one", "--connections", 1, *arguments)
        assert code == DONE, err
        return out
    try:
        yield run
    finally:
        server.stop()


def test_latency_has_the_wait_for_a_stream(tmp_path):
    """Eight requests under way where the server takes two streams: each takes as long as four."""
    line = ("--concurrency-range", 8, "--request-parameter", "delay_ms:10:int", "--request-count", 80)
    with measures_grpc(tmp_path, "--grpc-max-concurrent-streams=2") as run:
        [load] = json.loads(run(*line, "--json"))["loads"]
        out = run(*line)
    assert load["requests"] == 80  # none was sent beyond what the server takes, and refused
    assert load["latency_us"]["p50"] > 2 * load["from_send_us"]["p50"]
    assert load["rate"] * load["latency_us"]["mean"] / 1e6 > 6  # Little's law, but for the start and the end
    assert "load 8: requests waited for a connection or a stream before they were sent" in out


def test_a_connection_that_ends_in_good_order(tmp_path):
    """A client that is told to go connects again: no request of it fails."""
    with measures_grpc(tmp_path, "--grpc-max-connection-age=300") as run:
        [load] = json.loads(run("--concurrency-range", 8, "--request-parameter", "delay_ms:2:int",
                                "--request-count", 800, "--json"))["loads"]
    assert (load["requests"], load["failed"]) == (800, 0), load["errors"]


def frames_of(connection, greeting=b""):
    """The bytes of one frame after the other."""
    taken = bytearray()

    def take(n):
        while len(taken) < n:
            more = connection.recv(1 << 16)
            if not more:
                raise OSError
            taken.extend(more)
        text = bytes(taken[:n])
        del taken[:n]
        return text
    if greeting:
        yield take(len(greeting))
    while True:
        head = take(9)
        yield head + take(int.from_bytes(head[:3], "big"))


class Leaving:
    """Stands between a client and a server. The first connections with inferences end: GOAWAY says that the server has
    taken some streams, and it sees nothing of the others."""

    def __init__(self, server, n_leaving, n_taken):
        self.port, self.n_leaving, self.n_taken = server.port("grpc"), n_leaving, n_taken
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port))
                client_lock = threading.Lock()
                threading.Thread(target=self.answers, args=(client, client_lock, server), daemon=True).start()
                threading.Thread(target=self.requests, args=(client, client_lock, server), daemon=True).start()

    def answers(self, client, lock, server):
        with client, server, contextlib.suppress(OSError):
            for text in frames_of(server):
                with lock:
                    client.sendall(text)

    def must_leave(self):
        with self.lock:
            self.n_leaving -= 1
            return self.n_leaving >= 0

    def requests(self, client, lock, server):
        streams, last = [], None
        with client, server, contextlib.suppress(OSError):
            for text in frames_of(client, PREFACE):
                stream = int.from_bytes(text[5:9], "big")
                if text[3] == HEADERS and b"ModelInfer" in text:
                    streams.append(stream)
                    if len(streams) == self.n_taken + 1 and self.must_leave():
                        last = streams[-2] if self.n_taken else 0
                        with lock:
                            client.sendall(frame(GOAWAY, 0, 0, struct.pack(">II", last, 0)))
                if last is None or stream <= last:
                    server.sendall(text)


def measure_leaving(tmp_path, n_leaving, n_taken):
    write_repository(tmp_path, {"one": adding(1)})
    server = Server(tmp_path, waits_for=("grpc",))
    leaving = Leaving(server, n_leaving, n_taken)
    try:
        code, out, err = bench_raw("-i", "grpc", "-u", f"127.0.0.1:{leaving.listener.getsockname()[1]}", "-m", "one",
                                   "--connections", 1, "--concurrency-range", 4, "--request-count", 40, "--json")
        assert code == DONE, err
        return json.loads(out)["loads"][0]
    finally:
        leaving.listener.close()
        server.stop()


def test_streams_that_a_leaving_server_has_not_taken(tmp_path):
    """They are sent again on another connection."""
    load = measure_leaving(tmp_path, 2, 6)
    assert (load["requests"], load["failed"], load["unanswered"]) == (40, 0, 0), load["errors"]


def test_streams_that_no_connection_takes(tmp_path):
    """Of a request that two connections have not taken the third is not asked."""
    load = measure_leaving(tmp_path, 2, 0)
    assert load["requests"] + load["failed"] == 40 and 0 < load["failed"] <= 4
    assert "the server ends each connection before it takes the request" in str(load["errors"])


def test_streams_that_stay_open(tmp_path):
    """As many streams as the server takes: their further requests need no room for another one."""
    with measures_grpc(tmp_path, "--grpc-max-concurrent-streams=2") as run:
        [load] = json.loads(run("--streaming", "--concurrency-range", 2, "--request-count", 20, "--json"))["loads"]
    assert (load["requests"], load["failed"]) == (20, 0)


def test_streams_of_a_connection_that_ends(tmp_path):
    """A stream that stays open ends between two of its requests, and goes on on a new connection."""
    with measures_grpc(tmp_path, "--grpc-max-connection-age=300") as run:
        [load] = json.loads(run("--streaming", "--concurrency-range", 4, "--request-parameter", "delay_ms:2:int",
                                "--request-count", 800, "--json"))["loads"]
    assert (load["requests"], load["failed"], load["unanswered"]) == (800, 0, 0), load["errors"]
