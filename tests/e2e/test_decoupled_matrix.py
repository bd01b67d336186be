# SPDX-License-Identifier: BSD-3-Clause
"""What decoupled models may do, each over every protocol: any number of responses, from any thread,
before and after the release of the request, in any order across requests, failures among them,
and clients that give up.

A case is a list of steps; a is the letter of a request, SCRIPT what the backend is to do
(scripted_backend.c):

    a=SCRIPT  submits the request
    a?        its next response is the one that the script says
    a.        that was the last one
    a-        the client gives up

Steps come one after the other: what has been read was there before what follows was submitted.
Each case has a model of its own over each protocol, so its statistics are exact.
"""
import json
import re
import struct
import subprocess

import pytest
import requests

from conftest import BUILD, Server, is_sanitized, patience, require_build, write_repository
from grpc_stubs import client, plain, stubs  # noqa: F401
from models import wait_until
from test_generate import DATA, read_chunk, read_head
from test_grpc_stream import Requests
from wire import Wire, request

READER = BUILD / "tests" / "e2e" / "decoupled_reader"
SCRIPTED = BUILD / "tests" / "e2e" / "libtriton_scripted.so"
SECONDS = patience(60)

CONFIG = ('backend: "scripted"\nmodel_transaction_policy { decoupled: true }\n'
          'input { name: "IN" data_type: TYPE_INT32 dims: 1 }\n'
          'output { name: "OUT" data_type: TYPE_INT32 dims: 1 }\n'
          'instance_group { count: 1 kind: KIND_CPU }\n')

ERROR = "as the script says"  # UNAVAILABLE

STEP = re.compile(r"(\d*)([rfeERtcg]|[sw][A-Z])")


def answers(script):
    """What the script says: (number or ERROR, whether it is the final one). Of those without an
    end, more than a case reads."""
    said = []
    for times, step in STEP.findall(script):
        for _ in range(10 if step == "g" else int(times or 1)):
            if step in "rgfeE":
                said.append((ERROR if step in "eE" else len(said), step in "fE"))
    return said


def whole(script):
    """One request from the beginning to the end."""
    return [f"a={script}", *["a?"] * len(answers(script)), "a."]


CASES = {}
for n in (0, 1, 3, 1000):
    CASES[f"{n} within the execution"] = whole(f"{n}r")
    CASES[f"{n} from another thread"] = whole(f"t{n}r")
    CASES[f"{n} after the release"] = whole(f"Rt{n}r")
    if n > 0:
        CASES[f"{n} with the final flag"] = whole(f"Rt{n - 1}rf")
CASES.update({
    "a thread for each": whole("trRtrtr"),
    "release among them": whole("rtrRr"),
    "final before the release": whole("trrfR"),

    "an error at first": whole("Rterr"),
    "an error in the middle": whole("Rtrer"),
    "an error within the execution": whole("rer"),
    "an error before the release": whole("trerR"),
    "an error at last": whole("Rtrre"),
    "an error with the final flag": whole("RtrrE"),
    "an error alone": whole("Rte"),
    "errors alone": whole("Rt3e"),
    "an error of two requests": ["a=RtrwAer", "a?", "b=RteEsA", "b?", "b?", "b.", "a?", "a?", "a."],

    # An event that is set after the final flag comes after all of its request.
    "the second request first": ["a=RtwAr", "b=RtfsA", "b?", "b.", "a?", "a."],
    "three requests backwards": ["a=RtwAr", "b=RtwBfsA", "c=RtfsB", "c?", "c.", "b?", "b.", "a?",
                                 "a."],
    "in turns": ["a=RtrsAwBfsC", "b=RtwArsBwCf", "a?", "b?", "a?", "a.", "b?", "b."],
    "in turns before the release": ["a=trsAwBfsC", "b=twArsBwCf", "a?", "b?", "a?", "a.", "b?",
                                    "b."],
    "none between others": ["a=RtrwAr", "a?", "b=Rt", "b.", "c=RtfsA", "c?", "c.", "a?", "a."],
    # The second response comes when the first one has been read.
    "each as it is made": ["a=RtrwAr", "a?", "b=RtfsA", "b?", "b.", "a?", "a."],

    # The witness answers when the backend has seen the end of its client.
    "cancelled after three": ["a=Rt3rcsZ", "a?", "a?", "a?", "a-", "b=RtwZr", "b?", "b."],
    "cancelled before the release": ["a=trcsZ", "a?", "a-", "b=RtwZr", "b?", "b."],
    "cancelled within the execution": ["a=rcsZ", "a?", "a-", "b=wZr", "b?", "b."],
    "cancelled after an error": ["a=RtrecsZ", "a?", "a?", "a-", "b=RtwZr", "b?", "b."],
    "cancelled before the first": ["a=RtsPcsZ", "p=RtwPr", "p?", "p.", "a-", "b=RtwZr", "b?", "b."],
    "cancelled while responding": ["a=RtgsZ", "a?", "a?", "a?", "a-", "b=RtwZr", "b?", "b."],
    "cancelled while responding within the execution": ["a=gsZ", "a?", "a-", "b=wZr", "b?", "b."],
})


def is_cancelled(steps):
    return any(step.endswith("-") for step in steps)


def starts(steps):
    return {step[0]: step[2:] for step in steps if step[1] == "="}


# ---- protocols ----------------------------------------------------------------------------------


class Grpc:
    """ModelStreamInfer: one stream for all requests; one for each where one is cancelled. Requests
    that have something to say at the same time take turns, so only each one's order is certain."""

    FINALS = {}  # parameters

    def __init__(self, _server, a_client, model, steps):
        self.client, self.model = a_client, model
        self.is_shared = not is_cancelled(steps)
        self.feeds, self.streams, self.was_final = {}, {}, {}
        self.early = {}  # messages of a request that came while another one's were waited for

    def start(self, name, script):
        line = "all" if self.is_shared else name
        if line not in self.feeds:
            self.feeds[line] = Requests()
            self.streams[line] = self.client.stream(self.feeds[line])
        self.streams[name] = self.streams[line]
        self.feeds[line].send(self.client.request(
            self.model, [("IN", "INT32", [1])], [struct.pack("<i", 0)], id=name,
            parameters={"script": script, **self.FINALS}))

    def read(self, name):
        while not self.early.get(name):
            message = next(self.streams[name])
            self.early.setdefault(message.infer_response.id, []).append(message)
        return self.early[name].pop(0)

    def expect(self, name, value, is_final):
        message = self.read(name)
        response = message.infer_response
        assert (response.id, response.model_name) == (name, self.model)
        assert plain(response.parameters) == {"triton_final_response": is_final}
        if value == ERROR:
            assert message.error_message == ERROR
            assert response.model_version == "" and len(response.outputs) == 0
        else:
            assert message.error_message == "" and response.model_version == "1"
            assert [(o.name, o.datatype, list(o.shape)) for o in response.outputs] == [
                ("OUT", "INT32", [1])]
            assert struct.unpack("<i", response.raw_output_contents[0]) == (value,)
        self.was_final[name] = is_final

    def expect_end(self, name):
        """Nothing tells of it: see finish()."""

    def cancel(self, name):
        self.streams[name].cancel()
        del self.feeds[name]

    def finish(self):
        for line, feed in self.feeds.items():
            feed.close()
            assert list(self.streams[line]) == []
        assert not any(self.early.values())


class GrpcFinals(Grpc):
    """The same for clients that want to be told of each end."""

    FINALS = {"triton_enable_empty_final_response": True}

    def expect_end(self, name):
        if not self.was_final.get(name):
            message = self.read(name)
            expected = self.client.pb.ModelInferResponse(id=name, model_name=self.model)
            expected.parameters["triton_final_response"].bool_param = True
            assert message == self.client.pb.ModelStreamInferResponse(infer_response=expected)


class Http:
    """generate_stream: a connection for each request."""

    def __init__(self, server, _client, model, _steps):
        self.server, self.model = server, model
        self.wires, self.streams = {}, {}

    def start(self, name, script):
        self.wires[name] = Wire(self.server.http_port, seconds=SECONDS)
        self.wires[name].send(request(
            "POST", f"/v2/models/{self.model}/generate_stream",
            json.dumps({"IN": 0, "id": name, "script": script}).encode()))

    def read(self, name, first):
        """The next chunk; the status tells of the first response, or of none."""
        if name not in self.streams:
            self.streams[name] = self.wires[name].socket.makefile("rb")
            status, headers = read_head(self.streams[name])
            assert status == (503 if first == ERROR else 200)
            assert headers["content-type"] == "text/event-stream; charset=utf-8"
        return read_chunk(self.streams[name])

    def expect(self, name, value, _is_final):
        event = self.read(name, value).decode()
        assert event.startswith(DATA) and event.endswith("\n\n")
        assert json.loads(event[len(DATA):]) == ({"error": ERROR} if value == ERROR else {
            "OUT": value, "id": name, "model_name": self.model, "model_version": "1"})

    def expect_end(self, name):
        assert self.read(name, None) is None

    def cancel(self, name):
        if name in self.streams:
            self.streams.pop(name).close()
        self.wires.pop(name).socket.close()

    def finish(self):
        """The connections are good for another request."""
        for wire in self.wires.values():
            wire.send(request("GET", "/v2/health/live"))
            assert wire.read_answer().status == 200
            wire.socket.close()


def run(protocol, steps):
    said = {name: iter(answers(script)) for name, script in starts(steps).items()}
    for name, kind, rest in ((step[0], step[1], step[2:]) for step in steps):
        if kind == "=":
            protocol.start(name, rest)
        elif kind == "?":
            protocol.expect(name, *next(said[name]))
        elif kind == ".":
            assert next(said[name], None) is None, f"the case does not read all of {name}"
            protocol.expect_end(name)
        else:
            protocol.cancel(name)
    protocol.finish()


# ---- what was counted ---------------------------------------------------------------------------


def check_statistics(stats, steps):
    assert stats["inference_stats"]["success"]["count"] == len(starts(steps))
    found = stats["response_stats"]
    assert all(r["empty_response"]["count"] == 0 for r in found.values())
    if any("g" in script for script in starts(steps).values()):
        return  # how many there were is the backend's and the client's race
    cancelled = [index for index, r in found.items() if r["cancel"]["count"] > 0]
    assert len(cancelled) == is_cancelled(steps)
    if cancelled:
        script = starts(steps)["a"]
        assert cancelled == [str(len(answers(script)))] and found[cancelled[0]]["cancel"]["count"] == 1
    expected = {}
    for script in starts(steps).values():
        for index, (value, _) in enumerate(answers(script)):
            counts = expected.setdefault(str(index), {"success": 0, "fail": 0})
            counts["fail" if value == ERROR else "success"] += 1
    assert {index: {kind: r[kind]["count"] for kind in ("success", "fail")}
            for index, r in found.items() if index not in cancelled} == {
                index: counts for index, counts in expected.items() if index not in cancelled}


# ---- the matrix ---------------------------------------------------------------------------------

PROTOCOLS = {"grpc": Grpc, "grpc_finals": GrpcFinals, "http": Http}


def model_name(protocol, case):
    return f"{protocol}_{case.replace(' ', '_')}"


@pytest.fixture(scope="module")
def backends(tmp_path_factory):
    require_build([])
    if not SCRIPTED.exists():
        pytest.skip(f"{SCRIPTED} is not built")
    folder = tmp_path_factory.mktemp("backends")
    (folder / "scripted").mkdir()
    (folder / "scripted" / SCRIPTED.name).symlink_to(SCRIPTED)
    return folder


@pytest.fixture(scope="module")
def server(backends, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    write_repository(repository, {model_name(protocol, case): CONFIG
                                  for protocol in PROTOCOLS for case in CASES})
    running = Server(repository, [f"--backend-directory={backends}"])
    yield running
    code = running.stop()
    assert code == 0, f"exit code {code}:\n{running.text()}"
    # Of the backend: a script that failed, an end that was sent twice.
    assert "failed" not in running.text(), running.text()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_over_the_network(server, client, protocol, case):  # noqa: F811
    model = model_name(protocol, case)
    run(PROTOCOLS[protocol](server, client, model, CASES[case]), CASES[case])
    # A request that its client cancelled is counted when the backend releases it.
    wait_until(lambda: sum(statistics(server, model)["inference_stats"][kind]["count"]
                           for kind in ("success", "fail")) == len(starts(CASES[case])))
    check_statistics(statistics(server, model), CASES[case])


def statistics(server, model):
    reply = requests.get(f"{server.url}/v2/models/{model}/stats", timeout=SECONDS)
    return reply.json()["model_stats"][0]


def lines_of(steps):
    """What decoupled_reader prints of them; see there."""
    said = {name: iter(answers(script)) for name, script in starts(steps).items()}
    was_final = {}
    for name, kind in ((step[0], step[1]) for step in steps):
        if kind == "?":
            value, is_final = next(said[name])
            was_final[name] = is_final
            value = f"Unavailable: {ERROR}" if value == ERROR else value
            yield f"{name} {value} {int(is_final)}"
        elif kind == ".":
            yield f"{name}. {'-' if was_final.get(name) else 1}"


@pytest.mark.parametrize("case", CASES)
def test_in_process(backends, tmp_path, case):
    steps = CASES[case]
    write_repository(tmp_path, {"scripted": CONFIG})
    ended = subprocess.run([READER, tmp_path, backends, "scripted", *steps], capture_output=True,
                           text=True, check=False, timeout=SECONDS)
    assert ended.returncode == 0, ended.stderr
    assert "failed" not in ended.stderr
    *lines, stats = ended.stdout.splitlines()
    assert lines == list(lines_of(steps))
    check_statistics(json.loads(stats)["model_stats"][0], steps)
