# SPDX-License-Identifier: BSD-3-Clause
"""Waits of a Python model for calls of other models: they end when the client leaves, and what could never end
is refused."""
import concurrent.futures
import contextlib
import http.client
import json

import pytest

from python_programs import ASYNC_RUNNER, RUNNER, OPTIONS as PYTHON, run_program, model
from test_python_bls import ALL_WAIT, HELP as ASK_HELP, ONE, PREFIX, SLOW, TWO, ensemble_of
from test_python_processes import wait_until

TAKES_SECONDS = 15
BACKENDS = ("python",)

OVERLAP = 'parameters { key: "ASYNC_CONCURRENCY" value { string_value: "2" } }\n'
BATCH = """max_batch_size: 2
dynamic_batching { preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 10000000 }
"""
# All requests of a batch are one execution: the first one's program runs.
BATCH_LAB = RUNNER.replace("return [self.run(request, requests) for request in requests]",
                        "return [self.run(requests[0], requests)] * len(requests)")
SLOW_IO = ('input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }\n'
           'output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }\n')
MODELS = {
    "caller": model(RUNNER, ONE), "two": model(RUNNER, TWO), "other": model(RUNNER, ONE),
    "async_caller": model(ASYNC_RUNNER, ONE), "async_two": model(ASYNC_RUNNER, TWO),
    "overlap": model(ASYNC_RUNNER, ONE + OVERLAP), "batch": model(BATCH_LAB, ONE + BATCH),
    **{name: model(RUNNER, ONE) for name in ("stubborn", "middle", "log")},
    "round": ensemble_of("async_caller"), "round_caller": ensemble_of("caller"),
    "round_two": ensemble_of("async_two"), "round_overlap": ensemble_of("overlap"),
    "round_stubborn": ensemble_of("stubborn"),
    "slow": model(SLOW, "model_transaction_policy { decoupled: true }\n", SLOW_IO),
}
OPTIONS = (*PYTHON, "--disable-auto-complete-config")
HELP = ASK_HELP + """
def ys(response, ys=ys):
    return [value.decode() if isinstance(value, bytes) else value for value in ys(response)]
"""


# ---- clients that leave ------------------------------------------------------------------------------


@contextlib.contextmanager
def stubborn(tmp_path):
    """A program that runs until the end of the block, whatever happens to its client, and whether it has
    begun. Its answer is 9."""
    begun, end = tmp_path / "begun", tmp_path / "end"
    program = (f"open({str(begun)!r}, 'w').close()\nwhile not os.path.exists({str(end)!r}):\n"
               "    time.sleep(0.002)\nresult = 9")
    try:
        yield program, begun.exists
    finally:
        end.touch()


class Client:
    """A request whose answer is not waited for."""

    def __init__(self, server, name, code, batch=False):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)
        self.connection.request("POST", f"/v2/models/{name}/infer", json.dumps({"inputs": [
            {"name": "CODE", "shape": [1, 1] if batch else [1], "datatype": "BYTES", "data": [code]}]}))

    def leave(self):
        self.connection.close()

    def answer(self):
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


SAY = "pb_utils.Logger.log_info('the caller got: %s' % ({},))\n"
ASK = "ask({!r}, {{'CODE': np.array([{!r}.encode()], dtype=object)}}, ['RESULT'])"
# What a caller does -> the model that does it, and the program.
WAYS = {
    "exec": ("caller", SAY.format("ys({ask}.exec())")),
    "stream": ("caller", SAY.format("[ys(r) for r in {ask}.exec(decoupled=True)]")),
    "asyncio.run": ("caller", "async def main():\n    return ys(await {ask}.async_exec())\n"
                    + SAY.format("asyncio.run(main())")),
    "async_exec": ("async_caller", SAY.format("ys(await {ask}.async_exec())")),
    "exec in a coroutine": ("async_caller", SAY.format("ys({ask}.exec())")),
    "async stream": ("async_caller", SAY.format("[ys(r) for r in await {ask}.async_exec(decoupled=True)]")),
    "gather": ("async_caller",
               SAY.format("[ys(r) for r in await asyncio.gather({ask}.async_exec(), {ask}.async_exec())]")),
    "overlap": ("overlap", SAY.format("ys(await {ask}.async_exec())")),
}


@pytest.mark.parametrize("callee", ["stubborn", "round_stubborn"])
@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_leaves_ends_the_wait(server, tmp_path, way, callee):
    """At once, although the called model goes on; then the instance serves others."""
    name, program = WAYS[way]
    with stubborn(tmp_path) as (code, has_begun):
        client = Client(server, name, HELP + program.format(ask=ASK.format(callee, code)))
        wait_until(has_begun)
        at = len(server.text())
        client.leave()
        wait_until(lambda: "the caller got: " in server.text()[at:])
        line = server.text()[at:].split("the caller got: ", 1)[1].split("\n", 1)[0]
        assert line.count("[7, 'the requests that are executed were cancelled']") == (
            2 if way == "gather" else 1)
        for n in range(3):
            assert run_program(server, ("return %d" if name != "caller" else "result = %d") % n, name=name) == n
    assert run_program(server, "result = 3", name="stubborn") == 3


def test_a_call_that_waits_in_a_queue(server, tmp_path):
    with stubborn(tmp_path) as (code, has_begun):
        first = Client(server, "stubborn", code)
        wait_until(has_begun)
        client = Client(server, "caller", HELP + SAY.format(
            "ys(%s.exec())" % ASK.format("stubborn", "result = 1")))
        wait_until(lambda: run_program(server, """
import urllib.request
result = 'nv_inference_pending_request_count{model="stubborn",version="1"} 1' in (
    urllib.request.urlopen("http://127.0.0.1:%d/metrics").read().decode())
""" % server.port("metrics"), name="log"))
        at = len(server.text())
        client.leave()
        wait_until(lambda: "the caller got: [7, " in server.text()[at:])
        assert run_program(server, "result = 5", name="caller") == 5
    assert first.answer()[0] == 200


def test_calls_of_calls(server, tmp_path):
    """Each model between the client and the one that goes on is free again."""
    with stubborn(tmp_path) as (code, has_begun):
        inner = HELP + SAY.format("ys(%s.exec())" % ASK.format("stubborn", code))
        client = Client(server, "caller", HELP + SAY.format("ys(%s.exec())" % ASK.format("middle", inner)))
        wait_until(has_begun)
        at = len(server.text())
        client.leave()
        wait_until(lambda: server.text()[at:].count("the caller got: [7, ") == 2)
        assert run_program(server, "result = 5", name="caller") == 5
        assert run_program(server, "result = 6", name="middle") == 6


def test_a_batch_waits_for_its_last_client(server, tmp_path):
    with stubborn(tmp_path) as (code, has_begun):
        program = HELP + SAY.format("ys(%s.exec())" % ASK.format("stubborn", code))
        clients = [Client(server, "batch", program, batch=True) for _ in range(2)]
        wait_until(has_begun)
        at = len(server.text())
        clients[0].leave()
        # The server has noticed when a later request of the same loop has been answered.
        assert run_program(server, "result = 1", name="log") == 1
        assert "the caller got: " not in server.text()[at:]
        clients[1].leave()
        wait_until(lambda: "the caller got: [7, " in server.text()[at:])


def test_a_batch_whose_client_stays(server, tmp_path):
    with stubborn(tmp_path) as (code, has_begun):
        program = HELP + "result = ys(%s.exec())" % ASK.format("stubborn", code)
        clients = [Client(server, "batch", program, batch=True) for _ in range(2)]
        wait_until(has_begun)
        clients[0].leave()
    status, answer = clients[1].answer()
    assert status == 200, answer
    assert json.loads(answer["outputs"][0]["data"][0]) == ["9"]


def test_calls_of_other_threads_go_on(server, tmp_path):
    """On whose behalf they are made is not known."""
    with stubborn(tmp_path) as (code, has_begun):
        program = HELP + f"""
def run():
    {SAY.format("ys(%s.exec())" % ASK.format("stubborn", code))}
self.thread = threading.Thread(target=run)
self.thread.start()
self.thread.join()
"""
        client = Client(server, "caller", program)
        wait_until(has_begun)
        at = len(server.text())
        client.leave()
        assert run_program(server, "result = 1", name="log") == 1
        assert "the caller got: " not in server.text()[at:]
    wait_until(lambda: "the caller got: ['9']" in server.text()[at:])


def test_a_call_after_the_client_has_left(server, tmp_path):
    """It is refused, and the called model does not run."""
    with stubborn(tmp_path) as (code, has_begun):
        program = HELP + code + """
while not request.is_cancelled():
    time.sleep(0.002)
""" + SAY.format("ys(%s.exec())" % ASK.format("log", "pb_utils.Logger.log_info('it runs')"))
        client = Client(server, "caller", program)
        wait_until(has_begun)
        at = len(server.text())
        client.leave()
    wait_until(lambda: "the caller got: [7, " in server.text()[at:])
    assert run_program(server, "result = 1", name="log") == 1
    assert "it runs" not in server.text()[at:]


def test_memory_of_calls_that_were_left(server, tmp_path):
    """The called model reads its inputs to the end, and they are freed afterwards."""
    code = """
data = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy().reshape(-1)[0]
%s
result = len(set(data[-4000000:]))
pb_utils.Logger.log_info("still the same: %%d" %% result)
"""
    for n in range(6):
        (tmp_path / str(n)).mkdir()
        with stubborn(tmp_path / str(n)) as (wait, has_begun):
            inner = "%r.encode() + b'#' * 4000000" % (code % wait)
            client = Client(server, "caller", HELP + "ask('stubborn', {'CODE': np.array([%s], dtype=object)}, "
                            "['RESULT']).exec()" % inner)
            wait_until(has_begun)
            at = len(server.text())
            client.leave()
            # Other blocks would be written over the inputs.
            assert run_program(server, HELP + "result = len(ys(%s.exec())[0])" % ASK.format(
                "other", "result = 'y' * 5000000"), name="caller") == 5000002
        wait_until(lambda: "still the same: 1" in server.text()[at:])
    assert run_program(server, """
with open("/proc/self/maps") as file:
    lines = [line.split() for line in file if "neso_python" in line]
result = sum(int(line[0].split("-")[1], 16) - int(line[0].split("-")[0], 16) for line in lines)
""", name="caller") < 100 << 20


def test_a_future_that_is_cancelled(server):
    """Cancelling a future of async_exec() cancels the call, as a time limit of asyncio does."""
    at = len(server.text())
    assert run_program(server, HELP + """
call = ask("slow", {"IN": np.ones(1, np.int32)}, ["OUT"]).async_exec(decoupled=True)
it = await call
other = asyncio.ensure_future(%s.async_exec())
await asyncio.sleep(0)
other.cancel()
it.cancel()
try:
    await asyncio.wait_for(%s.async_exec(), 0.05)
except asyncio.TimeoutError:
    return [other.cancelled(), "too late"]
""" % (ASK.format("log", "result = 1"), ASK.format("stubborn", "time.sleep(0.3)\nresult = request.is_cancelled()\n"
                                                           "pb_utils.Logger.log_info('cancelled: %s' % result)")),
                       name="async_caller") == [True, "too late"]
    wait_until(lambda: "cancelled: True" in server.text()[at:])


# ---- waits that would never end ----------------------------------------------------------------------


def call_of(name):
    return ASK.format(name, "result = 5" if name in ("caller", "round_caller") else "return 5")


CYCLES = {
    "await": "return ys(await {ask}.async_exec())",
    "gather": "return [ys(r) for r in await asyncio.gather({ask}.async_exec(), {other}.async_exec())][0]",
    "a task": "async def call():\n    return ys(await {ask}.async_exec())\n"
              "return await asyncio.create_task(call())",
    "later": "future = {ask}.async_exec()\nawait asyncio.sleep(0.05)\nreturn ys(await future)",
    "a gather later": "both = asyncio.gather({ask}.async_exec(), {other}.async_exec())\n"
                      "await asyncio.sleep(0.05)\nreturn [ys(r) for r in await both][0]",
    "after another one": "future = {ask}.async_exec()\nawait {other}.async_exec()\nreturn ys(await future)",
    "stream": "return [ys(r) for r in {ask}.exec(decoupled=True)][0]",
    "async stream": "return [ys(r) for r in await {ask}.async_exec(decoupled=True)][0]",
    "exec": "return ys({ask}.exec())",
}


@pytest.mark.parametrize("callee", ["async_caller", "round"])
@pytest.mark.parametrize("way", CYCLES)
def test_a_coroutine_that_waits_for_itself(server, way, callee):
    program = CYCLES[way].format(ask=call_of(callee), other=ASK.format("log", "result = 1"))
    result = run_program(server, HELP + program, name="async_caller")
    text = PREFIX % callee + ALL_WAIT
    assert result == [1, text if callee == "async_caller" else text + ": async_caller -> round -> async_caller"]
    assert run_program(server, "return 7", name="async_caller") == 7


@pytest.mark.parametrize("program", [
    "result = [ys(r) for r in {ask}.exec(decoupled=True)][0]",
    "it = {ask}.exec(decoupled=True)\ntime.sleep(0.05)\nresult = ys(next(it))",
    "async def main():\n    return ys(await {ask}.async_exec())\nresult = asyncio.run(main())",
    "async def main():\n    return await asyncio.gather({ask}.async_exec(), {other}.async_exec())\n"
    "result = ys(asyncio.run(main())[0])",
])
def test_an_execution_that_waits_for_itself(server, program):
    program = program.format(ask=call_of("round_caller"), other=ASK.format("log", "result = 1"))
    assert run_program(server, HELP + program, name="caller") == [
        1, PREFIX % "round_caller" + ALL_WAIT + ": caller -> round_caller -> caller"]
    assert run_program(server, "result = 7", name="caller") == 7


def test_a_circle_through_both_kinds(server):
    """The coroutine's call could be served when it began: the circle is closed by the model that it called."""
    outer = HELP + "return ys(await %s.async_exec())"
    inner = HELP + "result = ys(%s.exec())" % call_of("round")
    result = run_program(server, outer % ASK.format("other", inner), name="async_caller")
    assert ALL_WAIT in json.dumps(result)
    assert run_program(server, "return 7", name="async_caller") == 7
    assert run_program(server, "result = 7", name="other") == 7


def test_what_is_not_awaited_runs_later(server):
    """A call of the model's only instance that the execution does not wait for."""
    at = len(server.text())
    inner = "pb_utils.Logger.log_info('it runs later')\nreturn 1"
    assert run_program(server, HELP + "self.kept['call'] = %s.async_exec()\nreturn 2" % ASK.format(
        "round", inner), name="async_caller") == 2
    wait_until(lambda: "it runs later" in server.text()[at:])
    at = len(server.text())
    inner = inner.replace("return 1", "result = 1")
    assert run_program(server, HELP + "self.kept['call'] = %s.exec(decoupled=True)\nresult = 2" % ASK.format(
        "caller", inner), name="caller") == 2
    wait_until(lambda: "it runs later" in server.text()[at:])
    assert run_program(server, HELP + "result = [ys(r) for r in self.kept.pop('call')]", name="caller") == [["1"]]


def test_a_wait_with_a_time_limit_is_not_refused(server):
    """It ends by itself."""
    assert run_program(server, HELP + f"""
try:
    return ys(await asyncio.wait_for({call_of("round")}.async_exec(), 0.2))
except asyncio.TimeoutError:
    return "too late"
""", name="async_caller") == "too late"
    assert run_program(server, "return 7", name="async_caller") == 7


def test_two_coroutines_that_wait_for_each_other(server, tmp_path):
    """One call is refused, so that the other one is served."""
    meet = f"""
open({str(tmp_path)!r} + "/" + request.request_id(), "w").close()
while len(os.listdir({str(tmp_path)!r})) < 2:
    await asyncio.sleep(0.001)
"""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = sorted(map(str, pool.map(
            lambda name: run_program(server,
                                     HELP + meet + "return ys(await %s.async_exec())[-1]" % call_of("round_two"),
                                     name="async_two", id=name), "ab")))
    assert answers == ["5", PREFIX % "round_two" + ALL_WAIT + ": async_two -> round_two -> async_two"]


def test_executions_that_overlap(server):
    """Two of them wait for the third, and that one is refused what would need a fourth."""
    def nest(n):
        return HELP + "return ys(await %s.async_exec())[-1]" % ASK.format(
            "round_overlap", nest(n - 1)) if n else "return 5"

    assert run_program(server, nest(1), name="overlap") == "5"
    assert ALL_WAIT in json.dumps(run_program(server, nest(2), name="overlap"))
    stream = HELP + "return [ys(r)[-1] for r in %s.exec(decoupled=True)]" % call_of("round_overlap")
    assert ALL_WAIT in json.dumps(run_program(server, stream, name="overlap"))  # the thread of the event loop waits
    assert run_program(server, nest(1), name="overlap") == "5"


def test_many_calls_of_a_busy_model(server):
    """Nothing is refused that can be served."""
    program = HELP + "return len([ys(r) for r in await asyncio.gather(*[%s.async_exec() for _ in range(100)])])"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: run_program(server, program % ASK.format("other", "result = 1"),
                                                   name="async_two"), range(8))) == [100] * 8
