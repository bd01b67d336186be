#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""400 clients that begin a TLS handshake at a time, of which each takes the server a millisecond or more.

A client with an open connection asks for the health meanwhile. Its answers must not wait for all of them.
"""
import http.client
import pathlib
import socket
import ssl
import subprocess
import tempfile
import time

import attack

N = 400
NO_CHECK = ssl.create_default_context()
NO_CHECK.check_hostname = False
NO_CHECK.verify_mode = ssl.CERT_NONE


def make_certificate(folder):
    files = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-subj", "/CN=localhost",
                    "-days", "2", "-out", files[0], "-keyout", files[1]], check=True,
                   capture_output=True)
    return files


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = NO_CHECK.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Probe(attack.Probe):
    def _run(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=self.timeout,
                                                 context=NO_CHECK)
        while not self._ends.is_set():
            begun = time.monotonic()
            connection.request("GET", self.path)
            answer = connection.getresponse()
            answer.read()
            self.statuses.append(answer.status)
            self.seconds.append(time.monotonic() - begun)
            self._ends.wait(self.pause)
        connection.close()


def measure():
    with tempfile.TemporaryDirectory() as folder:
        cert, key = make_certificate(pathlib.Path(folder))
        with attack.server({}, "--http-thread-count=1", "--http-use-ssl=true",
                           f"--http-server-cert={cert}", f"--http-server-key={key}") as server:
            hello = client_hello()
            with Probe(server.http_port) as probe:
                opened = [socket.create_connection(("127.0.0.1", server.http_port), 60)
                          for _ in range(N)]
                while len(probe.seconds) < 20:
                    time.sleep(0.01)
                begun, n_before = time.monotonic(), len(probe.seconds)
                for one in opened:
                    one.sendall(hello)
                for one in opened:
                    one.recv(1)  # the server's part
                took = time.monotonic() - begun
                worst = max(probe.seconds[n_before:], default=took)
            for one in opened:
                one.close()
            yield attack.Figure(f"{N} handshakes", 1e3 * took, "ms")
            yield attack.Figure("worst answer of another client", 1e3 * worst, "ms")
            yield attack.Figure("the same as a part of the time of all handshakes", worst / took,
                                at_most=0.25)


if __name__ == "__main__":
    attack.main(measure, __doc__)
