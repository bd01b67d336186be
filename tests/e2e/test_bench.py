# SPDX-License-Identifier: BSD-3-Clause
"""`neso bench` against a real server: protocols, loads, inputs, files, exit codes, and the command lines
that the documentation of perf_analyzer shows."""
import csv
import http.server
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
from xml.etree import ElementTree

import pytest
import requests

from certificates import Authority
from conftest import BUILD, ROOT, Server, patience, write_repository

BACKENDS = ("identity", "testing", "repeat")
OPTIONS = ("--allow-client-shm=true", "--cache-config=local,size=1048576")
TAKES_SECONDS = 30
DONE, FAILED, USAGE, UNREACHABLE, LIMIT = range(5)
SECONDS = patience(60)


def tensor(role, name, datatype, dims):
    return f'{role} {{ name: "{name}" data_type: {datatype} dims: [ {dims} ] }}\n'


def step(model, inputs, outputs):
    return (f'step {{ model_name: "{model}" model_version: -1\n'
            + "".join(f'input_map {{ key: "{k}" value: "{v}" }}\n' for k, v in inputs.items())
            + "".join(f'output_map {{ key: "{k}" value: "{v}" }}\n' for k, v in outputs.items()) + "}\n")


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def adding(number, more=""):
    return ('backend: "testing"\nmax_batch_size: 8\n' + tensor("input", "IN", "TYPE_INT32", 1)
            + tensor("output", "OUT", "TYPE_INT32", 1) + parameter("add", number) + more)


MODELS = {
    "floats": 'backend: "identity"\nmax_batch_size: 8\n' + tensor("input", "INPUT0", "TYPE_FP32", -1)
              + tensor("output", "OUTPUT0", "TYPE_FP32", -1),
    "texts": 'backend: "identity"\n' + tensor("input", "T", "TYPE_STRING", "-1")
             + tensor("output", "T", "TYPE_STRING", "-1"),
    "two": 'backend: "identity"\n' + tensor("input", "A", "TYPE_INT32", 2)
           + tensor("input", "B", "TYPE_UINT8", 3) + tensor("output", "A", "TYPE_INT32", 2)
           + tensor("output", "B", "TYPE_UINT8", 3),
    "one": adding(1),
    "ten": adding(10),
    "cached": adding(5, "response_cache { enable: true }\n"),
    "unlucky": adding(0, parameter("fail_value", 7)),
    "line": 'platform: "ensemble"\nmax_batch_size: 8\n' + tensor("input", "X", "TYPE_INT32", 1)
            + tensor("output", "Y", "TYPE_INT32", 1) + "ensemble_scheduling {\n"
            + step("one", {"IN": "X"}, {"OUT": "T"}) + step("ten", {"IN": "T"}, {"OUT": "Y"}) + "}\n",
    "pipe": 'platform: "chain"\n' + parameter("stages", "one,ten:1"),
    "sums": 'backend: "testing"\n' + tensor("input", "INPUT0", "TYPE_INT32", 1)
            + tensor("output", "SUM", "TYPE_INT32", 1)
            + "sequence_batching { max_sequence_idle_microseconds: 60000000 }\n"
              "instance_group { count: 8 }\n",
    "repeat": 'backend: "repeat"\nmodel_transaction_policy { decoupled: true }\n'
              + tensor("input", "IN", "TYPE_INT32", -1) + tensor("input", "DELAY", "TYPE_UINT32", -1)
              + tensor("input", "WAIT", "TYPE_UINT32", 1) + tensor("output", "OUT", "TYPE_INT32", 1)
              + tensor("output", "IDX", "TYPE_UINT32", 1),
}
FLOATS = ("-m", "floats", "--shape", "INPUT0:4")
# Short windows: what is tested here is that loads are measured, not that they are stable.
QUICK = ("-p", "100", "-r", "3", "-s", "100000")


def bench_raw(*arguments, environment=None):
    ended = subprocess.run([BUILD / "neso", "bench", *map(str, arguments)], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=SECONDS, check=False,
                           env={**os.environ, **(environment or {})})
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def address(server, protocol="http"):
    return ("-i", protocol, "-u", f"127.0.0.1:{server.port(protocol)}")


@pytest.fixture
def bench(server):
    """Runs it over a protocol; the results as --json gives them."""
    def run(*arguments, protocol="http", code=DONE):
        ended = bench_raw(*address(server, protocol), *arguments, "--json")
        assert ended[0] == code, ended
        return json.loads(ended[1])["loads"]
    return run


def executed(server, model):
    stats = requests.get(f"{server.url}/v2/models/{model}/stats", timeout=SECONDS).json()
    return stats["model_stats"][0]["inference_count"]


# ---- protocols ------------------------------------------------------------------------------------

@pytest.mark.parametrize("more", [("http",), ("http", "--input-tensor-format", "json"),
                                  ("http", "--output-tensor-format=json"),
                                  ("http", "--shared-memory", "system"), ("grpc",),
                                  ("grpc", "--shared-memory", "system"), ("grpc", "--streaming"),
                                  ("grpc", "--streaming", "--shared-memory=system"),
                                  ("grpc", "--connections=2"), ("http", "--threads=2"),
                                  ("grpc", "--threads=2"),
                                  ("grpc", "--grpc-compression-algorithm=gzip"),
                                  ("grpc", "--streaming", "--grpc-compression-algorithm=deflate")])
def test_each_request_is_executed_once(server, bench, more):
    before = executed(server, "floats")
    [load] = bench(*FLOATS, "-b", 3, "--concurrency-range", 5, "--request-count", 200, *more[1:],
                   protocol=more[0])
    assert (load["requests"], load["failed"], load["responses"]) == (200, 0, 200)
    assert load["latency_us"]["n"] == 200
    assert executed(server, "floats") - before == 600
    assert load["server_us"]["inferences"] == 600


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_megabytes(bench, protocol):
    """More than a window of HTTP/2, in both directions."""
    [load] = bench("-m", "floats", "--shape", "INPUT0:1000000", "--concurrency-range", 2,
                   "--request-count", 8, "--distinct=2", protocol=protocol)
    assert (load["requests"], load["failed"]) == (8, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_regions_are_removed(server, number):
    def regions():
        return [name for name in os.listdir("/dev/shm") if name.startswith("neso_bench_")]
    assert regions() == []
    bench = subprocess.Popen([BUILD / "neso", "bench", *address(server), *FLOATS, "--shared-memory",
                              "system", "-v", "-p", "100", "-s", "0", "-r", "10000"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert b"window 1" in bench.stderr.readline()
    status = requests.get(f"{server.url}/v2/systemsharedmemory/status", timeout=SECONDS).json()
    assert len(status) == 2 and len(regions()) == 2
    bench.send_signal(number)
    bench.stderr.read()
    assert bench.wait(SECONDS) == FAILED
    assert regions() == []
    status = requests.get(f"{server.url}/v2/systemsharedmemory/status", timeout=SECONDS).json()
    assert status == []


def test_a_hangup_that_is_ignored(server):
    bench = subprocess.Popen(["nohup", BUILD / "neso", "bench", *address(server), *FLOATS, "-v", "-p", "100", "-s", "0",
                              "-r", "4"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert b"window 1" in bench.stderr.readline()
    bench.send_signal(signal.SIGHUP)
    out, err = bench.communicate(timeout=SECONDS)
    assert (bench.returncode, b"window 4" in err, b"Interrupted" in out) == (DONE, True, False)


@pytest.mark.parametrize("silent", ["config", "register"])
def test_a_signal_before_the_load(silent):
    """The server does not answer a question: a signal ends the wait. What it may have registered is unregistered."""
    asked, paths = threading.Event(), []
    tensor_json = {"datatype": "INT32", "shape": [1]}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            paths.append(self.path)
            if self.path.endswith("/" + silent):
                asked.set()
                self.rfile.read(1)  # until the client closes
                return
            body = json.dumps({"name": "m", "versions": ["1"], "inputs": [{"name": "A", **tensor_json}],
                               "outputs": [{"name": "B", **tensor_json}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as stub:
        stub.daemon_threads = True
        threading.Thread(target=stub.serve_forever, args=(0.05,), daemon=True).start()
        running = subprocess.Popen([BUILD / "neso", "bench", "-u", f"127.0.0.1:{stub.server_address[1]}", "-m", "m",
                                    "--shared-memory", "system"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            assert asked.wait(SECONDS)
            running.send_signal(signal.SIGINT)
            assert running.wait(20) == UNREACHABLE  # a question has 30 s
            assert b"interrupted: no answer from" in running.stderr.read()
        finally:
            running.kill()
            running.wait()
        stub.shutdown()
    region = f"neso_bench_{running.pid}_in_0"
    assert not os.path.exists(f"/dev/shm/{region}")
    assert (f"/v2/systemsharedmemory/region/{region}/unregister" in paths) == (silent == "register")


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A server with TLS, client certificates and keys on both protocols."""
    folder = tmp_path_factory.mktemp("secured")
    ca = Authority(folder)
    ca.issue("server")
    ca.issue("client")
    (folder / "keys").write_text("secret: *\n")
    write_repository(folder / "models", {"floats": MODELS["floats"]})
    options = [f"--{name}-{what}" for name in ("http", "grpc") for what in (
        "use-ssl=true", f"server-cert={ca.cert('server')}", f"server-key={ca.key('server')}",
        f"root-cert={ca.root}")]
    running = Server(folder / "models", (*options, "--grpc-use-ssl-mutual=true"),
                     waits_for=("http", "grpc"))
    yield running, ca
    running.stop()


def test_tls(secured):
    server, ca = secured
    ways = {"http": ("--ssl-https-ca-certificates-file", ca.root, "--ssl-https-client-certificate-file",
                     ca.cert("client"), "--ssl-https-private-key-file", ca.key("client")),
            "grpc": ("--ssl-grpc-use-ssl", "--ssl-grpc-root-certifications-file", ca.root,
                     "--ssl-grpc-certificate-chain-file", ca.cert("client"),
                     "--ssl-grpc-private-key-file", ca.key("client"))}
    for protocol, options in ways.items():
        scheme = "https://" if protocol == "http" else ""
        place = ("-i", protocol, "-u", f"{scheme}localhost:{server.port(protocol)}")
        code, out, err = bench_raw(*place, *FLOATS, *options, "--request-count=50", "--json",
                                   "--concurrency-range=3")
        assert code == DONE, err
        assert json.loads(out)["loads"][0]["requests"] == 50
        # Without the authority the server's certificate is refused.
        code, _, err = bench_raw(*place, *FLOATS, "--ssl-grpc-use-ssl", "--request-count=1")
        assert code == UNREACHABLE and "no answer from" in err


def test_key_and_headers():
    """A small server keeps the headers of what it is asked, and refuses all of it."""
    seen = []

    class Refuse(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(dict(self.headers))
            self.send_response(401)
            self.send_header("Content-Length", "23")
            self.end_headers()
            self.wfile.write(b'{"error":"not for \\u0007"}')

        def log_message(self, *_):
            pass

    peer = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
    threading.Thread(target=peer.serve_forever, daemon=True).start()
    for arguments, environment in (("--key=sesame",), None), ((), {"NESO_API_KEY": "sesame"}):
        code, _, err = bench_raw("-m", "m", "-u", f"127.0.0.1:{peer.server_port}", *arguments, "-H",
                                 "X-Team: green", environment=environment)
        assert code == FAILED and "answered 401" in err
        assert seen[-1]["Authorization"] == "Bearer sesame"
        assert seen[-1]["X-Team"] == "green"
    peer.shutdown()


def test_headers_that_are_too_long():
    """They are refused, not left out."""
    code, _, err = bench_raw("-m", "m", "-u", "127.0.0.1:1", "-H", "X-Long: " + "x" * 70000)
    assert code == FAILED and "the text of all headers (-H, --key) is longer than 65536 bytes" in err


# ---- loads ------------------------------------------------------------------------------------------

def test_concurrency_range(bench):
    loads = bench(*FLOATS, "--concurrency-range", "1:4", *QUICK)
    assert [load["value"] for load in loads] == [1, 2, 3, 4]
    assert all(load["requests"] > 10 and load["failed"] == 0 for load in loads)
    assert all(load["mode"] == "concurrency" and load["seconds"] > 0 for load in loads)


@pytest.mark.parametrize("distribution", ["constant", "poisson"])
def test_request_rate_range(bench, distribution):
    """A machine that stalls near the end of a measurement delays requests out of it: one of three must keep the rates."""
    rates = [200, 400]
    off = []
    for _ in range(3):
        loads = bench(*FLOATS, "--request-rate-range", "200:400:200", "--request-distribution",
                      distribution, "-p", 500, "-r", 3, "-s", 100000)
        assert [load["value"] for load in loads] == rates
        assert all(load["mode"] == "request_rate" for load in loads)
        assert all(load["latency_us"]["mean"] >= load["from_send_us"]["mean"] for load in loads)
        assert all(load["rate"] / load["value"] < 1.3 for load in loads)
        off.append(max(abs(load["rate"] / load["value"] - 1) for load in loads))
        if off[-1] < 0.3:
            return
    assert min(off) < 0.3, off


def test_request_intervals(bench, tmp_path):
    (tmp_path / "intervals").write_text("1000\n9000\n")
    [load] = bench(*FLOATS, "--request-intervals", tmp_path / "intervals", "--request-count", 100)
    assert (load["requests"], load["value"]) == (100, 200)
    assert 0.4 < load["seconds"] < 5  # 100 requests at 200 a second


@pytest.mark.parametrize("threads, load, n", [(8, ("--concurrency-range", 1), 3),
                                              (4, ("--concurrency-range", 2), 50),
                                              (4, ("--concurrency-range", 8), 2),
                                              (16, ("--request-rate-range", 100), 10)])
def test_more_threads_than_a_load_has_parts(bench, threads, load, n):
    """The others have no part of the number of requests, nor of the time."""
    [load] = bench(*FLOATS, *load, "--request-count", n, "--threads", threads)
    assert (load["requests"], load["failed"]) == (n, 0)
    assert 0 < load["seconds"] < 10 and load["rate"] == pytest.approx(n / load["seconds"])


def test_a_load_of_a_number_of_requests_after_a_warm_up(server, bench):
    def count():
        stats = requests.get(f"http://127.0.0.1:{server.port('http')}/v2/models/floats/stats", timeout=SECONDS).json()
        return stats["model_stats"][0]["inference_stats"]["success"]["count"]

    before = count()
    [load] = bench(*FLOATS, "--concurrency-range", 3, "--request-count", 20, "--warmup-request-count", 7)
    assert (load["requests"], load["server_us"]["inferences"]) == (20, 20)
    assert count() - before == 27


def test_a_warm_up_that_is_larger_than_the_load(bench):
    """Its answers are those of more threads than the load has parts."""
    [load] = bench("-m", "one", "--request-parameter", "delay_ms:5:int", "--concurrency-range", 8, "--threads", 8,
                   "--request-count", 3, "--warmup-request-count", 16)
    assert (load["requests"], load["failed"], load["server_us"]["inferences"]) == (3, 0, 3)


def test_an_infinite_spread_is_null(server):
    """Of the windows of 50 ms the first two have an answer each, and the third one has none. JSON has no infinity."""
    assert_once(lambda out: '"rate_spread_percent":null' in out, *address(server), "-m", "one",
                "--request-parameter", "delay_ms:70:int", "-p", 50, "-r", 4, "--json")


def test_a_window_without_an_answer_is_explained(server):
    code, out, _ = bench_raw(*address(server), "-m", "one", "--request-parameter", "delay_ms:2000:int", "-p", 20,
                             "-r", 3)
    assert code == FAILED
    assert "load 1: no request was answered in a window of 20 ms; -p makes windows longer\n" in out


def test_count_windows_and_percentile(bench):
    """Each execution takes 20 ms, so three windows of 5 s would have 750 requests."""
    [load] = bench("-m", "one", "--request-parameter", "delay_ms:20:int", "--measurement-mode",
                   "count_windows", "--measurement-request-count", 30, "--percentile", 95, "-r", 3,
                   "-s", 100000)
    assert load["is_stable"] and 90 <= load["requests"] < 180


def bisected(loads, limit_us, low, high, step):
    """The loads that a search measures when their latencies are those of `loads`, and what it finds."""
    values, found, value = [], None, low
    for load in loads:
        values.append(value)
        is_within = load["latency_us"]["mean"] <= limit_us
        if is_within:
            found = low = value
        elif len(values) > 1:
            high = value
        else:
            break
        value = high if len(values) == 1 else low + step * int((high - low) / 2 / step)
        if value <= low or (value >= high and len(values) > 1):
            break
    return values, found


def test_binary_search(server):
    """Fifty milliseconds an execution, one at a time: 4 under way take 200 ms, 6 take 300. A machine that stalls
    makes answers late, and another load the highest: what is measured decides what must be found."""
    load = (*address(server), "-m", "one", "--request-parameter", "delay_ms:50:int", "-s", 100000, "-r", 3,
            "--measurement-mode=count_windows", "--measurement-request-count=8",
            "--warmup-request-count=6")
    search = (*load, "--binary-search", "--concurrency-range", "2:6:2")

    def result(*options):
        code, out, err = bench_raw(*options, "--json")
        assert code == DONE, err
        return json.loads(out)

    # Sleeps may be longer, but not shorter: the least load is beyond 80 ms, and none beyond a minute.
    for limit in (80, 250):
        got = result(*search, "-l", limit)
        values = [one["value"] for one in got["loads"]]
        assert (values, got.get("found")) == bisected(got["loads"], limit * 1000, 2, 6, 2), got
        assert limit == 250 or (values, got.get("found")) == ([2], None)
    loads = result(*load, "-l", 150, "--concurrency-range", "2:0:2")["loads"]
    assert [one["value"] for one in loads] == list(range(2, 2 * len(loads) + 1, 2))
    assert [one["latency_us"]["mean"] <= 150000 for one in loads] == [True] * (len(loads) - 1) + [False]
    code, out, err = bench_raw(*search, "-l", 60000)
    assert code == DONE, err
    assert "The highest load within 60000 ms is 6." in out


def assert_once(is_expected, *options):
    """A machine that stalls makes answers late: one of three runs must print what is expected."""
    printed = []
    for _ in range(3):
        code, out, err = bench_raw(*options)
        assert code == DONE, err
        if is_expected(out):
            return
        printed.append(out)
    raise AssertionError("\n".join(printed))


def test_unstable_results_are_printed(server):
    code, out, _ = bench_raw(*address(server), *FLOATS, "-p", 50, "-s", 0, "-r", 4)
    assert code == DONE
    assert "load 1 is not stable: the last windows differ by" in out
    assert "Concurrency: 1, throughput: " in out


# ---- inputs -----------------------------------------------------------------------------------------

def write_json(path, value):
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_expected_outputs(bench, tmp_path, protocol):
    data = {"data": [{"IN": [k]} for k in range(5)],
            "validation_data": [{"OUT": [k + 1]} for k in range(5)]}
    right = write_json(tmp_path / "right.json", data)
    [load] = bench("-m", "one", "--input-data", right, "-b", 2, "--request-count", 50,
                   protocol=protocol)
    assert (load["requests"], load["failed"]) == (50, 0)
    data["validation_data"][3]["OUT"] = [77]
    wrong = write_json(tmp_path / "wrong.json", data)
    [load] = bench("-m", "one", "--input-data", wrong, "--request-count", 50, protocol=protocol,
                   code=FAILED)
    assert (load["requests"], load["failed"]) == (40, 10)
    assert load["errors"] == [{"kind": "wrong output", "n": 10,
                               "text": "the output is not the expected one"}]


@pytest.mark.parametrize("more", [("http",), ("http", "--input-tensor-format=json"), ("grpc",),
                                  ("grpc", "--streaming")])
def test_texts(bench, tmp_path, more):
    file = write_json(tmp_path / "texts.json", {
        "data": [{"T": {"content": ["one", "", "drei"], "shape": [3]}}, {"T": ["\u00fc"]}],
        "validation_data": [{"T": {"content": ["one", "", "drei"], "shape": [3]}}, {"T": ["\u00fc"]}]})
    [load] = bench("-m", "texts", "--input-data", file, "--request-count", 20, *more[1:],
                   protocol=more[0])
    assert (load["requests"], load["failed"]) == (20, 0)
    for made in (("--string-length", 10), ("--string-data", "abc"), ("--input-data", "zero")):
        [load] = bench("-m", "texts", "--shape", "T:2", *made, "--request-count", 20, *more[1:],
                       protocol=more[0])
        assert (load["requests"], load["failed"]) == (20, 0)


def test_directory(bench, tmp_path):
    (tmp_path / "A").write_bytes(struct.pack("<2i", 5, -6))
    (tmp_path / "B").write_bytes(bytes([1, 2, 3]))
    [load] = bench("-m", "two", "--input-data", tmp_path, "--request-count", 20)
    assert (load["requests"], load["failed"]) == (20, 0)
    (tmp_path / "B").unlink()
    code = bench_raw("-m", "two", "--input-data", tmp_path)[0]
    assert code != DONE


def test_mistakes_name_file_entry_and_input(server, tmp_path):
    file = write_json(tmp_path / "short.json", {"data": [{"A": [1, 2], "B": [1, 2, 3]},
                                                          {"A": [1], "B": [1, 2, 3]}]})
    code, _, err = bench_raw(*address(server), "-m", "two", "--input-data", file)
    assert code == FAILED
    assert f"{file}: data[1].A: 'A' has 1 elements, its shape has 2" in err
    code, _, err = bench_raw(*address(server), "-m", "floats")
    assert code == FAILED and "--shape INPUT0:d,d,..." in err
    code, _, err = bench_raw(*address(server), *FLOATS, "-b", 9)
    assert code == FAILED and "max_batch_size of 8" in err
    code, _, err = bench_raw(*address(server), "-m", "nothing")
    assert code == FAILED and "nothing" in err


# ---- sequences, streams, ensembles ------------------------------------------------------------------

STREAMS = {"data": [[{"INPUT0": [1]}, {"INPUT0": [2]}, {"INPUT0": [3]}], [{"INPUT0": [10]}]],
           "validation_data": [[{"SUM": [1]}, {"SUM": [3]}, {"SUM": [6]}], [{"SUM": [10]}]]}


@pytest.mark.parametrize("more", [("http",), ("http", "--request-rate-range=2000"), ("grpc",),
                                  ("grpc", "--streaming"), ("grpc", "--request-rate-range=2000")])
def test_sequences(server, bench, tmp_path, more):
    """The sums are right only if each sequence is its own, begins, goes on in order and ends."""
    file = write_json(tmp_path / "streams.json", STREAMS)
    load_of = ("--concurrency-range=3",) if len(more) == 1 or "rate" not in more[1] else ()
    [load] = bench("-m", "sums", "--input-data", file, *load_of, *QUICK, *more[1:], protocol=more[0])
    assert load["requests"] > 20 and load["failed"] == 0
    live = requests.get(f"{server.url}/v2/models/sums/sequences", timeout=SECONDS)
    if live.status_code == 200:
        assert live.json().get("sequences", []) == []


def test_sequence_ids(bench, tmp_path):
    """All are used. A busy machine may hold one sequence for some milliseconds, so there are many requests."""
    profile = tmp_path / "profile.json"
    [load] = bench("-m", "sums", "--sequence-id-range", "10:14", "--sequence-length", 5,
                   "--sequence-length-variation", 0, "--concurrency-range", 2, "--request-count", 1000,
                   "--profile-export-file", profile)
    assert load["failed"] == 0 and load["requests"] >= 1000
    [experiment] = json.loads(profile.read_text())["experiments"]
    ids = [request["sequence_id"] for request in experiment["requests"]]
    assert set(ids) == {10, 11, 12, 13}


def test_ids_of_live_sequences_are_left_out(server, bench, tmp_path):
    """A long sequence keeps its id while the others use all ids many times: its sum is right."""
    file = write_json(tmp_path / "long.json", {
        "data": [[{"INPUT0": [1]}] * 60] + [[{"INPUT0": [5]}]] * 100,
        "validation_data": [[{"SUM": [k]} for k in range(1, 61)]] + [[{"SUM": [5]}]] * 100})
    [load] = bench("-m", "sums", "--input-data", file, "--sequence-id-range", "10:13", "--concurrency-range", 2,
                   "--request-count", 150)
    assert load["requests"] >= 150 and load["failed"] == 0
    code, _, err = bench_raw(*address(server), "-m", "sums", "--sequence-id-range", "10:12",
                             "--concurrency-range", 3)
    assert code == FAILED and "--sequence-id-range has 2 ids, for 3 sequences at a time" in err


@pytest.mark.parametrize("more", [("gzip",), ("deflate", "--streaming")])
def test_compressed_sequences(bench, tmp_path, more):
    """Each request is compressed with its own id and flags: the sums are right."""
    file = write_json(tmp_path / "streams.json", STREAMS)
    [load] = bench("-m", "sums", "--input-data", file, "--concurrency-range", 3, "--request-count", 40,
                   f"--grpc-compression-algorithm={more[0]}", *more[1:], protocol="grpc")
    assert load["requests"] >= 40 and load["failed"] == 0


def test_sequence_length_beyond_the_data(bench, tmp_path):
    """The data of a sequence is repeated up to the length that is asked for."""
    file = write_json(tmp_path / "streams.json", {"data": STREAMS["data"]})
    profile = tmp_path / "profile.json"
    [load] = bench("-m", "sums", "--input-data", file, "--sequence-length", 5, "--sequence-length-variation", 0,
                   "--request-count", 20, "--profile-export-file", profile)
    assert (load["requests"], load["failed"]) == (20, 0)
    [experiment] = json.loads(profile.read_text())["experiments"]
    ids = [request["sequence_id"] for request in experiment["requests"]]
    assert sorted(ids) == sorted([1, 2, 3, 4] * 5)


def test_decoupled(server, bench, tmp_path):
    """`repeat` answers as often as IN has elements, and not at all for none."""
    file = write_json(tmp_path / "repeat.json", {"data": [
        {"IN": {"content": [1] * n, "shape": [n]}, "DELAY": {"content": [0] * n, "shape": [n]},
         "WAIT": [0]} for n in (3, 0, 1)]})
    profile = tmp_path / "profile.json"
    [load] = bench("-m", "repeat", "--streaming", "--input-data", file, "--request-count", 30,
                   "--concurrency-range", 2, "--profile-export-file", profile, protocol="grpc")
    assert (load["requests"], load["failed"], load["responses"]) == (30, 0, 40)
    [experiment] = json.loads(profile.read_text())["experiments"]
    lengths = sorted(len(request["response_timestamps"]) for request in experiment["requests"])
    assert lengths == [0] * 10 + [1] * 10 + [3] * 10
    code, _, err = bench_raw(*address(server), "-m", "repeat", "--input-data", file)
    assert code == FAILED and "it needs -i grpc --streaming" in err


def repeats(tmp_path, lengths, delay_ms=0, last_ms=None):
    """Data of `repeat`: so many responses, each after a delay."""
    last_ms = delay_ms if last_ms is None else last_ms
    return write_json(tmp_path / "repeats.json", {"data": [
        {"IN": {"content": [1] * n, "shape": [n]},
         "DELAY": {"content": [delay_ms] * (n - 1) + [last_ms], "shape": [n]},
         "WAIT": [0]} for n in lengths]})


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_language(server, bench, tmp_path, protocol):
    """Responses of 5 ms each, over streams of gRPC and as events of HTTP."""
    file = repeats(tmp_path, (4, 2), delay_ms=5)
    [load] = bench("-m", "repeat", "--language", "--input-data", file, "--request-count", 20,
                   "--concurrency-range", 2, protocol=protocol)
    assert (load["requests"], load["failed"], load["responses"]) == (20, 0, 60)
    assert (load["first_response_us"]["n"], load["between_responses_us"]["n"]) == (20, 40)
    assert load["first_response_us"]["min"] >= 5000
    assert load["between_responses_us"]["mean"] >= 4000
    assert abs(load["responses_rate"] / (60 / load["seconds"]) - 1) < 0.01
    code, out, err = bench_raw(*address(server, protocol), "-m", "repeat", "--language", "--input-data",
                               file, "--request-count", 4)
    assert code == DONE, err
    assert "Responses, to the first one and from each to the next:\n" in out
    assert "RESPONSES/S  A REQUEST  FIRST P50" in out and "BETWEEN P99" in out


def test_language_of_a_plain_model(bench, tmp_path):
    """generate_stream of a model that answers once; texts, and an error that an event reports."""
    [load] = bench("-m", "texts", "--language", "--shape", "T:2", "--request-count", 12)
    assert (load["requests"], load["failed"], load["responses"]) == (12, 0, 12)
    assert load["between_responses_us"]["n"] == 0
    file = write_json(tmp_path / "unlucky.json", {"data": [{"IN": [7]}, {"IN": [1]}]})
    [load] = bench("-m", "unlucky", "--language", "--input-data", file, "--request-count", 20)
    assert (load["requests"], load["failed"]) == (10, 10)
    [error] = load["errors"]
    assert error["n"] == 10 and "value 7" in error["text"]


@pytest.mark.parametrize("protocol, event", [("http", "--language"), ("grpc", "--streaming")])
def test_periodic_concurrency(server, bench, tmp_path, protocol, event):
    """Two requests, and two more each time that the last ones have three responses; each is sent once."""
    # The last response is far from the third one, also on a machine that stalls.
    file, profile = repeats(tmp_path, (6,), delay_ms=20, last_ms=2000), tmp_path / "profile.json"
    [load] = bench("-m", "repeat", event, "--input-data", file, "--periodic-concurrency-range", "2:6:2",
                   "--request-period", 3, "--profile-export-file", profile, protocol=protocol)
    assert (load["value"], load["requests"], load["failed"], load["responses"]) == (6, 6, 0, 36)
    [experiment] = json.loads(profile.read_text())["experiments"]
    sent = sorted(experiment["requests"], key=lambda request: request["timestamp"])
    for group in range(1, 3):
        third = [request["response_timestamps"][2] for request in sent[2 * group - 2:2 * group]]
        assert all(request["timestamp"] >= max(third) - 1000000 for request in sent[2 * group:2 * group + 2])
        last = max(request["response_timestamps"][5] for request in sent[2 * group - 2:2 * group])
        assert sent[2 * group]["timestamp"] < last
    # Requests with fewer responses than the period do not stop the growth.
    file = repeats(tmp_path, (6,))
    [load] = bench("-m", "repeat", event, "--input-data", file, "--periodic-concurrency-range", "1:3:1",
                   "--request-period", 50, protocol=protocol)
    assert (load["requests"], load["responses"]) == (3, 18)


def test_ensemble(server, bench, tmp_path):
    out = tmp_path / "out.csv"
    [load] = bench("-m", "line", "--request-count", 60, "-f", out)
    assert load["server_us"]["inferences"] == 60
    assert {name: phases["inferences"] for name, phases in load["steps_us"].items()} == {
        "one": 60, "ten": 60}
    assert sorted(os.listdir(tmp_path)) == ["one_v1.out.csv", "out.csv", "ten_v1.out.csv"]
    [row] = csv.DictReader((tmp_path / "ten_v1.out.csv").open())
    assert float(row["Inferences/Second"]) > 0


def test_chain(bench):
    [load] = bench("-m", "pipe", "--request-count", 30)
    assert {name: phases["inferences"] for name, phases in load["steps_us"].items()} == {
        "one": 30, "ten": 30}


def test_metrics(server, bench):
    place = f"127.0.0.1:{server.port('metrics')}/metrics"
    [load] = bench(*FLOATS, *QUICK, "--collect-metrics", "--metrics-url", place, "--metrics-interval=20")
    assert 0 < load["metrics"]["nv_cpu_memory_used_bytes"] < load["metrics"][
        "nv_cpu_memory_total_bytes"]
    assert not any("nv_inference_count" in name for name in load["metrics"])  # a counter
    code, out, _ = bench_raw(*address(server), *FLOATS, *QUICK, "--collect-metrics", "--metrics-url", place)
    assert code == DONE and "mean nv_cpu_memory_used_bytes " in out
    code, _, err = bench_raw(*address(server), *FLOATS, "--collect-metrics", "--metrics-url", "127.0.0.1:1/x")
    assert code == UNREACHABLE and "--collect-metrics" in err


# ---- files and exit codes ----------------------------------------------------------------------------

COLUMNS = ["Inferences/Second", "Client Send", "Network+Server Send/Recv", "Server Queue",
           "Server Compute Input", "Server Compute Infer", "Server Compute Output", "Client Recv",
           "p50 latency", "p90 latency", "p95 latency", "p99 latency"]


def test_csv(bench, tmp_path):
    out = tmp_path / "out.csv"
    bench(*FLOATS, "--concurrency-range", "1:2", *QUICK, "-f", out)
    rows = list(csv.reader(out.open()))
    assert rows[0] == ["Concurrency", *COLUMNS]
    assert [row[0] for row in rows[1:]] == ["1", "2"]
    bench(*FLOATS, "--request-rate-range", "100", *QUICK, "-f", out, "--verbose-csv")
    rows = list(csv.reader(out.open()))
    assert rows[0] == ["Request Rate", *COLUMNS, "Avg latency", "request/response", "response wait"]
    assert float(rows[1][9]) <= float(rows[1][12])  # p50, p99
    bench("-m", "cached", "--request-count", 20, "--distinct=1", "-f", out)
    [row] = csv.DictReader(out.open())
    assert "Server Cache Hit" in row and "Server Cache Miss" in row


def test_profile(bench, server, tmp_path):
    profile = tmp_path / "profile.json"
    bench(*FLOATS, "--request-count", 25, "--profile-export-file", profile)
    whole = json.loads(profile.read_text())
    assert whole["service_kind"] == "triton"
    assert whole["endpoint"] == f"127.0.0.1:{server.http_port}"
    [experiment] = whole["experiments"]
    assert experiment["experiment"] == {"mode": "concurrency", "value": 1.0}
    assert len(experiment["requests"]) == 25
    begin, end = experiment["window_boundaries"]
    for request in experiment["requests"]:
        [answered] = request["response_timestamps"]
        assert begin <= request["timestamp"] < answered <= end


def test_report(server, bench, tmp_path):
    """One file without a script or a reference to another, which an XML parser accepts, with four plots."""
    page = tmp_path / "report.html"
    loads = bench("-m", "line", "--concurrency-range", "1:3", *QUICK, "--report", page)
    text = page.read_text()
    assert not re.search(r"<script|<link|<img|src=|href=|url\(|@import", text)
    body = ElementTree.fromstring(text[text.index("<body>"):text.index("</html>")])
    rows = [[cell.text for cell in row] for row in body.iter("tr")]
    assert [row[0] for row in rows] == ["requests under way", "1", "2", "3"]
    assert [row[1] for row in rows[1:]] == [f"{load['rate']:.1f}" for load in loads]
    plots = {plot.find("title").text: plot for plot in body.iter("svg")}
    assert list(plots) == ["Latency over the load", "Rate over the load",
                           "Phases of a request, mean (rest: network, protocols)",
                           "Latency of each window over time"]
    assert len(list(plots["Latency over the load"].iter("circle"))) == 4 * 3
    bars = [rect for rect in list(plots.values())[2].iter("rect") if rect.find("title") is not None]
    assert len(bars) == 5 * 3
    assert len(list(plots["Latency of each window over time"].iter("circle"))) == 2 * 3 * 3
    # What a server says is text of the page.
    file = write_json(tmp_path / "unlucky.json", {"data": [{"IN": [7]}]})
    bench("-m", "unlucky", "--input-data", file, "--request-count", 5, "--report", page, code=FAILED)
    assert "load 1: 5 x status 500" in page.read_text()
    code, _, err = bench_raw(*address(server), *FLOATS, "--request-count", 5, "--report",
                             tmp_path / "none" / "x.html")
    assert code == FAILED and "unable to write" in err


def test_errors_by_kind(server, bench, tmp_path):
    file = write_json(tmp_path / "unlucky.json", {"data": [{"IN": [7]}, {"IN": [1]}]})
    for protocol, status in ("http", 500), ("grpc", 13):
        [load] = bench("-m", "unlucky", "--input-data", file, "--request-count", 20,
                       protocol=protocol)
        assert (load["requests"], load["failed"]) == (10, 10)
        [error] = load["errors"]
        assert (error["kind"], error["n"]) == (f"status {status}", 10)
        assert "value 7" in error["text"]
    code, out, _ = bench_raw(*address(server), "-m", "unlucky", "--input-data", file,
                             "--request-count", 20, "--fail-if", "errors>5")
    assert code == LIMIT and "10 x status 500" in out


def test_the_page_names_what_is_refused():
    """docs/measuring.md says "refused by name" once, and each option there is."""
    page = (ROOT / "docs" / "measuring.md").read_text()
    assert page.count("refused by name") == 1
    row = page[page.index("refused by name"):].split("\n")[0]
    options = re.findall(r"`(--[^`]+)`", row)
    assert options == ["--bls-composing-models", "--service-kind=triton_c_api", "--model-repository",
                       "--trace-level"]
    for option in options:
        code, _, err = bench_raw("-m", "m", option if "=" in option else f"{option}=1")
        assert code == USAGE and "not supported" in err and option.split("=")[0] in err, option


def test_exit_codes(server, tmp_path):
    place = (*address(server), *FLOATS, "--request-count", 20)
    assert bench_raw(*place, "--fail-if", "p99>100s")[0] == DONE
    code, _, err = bench_raw(*place, "--fail-if", "p99>1ns", "--fail-if", "rate<1")
    assert code == LIMIT and "p99>1ns" in err and "rate<1" not in err
    file = write_json(tmp_path / "unlucky.json", {"data": [{"IN": [7]}]})
    code, _, err = bench_raw(*address(server), "-m", "unlucky", "--input-data", file, "--request-count", 5,
                             "--fail-if", "p99>100s", "--fail-if", "mean<1ms")
    assert code == LIMIT and "p99>100s" in err and "mean<1ms" not in err  # no answer has no latency
    assert bench_raw("-m", "m", "--nonsense")[0] == USAGE
    assert bench_raw()[0] == USAGE
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        code, _, err = bench_raw("-m", "m", "-u", f"127.0.0.1:{free.getsockname()[1]}")
    assert code == UNREACHABLE and "no connection to the server" in err


@pytest.mark.parametrize("option, text", [("--latency-threshold=18446744073710", "--latency-threshold: at most a day"),
                                          ("--metrics-interval=18446744073710", "--metrics-interval: 1 ms to a day"),
                                          ("--metrics-interval=0", "--metrics-interval: 1 ms to a day"),
                                          ("--measurement-interval=86400001",
                                           "--measurement-interval: 1 ms to a day")])
def test_times_have_limits(option, text):
    """The nanoseconds of the first two have more than 64 bits."""
    code, _, err = bench_raw("-m", "m", option)
    assert code == USAGE and text in err


@pytest.mark.parametrize("option", ["--trace-level=OFF", "--service-kind=triton_c_api"])
def test_what_is_missing_is_refused_by_name(option):
    code, _, err = bench_raw("-m", "m", option)
    assert code == USAGE
    assert option.split("=")[0] in err and "not supported" in err


def test_server_that_goes_away(tmp_path):
    """The load ends in time, and what was measured before is printed."""
    write_repository(tmp_path, {"floats": MODELS["floats"]})
    server = Server(tmp_path)
    bench = subprocess.Popen([BUILD / "neso", "bench", *address(server), *FLOATS, "-v", "-p", "100",
                              "-s", "0", "-r", "10000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert b"window 1" in bench.stderr.readline()
    server.stop()
    out, err = bench.communicate(timeout=SECONDS)
    # A server that stops refuses the question for statistics before it is gone.
    assert bench.returncode in (FAILED, UNREACHABLE), err
    assert b"no answer from" in err or b"is not available" in err or b" answered " in err
    assert b"Concurrency: 1, throughput: " in out


# ---- command lines of the reference's documentation ---------------------------------------------------

@pytest.mark.parametrize("arguments", [
    "-m one -b 4 --concurrency-range 1:2",
    "-m one --percentile=95 --concurrency-range 1:2",
    "-m one -i grpc --concurrency-range 2 --async",
    "-m one -t 2 -v",
    "-m one --sync --max-threads 4",
    "-m floats --shape INPUT0:16 --input-data zero -z",
    "-m one --request-rate-range=100 --request-distribution poisson",
    "-m sums --num-of-sequences 2 --sequence-length 4 --request-rate-range 200",
    "-m sums --concurrency-range 2 --sequence-length=3 --serial-sequences",
    "-m one --measurement-mode count_windows -s 50 -a",
    "-m one --service-kind triton --model-version 1 -x 1",
])
def test_documented_command_lines(server, arguments):
    arguments = arguments.replace("--model-version 1 ", "").split()
    protocol = "grpc" if "grpc" in arguments else "http"
    code, out, err = bench_raw(*arguments, "-u", f"127.0.0.1:{server.port(protocol)}", "-p", "100",
                               "-r", "3")
    assert code == DONE, err
    assert "infer/sec, latency" in out


def test_help():
    code, out, _ = bench_raw("--help")
    assert code == DONE
    for option in ("-m, --model-name", "--concurrency-range", "--request-rate-range", "--fail-if"):
        assert option in out
