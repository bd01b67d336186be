# SPDX-License-Identifier: BSD-3-Clause
"""Command lines of the documentation of perf_analyzer, unchanged but for the name of the program: each runs, and
prints or writes what is beside it. The address and short windows are appended. The models have the names and
the tensors of that documentation."""
import base64
import csv
import json
import re
import shlex
import struct
import subprocess

import pytest

from conftest import BUILD, patience, write_repository
from test_bench import parameter, step, tensor

BACKENDS = ("identity", "testing", "repeat")
OPTIONS = ("--allow-client-shm=true",)
TAKES_SECONDS = 40
SECONDS = patience(120)


def identity(*tensors, batch=8):
    """Tensors: (input, output, type, dims)."""
    return (f'backend: "identity"\nmax_batch_size: {batch}\n'
            + "".join(tensor("input", name, kind, dims) + tensor("output", to, kind, dims)
                      for name, to, kind, dims in tensors))


def adding(number):
    return ('backend: "testing"\nmax_batch_size: 8\n' + tensor("input", "IN", "TYPE_INT32", 1)
            + tensor("output", "OUT", "TYPE_INT32", 1) + parameter("add", number))


SEQUENCE = ('backend: "testing"\n' + tensor("input", "INPUT0", "TYPE_INT32", 1)
            + tensor("output", "SUM", "TYPE_INT32", 1)
            + "sequence_batching { max_sequence_idle_microseconds: 60000000 }\ninstance_group { count: 8 }\n")
MODELS = {
    "simple": identity(("INPUT0", "OUTPUT0", "TYPE_INT32", 16), ("INPUT1", "OUTPUT1", "TYPE_INT32", 16)),
    "inception_graphdef": identity(("input", "output", "TYPE_FP32", "29, 29, 3"), batch=128),
    "resnet50_libtorch": identity(("INPUT__0", "OUTPUT__0", "TYPE_FP32", "3, 22, 22")),
    "mymodel": identity(("IMAGE", "OUT", "TYPE_FP32", "3, -1, -1")),
    "four_by_four": identity(("INPUT0", "OUTPUT0", "TYPE_INT32", "4, 4"), ("INPUT1", "OUTPUT1", "TYPE_INT32", "4, 4")),
    "variable": identity(("INPUT", "OUTPUT", "TYPE_INT32", "-1, -1")),
    "texts": identity(("INPUT", "OUTPUT", "TYPE_STRING", 1)),
    "simple_sequence": SEQUENCE,
    "preprocess": adding(1),
    "classify": adding(10),
    "preprocess_inception_ensemble": 'platform: "ensemble"\nmax_batch_size: 8\n'
        + tensor("input", "X", "TYPE_INT32", 1) + tensor("output", "Y", "TYPE_INT32", 1)
        + "ensemble_scheduling {\n" + step("preprocess", {"IN": "X"}, {"OUT": "T"})
        + step("classify", {"IN": "T"}, {"OUT": "Y"}) + "}\n",
    "repeat_int32": 'backend: "repeat"\nmodel_transaction_policy { decoupled: true }\n'
        + tensor("input", "IN", "TYPE_INT32", -1) + tensor("input", "DELAY", "TYPE_UINT32", -1)
        + tensor("input", "WAIT", "TYPE_UINT32", 1) + tensor("output", "OUT", "TYPE_INT32", 1)
        + tensor("output", "IDX", "TYPE_UINT32", 1),
}
ONES = [1] * 16
RAW = {"b64": base64.b64encode(struct.pack("<16i", *ONES)).decode()}
FILES = {
    "real_input_data.json": {"data": [{"INPUT0": ONES, "INPUT1": ONES}] * 4},
    "base64.json": {"data": [{"INPUT0": RAW, "INPUT1": RAW}] * 3},
    "validation.json": {"data": [{"INPUT0": ONES, "INPUT1": ONES}],
                        "validation_data": [{"OUTPUT0": ONES, "OUTPUT1": ONES}]},
    "shapes.json": {"data": [{"INPUT": {"content": ONES, "shape": [2, 8]}},
                             {"INPUT": {"content": ONES, "shape": [8, 2]}}, {"INPUT": {"content": ONES}},
                             {"INPUT": {"content": ONES, "shape": [4, 4]}}]},
    "streams.json": {"data": [[{"INPUT0": [k]} for k in range(1, n + 1)] for n in (4, 3, 2)]},
    "repeat.json": {"data": [{"IN": {"content": [1] * 12, "shape": [12]}, "WAIT": [0],
                              "DELAY": {"content": [1] * 12, "shape": [12]}}]},
    "intervals.txt": "1000\n2000\n5000\n",
}


def summary(mode, *loads):
    """The last lines, which scripts read."""
    return "".join(rf"^{mode}: {load}, throughput: [0-9.]+ infer/sec, latency [1-9][0-9]* usec\n" for load in loads)


def concurrency(*loads):
    return summary("Concurrency", *loads)


COLUMNS = ("Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
           "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency")
RATE_COLUMNS = COLUMNS.replace("Concurrency", "Request Rate")

# The command line, and patterns of what it prints.
LINES = [
    # Quick start.
    ("perf_analyzer -m simple", concurrency(1)),
    ("perf_analyzer -m inception_graphdef --percentile=95 --concurrency-range 1:4", concurrency(1, 2, 3, 4)),
    ("perf_analyzer -m inception_graphdef -i grpc --percentile=95 --concurrency-range 1:2", concurrency(1, 2)),
    ("perf_analyzer -m inception_graphdef -i gRPC --concurrency-range 2", concurrency(2)),
    ("perf_analyzer -m inception_graphdef --concurrency-range 1:4:3 -b 4", concurrency(1, 4)),
    ("perf_analyzer -m simple -x 1 -v -v", concurrency(1)),
    ("perf_analyzer -m simple --concurrency-range=4 --async", concurrency(4)),
    ("perf_analyzer -m simple --sync --max-threads=2", concurrency(1)),
    ("perf_analyzer -m simple --measurement-mode=count_windows --measurement-request-count=20", concurrency(1)),
    ("perf_analyzer -m simple --request-count=100 --warmup-request-count=10", concurrency(1)),
    ("perf_analyzer -m simple --concurrency-range=1:4:1 --binary-search --latency-threshold 10000",
     "The highest load within 10000 ms is 4"),
    ("perf_analyzer -m simple -t 2 -z", concurrency(2)),
    ("perf_analyzer -m simple -d -c 2 -l 10000", concurrency(1, 2)),
    ("perf_analyzer -m simple -H X-Team:green --service-kind=triton", concurrency(1)),
    # Rates.
    ("perf_analyzer -m simple --request-rate-range=20", summary("Request Rate", 20)),
    ("perf_analyzer -m simple --request-rate-range=100:200:50", summary("Request Rate", 100, 150, 200)),
    ("perf_analyzer -m simple --request-rate-range 50 --request-distribution poisson", summary("Request Rate", 50)),
    ("perf_analyzer -m simple --request-intervals=intervals.txt", summary("Request Rate", r"[0-9.]+")),
    # Input data.
    ("perf_analyzer -m mymodel -b 4 --shape IMAGE:3,22,24", concurrency(1)),
    ("perf_analyzer -m simple --input-data zero", concurrency(1)),
    ("perf_analyzer -m simple --input-data random", concurrency(1)),
    ("perf_analyzer -m texts --string-length=16", concurrency(1)),
    ("perf_analyzer -m texts --string-data=hello -i grpc", concurrency(1)),
    ("perf_analyzer -m four_by_four --input-data real_input_data.json", concurrency(1)),
    ("perf_analyzer -m four_by_four --input-data base64.json --input-data real_input_data.json", concurrency(1)),
    ("perf_analyzer -m four_by_four --input-data validation.json", concurrency(1)),
    ("perf_analyzer -m variable --input-data shapes.json --shape INPUT:4,4", concurrency(1)),
    ("perf_analyzer -m four_by_four --input-data folder", concurrency(1)),
    ("perf_analyzer -m four_by_four --data-directory=folder", concurrency(1)),
    ("perf_analyzer -m simple --input-tensor-format=json --output-tensor-format=json", concurrency(1)),
    ("perf_analyzer -m inception_graphdef -i grpc --request-parameter max_tokens:256:int", concurrency(1)),
    # Shared memory.
    ("perf_analyzer -m simple --shared-memory=system --concurrency-range 2", concurrency(2)),
    ("perf_analyzer -m simple -i grpc --shared-memory=system --output-shared-memory-size=4096", concurrency(1)),
    # Sequences.
    ("perf_analyzer -m simple_sequence --sequence-length=4", concurrency(1)),
    ("perf_analyzer -m simple_sequence --concurrency-range 2 --sequence-length-variation 0 --serial-sequences",
     concurrency(2)),
    ("perf_analyzer -m simple_sequence -i grpc --streaming --sequence-length=4 --sequence-id-range=100:200",
     concurrency(1)),
    ("perf_analyzer -m simple_sequence --num-of-sequences=2 --request-rate-range=100", summary("Request Rate", 100)),
    ("perf_analyzer -m simple_sequence --input-data streams.json", concurrency(1)),
    # Ensembles: the phases of each step.
    ("perf_analyzer -m preprocess_inception_ensemble",
     r"^ +1  preprocess_inception_ensemble +\d+ (?s:.*)^ +1  preprocess +\d+ (?s:.*)^ +1  classify +\d+ "
     r"(?s:.*)" + concurrency(1)),
    # Streams.
    ("perf_analyzer -m repeat_int32 -i grpc --async --streaming --input-data repeat.json",
     r"RESPONSES/S(?s:.*)" + concurrency(1)),
    ("perf_analyzer -m repeat_int32 -i grpc --async --streaming --input-data repeat.json"
     " --profile-export-file profile.json --periodic-concurrency-range 2:6:2 --request-period 10"
     " --request-parameter max_tokens:256:int", concurrency(6)),
]

# The command line, a file that it writes, its first line or NULL, and the values of its first column.
CSV_LINES = [
    ("perf_analyzer -m inception_graphdef --concurrency-range 1:4 -f perf.csv", "perf.csv", COLUMNS,
     ["1", "2", "3", "4"]),
    ("perf_analyzer -m inception_graphdef --request-rate-range 50:100:50 -f perf.csv", "perf.csv", RATE_COLUMNS,
     ["50", "100"]),
    ("perf_analyzer -m resnet50_libtorch -f output.csv --verbose-csv", "output.csv",
     COLUMNS + ",Avg latency,request/response,response wait", ["1"]),
    ("perf_analyzer -m inception_graphdef --percentile=95 -f perf.csv", "perf.csv", COLUMNS + ",Avg latency", ["1"]),
    ("perf_analyzer -m preprocess_inception_ensemble -f perf.csv", "classify_v1.perf.csv",
     "Concurrency,Inferences/Second,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output",
     ["1"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (place / name).write_text(content if isinstance(content, str) else json.dumps(content))
    (place / "folder").mkdir()
    for name in ("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1"):
        (place / "folder" / name).write_bytes(struct.pack("<16i", *range(16)))
    return place


def run(server, folder, line):
    words = shlex.split(line)
    assert words[0] == "perf_analyzer"
    protocol = "grpc" if {"grpc", "gRPC"} & set(words) else "http"
    more = ["-u", f"127.0.0.1:{server.port(protocol)}"]
    if "--request-count=100" not in words:
        # A window of the slowest line has twenty requests in the mean.
        more += ["-p", "400" if "--request-rate-range" in words else "100", "-r", "3", "-s", "100000"]
    ended = subprocess.run([BUILD / "neso", "bench", *words[1:], *more], cwd=folder, stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=SECONDS, check=False)
    assert ended.returncode == 0, ended
    return ended.stdout.decode()


@pytest.mark.parametrize("line, expected", LINES, ids=[line for line, _ in LINES])
def test_lines(server, folder, line, expected):
    out = run(server, folder, line)
    assert re.search(expected, out, re.M), out
    assert "ERRORS" not in out


@pytest.mark.parametrize("line, name, head, values", CSV_LINES, ids=[line[0] for line in CSV_LINES])
def test_csv_lines(server, folder, line, name, head, values):
    run(server, folder, line)
    rows = list(csv.reader((folder / name).open()))
    assert ",".join(rows[0]) == head
    assert sorted((row[0] for row in rows[1:]), key=float) == values
    assert all(len(row) == len(rows[0]) and float(row[1]) > 0 for row in rows[1:])


def test_profile_of_a_growing_load(server, folder):
    run(server, folder, LINES[-1][0])
    [experiment] = json.loads((folder / "profile.json").read_text())["experiments"]
    assert len(experiment["requests"]) == 6
    assert all(len(request["response_timestamps"]) == 12 for request in experiment["requests"])


def test_metrics_line(server, folder):
    place = f"127.0.0.1:{server.port('metrics')}/metrics"
    out = run(server, folder, "perf_analyzer -m resnet50_libtorch --collect-metrics -f output.csv --verbose-csv "
                              f"--metrics-url={place} --metrics-interval=50")
    assert re.search(r"^load 1: mean nv_cpu_memory_used_bytes \d", out, re.M)
