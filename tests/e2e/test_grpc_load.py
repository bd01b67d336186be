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

TAKES_SECONDS = 20
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
# What the requests in flight may take: those of two loops, RPC_STREAM_MAX_REQUESTS_OF_LOOP each, with
# their messages and answers.
IN_FLIGHT_KIB = 2 * 8192 * 11
GROWTH_KIB = 4 << 10  # of what is left: pages that the allocator happens to keep


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


def forget_peak(server):
    """What it holds now, from where the peak is counted on."""
    pathlib.Path(f"/proc/{server.process.pid}/clear_refs").write_text("5", encoding="ascii")
    return resident_kib(server)


def wait_until_resident(server, at_most, what):
    deadline = time.monotonic() + 20
    while (now := resident_kib(server)) > at_most:
        assert time.monotonic() < deadline, f"{now} KiB {what}, expected at most {at_most}"
    return now


@pytest.mark.skipif(is_sanitized(), reason="freed memory is kept there, to be watched")
def test_memory_comes_back(server):
    """Six rounds. How many requests meet in one round of the loop is chance, and so is a peak: each stays
    within what all requests may take, and the later ones are not all above the first ones. What was
    needed is given back when the clients have gone, so that no round leaves more than the first did."""
    peaks, left = [], None
    for _ in range(6):
        before = forget_peak(server)
        assert load(server, "streams", "simple", 10, 100, 100)["answers"] == 100000
        peaks.append(resident_kib(server, "HWM"))
        assert peaks[-1] <= before + IN_FLIGHT_KIB, peaks
        if left is None:
            left = wait_until_resident(server, max(peaks[0] / 2, 16 << 10), f"after {peaks}")
        else:
            wait_until_resident(server, left + GROWTH_KIB, f"after {peaks}")
    assert min(peaks[3:]) <= max(peaks[:3]) + 4 * GROWTH_KIB, peaks


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
