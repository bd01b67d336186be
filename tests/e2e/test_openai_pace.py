# SPDX-License-Identifier: BSD-3-Clause
"""The OpenAI API with many streams: a reader that stops holds nobody else up, and clients that hang up at any
step leave nothing behind. The numbers of checks are those of openai_models.py."""
import http.client
import json
import pathlib
import re
import socket
import threading
import time

import pytest

import openai_models
from conftest import BUILD, TLS, Server, is_sanitized, write_repository
from openai_models import call, chunks, complete
from test_memory import MIB, SLACK, check_peak, forget_peak

BACKENDS = ("repeat",)  # what the module needs is built with them
TAKES_SECONDS = 15
N_STREAMS = 32

TEXT = openai_models.io([("text_input", "STRING", [1], False), ("sampling_parameters", "STRING", [1], True),
               ("stream", "BOOL", [1], True)], [("text_output", "STRING", [1])])
COPIES = openai_models.io([("text_input", "STRING", [1], False), ("sampling_param_max_tokens", "INT32", [1], True)],
                [("text_output", "STRING", [1])])


def model(tensors):
    return {"config.pbtxt": f'backend: "tokens"\n{tensors}{openai_models.DECOUPLED}',
            "libtriton_tokens.so": (BUILD / "tests" / "e2e" / "libtriton_tokens.so").read_bytes()}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if TLS:
        pytest.skip("these clients are plain sockets")
    folder = tmp_path_factory.mktemp("pace")
    write_repository(folder, {"text": model(TEXT), "speaks": model(openai_models.OPENAI_IO),
                              "copies": model(COPIES)})
    started = Server(folder, ("--http-thread-count=1",))
    yield started
    started.stop()


def ask(name, tokens):
    if name == "text":
        return "/v1/completions", {"model": name, "prompt": tokens, "stream": True}
    return "/v1/chat/completions", {"model": name, "stream": True,
                                    "messages": [{"role": "user", "content": tokens}]}


@pytest.mark.parametrize("name", ["text", "speaks"])
def test_every_token_arrives(server, name):
    path, body = ask(name, "5000")
    found = chunks(call(server, path, body).body)
    texts = [c["choices"][0].get("text", c["choices"][0].get("delta", {}).get("content"))
             for c in found]
    assert texts[:-1] == [" token"] * 5000 and texts[-1] in ("", None)


@pytest.mark.parametrize("name", ["text", "speaks"])
def test_8_a_reader_that_stops(server, name):
    """One of 32 streams reads nothing, and far more is due than the connection takes."""
    path, body = ask(name, "3000000")
    text = json.dumps(body)
    stopped = socket.create_connection(("127.0.0.1", server.port("http")), timeout=30)
    stopped.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(text)}\r\n\r\n{text}"
                    .encode())
    assert stopped.recv(12) == b"HTTP/1.1 200"
    counts = []

    def read():
        route, wanted = ask(name, "2000")
        counts.append(call(server, route, wanted).body.count(b" token"))

    readers = [threading.Thread(target=read) for _ in range(N_STREAMS - 1)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert counts == [2000] * (N_STREAMS - 1)
    stopped.close()


def resident(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) << 10


def test_the_inferences_of_a_reader_that_stops_share_its_limit(server):
    """128 of them were 130 MB."""
    text = json.dumps({"model": "copies", "prompt": ["3000000"] * 16, "n": 8, "stream": True})
    before = resident(server)
    with socket.create_connection(("127.0.0.1", server.port("http")), timeout=30) as stopped:
        stopped.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(text)}\r\n\r\n"
                        f"{text}".encode())
        assert stopped.recv(12) == b"HTTP/1.1 200"
        seen = [resident(server)]
        while len(seen) < 5 or seen[-1] > seen[-5]:  # until it grows no more
            time.sleep(0.1)
            seen.append(resident(server))
    print(f"grown by {(seen[-1] - before) / MIB:.0f} MiB")
    assert is_sanitized() or seen[-1] - before < 32 * MIB


def metric(server, name):
    link = http.client.HTTPConnection(f"127.0.0.1:{server.port('metrics')}", timeout=20)
    link.request("GET", "/metrics")
    lines = link.getresponse().read().decode().splitlines()
    link.close()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name} "))


def hang_up(server, n):
    """Each client reads a little more than the one before."""
    for step in range(n):
        path, body = ask("text" if step % 2 else "speaks", "1000000")
        text = json.dumps(body)
        link = socket.create_connection(("127.0.0.1", server.port("http")), timeout=30)
        link.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(text)}\r\n\r\n{text}"
                     .encode())
        if step % 4:
            assert link.recv(step * 10)
        link.close()


def test_9_clients_that_hang_up_leave_nothing(server):
    """The memory of requests stays what the pools kept of the first ones."""
    hang_up(server, 100)
    kept = metric(server, "neso_memory_budget_used_bytes")
    for _ in range(5):
        hang_up(server, 200)
    deadline = time.monotonic() + 30
    while metric(server, "neso_memory_budget_used_bytes") > kept + (1 << 20):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    path, body = ask("text", "3")
    assert len(chunks(call(server, path, body).body)) == 4


def test_choices_share_the_prompt(server):
    """Its memory does not grow with n: the body, what the models get, and what the model copies of it."""
    prompt = "3" + " " * (16 * MIB)
    before = forget_peak(server)
    answer = complete(server, "copies", prompt, n=8)
    assert [c["text"] for c in answer.json["choices"]] == [" token" * 3] * 8
    check_peak(server, before, 4 * 16 * MIB + SLACK)


def test_sampling_parameters_have_a_limit(server):
    answer = complete(server, "text", "1", unknown="x" * (16 * MIB))
    assert answer.status == 400
    assert answer.error["message"] == "the sampling parameters of the request are longer than 16777216 bytes"


def test_prompts_share_the_sampling_parameters(server):
    before = forget_peak(server)
    answer = complete(server, "text", [str(n) for n in range(1, 17)], unknown="x" * (12 * MIB))
    assert [c["text"] for c in answer.json["choices"]] == [" token" * n for n in range(1, 17)]
    check_peak(server, before, 6 * 12 * MIB + SLACK)
