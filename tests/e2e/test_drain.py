# SPDX-License-Identifier: BSD-3-Clause
"""A server that leaves its balancer: readiness ends at once, clients are sent away later, nothing is refused.
And what it tells a supervisor meanwhile."""
import contextlib
import os
import signal
import socket
import subprocess
import time

import grpc
import pytest
import requests

from conftest import BUILD, Server, patience, require_build, write_repository
from grpc_stubs import Client, Stub, open_channel, stubs  # noqa: F401

IDENTITY = '''backend: "identity"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
'''
BODY = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]}
SECONDS = patience(20)


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(("identity",))


@contextlib.contextmanager
def serve(tmp_path, *options):
    write_repository(tmp_path / "models", {"m": IDENTITY})
    server = Server(tmp_path / "models", options, waits_for=("http", "grpc", "metrics"))
    try:
        yield server
    finally:
        assert server.stop() == 0


def infer(session, server):
    answer = session.post(f"{server.url}/v2/models/m/infer", json=BODY, timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    return answer


def ctl(server, *arguments):
    ended = subprocess.run([str(BUILD / "neso"), "ctl", *arguments, "--url", server.url], capture_output=True,
                           text=True, timeout=SECONDS, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_drain_and_undo(tmp_path, stubs):  # noqa: F811
    """By clients: HTTP and gRPC see it at once, a watch too; then answers say close."""
    with serve(tmp_path, "--allow-drain=true", "--drain-delay=0") as server, requests.Session() as session, \
            open_channel(server) as channel:
        health = Stub(channel, stubs.health, "Health")
        watch = health.Watch(stubs.health.HealthCheckRequest(), timeout=SECONDS)
        assert next(watch).status == 1
        assert "connection" not in infer(session, server).headers
        assert ctl(server, "drain") == (0, "server: drains\n")
        assert next(watch).status == 2
        assert session.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 400
        assert session.get(f"{server.url}/v2/health/live", timeout=SECONDS).status_code == 200
        assert session.get(f"{server.url}/v2/models/m/ready", timeout=SECONDS).status_code == 200
        assert infer(session, server).headers["connection"] == "close"
        assert ctl(server, "ready")[0] == 1
        assert ctl(server, "drain") == (0, "server: drains\n")
        assert ctl(server, "drain", "--undo") == (0, "server: serves as before\n")
        assert next(watch).status == 1
        assert "connection" not in infer(session, server).headers
        watch.cancel()


def test_delay(tmp_path):
    """Until the balancer has seen it, clients keep their connections."""
    with serve(tmp_path, "--allow-drain=true", "--drain-delay=3600") as server, requests.Session() as session:
        assert session.post(f"{server.url}/v2/drain", timeout=SECONDS).status_code == 200
        assert session.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 400
        assert "connection" not in infer(session, server).headers


def test_grpc_connections_are_sent_away(tmp_path, stubs):  # noqa: F811
    """A connection gets GOAWAY and its clients connect again; no call is lost, new ones are served."""
    with serve(tmp_path, "--drain-delay=0") as server, open_channel(server) as channel:
        client = Client(channel, stubs)
        states = []
        note = states.append  # one object: unsubscribe() looks for it
        channel.subscribe(note)
        assert client.call("ServerLive").live
        server.process.send_signal(signal.SIGUSR1)
        server.wait_for_line("Draining")
        deadline = time.monotonic() + SECONDS
        while grpc.ChannelConnectivity.IDLE not in states[1:]:  # after GOAWAY
            assert time.monotonic() < deadline, states
            assert client.call("ServerLive").live
        assert not client.call("ServerReady").ready
        channel.unsubscribe(note)


def test_a_wait_of_centuries(tmp_path):
    """18 446 744 074 s are more nanoseconds than 64 bits have, by 0.3 s."""
    with serve(tmp_path, "--allow-drain=true") as server:
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run([str(BUILD / "neso"), "ctl", "drain", "--wait", "18446744074", "--url", server.url],
                           capture_output=True, timeout=2, check=False)
        assert requests.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 400


def test_refused_without_the_option(tmp_path):
    with serve(tmp_path) as server:
        answer = requests.post(f"{server.url}/v2/drain", timeout=SECONDS)
        assert answer.status_code == 501
        assert answer.json() == {"error": "draining is not allowed: see --allow-drain"}
        assert requests.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 200


@pytest.mark.parametrize("body,text", [
    ('{"undo":1}', "Invalid value for 'undo': expected a boolean"),
    ('{"redo":true}', "unexpected member 'redo': expected 'undo'"),
    ('[', "failed to parse"),
])
def test_mistakes(tmp_path, body, text):
    with serve(tmp_path, "--allow-drain=true") as server:
        answer = requests.post(f"{server.url}/v2/drain", data=body, timeout=SECONDS)
        assert answer.status_code == 400
        assert text in answer.json()["error"]
        assert requests.get(f"{server.url}/v2/health/ready", timeout=SECONDS).status_code == 200


def test_port_file(tmp_path):
    path = tmp_path / "ports"
    with serve(tmp_path, f"--port-file={path}") as server:
        deadline = time.monotonic() + SECONDS
        while not path.exists():  # after the last line that the fixture waits for
            assert time.monotonic() < deadline
        assert path.read_text("ascii") == "".join(
            f"{name}={server.port(name)}\n" for name in ("http", "grpc", "metrics"))
        assert ctl(server, "ready", "--wait", "5")[0] == 0
    assert not path.exists()


def test_port_file_that_cannot_be_written(tmp_path):
    write_repository(tmp_path, {"m": IDENTITY})
    server = Server(tmp_path, ("--port-file=/nonexistent/p",))
    server.wait_for_line("error: --port-file: cannot write /nonexistent/p.*: No such file")
    assert server.stop() == 1


class Supervisor:
    """A socket for messages, and one that listens, as systemd has them."""

    def __init__(self, folder):
        self.path = str(folder / "notify")
        self.messages = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.messages.bind(self.path)
        self.messages.settimeout(SECONDS)
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(16)

    def next(self):
        return self.messages.recv(500).decode()

    def start(self, tmp_path):
        """A shell gives the socket the number 3 and becomes the server, whose process LISTEN_PID names."""
        fd = self.listener.fileno()
        os.set_inheritable(fd, True)
        environment = [f"NOTIFY_SOCKET={self.path}", "WATCHDOG_USEC=400000", "LISTEN_FDS=1",
                       "LISTEN_FDNAMES=http"]
        script = f'exec 3<&{fd}; export LISTEN_PID=$$; exec "$@"'
        return subprocess.Popen(
            ["env", *environment, "/bin/bash", "-c", script, "sh", str(BUILD / "neso"), "serve",
             f"--model-repository={tmp_path / 'models'}", f"--backend-directory={BUILD / 'backends'}", "--grpc-port=0",
             "--metrics-port=0", "--http-port=1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=(fd,))

    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"


def test_supervisor(tmp_path):
    """Ready, alive, reloading, stopping, on a socket that the supervisor has opened; and a second server takes the
    socket over, with the connections that came in between."""
    write_repository(tmp_path / "models", {"m": IDENTITY})
    supervisor = Supervisor(tmp_path)
    process = supervisor.start(tmp_path)
    assert supervisor.next() == "READY=1\nSTATUS=serving"
    assert requests.get(f"{supervisor.url()}/v2/health/ready", timeout=SECONDS).status_code == 200
    assert [supervisor.next() for _ in range(3)] == ["WATCHDOG=1"] * 3
    process.send_signal(signal.SIGHUP)
    seen = [supervisor.next()]
    while not seen[-1].startswith("READY"):
        seen.append(supervisor.next())
    assert any(message.startswith("RELOADING=1\nMONOTONIC_USEC=") for message in seen)
    process.send_signal(signal.SIGTERM)
    while seen[-1] != "STOPPING=1\nSTATUS=stopping":
        seen.append(supervisor.next())
    assert process.communicate(timeout=SECONDS)[0] and process.returncode == 0

    with socket.create_connection(supervisor.listener.getsockname(), timeout=SECONDS) as early:
        early.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
        second = supervisor.start(tmp_path)
        assert early.recv(100).startswith(b"HTTP/1.1 200 OK")
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=SECONDS)
    assert second.returncode == 0
