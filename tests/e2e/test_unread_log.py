# SPDX-License-Identifier: BSD-3-Clause
"""The reader of the log stalls: the server serves, stops, and says what was lost when it is read."""
import json
import os
import re
import signal
import subprocess
import threading

import pytest
import requests

from conftest import BUILD, require_build, write_repository

BACKENDS = ("identity",)
IDENTITY = ('backend: "identity"\ninput { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n')
BODY = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]})
N_REQUESTS = 6000  # 1.5 MB of access lines: more than pipe and memory take


class Unread:
    """A server; its log is read until its ports are known, and again by read_rest()."""

    def __init__(self, repository, *options):
        reader, writer = os.pipe()
        self.reader = os.fdopen(reader, "rb", buffering=0)
        self.process = subprocess.Popen(
            [str(BUILD / "neso"), "serve", f"--model-repository={repository}",
             f"--backend-directory={BUILD / 'backends'}", "--http-address=127.0.0.1",
             "--http-port=0", "--allow-grpc=false", "--metrics-port=0", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        text = b""
        while b"Metrics Service at" not in text:
            piece = self.reader.read(4096)
            assert piece, text
            text += piece
        self.url, self.metrics = (
            "http://127.0.0.1:" + re.search(name + rb" at \S+:(\d+)", text).group(1).decode()
            for name in (rb"HTTPService", rb"Metrics Service"))

    def infer_often(self):
        with requests.Session() as session:
            for _ in range(N_REQUESTS):
                assert session.post(f"{self.url}/v2/models/m/infer", data=BODY,
                                    timeout=20).status_code == 200

    def n_lost(self):
        page = requests.get(self.metrics + "/metrics", timeout=20).text
        return int(float(re.search(r"^neso_log_lines_lost_total (\S+)$", page, re.M).group(1)))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture(name="unread")
def unread_server(tmp_path):
    require_build(BACKENDS)
    write_repository(tmp_path, {"m": IDENTITY})
    server = Unread(tmp_path, "--log-format=json")
    yield server
    if server.process.poll() is None:
        server.process.kill()
    server.process.wait()
    server.reader.close()


def test_serves_and_stops(unread):
    assert unread.n_lost() == 0
    unread.infer_often()
    assert unread.n_lost() > 0
    assert unread.stop() == 0


def test_says_what_was_lost(unread):
    unread.infer_often()
    n_lost = unread.n_lost()
    text = []
    whole = os.fdopen(os.dup(unread.reader.fileno()), "rb")
    reader = threading.Thread(target=lambda: text.append(whole.read()), daemon=True)
    reader.start()
    assert unread.stop() == 0
    reader.join(20)
    whole.close()
    lines = [json.loads(line) for line in text[0].decode().splitlines()]  # none is cut
    reported = [re.match(r"(\d+) lines of the log were lost", line.get("msg", "")) for line in lines]
    assert sum(int(match.group(1)) for match in reported if match) == n_lost > 0
    # What came after it was read again is there: the last lines before the end.
    assert any("All models are stopped" in line.get("msg", "") for line in lines)
    access = [line for line in lines if line.get("path") == "/v2/models/m/infer"]
    assert len(access) + n_lost == N_REQUESTS
