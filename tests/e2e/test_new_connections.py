# SPDX-License-Identifier: BSD-3-Clause
"""A connection whose first bytes have not arrived yet is not idle."""
import socket

import pytest

from conftest import TLS
from frames import ACK, END_HEADERS, HEADERS, PING, PREFACE, SETTINGS, call, frame, head
from wire import request

MODELS = {}
LIMIT = 40
CROWDED = LIMIT - LIMIT // 10  # beyond, a new connection takes the place of an idle one
OPTIONS = (f"--http-max-connections={LIMIT}", f"--grpc-max-connections={LIMIT}",
           "--http-thread-count=2", "--grpc-infer-thread-count=2")
# A request without its end, and what shows that it was read.
BEGUN = {"http": b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                 b"Content-Length: 2\r\n\r\n",
         "grpc": PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, head())
                 + frame(PING, 0, 0, b"was read")}
READ = {"http": b"100 Continue", "grpc": frame(PING, ACK, 0, b"was read")}
HELLO = {"http": request("GET", "/v2/health/live"),
         "grpc": PREFACE + frame(SETTINGS, 0, 0) + call(1)}
ANSWER = {"http": b"HTTP/1.1 200", "grpc": b"\x01\x04\x00\x00\x00\x01"}  # HEADERS of the stream 1

pytestmark = pytest.mark.skipif(bool(TLS), reason="the count comes before the handshake")


def open_one(server, name, i=0):
    return socket.create_connection(("127.0.0.1", server.port(name)), 20,
                                    (f"127.0.0.{2 + i % 4}", 0))


def gets(connection, text):
    """Reads until the text has come; false when the connection ends before."""
    got = b""
    while text not in got:
        try:
            more = connection.recv(4096)
        except ConnectionResetError:
            return False
        if not more:
            return False
        got += more
    return True


@pytest.mark.parametrize("name", ["http", "grpc"])
def test_new_one_stays(server, name):
    """Beside connections in use it is the only one without a request, and it stays."""
    in_use = [open_one(server, name, i) for i in range(CROWDED - 1)]
    for one in in_use:
        one.sendall(BEGUN[name])
    assert all(gets(one, READ[name]) for one in in_use)
    with open_one(server, name) as new:
        newer = [open_one(server, name, i) for i in range(2)]  # one for each loop
        for one in (*newer, new):
            one.sendall(HELLO[name])
            assert gets(one, ANSWER[name])
            one.close()
    for one in in_use:
        one.close()
