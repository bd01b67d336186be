# SPDX-License-Identifier: BSD-3-Clause
"""Backends built outside of the tree against an installation: examples/backend, in C with the kit
and in C++ with the headers alone. They are loaded, serve many requests on four instances, report
statistics and are unloaded, again and again, and no memory is left behind.

NESO_RELOADS (default 10) says how often; `NESO_RELOADS=100 pytest tests/e2e/test_outside_backend.py`
is the long one.
"""
import concurrent.futures
import os
import re

import pytest
import requests

from conftest import Server, is_sanitized
from installation import EXAMPLES, build_example, install, run
from scrape import metric

RELOADS = int(os.environ.get("NESO_RELOADS", "10"))
N_REQUESTS = 1000
N_CLIENTS = 8
NAMES = ("scale", "scale_cpp")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def server(prefix, tmp_path_factory):
    example = build_example("backend", prefix, tmp_path_factory.mktemp("backend"))
    running = Server(EXAMPLES / "backend" / "models",
                     ["--model-control-mode=explicit", f"--backend-directory={example}/backends"])
    yield running
    code = running.stop()
    assert code == 0, running.text()


def load(server, name):
    reply = requests.post(f"{server.url}/v2/repository/models/{name}/load", timeout=60)
    assert reply.status_code == 200, reply.text


def unload(server, name):
    reply = requests.post(f"{server.url}/v2/repository/models/{name}/unload", timeout=60)
    assert reply.status_code == 200, reply.text


def ask(session, server, name, number):
    rows = [[number, 0.5], [-number, 1.5]][:1 + number % 2]
    reply = session.post(f"{server.url}/v2/models/{name}/infer", timeout=30, json={"inputs": [
        {"name": "X", "datatype": "FP32", "shape": [len(rows), 2], "data": rows}]})
    assert reply.status_code == 200, reply.text
    output = reply.json()["outputs"][0]
    assert output["name"] == "Y" and output["shape"] == [len(rows), 2]
    assert output["data"] == [3 * value for row in rows for value in row]
    return len(rows)


def ask_many(server, name, n):
    """The rows of all requests."""
    def client(first):
        with requests.Session() as session:
            return sum(ask(session, server, name, i) for i in range(first, n, N_CLIENTS))

    with concurrent.futures.ThreadPoolExecutor(N_CLIENTS) as pool:
        return sum(pool.map(client, range(N_CLIENTS)))


def test_kit_in_cpp(prefix, tmp_path):
    """Its headers compile as C++, one by one, and a C++ backend finds its functions."""
    if is_sanitized():
        pytest.skip("the kit needs the sanitizer's functions, too")
    include = prefix / "include"
    headers = sorted(path.name for path in (include / "neso" / "kit").glob("*.h"))
    assert "batch.h" in headers and "stream.h" in headers
    flags = ["-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fPIC",
             f"-I{include}", f"-I{include}/neso"]
    for header in headers:
        (tmp_path / "one.cc").write_text(f'#include "kit/{header}"\n')
        run("c++", *flags, "-fsyntax-only", tmp_path / "one.cc")
    (tmp_path / "model.cc").write_text("""\
#include "kit/batch.h"
#include "kit/model.h"
KIT_BACKEND_INLINE_SAFE;
TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
        struct kit_model model;
        KIT_TRY(kit_model_open(triton, &model));
        kit_model_close(&model);
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "no more than that");
}
""")
    run("c++", *flags, "-shared", "-Wl,--no-undefined", tmp_path / "model.cc", "-o",
        tmp_path / "libtriton_model.so", f"-L{prefix}/lib/neso", "-lkit", f"-L{prefix}/lib",
        "-ltritonserver")


@pytest.mark.parametrize("name", NAMES)
def test_serves_and_reports(server, name):
    load(server, name)
    config = requests.get(f"{server.url}/v2/models/{name}/config", timeout=20).json()
    assert config["instance_group"][0]["count"] == 4
    n_rows = ask_many(server, name, N_REQUESTS)
    stats = requests.get(f"{server.url}/v2/models/{name}/stats", timeout=20).json()
    stats = stats["model_stats"][0]
    assert stats["inference_count"] == n_rows
    assert stats["inference_stats"]["success"]["count"] == N_REQUESTS
    assert stats["inference_stats"]["fail"]["count"] == 0
    assert 0 < stats["execution_count"] <= N_REQUESTS
    assert sum(b["batch_size"] * b["compute_infer"]["count"] for b in stats["batch_stats"]) == n_rows
    for part in ("compute_input", "compute_infer", "compute_output"):
        assert stats["inference_stats"][part]["count"] == N_REQUESTS
    assert metric(server, "nv_inference_request_success", name) == N_REQUESTS
    unload(server, name)
    reply = requests.post(f"{server.url}/v2/models/{name}/infer", json={}, timeout=20)
    assert reply.status_code == 404 and "no available versions" in reply.text, reply.text


def rss_kib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def one_life(server, n):
    for name in NAMES:
        load(server, name)
        ask_many(server, name, n)
        unload(server, name)


def test_memory_is_flat(server):
    for _ in range(5):
        one_life(server, 40)
    before = rss_kib(server)
    for _ in range(RELOADS):
        one_life(server, 40)
    growth = rss_kib(server) - before
    if not is_sanitized():  # a sanitizer keeps what was freed
        assert growth < 1024, f"{growth} KiB in {RELOADS} reloads of {len(NAMES)} models"
