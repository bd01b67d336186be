# SPDX-License-Identifier: BSD-3-Clause
"""curl, as people use it in a shell."""
import json
import shutil
import struct
import subprocess

import pytest

BACKENDS = ("identity",)
OPTIONS = ("--http-restricted-api=statistics:x-key=open sesame",)
MODELS = {"fp32": ('backend: "identity"\n'
                   'input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }\n'
                   'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }\n')}
BODY = '{"inputs":[{"name":"INPUT0","shape":[2],"datatype":"FP32","data":[1,2.5]}]}'
ANSWER = ('{"model_name":"fp32","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"FP32",'
          '"shape":[2],"data":[1.0,2.5]}]}')


@pytest.fixture(autouse=True)
def has_curl():
    if shutil.which("curl") is None:
        pytest.skip("curl is not there")


def curl(*arguments, sent=None, code=(0,)):
    """What it wrote, as bytes. `code`: how it may end."""
    ended = subprocess.run(["curl", "--silent", "--show-error", "--max-time", "20", *arguments],
                           input=sent, capture_output=True, check=False)
    assert ended.returncode in code, ended.stderr.decode()
    return ended.stdout


def infer(server):
    return f"{server.url}/v2/models/fp32/infer"


def test_get(server):
    assert curl(f"{server.url}/v2/health/ready", "--write-out", "%{http_code}") == b"200"
    assert json.loads(curl(f"{server.url}/v2"))["name"] == "triton"


def test_fail(server):
    """--fail ends with 22 for every status from 400 on."""
    curl("--fail", f"{server.url}/v2/models/nobody", code=(22,))
    curl("--fail", "--request", "DELETE", f"{server.url}/v2", code=(22,))


def test_head(server):
    """It has no body, and the connection is good for more."""
    found = curl("--head", f"{server.url}/v2", "--next", f"{server.url}/v2/health/live",
                 "--write-out", "%{http_code} %{num_connects}")
    assert found.startswith(b"HTTP/1.1 405 Not Allowed\r\n") and found.endswith(b"200 0")


def test_post(server):
    assert curl("--data", BODY, infer(server)) == ANSWER.encode()
    assert curl("--http1.0", "--data", BODY, infer(server)) == ANSWER.encode()


def test_upload_from_a_pipe(server):
    """Its length is not known, so it comes in chunks."""
    assert curl("--request", "POST", "--upload-file", "-", infer(server),
                sent=BODY.encode()) == ANSWER.encode()


def test_large_binary_file(server, tmp_path):
    """curl asks first whether so much is wanted (Expect: 100-continue)."""
    values = struct.pack("<300000f", *range(300000))
    head = json.dumps({"inputs": [
        {"name": "INPUT0", "shape": [300000], "datatype": "FP32",
         "parameters": {"binary_data_size": len(values)}}],
        "parameters": {"binary_data_output": True}}).encode()
    sent = tmp_path / "request"
    sent.write_bytes(head + values)
    headers = tmp_path / "headers"
    found = curl("--data-binary", f"@{sent}", "--dump-header", str(headers), "--header",
                 "Expect: 100-continue", "--header", "Content-Type: application/octet-stream",
                 "--header", f"Inference-Header-Content-Length: {len(head)}", infer(server))
    answered = headers.read_text()
    assert answered.startswith("HTTP/1.1 100 Continue") and "HTTP/1.1 200 OK" in answered
    assert found.endswith(values)


def test_compressed_answer(server):
    found = curl("--compressed", "--data", BODY, "--include", infer(server)).decode()
    head, _, body = found.partition("\r\n\r\n")
    assert "\r\nContent-Encoding: " in head
    assert body == ANSWER


def test_many_requests_on_one_connection(server):
    """And at the same time on several."""
    found = curl("--data", BODY, "--write-out", "\n%{num_connects}\n", *[infer(server)] * 20)
    assert found.decode().split() == [ANSWER, "1", *[ANSWER, "0"] * 19]
    found = curl("--parallel", "--parallel-max", "8", "--data", BODY, *[infer(server)] * 50)
    assert found.decode() == ANSWER * 50


def test_only_http_1(server):
    """Clear-text HTTP/2 without an upgrade is refused, with one it is not upgraded."""
    curl("--http2-prior-knowledge", f"{server.url}/v2", code=(16, 52, 56))  # by its version
    assert curl("--http2", "--output", "/dev/null", "--write-out", "%{http_version}",
                f"{server.url}/v2") == b"1.1"


def test_secret_header(server):
    url = f"{server.url}/v2/models/stats"
    assert b"restricted" in curl(url)
    assert b"model_stats" in curl("--header", "X-Key: open sesame", url)
