# SPDX-License-Identifier: BSD-3-Clause
"""Connections that send nothing take no place from those that do; one address cannot take all."""
import socket

import pytest

from conftest import TLS
from frames import PREFACE, SETTINGS, call, frame
from scrape import metrics
from wire import request

MODELS = {}
LIMIT = 40
OPTIONS = (f"--http-max-connections={LIMIT}", f"--grpc-max-connections={LIMIT}",
           "--http-thread-count=2", "--grpc-infer-thread-count=2")
SECONDS = 20
HELLO = {"http": request("GET", "/v2/health/live"),
         "grpc": PREFACE + frame(SETTINGS, 0, 0) + call(1)}

pytestmark = pytest.mark.skipif(bool(TLS), reason="the count comes before the handshake")


def open_one(server, name, i=0):
    return socket.create_connection(("127.0.0.1", server.port(name)), SECONDS,
                                    (f"127.0.0.{1 + i % 4}", 0))


def says(connection, text):
    """False when the server has closed it."""
    try:
        connection.sendall(text)
        return connection.recv(4096) != b""
    except (BrokenPipeError, ConnectionResetError):
        return False


@pytest.mark.parametrize("name", ["http", "grpc"])
def test_longest_idle_makes_room(server, name):
    silent = [open_one(server, name, i) for i in range(LIMIT)]
    for i in range(2 * LIMIT):
        with open_one(server, name, i) as new:
            assert says(new, HELLO[name])
    while silent[0].recv(4096):  # to the end: it was closed
        pass
    for one in silent:
        one.close()


def test_begun_request_stays(server):
    with open_one(server, "http") as busy:
        busy.sendall(b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\n"
                     b"Content-Length: 2\r\n\r\n{")
        silent = [open_one(server, "http", i) for i in range(LIMIT)]
        for i in range(2 * LIMIT):
            with open_one(server, "http", i) as new:
                assert says(new, HELLO["http"])
        assert says(busy, b"}")
        for one in silent:
            one.close()


@pytest.mark.parametrize("name", ["http", "grpc"])
def test_address_gets_three_quarters(server, name):
    def count():
        return metrics(server).get('neso_rejected_total{limit="connections_per_address"}', 0)

    before = count()
    many = [open_one(server, name) for _ in range(3 * LIMIT // 4 + 3)]
    n_served = sum(says(one, HELLO[name]) for one in many)
    assert n_served == 3 * LIMIT // 4
    assert count() == before + 3
    for one in many:
        one.close()
