# SPDX-License-Identifier: BSD-3-Clause
"""Three servers and a balancer with the configuration of deploy/, all on loopback.

Each server has an address of its own in 127.0.0.0/8, takes ports that the kernel chooses and keeps them when it starts
again. Meanwhile a socket of the test, which is bound and does not listen, keeps others from taking them.
"""
import csv
import io
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests")]

import programs  # noqa: E402
from programs import fail, free_port, get  # noqa: E402

DEPLOY = ROOT / "deploy"
PATIENCE_SECONDS = 30
DRAIN_DELAY_SECONDS = 1

# The answers name their server: INSTANCE is the name of the instance that computed them.
MODELS = {
    "plain": '''backend: "testing" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }, { name: "INSTANCE" data_type: TYPE_STRING dims: 1 } ]
instance_group { name: "SERVER" count: 2 kind: KIND_CPU }
dynamic_batching { }
parameters { key: "execute_delay_ms" value { string_value: "5" } }
''',
    "sums": '''backend: "testing" max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }
output [ { name: "SUM" data_type: TYPE_INT32 dims: 1 }, { name: "INSTANCE" data_type: TYPE_STRING dims: 1 } ]
instance_group { name: "SERVER" count: 1 kind: KIND_CPU }
sequence_batching { max_sequence_idle_microseconds: 120000000 direct { } }
''',
}


def keep_port(address, port):
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind((address, port))
    return one


def wait_until(check, what, seconds=PATIENCE_SECONDS):
    return programs.wait_until(check, what, seconds)


class Server:
    def __init__(self, build, folder, number):
        self.name = f"neso{number}"
        self.address = f"127.0.0.{10 + number}"
        self.ports = {"http": 0, "grpc": 0, "metrics": 0}
        self._kept = []
        self._build = build
        self._folder = folder / self.name
        self._port_file = self._folder / "ports"
        self.log = self._folder / "log"
        self.process = None
        for model, text in MODELS.items():
            (self._folder / "models" / model / "1").mkdir(parents=True)
            (self._folder / "models" / model / "config.pbtxt").write_text(text.replace("SERVER", self.name))

    @property
    def url(self):
        return f"http://{self.address}:{self.ports['http']}"

    def start(self):
        """Returns when it is ready."""
        asked = {**self.ports, "metrics": 0}  # the balancer does not use that one
        command = [self._build / "neso", "serve", f"--model-repository={self._folder / 'models'}",
                   f"--backend-directory={self._build / 'backends'}", f"--port-file={self._port_file}",
                   *(f"--{name}-address={self.address}" for name in self.ports),
                   *(f"--{name}-port={port}" for name, port in asked.items()),
                   "--reuse-http-port=true", "--reuse-grpc-port=true", "--allow-drain=true", f"--drain-delay={DRAIN_DELAY_SECONDS}", "--exit-timeout-secs=30"]
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._has_ports, self.text)
        for line in self._port_file.read_text("ascii").split():
            name, _, port = line.partition("=")
            self.ports[name] = int(port)
        if not self._kept:
            self._kept = [keep_port(self.address, self.ports[name]) for name in ("http", "grpc")]
        self.ctl("ready", "--wait", str(PATIENCE_SECONDS))

    def _has_ports(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} ended:\n{self.text()}")
        return self._port_file.exists()

    def text(self):
        return self.log.read_text("utf-8")[-4000:]

    def ctl(self, *arguments):
        subprocess.run([self._build / "neso", "ctl", *arguments, "--url", self.url], check=True,
                       stdout=subprocess.DEVNULL, timeout=2 * PATIENCE_SECONDS)

    def sequences(self):
        [row] = json.loads(get(f"{self.url}/v2/models/sums/sequences"))["model_sequences"]
        return row["sequences"]

    def live_sequences(self):
        return len(self.sequences())

    def stop(self):
        """By SIGTERM, which has to be a clean end."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=2 * PATIENCE_SECONDS)
        if code != 0:
            raise AssertionError(f"{self.name} ended with {code}:\n{self.text()}")

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """Returns the time from which on it is gone."""
        self.process.kill()
        self.process.wait()
        self._port_file.unlink()
        return time.monotonic()

    def close(self):
        for one in self._kept:
            one.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Balancer:
    """The parts that HAProxy and nginx share: a process with a configuration made from that of deploy/."""

    def __init__(self, folder, servers):
        self.servers = servers
        self.folder = folder
        self.http_port, self.grpc_port = free_port(), free_port()
        self.process = None
        self.log = folder / "balancer.log"

    def with_addresses(self, text):
        """The addresses of the file are those that are reserved for documentation (RFC 5737). With two servers the
        lines of the third one go, and the group of nginx in which it is the only one."""
        if len(self.servers) == 2:
            text = re.sub(r"(?m)^ *upstream \w+_only3 \{[^}]*\}\n", "", text)
            text = re.sub(r".*\b192\\?\.0\\?\.2\\?\.13:.*\n", "", text)
        for number, server in enumerate(self.servers, 11):
            text = text.replace(f"192.0.2.{number}:8000", f"{server.address}:{server.ports['http']}")
            text = text.replace(f"192.0.2.{number}:8001", f"{server.address}:{server.ports['grpc']}")
            text = text.replace(rf"192\.0\.2\.{number}:", re.escape(server.address) + ":")
        if "192.0.2." in text or r"192\.0" in text:
            fail("the configuration names a fourth server")
        return text

    def write(self, name, text, *changes):
        for before, after in changes:
            if text.count(before) != 1:
                fail(f"{name}: '{before}' stands there {text.count(before)} times, not once")
            text = text.replace(before, after)
        path = self.folder / name
        path.write_text(text)
        return path

    def start(self, command):
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._serves, lambda: f"{self.name} does not start:\n{self.log.read_text()}")

    def _serves(self):
        if self.process.poll() is not None:
            fail(f"{self.name} ended:\n{self.log.read_text()}")
        get(f"http://127.0.0.1:{self.http_port}/v2/health/ready")
        return True

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=PATIENCE_SECONDS)


class HaProxy(Balancer):
    name = "haproxy"
    checks_health = True

    def __init__(self, folder, servers):
        super().__init__(folder, servers)
        self.statistics_port = free_port()
        file = self.write("haproxy.cfg", self.with_addresses((DEPLOY / "haproxy/haproxy.cfg").read_text()),
                          ("bind :8000", f"bind 127.0.0.1:{self.http_port}"),
                          ("bind :8001", f"bind 127.0.0.1:{self.grpc_port}"),
                          ("127.0.0.1:8404", f"127.0.0.1:{self.statistics_port}"))
        self.start(["haproxy", "-db", "-f", file])
        for server in servers:
            self.has_back(server)

    def states(self, server):
        rows = csv.DictReader(io.StringIO(get(f"http://127.0.0.1:{self.statistics_port}/;csv")))
        return {row["status"].split()[0] for row in rows if row["svname"] == server.name}

    def _wait_for(self, server, *wanted):
        wait_until(lambda: self.states(server) <= set(wanted),
                   lambda: f"{server.name} is {self.states(server)}, not {wanted}")

    def take_out(self, server):
        """The health check does."""

    def has_taken_out(self, server):
        self._wait_for(server, "NOLB")

    def finds_down(self, server):
        self._wait_for(server, "DOWN")

    def put_back(self, server):
        """The health check does."""

    def has_back(self, server):
        self._wait_for(server, "UP")


class Nginx(Balancer):
    name = "nginx"
    checks_health = False

    def __init__(self, folder, servers):
        super().__init__(folder, servers)
        self.flags = folder / "draining"
        self.flags.mkdir()
        temporary = "".join(f"    {what}_temp_path {folder}/{what};\n"
                            for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = self.with_addresses((DEPLOY / "nginx/nginx.conf").read_text())
        file = self.write("nginx.conf", text.replace("/run/neso-draining", str(self.flags)),
                          ("listen 8000;", f"listen 127.0.0.1:{self.http_port};"),
                          ("listen 8001 http2;", f"listen 127.0.0.1:{self.grpc_port} http2;"),
                          ("\nhttp {\n", f"\nhttp {{\n{temporary}"))
        self.start([nginx_program(), "-p", folder, "-e", "stderr", "-c", file,
                    "-g", f"daemon off; pid {folder}/nginx.pid;"])

    def take_out(self, server):
        (self.flags / server.name).touch()

    def has_taken_out(self, server):
        """At once: the next request sees the file."""

    def put_back(self, server):
        (self.flags / server.name).unlink()

    def has_back(self, server):
        """At once."""


def nginx_program():
    """Debian installs it where the search path of users does not look."""
    return "/usr/sbin/nginx" if os.path.exists("/usr/sbin/nginx") else "nginx"
