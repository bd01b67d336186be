# SPDX-License-Identifier: BSD-3-Clause
"""Memory of connections that came and went within a few rounds of a loop goes back to the system while others stay."""
import os
import pathlib
import signal

import pytest

from conftest import TLS, is_sanitized
from models import wait_until
from wire import Wire

TAKES_SECONDS = 30
MODELS = {"m": 'backend: "identity" input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } '
               'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }'}
OPTIONS = ("--http-thread-count=1",)
N = 600
BODY = b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}]}'
REQUEST = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)

pytestmark = [pytest.mark.skipif(bool(TLS), reason="the handshakes take rounds of their own"),
              pytest.mark.skipif(is_sanitized(), reason="a sanitizer keeps freed blocks")]


def stop(server):
    os.kill(server.process.pid, signal.SIGSTOP)
    os.waitpid(server.process.pid, os.WUNTRACED)


def resident_kib(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/smaps_rollup").read_text(encoding="ascii", errors="replace")
    return int(text.split("Rss:")[1].split()[0])


def burst(server):
    """The server finds all requests at once, and later all ends."""
    stop(server)
    many = [Wire(server.http_port) for _ in range(N)]
    for wire in many:
        wire.send(REQUEST)
    last = Wire(server.http_port)  # stays, so that the heap does not shrink by itself
    last.send(REQUEST)
    os.kill(server.process.pid, signal.SIGCONT)
    assert {wire.read_answer().status for wire in (*many, last)} == {200}
    full = resident_kib(server)
    stop(server)
    for wire in many:
        wire.close()
    os.kill(server.process.pid, signal.SIGCONT)
    return last, full


def test_returned(server):
    with Wire(server.http_port) as first:
        first.send(REQUEST)
        assert first.read_answer().status == 200
        before = resident_kib(server)
        last, full = burst(server)
        with last:
            assert full - before > 4 * N
            wait_until(lambda: resident_kib(server) - before < (full - before) / 2,
                       lambda: f"{before} KiB, {full}, {resident_kib(server)}", 40)
            last.send(REQUEST)
            assert last.read_answer().status == 200
