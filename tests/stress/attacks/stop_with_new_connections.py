#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIGTERM under clients that open a connection for each request.

Whoever was connected before the end gets an answer, 503 when it was late; a connection that the
kernel has accepted and nobody answers is lost work. Later ones are refused.
"""
import signal
import socket
import threading
import time

import attack

N_STOPS = 8
N_CLIENTS = 6
SECONDS = 1.0  # of load before each stop
REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class Client(threading.Thread):
    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.n_asked = 0
        self.n_lost = 0

    def run(self):
        while True:
            s = socket.socket()
            s.settimeout(0.5)
            try:
                s.connect(("127.0.0.1", self.port))
            except OSError:
                return  # the port is closed
            self.n_asked += 1
            try:
                s.sendall(REQUEST)
                if not s.recv(4096).startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")):
                    self.n_lost += 1
            except OSError:
                self.n_lost += 1
            s.close()


def measure():
    n_asked = n_lost = 0
    for _ in range(N_STOPS):
        with attack.server({"identity": attack.IDENTITY}) as server:
            clients = [Client(server.port("http")) for _ in range(N_CLIENTS)]
            for client in clients:
                client.start()
            time.sleep(SECONDS)
            server.process.send_signal(signal.SIGTERM)
            for client in clients:
                client.join(20)
                n_asked += client.n_asked
                n_lost += client.n_lost
    yield attack.Figure("connections", n_asked)
    yield attack.Figure("of them connected and never answered", n_lost, at_most=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
