# SPDX-License-Identifier: BSD-3-Clause
"""A container of an unpacked image, as a runtime makes one: the root file system is read-only, the process has the
user, the environment and the command of the image and is the first of its process namespace, the models are mounted
read-only. Only the network is that of the test, which has a network namespace of its own (own_network())."""
import ctypes
import fcntl
import os
import pathlib
import signal
import socket
import struct
import subprocess
import threading
import time

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
# $1 the root folder, $2 the models; then the environment and the command.
START = '''
set -e
root=$1 models=$2
shift 2
mount --bind "$root" "$root"
mount --bind "$models" "$root/models"
mount -o remount,bind,ro "$root/models"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/urandom" c 1 9
mount -o remount,bind,ro "$root"
cd /
exec setpriv --no-new-privs /usr/bin/env -i "$@"
'''


def own_network():
    """This process and all that it starts get a network namespace with nothing but the loopback interface, so that
    the ports of the image are free whatever else the machine runs."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


class Container:
    """`options` are added to the image's command, `user` replaces that of the image."""

    def __init__(self, image, folder, models, options=(), user=None):
        config = image.config["config"]
        self.user = user or config["User"]
        self.environment = config["Env"]
        self.lines = []
        self.has_begun = threading.Event()  # the program of the image has written a line, or all has ended
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child=KILL",
             "sh", "-c", START, "-", str(folder), str(models), *self.environment,
             "/usr/sbin/chroot", f"--userspec={self.user}", "--groups=", str(folder),
             *config["Entrypoint"], *config["Cmd"], *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode(errors="replace"))
            self.has_begun.set()
        self.has_begun.set()

    def wait_until_ready(self, seconds):
        """The seconds from the start of the container to the end of `neso ctl ready --wait` in it."""
        assert self.has_begun.wait(seconds)
        waited = self.run("neso", "ctl", "ready", "--wait", str(seconds))
        assert waited.returncode == 0, (waited.stdout, waited.stderr, self.log())
        return time.monotonic() - self.begin

    @staticmethod
    def port(name):
        """What the clients of tests/e2e ask a server for."""
        return {"http": 8000, "grpc": 8001, "metrics": 8002}[name]

    def log(self):
        return "".join(self.lines)

    def first_process(self):
        """Its number outside of the container."""
        [number] = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(number)

    def run(self, *command):
        """A command in the container, as its user: what HEALTHCHECK and `podman exec` do."""
        user, group = self.user.split(":")
        environment = dict(row.split("=", 1) for row in self.environment)
        return subprocess.run(["/usr/bin/nsenter", "--target", str(self.first_process()), "--mount", "--pid", "--root",
                               "--wd=/", "--setuid", user, "--setgid", group, "--", *command],
                              env=environment, capture_output=True, text=True, timeout=60, check=False)

    def status(self):
        """The fields of /proc/PID/status of the server."""
        text = pathlib.Path(f"/proc/{self.first_process()}/status").read_text()
        return dict(line.split(":\t", 1) for line in text.splitlines())

    def mounts(self):
        """{place: options} of the mounts that the server sees."""
        text = pathlib.Path(f"/proc/{self.first_process()}/mountinfo").read_text()
        return {line.split()[4]: line.split()[5].split(",") for line in text.splitlines()}

    def stop(self):
        """SIGTERM, as the image's StopSignal; the exit code."""
        if self.process.poll() is None:
            os.kill(self.first_process(), signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the container did not stop:\n" + self.log()) from None
