#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the OpenAI API costs per token, beside generate_stream, with a model that computes nothing.

  bench/openai_front.py [--build=build] [--streams=32] [--tokens=2000] [--turns=5]

One loop serves 32 streams at a time over loopback; this program reads and counts. The ways take turns, and each
line has the median of the server's CPU time per token (user and system, the backend's threads included), and the
tokens per second of that time and of the clock. The aims: 150 000 tokens per second of one core, and /v1 at 0.9
of generate_stream or more, with the same model.
"""
import argparse
import json
import os
import pathlib
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TEXT = """backend: "tokens"
model_transaction_policy { decoupled: true }
input { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }
input { name: "sampling_parameters" data_type: TYPE_STRING dims: [ 1 ] optional: true }
input { name: "stream" data_type: TYPE_BOOL dims: [ 1 ] optional: true }
output { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }
"""
SPEAKS = """backend: "tokens"
model_transaction_policy { decoupled: true }
input { name: "openai_request" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "openai_response" data_type: TYPE_STRING dims: [ 1 ] }
"""


def ways(tokens):
    user = [{"role": "user", "content": str(tokens)}]
    return {
        "/v2 generate_stream, vllm": ("/v2/models/text/generate_stream", {"text_input": str(tokens)}),
        "/v2 generate_stream, openai": ("/v2/models/speaks/generate_stream",
                                        {"openai_request": json.dumps({"messages": user})}),
        "/v1/completions, vllm": ("/v1/completions", {"model": "text", "prompt": str(tokens), "stream": True}),
        "/v1/chat/completions, openai": ("/v1/chat/completions", {"model": "speaks", "messages": user,
                                                                  "stream": True}),
    }


def serve(build, folder):
    library = (build / "tests" / "e2e" / "libtriton_tokens.so").read_bytes()
    for name, config in {"text": TEXT, "speaks": SPEAKS}.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(config)
        (folder / name / "libtriton_tokens.so").write_bytes(library)
    ports = folder / "ports"
    server = subprocess.Popen([build / "neso", "serve", f"--model-repository={folder}", "--http-port=0",
                               "--allow-grpc=false", "--metrics-port=0", "--http-thread-count=1",
                               f"--port-file={ports}", "--log-error=false", "--log-info=false"],
                              stderr=subprocess.DEVNULL)
    while not ports.exists() or "http=" not in ports.read_text():
        if server.poll() is not None:
            sys.exit("the server did not start")
        time.sleep(0.02)
    port = dict(line.split("=") for line in ports.read_text().split())["http"]
    return server, int(port)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(port, path, body, n_streams):
    """Reads all streams to their ends; returns the number of tokens."""
    text = json.dumps(body)
    request = (f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
               f"Content-Length: {len(text)}\r\n\r\n{text}").encode()
    choice = selectors.DefaultSelector()
    for _ in range(n_streams):
        link = socket.create_connection(("127.0.0.1", port))
        link.sendall(request)
        choice.register(link, selectors.EVENT_READ, [b"", 0])
    tokens = 0
    while choice.get_map():
        for key, _ in choice.select():
            piece = key.fileobj.recv(1 << 20)
            whole = key.data[0] + piece
            key.data[1] += whole.count(b" token")
            key.data[0] = whole[-5:] # a token may be cut, but is not counted twice: it has six bytes
            if not piece or whole.endswith(b"0\r\n\r\n"):
                tokens += key.data[1]
                choice.unregister(key.fileobj)
                key.fileobj.close()
    return tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--streams", default=32, type=int)
    parser.add_argument("--tokens", default=2000, type=int)
    parser.add_argument("--turns", default=5, type=int)
    options = parser.parse_args()
    found = {name: [] for name in ways(1)}
    with tempfile.TemporaryDirectory() as folder:
        server, port = serve(options.build.resolve(), pathlib.Path(folder))
        try:
            for _ in range(options.turns):
                for name, (path, body) in ways(options.tokens).items():
                    begin, cpu = time.monotonic(), cpu_seconds(server.pid)
                    tokens = run(port, path, body, options.streams)
                    cpu, wall = cpu_seconds(server.pid) - cpu, time.monotonic() - begin
                    expected = options.tokens * options.streams
                    assert tokens == expected, f"{name}: {tokens} tokens, not {expected}"
                    found[name].append((cpu / tokens, tokens / wall))
        finally:
            server.terminate()
            server.wait()
    bases = {end: statistics.median(cpu for cpu, _ in found[name]) for name, end in (
        ("/v2 generate_stream, vllm", "vllm"), ("/v2 generate_stream, openai", "openai"))}
    print(f"{'':32} {'us of CPU':>10} {'tokens/s of':>12} {'tokens/s':>10} {'against':>8}")
    print(f"{'':32} {'per token':>10} {'CPU time':>12} {'':>10} {'/v2':>8}")
    for name, rows in found.items():
        cpu = statistics.median(row[0] for row in rows)
        wall = statistics.median(row[1] for row in rows)
        base = bases[name.split(", ")[1]]
        print(f"{name:32} {cpu * 1e6:10.2f} {1 / cpu:12.0f} {wall:10.0f} {base / cpu:8.2f}")


if __name__ == "__main__":
    main()
