# SPDX-License-Identifier: BSD-3-Clause
"""What a load request brings along is not executed unless --allow-uploaded-backends=true."""
import json
import os

import pytest

from conftest import BUILD, require_build
from grpc_stubs import stubs  # noqa: F401
from models import EXPLICIT, control, index, infer, opens_server, model_text

BACKENDS = ("identity",)

REFUSED = ("Uploaded code is disabled: 'file:{}' of model '{}' is {}. Start the server with "
           "'--allow-uploaded-backends=true' to enable.")


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)


@pytest.fixture(params=["http", "grpc"])
def way(request):
    return request.param


@pytest.fixture(scope="module")
def library():
    """The backend "identity", which serves under any name."""
    return (BUILD / "backends" / "identity" / "libtriton_identity.so").read_bytes()


def config(name, **changes):
    return json.dumps({**json.loads(model_text(backend="mine", form="json", name=name)), **changes})


@pytest.mark.parametrize("path", ["1/libtriton_mine.so", "libtriton_mine.so",
                                  "1/libtriton_mine.so.1", "1/batchstrategy.so"])
def test_shared_objects_are_refused(tmp_path, way, stubs, library, path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with opens_server(tmp_path / "models", {}, *EXPLICIT) as server:
        refusal = REFUSED.format(path, "m", "a shared object")
        for content in (library, b""):
            assert control(server, way, "load", "m", stubs, config=config("m"),
                           **{"file:1/weights": b"w", f"file:{path}": content}) == (
                "UNIMPLEMENTED", refusal)
        assert os.listdir(temporary) == []  # nothing was written
        assert index(server) == []


def test_other_names_do_not_help(tmp_path, way, stubs, library):
    with opens_server(tmp_path, {}, *EXPLICIT) as server:
        for path, content, changes, kind in (
                ("1/model.onnx", library, {"runtime": "model.onnx"}, "a shared object"),
                ("1/weights", library, {"dynamic_batching": {}, "parameters": {
                    "TRITON_BATCH_STRATEGY_PATH": {"string_value": "1/weights"}}},
                 "a shared object"),
                ("1/model.py", b"import os\n", {"backend": "python"}, "a Python program")):
            assert control(server, way, "load", "m", stubs, config=config("m", **changes),
                           **{f"file:{path}": content}) == (
                "UNIMPLEMENTED", REFUSED.format(path, "m", kind))


def test_libraries_that_a_sent_configuration_names(tmp_path, way, stubs, library):
    outside = tmp_path / "libops"
    outside.write_bytes(library)
    own = model_text(backend="identity") + (
        'model_operations { op_library_filename: "config.pbtxt" }\n')
    with opens_server(tmp_path / "models", {"m": own}, *EXPLICIT) as server:
        for name in (str(outside), "../../libops", "1/libops"):
            sent = config("m", backend="identity",
                          model_operations={"op_library_filename": [name]})
            assert control(server, way, "load", "m", stubs, config=sent) == (
                "INTERNAL", "failed to load 'm', failed to poll from model repository")
            server.wait_for_line("Uploaded code is disabled: the configuration sent for model 'm' "
                                 "names the library '" + name.replace(".", "[.]"))
        sent = config("m", backend="identity",
                      model_operations={"op_library_filename": ["config.pbtxt"]})
        assert control(server, way, "load", "m", stubs, config=sent) is None


def test_allowed(tmp_path, way, stubs, library):
    with opens_server(tmp_path, {}, *EXPLICIT, "--allow-uploaded-backends=true") as server:
        assert control(server, way, "load", "m", stubs, config=config("m"),
                       **{"file:1/libtriton_mine.so": library}) is None
        assert infer(server, "m").status == 200
        sent = config("n", runtime="code", model_operations={"op_library_filename": ["/no"]})
        assert control(server, way, "load", "n", stubs, config=sent,
                       **{"file:1/code": library}) is None
        assert infer(server, "n").status == 200
