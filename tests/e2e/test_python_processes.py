# SPDX-License-Identifier: BSD-3-Clause
"""The processes of Python models: how they start, crash, hang, come back, and end.

Numbers in brackets are those of the list of acceptance checks in docs/python_models.md.
"""
import concurrent.futures
import os
import pathlib
import re
import signal
import stat
import sys
import time

import pytest
import requests

from conftest import Server, write_repository
from python_programs import (IO, RUNNER, OPTIONS as PYTHON, PROGRAM, code_input, infer, run_program, model, post,
                        start, stub_of)  # noqa: F401 - a fixture
from scrape import metric

TAKES_SECONDS = 16

BACKENDS = ("python",)

# What is_ready() does is said by a file in the version's directory.
READY = PROGRAM + '''
    def execute(self, requests):
        return [answer(0) for r in requests]

    def what(self):
        with open(os.path.join(pb_utils.get_model_dir(), "ready")) as file:
            return file.read()

    %sdef is_ready(self):
        what = self.what()
        if what == "raise":
            raise ValueError("why")
        return {"yes": True, "no": False, "one": 1}[what]
'''
ENDS = RUNNER + '''
    def finalize(self):
        pb_utils.Logger.log_info("in finalize")
        %s
'''
MODELS = {
    **{name: model(RUNNER) for name in ("killed", "exited", "faulty", "load", "many", "spoiled",
                                         "wrong")},
    "hung": model(RUNNER, 'parameters { key: "EXECUTE_TIMEOUT_MS" value { string_value: "500" } }\n'),
    "ready": {**model(READY % ""), "1/ready": "yes"},
    "ready_async": {**model(READY % "async "), "1/ready": "yes"},
    "raises": model(ENDS % "raise ValueError('at the end')"),
    **{f"held_{n}": model(RUNNER.replace("self.kept = {}", """self.kept = {}
        pb_utils.Logger.log_info("initialize begins: " + args["model_name"])
        while os.path.exists(os.path.join(pb_utils.get_model_dir(), "hold")):
            time.sleep(0.005)""")) for n in (4, 5)},
    "spare": model(RUNNER),
}
OPTIONS = (*PYTHON, "--model-control-mode=explicit", "--disable-auto-complete-config",
           *(f"--load-model={name}" for name in MODELS if name != "spare"))
UNHEALTHY = "Stub process '%s_0' is not healthy."


def wait_until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# ---- crashes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, code, end", [
    ("killed", "os.kill(os.getpid(), 9)", "killed by signal 9"),
    ("exited", "os._exit(0)", "exited with status 0"),
    ("faulty", "import ctypes\nctypes.string_at(8)", "killed by signal 11"),
    ("hung", "os.kill(os.getpid(), 19)", "killed by signal 9"),
])
def test_a_crash_fails_what_it_executes_and_nothing_else(server, name, code, end):
    """(41)"""
    first = stub_of(server, f"{name}_0")
    status, answer = post(server, name, code)
    assert (status, answer["error"]) == (500, UNHEALTHY % name)
    assert run_program(server, "result = 7", name=name) == 7
    assert stub_of(server, f"{name}_0") not in (None, first)
    server.wait_for_line(f"Stub process '{name}_0' ended unexpectedly: {end}")
    assert metric(server, "neso_python_restarts_total", model=name, version="1") == 1


def test_nothing_is_lost_when_a_process_is_killed(server):
    """(40) Each request is answered once: by the model, or because its execution died."""
    answers = []

    def ask(i):
        status, answer = post(server, "load", f"result = {i}", id=str(i))
        answers.append((i, status, answer))

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        tasks = [pool.submit(ask, i) for i in range(300)]
        for wanted in (50, 150):
            wait_until(lambda n=wanted: len(answers) >= n)
            pid = stub_of(server, "load_0")
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        for task in tasks:
            task.result()
    assert sorted(i for i, _, _ in answers) == list(range(300))
    failed = [a for _, status, a in answers if status != 200]
    assert len(failed) <= 2 * 16 and all(a["error"] == UNHEALTHY % "load" for a in failed)
    assert all(a["outputs"][0]["data"] == [str(i)] for i, status, a in answers if status == 200)


def test_the_second_crash_waits_longer(server):
    """(43)"""
    for _ in range(3):
        assert post(server, "many", "os._exit(1)")[0] == 500
        assert run_program(server, "result = 1", name="many") == 1
    server.wait_for_line("restarting stub process 'many_0' in 100 ms")
    server.wait_for_line("restarting stub process 'many_0' in 200 ms")


def kill_while_it_starts(server, name, seen):
    """The next process, once it is in initialize()."""
    server.wait_for_line(f"initialize begins: {name}", 60)
    pid = stub_of(server, f"{name}_0")
    assert pid not in seen
    seen.append(pid)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("name, n_kills, status", [("held_4", 4, 200), ("held_5", 5, 500)])
def test_kills_while_a_process_starts_anew(server, name, n_kills, status):
    """(40) Requests wait for the next process, up to the fifth that is killed before it serves."""
    hold = server.repository / name / "1" / "hold"
    seen = [stub_of(server, f"{name}_0")]
    hold.touch()
    try:
        assert post(server, name, "os._exit(1)")[0] == 500
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            task = pool.submit(post, server, name, "result = 7")
            for _ in range(n_kills):
                kill_while_it_starts(server, name, seen)
            if status == 500:
                assert task.result()[1]["error"] == UNHEALTHY % name
            hold.unlink()
            assert task.result()[0] == status
    finally:
        hold.unlink(missing_ok=True)  # a process that waits for it would not end
    wait_until(lambda: post(server, name, "result = 8")[0] == 200)


def test_a_crash_while_a_model_loads(server):
    """(41)"""
    folder = server.repository / "spare" / "1"
    whole = (folder / "model.py").read_text()
    ways = {"os.kill(os.getpid(), 9)": "Stub process 'spare_0' is not healthy.: killed by signal 9",
            "raise ValueError('in initialize')": "ValueError: in initialize\n\nAt:\n",
            "sys.exit(3)": "SystemExit: 3"}
    for code, text in ways.items():
        (folder / "model.py").write_text(whole.replace("self.kept = {}", code))
        answer = requests.post(f"{server.url}/v2/repository/models/spare/load", json={}, timeout=60)
        assert answer.status_code == 400
        server.wait_for_line(r'"Failed to initialize Python stub: ' + re.escape(text.split("\n")[0]))
    (folder / "model.py").write_text("import nothing_of_that_name\n")
    requests.post(f"{server.url}/v2/repository/models/spare/load", json={}, timeout=60)
    server.wait_for_line("ModuleNotFoundError: No module named 'nothing_of_that_name'")
    (folder / "model.py").write_text(whole.replace("def execute", "def other"))
    requests.post(f"{server.url}/v2/repository/models/spare/load", json={}, timeout=60)
    server.wait_for_line("does not implement `execute` method.")
    (folder / "model.py").unlink()
    requests.post(f"{server.url}/v2/repository/models/spare/load", json={}, timeout=60)
    server.wait_for_line("Python model file not found in '")
    (folder / "model.py").write_text(whole)
    assert requests.post(f"{server.url}/v2/repository/models/spare/load", json={},
                         timeout=60).status_code == 200


RUBBISH = """
import mmap, random
random.seed(%d)
shared = mmap.mmap(4, 256 << 10)
for _ in range(200):
    at = random.randrange(0, len(shared) - 8, 4)
    shared[at:at + 4] = random.choice([b"\\xff" * 4, b"\\0" * 4, random.randbytes(4)])
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_process_that_writes_rubbish(server, seed):
    """(52) Whatever it does to the shared memory, only its own model has to bear it."""
    try:
        requests.post(f"{server.url}/v2/models/spoiled/infer", timeout=3, json={
            "inputs": code_input(RUBBISH % seed)})
    except requests.exceptions.Timeout:
        pass  # the words that threads sleep on are among what it may spoil
    pid = stub_of(server, "spoiled_0")
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    assert run_program(server, "result = 7", name="spoiled") == 7
    assert run_program(server, "result = 8", name="killed") == 8


def test_a_process_that_breaks_the_rules_is_ended(server):
    """(52) At once, although the thread that noticed it is not the one that ends processes."""
    first = stub_of(server, "wrong_0")
    assert post(server, "wrong", "c_utils._ask(99, 0, b'')") == (500, {"error": UNHEALTHY % "wrong"})
    assert run_program(server, "result = 7", name="wrong") == 7
    assert stub_of(server, "wrong_0") not in (None, first)
    server.wait_for_line("Stub process 'wrong_0' is killed: it broke the rules of the shared memory")


# ---- ready and end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ready", "ready_async"])
def test_is_ready(server, name):
    """(44)"""
    url = f"{server.url}/v2/models/{name}/ready"
    file = server.repository / name / "1" / "ready"
    for what, status in (("yes", 200), ("no", 400), ("one", 400), ("raise", 400), ("yes", 200)):
        file.write_text(what)
        assert requests.get(url, timeout=20).status_code == status, what


SLOW_READY = PROGRAM + '''
    def execute(self, requests):
        return [answer(0) for r in requests]

    def is_ready(self):
        pb_utils.Logger.log_info("is_ready begins")
        while not os.path.exists(os.path.join(pb_utils.get_model_dir(), "go")):
            time.sleep(0.005)
        return True
'''


def test_is_ready_that_takes_longer_than_askers_wait(start):
    """(44) Askers share one call and give up after 5 s; it goes on, and a later one has its result. What
    the server's only loop serves meanwhile does not wait."""
    server = start({"slow": model(SLOW_READY), "lab": model(RUNNER)}, "--http-thread-count=1")

    def ask(_=None):
        begin = time.monotonic()
        status = requests.get(f"{server.url}/v2/models/slow/ready", timeout=60).status_code
        return status, time.monotonic() - begin

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(3)]
        server.wait_for_line("is_ready begins")
        assert run_program(server, "result = 7") == 7
        assert infer(server, "slow", code_input(""))[0] == 200
        assert not any(task.done() for task in asked)
        for task in asked:
            status, seconds = task.result()
            assert status == 400 and seconds >= 5
        last = pool.submit(ask)
        (server.repository / "slow" / "1" / "go").touch()
        assert last.result()[0] == 200
    assert server.text().count("is_ready begins") <= 2


def test_finalize_that_raises(server):
    """(45)"""
    assert requests.post(f"{server.url}/v2/repository/models/raises/unload", json={},
                         timeout=60).status_code == 200
    server.wait_for_line("in finalize")
    server.wait_for_line("ValueError: at the end")
    server.wait_for_line("successfully unloaded 'raises'")


def test_no_descriptors_are_inherited(server):
    code = "result = sorted(int(n) for n in os.listdir('/proc/self/fd'))[:6]"
    assert run_program(server, code, name="killed")[:5] == [0, 1, 2, 3, 4]
    targets = run_program(server, "result = [os.readlink('/proc/self/fd/%s' % n) for n in "
                                  "os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/%s' % n)]",
                          name="killed")
    assert sum("socket:" in target for target in targets) == 1
    assert run_program(server, "result = [os.getpgid(0) == os.getpid(), os.getppid()]", name="killed") == [
        True, server.process.pid]


# ---- servers of their own ----------------------------------------------------------------------------


def test_without_restart(start):
    """(42)"""
    server = start({"lab": model(RUNNER)}, "--backend-config=python,stub-restart=false")
    assert post(server, "lab", "os._exit(0)")[1]["error"] == UNHEALTHY % "lab"
    wait_until(lambda: requests.get(f"{server.url}/v2/models/lab/ready", timeout=20).status_code == 400)
    assert post(server, "lab", "result = 1")[1]["error"] == UNHEALTHY % "lab"
    assert requests.get(f"{server.url}/v2/health/live", timeout=20).status_code == 200
    assert server.stop() == 0


def test_finalize_that_never_ends(start):
    """(45)"""
    server = start({"lab": model(ENDS % "time.sleep(3600)")},
                   "--backend-config=python,stub-timeout-seconds=10")
    assert run_program(server, "result = 1") == 1
    assert server.stop() == 0
    assert "has not ended within 10 s and is killed" in server.text()


def test_nothing_stays_behind_a_server_that_was_killed(start):
    """(46) Also where the model computes in C with the interpreter lock, and what it started."""
    server = start({"lab": model(RUNNER), "busy": model(RUNNER)})
    child = run_program(server, "import subprocess\nresult = subprocess.Popen(['sleep', '600']).pid")
    pids = [child, stub_of(server, "lab_0"), stub_of(server, "busy_0")]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: post(server, "busy", "open('/tmp/x' if 0 else os.devnull)\nsum(range(10 ** 12))"))
        time.sleep(0.2)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in pids), 20)
    assert not [name for name in os.listdir("/dev/shm") if "python" in name]


def test_memory_has_a_limit(start):
    """(49)"""
    server = start({"id": model('''
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy()[:, :1])])
                for r in requests]
''', io='input { name: "X" data_type: TYPE_UINT8 dims: [ 1, -1 ] }\n'
         'output { name: "Y" data_type: TYPE_UINT8 dims: [ 1, 1 ] }\n')},
                   f"--backend-config=python,shm-max-byte-size={8 << 20}")
    def ask(n):
        head = ('{"inputs":[{"name":"X","shape":[1,%d],"datatype":"UINT8","parameters":'
                '{"binary_data_size":%d}}]}' % (n, n)).encode()
        answer = requests.post(f"{server.url}/v2/models/id/infer", data=head + b"\1" * n, timeout=30,
                               headers={"Inference-Header-Content-Length": str(len(head))})
        return answer.status_code, answer.json()

    status, answer = ask(16 << 20)
    assert status == 500
    assert re.match(r"Failed to increase the shared memory pool size to \d+ bytes\. ", answer["error"])
    assert ask(4 << 20)[1]["outputs"][0]["data"] == [1]


def test_memory_that_shrinks_while_a_configuration_is_completed(start):
    """A line of the log that was read makes room for the next one, when addresses are short."""
    server = start({"logs": model('''
import resource
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        lines = ["x" * (n << 20) for n in (8, 16)]
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (36 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
        for line in lines:
            pb_utils.Logger.log_verbose(line)
            try:  # is answered after the line was read
                pb_utils.is_model_ready("logs")
            except pb_utils.TritonModelException as error:
                assert "not available in auto_complete_config()" in str(error), str(error)
        config.set_max_batch_size(3)
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for r in requests]
''', io="")}, "--log-verbose=1")
    config = requests.get(f"{server.url}/v2/models/logs/config", timeout=20).json()
    assert config["max_batch_size"] == 3


@pytest.mark.parametrize("begin", ["", "# The class is not on the first line.\n"])
def test_no_process_for_a_configuration_that_nothing_completes(start, tmp_path, begin):
    """The program runs once, for the instance."""
    runs = tmp_path / "runs"
    start({"lab": model(f"""{begin}class TritonPythonModel:
    def execute(self, requests):
        return [None for r in requests]

with open({str(runs)!r}, "a") as file:
    file.write("x")
""")})
    assert runs.read_text() == "x"


INTERPRETERS = {
    "missing": (None, r"the Python interpreter '.*/missing' is not found"),
    "old": ("import sys\nsys.version_info = (3, 8, 1)\nsys.executable = '/old'\n",
            r"/old is Python 3\.8, and the python backend needs 3\.9 or later"),
    "threaded": ("import sysconfig\n"
                 "sysconfig.get_config_var = lambda name: 1 if name == 'Py_GIL_DISABLED' else None\n",
                 r"is a free-threaded build of Python"),
    "bare": ("import sys\nsys.modules['numpy'] = None\n",
             r"cannot import numpy, which the python backend needs"),
    "none": ("import os\nos._exit(5)\n", r"exited with status 5 before it was ready"),
}


@pytest.mark.parametrize("name", INTERPRETERS)
def test_interpreters_that_cannot_be_used(start, tmp_path, name):
    """(51)"""
    program, text = INTERPRETERS[name]
    path = tmp_path / name
    if program is not None:
        prelude = tmp_path / f"{name}.py"
        prelude.write_text(program + "import runpy, sys\nsys.argv = sys.argv[1:]\n"
                           "runpy.run_path(sys.argv[0], run_name='__main__')\n")
        path.write_text(f"#!/bin/sh\nexec /usr/bin/python3 {prelude} \"$@\"\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    server = start({"lab": model(RUNNER)}, f"--backend-config=python,python-path={path}",
                   "--exit-on-error=false", "--disable-auto-complete-config")
    assert re.search(text, server.text())
    if name != "missing":
        assert "Failed to preinitialize Python stub: " in server.text()


@pytest.mark.parametrize("setting, text", [
    ("shm-default-byte-size=4096", "shm-default-byte-size can't be smaller than 4 MiBs"),
    ("shm-growth-byte-size=0", "shm-growth-byte-size can't be smaller than or equal to zero."),
    ("thread-pool-size=0", "thread-pool-size can't be less than 1."),
    ("stub-timeout-seconds=0", "stub-timeout-seconds can't be smaller than or equal to zero."),
    ("stub-restart=perhaps", "stub-restart must be 'true' or 'false'."),
])
def test_settings_refused(start, setting, text):
    """(13)"""
    server = start({"lab": model(RUNNER)}, f"--backend-config=python,{setting}", "--exit-on-error=false")
    assert text in server.text()


def test_models_refused(start):
    """(13)"""
    broken = {
        "name;x": ({}, "Invalid stub name: contains invalid characters"),
        "file": ({"default_model_filename": "model.txt"},
                 'Model name must end with \'.py\'. Model name is \\"model.txt\\".'),
        "gpu": ({"parameters": ("FORCE_CPU_ONLY_INPUT_TENSORS", "maybe")},
                "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe'"),
        "depth": ({"parameters": ("PIPELINE_DEPTH", "1000")},
                  "PIPELINE_DEPTH is 1000, it must be from 1 to 128"),
        "none": ({"parameters": ("ASYNC_CONCURRENCY", "0")},
                 "ASYNC_CONCURRENCY is 0, it must be from 1 to 128"),
        "late": ({"parameters": ("EXECUTE_TIMEOUT_MS", "-1")},
                 "EXECUTE_TIMEOUT_MS is -1, it must be from 0 to"),
        "env": ({"parameters": ("EXECUTION_ENV_PATH", "/nowhere")},
                "Path /nowhere/bin/activate does not exist. The Python environment should contain an "
                "'activate' script."),
    }
    models = {}
    for name, (fields, _) in broken.items():
        config = ""
        for key, value in fields.items():
            config += (f'parameters {{ key: "{value[0]}" value {{ string_value: "{value[1]}" }} }}\n'
                       if key == "parameters" else f'{key}: "{value}"\n')
        models[name] = model(RUNNER, config)
    broken["order"] = ({}, "ASYNC_CONCURRENCY is 2, but the requests of a sequence run one after the "
                       "other")
    models["order"] = model(RUNNER, "sequence_batching { }\nparameters { key: \"ASYNC_CONCURRENCY\" "
                            "value { string_value: \"2\" } }\n")
    server = start(models, "--exit-on-error=false")
    for _, text in broken.values():
        assert text in server.text()
    assert '"Failed to preinitialize Python stub: Model name must end with' in server.text()


assert IO and sys and infer
