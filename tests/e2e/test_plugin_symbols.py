# SPDX-License-Identifier: BSD-3-Clause
"""Backends with a global symbol of the same name have each their own; libraries that cannot be
loaded say why, with their path."""
import pytest
import requests

from conftest import BUILD, Server, require_build, write_repository

TENSORS = ('input { name: "INPUT0" data_type: TYPE_FP32 dims: [1] }\n'
           'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [1] }\n')


def library(name):
    path = BUILD / "tests" / "e2e" / f"libtriton_twin_{name}.so"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path.read_bytes()


def model(name, content):
    return {"config.pbtxt": f'backend: "twin_{name}"\n{TENSORS}',
            f"libtriton_twin_{name}.so": content}


def test_each_has_its_own(tmp_path):
    write_repository(tmp_path, {name: model(name, library(name)) for name in ("first", "second")})
    server = Server(tmp_path)
    try:
        for name in ("first", "second", "first"):
            reply = requests.post(f"{server.url}/v2/models/{name}/infer", timeout=20, json={
                "inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]})
            assert reply.status_code == 500 and reply.json()["error"] == name
    finally:
        assert server.stop() == 0


def test_what_cannot_be_loaded(tmp_path):
    require_build(["identity"])
    write_repository(tmp_path, {
        "absent": f'backend: "nobody"\n{TENSORS}',
        "garbage": model("garbage", b"no library"),
        "unresolved": model("unresolved", library("unresolved")),
        "partial": model("partial", (BUILD / "tests" / "e2e" / "batch_partial.so").read_bytes())})
    server = Server(tmp_path, ["--exit-on-error=false"])
    try:
        index = requests.post(f"{server.url}/v2/repository/index", timeout=20).json()
        reasons = {entry["name"]: entry["reason"] for entry in index}
        assert "unable to find backend library for backend 'nobody'" in reasons["absent"]
        for name, text in (("garbage", "unable to load shared library '{}': "),
                           ("unresolved", "unable to load shared library '{}': "),
                           ("partial", "unable to find symbol 'TRITONBACKEND_ModelInstanceExecute' "
                                       "in shared library '{}'")):
            path = tmp_path / name / f"libtriton_twin_{name}.so"
            assert text.format(path) in reasons[name], reasons[name]
        assert "no_such_function_anywhere" in reasons["unresolved"]
    finally:
        assert server.stop() == 0
