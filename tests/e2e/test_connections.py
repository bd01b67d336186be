# SPDX-License-Identifier: BSD-3-Clause
"""How many connections an address may have: further ones are closed, others are not concerned."""
import socket
import time

import pytest

from conftest import TLS, patience
from frames import PREFACE, SETTINGS, call, frame
from scrape import metrics
from wire import request

MODELS = {}
OPTIONS = ("--http-max-connections-per-address=2", "--grpc-max-connections-per-address=2")
SECONDS = patience(20)

HELLO = {"http": request("GET", "/v2/health/live"),
         "grpc": PREFACE + frame(SETTINGS, 0, 0) + call(1)}

pytestmark = pytest.mark.skipif(bool(TLS), reason="the count comes before the handshake")


class Connection:
    def __init__(self, server, name, source):
        self.socket = socket.create_connection(("127.0.0.1", server.port(name)), SECONDS,
                                               (source, 0))
        self.name = name

    def is_served(self):
        """Says something; False when the server has closed it."""
        try:
            self.socket.sendall(HELLO[self.name])
            return self.socket.recv(1) != b""
        except (BrokenPipeError, ConnectionResetError):
            return False


@pytest.mark.parametrize("name", ["http", "grpc"])
def test_per_address(server, name):
    def count():
        return metrics(server).get('neso_rejected_total{limit="connections_per_address"}', 0)

    before = count()
    first, second = (Connection(server, name, "127.0.0.1") for _ in range(2))
    assert first.is_served() and second.is_served()
    for _ in range(3):
        assert not Connection(server, name, "127.0.0.1").is_served()
    assert count() == before + 3
    other = Connection(server, name, "127.0.0.2")
    assert other.is_served()
    first.socket.close()
    deadline = time.monotonic() + SECONDS
    while not Connection(server, name, "127.0.0.1").is_served():  # once the end has been seen
        assert time.monotonic() < deadline
    second.socket.close()
    other.socket.close()
