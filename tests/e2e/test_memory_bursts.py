# SPDX-License-Identifier: BSD-3-Clause
"""Many gRPC connections that arrive in one round of a loop while the memory budget is tight."""
import contextlib
import os
import signal
import socket

import pytest

from conftest import TLS
from frames import ACK, HEADERS, PING, PREFACE, SETTINGS, call, frame, head
from scrape import metrics

MODELS = {}
OPTIONS = ("--memory-budget=16777216", "--grpc-infer-thread-count=1")
N_STUCK = 800  # more than the budget has room for
N_NEW = 60  # all are accepted in one round; opened, they take more than the budget's last sixteenth

pytestmark = pytest.mark.skipif(bool(TLS), reason="sessions of TLS are not counted")


def gets(connection, text):
    """Reads until the text has come; false when the connection ends before."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while text not in got:
            more = connection.recv(4096)
            if not more:
                return False
            got += more
        return True
    return False


def open_stuck(port):
    """A connection with an unfinished header block, which the server has read."""
    block = head(**{f"filler-{i}": "x" * 100 for i in range(30)})
    one = socket.create_connection(("127.0.0.1", port), 20)
    one.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(PING, 0, 0, b"was read")
                + frame(HEADERS, 0, 1, block))
    assert gets(one, frame(PING, ACK, 0, b"was read"))
    return one


def open_burst(server, port):
    """Connections with a call each, which the server finds all at once."""
    os.kill(server.process.pid, signal.SIGSTOP)
    os.waitpid(server.process.pid, os.WUNTRACED)
    try:
        many = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(N_NEW)]
        for one in many:
            one.sendall(PREFACE + frame(SETTINGS, 0, 0) + call(1))
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    return many


def test_each_takes_the_place_of_another(server):
    """Each new connection closes an unfinished one, whose memory it gets at once."""
    port = server.port("grpc")
    stuck = [open_stuck(port) for _ in range(N_STUCK)]
    new = open_burst(server, port)
    assert sum(not gets(one, b"\x01\x04\x00\x00\x00\x01") for one in new) == 0  # HEADERS
    assert metrics(server)
    for one in (*stuck, *new):
        one.close()
