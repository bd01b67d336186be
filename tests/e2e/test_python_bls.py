# SPDX-License-Identifier: BSD-3-Clause
"""Models in Python that call other models: exec(), async_exec(), and loading models.

Numbers in brackets are those of the list of acceptance checks in docs/python_models.md.
"""
import concurrent.futures
import http.client
import json
import os

import pytest

from python_programs import (ASYNC_RUNNER, IO, RUNNER, OPTIONS as PYTHON, PROGRAM, RAW, SECONDS, run_program, model)

BACKENDS = ("python", "identity", "square")

IDENTITY = """backend: "identity"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
"""
STRINGS = """backend: "identity"
input { name: "X" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "Y" data_type: TYPE_STRING dims: [ -1 ] }
"""
SQUARE = """backend: "square"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
"""
ECHO = PROGRAM + '''
    def execute(self, requests):
        return [answer([r.request_id(), r.correlation_id(), r.flags(), r.timeout(),
                        json.loads(r.parameters()), r.trace().get_context()]) for r in requests]
'''
SLOW = '''
import time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([1], np.int32))]))
            begin = time.monotonic()
            while not sender.is_cancelled() and time.monotonic() - begin < 20:
                time.sleep(0.002)
            pb_utils.Logger.log_info("callee cancelled: %s" % sender.is_cancelled())
            sender.send(flags=1)
'''
# Each level answers from a thread, so that one instance serves all of them.
NEST = PROGRAM + '''
    def execute(self, requests):
        for r in requests:
            threading.Thread(target=self.go, args=(r.get_response_sender(), int(code_of(r)))).start()
        return [None] * len(requests)

    def go(self, sender, n):
        if n == 0:
            sender.send(answer("bottom"), flags=1)
            return
        inner = pb_utils.InferenceRequest(
            model_name="nest", requested_output_names=["RESULT"],
            inputs=[pb_utils.Tensor("CODE", np.array([str(n - 1).encode()], dtype=object))]).exec()
        sender.send(answer(inner.error().message()) if inner.has_error() else inner, flags=1)
'''
CALLER = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse(
            [pb_utils.Tensor("Y", pb_utils.InferenceRequest(
                model_name="identity", requested_output_names=["Y"],
                inputs=[pb_utils.Tensor("X", r.inputs()[0].as_numpy())]
            ).exec().output_tensors()[0].as_numpy())]) for r in requests]
"""
ONE, TWO = ("instance_group { kind: KIND_CPU count: %d }\n" % n for n in (1, 2))
BEFORE = PROGRAM.replace('''self.args = args
''', '''self.args = args
        try:
            pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name="x").exec()
        except pb_utils.TritonModelException as e:
            pb_utils.Logger.log_info("in initialize: " + str(e))
''') + '''
    def execute(self, requests):
        return [answer(0) for r in requests]
'''


def ensemble_of(step):
    return ('platform: "ensemble"\n' + IO + 'ensemble_scheduling { step { model_name: "%s" model_version: -1\n'
            'input_map { key: "CODE" value: "CODE" } output_map { key: "RESULT" value: "RESULT" } } }\n' % step)



POOL = PROGRAM + '''
import multiprocessing


def call(job):
    model, n = job
    pb_utils.Logger.log_info("from a child: %d" % n)
    request = pb_utils.InferenceRequest(
        model_name=model, requested_output_names=["Y"],
        inputs=[pb_utils.Tensor("X", np.array([[n, n + 1]], np.float32))])
    response = (asyncio.run(later(request)) if n % 2 else request.exec())
    if response.has_error():
        return [int(response.error().code()), response.error().message()]
    return response.output_tensors()[0].as_numpy().reshape(-1).tolist()


async def later(request):
    return await request.async_exec()


def squares(n):
    request = pb_utils.InferenceRequest(model_name="square", requested_output_names=["OUT"],
                                        inputs=[pb_utils.Tensor("IN", np.array([n], np.int32))])
    return len(list(request.exec(decoupled=True)))


class TritonPythonModel:
    def initialize(self, args):
        self.early = multiprocessing.get_context("fork").Pool(2)

    def execute(self, requests):
        jobs = [("identity", n) for n in range(20)] + [("nothing", 0)]
        with multiprocessing.get_context("fork").Pool(3) as late:
            return [answer([self.early.map(call, jobs), late.map(call, jobs),
                            late.map(squares, [3])]) for r in requests]

    def finalize(self):
        self.early.terminate()
'''
MODELS = {
    "pool": model(POOL),
    "identity": IDENTITY, "strings": STRINGS, "square": SQUARE,
    "chained": IDENTITY + 'parameters { key: "next" value { string_value: "chain_end" } }\n',
    "chain_end": IDENTITY.replace('"Y"', '"Z"'),
    "lab": model(RUNNER), "async_lab": model(ASYNC_RUNNER), "echo": model(ECHO),
    "slow": model(SLOW, "model_transaction_policy { decoupled: true }\n",
                  'input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }\n'
                  'output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }\n'),
    "nest": model(NEST),
    "caller": model(CALLER, "max_batch_size: 8\n", IDENTITY.split("\n", 2)[2]),
    "self_one": model(RUNNER, ONE), "self_two": model(RUNNER, TWO), "before": model(BEFORE),
    "round_one": ensemble_of("self_one"), "around": ensemble_of("round_one"),
    "round_two": ensemble_of("self_two"), "second_one": model(RUNNER, ONE),
    "spare": IDENTITY, "raw": model(RAW),
}
OPTIONS = (*PYTHON, "--model-control-mode=explicit", "--allow-uploaded-backends=true",
           *(f"--load-model={name}" for name in MODELS if name != "spare"))

HELP = '''
def ask(model, inputs, outputs=("Y",), **more):
    return pb_utils.InferenceRequest(model_name=model, requested_output_names=list(outputs),
        inputs=[pb_utils.Tensor(k, v) for k, v in inputs.items()], **more)
def x(*values):
    return {"X": np.array([values], np.float32)}
def ys(response):
    if response.has_error():
        return [int(response.error().code()), response.error().message()]
    return response.output_tensors()[0].as_numpy().reshape(-1).tolist()
'''


def run(server, code, name="lab", **more):
    return run_program(server, HELP + code, name=name, **more)


def test_exec(server):
    """(2)"""
    assert run(server, "result = ys(ask('identity', x(1, 2, 3)).exec())") == [1.0, 2.0, 3.0]
    assert run(server, "result = [b.decode() for b in ys(ask('strings', {'X': np.array("
                       "[b'a', b'', 'ü'.encode()], dtype=object)}).exec())]") == ["a", "", "ü"]
    assert run(server, "result = ys(ask('identity', {'X': np.zeros((1, 0), np.float32)}).exec())") == []


def test_a_model_with_a_next_one_runs_alone(server):
    """As a step of an ensemble does; the request may ask for the chain."""
    assert run(server, "result = ys(ask('chained', x(1, 2)).exec())") == [1.0, 2.0]
    assert run(server, "result = ys(ask('chained', x(1, 2), ['Z'], parameters={'chain': True}).exec())") == [
        1.0, 2.0]
    assert run(server, "result = ys(ask('chained', x(1, 2), ['Z']).exec())")[1] == (
        PREFIX % "chained" + "unexpected inference output 'Z' for model 'chained'")


def test_async_exec(server):
    """(2)"""
    assert run(server, "rs = await asyncio.gather(*[ask('identity', x(i)).async_exec() "
                       "for i in range(50)])\nreturn [ys(r)[0] for r in rs]", "async_lab") == [
        float(i) for i in range(50)]
    assert run(server, "try:\n    ask('identity', x(1)).async_exec()\nexcept RuntimeError:\n"
                       "    result = 'no loop'") == "no loop"


def test_an_error_whose_text_is_not_utf_8(server):
    """Of a model that quotes bytes of its own: the caller reads it and goes on."""
    code = r"""returned = [pb_utils.InferenceResponse(error=pb_utils.TritonError("bad \udcff.", pb_utils.TritonError.INVALID_ARG))]"""
    call = f"ask('raw', {{'CODE': np.array([{code!r}.encode()], dtype=object)}}, ['RESULT'])"
    assert run(server, f"result = ys({call}.exec())") == [3, "bad \ufffd."]
    assert run(server, f"return ys(await {call}.async_exec())", "async_lab") == [3, "bad \ufffd."]
    assert run(server, "result = ys(ask('identity', x(1)).exec())") == [1.0]


def test_an_output_is_passed_on_in_place(server):
    assert run(server, """
first = ask("identity", {"X": np.arange(300000, dtype=np.float32).reshape(1, -1)}).exec()
tensor = first.output_tensors()[0]
second = pb_utils.InferenceRequest(model_name="identity", requested_output_names=["Y"], inputs=[
    pb_utils.Tensor.from_dlpack("X", tensor.to_dlpack())]).exec()
del first, tensor
a = second.output_tensors()[0].as_numpy()
result = [a.shape, a.reshape(-1).tolist() == list(range(300000))]
""") == [[1, 300000], True]


def threads_of(pid):
    """The process, its children, and all their threads."""
    threads = [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
    for tid in list(threads):
        with open(f"/proc/{pid}/task/{tid}/children", encoding="ascii") as file:
            for child in file.read().split():
                threads += threads_of(int(child))
    return threads


def test_calls_on_one_core(server):
    """There the thread in Execute is often interrupted just before it sleeps for the result, and the
    receiver, awake for the call, reads that result."""
    cores = os.sched_getaffinity(0)
    body = json.dumps({"inputs": [{"name": "X", "datatype": "FP32", "shape": [1, 1], "data": [7]}]})
    connection = http.client.HTTPConnection(*server.url.split("//")[1].split(":"), timeout=SECONDS)
    for thread in threads_of(server.process.pid):
        os.sched_setaffinity(thread, {min(cores)})
    try:
        for _ in range(3000):
            connection.request("POST", "/v2/models/caller/infer", body)
            answer = json.loads(connection.getresponse().read())
            assert answer["outputs"][0]["data"] == [7.0], answer
    finally:
        for thread in threads_of(server.process.pid):
            os.sched_setaffinity(thread, cores)


PREFIX = "Model %s - Error when running inference: "


def test_children_of_a_fork(server):
    """Of a pool that was made while the model loaded, and of one that execute() makes."""
    early, late, squares = run_program(server, "", name="pool")
    unknown = [2, PREFIX % "nothing" + "Request for unknown model: 'nothing' is not found"]
    assert early == late == [[n, n + 1] for n in range(20)] + [unknown]
    assert squares == run(server, "result = [len(list(ask('square', {'IN': np.array([3], np.int32)}, "
                                  "['OUT']).exec(decoupled=True)))]")
    server.wait_for_line("from a child: 7")


def test_a_child_of_a_fork_can_be_ended(server):
    """The model's process ignores SIGTERM; a child does not, as multiprocessing expects, from its first
    moment on."""
    assert run_program(server, """
import signal, time
result = []
for _ in range(50):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    result.append(os.WTERMSIG(os.waitpid(child, 0)[1]))
""") == 50 * [15]


def test_what_runs_after_exec_has_no_server(server):
    assert "a child process of the model cannot talk to the server" in run(server, """
import subprocess
program = ("import sys; sys.path[:0] = %r; import triton_python_backend_utils as p; "
           "p.MetricFamily('a', 'b', p.MetricFamily.COUNTER)" % [
               os.path.dirname(pb_utils.__file__)])
result = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE).stderr.decode()
""")


@pytest.mark.parametrize("call, text", [
    ("ask('nobody', x(1))", PREFIX % "nobody" + "Request for unknown model: 'nobody' is not found"),
    ("ask('identity', {})",
     PREFIX % "identity" + "[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model "
     "'identity'. Got input(s) [], but missing required input(s) ['X']. Please provide all required "
     "input(s)."),
    ("ask('square', {'IN': np.ones(1, np.int32)}, ['OUT'])",
     "Model square is using the decoupled. The current BLS request call doesn't support models using "
     "the decoupled transaction policy. Please use 'decoupled=True' argument to the 'exec' or "
     "'async_exec' calls for decoupled models.'"),
])
def test_failures(server, call, text):
    """(35)"""
    assert run(server, f"result = ys({call}.exec())")[1] == text
    assert run(server, f"return ys(await {call}.async_exec())", "async_lab")[1] == text
    assert run(server, f"r = {call}.exec()\nresult = [r.parameters(), r.output_tensors()]") == ["", []]


@pytest.mark.parametrize("n", [0, 1, 5])
def test_decoupled(server, n):
    """(3)"""
    ask = f"ask('square', {{'IN': np.full(1, {n}, np.int32)}}, ['OUT'])"
    wanted = [[n]] * n
    assert run(server, f"result = [ys(r) for r in {ask}.exec(decoupled=True) if r.output_tensors()]"
               ) == wanted
    assert run(server, f"return [ys(r) for r in await {ask}.async_exec(decoupled=True) "
                       "if r.output_tensors()]", "async_lab") == wanted
    assert run(server, f"it = {ask}.exec(decoupled=True)\na = len(list(it))\n"
                       "result = a == len(list(it))") is True
    assert run(server, "result = [ys(r) for r in ask('identity', x(4)).exec(decoupled=True)"
                       " if r.output_tensors()]") == [[4.0]]


def test_many_decoupled_at_once(server):
    """(34)"""
    assert run(server, """
async def one(n):
    it = await ask("square", {"IN": np.full(1, n, np.int32)}, ["OUT"]).async_exec(decoupled=True)
    return [ys(r) for r in it if r.output_tensors()] == [[n]] * n
return all(await asyncio.gather(*[one(100) for _ in range(64)]))
""", "async_lab") is True


def test_many_threads(server):
    """(35)"""
    assert run(server, """
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(50) as pool:
    result = list(pool.map(lambda i: ys(ask("identity", x(i)).exec())[0], range(500))) == list(range(500))
""") is True


def test_what_is_passed_on(server):
    """(20)"""
    assert run(server, """
r = ask("echo", {"CODE": np.array([b""], dtype=object)}, ["RESULT"], request_id="i",
        correlation_id=7, flags=pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, timeout=9000000,
        parameters={"a": 1, "b": "two", "c": True}).exec()
s = ask("echo", {"CODE": np.array([b""], dtype=object)}, ["RESULT"], correlation_id="s").exec()
result = [json.loads(ys(r)[0]), json.loads(ys(s)[0])]
""") == [["i", 7, 1, 9000000, {"a": 1, "b": "two", "c": True}, None],
         ["", "s", 0, 0, {}, None]]


def test_cancel(server):
    """(38)"""
    assert run(server, """
it = ask("slow", {"IN": np.ones(1, np.int32)}, ["OUT"]).exec(decoupled=True)
next(it)
it.cancel()
it.cancel()
rest = list(it)
it.cancel()
result = len(rest)
""") >= 1
    server.wait_for_line("callee cancelled: True")


def test_an_iterator_after_its_end(server):
    """next() ends again; `for` starts over, or goes on where another one was left."""
    assert run(server, """
it = ask("square", {"IN": np.array([3], np.int32)}, ["OUT"]).exec(decoupled=True)
first = list(it)
try:
    next(it)
    result = ["no end"]
except StopIteration:
    result = [iter(it) is it, next(it) is first[0]]
for response in it:
    result.append(response is first[1])
    break
result += [len(list(it)) == len(first) - 2, len(list(it)) == len(first) > 2]
""") == [True] * 5


def test_an_iterator_that_is_dropped(server):
    run(server, 'it = ask("slow", {"IN": np.ones(1, np.int32)}, ["OUT"]).exec(decoupled=True)\n'
                "next(it)\ndel it\nresult = 0")
    server.wait_for_line("callee cancelled: True")


def test_a_model_that_calls_itself(server):
    """(37)"""
    code = ("result = ys(ask('%s', {'CODE': np.array([b'result = 5'], dtype=object)},"
            " ['RESULT']).exec())[-1]\nresult = result if isinstance(result, str) else result.decode()")
    assert run(server, code % "self_one", "self_one") == (
        PREFIX % "self_one" + "the model's instances are all waiting for this call")
    assert run(server, code % "self_two", "self_two") == "5"
    assert run(server, code % "self_one", "self_two") == "5"


ALL_WAIT = "the model's instances are all waiting for this call"
CALL = """
r = ask(%r, {'CODE': np.array([%r.encode()], dtype=object)}, ['RESULT']).exec()
result = ys(r)[-1]
result = result if isinstance(result, str) else json.loads(result)
"""


def calls(*models):
    """The program of a model that calls the first of these, which calls the second, and so on."""
    return HELP + CALL % (models[0], calls(*models[1:])) if models else "result = 5"


@pytest.mark.parametrize("first, through, cycle", [
    ("self_one", ["round_one"], "self_one -> round_one -> self_one"),
    ("self_one", ["around"], "self_one -> around -> self_one"),
    ("self_one", ["second_one", "self_one"], "second_one -> self_one -> second_one"),
    ("self_one", ["second_one", "round_one"], "second_one -> round_one -> self_one -> second_one"),
    ("self_two", ["round_two", "round_two"], "self_two -> round_two -> self_two"),
])
def test_models_that_call_each_other(server, first, through, cycle):
    """(37) The wait is followed through ensembles and other models; afterwards the models serve."""
    assert run_program(server, calls(*through), name=first) == PREFIX % through[-1] + ALL_WAIT + ": " + cycle
    assert run_program(server, calls(), name=first) == 5
    assert run_program(server, calls("self_two"), name="self_one") == 5
    assert run_program(server, calls("round_two"), name="self_two") == 5


def test_two_clients_whose_calls_wait_for_each_other(server, tmp_path):
    """(37) Both instances of a model call it through an ensemble: the second call is refused."""
    meet = f"""
open({str(tmp_path)!r} + "/" + request.request_id(), "w").close()
while len(os.listdir({str(tmp_path)!r})) < 2:
    time.sleep(0.001)
"""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = sorted(map(str, pool.map(
            lambda name: run_program(server, meet + calls("round_two"), name="self_two", id=name), "ab")))
    assert answers == ["5", PREFIX % "round_two" + ALL_WAIT + ": self_two -> round_two -> self_two"]


def test_nesting_has_an_end(server):
    """(37)"""
    def nest(n):
        return run_program(server, str(n), name="nest")

    assert nest(16) == "bottom"
    assert nest(17).endswith("BLS calls are nested too deeply")


def test_memory_does_not_grow_with_calls(server):
    """(39)"""
    assert run(server, """
def committed():
    with open("/proc/self/smaps") as file:
        at = file.read().split("/memfd:neso_python", 1)[1]
    return int(at.split("Rss:", 1)[1].split()[0])
def call(n):
    for _ in range(n):
        ask("identity", {"X": np.zeros((1, 5000), np.float32)}).exec()
call(200)
before = committed()
call(2000)
result = committed() <= before + 256
""") is True


def test_only_in_execute(server):
    server.wait_for_line  # the line was logged while the model loaded
    assert "in initialize: BLS is only supported during the 'execute' function." in server.text()


def test_loading_models(server):
    """(25)"""
    assert run(server, """
before = pb_utils.is_model_ready("spare")
pb_utils.load_model("spare")
after = [pb_utils.is_model_ready("spare"), pb_utils.is_model_ready("spare", "1"),
         pb_utils.is_model_ready("spare", "9")]
pb_utils.unload_model("spare")
result = [before, after]
""") == [False, [True, True, False]]
    assert run(server, """
config = json.dumps({"backend": "python", "input": [{"name": "CODE", "data_type": "TYPE_STRING",
    "dims": [1]}], "output": [{"name": "RESULT", "data_type": "TYPE_STRING", "dims": [1]}]})
program = b'''
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", r.inputs()[0].as_numpy())])
                for r in requests]
'''
pb_utils.load_model("sent", config, {"file:1/model.py": program})
result = ys(ask("sent", {"CODE": np.array([b"hi"], dtype=object)}, ["RESULT"]).exec())[0].decode()
pb_utils.unload_model("sent")
""") == "hi"
    kind, text = run(server, "pb_utils.load_model('none')")["raised"]
    assert kind == "TritonModelException" and text.startswith("Failed to load model: ")


assert IO
