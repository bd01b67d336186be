# SPDX-License-Identifier: BSD-3-Clause
"""How long a stop takes when there is nothing to wait for."""
import select
import signal
import statistics
import time

import pytest

from conftest import TLS, Server
from wire import Wire, request

ALONE = True

# No pause of the stop (0.1 s) is as short as this.
SECONDS = 0.1
ASKED = {"http": "/v2/health/live", "metrics": "/metrics"}


def seconds_of_stop(server, connection=None):
    begun = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    if connection:
        assert connection.is_closed()  # as clients do, it closes its own side
        connection.close()
    assert server.process.wait(20) == 0
    seconds = time.monotonic() - begun
    server.stop()
    return seconds


def ask(port, path):
    connection = Wire(port)
    connection.send(request("GET", path))
    assert connection.read_answer().status == 200
    return connection


@pytest.mark.parametrize("names", [(), ("http", "metrics")])
def test_without_connections(tmp_path, names):
    """None was there, or those that were have ended."""
    def seconds():
        server = Server(tmp_path, waits_for=("http", "grpc", "metrics"))
        for name in names:
            ask(server.port(name), ASKED[name]).close()
        return seconds_of_stop(server)

    assert statistics.median(seconds() for _ in range(5)) < SECONDS


@pytest.mark.skipif(bool(TLS), reason="a session ticket waits to be read")
@pytest.mark.parametrize("name", ASKED)
def test_idle_connection(tmp_path, name):
    """One that has been idle for a while is closed at once."""
    def seconds():
        server = Server(tmp_path, waits_for=("http", "grpc", "metrics"))
        connection = ask(server.port(name), ASKED[name])
        assert not select.select([connection.socket], [], [], 1.5 * SECONDS)[0]
        return seconds_of_stop(server, connection)

    assert statistics.median(seconds() for _ in range(5)) < SECONDS
