#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Python models for a long time: memory that must not grow, processes that are killed, reloads.

  make soak-python       or       tests/stress/python_models.py --build=build [--part=NAME,...]

All over loopback. Parts, each with a server of its own; numbers in brackets are those of the list of
acceptance checks in docs/python_models.md:

* memory (48): a million requests of mixed sizes; the resident memory of the server and of the process is at
  most 2 % larger after the second half than after the first, and so are the descriptors;
* burst (48): the memory and the addresses that 1 GiB of input needed go back to the system after ten
  seconds, in the server and in the process;
* reloads (47): the model is loaded anew 1000 times under load; no request fails, and processes, descriptors,
  mapped regions and directories stay as many;
* kills (40): for five minutes a process that serves is killed every 300 ms; each request is answered, those
  that fail say why, at most one execution is lost each time, and the server does not grow;
* crowd (40): 100 kills under 64 clients; how long until the failure is answered, and until service is back;
* loop (43): a model that crashes again and again; the restarts wait longer, the server stays idle, and the
  model can be unloaded.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GROWTH_ALLOWED = 0.02
RELOAD_GROWTH_ALLOWED = 0.05
SLACK_KIB = 1024  # of the allocator
CLIENTS = 16
CROWD = 64
SECONDS = 60  # an answer that takes longer hangs
MIXED = (1, 1, 1, 1, 1, 100, 1000, 20000)
KILL_INTERVAL = 0.3
BURST_BYTES = 1 << 30
MODEL = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        pid = np.array([os.getpid()], np.int32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy()),
                                            pb_utils.Tensor("PID", pid)]) for r in requests]
"""
SLOW = MODEL.replace("        pid =", "        time.sleep(0.005)\n        pid =").replace(
    "import os", "import os, time")
CRASHES = MODEL.replace("class TritonPythonModel:", """import threading

class TritonPythonModel:
    def initialize(self, args):
        threading.Timer(0.2, os._exit, (3,)).start()
""")
CONFIG = """backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "PID" data_type: TYPE_INT32 dims: [ 1 ] }
instance_group { count: %d kind: KIND_CPU }
"""
UNHEALTHY = re.compile(r"^Stub process '\w+' is not healthy\.$")


def fail(text):
    raise SystemExit(f"python_models: FAILED: {text}")


class Server:
    def __init__(self, options, models, n_instances=1):
        self.folder = tempfile.TemporaryDirectory()
        self.repository = os.path.join(self.folder.name, "models")
        self.scratch = os.path.join(self.folder.name, "tmp")
        os.mkdir(self.folder.name + "/tmp")
        for name, program in models.items():
            os.makedirs(os.path.dirname(self.program(name)))
            with open(self.program(name), "w", encoding="ascii") as file:
                file.write(program)
            with open(f"{self.repository}/{name}/config.pbtxt", "w", encoding="ascii") as file:
                file.write(CONFIG % n_instances)
        self.log = []
        self.process = subprocess.Popen(
            [os.path.join(options.build, "neso"), "serve", f"--model-repository={self.repository}",
             f"--backend-directory={os.path.join(options.build, 'backends')}",
             f"--backend-config=python,python-path={options.python}", "--model-control-mode=explicit",
             "--load-model=*", "--http-address=127.0.0.1", "--http-port=0", "--grpc-port=0",
             "--grpc-address=127.0.0.1", "--metrics-port=0",
             f"--http-max-input-size={2 * BURST_BYTES}"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env={**os.environ, "TMPDIR": self.scratch})
        self.port = None
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"Started HTTPService at 127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            fail("the server did not start: " + "".join(self.log[-5:]))
        threading.Thread(target=self.read_log, daemon=True).start()

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def program(self, name):
        return os.path.join(self.repository, name, "1", "model.py")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        code = self.process.wait(SECONDS)
        left = os.listdir(self.scratch)
        self.folder.cleanup()
        if error[0] is None and code != 0:
            fail(f"the server ended with {code}")
        if error[0] is None and left:
            fail(f"left behind: {left}")

    def stubs(self):
        text = subprocess.run(["ps", "-o", "pid=,stat=,args=", "--ppid", str(self.process.pid)],
                              capture_output=True, text=True, check=False).stdout
        return [int(line.split()[0]) for line in text.splitlines()
                if "triton_python_backend_stub.py" in line and not line.split()[1].startswith("Z")]

    def stub(self):
        [pid] = self.stubs()
        return pid

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def n_regions(self):
        """Regions that are shared with processes."""
        with open(f"/proc/{self.process.pid}/maps", encoding="ascii", errors="replace") as maps:
            return sum("memfd:neso_python" in line for line in maps)

    def region_bytes(self):
        """What the regions take, whoever has touched them."""
        folder = f"/proc/{self.process.pid}/fd"
        return sum(os.stat(f"{folder}/{name}").st_blocks * 512 for name in os.listdir(folder)
                   if os.readlink(f"{folder}/{name}").startswith("/memfd:neso_python"))


def shared_addresses(pid):
    """Addresses that the process has for the region."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        found = re.findall(r"^(\w+)-(\w+) .*neso_python", maps.read(), re.M)
    return sum(int(end, 16) - int(begin, 16) for begin, end in found)


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)

    def post(self, path, body, headers=None):
        self.connection.request("POST", path, body, headers or {})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def infer(self, n, value, model="m"):
        """The number of the process that answered, or the error."""
        data = struct.pack("<f", value) * n
        head = json.dumps({"inputs": [{"name": "X", "shape": [n], "datatype": "FP32", "parameters":
                                       {"binary_data_size": len(data)}}],
                           "parameters": {"binary_data_output": True}}).encode()
        status, body = self.post(f"/v2/models/{model}/infer", head + data,
                                 {"Inference-Header-Content-Length": str(len(head))})
        if status != 200:
            return None, json.loads(body)["error"]
        if body[-4 - len(data):-4] != data:
            fail("an answer with other values than its request")
        return struct.unpack("<i", body[-4:])[0], None

    def load(self, name, what="load"):
        status, body = self.post(f"/v2/repository/models/{name}/{what}", b"{}")
        if status != 200:
            fail(body[:200])


class Load:
    """Clients that send request after request: a number of them, or until stop()."""

    def __init__(self, server, n_clients=CLIENTS, n_requests=None, models=("m",), sizes=MIXED):
        self.server, self.models, self.sizes = server, models, sizes
        self.n_each = n_requests // n_clients if n_requests is not None else None
        self.lock = threading.Lock()
        self.has_stopped = False
        self.n_sent = self.n_right = 0
        self.failures = []  # (time, text)
        self.seen = {}  # process -> when it answered first, and its model
        self.pool = concurrent.futures.ThreadPoolExecutor(n_clients)
        self.tasks = [self.pool.submit(self._work, number) for number in range(n_clients)]

    def _work(self, number):
        dice, client, i = random.Random(number), Client(self.server), 0
        model = self.models[number % len(self.models)]
        while not self.has_stopped and (self.n_each is None or i < self.n_each):
            with self.lock:
                self.n_sent += 1
            pid, error = client.infer(dice.choice(self.sizes), float(dice.randrange(100) + i % 2),
                                      model)
            now = time.monotonic()
            with self.lock:
                self.n_right += error is None
                if error is not None:
                    self.failures.append((now, error))
                else:
                    self.seen.setdefault(pid, (now, model))
            i += 1

    def wait(self):
        for task in self.tasks:
            task.result()
        self.pool.shutdown()
        if self.n_sent != self.n_right + len(self.failures):
            fail(f"{self.n_sent} were sent, {self.n_right} answered, {len(self.failures)} failed")

    def stop(self):
        self.has_stopped = True
        self.wait()

    def must_be_right(self):
        if self.failures:
            fail(f"{len(self.failures)} requests failed: {self.failures[0][1]}")

    def must_be_unhealthy(self):
        other = [text for _, text in self.failures if not UNHEALTHY.match(text)]
        if other:
            fail(f"{len(other)} other errors: {other[0]}")


def has_grown(before, after, allowed=GROWTH_ALLOWED):
    return after > before * (1 + allowed) + SLACK_KIB


def check_memory(options):
    with Server(options, {"m": MODEL}) as server:
        pids, figures = [server.process.pid, server.stub()], []
        for _ in range(2):
            load = Load(server, n_requests=options.requests // 2)
            load.wait()
            load.must_be_right()
            figures.append(([resident_kib(pid) for pid in pids], server.n_descriptors()))
        print(f"memory: {options.requests} requests; server and process {figures[0][0]} KiB, then "
              f"{figures[1][0]} KiB; {figures[0][1]} descriptors, then {figures[1][1]}")
        if any(has_grown(a, b) for a, b in zip(figures[0][0], figures[1][0])):
            fail("memory grows")
        if figures[1][1] > figures[0][1] + CLIENTS:
            fail("descriptors are not closed")


def check_burst(options):
    with Server(options, {"m": MODEL}) as server:
        client = Client(server)
        pid, _ = client.infer(1, 1.0)
        before, server_before = server.region_bytes(), resident_kib(server.process.pid)
        addresses = [shared_addresses(pid), shared_addresses(server.process.pid)]
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            task, top, top_at = pool.submit(client.infer, BURST_BYTES // 4, 1.0), 0, 0
            deadline = time.monotonic() + 2 * SECONDS
            while time.monotonic() < deadline and not (
                    task.done() and server.region_bytes() <= before and
                    [shared_addresses(pid), shared_addresses(server.process.pid)] == addresses):
                now = server.region_bytes()
                if now > top:
                    top, top_at = now, time.monotonic()
                time.sleep(0.05)
            _, error = task.result()
        print(f"burst: {BURST_BYTES >> 20} MiB; the region has {before >> 10} KiB, then {top >> 20} MiB, "
              f"{time.monotonic() - top_at:.1f} s after that {server.region_bytes() >> 10} KiB; the "
              f"server {server_before} KiB before, {resident_kib(server.process.pid)} KiB after")
        if error is not None:
            fail(error)
        if top < BURST_BYTES or server.region_bytes() > before:
            fail("the memory of a burst is not given back")
        if [shared_addresses(pid), shared_addresses(server.process.pid)] != addresses:
            fail("the addresses of a burst are not given back")


def check_reloads(options):
    with Server(options, {"m": MODEL}) as server:
        client, load, figures = Client(server), Load(server), []
        for i in range(options.reloads):
            os.utime(server.program("m"), (i + 1, i + 1))
            client.load("m")
            if i == options.reloads // 4:
                figures = [resident_kib(server.process.pid)]
        load.stop()
        load.must_be_right()
        deadline = time.monotonic() + SECONDS
        while len(server.stubs()) != 1 and time.monotonic() < deadline:
            time.sleep(0.1)  # the last one that was replaced is about to end
        figures.append(resident_kib(server.process.pid))
        print(f"reloads: {options.reloads} under {load.n_sent} requests; server {figures[0]} KiB, then "
              f"{figures[1]} KiB; {len(server.stubs())} process, {server.n_regions()} region, "
              f"{server.n_descriptors()} descriptors, directories {os.listdir(server.scratch)}")
        if (len(server.stubs()), server.n_regions(), os.listdir(server.scratch)) != (1, 1, []):
            fail("something stays behind")
        if server.n_descriptors() > 64 + CLIENTS or has_grown(*figures, RELOAD_GROWTH_ALLOWED):
            fail("descriptors or memory grow")


def kill_one(server, load, killed):
    """Kills a process that has answered; False when there is none now."""
    with load.lock:
        serving = [pid for pid in load.seen if pid not in killed]
    alive = [pid for pid in serving if pid in server.stubs()]
    if not alive:
        return False
    pid = random.choice(alive)
    killed[pid] = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return True


def check_kills(options):
    killed, samples = {}, []
    with Server(options, {"m": SLOW}, n_instances=4) as server:
        load, begin = Load(server), time.monotonic()
        while time.monotonic() - begin < options.seconds:
            kill_one(server, load, killed)
            samples.append((resident_kib(server.process.pid), server.n_descriptors()))
            time.sleep(KILL_INTERVAL)
        load.stop()
        third = len(samples) // 3
        first, last = (tuple(map(max, zip(*part))) for part in (samples[third:2 * third],
                                                                samples[2 * third:]))
        print(f"kills: {len(killed)} in {options.seconds} s; {load.n_right} answered, "
              f"{len(load.failures)} failed with their process; server {first[0]} KiB, then "
              f"{last[0]} KiB; {first[1]} descriptors, then {last[1]}")
        load.must_be_unhealthy()
        if len(load.failures) > len(killed):
            fail("more than one execution was lost with a process")
        if has_grown(first[0], last[0]) or last[1] > first[1] + 2:
            fail("memory or descriptors grow")


def waits_for_service(load, killed):
    """From each kill to the first answer of the next process, without the pause that is due before it."""
    waits = []
    for model in load.models:
        first = {pid: at for pid, (at, name) in load.seen.items() if name == model}
        kills = sorted((at, pid) for pid, at in killed.items() if pid in first)
        for i, (at, _) in enumerate(kills):
            back = [begin for begin in first.values() if begin > at]
            if back:
                waits.append(min(back) - at - (min(0.1 * 2 ** (i - 1), 10) if i > 0 else 0))
    return waits


def seconds_to_start(server, model):
    """The time of a load under the same traffic."""
    rounds = []
    for i in range(5):
        os.utime(server.program(model), (i + 1, i + 1))
        begin = time.monotonic()
        Client(server).load(model)
        rounds.append(time.monotonic() - begin)
    return statistics.median(rounds)


def check_crowd(options):
    models = [f"m{i}" for i in range(10)]
    with Server(options, dict.fromkeys(models, SLOW)) as server:
        killed, begin = {}, time.monotonic()
        load = Load(server, CROWD, models=models, sizes=(1,))
        while len(killed) < options.kills and time.monotonic() - begin < 20 * SECONDS:
            kill_one(server, load, killed)
            time.sleep(KILL_INTERVAL)
        start = seconds_to_start(server, models[0])
        load.stop()
        load.must_be_unhealthy()
        waits = waits_for_service(load, killed)
        delays = sorted(min(now - at for at in killed.values() if at <= now)
                        for now, _ in load.failures)
        print(f"crowd: {len(killed)} kills under {CROWD} clients; {load.n_right} answered, "
              f"{len(load.failures)} failed, {1e3 * statistics.median(delays):.1f} ms after the kill, "
              f"{1e3 * delays[-1]:.1f} ms at most; service is back after {statistics.median(waits):.2f} s, "
              f"{max(waits):.2f} s at most, beside the pause; a load takes {start:.2f} s")
        if len(killed) < options.kills or len(load.failures) > len(killed):
            fail("more than one execution was lost with a process")
        if statistics.median(delays) > 0.1:
            fail("failures are answered late")
        if statistics.median(waits) > start + 0.2:
            fail("service comes back late")


def check_loop(options):
    with Server(options, {"m": CRASHES}) as server:
        pattern = re.compile(r"restarting stub process '\w+' in (\d+) ms")
        deadline, waits = time.monotonic() + 3 * SECONDS, []
        while 10000 not in waits and time.monotonic() < deadline:
            waits = [int(n) for line in list(server.log) for n in pattern.findall(line)]
            time.sleep(0.2)
        before, begin = cpu_seconds(server.process.pid), time.monotonic()
        time.sleep(10)
        used = (cpu_seconds(server.process.pid) - before) / (time.monotonic() - begin)
        print(f"loop: restarts after {waits} ms; the server uses {100 * used:.2f} % of a core")
        if waits[:8] != [100, 200, 400, 800, 1600, 3200, 6400, 10000]:
            fail("the restarts do not wait as they should")
        if used > 0.02:
            fail("the server is not idle")
        Client(server).load("m", "unload")
        deadline = time.monotonic() + SECONDS
        while server.stubs() and time.monotonic() < deadline:
            time.sleep(0.1)
        if server.stubs():
            fail("a process of an unloaded model is left")


PARTS = {"memory": check_memory, "burst": check_burst, "reloads": check_reloads, "kills": check_kills,
         "crowd": check_crowd, "loop": check_loop}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--part", default=",".join(PARTS))
    parser.add_argument("--requests", type=int, default=1_000_000, help="of memory")
    parser.add_argument("--reloads", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=300, help="of kills")
    parser.add_argument("--kills", type=int, default=100, help="of crowd")
    parser.add_argument("--python", default="/usr/bin/python3")
    options = parser.parse_args()
    for name in options.part.split(","):
        PARTS[name](options)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
