# SPDX-License-Identifier: BSD-3-Clause
"""What the tests with real programs (balancers, boards, slurm, kubernetes) share: ports, requests, waiting, the end."""
import socket
import sys
import time
import urllib.error
import urllib.request


def fail(text):
    sys.exit(f"FAILED: {text}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as reply:
        return reply.read().decode()


def wait_until(check, what, seconds):
    """Polls states of other programs, which report no change. `what`: the text of the error, or makes it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = check()
            if found:
                return found
        except (OSError, urllib.error.URLError):
            pass
        if time.monotonic() > deadline:
            text = what() if callable(what) else what
            raise AssertionError(f"waited {seconds} s: {text}")
        time.sleep(0.05)
