# SPDX-License-Identifier: BSD-3-Clause
"""What a process writes to a pipe, line by line."""
import os
import queue
import select
import threading

PIPE_BYTES = 1 << 20  # as much as a pipe can hold


class LogReader:
    """A thread reads, so that the process never waits. read() first takes what is in the pipe: a line that was
    written before a reply is there when the reply is."""

    def __init__(self, pipe):
        self._lines = []
        self._pipe = pipe
        self._rest = b""
        self._is_open = True
        self._unseen = queue.Queue()  # of lines, at last None
        self._lock = threading.Lock()
        os.set_blocking(pipe.fileno(), False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        poll = select.poll()
        poll.register(self._pipe.fileno(), select.POLLIN)
        while self._is_open:
            poll.poll()
            self._take_available()

    def _take_available(self):
        with self._lock:
            if not self._is_open:
                return
            try:
                data = os.read(self._pipe.fileno(), PIPE_BYTES)
            except BlockingIOError:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            if not data:
                self._is_open = False
                lines = [self._rest] if self._rest else []
            for line in lines:
                self._lines.append(line.decode(errors="replace"))
                self._unseen.put(self._lines[-1])
            if not data:
                self._unseen.put(None)

    def take(self, seconds):
        """The next line, None at the end of the pipe; raises queue.Empty after that time."""
        line = self._unseen.get(timeout=max(0, seconds))
        if line is None:
            self._unseen.put(None)
        return line

    def read(self):
        """The lines so far."""
        self._take_available()
        return self._lines

    def join(self, seconds):
        """Waits for the end of the pipe."""
        self._thread.join(seconds)
