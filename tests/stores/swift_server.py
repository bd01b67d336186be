# SPDX-License-Identifier: BSD-3-Clause
"""OpenStack Swift with the interface of S3, on a folder: one process each for accounts, containers,
objects and the proxy, one replica, no daemons of the system.

    with Swift(folder) as store:
        store.request("PUT", "/bucket")
        store.put("bucket", "key", b"bytes")
        ... f"s3://{store.origin}/bucket"

The keys are store.key_id and store.secret.
"""
import getpass
import hashlib
import hmac
import http.client
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.parse

REGION = "us-east-1"
START_SECONDS = 60

STORAGE = """
[DEFAULT]
devices = {folder}/devices
mount_check = false
disable_fallocate = true
swift_dir = {folder}
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
log_address = /nowhere
fallocate_reserve = 0
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""

PROXY = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
swift_dir = {folder}
workers = 0
user = {user}
log_address = /nowhere
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck nocache s3api tempauth slo dlo versioned_writes proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:nocache]
use = call:swift_cache:filter_factory
[filter:s3api]
use = egg:swift#s3api
location = {region}
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:versioned_writes]
use = egg:swift#versioned_writes
"""


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def signature(secret, day, text):
    key = b"AWS4" + secret.encode()
    for part in (day, REGION, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Swift:
    key_id, secret = "test:tester", "testing"

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []
        kinds = ("account", "container", "object")
        *self.ports, self.port = free_ports(4)
        (self.folder / "devices" / "d1").mkdir(parents=True)
        for kind, port in zip(kinds, self.ports):
            self._make_ring(kind, port)
        for kind, port in zip(kinds, self.ports):
            self._start(kind, STORAGE, port)
        self._start("proxy", PROXY, self.port)

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.port}"

    def _make_ring(self, kind, port):
        builder = str(self.folder / f"{kind}.builder")
        for arguments in (["create", "4", "1", "1"],
                          ["add", f"r1z1-127.0.0.1:{port}/d1", "1"], ["rebalance"]):
            subprocess.run(["swift-ring-builder", builder, *arguments], check=True,
                           stdout=subprocess.DEVNULL)

    def _start(self, kind, text, port):
        config = self.folder / f"{kind}-server.conf"
        config.write_text(text.format(folder=self.folder, port=port, kind=kind, region=REGION,
                                      user=getpass.getuser()))
        log = open(self.folder / f"{kind}.log", "wb")
        self.processes.append(subprocess.Popen(
            [sys.executable, f"/usr/bin/swift-{kind}-server", str(config), "-v"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent)}))

    def wait(self):
        """Until all four answer."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                for port in self.ports:
                    socket.create_connection(("127.0.0.1", port)).close()
                status = self.request("GET", "/").status
            except OSError:
                status = 0
            if status == 200:
                return self
            assert time.monotonic() < deadline, self.logs()
            assert all(process.poll() is None for process in self.processes), self.logs()
            time.sleep(0.1)

    def logs(self):
        return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}"
                         for path in self.folder.glob("*.log"))

    def __enter__(self):
        try:
            return self.wait()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # requests

    def headers(self, method, path, query=""):
        now = time.gmtime()
        moment, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
        headers = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
                   "x-amz-date": moment}
        names = ";".join(sorted(headers))
        canonical = "\n".join([method, urllib.parse.quote(path), query,
                               *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names,
                               "UNSIGNED-PAYLOAD"])
        scope = f"{day}/{REGION}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", moment, scope,
                          hashlib.sha256(canonical.encode()).hexdigest()])
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key_id}/{scope},SignedHeaders={names},"
            f"Signature={signature(self.secret, day, text)}")
        return headers

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, urllib.parse.quote(path), body=body,
                               headers=self.headers(method, path))
            answer = connection.getresponse()
            answer.text = answer.read()
            return answer
        finally:
            connection.close()

    def put(self, bucket, key, data):
        answer = self.request("PUT", f"/{bucket}/{key}", data)
        assert answer.status == 200, (answer.status, answer.text)

    def delete(self, bucket, key):
        assert self.request("DELETE", f"/{bucket}/{key}").status == 204
