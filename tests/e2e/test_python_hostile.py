# SPDX-License-Identifier: BSD-3-Clause
"""Python models that behave as badly as a program can: the server and other models go on.

Each test lets one model misbehave, asks another one meanwhile and afterwards, and looks at what the
misbehaving one answers.
"""
import concurrent.futures
import os
import re
import signal

import pytest
import requests

from conftest import Server, write_repository
from python_programs import RUNNER, OPTIONS as PYTHON, code_input, infer, run_program, model, post, stub_of
from test_python_processes import UNHEALTHY, is_alive, wait_until

BACKENDS = ("python",)

TIMEOUT = 'parameters { key: "EXECUTE_TIMEOUT_MS" value { string_value: "2000" } }\n'
NAMES = ("floods", "allocates", "limited", "exits", "forks", "splits", "daemon", "closes", "recurses")
MODELS = {
    "good": model(RUNNER),
    **{name: model(RUNNER) for name in NAMES},
    **{name: model(RUNNER, TIMEOUT) for name in ("sleeps", "blocks", "spins")},
}
OPTIONS = (*PYTHON, "--disable-auto-complete-config")


def others_go_on(server):
    for i in range(20):
        assert run_program(server, f"result = {i}", name="good") == i


def misbehave(server, name, code, while_it_does=lambda: None):
    """(status, error or None) of the request that misbehaves."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        task = pool.submit(post, server, name, code)
        while_it_does()
        others_go_on(server)
        status, answer = task.result()
    others_go_on(server)
    assert "Sanitizer" not in server.text()
    return status, answer.get("error")


def resident_bytes(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            found = re.search(r"VmRSS:\s+(\d+)", file.read())
    except OSError:
        return 0
    return int(found.group(1)) << 10 if found else 0


def test_floods_stdout(server):
    """Ten megabytes on both streams, which the test reads along with the log."""
    code = """
line = "x" * 99 + "\\n"
for _ in range(50):
    for stream in (sys.stdout, sys.stderr):
        stream.write(line * 1000)
        stream.flush()
result = 1
"""
    assert misbehave(server, "floods", code) == (200, None)
    assert run_program(server, "result = 2", name="floods") == 2


def test_floods_stdout_that_nobody_reads(tmp_path):
    """It waits for ever where it writes, and is killed at the deadline of an execution."""
    write_repository(tmp_path / "models", {"good": model(RUNNER), "floods": model(RUNNER, TIMEOUT)})
    pipe = tmp_path / "stdout"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    server = Server(tmp_path / "models", OPTIONS, under=("sh", "-c", f'exec "$0" "$@" >{pipe}'))
    try:
        code = "while True:\n    os.write(1, b'x' * 4096)"
        assert misbehave(server, "floods", code) == (500, UNHEALTHY % "floods")
        assert run_program(server, "result = 2", name="floods") == 2
        assert server.stop() == 0
    finally:
        os.close(reader)
        server.process.kill()


def test_allocates_until_it_is_killed(server):
    """The test does what the kernel does when memory is short."""
    pid = stub_of(server, "allocates_0")

    def kill_when_large():
        wait_until(lambda: resident_bytes(pid) > 256 << 20)
        os.kill(pid, signal.SIGKILL)

    code = "kept = []\nwhile True:\n    kept.append(np.ones(1 << 20))\n    time.sleep(0.005)"
    assert misbehave(server, "allocates", code, kill_when_large) == (500, UNHEALTHY % "allocates")
    assert run_program(server, "result = 2", name="allocates") == 2
    server.wait_for_line("Stub process 'allocates_0' ended unexpectedly: killed by signal 9")


def test_allocates_until_there_is_no_more(server):
    """An exception like any other."""
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 40, resource.RLIM_INFINITY))
np.ones(1 << 42)
"""
    result = run_program(server, code, name="limited")
    assert result["raised"][0] in ("MemoryError", "_ArrayMemoryError")
    assert run_program(server, "result = 2", name="limited") == 2
    others_go_on(server)


@pytest.mark.parametrize("code, answer", [
    ("os._exit(0)", (500, UNHEALTHY % "exits")),
    ("threading.Thread(target=os._exit, args=(7,)).start()\ntime.sleep(60)", (500, UNHEALTHY % "exits")),
    ("os.kill(os.getpid(), 6)", (500, UNHEALTHY % "exits")),
    ("os.killpg(0, 9)", (500, UNHEALTHY % "exits")),
])
def test_exits(server, code, answer):
    assert misbehave(server, "exits", code) == answer
    assert run_program(server, "result = 2", name="exits") == 2


def test_exits_by_an_exception(server):
    status, text = misbehave(server, "exits", "sys.exit(3)")
    assert status == 500 and "SystemExit: 3\n\nAt:\n" in text
    assert run_program(server, "result = 2", name="exits") == 2


def test_forks_and_leaves_children(server):
    """They end with their process."""
    code = """
result = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(60)
    result.append(pid)
"""
    children = run_program(server, code, name="forks")
    assert len(children) == 20 and all(is_alive(pid) for pid in children)
    others_go_on(server)
    assert misbehave(server, "forks", "os._exit(1)") == (500, UNHEALTHY % "forks")
    wait_until(lambda: not any(is_alive(pid) for pid in children))
    assert run_program(server, "result = 2", name="forks") == 2


def test_forks_and_both_return(server):
    """The child is of no use to the server: the parent answers, once."""
    pid = stub_of(server, "splits_0")
    assert run_program(server, "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
                       "os.fork()\nresult = os.getpid()", name="splits") == pid
    others_go_on(server)
    assert run_program(server, "os.waitpid(-1, 0)\nresult = 2", name="splits") == 2
    assert stub_of(server, "splits_0") == pid


def test_leaves_its_process_group(server):
    """A process in a session of its own keeps no descriptor of the server, and holds up nothing."""
    code = """
pid = os.fork()
if pid == 0:
    os.setsid()
    while True:
        time.sleep(60)
result = pid
"""
    child = run_program(server, code, name="daemon")
    try:
        assert misbehave(server, "daemon", "os._exit(1)") == (500, UNHEALTHY % "daemon")
        assert run_program(server, "result = 2", name="daemon") == 2
    finally:
        os.kill(child, signal.SIGKILL)


HANG = {
    "sleeps": "time.sleep(10 ** 6)",
    "blocks": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
              "time.sleep(10 ** 6)",
    "spins": "sum(range(10 ** 15))",
}


@pytest.mark.parametrize("name", HANG)
def test_never_returns(server, name):
    """With EXECUTE_TIMEOUT_MS: killed, also with all signals blocked or the interpreter lock held."""
    assert misbehave(server, name, HANG[name]) == (500, UNHEALTHY % name)
    assert run_program(server, "result = 2", name=name) == 2


def test_never_returns_and_nothing_limits_it(tmp_path):
    """Without a limit the request stays; others are served, and the server ends when it must."""
    write_repository(tmp_path, {"good": model(RUNNER), "hangs": model(RUNNER)})
    server = Server(tmp_path, (*OPTIONS, "--exit-timeout-secs=3"))
    pid = stub_of(server, "hangs_0")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        task = pool.submit(post, server, "hangs",
                           "pb_utils.Logger.log_info('hangs now')\n" + HANG["blocks"])
        server.wait_for_line('"hangs now')
        others_go_on(server)
        assert server.stop() == 1
        assert isinstance(task.exception(), requests.exceptions.RequestException)
    assert "Exit timeout expired" in server.text()
    wait_until(lambda: not is_alive(pid))


def test_closes_all_descriptors(server):
    """The execution may be lost with the memory that it cannot get any more; nothing else is."""
    status, answer = post(server, "closes", "os.closerange(0, 4096)\nresult = 1")
    assert status == 200 or answer["error"] == UNHEALTHY % "closes"
    others_go_on(server)
    for _ in range(3):
        status, answer = infer(server, "closes", code_input("result = 'x' * (1 << 20)"))
        assert status == 200 or answer["error"] == UNHEALTHY % "closes"
        if status == 200:
            break
    assert status == 200
    assert run_program(server, "result = 2", name="closes") == 2


def test_recurses_for_ever(server):
    result = run_program(server, "def f():\n    f()\nf()", name="recurses")
    assert result["raised"][0] == "RecursionError"
    assert run_program(server, "result = 2", name="recurses") == 2
    others_go_on(server)
