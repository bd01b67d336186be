# SPDX-License-Identifier: BSD-3-Clause
"""What `neso ctl` prints for answers that are given here, to the letter."""
import http.server
import json
import subprocess
import threading

import pytest

from conftest import BUILD, require_build


def total(count, ns):
    return {"count": count, "ns": ns}


def model(name, version, stats, **more):
    kinds = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output",
             "cache_hit")
    return {"name": name, "version": version, **more,
            "inference_stats": {kind: total(*one) for kind, one in zip(kinds, stats)}}


DIGITS = model("digits", "1", [(204, 267240000), (2, 10), (204, 42840000), (204, 836400),
                               (204, 208080000), (204, 1203600), (0, 0)],
               inference_count=612, execution_count=188,
               batch_stats=[{"batch_size": 1, "compute_input": total(40, 40000),
                             "compute_infer": total(40, 4000000),
                             "compute_output": total(40, 99999)},
                            {"batch_size": 4, "compute_input": total(148, 1),
                             "compute_infer": total(148, 148), "compute_output": total(0, 0)}],
               members=[{"name": "m_0", "min_rows": 1, "max_rows": 1, "instances": 2, "busy": 1,
                         "execution_count": 10, "row_count": 10, "busy_ns": 123456789},
                        {"name": "m_1", "min_rows": 2, "max_rows": 8, "instances": 1, "busy": 0,
                         "execution_count": 0, "row_count": 0, "busy_ns": 0}])
IDLE = model("idle\n", "2", [(0, 0)] * 6 + [(7, 5)], inference_count=0, execution_count=0,
             batch_stats=[])


def sequence(number, requests=0, idle_us=1500, **more):
    return {"id": number, "requests": requests, "age_us": 4711, "idle_us": idle_us, **more}


SEQUENCES = [
    {"name": "s", "version": "1", "retired": False, "active": 2, "backlog": 1, "left_out": 5,
     "sequences": [sequence(7, 1, instance="s_0", slot=0, ending=False),
                   sequence("text", instance="s_1", slot=12, ending=True),
                   sequence(2 ** 64 - 1)]},
    {"sequences": [sequence(1, 2, instance="s_0", slot=3), sequence(2),
                   sequence(3, instance="s_1", slot=1, ending=True)],
     "name": "s", "version": "2", "retired": True, "active": 2, "backlog": 1, "left_out": 0}]

STACKS = [{"name": "m_0", "process": {"pid": 4711, "executing_ms": 8012, "cut": False,
                                      "stacks": "Thread 0x1:\n  File \"x\u001b[2J\"\n"}},
          {"name": "m_1", "error": "Stub process 'm_1' is not healthy."},
          {"name": "m_2", "process": {"pid": 12, "executing_ms": 0, "cut": True, "stacks": "a"}}]

ENSEMBLE = {"name": "ens", "input": [{"name": "RAW"}], "output": [{"name": "OUT"}],
            "ensemble_scheduling": {"step": [
                {"model_name": "pre", "model_version": -1, "input_map": {"IN": "RAW"},
                 "output_map": {"MID": "mid"}},
                {"model_name": "net", "model_version": 3, "input_map": {"X": "mid", "Y": "RAW"},
                 "output_map": {"Z": "OUT"}}]}}

GPUS = [{"device": 0, "name": "H100", "uuid": "GPU-0a", "compute_capability": "9.0", "memory_total_bytes": 85899345920,
         "utilization": 0.254, "memory_used_bytes": 1073741824, "power_watts": 75.4, "power_limit_watts": 300,
         "pool_total_bytes": 67108864, "pool_used_bytes": 1048576},
        {"device": 1, "name": "T4", "uuid": "GPU-0b", "compute_capability": "7.5", "memory_total_bytes": 16777216000,
         "power_watts": 9, "pool_total_bytes": 0, "pool_used_bytes": 0}]

CASES = {
    ("gpus",): ("/v2/gpus", {"gpus": GPUS}, """\
GPU  NAME  CC    USE  MEMORY MiB  USED MiB  POOL MiB  USED MiB     WATTS  UUID
  0  H100  9.0  25 %       81920      1024        64         1  75 / 300  GPU-0a
  1  T4    7.5             16000                   0         0         9  GPU-0b
"""),
    ("stats",): ("/v2/models/stats", {"model_stats": [DIGITS, IDLE]}, """\
MODEL   VERSION   OK  FAILED  CACHED  INFERENCES  RUNS  MEAN BATCH    TOTAL   QUEUE    INPUT    INFER   OUTPUT  BATCHES
digits  1        204       2                 612   188        3.26  1.31 ms  210 us  4.10 us  1.02 ms  5.90 us  1:40 4:148
idle    2          0       0       7           0     0           -        -       -        -        -        -
"""),
    ("stats", "digits"): ("/v2/models/digits/stats", {"model_stats": [DIGITS]}, """\
MODEL   VERSION   OK  FAILED  INFERENCES  RUNS  MEAN BATCH    TOTAL   QUEUE    INPUT    INFER   OUTPUT  BATCHES
digits  1        204       2         612   188        3.26  1.31 ms  210 us  4.10 us  1.02 ms  5.90 us  1:40 4:148

digits, version 1, by size of batch:
BATCH  RUNS    INPUT   INFER   OUTPUT
    1    40  1.00 us  100 us  2.50 us
    4   148     0 ns    1 ns        -
"""),
    ("members", "digits"): ("/v2/models/digits/stats", {"model_stats": [DIGITS]}, """\
VERSION  MEMBER  BATCHES  INSTANCES  BUSY  EXECUTIONS  ROWS    TIME     MEAN
1        m_0           1          2     1          10    10  123 ms  12.3 ms
1        m_1         2-8          1     0           0     0       0        -
"""),
    ("members", "idle"): ("/v2/models/idle/stats", {"model_stats": [IDLE]}, """\
model 'idle' has no members: its instances take all batch sizes
"""),
    ("sequences", "s"): ("/v2/models/s/sequences", {"model_sequences": SEQUENCES}, """\
VERSION  ID                    INSTANCE  SLOT  REQUESTS      AGE     IDLE  STATE
1        7                     s_0          0         1  4.71 ms        -
1        "text"                s_1         12         0  4.71 ms  1.50 ms  ending
1        18446744073709551615                         0  4.71 ms  1.50 ms  backlog
2        1                     s_0          3         2  4.71 ms        -  on an old load
2        2                                            0  4.71 ms  1.50 ms  backlog of an old load
2        3                     s_1          1         0  4.71 ms  1.50 ms  ending, on an old load
4 with a slot, 2 in the backlog; 5 are not listed
"""),
    ("sequences", "n"): ("/v2/models/n/sequences", {"model_sequences": [
        {"name": "n", "version": "1", "retired": False, "active": 0, "backlog": 0,
         "sequences": [], "left_out": 0}]}, "0 with a slot, 0 in the backlog\n"),
    ("stacks", "m"): ("/v2/models/m/stacks", {"name": "m", "instances": STACKS}, """\
== m_0: process 4711, executing for 8.01 s
Thread 0x1:
  File "x?[2J"

== m_1: Stub process 'm_1' is not healthy.

== m_2: process 12, not executing
a
... (cut)
"""),
    ("metadata", "digits"): ("/v2/models/digits", {
        "name": "digits", "versions": ["1", "3"],
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 28, 28]}],
        "outputs": [{"name": "t", "datatype": "BYTES", "shape": []}]}, """\
name      digits
versions  1, 3

        NAME   TYPE   SHAPE
input   image  FP32   [-1,1,28,28]
output  t      BYTES  []
"""),
    ("graph", "ens"): ("/v2/models/ens/config", ENSEMBLE, """\
ensemble ens

STEP  MODEL  VERSION
1     pre    latest
2     net    3

FROM        TO
client.RAW  1:pre.IN
1:pre.MID   2:net.X
client.RAW  2:net.Y
2:net.Z     client.OUT
"""),
}


class Canned(http.server.BaseHTTPRequestHandler):
    """Gives one answer on one path."""

    def do_GET(self):  # pylint: disable=invalid-name
        path, body = self.server.answer
        assert self.path == path
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


def ctl(arguments, path, body):
    require_build(())
    with http.server.HTTPServer(("127.0.0.1", 0), Canned) as server:
        server.answer = path, body
        answering = threading.Thread(target=server.handle_request, daemon=True)
        answering.start()
        ended = subprocess.run([BUILD / "neso", "ctl", *arguments,
                                f"--url=http://127.0.0.1:{server.server_port}"],
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=30,
                               check=False)
        answering.join(30)
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


@pytest.mark.parametrize("arguments", CASES, ids=" ".join)
def test_what_is_printed(arguments):
    path, answer, printed = CASES[arguments]
    body = json.dumps(answer, separators=(",", ":")).encode()
    assert ctl(arguments, path, body) == (0, printed, "")
    assert ctl([*arguments, "--json"], path, body) == (0, body.decode() + "\n", "")


def test_control_characters_of_a_server():
    """A terminal would obey them."""
    stats = {"model_stats": [{"name": "\x1b[2J\x9b", "version": "1", "batch_stats": [{"batch_size": 1}]}]}
    code, out, err = ctl(["stats", "m"], "/v2/models/m/stats", json.dumps(stats).encode())
    assert (code, err) == (0, "")
    assert "?[2J??, version 1, by size of batch:" in out
    code, out, _ = ctl(["config", "m"], "/v2/models/m/config", '{"a":"\x7f\x9b31m"}'.encode())
    assert (code, out) == (0, '{\n  "a": "???31m"\n}\n')
    assert ctl(["gpus"], "/v2/gpus", b"\x1b")[1] == ""


@pytest.mark.parametrize("body, why", [
    (b"<html>", "Invalid value. at 0"),
    (b'{"model_stats":[{"name":"a"]', "Missing a comma or } after an object member. at 27"),
    (b"[]", "attempt to access JSON non-object as object at 0"),
])
def test_answers_that_are_no_answers(body, why):
    """No part of them is shown as if it were one."""
    for arguments in (["stats", "m"], ["members", "m"]):
        assert ctl(arguments, "/v2/models/m/stats", body) == (
            1, "", f"neso ctl: the server's answer cannot be understood: {why}\n")
