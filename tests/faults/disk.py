#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Disks that are full, read-only, broken or gone, and files that change while a model loads.

  make faults-disk       or       tests/faults/disk.py [--build=build] [--only=SCENE,...] [--report=disk.json]

Full and read-only disks are small tmpfs in a mount namespace of this program; it starts itself in one with
unshare(1). A broken disk is fail_path.c, which lets each call for a file below a folder fail with EIO. In each scene
the server lives, a model that is loaded serves, what fails names its file and the reason, and when the disk is well
again everything works without a restart.
"""
import contextlib
import errno
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import time

import scenes
from scenes import IDENTITY, PYTHON, PYTHON_MODEL, TENSORS, Client, Failed, Shared, ask_metric, check, wait_until

IN_NAMESPACE = "NESO_FAULTS_MOUNTS"
FULL = "No space left on device"
EXPLICIT = "--model-control-mode=explicit"
VALUES = [1.0, 2.0, 3.0]


@contextlib.contextmanager
def disk(stage, name, size):
    path = stage.folder / name
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(folder):
    """Takes all room; remove the file to give it back."""
    filler = folder / "filler"
    with open(filler, "ab", buffering=0) as file, contextlib.suppress(OSError):
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) > 0:
                    pass
    return filler


def remount(folder, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


def infer_often(server, model="plain", n=20):
    client = Client(server.http_port)
    for i in range(n):
        status, got = client.infer(model, VALUES + [float(i)])
        check((status, got) == (200, VALUES + [float(i)]), f"{model}: {status} {got}")
    client.close()


def must_refuse(server, client, model, reason, body=None):
    """The load fails; its answer, or the log where the answer has no reason as in Triton, says why."""
    n_lines = len(server.log)
    status, text = client.order("load", model, body)
    check(status != 200, f"{model}: it loads")
    if "failed to poll from model repository" in text:
        wait_until(lambda: any(reason in line for line in server.log[n_lines:]),
                   f"the log has '{reason}': {server.log[n_lines:]}", 5)
    else:
        check(reason in text, f"{model}: {text}")


# ---- what the server writes ----


def full_log(stage):
    """Lines that do not fit are lost, counted, and reported in the log when there is room."""
    stage.write({"plain": IDENTITY})
    with disk(stage, "disk", "256k") as folder:
        log = folder / "log"
        with LogServed(stage, log) as server:
            filler = fill(folder)
            infer_often(server, n=100)
            n_lost = ask_metric(server, "neso_log_lines_lost_total")
            check(n_lost >= 50, f"only {n_lost} lines are counted as lost")
            filler.unlink()
            infer_often(server)
        lines = log.read_text().splitlines()
    bad = [line for line in lines if not is_json(line)]
    told = [line for line in lines if "lines of the log were lost: " + FULL in line]
    check(len(bad) <= 1, f"{len(bad)} broken lines: {bad[:2]}")
    check(told, "no line says how many were lost")
    return {"lines lost": int(n_lost), "cut lines": len(bad)}


class LogServed:
    """A server whose log is a file, so its ports come from another one."""

    def __init__(self, stage, log, preload=None):
        self.stage, self.log = stage, log
        self.environment = {**os.environ, **stage.environment,
                            **({"LD_PRELOAD": stage.library(preload)} if preload else {})}

    def __enter__(self):
        ports = self.stage.folder / "ports"
        self.process = subprocess.Popen(
            [str(self.stage.options.build / "neso"), "serve", f"--model-repository={self.stage.folder / 'models'}",
             f"--backend-directory={self.stage.options.build / 'backends'}", "--http-address=127.0.0.1",
             "--http-port=0", "--grpc-address=127.0.0.1", "--grpc-port=0", "--metrics-port=0",
             f"--log-file={self.log}", "--log-format=json", f"--port-file={ports}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)
        wait_until(ports.exists, "the server starts")
        self.ports = dict(line.split("=") for line in ports.read_text().splitlines())
        return self

    def port(self, name):
        return int(self.ports[name])

    @property
    def http_port(self):
        return self.port("http")

    def __exit__(self, *_):
        self.process.terminate()
        check(self.process.wait(scenes.SECONDS) == 0, "the server did not end with 0")


def is_json(line):
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def full_traces(stage):
    """Each trace file is an array or is not there; lost traces are counted."""
    stage.write({"plain": IDENTITY})
    with disk(stage, "disk", "256k") as folder, stage.serve(
            stage.folder / "models", "--trace-config=level=TIMESTAMPS", "--trace-config=rate=1",
            "--trace-config=triton,log-frequency=1",
            f"--trace-config=triton,file={folder / 'trace'}") as server:
        infer_often(server)
        filler = fill(folder)
        infer_often(server)
        wait_until(lambda: ask_metric(server, "neso_traces_dropped_total") > 0, "lost traces are counted")
        broken = [path.name for path in folder.glob("trace*") if not is_json(path.read_text())]
        check(not broken, f"broken files: {broken[:3]}")
        n_before = len(list(folder.glob("trace*")))
        filler.unlink()
        infer_often(server)
        wait_until(lambda: len(list(folder.glob("trace*"))) > n_before, "traces are written again")
        n_lost = ask_metric(server, "neso_traces_dropped_total")
    return {"files": n_before, "traces lost": int(n_lost)}


def breaks(stage, name):
    """A folder whose disk breaks while field 0 of the control is an errno."""
    control, folder = Shared(stage.path("control")), stage.path(name, "x").parent
    control.set_text(1, str(folder))
    stage.environment["FAIL_PATH"] = str(control.path)
    return control, folder


def broken_log(stage):
    """Lines that a broken disk refuses are lost, counted, and reported in the log when it is well."""
    stage.write({"plain": IDENTITY})
    control, folder = breaks(stage, "disk")
    log = folder / "log"
    with LogServed(stage, log, preload="fail_path") as server:
        n_lines = len(log.read_text().splitlines())
        control.set(0, errno.EIO)
        infer_often(server, n=100)
        wait_until(lambda: ask_metric(server, "neso_log_lines_lost_total") >= 50, "lost lines are counted", 10)
        n_lost = ask_metric(server, "neso_log_lines_lost_total")
        check(len(log.read_text().splitlines()) == n_lines, "a broken disk took lines")
        control.set(0, 0)
        infer_often(server)
        wait_until(lambda: len(log.read_text().splitlines()) > n_lines + 20, "the log goes on", 20)
    lines = log.read_text().splitlines()
    bad = [line for line in lines if not is_json(line)]
    told = [line for line in lines if "lines of the log were lost: Input/output error" in line]
    check(not bad, f"{len(bad)} broken lines: {bad[:2]}")
    check(told, "no line says how many were lost")
    return {"lines lost": int(n_lost)}


def broken_traces(stage):
    """Each trace file is an array or is not there; traces that a broken disk refuses are counted."""
    stage.write({"plain": IDENTITY})
    control, folder = breaks(stage, "disk")
    with stage.serve(
            stage.folder / "models", "--trace-config=level=TIMESTAMPS", "--trace-config=rate=1",
            "--trace-config=triton,log-frequency=7",
            f"--trace-config=triton,file={folder / 'trace'}", preload="fail_path") as server:
        infer_often(server, n=25)
        wait_until(lambda: len(list(folder.glob("trace*"))) >= 3, "traces are written")
        control.set(0, errno.EIO)
        infer_often(server, n=25)
        wait_until(lambda: ask_metric(server, "neso_traces_dropped_total") > 0, "lost traces are counted")
        control.set(0, 0)
        n_before, n_lost = len(list(folder.glob("trace*"))), ask_metric(server, "neso_traces_dropped_total")
        infer_often(server, n=25)
        wait_until(lambda: len(list(folder.glob("trace*"))) > n_before, "traces are written again")
    broken = [path.name for path in folder.glob("trace*") if not is_json(path.read_text())]
    check(not broken, f"broken files: {broken[:3]}")
    return {"files": len(list(folder.glob("trace*"))), "traces lost": int(n_lost)}


def full_temporary(stage):
    """A load that brings files and an environment that is unpacked need room in the temporary folder."""
    with tarfile.open(stage.path("packed.tar.gz"), "w:gz") as archive:
        for name, content in (("bin/activate", b""), ("lib/large", bytes(2 << 20))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        member = tarfile.TarInfo("bin/python3")
        member.type, member.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
        archive.addfile(member)
    environment = f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{stage.path("packed.tar.gz")}" }} }}\n'
    stage.write({"plain": IDENTITY, "packed": {"config.pbtxt": PYTHON + environment, "1/model.py": PYTHON_MODEL}})
    with disk(stage, "tmp", "8m") as folder:
        stage.environment["TMPDIR"] = str(folder)
        with stage.serve(stage.folder / "models", EXPLICIT, "--load-model=plain") as server:
            client, filler = Client(server.http_port), fill(folder)
            brought = {"parameters": {"config": json.dumps(
                {"backend": "identity", "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
                 "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}),
                "file:1/data": "AAAA" * 100000}}
            for model, body in (("brought", brought), ("packed", None)):
                must_refuse(server, client, model, FULL, body)
            infer_often(server)
            left = [str(path) for path in folder.rglob("*") if path.is_file() and path != filler
                    and path.name != "lock"]
            check(not left, f"left behind: {left}")
            filler.unlink()
            for model, body in (("brought", brought), ("packed", None)):
                status, text = client.order("load", model, body)
                check(status == 200, f"{model}: {status} {text}")
                infer_often(server, model, 3)
        left = [path.name for path in folder.iterdir()]
        check(not left, f"left behind at the end: {left}")
    return {"refused": 2}


def store_cache(stage):
    """The cache of a remote repository on a disk that is full, then read-only, then broken, then well."""
    from s3_server import ObjectServer  # pylint: disable=import-outside-toplevel

    stage.environment.update({"AWS_EC2_METADATA_DISABLED": "true", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
                              "AWS_CONFIG_FILE": "/dev/null"})
    control = Shared(stage.path("control"))
    reasons = []
    with ObjectServer() as store, disk(stage, "cache", "4m") as folder:
        for name in ("plain", "one"):
            store.put_model("models", name, {"config.pbtxt": IDENTITY, "1/weights": bytes(1 << 20)})
        stage.environment["FAIL_PATH"] = str(control.path)
        control.set_text(1, str(folder))
        with stage.serve(f"s3://{store.origin}/models", EXPLICIT, "--load-model=plain",
                         f"--repository-cache-directory={folder}", preload="fail_path") as server:
            client = Client(server.http_port)

            def must_fail(reason):
                must_refuse(server, client, "one", reason)
                reasons.append(reason)
                infer_often(server)

            filler = fill(folder)
            must_fail(FULL)
            filler.unlink()
            remount(folder, "ro")
            must_fail("Read-only file system")
            remount(folder, "rw")
            control.set(0, errno.EIO)
            must_fail("Input/output error")
            control.set(0, 0)
            status, text = client.order("load", "one")
            check(status == 200, f"a disk that is well: {status} {text}")
            infer_often(server, "one")
    return {"refusals": len(reasons)}


# ---- what the server reads ----


def read_only_repository(stage):
    with disk(stage, "models", "8m") as folder:
        stage.write({"plain": IDENTITY, "python": {"config.pbtxt": PYTHON, "1/model.py": PYTHON_MODEL}}, "models")
        remount(folder, "ro")
        with stage.serve(folder, EXPLICIT, "--load-model=plain") as server:
            client = Client(server.http_port)
            for verb in ("load", "unload", "load"):
                status, text = client.order(verb, "python")
                check(status == 200, f"{verb}: {status} {text}")
            infer_often(server, "python")
    return {}


def broken_repository(stage):
    """Each call for a file of the repository fails with EIO."""
    repository = stage.write({"plain": IDENTITY, "coming": IDENTITY,
                              "python": {"config.pbtxt": PYTHON, "1/model.py": PYTHON_MODEL}})
    stage.digits()
    control = Shared(stage.path("control"))
    control.set_text(1, str(repository))
    stage.environment["FAIL_PATH"] = str(control.path)
    with stage.serve(repository, EXPLICIT, "--load-model=plain", preload="fail_path") as server:
        client = Client(server.http_port)
        control.set(0, errno.EIO)
        for model in ("coming", "python", "digits"):
            must_refuse(server, client, model, "Input/output error")
        infer_often(server)
        control.set(0, 0)
        for model in ("coming", "python", "digits"):
            status, text = client.order("load", model)
            check(status == 200, f"afterwards, {model}: {status} {text}")
        infer_often(server, "python")
    return {"refusals": 3}


class Looped:
    """Does something again and again on a thread, until the block ends."""

    def __init__(self, work):
        self.work, self.n, self.failure = work, 0, None
        self.must_end = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.must_end.is_set():
                self.work(self.n)
                self.n += 1
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.must_end.set()
        self.thread.join()
        if self.failure is not None and error[0] is None:
            raise self.failure


def vanishing_repository(stage, mode=EXPLICIT):
    """The repository is renamed away and back while models are loaded, unloaded, listed and asked."""
    repository = stage.write({"plain": IDENTITY, "coming": IDENTITY})
    away = stage.folder / "away"
    counts = {"loads": 0, "refused": 0}

    def rename(i):
        del i
        repository.rename(away)
        threading.Event().wait(0.003)
        away.rename(repository)
        threading.Event().wait(0.003)

    with stage.serve(repository, mode, "--load-model=plain") as server:
        client, deadline = Client(server.http_port), time.monotonic() + stage.options.seconds
        asker = Client(server.http_port)

        def infer(i):
            status, got = asker.infer("plain", [float(i)])
            check((status, got) == (200, [float(i)]), f"plain: {status} {got}")

        with Looped(rename) as renames, Looped(infer) as inferences:
            while time.monotonic() < deadline:
                for verb in ("load", "unload"):
                    status, text = client.order(verb, "coming")
                    counts["loads"] += status == 200
                    counts["refused"] += status != 200
                    check(status == 200 or str(repository) in text or "coming" in text, f"{verb}: {status} {text}")
                status, text = client.ask("POST", "/v2/repository/index")
                check(status == 200 or scenes.error_of(text), f"index: {status}")
        status, text = client.order("load", "coming")
        check(status == 200, f"afterwards: {status} {text}")
        infer_often(server, "coming")
    return {**counts, "renames": renames.n, "inferences": inferences.n}


def vanishing_polled(stage):
    """A poll that finds no repository keeps what is loaded."""
    repository = stage.write({"plain": IDENTITY})
    away = stage.folder / "away"
    with stage.serve(repository, "--model-control-mode=poll", "--repository-poll-secs=1") as server:
        repository.rename(away)
        n_lines = len(server.log)
        wait_until(lambda: any(str(repository) in line for line in server.log[n_lines:]), "the poll reports it")
        infer_often(server)
        away.rename(repository)
        (repository / "new" / "1").mkdir(parents=True)
        (repository / "new" / "config.pbtxt").write_text(IDENTITY)
        client = Client(server.http_port)
        wait_until(lambda: client.ask("GET", "/v2/models/new/ready")[0] == 200, "the poll goes on")
        infer_often(server)
    return {}


# ---- files that change while a model loads ----

PAIR = """import numpy as np
import triton_python_backend_utils as pb_utils

FIRST = {0}
{1}
LAST = {0}


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "OUTPUT0", np.array([FIRST, LAST], np.float32))]) for r in requests]
"""


def changing(stage, repository, model, path, contents, judge, in_place):
    """`path` changes between the contents, by a rename or in place, with a truncated state in between; each
    load fails by name or gives an answer that judge() accepts."""
    counts = {"loads": 0, "refused": 0}
    beside = path.with_name(path.name + ".new")

    def change(i):
        content = contents[i % len(contents)]
        if in_place:
            with open(path, "r+b") as file:
                file.truncate(len(content) // 2)
                file.write(content)
                file.truncate(len(content))
        else:
            beside.write_bytes(content[:len(content) // 2] if i % 3 == 2 else content)
            beside.rename(path)
        threading.Event().wait(0.002)

    with stage.serve(repository, EXPLICIT, "--load-model=plain") as server:
        client, deadline = Client(server.http_port), time.monotonic() + stage.options.seconds
        with Looped(change) as changes:
            while time.monotonic() < deadline:
                check(scenes.is_alive(server), f"the server has ended: {server.log[-5:]}")
                try:
                    status, text = client.order("load", model)
                    counts["loads"] += status == 200
                    counts["refused"] += status != 200
                    check(status == 200 or model in text, f"{status} {text}")
                    if status == 200:
                        judge(*client.infer(model, VALUES))
                    client.order("unload", model)
                except OSError as error:
                    raise Failed(f"{error!r}; exit code {server.process.poll()}; {server.log[-5:]}") from error
        path.write_bytes(contents[0])
        status, text = client.order("load", model)
        check(status == 200, f"afterwards: {status} {text}")
        infer_often(server)
    check(counts["loads"] > 0, "no load has succeeded")
    return {**counts, "changes": changes.n}


def python_model(stage, in_place=False):
    repository = stage.write({"plain": IDENTITY, "changing": {
        "config.pbtxt": PYTHON, "1/model.py": PAIR.format(1, "")}})
    padding = "# " + "x" * 100 + "\n"
    contents = [PAIR.format(n, padding * 400).encode() for n in (1, 2)]

    def judge(status, got):
        check(status == 200 and got in ([1.0, 1.0], [2.0, 2.0]), f"not one version: {status} {got}")

    return changing(stage, repository, "changing", repository / "changing" / "1" / "model.py", contents, judge, in_place)


def onnx_model(stage, in_place=False):
    """Two files of the same model whose weights differ; the answer is one of the two."""
    repository = stage.write({"plain": IDENTITY})
    stage.digits()
    path = repository / "digits" / "1" / "model.onnx"
    whole = path.read_bytes()

    with stage.serve(repository, EXPLICIT, "--load-model=digits") as server:
        client = Client(server.http_port)
        wanted = digits_answer(client)

    counts = {"loads": 0, "refused": 0}
    beside = path.with_name("new")

    def change(i):
        cut = len(whole) * (i % 7) // 7
        if in_place:
            with open(path, "r+b") as file:
                file.truncate(cut)
                file.seek(0)
                file.write(whole)
        else:
            beside.write_bytes(whole[:cut] if i % 2 else whole)
            beside.rename(path)
        threading.Event().wait(0.002)

    with stage.serve(repository, EXPLICIT, "--load-model=plain") as server:
        client, deadline = Client(server.http_port), time.monotonic() + stage.options.seconds
        with Looped(change) as changes:
            while time.monotonic() < deadline:
                try:
                    status, text = client.order("load", "digits")
                    counts["loads"] += status == 200
                    counts["refused"] += status != 200
                    check(status == 200 or "digits" in text, f"{status} {text}")
                    if status == 200:
                        check(digits_answer(client) == wanted, "an answer of no whole version")
                    client.order("unload", "digits")
                except OSError as error:
                    raise Failed(f"{error!r}; exit code {server.process.poll()}; {server.log[-5:]}") from error
        path.write_bytes(whole)
        status, text = client.order("load", "digits")
        check(status == 200, f"afterwards: {status} {text}")
        infer_often(server)
    return {**counts, "changes": changes.n}


def digits_answer(client):
    body = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 64], "data": [i % 17 for i in range(64)]}]}
    status, text = client.ask("POST", "/v2/models/digits/infer", json.dumps(body).encode())
    check(status == 200, f"digits: {status} {text[:200]}")
    return json.loads(text)["outputs"]


def library(stage):
    """The library of a model's backend, cut at 31 places. A library that is loaded stays; so each model has its own."""
    whole = (stage.options.build / "tests" / "e2e" / "libtriton_twin_first.so").read_bytes()
    repository = stage.write({"plain": IDENTITY})
    counts = {"loads": 0, "refused": 0}
    with stage.serve(repository, EXPLICIT, "--load-model=plain") as server:
        client = Client(server.http_port)
        for part in range(1, 32):
            name = f"cut{part}"
            stage.write({name: {"config.pbtxt": f'backend: "{name}"\n' + TENSORS,
                                f"1/libtriton_{name}.so": whole[:len(whole) * part // 32]}})
            status, text = client.order("load", name)
            counts["loads"] += status == 200
            counts["refused"] += status != 200
            check(status == 200 or f"libtriton_{name}.so" in text, f"{status} {text}")
            if status == 200:  # what is missing is not needed
                check(client.infer(name, VALUES) == (500, "first"), f"{name} answers something else")
            (repository / name / "1" / f"libtriton_{name}.so").with_name("new").write_bytes(whole)
            (repository / name / "1" / "new").rename(repository / name / "1" / f"libtriton_{name}.so")
            check(client.order("load", name)[0] == 200, f"{name}, whole, does not load")
            check(client.infer(name, VALUES) == (500, "first"), f"{name} answers something else")
        infer_often(server)
    return counts


SCENES = {
    "full log": full_log,
    "broken log": broken_log,
    "full trace files": full_traces,
    "broken trace files": broken_traces,
    "full temporary folder": full_temporary,
    "cache of an object store": store_cache,
    "read-only repository": read_only_repository,
    "broken repository": broken_repository,
    "vanishing repository": vanishing_repository,
    "vanishing repository, polled": vanishing_polled,
    "model.py renamed": python_model,
    "model.py in place": lambda stage: python_model(stage, True),
    "model.onnx renamed": onnx_model,
    "model.onnx in place": lambda stage: onnx_model(stage, True),
    "library, cut": library,
}


def main():
    if os.environ.get(IN_NAMESPACE) != "1":
        os.environ[IN_NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--map-root-user", "--mount", sys.executable, *sys.argv])
    return scenes.main(__doc__, SCENES)


if __name__ == "__main__":
    sys.exit(main())
