# SPDX-License-Identifier: BSD-3-Clause
"""Where the threads of a Python model's process are: `neso ctl stacks`, its endpoint, and processes that
hang in different ways."""
import concurrent.futures
import os
import re
import signal

import requests

from python_programs import IO, RUNNER, OPTIONS as PYTHON, run_program, model, post, stub_of
from test_ctl import DONE, REFUSED, ctl_of
from test_python_processes import wait_until

BACKENDS = ("python", "identity")
NAMES = ("asleep", "in_c", "closed", "stopped", "deep", "handles", "crashed")
MODELS = {
    **{name: model(RUNNER) for name in NAMES},
    "two": model(RUNNER, "instance_group { count: 2 kind: KIND_CPU }\n"),
    "compiled": 'backend: "identity"\n' + IO,
}
OPTIONS = (*PYTHON, "--disable-auto-complete-config", "--http-thread-count=1")

# Holds the interpreter lock in C until somebody opens the pipe for writing.
HOLD_LOCK = """
import ctypes
path = os.path.join(pb_utils.get_model_dir(), "pipe").encode()
os.mkfifo(path)
pb_utils.Logger.log_info("hangs")
%s
ctypes.PyDLL(None).open(path, os.O_RDONLY)
result = 8
"""


def release(server, name):
    path = server.repository / name / "1" / "pipe"
    wait_until(path.exists)
    with open(path, "wb"):
        pass


def ask(server, name, tail=""):
    return requests.get(f"{server.url}/v2/models/{name}{tail}/stacks", timeout=60)


def process_of(server, name):
    reply = ask(server, name)
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    assert (answer["name"], answer["version"], answer["left_out"]) == (name, "1", 0)
    [instance] = answer["instances"]
    assert instance["name"] == f"{name}_0" and "process" in instance, instance
    return instance["process"]


def test_a_model_that_sleeps(server):
    """By HTTP and by the command; the loop that waits for the answer serves others."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        code = "def waits_here():\n    while not self.kept:\n        time.sleep(0.01)\n"
        task = pool.submit(run_program, server, "self.kept.clear()\npb_utils.Logger.log_info('hangs')\n"
                           + code + "threading.Timer(60, print)\nwaits_here()\nresult = 7",
                           name="asleep")
        server.wait_for_line('"hangs')
        process = process_of(server, "asleep")
        assert process["pid"] == stub_of(server, "asleep_0") and process["cut"] is False
        assert process["executing_ms"] >= 0
        assert re.search(r'File "<program>", line 5 in waits_here\n  File "<program>", line 7 in <module>\n',
                         process["stacks"]), process["stacks"]
        assert "in execute\n" in process["stacks"]
        code, out, error = ctl_of(server.url, "stacks", "asleep")
        assert code == DONE, error
        assert out.startswith(f"== asleep_0: process {process['pid']}, executing for ")
        assert 'File "<program>", line 5 in waits_here\n' in out
        os.kill(process["pid"], signal.SIGKILL)  # nobody else can end it
        try:
            task.result()
        except AssertionError:
            pass
    assert run_program(server, "result = 8", name="asleep") == 8


def hang_in_c(server, name, text, before=""):
    """The stacks of a model come to match while its C code holds the interpreter lock; it goes on."""
    seen = []

    def is_seen():
        seen.append(process_of(server, name)["stacks"])
        return re.search(text, seen[-1])

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        task = pool.submit(post, server, name, HOLD_LOCK % before)
        server.wait_for_line('"hangs')
        wait_until(is_seen)
        release(server, name)
        assert task.result()[0] == 200, seen[-1]
    assert run_program(server, "result = 9", name=name) == 9
    return seen[-1]


def test_c_code_that_holds_the_interpreter_lock(server):
    assert "in execute\n" in hang_in_c(server, "in_c", r'File "<program>", line 7 in <module>\n')


CLOSE = """
folder = "/proc/self/fd"
fds = [int(n) for n in os.listdir(folder) if os.path.exists(f"{folder}/{n}") or
       os.path.islink(f"{folder}/{n}")]
mine = [n for n in fds if os.readlink(f"{folder}/{n}").startswith("/memfd:stacks")]
[os.close(n) for n in mine]
result = len(mine)
"""


def test_a_model_that_has_closed_the_descriptor(server):
    """Its process can still be asked; with the lock held in C there is no file left to write to."""
    assert run_program(server, CLOSE, name="closed") == 1
    assert "_answer_stack_questions" in process_of(server, "closed")["stacks"]
    assert run_program(server, "result = 2", name="closed") == 2
    hang_in_c(server, "closed", "^The model holds the interpreter lock, and has closed the descriptor "
              "for its stacks.\n$")


def test_a_model_that_handles_all_signals(server):
    before = ("import signal; [signal.signal(n, lambda *a: None) for n in "
              "range(signal.SIGRTMIN, signal.SIGRTMAX + 1)]")
    hang_in_c(server, "handles", "^The model holds the interpreter lock, and handles the signal for its "
              "stacks itself.\n$", before)


def test_a_process_that_is_stopped(server):
    pid = stub_of(server, "stopped_0")
    os.kill(pid, signal.SIGSTOP)
    try:
        [instance] = ask(server, "stopped").json()["instances"]
        assert instance == {"name": "stopped_0", "error": f"process {pid} of 'stopped_0' has not written "
                            "its stacks within 5 s; its state is T"}
        code, out, _ = ctl_of(server.url, "stacks", "stopped", "--version=1")
        assert code == DONE and out == f"== stopped_0: {instance['error']}\n"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "_answer_stack_questions" in process_of(server, "stopped")["stacks"]


def test_what_is_written_is_bounded(server):
    """Hundreds of threads with deep stacks."""
    assert run_program(server, """
go = threading.Event()
def deep(n):
    return go.wait() if n == 0 else deep(n - 1)
threads = [threading.Thread(target=deep, args=(90,), daemon=True) for _ in range(150)]
[t.start() for t in threads]
self.kept["go"] = go
result = len(threads)
""", name="deep") == 150
    process = process_of(server, "deep")
    assert process["cut"] is True and len(process["stacks"]) == 64 << 10
    assert ctl_of(server.url, "stacks", "deep")[1].endswith("... (cut)\n")
    assert run_program(server, "self.kept['go'].set()\nresult = 1", name="deep") == 1


def test_many_askers_and_several_instances(server):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(server, "two").json(), range(24)))
    names = [[i["name"] for i in a["instances"]] for a in answers]
    assert names == [["two_0_0", "two_0_1"]] * 24
    assert all("_answer_stack_questions" in i["process"]["stacks"] for a in answers
               for i in a["instances"])
    pids = {i["process"]["pid"] for a in answers for i in a["instances"]}
    assert pids == {stub_of(server, "two_0_0"), stub_of(server, "two_0_1")}


def test_others_are_refused(server):
    reply = ask(server, "compiled")
    assert (reply.status_code, reply.json()["error"]) == (
        501, "the instances of model 'compiled' are not processes of their own, whose stacks could be "
        "read")
    assert ask(server, "compiled", "/versions/x").status_code == 404
    code, out, error = ctl_of(server.url, "stacks", "nobody")
    assert code == REFUSED and out == "" and "nobody" in error


def test_a_process_that_has_crashed(server):
    """After the crash the new process answers."""
    first = stub_of(server, "crashed_0")
    assert post(server, "crashed", "os._exit(3)")[0] == 500
    assert run_program(server, "result = 1", name="crashed") == 1
    assert process_of(server, "crashed")["pid"] not in (None, first)
