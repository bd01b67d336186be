# SPDX-License-Identifier: BSD-3-Clause
"""Many streams at once: nothing is lost or out of order, and memory comes back. `make soak-streams`
does the same with ten thousand."""
import json
import pathlib
import re
import struct
import subprocess
import time

import pytest

from conftest import BUILD, is_sanitized
from frames import DATA, END_HEADERS, HEADERS, STREAM_INFER, Raw, frame, head
from gate import Gate, gated
from grpc_stubs import client, stubs  # noqa: F401
from scrape import wait_for_pending

BACKENDS = ("identity", "testing")
TENSORS = """input { name: "INPUT0" data_type: TYPE_FP32 dims: [1] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [1] }
"""
MODELS = {
    "simple": 'backend: "identity"\n' + TENSORS,
    "hop": 'backend: "identity"\n' + TENSORS
           + 'parameters { key: "inline_execution" value { string_value: "never" } }\n',
    "held": gated('backend: "testing"\n' + TENSORS),
}
OPTIONS = ("--grpc-infer-thread-count=2",)
LOAD = BUILD / "tests" / "stress" / "grpc_load"
IN_FLIGHT_KIB = 128 << 10  # 10 000 requests and their answers at 13 KiB


def load(server, *arguments):
    if not LOAD.exists():
        pytest.skip(f"{LOAD} is not built")
    done = subprocess.run([str(LOAD), arguments[0], str(server.port("grpc")),
                           *map(str, arguments[1:])], capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def resident_kib(server, what="RSS"):
    """Now, or with "HWM" the most that it ever was."""
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(rf"Vm{what}:\s+(\d+)", text).group(1))


@pytest.mark.parametrize("model", ["simple", "hop"])
def test_a_thousand_streams(server, model):
    assert load(server, "streams", model, 10, 100, 20) == {"answers": 20000, "streams": 1000}


@pytest.mark.skipif(is_sanitized(), reason="freed memory is kept there, to be watched")
def test_memory_comes_back(server):
    """The peak of a second round is that of the first, or below what 10 000 requests in flight may
    take: how many of them meet in one round of the loop is chance. What was needed is given back
    when the clients have gone."""
    peaks = []
    for _ in range(2):
        assert load(server, "streams", "simple", 10, 100, 100)["answers"] == 100000
        peaks.append(resident_kib(server, "HWM"))
        deadline = time.monotonic() + 20
        while (now := resident_kib(server)) > max(peaks[0] / 2, 16 << 10):
            assert time.monotonic() < deadline, f"{now} KiB after {peaks}"
    assert peaks[1] <= max(peaks[0] * 1.25, IN_FLIGHT_KIB), peaks


def test_requests_of_all_streams_are_bounded(server, client):
    """8192 of a loop, 1024 of a stream; beyond, one of each stream that has none."""
    one = client.request("held", [("INPUT0", "FP32", [1])],
                         [struct.pack("<f", 1)]).SerializeToString()
    messages = (b"\0" + struct.pack(">I", len(one)) + one) * 1500
    with Gate(server, "held") as gate:
        with Raw(server) as raw:
            for stream in range(1, 41, 2):
                raw.send(frame(HEADERS, END_HEADERS, stream, head(STREAM_INFER)) + b"".join(
                    frame(DATA, 0, stream, messages[at:at + 16384])
                    for at in range(0, len(messages), 16384)))
            gate.wait()
            wait_for_pending(server, "held", 8192 + 12 - 1)  # and one that executes
        wait_for_pending(server, "held", 0)
        gate.open()
