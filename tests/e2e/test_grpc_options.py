# SPDX-License-Identifier: BSD-3-Clause
"""What the options of gRPC connections do: pings of both sides, ages, sizes, ports that are shared.

Connections tell by themselves what became of them, so nothing here waits for a time to pass. Timers
of connections are looked at twice a second, which is why times are a fraction of that or some of it.
"""
import contextlib
import json
import struct
import time

import grpc
import pytest

from conftest import Server, require_build, write_repository
from frames import (ACK, CALM, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INFER, PING, PREFACE,
                    RST_STREAM, SETTINGS, STREAM_INFER, Raw, call, frame, head, says_status)
from gate import Gate, gated
from grpc_stubs import SECONDS, Client, open_channel, stubs  # noqa: F401

TAKES_SECONDS = 20

CONFIG = """backend: "testing"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [1] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [1] }
"""
NO_ERROR, REFUSED_STREAM = 0, 7
RESOURCE_EXHAUSTED = 8
SETTINGS_MAX_STREAMS = 3
NOTICE = b"goodbye\0"  # the ping that comes with a first GOAWAY

AGE = ("--grpc-max-connection-age=2000",)
PINGS = ("--grpc-keepalive-time=1", "--grpc-infer-thread-count=1")
WITHOUT_CALLS = "--grpc-keepalive-permit-without-calls=true"


@pytest.fixture(name="start")
def fixture_start(tmp_path):
    """Servers with the options that a test gives."""
    require_build(("testing",))
    with contextlib.ExitStack() as stack:
        def start(*options):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            write_repository(folder, {"held": gated(CONFIG)})
            server = Server(folder, options, waits_for=("grpc",))
            stack.callback(server.stop)
            return server
        yield start


def pings_until_it_is_old(raw, answers):
    """How often the server asks before its first GOAWAY; None when the connection ends without."""
    n_pings = 0
    for kind, flags, _, payload in raw.frames():
        if kind == GOAWAY:
            return n_pings
        if kind == PING and not flags & ACK and payload != NOTICE:
            n_pings += 1
            if answers:
                raw.send(frame(PING, ACK, 0, payload))
    return None


def open_call(raw):
    raw.send(frame(HEADERS, END_HEADERS, 1, head(STREAM_INFER)))


def answer_pings(raw, is_last):
    """Up to the frame that is the last, how many there were."""
    n_pings = 0
    for kind, flags, stream, payload in raw.frames():
        if kind == PING and not flags & ACK:
            n_pings += 1
            raw.send(frame(PING, ACK, 0, payload))
        if is_last(kind, flags, stream):
            return n_pings
    raise AssertionError("the connection ended")


def is_settings_ack(kind, flags, _):
    return kind == SETTINGS and flags & ACK


def pings_so_far(raw):
    """Those that the server sent before it heard of this question."""
    raw.send(frame(SETTINGS, 0, 0))
    return answer_pings(raw, is_settings_ack)


class Rounds:
    """A connection that is pinged each time the server looks after connections: a call with an
    answer allows another ping, and one call stays open."""

    def __init__(self, raw):
        self._raw = raw
        self._stream = 1
        open_call(raw)

    def wait(self):
        """Until there was one more. A connection that was opened before had its turn then."""
        self._stream += 2
        self._raw.send(call(self._stream))
        answer_pings(self._raw, lambda kind, flags, stream: kind == HEADERS and
                     flags & END_STREAM and stream == self._stream)
        answer_pings(self._raw, lambda kind, flags, _: kind == PING and not flags & ACK)


# ---- pings of the server ------------------------------------------------------------------------


def test_no_keepalive(start):
    """Not in less than two hours, unless the options say so."""
    with Raw(start(*AGE)) as raw:
        open_call(raw)
        assert pings_until_it_is_old(raw, answers=True) == 0


@pytest.mark.parametrize("options, has_call, expected", [
    (PINGS, False, 0),
    (PINGS, True, 2),
    ((*PINGS, WITHOUT_CALLS), False, 2),
    ((*PINGS, WITHOUT_CALLS, "--grpc-http2-max-pings-without-data=1"), False, 1),
])
def test_keepalive(start, options, has_call, expected):
    """So many are awaited; in the rounds after that there are no more. The default of pings in a
    row is 2."""
    server = start(*options)
    with Raw(server) as raw, Raw(server) as other:
        answer_pings(raw, is_settings_ack)
        if has_call:
            open_call(raw)
        rounds = Rounds(other)
        n_pings = 0
        while n_pings < expected:
            rounds.wait()
            n_pings += pings_so_far(raw)
        for _ in range(3):
            rounds.wait()
            n_pings += pings_so_far(raw)
        assert n_pings == expected


def test_keepalive_without_end(start):
    """0 pings in a row mean: they do not stop."""
    server = start(*PINGS, WITHOUT_CALLS, "--grpc-http2-max-pings-without-data=0")
    with Raw(server) as raw:
        for _ in range(5):
            answer_pings(raw, lambda kind, flags, _: kind == PING and not flags & ACK)


def test_dead_peer(start):
    """Who does not answer is left without a word."""
    server = start("--grpc-keepalive-time=1", WITHOUT_CALLS, "--grpc-keepalive-timeout=1")
    with Raw(server) as raw:
        assert pings_until_it_is_old(raw, answers=False) is None


# ---- pings of the client ------------------------------------------------------------------------


def answered_pings(server, most):
    """How many pings, one after another, are answered, up to that with which the server has had
    enough."""
    with Raw(server) as raw:
        for n in range(most):
            raw.send(frame(PING, 0, 0, bytes(8)))
            for kind, flags, _, payload in raw.frames():
                if kind == GOAWAY:
                    assert int.from_bytes(payload[4:8], "big") == CALM
                    assert payload[8:] == b"too_many_pings"
                    return n
                if kind == PING and flags & ACK:
                    break
        return most


@pytest.mark.parametrize("options, expected", [
    ((), 4),  # the first is free, two more are forgiven
    (("--grpc-http2-max-ping-strikes=5",), 7),
    (("--grpc-http2-max-ping-strikes=0",), 50),
    # Without calls, hours should pass between pings, whatever the interval says.
    (("--grpc-http2-min-recv-ping-interval-without-data=0",), 4),
    (("--grpc-http2-min-recv-ping-interval-without-data=0", WITHOUT_CALLS), 50),
])
def test_client_that_pings(start, options, expected):
    assert answered_pings(start(*options), 50) == expected


# ---- age ----------------------------------------------------------------------------------------


def held_request(client):
    return client.request("held", [("INPUT0", "FP32", [1])], [bytes(4)])


def test_age_waits_for_calls(start, stubs):  # noqa: F811
    """Two GOAWAYs, the second after a round trip; then the call may take its time."""
    server = start("--grpc-max-connection-age=1")
    with open_channel(server) as channel, Gate(server, "held") as gate, Raw(server) as raw:
        message = held_request(Client(channel, stubs)).SerializeToString()
        raw.send(call(1, message, path=INFER))
        gate.wait()
        last_streams = []
        for kind, flags, stream, payload in raw.frames():
            if kind == GOAWAY:
                last, code = struct.unpack(">II", payload[:8])
                assert code == NO_ERROR
                last_streams.append(last)
                if len(last_streams) == 2:
                    gate.open()
            elif kind == PING and not flags & ACK:
                raw.send(frame(PING, ACK, 0, payload))
            elif kind == HEADERS and stream == 1:
                assert len(last_streams) == 2
        assert last_streams == [2**31 - 1, 1]


def test_age_with_grace(start, stubs):  # noqa: F811
    """A call that takes longer than that ends with its connection."""
    server = start("--grpc-max-connection-age=1", "--grpc-max-connection-age-grace=1")
    with open_channel(server) as channel, Gate(server, "held") as gate:
        client = Client(channel, stubs)
        held = client.ModelInfer.future(held_request(client), timeout=SECONDS)
        gate.wait()
        with pytest.raises(grpc.RpcError) as caught:
            held.result()
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        gate.open()


def test_nobody_notices_the_age(start, stubs):  # noqa: F811
    """A client that goes on calling changes its connection between two calls."""
    server = start("--grpc-max-connection-age=1", "--log-format=json")
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        deadline = time.monotonic() + SECONDS
        while len({json.loads(line)["peer"] for line in server.log if '"peer"' in line}) < 3:
            assert client.call("ServerLive").live
            assert time.monotonic() < deadline


# ---- sizes and ports ----------------------------------------------------------------------------


def test_concurrent_streams(start):
    """The client is told; one call too many that was under way by then is refused."""
    with Raw(start("--grpc-max-concurrent-streams=3"), PREFACE + frame(SETTINGS, 0, 0)) as raw:
        raw.send(b"".join(frame(HEADERS, END_HEADERS, i, head(STREAM_INFER)) for i in (1, 3, 5, 7)))
        for kind, flags, stream, payload in raw.frames():
            if kind == SETTINGS and not flags & ACK:
                assert dict(struct.iter_unpack(">HI", payload))[SETTINGS_MAX_STREAMS] == 3
            if kind == RST_STREAM:
                assert (stream, payload) == (7, struct.pack(">I", REFUSED_STREAM))
                break
        else:
            raise AssertionError("the fourth call was not refused")


@pytest.mark.parametrize("more, code", [({"a": "b", "c": "d"}, 0),
                                        ({"a": "b", "c": "d", "e": "f"}, RESOURCE_EXHAUSTED)])
def test_header_fields(start, more, code):
    """Two more than these are in each call: content-type and te."""
    with Raw(start("--grpc-max-header-fields=4")) as raw:
        raw.send(call(1, **more))
        assert says_status(raw.trailers(1), code)


def test_reuse_port(start, stubs):  # noqa: F811
    """The second server takes over when the first has gone."""
    first = start("--reuse-grpc-port=true", "--id=first")
    with open_channel(first) as channel:
        client = Client(channel, stubs)
        assert client.call("ServerMetadata").name == "first"
        start("--reuse-grpc-port=true", "--id=second", f"--grpc-port={first.port('grpc')}")
        assert first.stop() == 0
        assert client.call("ServerMetadata", wait_for_ready=True).name == "second"
