# SPDX-License-Identifier: BSD-3-Clause
"""HTTP/1.1 on a plain socket, for requests that no client library would send."""
import socket
import ssl

from conftest import TLS, patience


class Answer:
    """Of one request. `headers` are in lower case; the last of equal names counts."""

    def __init__(self, status, reason, headers, body):
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = body

    def __repr__(self):
        return f"{self.status} {self.reason} {self.headers} {self.body[:300]!r}"


class Wire:
    """A connection. Answers are read as they are asked for; None is an end without an answer."""

    def __init__(self, port, seconds=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience(seconds))
        if TLS:
            trusting = ssl.create_default_context(cafile=f"{TLS}/ca.pem")
            self.socket = trusting.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self._stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._stream.close()
        self.socket.close()

    def send(self, *pieces):
        """False when the server has closed the connection meanwhile."""
        try:
            for piece in pieces:
                self.socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _line(self):
        line = self._stream.readline(65536)
        if line and not line.endswith(b"\r\n"):
            raise AssertionError(f"not a line of HTTP: {line!r}")
        return line[:-2]

    def read_answer(self, is_head=False):
        try:
            return self._read_answer(is_head)
        except ConnectionResetError:
            return None

    def _read_answer(self, is_head):
        first = self._line()
        if not first:
            return None
        version, status, reason = first.split(b" ", 2)
        assert version == b"HTTP/1.1", first
        headers = {}
        while line := self._line():
            name, _, value = line.partition(b":")
            headers[name.strip().lower().decode()] = value.strip().decode()
        if status == b"100":
            return self._read_answer(is_head)
        assert "transfer-encoding" not in headers
        length = 0 if is_head else int(headers["content-length"])
        body = self._stream.read(length)
        assert len(body) == length, "the answer ends too early"
        return Answer(int(status), reason.decode(), headers, body)

    def is_closed(self):
        """Waits for the server to close; False when it sends something instead."""
        try:
            return self._stream.read(1) == b""
        except ConnectionResetError:
            return True


def exchange(port, *pieces, is_head=False):
    with Wire(port) as wire:
        wire.send(*pieces)
        return wire.read_answer(is_head)


def request(method, path, body=b"", *headers):
    """The bytes of one request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *headers]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
