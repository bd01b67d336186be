# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on HTTP/2 while somebody else works: the server ends them by name, its memory stays within
a bound, and the latency of the other connection does, too. One attacker at a time, who comes back
as soon as his connection is ended."""
import json
import pathlib
import re
import struct
import subprocess
import sys

import pytest

import h2_attacks
from conftest import is_sanitized
from frames import CALM, SETTINGS, WINDOW_UPDATE, Raw, call, frame
from gate import Gate, gated
from grpc_stubs import client, stubs  # noqa: F401
from scrape import wait_for_any
from test_grpc_load import load

TAKES_SECONDS = 17

BACKENDS = ("identity", "testing")
TENSORS = """input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
"""
MODELS = {name: f'backend: "identity"\n{TENSORS}' for name in ("good", "any")}
MODELS["gated"] = gated(f'backend: "testing"\n{TENSORS}')
OPTIONS = ("--grpc-infer-thread-count=2", f"--grpc-max-message-size={64 << 20}")

TRIES = 3
MILLISECONDS = 500
# A good client's p99 may double; the machine may be busy with other things besides.
SLACK_US = 5000

# What the GOAWAY may say, or None where calls are refused one by one; how much more memory than
# before may be in use at any time; the names under one of which it is counted.
MIB = 1 << 20
EXPECTED = {
    "rapid_reset": ({"too_many_resets", "too_many_control_frames"}, 32 * MIB,
                    {"resets", "control_frames"}),
    "continuation_flood": ({"too_many_continuations"}, 16 * MIB, {"continuations"}),
    "settings_flood": ({"too_many_control_frames"}, 16 * MIB, {"control_frames"}),
    "ping_flood": ({"too_many_pings", "too_many_control_frames"}, 16 * MIB,
                   {"pings", "control_frames"}),
    "hpack_bomb": ({"too_many_header_bytes"}, 16 * MIB, {"header_bytes"}),
    "header_bomb": (None, 32 * MIB, {"header_bytes"}),
    "declared_bomb": (None, 32 * MIB, None),
    # Each of two loops: 64 MiB that it unpacks; what it grew from has given its pages back.
    "compressed_bomb": (None, 160 * MIB, {"message_bytes"}),
    # Answers up to 64 MiB, those to what the connection's window of 16 MiB lets in besides, and the
    # buffers of their requests, of which the loop's pool keeps 64 MiB; and some more for the rest.
    "zero_window": (None, (64 + 16 + 64 + 16) * MIB, None),
}


def memory(server, name):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(rf"{name}:\s+(\d+)", text).group(1)) << 10


def forget_peak(server):
    pathlib.Path(f"/proc/{server.process.pid}/clear_refs").write_text("5", encoding="ascii")


class Attack:
    def __init__(self, server, name):
        self.process = subprocess.Popen(
            [sys.executable, h2_attacks.__file__, str(server.port("grpc")), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.result = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        rest, _ = self.process.communicate("", timeout=60)
        if rest:
            self.result = json.loads(rest)


def p99(server):
    return load(server, "calls", "good", MILLISECONDS)["p99_us"]


def test_names():
    assert {attack.__name__ for attack in h2_attacks.ATTACKS} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_attack(server, name):
    says, bound, limits = EXPECTED[name]
    latencies = []
    load(server, "calls", "good", 100)
    for _ in range(TRIES):
        # Each try for itself: what the one before held may not be free yet.
        forget_peak(server)
        before = memory(server, "VmRSS")
        alone = p99(server)
        with Attack(server, name) as attack:
            latencies.append((alone, p99(server)))
        assert attack.result["rounds"] > 0
        check_ends(attack.result["ends"], says)
        if not is_sanitized():
            assert memory(server, "VmHWM") <= before + bound
        if latencies[-1][1] <= 2 * alone + SLACK_US:
            break
    if not is_sanitized():
        assert latencies[-1][1] <= 2 * latencies[-1][0] + SLACK_US, latencies
    if limits:  # perhaps of bytes that the attacker has left behind
        wait_for_any(server, {f'neso_rejected_total{{limit="{limit}"}}' for limit in limits})
    with Raw(server) as raw:
        raw.send(call(1))
        assert raw.has_answer(1)


def send_until_held(raw, text, on_held):
    """Sends it within the connection's window, and calls on_held() the first time that it stays
    closed; then waits for all answers. Returns the bytes sent until then, None: it never closed."""
    window = h2_attacks.Window(raw)
    n_sent, held_at = 0, None
    for piece, cost in h2_attacks.split(text):
        while cost > window.left:
            before = window.left
            assert window.read(0.3)
            if window.left == before and held_at is None:
                held_at = n_sent
                on_held()
        window.left -= cost
        n_sent += cost
        raw.send(piece)
    while window.n_ended < h2_attacks.N_STREAMS:
        assert window.read(20)
    return held_at


# The answers may come as they like.
OPEN_WINDOWS = (frame(SETTINGS, 0, 0, struct.pack(">HI", 4, (1 << 31) - 1)) +
                frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 65536)))


def test_reader_that_comes_late(server):
    """The server reads no further while 64 MiB of answers wait; then everything arrives."""
    with Raw(server, greeting=h2_attacks.GREETING) as raw:
        assert send_until_held(raw, h2_attacks.zero_window(), lambda: raw.send(OPEN_WINDOWS))


def test_requests_that_wait(server):
    """Nor while 64 MiB of requests are with a model that takes its time."""
    with Gate(server, "gated") as gate, Raw(server, greeting=h2_attacks.GREETING) as raw:
        raw.send(OPEN_WINDOWS)
        held_at = send_until_held(raw, h2_attacks.large_calls(b"gated"),
                                  lambda: gate.open(h2_attacks.N_STREAMS))
        assert 64 * MIB <= held_at <= (64 + 17) * MIB


def check_ends(ends, says):
    """Every connection that the server ended was told why; the last may have been left by the test."""
    if says is None:
        assert not [end for end in ends if end]
        return
    reported = {end.split(" ", 1)[1] for end in ends if end}
    assert reported and reported <= says, ends
    assert all(end.startswith(f"{CALM} ") for end in ends if end), ends
    assert ends.get("", 0) <= 1, ends
