#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A client that means no harm, in a process of its own: asks for the health again and again while others attack.

Each line of its standard input is one of

  begin <pid> <thread> http <port> <path>      asks the server with that process until "end";
  begin <pid> <thread> grpc <port>             its loop has that name
  end                                 prints {"n": answers, "worst_ms": ..., "wall_ms": ...}

worst_ms is the longest time to an answer, without the time for which the thread of the server's loop, or this
process, was ready to run and had no CPU, which on a busy machine is the doing of other programs. wall_ms has it.
"""
import json
import pathlib
import select
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import frames  # noqa: E402

PAUSE_SECONDS = 0.001
ANSWER_SECONDS = 60
THREAD_NAME_LENGTH = 15  # of the kernel
SENT_BY_CONNECTION = 1 << 20  # streams; then a new connection


class Http:
    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", int(port)), ANSWER_SECONDS)
        self.request = f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()

    def ask(self):
        """Health has no body, and its answer comes in one piece."""
        self.socket.sendall(self.request)
        got = b""
        while b"\r\n\r\n" not in got:
            more = self.socket.recv(65536)
            if not more:
                raise OSError("the connection was closed")
            got += more
        if not got.startswith(b"HTTP/1.1 200 "):
            raise OSError(got[:60].decode(errors="replace"))


class Grpc:
    def __init__(self, port):
        self.port_number = int(port)
        self.stream = 1
        self.raw = frames.Raw(self)

    @property
    def socket(self):
        return self.raw.socket

    def port(self, _):
        return self.port_number

    def ask(self):
        self.raw.send(frames.call(self.stream) +
                      frames.frame(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 64)))
        if not self.raw.has_answer(self.stream):
            raise OSError("the connection was closed")
        self.stream += 2
        if self.stream > SENT_BY_CONNECTION:
            self.raw.socket.close()
            self.stream, self.raw = 1, frames.Raw(self)


KINDS = {"http": Http, "grpc": Grpc}


def waited_seconds(path):
    """For a CPU, while it was ready to run."""
    try:
        return int(path.read_text("ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def loop_of(pid, name):
    """The file with the times of the server's first loop of that name."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text("ascii").strip() == f"{name}-0"[:THREAD_NAME_LENGTH]:
            return task / "schedstat"
    raise OSError(f"the server has no thread {name}-0")


class Watch:
    def __init__(self, pid, thread, kind, *where):
        self.files = [pathlib.Path("/proc/thread-self/schedstat"), loop_of(pid, thread)]
        self.client = KINDS[kind](*where)
        self.n = 0
        self.worst = self.wall = 0.0

    def ask(self):
        waited = sum(map(waited_seconds, self.files))
        begun = time.monotonic()
        self.client.ask()
        wall = time.monotonic() - begun
        waited = sum(map(waited_seconds, self.files)) - waited
        self.n += 1
        self.wall = max(self.wall, wall)
        self.worst = max(self.worst, wall - waited)

    def until_told(self):
        while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
            self.ask()
        self.ask()  # what is still in the server's queue is before it
        self.client.socket.close()


def main():
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] != "begin":
            continue
        try:
            watch = Watch(*words[1:])
            watch.ask()
            watch.worst = watch.wall = 0.0
            print("{}", flush=True)
            watch.until_told()
            print(json.dumps({"n": watch.n, "worst_ms": 1e3 * watch.worst, "wall_ms": 1e3 * watch.wall}),
                  flush=True)
        except OSError as e:
            print(json.dumps({"error": str(e)}), flush=True)


if __name__ == "__main__":
    main()
