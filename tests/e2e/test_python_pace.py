# SPDX-License-Identifier: BSD-3-Clause
"""What answers of Python models do not wait for. Times themselves are measured by bench/python.py and
bench/python_inside.py.

Numbers in brackets are those of the list of acceptance checks in docs/python_models.md.
"""
import concurrent.futures
import re

import requests

from python_programs import RUNNER, OPTIONS, model, run_program
from test_python_processes import wait_until

BACKENDS = ("python",)
OWN_QUEUE = RUNNER.replace("class TritonPythonModel:\n",
                           "class TritonPythonModel:\n    has_own_queue = True\n\n")
MODELS = {"lab": model(RUNNER), "gated": model(RUNNER), "own_queue": model(OWN_QUEUE)}

GATED = """
self.n = getattr(self, "n", 0) + 1
while not os.path.exists(os.path.join(pb_utils.get_model_dir(), "go%d" % self.n)):
    time.sleep(0.001)
result = self.n
"""


def test_an_answer_does_not_wait_for_the_executions_after_it(server):
    """(57) Short executions let the server hand over many ahead; then long ones come."""
    for i in range(200):
        assert run_program(server, "result = 1", name="gated") == 1
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        tasks = [pool.submit(run_program, server, GATED, name="gated") for _ in range(16)]
        for n in range(1, 17):
            (server.repository / "gated" / "1" / f"go{n}").touch()
            wait_until(lambda n=n: sum(task.done() for task in tasks) == n)
        assert sorted(task.result() for task in tasks) == list(range(1, 17))


def pending(server, name):
    """How many requests wait in the server's queue."""
    text = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=30).text
    return int(re.search(rf'nv_inference_pending_request_count{{model="{name}",version="1"}} (\d+)', text)[1])


def test_a_model_with_its_own_queue_gets_one_execution_at_a_time(server):
    """Short executions let the server hand over many ahead, except to such a model."""
    for _ in range(200):
        run_program(server, "result = 1", name="own_queue")
    with concurrent.futures.ThreadPoolExecutor(7) as pool:
        held = pool.submit(run_program, server, GATED, name="own_queue")
        others = [pool.submit(run_program, server, GATED, name="own_queue") for _ in range(6)]
        wait_until(lambda: pending(server, "own_queue") == 6)
        for n in range(1, 8):
            (server.repository / "own_queue" / "1" / f"go{n}").touch()
        assert sorted(task.result() for task in [held, *others]) == list(range(1, 8))


SERIALISE = """
import struct
strings = np.array([b"string %d" % i for i in range(10 ** 4)], dtype=np.object_)

def one_by_one(array):
    parts = []
    for element in np.nditer(array, flags=["refs_ok"], order="C"):
        data = element.item()
        parts.append(struct.pack("<I", len(data)))
        parts.append(data)
    return b"".join(parts)

def seconds(function):
    begin = time.perf_counter()
    function(strings)
    return time.perf_counter() - begin

assert one_by_one(strings) == pb_utils.serialize_byte_tensor(strings)
slow, fast = (min(seconds(f) for _ in range(15)) for f in (one_by_one, pb_utils.serialize_byte_tensor))
result = slow / fast
"""


def test_strings_are_serialised_in_c(server):
    """(58) The best of many rounds of each, in one process, so that load counts for both."""
    assert run_program(server, SERIALISE) >= 5


def test_a_thousand_lines_of_the_log(server):
    """(59) All of them, in order, from a model that waits for none."""
    assert run_program(server, "for i in range(1000):\n    pb_utils.Logger.log_info('line %d of' % i)\n"
                       "result = 1") == 1
    server.wait_for_line('"line 999 of')
    assert re.findall(r'"line (\d+) of"', server.text()) == [str(i) for i in range(1000)]
