# SPDX-License-Identifier: BSD-3-Clause
"""A client of another family: gRPC for Node (node/grpc_client.js), which has its own HTTP/2."""
import base64
import json
import shutil
import struct
import subprocess

import pytest
import requests

from conftest import ROOT
from gate import Gate, gated
from infer_ways import strings

BACKENDS = ("identity", "testing")
OPTIONS = ("--grpc-header-forward-pattern=^fail$", "--grpc-infer-response-compression-level=low",
           "--grpc-restricted-protocol=logging:admin=s3cret")
MODULES = ROOT / ".deps" / "node" / "node_modules"


def tensors(kind_of):
    return (f'input {{ name: "INPUT0" data_type: {kind_of} dims: [-1] }}\n'
            f'output {{ name: "OUTPUT0" data_type: {kind_of} dims: [-1] }}\n')


TESTING = 'backend: "testing"\n' + tensors("TYPE_FP32")
MODELS = {
    "simple": 'backend: "identity"\n' + tensors("TYPE_FP32"),
    "int64": 'backend: "identity"\n' + tensors("TYPE_INT64"),
    "bytes": 'backend: "identity"\n' + tensors("TYPE_STRING"),
    "testing": TESTING,
    "gated_deadline": gated(TESTING),
    "gated_cancel": gated(TESTING),
}
FINAL = {"triton_final_response": {"bool_param": True, "parameter_choice": "bool_param"}}


def fp32(*values):
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def start(server, *scenarios):
    return subprocess.Popen(
        ["node", ROOT / "tests" / "e2e" / "node" / "grpc_client.js", MODULES, ROOT / "proto",
         f"127.0.0.1:{server.port('grpc')}", *scenarios],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def finish(process):
    """Tells it to go on, in case it waits for that."""
    try:
        found, _ = process.communicate(b"go on\n", timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0
    return json.loads(found)


@pytest.fixture(scope="module", autouse=True)
def has_node():
    if shutil.which("node") is None or not (MODULES / "@grpc" / "grpc-js").is_dir():
        pytest.skip("gRPC for Node is not there: tools/setup.sh fetches it")


@pytest.fixture(scope="module")
def found(server, has_node):
    """Of all scenarios that need nobody at a gate."""
    return finish(start(server, "health", "metadata", "raw", "typed", "large", "compressed",
                        "errors", "headers", "stream", "stream_status", "stream_by_turns",
                        "stream_cancel", "many"))


def test_health(found):
    assert found["health"] == {
        "check": {"status": "SERVING"}, "live": {"live": True}, "ready": {"ready": True},
        "model": {"ready": True}, "nobody": {"ready": False}}


def test_metadata(server, found):
    """As HTTP has it; int64 are texts here."""
    assert found["metadata"]["server"] == requests.get(f"{server.url}/v2", timeout=20).json()
    shaped = {"datatype": "FP32", "shape": ["-1"]}
    assert found["metadata"]["model"] == {
        "name": "simple", "versions": ["1"], "platform": "identity",
        "inputs": [{"name": "INPUT0", **shaped}], "outputs": [{"name": "OUTPUT0", **shaped}]}
    config = found["metadata"]["config"]["config"]
    assert (config["name"], config["backend"], config["max_batch_size"]) == (
        "simple", "identity", 0)
    assert [(i["name"], i["data_type"], i["dims"]) for i in config["input"]] == [
        ("INPUT0", "TYPE_FP32", ["-1"])]
    assert [m["name"] for m in found["metadata"]["index"]["models"]] == sorted(MODELS)


def test_raw(found):
    assert found["raw"] == {
        "model_name": "simple", "model_version": "1", "id": "of node", "parameters": {},
        "outputs": [{"name": "OUTPUT0", "datatype": "FP32", "shape": ["3"], "parameters": {},
                     "contents": None}],
        "raw_output_contents": [fp32(1, -2.5, float("nan"))]}


def test_typed(found):
    raw = {name: base64.b64decode(reply["raw_output_contents"][0])
           for name, reply in found["typed"].items()}
    assert raw == {"fp32": struct.pack("<3f", 1, -2.5, 3.4028234663852886e38),
                   "int64": struct.pack("<3q", -1 << 63, (1 << 63) - 1, -1),
                   "bytes": strings([b"", b"a", "\u00e9".encode()])}


def test_large_and_compressed(found):
    assert found["large"] is True
    assert found["compressed"] == [True, True]


def test_errors(found):
    errors = found["errors"]
    assert errors["unknown"] == {"code": "NOT_FOUND",
                                 "details": "Request for unknown model: 'nobody' is not found"}
    assert errors["text"] == {"code": "UNAVAILABLE",
                              "details": "100 % gr\u00f6\u00dfer\n\u65e5\u672c"}
    assert [e["code"] for e in errors["codes"]] == [
        "UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARGUMENT", "UNAVAILABLE", "UNIMPLEMENTED",
        "ALREADY_EXISTS", "CANCELLED"]
    assert {e["details"] for e in errors["codes"]} == {"as asked"}
    assert errors["method"]["code"] == "UNIMPLEMENTED"


def test_headers(found):
    headers = found["headers"]
    assert headers["initial"]["content-type"] == "application/grpc"
    assert headers["status"] == "OK"
    assert headers["forwarded"] == {"code": "INTERNAL", "details": "by metadata"}
    assert headers["locked"] == {
        "code": "UNAVAILABLE", "details": "This protocol is restricted, expecting header "
                                          "'triton-grpc-protocol-admin'"}
    assert headers["unlocked"]["settings"]["log_verbose_level"] == {
        "uint32_param": 0, "parameter_choice": "uint32_param"}


def test_stream(found):
    messages, end = found["stream"]["messages"], found["stream"]["end"]
    assert end["code"] == "OK"
    assert [m["infer_response"]["id"] for m in messages] == [
        *map(str, range(100)), "refused", "failed", "last"]
    for number, message in enumerate(messages[:100]):
        assert message["error_message"] == ""
        assert message["infer_response"]["raw_output_contents"] == [fp32(number)]
        assert message["infer_response"]["parameters"] == FINAL
    assert [m["error_message"] for m in messages[100:]] == [
        "Request for unknown model: 'nobody' is not found", "as asked", ""]
    assert messages[100]["infer_response"]["parameters"] == {}
    assert messages[101]["infer_response"]["parameters"] == FINAL


def test_ends_of_a_stream(found):
    assert found["stream_status"]["end"] == {"code": "NOT_FOUND", "details": "as asked"}
    assert found["stream_status"]["messages"] == []
    turns = found["stream_by_turns"]
    assert turns["end"]["code"] == "OK"
    assert [m["infer_response"]["raw_output_contents"] for m in turns["messages"]] == [
        [fp32(n)] for n in range(50)]
    assert found["stream_cancel"]["end"]["code"] == "CANCELLED"
    assert len(found["stream_cancel"]["messages"]) == 1


def test_many_at_once(found):
    assert found["many"] == 500


@pytest.mark.parametrize("scenario,code", [("deadline", "DEADLINE_EXCEEDED"),
                                           ("cancel", "CANCELLED")])
def test_calls_that_end_early(server, scenario, code):
    """While the model executes."""
    with Gate(server, f"gated_{scenario}") as gate:
        process = start(server, scenario)
        gate.wait()
        assert finish(process)[scenario]["code"] == code
        gate.open()
        reply = requests.post(f"{server.url}/v2/models/simple/infer", timeout=20, json={
            "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [4]}]})
        assert reply.json()["outputs"][0]["data"] == [4.0]
