# SPDX-License-Identifier: BSD-3-Clause
"""HTTP/2 on a plain socket, frame by frame, for what no client library would send."""
import socket
import struct

LIVE = "/inference.GRPCInferenceService/ServerLive"
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 6, 7, 8, 9)
END_STREAM = ACK = 1
END_HEADERS = 4
CANCEL, CALM = 0x8, 0xb


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def field(name, value):
    def text(t):
        assert len(t) < 127
        return bytes([len(t)]) + t
    return b"\0" + text(name.encode()) + text(value.encode())


def head(path=LIVE, **more):
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost",
              "content-type": "application/grpc", "te": "trailers", **more}
    return b"".join(field(name, value) for name, value in fields.items())


def call(stream, message=b"", **more):
    prefix = b"\0" + struct.pack(">I", len(message))
    return (frame(HEADERS, END_HEADERS, stream, head(**more)) +
            frame(DATA, END_STREAM, stream, prefix + message))


def reset(stream, code=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def says_status(block, code):
    """Whether a header block, the first of its connection, has that grpc-status: the name as HPACK
    codes it (RFC 7541, appendix B), the digits as they are."""
    digits = str(code).encode()
    return b"\x40\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f" + bytes([len(digits)]) + digits in block


class Raw:
    """A connection that says what it likes."""

    def __init__(self, server, greeting=PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)):
        self.socket = socket.create_connection(("127.0.0.1", server.port("grpc")), 30)
        self.send(greeting)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, text):
        try:
            self.socket.sendall(text)
        except OSError:
            pass  # ended by the server: what it said is there to be read

    def read_exactly(self, n):
        got = b""
        while len(got) < n:
            try:
                more = self.socket.recv(n - len(got))
            except ConnectionResetError:
                return None
            if not more:
                return None
            got += more
        return got

    def frames(self):
        """(type, flags, stream, payload) until the connection ends."""
        while (start := self.read_exactly(9)) is not None:
            length = int.from_bytes(start[:3], "big")
            payload = self.read_exactly(length)
            if payload is None:
                return
            yield start[3], start[4], int.from_bytes(start[5:9], "big"), payload

    def goaway(self):
        """Code and text of the last GOAWAY; the connection ends behind it."""
        last = None
        for kind, _, _, payload in self.frames():
            if kind == GOAWAY:
                last = (int.from_bytes(payload[4:8], "big"), payload[8:].decode())
        return last

    def trailers(self, stream):
        """The header block that ends a stream; None when the connection ends instead."""
        for kind, flags, of, payload in self.frames():
            if kind == HEADERS and flags & END_STREAM and of == stream:
                return payload
        return None

    def frames_until_end(self, stream):
        """The frames up to the one that ends the stream."""
        for one in self.frames():
            yield one
            if one[2] == stream and (one[0] == RST_STREAM or one[1] & END_STREAM):
                return

    def has_answer(self, stream):
        return self.trailers(stream) is not None
