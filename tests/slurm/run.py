#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""deploy/slurm/neso.sbatch in a job of a real Slurm: munged, slurmctld and slurmd on loopback.

  make slurm      or      tests/slurm/run.py --build=build

Needs root, as slurmd does. No cgroups: proctrack/linuxproc and task/none.

A job with two steps and HAProxy serves clients of HTTP and gRPC, with and without sequences; none may lose a request.
Then the batch script gets SIGTERM, as --signal=B:TERM@60 sends it, while a request runs and a sequence is live: both
end as if nothing was, the job is COMPLETED with status 0, and the files with ports are gone. A second job, whose models
do not exist, fails and names the log. In a third one a server is killed, and the job ends. A fourth one comes to its
limit of time.
"""
import argparse
import contextlib
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "balancers")]

from clients import Grpc, Http, Load  # noqa: E402
import place  # noqa: E402
from place import MODELS, fail, free_port, get  # noqa: E402

N_CLIENTS = 8
N_ANSWERS = 400
SLOW_SECONDS = 3
PATIENCE_SECONDS = 120  # with a job, which Slurm may start late on a machine that is busy

UNFINISHED = ("PENDING", "CONFIGURING", "RUNNING", "SIGNALING", "COMPLETING")

CONFIG = """ClusterName=neso
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={slurmctld}
SlurmdPort={slurmd}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=10
SlurmdParameters=config_overrides
NodeName=localhost NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def wait_until(check, what):
    return place.wait_until(check, what, PATIENCE_SECONDS)


class Cluster:
    """Three daemons with files in a folder of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "SLURM_CONFIG_FILE": ""}
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._stack = stack
            self._start_munge()
            (self.folder / "slurm.conf").write_text(
                CONFIG.format(folder=self.folder, slurmctld=free_port(), slurmd=free_port()))
            for name in ("state", "spool"):
                (self.folder / name).mkdir()
            self._start("slurmctld", "-D")
            wait_until(lambda: self.has_state(""), lambda: "slurmctld does not answer:\n" + self.log("slurmctld"))
            self._start("slurmd", "-D")
            wait_until(lambda: self.has_state("idle"), lambda: "slurmd does not register:\n" + self.log("slurmd"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        """Jobs end first: what is left of one would outlive slurmd."""
        with self._stack:
            self.run("scancel", "--full", "--signal=KILL", "--user=root")
            self.run("scancel", "--user=root")
            wait_until(lambda: not self.run("squeue", "--noheader"), "jobs do not end")

    def _start_munge(self):
        place = self.folder / "munge"
        place.mkdir(0o755)
        (place / "key").write_bytes(secrets.token_bytes(128))
        (place / "key").chmod(0o600)
        self._start("munged", "--foreground", "--force", f"--key-file={place}/key", f"--socket={place}/socket",
                    f"--pid-file={place}/pid", f"--seed-file={place}/seed", f"--log-file={place}/log")
        wait_until((place / "socket").exists, lambda: "munged does not start:\n" + self.log("munged"))

    def _start(self, name, *arguments):
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen([f"/usr/sbin/{name}", *arguments], env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._stack.callback(end, process)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")[-4000:]

    def has_state(self, state):
        ended = subprocess.run(["sinfo", "--noheader", "--format=%t"], env=self.environment, capture_output=True,
                               text=True, check=False, timeout=20)
        return ended.returncode == 0 and state in ended.stdout

    def run(self, *command):
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False,
                               timeout=60, cwd=self.folder)
        if ended.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {ended.stdout}{ended.stderr}")
        return ended.stdout


def end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Job:
    def __init__(self, cluster, *options, **variables):
        self._cluster = cluster
        exported = ",".join(["ALL", *(f"{name}={value}" for name, value in variables.items())])
        text = cluster.run("sbatch", "--parsable", "--ntasks=2", "--cpus-per-task=1", "--time=10", *options,
                           f"--export={exported}", str(ROOT / "deploy/slurm/neso.sbatch"))
        self.number = text.strip()
        self.folder = cluster.folder / f"neso-{self.number}"
        self._log = cluster.folder / f"neso-{self.number}.log"

    def text(self):
        logs = [self._log, *sorted(self.folder.glob("*.log"))]
        return "\n".join(f"--- {one.name}\n{one.read_text()[-3000:]}" for one in logs if one.exists())

    def state(self):
        shown = self._cluster.run("scontrol", "--oneliner", "show", "job", self.number)
        return re.search(r"JobState=(\w+)", shown)[1], re.search(r" ExitCode=(\S+)", shown)[1]

    def wait_for_file(self, name):
        def check():
            if self.state()[0] not in UNFINISHED:
                fail(f"job {self.number} is {self.state()}:\n{self.text()}")
            return (self.folder / name).exists()
        wait_until(check, self.text)
        return (self.folder / name).read_text().splitlines()

    def wait_for_state(self, state, status):
        wait_until(lambda: self.state()[0] not in UNFINISHED, self.text)
        if self.state() != (state, status):
            raise AssertionError(f"job {self.number} is {self.state()}, not {state} {status}:\n{self.text()}")


def ports_of(words):
    return {name: int(port) for name, _, port in (word.partition("=") for word in words)}


def write_models(folder):
    for name, text in MODELS.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(text.replace("SERVER", "one"))


def n_inferences(ports):
    page = get(f"http://127.0.0.1:{ports['metrics']}/metrics")
    return sum(float(value) for value in re.findall(r"^nv_inference_request_success\{.*\} (\S+)$", page, re.M))


def serve_clients(balancer, ways):
    """No request may be lost, and no sequence broken."""
    load = Load()
    load.start(ways)
    wait_until(lambda: sum(load.answers().values()) >= N_ANSWERS or load.failures, "the clients get no answers")
    load.stop()
    problems = [*map(str, load.failures), *load.mistakes]
    if problems or load.n_sequences == 0:
        raise AssertionError(f"{load.n_sequences} sequences; " + "\n".join(problems))
    return sum(load.answers().values()), load.n_sequences


def end_while_busy(cluster, job, balancer):
    """SIGTERM comes while a request runs and a sequence is live."""
    slow, fast, answers = Http(balancer), Http(balancer), []
    sequence = {"sequence_id": "last"}
    header = {"Neso-Sequence": "last"}
    assert fast.ask("sums", 1, {**sequence, "sequence_start": True}, header).value == 1
    thread = threading.Thread(target=lambda: answers.append(
        slow.ask("plain", 7, {"delay_ms": SLOW_SECONDS * 1000}, {}).value))
    thread.start()
    cluster.run("scancel", "--batch", "--signal=TERM", job.number)
    wait_until(lambda: not (job.folder / "servers").exists(), job.text)
    assert fast.ask("sums", 2, sequence, header).value == 3
    assert fast.ask("sums", 3, {**sequence, "sequence_end": True}, header).value == 6
    thread.join(30)
    if answers != [7]:
        raise AssertionError(f"the request that ran has the answers {answers}:\n{job.text()}")
    job.wait_for_state("COMPLETED", "0:0")
    left = [one.name for one in job.folder.iterdir() if one.name in ("servers", "balancer") or one.suffix == ".ports"]
    if left:
        raise AssertionError(f"these files are left: {left}")


def test_service(cluster, build, stubs, client_type):
    job = Job(cluster, NESO=build / "neso", NESO_MODELS=cluster.folder / "models", NESO_DRAIN_SECONDS=2,
              NESO_HAPROXY=ROOT / "deploy/haproxy/haproxy.cfg", NESO_OPTIONS=f"--backend-directory={build}/backends")
    lines = [line.split() for line in job.wait_for_file("servers")]
    if [line[:2] for line in lines] != [["neso1", "localhost"], ["neso2", "localhost"]]:
        raise AssertionError(f"servers: {lines}")
    servers = [ports_of(line[2:]) for line in lines]
    [(host, *words)] = [line.split() for line in job.wait_for_file("balancer")]
    assert host == "localhost"
    ports = ports_of(words)
    balancer = types.SimpleNamespace(http_port=ports["http"], grpc_port=ports["grpc"])
    ways = [("http", Http(balancer)) if at // 2 % 2 else ("grpc", Grpc(balancer, client_type, stubs))
            for at in range(N_CLIENTS)]
    n_answers, n_sequences = serve_clients(balancer, ways)
    shares = [n_inferences(one) for one in servers]
    if min(shares) == 0:
        raise AssertionError(f"inferences of the servers: {shares}")
    end_while_busy(cluster, job, balancer)
    print(f"slurm: {n_answers} answers of two steps behind HAProxy, {n_sequences} sequences whole, 0 lost; the job "
          "ended on SIGTERM with its requests answered")


def test_mistake(cluster, build):
    job = Job(cluster, NESO=build / "neso", NESO_MODELS="/nonexistent", NESO_OPTIONS="--exit-on-error=true")
    job.wait_for_state("FAILED", "1:0")
    if "neso1 ended: see " not in job.text():
        raise AssertionError(job.text())
    print("slurm: a job without models fails and names the log")


def test_killed_server(cluster, build):
    job = Job(cluster, NESO=build / "neso", NESO_MODELS=cluster.folder / "models",
              NESO_OPTIONS=f"--backend-directory={build}/backends")
    job.wait_for_file("servers")
    steps = cluster.run("squeue", "--noheader", "--steps", f"--jobs={job.number}", "--format=%i").split()
    step = next(one for one in steps if one.partition(".")[2].isdigit())
    cluster.run("scancel", "--signal=KILL", step)
    job.wait_for_state("FAILED", "1:0")
    if (job.folder / "servers").exists():
        raise AssertionError("the list of servers is left")
    print("slurm: a job ends when one of its servers does")


def test_time_limit(cluster, build):
    """Slurm itself sends the signal, at some time in the last 45 s of a minute and the half minute before."""
    job = Job(cluster, "--time=1", "--signal=B:TERM@45", NESO=build / "neso", NESO_MODELS=cluster.folder / "models",
              NESO_DRAIN_SECONDS=2, NESO_OPTIONS=f"--backend-directory={build}/backends")
    job.wait_for_file("servers")
    wait_until(lambda: not (job.folder / "servers").exists(), job.text)
    job.wait_for_state("COMPLETED", "0:0")
    if "Draining: the server is not ready" not in job.text():
        raise AssertionError(f"the servers did not drain:\n{job.text()}")
    print("slurm: a job ends well before its time limit")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default=os.environ.get("NESO_BUILD", ROOT / "build"), type=pathlib.Path)
    build = parser.parse_args().build.resolve()
    os.environ["NESO_BUILD"] = str(build)
    if os.geteuid() != 0:
        fail("slurmd needs root")
    from grpc_stubs import Client, generate

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the daemons end as well
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        (folder / "stubs").mkdir()
        stubs = types.SimpleNamespace(service=generate(folder / "stubs")["grpc_service"])
        write_models(folder / "models")
        try:
            with Cluster(folder) as cluster:
                test_service(cluster, build, stubs, Client)
                test_mistake(cluster, build)
                test_killed_server(cluster, build)
                test_time_limit(cluster, build)
        except AssertionError as error:
            fail(str(error))
    print(f"slurm: passed in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
