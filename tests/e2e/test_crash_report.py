# SPDX-License-Identifier: BSD-3-Clause
"""A backend that crashes ends the server; the last line says which one, where and for which model."""
import re
import signal

import pytest
import requests

from conftest import BUILD, Server, is_sanitized, require_build, write_repository

HOW = {"SIGSEGV": (signal.SIGSEGV, r"SIGSEGV at address 0x0"),
       "SIGBUS": (signal.SIGBUS, r"SIGBUS at address 0x[0-9a-f]+"),
       "SIGABRT": (signal.SIGABRT, r"SIGABRT"),
       "SIGFPE": (signal.SIGFPE, r"SIGFPE"),
       "SIGILL": ((signal.SIGILL, signal.SIGTRAP), r"(SIGILL at address 0x[0-9a-f]+|SIGTRAP)"),
       "overflow": (signal.SIGSEGV, r"SIGSEGV at address 0x[0-9a-f]+")}


@pytest.mark.parametrize("how", HOW)
def test_last_line(how, tmp_path):
    require_build(["testing"])
    if is_sanitized():
        pytest.skip("a sanitizer has the signals")
    write_repository(tmp_path, {"victim": 'backend: "testing"\n'
                                'input { name: "INPUT0" data_type: TYPE_FP32 dims: [1] }\n'
                                'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [1] }\n'
                                'instance_group { count: 1 kind: KIND_CPU }\n'
                                'parameters { key: "crash" '
                                f'value {{ string_value: "{how}" }} }}\n'})
    server = Server(tmp_path)
    server.port("metrics")  # the last line of the start is there
    body = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]}
    with pytest.raises(requests.ConnectionError):
        requests.post(f"{server.url}/v2/models/victim/infer", json=body, timeout=30)
    code = server.process.wait(30)
    server._reader.join(10)
    numbers, what = HOW[how]
    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
    assert -code in numbers, server.text()
    library = BUILD / "backends" / "testing" / "libtriton_testing.so"
    assert re.fullmatch(rf"neso: {what} in {re.escape(str(library))}, "
                        r"TRITONBACKEND_ModelInstanceExecute, model 'victim' version 1 "
                        r"\(thread \d+\)", server.log[-1]), server.text()
