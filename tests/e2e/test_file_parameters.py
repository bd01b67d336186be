# SPDX-License-Identifier: BSD-3-Clause
"""What names a file or a program is the choice of the repository's owner, not of a client that may
load models. The list of such names is a table in docs/security.md."""
import json
import os
import re
import sys

import pytest
import requests

from conftest import ROOT, require_build
from models import EXPLICIT, index, load, model_text, opens_server

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

OPTIONS = (*EXPLICIT, f"--backend-config=python,python-path={sys.executable}")
STATS = "session.collect_node_memory_stats_to_file"
BYTES = bytes(range(1, 65))


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(("onnxruntime", "python", "identity"))


def table():
    """(name, kind, from config.pbtxt, from a load) of each row."""
    text = (ROOT / "docs" / "security.md").read_text()
    section = text[text.index("## Parameters that name files"):].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", section, re.M)
    assert len(rows) > 15
    return rows


def rows_of(kind):
    return [(name, own, sent) for name, of, own, sent in table() if of == kind]


def external(location):
    tensor = TensorProto(name="weights", data_type=TensorProto.UINT8, dims=[64],
                         data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("length", "64")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def onnx_file(*initializers):
    node = helper.make_node("Identity", ["weights"] if initializers else ["X"], ["Y"])
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("X", TensorProto.UINT8, [64])],
        [helper.make_tensor_value_info("Y", TensorProto.UINT8, [64])], list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    return model.SerializeToString()


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def sent(backend="onnxruntime", parameters=None, **more):
    config = {"name": "m", "backend": backend}
    if backend != "onnxruntime":
        config = json.loads(model_text(backend=backend, form="json", name="m"))
    return json.dumps({**config, **more, "parameters": {
        key: {"string_value": value} for key, value in (parameters or {}).items()}})


MODELS = {"m": {"config.pbtxt": 'backend: "onnxruntime"\n', "1/model.onnx": onnx_file(),
                "1/model.py": b""}}


def refusal_of(server, config, **files):
    """The text of the answer and what the log says meanwhile; None for a load that succeeded."""
    begin = len(server.log)
    reply = load(server, "m", None, config, **{
        f"file:{path}": content for path, content in files.items()})
    if reply.status_code == 200:
        return None
    if "failed to poll" in reply.text:  # the log has the reason
        server.wait_for_line("[Pp]oll.*failed|failed to poll|Poll failed")
    return reply.json()["error"] + "\n".join(server.log[begin:])


def assert_names(text, *names):
    assert text is not None, names
    for name in names:
        assert name in text, text


# ---- the list -----------------------------------------------------------------------------------


def test_the_list_is_complete():
    names = {name for name, *_ in table()}
    source = (ROOT / "backends" / "onnxruntime" / "session_entries.c").read_text()
    entries = set(re.findall(r'\{ "([^"]+)", ENTRY_(?:FILE|OTHER) \}', source))
    assert len(entries) == 7 and entries <= names
    source = (ROOT / "src" / "repo" / "uploaded_code.c").read_text()
    own = re.search(r"file_parameters\[\] = \{ ([^}]*) \}", source).group(1)
    assert set(re.findall(r'"([^"]+)"', own)) <= names
    refused = set()
    for path in (ROOT / "backends").rglob("*.c"):
        refused |= set(re.findall(r'kit_model_refuse_sent\(\w+, "([^"]+)"\)', path.read_text()))
    assert refused and refused <= names
    fields = set(re.findall(r"string (\w*(?:_file|filename)) = ",
                            (ROOT / "proto" / "model_config.proto").read_text()))
    assert fields - names == set()


@pytest.mark.parametrize("name,own,of_load", rows_of("onnxruntime parameter"))
def test_parameters_of_onnxruntime(tmp_path, name, own, of_load):
    with opens_server(tmp_path / "models", MODELS, *OPTIONS) as server:
        for value in ("here", str(tmp_path / "there"), "../there"):
            text = refusal_of(server, sent(parameters={name: value}))
            if of_load.strip() == "refused":
                assert_names(text, "Uploaded code is disabled: ", f"'{name}'")
                files = {"1/model.onnx": onnx_file()}
                assert_names(refusal_of(server, sent(parameters={name: value}), **files), name)
            else:
                assert name == "member_files"
                config = sent(parameters={name: "g:../../m/1/model.onnx"},
                              instance_group=[{"name": "g", "kind": "KIND_CPU"}])
                assert_names(refusal_of(server, config), "member file '../../m/1/model.onnx'")
        assert index(server) == [] or index(server)[0][2] != "READY"
        for path in ("here", "there"):
            assert not (tmp_path / path).exists() and not (tmp_path / "models" / path).exists()
    if not own.startswith(("model", "with")):
        return
    models = {"m": {**MODELS["m"], "config.pbtxt": 'backend: "onnxruntime"\n' + parameter(
        name, tmp_path / "there")}}
    with opens_server(tmp_path / "own", models, *OPTIONS) as server:
        assert_names(refusal_of(server, None), name, "allow-file-options=true")


def test_parameters_of_python(tmp_path):
    (row,) = rows_of("python parameter")
    assert row[0] == "EXECUTION_ENV_PATH" and row[2].strip() == "refused"
    environment = tmp_path / "environment" / "bin"
    environment.mkdir(parents=True)
    (environment / "activate").write_text("")
    proof = tmp_path / "proof"
    (environment / "python3").write_text(f"#!/bin/sh\ntouch {proof}\n")
    (environment / "python3").chmod(0o755)
    program = b"class TritonPythonModel:\n    pass\n"
    models = {"m": {"config.pbtxt": 'backend: "python"\n', "1/model.py": program}}
    with opens_server(tmp_path / "models", models, *OPTIONS) as server:
        for value in (str(environment.parent), "$$TRITON_MODEL_DIRECTORY/../../environment"):
            text = refusal_of(server, sent("python", {"EXECUTION_ENV_PATH": value}))
            assert_names(text, "Uploaded code is disabled: ", "'EXECUTION_ENV_PATH'")
        assert_names(refusal_of(server, sent("python", default_model_filename="../1/model.py")),
                     "default_model_filename '../1/model.py'")
    assert not proof.exists()
    models["m"]["config.pbtxt"] += parameter("EXECUTION_ENV_PATH", environment.parent)
    with opens_server(tmp_path / "own", models, *OPTIONS) as server:
        text = refusal_of(server, sent("python", {
            "EXECUTION_ENV_PATH": str(environment.parent)}))
        assert "Uploaded code" not in text
    assert proof.exists()  # the environment of the owner's choice was used


def test_parameters_of_the_server(tmp_path):
    models = {"m": {"config.pbtxt": model_text(backend="identity"), "1/b.so": b"x"}}
    with opens_server(tmp_path / "models", models, *OPTIONS) as server:
        for name, _, of_load in rows_of("server parameter"):
            text = refusal_of(server, sent("identity", {name: "../b.so"}, dynamic_batching={},
                                           max_batch_size=4))
            assert_names(text, name if of_load.strip() == "refused" else "../b.so")
        text = refusal_of(server, sent("identity", {"TRITON_BATCH_STRATEGY_PATH": "1/b.so"}))
        assert_names(text, "names the file of the parameter 'TRITON_BATCH_STRATEGY_PATH'")


FIELDS = {
    "op_library_filename": {"model_operations": {"op_library_filename": ["1/x.so"]}},
    "runtime": {"runtime": "code"},
    "backend": {"backend": "../identity"},
    "model_repository_agents": {"model_repository_agents": {"agents": [{"name": "mine"}]}},
    "default_model_filename": {"default_model_filename": "../1/model.onnx"},
    "label_filename": {"output": [{"name": "Y", "data_type": "TYPE_UINT8", "dims": [64],
                                   "label_filename": "../labels"}]},
    "input_data_file": {"model_warmup": [{"name": "w", "batch_size": 1, "inputs": {"X": {
        "data_type": "TYPE_UINT8", "dims": [64], "input_data_file": "../x"}}}]},
    "data_file": {"sequence_batching": {"state": [
        {"input_name": "X", "output_name": "Y", "data_type": "TYPE_UINT8", "dims": [64],
         "initial_state": [{"name": "s", "data_type": "TYPE_UINT8", "dims": [64],
                            "data_file": "../x"}]}]}},
}


@pytest.mark.parametrize("name,own,of_load", rows_of("configuration field"))
def test_fields(tmp_path, name, own, of_load):
    files = {**MODELS["m"], "1/code": b"\x7fELF", "1/x.so": b"x"}
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "x").write_bytes(bytes(64))
    with opens_server(tmp_path / "models", {"m": files}, *OPTIONS) as server:
        (value,) = re.findall(r'"([^"]*(?:x|x\.so|code|mine|identity|labels|\.onnx))"',
                              json.dumps(FIELDS[name]).replace('"X"', "0"))
        assert_names(refusal_of(server, sent(**FIELDS[name])), value)
        assert own and of_load


def test_settings(tmp_path):
    assert [name for name, *_ in rows_of("log setting") + rows_of("trace setting")] == [
        "log_file", "trace_file"]
    with opens_server(tmp_path / "models", MODELS, *OPTIONS) as server:
        for path, name in (("logging", "log_file"), ("trace/setting", "trace_file"),
                           ("models/m/trace/setting", "trace_file")):
            reply = requests.post(f"{server.url}/v2/{path}", timeout=20,
                                  json={name: str(tmp_path / "there")})
            assert reply.status_code >= 400, reply.text
        assert not (tmp_path / "there").exists()


def test_every_kind_is_walked():
    assert {kind for _, kind, _, _ in table()} == {
        "onnxruntime parameter", "python parameter", "server parameter", "configuration field",
        "log setting", "trace setting"}
    assert {name for name, *_ in rows_of("configuration field")} == set(FIELDS)


# ---- session entries ----------------------------------------------------------------------------


def test_unknown_and_harmless_entries(tmp_path):
    own = 'backend: "onnxruntime"\n' + parameter("session.of_the_future", "1")
    models = {"m": {**MODELS["m"], "config.pbtxt": own}}
    with opens_server(tmp_path / "models", models, *OPTIONS) as server:
        assert refusal_of(server, None) is None
        for entry in ("session.of_another_future", "optimization.of_the_future"):
            assert_names(refusal_of(server, sent(parameters={entry: "1"})),
                         f"the parameter '{entry}' is not known to be harmless")
        assert_names(refusal_of(server, sent(parameters={"session.of_the_future": "2"})),
                     "'session.of_the_future' is not known")
        for entry in ("session.of_the_future", "session.intra_op.allow_spinning",
                      "session.use_device_allocator_for_initializers", "execution_mode"):
            assert refusal_of(server, sent(parameters={entry: "1"})) is None


def ask(server):
    reply = requests.post(f"{server.url}/v2/models/m/infer", timeout=20, json={
        "inputs": [{"name": "X", "datatype": "UINT8", "shape": [64], "data": list(BYTES)}]})
    assert reply.status_code == 200, reply.text
    return bytes(reply.json()["outputs"][0]["data"])


@pytest.mark.parametrize("value,options", [
    ("stats.csv", ()),
    ("{}/there.csv", ("--backend-config=onnxruntime,allow-file-options=true",))])
def test_files_that_the_owner_may_name(tmp_path, value, options):
    value = value.format(tmp_path)
    own = 'backend: "onnxruntime"\n' + parameter(STATS, value)
    models = {"m": {**MODELS["m"], "config.pbtxt": own}}
    with opens_server(tmp_path / "models", models, *OPTIONS, *options) as server:
        assert refusal_of(server, sent(parameters={STATS: value})) is None  # the same value
        assert ask(server) == BYTES
        assert_names(refusal_of(server, sent(parameters={STATS: "stats2.csv"})),
                     "Uploaded code is disabled")
    assert (tmp_path / "models" / "m" / value).read_text().startswith("#name")


def test_allowed_by_the_server(tmp_path):
    with opens_server(tmp_path / "models", MODELS, *OPTIONS,
                      "--allow-uploaded-backends=true") as server:
        assert refusal_of(server, sent(parameters={STATS: "stats.csv"})) is None
        assert ask(server) == BYTES
        assert_names(refusal_of(server, sent(parameters={STATS: str(tmp_path / "there")})),
                     "allow-file-options=true")
    assert (tmp_path / "models" / "m" / "stats.csv").exists()


# ---- external data ------------------------------------------------------------------------------


def test_uploaded_external_data(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(BYTES)
    config = json.dumps({"name": "m", "backend": "onnxruntime"})
    with opens_server(tmp_path / "models", {}, *OPTIONS) as server:
        for location in (str(secret), "../../secret", "sub/../weights", "*/_ORT_MEM_ADDR_/*"):
            text = refusal_of(server, config, **{"1/model.onnx": onnx_file(external(location)),
                                                 "1/weights": BYTES, "1/sub/x": b"x",
                                                 "1/*/_ORT_MEM_ADDR_/*": BYTES})
            assert_names(text, "failed to load model 'm' from '1/model.onnx': the external data "
                               f"of initializer 'weights' is at '{location}', ")
        assert refusal_of(server, config, **{
            "1/model.onnx": onnx_file(external("sub/weights")), "1/sub/weights": BYTES}) is None
        assert ask(server) == BYTES


def test_external_data_of_the_repository(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    (store / "weights").write_bytes(BYTES)
    models = {"m": {**MODELS["m"], "1/model.onnx": onnx_file(external("weights"))}}
    version = tmp_path / "models" / "m" / "1"
    with opens_server(tmp_path / "models", models, *OPTIONS) as server:
        (version / "inner").write_bytes(BYTES)
        (version / "weights").symlink_to("inner")
        assert refusal_of(server, None) is None
        assert ask(server) == BYTES
        (version / "weights").unlink()
        (version / "weights").symlink_to(store / "weights")
        assert_names(refusal_of(server, None), "is at 'weights', a symbolic link that leaves")
        (version / "weights").unlink()
        os.mkfifo(version / "weights")
        assert_names(refusal_of(server, None), "is at 'weights', which is not a regular file")
        (version / "weights").unlink()
        (version / "weights").symlink_to(store / "weights")
    with opens_server(tmp_path / "models", {}, *OPTIONS,
                      "--backend-config=onnxruntime,allow-data-links=true") as server:
        assert refusal_of(server, None) is None
        assert ask(server) == BYTES
        absolute = onnx_file(external(str(store / "weights")))
        assert_names(refusal_of(server, sent(), **{"1/model.onnx": absolute}), "is at '/")


def test_ways_of_reading(tmp_path):
    """The format that was checked is the format that is read."""
    config = {"name": "m", "backend": "onnxruntime", "default_model_filename": "model.ort"}
    files = {"1/model.ort": onnx_file(external("/etc/passwd"))}
    with opens_server(tmp_path / "models", {}, *OPTIONS) as server:
        assert_names(refusal_of(server, json.dumps(config), **files), "model.ort")
        config["parameters"] = {"session.load_model_format": {"string_value": "ONNX"}}
        assert_names(refusal_of(server, json.dumps(config), **files),
                     "initializer 'weights' is at '/etc/passwd'")
