# SPDX-License-Identifier: BSD-3-Clause
"""execute() of Python models: what it may return, senders, errors, decoupled and async models.

Numbers in brackets are those of the list of acceptance checks in docs/python_models.md.
"""
import concurrent.futures
import json
import re
import struct
import time

import pytest
import requests

from grpc_stubs import Client, client, stubs  # noqa: F401
from python_programs import (ASYNC_RUNNER, IO, RUNNER, OPTIONS, PROGRAM, RAW, code_input, error, infer, run_program,
                        model, post, start)  # noqa: F401
from scrape import metric

BACKENDS = ("python",)

DECOUPLED = "model_transaction_policy { decoupled: true }\n"
# `go` answers with the numbers that the model is sent, from where it says.
REPEAT = '''
import threading
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().reshape(-1)
            threading.Thread(target=self.answer, args=(sender, values.tolist())).start()

    def answer(self, sender, values):
        for i, value in enumerate(values):
            sender.send(pb_utils.InferenceResponse([
                pb_utils.Tensor("OUT", np.array([value], np.int32)),
                pb_utils.Tensor("IDX", np.array([i], np.uint32))], parameters={"i": i}))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
SQUARE = '''
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    async def execute(self, requests):
        import asyncio
        for request in requests:
            n = int(request.inputs()[0].as_numpy()[0])
            sender = request.get_response_sender()
            if n >= 0:
                for _ in range(n):
                    sender.send(pb_utils.InferenceResponse([
                        pb_utils.Tensor("OUT", np.array([n], np.int32))]))
            else:
                await asyncio.sleep(-n / 1000)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''
COUNT_DOWN = '''
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        out = []
        for request in requests:
            key = request.correlation_id()
            left = self.left.get(key, int(request.inputs()[0].as_numpy().reshape(-1)[0]))
            self.left[key] = left - 1
            if left > 0:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                out.append(None)
            else:
                del self.left[key]
                out.append(pb_utils.InferenceResponse([pb_utils.Tensor(
                    "OUT", np.array([[left]], np.int32))]))
        return out
'''
# Keeps its sequences until it sees their end.
KEEPER = '''
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.kept = set()

    def execute(self, requests):
        out = []
        for request in requests:
            key = request.correlation_id()
            is_closed = request.is_cancelled() and request.flags() == 2
            (self.kept.discard if is_closed else self.kept.add)(key)
            pb_utils.Logger.log_info(f"{key} {request.flags()} {is_closed} keeps {len(self.kept)}")
            if is_closed:
                out.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("closed")))
            elif request.inputs()[0].as_numpy().reshape(-1)[0] > 0:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                out.append(None)
            else:
                out.append(pb_utils.InferenceResponse([pb_utils.Tensor(
                    "OUT", np.array([[len(self.kept)]], np.int32))]))
        return out
'''
INT = 'input { name: "IN" data_type: TYPE_INT32 dims: [ %s ] }\n' \
      'output { name: "OUT" data_type: TYPE_INT32 dims: [ %s ] }\n'
BATCH = PROGRAM + '''
    def execute(self, requests):
        codes = [code_of(r) for r in requests]
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError(
                    c, pb_utils.TritonError.INVALID_ARG)) if c.startswith("bad")
                else answer([c, len(codes)]) for c in codes]
'''
AUTO = '''
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "X", "data_type": "TYPE_FP32", "dims": [4]})
        config.add_output({"name": "Y", "data_type": "TYPE_FP32", "dims": [4]})
        config.set_max_batch_size(3)
        config.set_dynamic_batching()
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([
            pb_utils.Tensor("Y", r.inputs()[0].as_numpy())]) for r in requests]
'''
CONCURRENCY = 'parameters { key: "ASYNC_CONCURRENCY" value { string_value: "%d" } }\n'
# Answers when as many executions as it is asked for are under way.
ASYNC_BATCH = PROGRAM + '''
    n_running = 0

    async def execute(self, requests):
        self.n_running += 1
        while self.n_running < int(code_of(requests[0])):
            await asyncio.sleep(0.001)
        return [answer([self.n_running >= int(code_of(r)), len(requests)]) for r in requests]
'''
HELPER = '''
import numpy as np
import triton_python_backend_utils as pb_utils
from .util_of_lab import NAME as relative
import util_of_lab

class TritonPythonModel:
    def execute(self, requests):
        names = [relative.encode(), util_of_lab.NAME.encode()]
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "RESULT", np.array(names, dtype=np.object_))]) for _ in requests]
'''


def helper(name):
    return {**model(HELPER, io='input { name: "CODE" data_type: TYPE_STRING dims: [ 1 ] }\n'
                               'output { name: "RESULT" data_type: TYPE_STRING dims: [ 2 ] }\n'),
            "1/util_of_lab.py": f"NAME = '{name}'\n"}


MODELS = {
    "lab": model(RUNNER),
    "raw": model(RAW),
    "raw_decoupled": model(RAW, DECOUPLED),
    "async_lab": model(ASYNC_RUNNER),
    "async_4": model(ASYNC_RUNNER, CONCURRENCY % 4),
    "async_32": model(ASYNC_RUNNER, CONCURRENCY % 32),
    "async_batch": model(ASYNC_BATCH, CONCURRENCY % 3 + "max_batch_size: 2\ndynamic_batching { }\n"),
    "plain_4": model(RUNNER, CONCURRENCY % 4),
    "decoupled_4": model(RAW.replace("def execute", "async def execute"), DECOUPLED + CONCURRENCY % 4),
    "repeat": model(REPEAT, DECOUPLED,
                    INT % (-1, 1) + 'output { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] }\n'),
    "square": model(SQUARE, DECOUPLED, INT % (1, 1)),
    "count_down": model(COUNT_DOWN, "max_batch_size: 4\n"
                        "sequence_batching { iterative_sequence: true }\n", INT % (1, 1)),
    "keeper": model(KEEPER, "max_batch_size: 4\nsequence_batching { iterative_sequence: true\n"
                    "max_sequence_idle_microseconds: 20000 oldest { } }\n", INT % (1, 1)),
    "batch": model(BATCH, "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: "
                   "5000000 preferred_batch_size: [ 3 ] }\n"),
    "auto": {"1/model.py": AUTO},
    "helper_one": helper("one"),
    "helper_two": helper("two"),
}
PREFIX = "Failed to process the request(s) for model '%s', message: "


# ---- what execute returns ----------------------------------------------------------------------------


@pytest.mark.parametrize("returned, text", [
    ("5", "Expected a list in the execute return, found type '<class 'int'>'."),
    ("None", "Expected a list in the execute return, found type '<class 'NoneType'>'."),
    ("[]", "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
           "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0\n"),
    ("[7]", "Expected an 'InferenceResponse' object in the execute function return list, found type "
            "'<class 'int'>'."),
    ("[None]", "Expected an 'InferenceResponse' object in the execute function return list, found "
               "type '<class 'NoneType'>'."),
    ("[request.set_release_flags(2) or answer(1)]",
     "Expected a None object in the execute function return list for reschduled request, found type "
     "'<class 'c_python_backend_utils.InferenceResponse'>'."),
])
def test_wrong_results(server, returned, text):
    """(13)"""
    assert error(server, f"returned = {returned}") == PREFIX % "raw_0" + text


def test_an_exception(server):
    """(27)"""
    text = error(server, "def inner():\n    raise ValueError('why')\n\ninner()")
    file = server.repository / "raw" / "1" / "model.py"
    assert re.fullmatch(re.escape(PREFIX % "raw_0" + "ValueError: why\n\nAt:\n"
                                  "  <program>(2): inner\n  <program>(4): <module>\n") +
                        rf"  {re.escape(str(file))}\(\d+\): execute\n", text)
    server.wait_for_line("ValueError: why")
    assert run_program(server, "result = 1") == 1
    assert error(server, "raise pb_utils.TritonModelException()").startswith(
        PREFIX % "raw_0" + "TritonModelException: <EMPTY MESSAGE>")
    status, _ = post(server, "raw", "returned = [answer(2)]")
    assert status == 200
    assert metric(server, "nv_inference_request_failure", model="raw", reason="BACKEND") > 0


def test_one_bad_request_of_a_batch(server):
    """(28)"""
    def ask(code):
        return infer(server, "batch", [{"name": "CODE", "datatype": "BYTES", "shape": [1, 1],
                                        "data": [code]}])

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(ask, ["bad one", "good", "bad two"]))
    assert [a[0] for a in answers] == [400, 200, 400]
    assert [answers[0][1]["error"], answers[2][1]["error"]] == ["bad one", "bad two"]
    assert json.loads(answers[1][1]["outputs"][0]["data"][0]) == ["good", 3]


def test_outputs_nobody_asked_for(server):
    status, answer = post(server, "raw", """
more = pb_utils.Tensor("MORE", np.zeros(3, np.float32))
returned = [pb_utils.InferenceResponse([more, *answer(1).output_tensors()])]
""")
    assert (status, [o["name"] for o in answer["outputs"]]) == (200, ["RESULT"])
    status, answer = post(server, "raw", "returned = [pb_utils.InferenceResponse([])]")
    assert (status, answer.get("outputs", [])) == (200, [])


def test_an_output_that_the_configuration_lacks(start):
    """A warning for each instance, not for each request: the client sees an answer without outputs."""
    server = start({"misspelt": model("""
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("RESULTS", np.zeros(1, np.int8))])
                for _ in requests]
""")})
    for _ in range(3):
        assert infer(server, "misspelt", code_input(""))[1]["outputs"] == []
    assert server.stop() == 0
    assert server.text().count(
        "model instance 'misspelt_0' answers with the output 'RESULTS', which the model's configuration "
        "does not have; it is dropped") == 1


def test_an_output_of_another_type(start):
    """It is sent as it is, which clients see, as in the reference; a warning for the model names the first one."""
    server = start({"other": model("""
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", np.array([1], np.float64))])
                for _ in requests]
""")})
    for _ in range(3):
        [output] = infer(server, "other", code_input(""))[1]["outputs"]
        assert (output["datatype"], output["data"]) == ("FP64", [1.0])
    assert server.stop() == 0
    assert server.text().count(
        "model 'other' answers with the output 'RESULT' of data type FP64, while its configuration has BYTES; it is "
        "sent as it is") == 1


@pytest.mark.parametrize("send", [
    "returned = [response]",
    "request.get_response_sender().send(response, 1)\nreturned = [None]",
])
@pytest.mark.parametrize("n", [4097, 20000])
def test_more_outputs_than_a_response_can_have(server, n, send):
    """The request gets an error, and the process serves the next one."""
    pid = run_program(server, "returned = [answer(os.getpid())]", name="raw")
    assert post(server, "raw", f"""
one = np.zeros(1, np.int8)
response = pb_utils.InferenceResponse([pb_utils.Tensor(f"O{{i}}", one) for i in range({n})])
{send}
""") == (500, {"error": f"a response has {n} outputs, and at most 4096 are possible"})
    assert run_program(server, "returned = [answer(os.getpid())]", name="raw") == pid


@pytest.mark.parametrize("name", ["raw", "async_lab"])
def test_senders_of_models_that_are_not_decoupled(server, name):
    """(29)"""
    ways = {
        "with the last": "s.send(answer('x'), flags=1)",
        "and the end after it": "s.send(answer('x'))\ns.send(flags=1)",
        "from a thread": "t = threading.Thread(target=lambda: s.send(answer('x'), flags=1))\n"
                         "t.start()\nt.join()",
        "after execute": "threading.Timer(0.05, lambda: s.send(answer('x'), flags=1)).start()",
    }
    for way, code in ways.items():
        if name == "raw":
            status, answer = post(server, "raw", "s = request.get_response_sender()\n" + code +
                                  "\nreturned = None")
            assert (status, json.loads(answer["outputs"][0]["data"][0])) == (200, "x"), way
    assert run_program(server, "await asyncio.sleep(0)\nreturn 3", name="async_lab") == 3


@pytest.mark.parametrize("second, text", [
    ("s.send(answer(2))", "Unable to send response. Non-decoupled model cannot send more than one "
                          "response."),
    ("s.send(flags=1)\ns.send(flags=1)", "Unable to send response. Response sender has been closed."),
])
def test_one_response_is_enough(server, second, text):
    """(13)"""
    post(server, "raw", f"""
s = request.get_response_sender()
s.send(answer(1))
try:
    {second.replace(chr(10), chr(10) + "    ")}
except pb_utils.TritonModelException as e:
    pb_utils.Logger.log_info("refused: " + str(e))
try:
    s.send(flags=1)
except pb_utils.TritonModelException:
    pass
""")
    server.wait_for_line("refused: " + re.escape(text))


def test_a_response_after_the_sender_answered(server):
    status, answer = post(server, "raw", "request.get_response_sender().send(answer('first'), flags=1)"
                          "\nreturned = [answer('second')]")
    assert (status, json.loads(answer["outputs"][0]["data"][0])) == (200, "first")
    server.wait_for_line("had answered")


@pytest.mark.parametrize("name", ["raw", "raw_decoupled"])
def test_a_sender_that_is_dropped(server, client, name):  # noqa: F811
    """(32)"""
    code = "request.get_response_sender()\nreturned = None"
    begin = time.monotonic()
    got = list(client.stream([client.request(name, [("CODE", "BYTES", [1])],
                                             [struct.pack("<I", len(code)) + code.encode()])]))
    assert [m.error_message for m in got][-1].endswith(
        "Response sender was released without a final response")
    assert time.monotonic() - begin < 20


def test_decoupled_models_return_none(server, client):  # noqa: F811
    code = "returned = []"
    got = list(client.stream([client.request("raw_decoupled", [("CODE", "BYTES", [1])],
                                             [struct.pack("<I", len(code)) + code.encode()])]))
    assert got[0].error_message.endswith(
        PREFIX % "raw_decoupled_0" + "Python model 'raw_decoupled_0' is using the decoupled mode and "
        "the execute function must return None.")


def test_an_exception_ends_open_senders(client):  # noqa: F811
    code = "self.s = request.get_response_sender()\nself.s.send(answer(1))\nraise ValueError('why')"
    got = list(client.stream([client.request("raw_decoupled", [("CODE", "BYTES", [1])],
                                             [struct.pack("<I", len(code)) + code.encode()])]))
    assert [bool(m.error_message) for m in got] == [False, True]
    assert "ValueError: why" in got[1].error_message


def test_a_sent_response_has_a_limit(server):
    """As the responses of an execution have: their record has offsets of 32 bits."""
    assert run_program(server, """
s = requests[0].get_response_sender()
try:
    s.send(pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", np.zeros((1 << 32) - 64, np.uint8))]), flags=1)
except pb_utils.TritonModelException as e:
    s.send(answer(str(e)), flags=1)
""", name="raw") == "a response is larger than 4 GiB"


# ---- decoupled and async -----------------------------------------------------------------------------


def stream(client, name, values):  # noqa: F811
    return client.stream([client.request(name, [("IN", "INT32", [len(values)])],
                                         [struct.pack(f"<{len(values)}i", *values)])])


def numbers(message):
    response = message.infer_response
    return [struct.unpack("<i", raw)[0] for raw in response.raw_output_contents]


@pytest.mark.parametrize("values", [[4, 2, 0, 1], [], list(range(1000))])
def test_repeat(client, values):  # noqa: F811
    """(4, 21)"""
    got = list(stream(client, "repeat", values))
    assert [m.error_message for m in got] == [""] * len(values)
    assert [numbers(m) for m in got] == [[v, i] for i, v in enumerate(values)]
    assert [m.infer_response.parameters["i"].int64_param for m in got] == list(range(len(values)))


def test_streams_have_the_outputs_asked_for(client):  # noqa: F811
    got = list(client.stream([client.request("repeat", [("IN", "INT32", [3])],
                                             [struct.pack("<3i", 7, 8, 9)], outputs=["IDX"])]))
    assert [[o.name for o in m.infer_response.outputs] for m in got] == [["IDX"]] * 3
    assert [numbers(m) for m in got] == [[0], [1], [2]]


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_square(client, n):  # noqa: F811
    """(5)"""
    assert [numbers(m) for m in stream(client, "square", [n])] == [[n]] * n


def test_more_responses_than_the_ring_holds_from_many_threads(client):  # noqa: F811
    """Threads that wait for room are all woken."""
    got = list(client.stream([client.request("repeat", [("IN", "INT32", [1000])],
                                             [struct.pack("<1000i", *range(1000))], id=str(i))
                              for i in range(8)]))
    seen = {}
    for message in got:
        seen.setdefault(message.infer_response.id, []).append(numbers(message)[0])
    assert seen == {str(i): list(range(1000)) for i in range(8)}


def test_streams_that_intermix(client):  # noqa: F811
    """(5)"""
    wanted = {str(n): n for n in (3, 50, 200, 7)}
    got = list(client.stream([client.request("square", [("IN", "INT32", [1])], [struct.pack("<i", n)],
                                             id=name) for name, n in wanted.items()]))
    by_id = {}
    for message in got:
        by_id.setdefault(message.infer_response.id, []).extend(numbers(message))
    assert by_id == {name: [n] * n for name, n in wanted.items()}


def test_coroutines_sleep_side_by_side(client):  # noqa: F811
    """(33) 64 requests that sleep 100 ms each: one after the other it would be 6.4 s."""
    begin = time.monotonic()
    got = list(client.stream([client.request("square", [("IN", "INT32", [1])],
                                             [struct.pack("<i", -100)]) for _ in range(64)]))
    assert got == [] and time.monotonic() - begin < 4


MEET = """
self.n_here = getattr(self, "n_here", 0) + 1
while self.n_here < %d:
    await asyncio.sleep(0.001)
return self.n_here
"""
MOST = """
self.n_now = getattr(self, "n_now", 0) + 1
self.most = max(getattr(self, "most", 0), self.n_now)
await asyncio.sleep(0.005)
self.n_now -= 1
return self.most
"""


def lab_at_once(server, code, name, n):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda i: run_program(server, code, name=name), range(n)))


def test_coroutines_overlap_as_far_as_is_asked_for(server):
    """(29) ASYNC_CONCURRENCY: each execution ends only when the others have begun; never more at once."""
    assert min(lab_at_once(server, MEET % 4, "async_4", 4)) >= 4
    assert max(lab_at_once(server, MOST, "async_4", 24)) <= 4
    assert max(lab_at_once(server, MOST, "async_lab", 8)) == 1


def test_batches_of_coroutines_overlap(server):
    """(29) With a batcher as well."""
    def ask(_):
        status, answer = infer(server, "async_batch", [
            {"name": "CODE", "datatype": "BYTES", "shape": [2, 1], "data": ["3", "3"]}])
        assert status == 200, answer
        return json.loads(answer["outputs"][0]["data"][0])

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert list(pool.map(ask, range(3))) == [[True, 1]] * 3


def test_overlapping_coroutines_fail_one_by_one(server):
    """(27, 29) An exception, a task that is cancelled, and a wrong result end their own execution."""
    codes = {"return 5": None, "raise ValueError('why')": None,
             "asyncio.current_task().cancel()\nawait asyncio.sleep(0)": "CancelledError: ",
             "return object()": "TypeError: Object of type object is not JSON serializable"}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda code: post(server, "async_4", code), codes))
    assert [status for status, _ in answers] == [200, 200, 500, 200]
    assert json.loads(answers[0][1]["outputs"][0]["data"][0]) == 5
    assert json.loads(answers[1][1]["outputs"][0]["data"][0]) == {"raised": ["ValueError", "why"]}
    assert answers[2][1]["error"].startswith(PREFIX % "async_4_0" + "CancelledError: <EMPTY MESSAGE>")
    assert run_program(server, "return 6", name="async_4") == 6


def test_a_crash_fails_all_that_overlaps(server):
    """(40) All that had begun is lost with the process, and nothing else."""
    begun = "pb_utils.Logger.log_info('begun: %s' % request.request_id())\nawait asyncio.sleep(60)"
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(post, server, "async_4", begun, id=f"lost {i}") for i in range(3)]
        for _ in tasks:
            server.wait_for_line("begun: lost")
        assert post(server, "async_4", "os._exit(3)")[0] == 500
        assert [task.result()[1]["error"] for task in tasks] == [
            "Stub process 'async_4_0' is not healthy."] * 3
    assert run_program(server, "return 7", name="async_4") == 7


def test_overlapping_coroutines_call_their_own_model(server):
    """(37) One instance serves the calls of its own executions, and the depth has its limit."""
    code = """
async def nested(code):
    r = await pb_utils.InferenceRequest(
        model_name="async_32", requested_output_names=["RESULT"],
        inputs=[pb_utils.Tensor("CODE", np.array([code.encode()], dtype=object))]).async_exec()
    return r.error().message() if r.has_error() else json.loads(r.output_tensors()[0].as_numpy()[0])
n = %d
own = code_of(request)
if n == 0:
    return "bottom"
head, tail = own.split("\\nn = ", 1)
return await nested(head + "\\nn = %%d\\n" %% (n - 1) + tail.split("\\n", 1)[1])
"""
    assert run_program(server, code % 16, name="async_32") == "bottom"
    assert run_program(server, code % 17, name="async_32").endswith("BLS calls are nested too deeply")


def test_concurrency_without_an_effect_is_logged(server):
    log = server.text()
    assert ("ASYNC_CONCURRENCY of model 'plain_4' has no effect: execute() is not a coroutine") in log
    assert ("ASYNC_CONCURRENCY of model 'decoupled_4' has no effect: executions of decoupled models "
            "overlap as it is") in log


def test_iterative_sequences(server):
    """(30)"""
    for n in (0, 3):
        status, answer = infer(server, "count_down", [
            {"name": "IN", "datatype": "INT32", "shape": [1, 1], "data": [n]}],
            parameters={"sequence_id": 1 + n, "sequence_start": True, "sequence_end": True})
        assert (status, answer["outputs"][0]["data"]) == (200, [0])


def test_iterative_sequences_that_clients_leave(server, client):  # noqa: F811
    """(30) execute() sees the end of those that are cancelled or idle, and can drop what it keeps."""
    inputs = [("IN", "INT32", [1, 1])]
    call = client.ModelInfer.future(client.request(
        "keeper", inputs, [struct.pack("<i", 1)],
        parameters={"sequence_id": 5, "sequence_start": True}), timeout=30)
    server.wait_for_line("5 0 False keeps 1")
    call.cancel()
    server.wait_for_line("5 2 True keeps 0")
    answer = client.ModelInfer(client.request(
        "keeper", inputs, [struct.pack("<i", 0)],
        parameters={"sequence_id": 6, "sequence_start": True}), timeout=30)
    assert struct.unpack("<i", answer.raw_output_contents[0]) == (1,)
    server.wait_for_line("6 2 True keeps 0")


def test_rescheduling_needs_iterative_sequences(server):
    """(30)"""
    status, answer = post(server, "raw", "request.set_release_flags(2)\nreturned = [None]")
    assert status == 400
    assert "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE" in answer["error"]
    server.wait_for_line("Failed to release request: ")


def test_cancellation_is_seen(server, client):  # noqa: F811
    """(31)"""
    code = ("begin = time.monotonic()\n"
            "pb_utils.Logger.log_info('begun to wait')\n"
            "while not request.is_cancelled() and time.monotonic() - begin < 20:\n    time.sleep(0.001)\n"
            "pb_utils.Logger.log_info('cancelled: %s %s' % (request.is_cancelled(),"
            " request.get_response_sender().is_cancelled()))\nreturned = [answer(0)]")
    call = client.ModelInfer.future(client.request(
        "raw", [("CODE", "BYTES", [1])], [struct.pack("<I", len(code)) + code.encode()]), timeout=30)
    server.wait_for_line("begun to wait")
    call.cancel()
    server.wait_for_line("cancelled: True True")


# ---- loading -----------------------------------------------------------------------------------------


def test_configuration_is_completed(server):
    """(6)"""
    config = requests.get(f"{server.url}/v2/models/auto/config", timeout=20).json()
    assert (config["max_batch_size"], config["dynamic_batching"]["preserve_ordering"]) == (3, False)
    assert [(t["name"], t["data_type"], t["dims"]) for t in config["input"] + config["output"]] == [
        ("X", "TYPE_FP32", [4]), ("Y", "TYPE_FP32", [4])]
    status, _ = infer(server, "auto", [{"name": "X", "datatype": "FP32", "shape": [1, 4],
                                        "data": [1, 2, 3, 4]}])
    assert status == 200


@pytest.mark.parametrize("name", ["one", "two"])
def test_helpers_of_the_same_name_stay_apart(server, name):
    """(53)"""
    status, answer = infer(server, f"helper_{name}", code_input(""))
    assert (status, answer["outputs"][0]["data"]) == (200, [name, name])


def test_statistics(server):
    run_program(server, "time.sleep(0.02)\nresult = 0")
    stats = requests.get(f"{server.url}/v2/models/lab/stats", timeout=20).json()["model_stats"][0]
    inference = stats["inference_stats"]
    assert inference["compute_infer"]["ns"] >= 20_000_000
    assert inference["success"]["count"] == stats["execution_count"] == stats["inference_count"]


assert IO
