# SPDX-License-Identifier: BSD-3-Clause
"""Composite models of ONNX files, one per batch size."""
import numpy
import pytest
import requests

from conftest import Server, require_build, write_repository
from models import opens_server, wait_until

onnx = pytest.importorskip("onnx")

CONFIG = """\
backend: "onnxruntime"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: 3 }
output { name: "Y" data_type: TYPE_FP32 dims: 3 }
instance_group [ { name: "b1" count: 1 }, { name: "b4" count: 1 }, { name: "b8" count: 1 } ]
parameters { key: "member_files"
             value { string_value: "b1:m1.onnx,b4:m4.onnx,b8:m8.onnx" } }
"""


def onnx_file(rows, adds=0.0):
    """Y = X + 100 * rows + adds: the answer tells the member."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    value = helper.make_tensor("c", kind, [1], [100.0 * rows + adds])
    graph = helper.make_graph(
        [helper.make_node("Add", ["X", "c"], ["Y"])], "m",
        [helper.make_tensor_value_info("X", kind, [rows, 3])],
        [helper.make_tensor_value_info("Y", kind, [rows, 3])], [value])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString()


def model(config=CONFIG, sizes=(1, 4, 8)):
    return {"config.pbtxt": config, **{f"1/m{n}.onnx": onnx_file(n) for n in sizes}}


def infer(server, rows):
    values = numpy.arange(rows * 3, dtype="f4")
    asked = {"inputs": [{"name": "X", "shape": [rows, 3], "datatype": "FP32",
                         "data": values.tolist()}]}
    reply = requests.post(f"{server.url}/v2/models/m/infer", json=asked, timeout=60)
    assert reply.status_code == 200, reply.text
    output = reply.json()["outputs"][0]
    assert output["shape"] == [rows, 3]
    added = numpy.array(output["data"], dtype="f4") - values
    return (added.reshape(rows, 3)[:, 0] / 100).tolist()


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(("onnxruntime",))


def test_each_size_runs_its_file(tmp_path):
    """The ranges are those of the files; a request of five rows is run as four and one."""
    with opens_server(tmp_path / "models", {"m": model()}) as server:
        for rows, members in ((1, [1]), (4, [4] * 4), (8, [8] * 8), (5, [1, 4, 4, 4, 4])):
            wait_until(lambda n=rows, reported=members: sorted(infer(server, n)) == reported)
        for _ in range(20):
            assert len(infer(server, 7)) == 7


def test_the_configuration_may_not_widen_what_a_file_takes(tmp_path):
    config = CONFIG + ('parameters { key: "batch_ranges" value { string_value: '
                       '"b1:1-1,b4:2-4,b8:8-8" } }\n')
    write_repository(tmp_path, {"m": model(config)})
    server = Server(tmp_path, ("--exit-on-error=false",))
    try:
        assert ("batch range 2-4 of instance group 'b4' of model m is wider than its backend's, 4-4"
                in server.text())
    finally:
        assert server.stop() == 0


def test_a_size_that_nobody_takes(tmp_path):
    config = CONFIG.replace('{ name: "b1" count: 1 }, ', "").replace("b1:m1.onnx,", "")
    write_repository(tmp_path, {"m": model(config, (4, 8))})
    server = Server(tmp_path, ("--exit-on-error=false",))
    try:
        assert "cannot serve batch size 1 (smallest member minimum is 4)" in server.text()
    finally:
        assert server.stop() == 0


def test_a_member_file_that_is_not_there(tmp_path):
    write_repository(tmp_path, {"m": model(sizes=(1, 4))})
    server = Server(tmp_path, ("--exit-on-error=false",))
    try:
        assert "unable to find '1/m8.onnx' for model 'm'" in server.text()
    finally:
        assert server.stop() == 0
