# SPDX-License-Identifier: BSD-3-Clause
"""What requests make the server hold: members given again and again, compressed messages, the byte
budget. Peaks of memory are read from the kernel."""
import gzip
import hashlib
import pathlib
import re
import struct
import time
import zlib

import grpc
import pytest
import requests

from conftest import Server, is_sanitized, require_build, write_repository
from frames import DATA, END_HEADERS, HEADERS, INFER, STREAM_INFER, Raw, call, frame, head
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from scrape import metrics
from wire import Wire

TAKES_SECONDS = 45

BACKENDS = ("identity",)
MODELS = {"bytes": """backend: "identity"
input { name: "INPUT0" data_type: TYPE_UINT8 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_UINT8 dims: [-1] }
""", "three": 'backend: "identity"\n' + "".join(
    f'{what} {{ name: "{what.upper()}{i}" data_type: TYPE_UINT8 dims: [-1] }}\n'
    for what in ("input", "output") for i in range(3))}
# Three copies of X lie between the steps until the last one has run.
MODELS["wide"] = """platform: "ensemble"
input { name: "INPUT0" data_type: TYPE_UINT8 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_UINT8 dims: [-1] }
ensemble_scheduling {
""" + "".join(f"""step {{ model_name: "bytes" model_version: -1
  input_map {{ key: "INPUT0" value: "INPUT0" }} output_map {{ key: "OUTPUT0" value: "T{i}" }} }}
""" for i in range(3)) + """step { model_name: "three" model_version: -1
""" + "".join(f'input_map {{ key: "INPUT{i}" value: "T{i}" }}\n' for i in range(3)) + """
  output_map { key: "OUTPUT0" value: "OUTPUT0" } }
}
"""
OPTIONS = ("--http-thread-count=1", "--grpc-infer-thread-count=1")

MIB = 1 << 20
# Beside what a request accounts for: pages of the allocator, of threads that had not run yet.
SLACK = 16 * MIB


def peak(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) << 10


def forget_peak(server):
    """What it holds now, from where the peak is counted on."""
    pathlib.Path(f"/proc/{server.process.pid}/clear_refs").write_text("5", encoding="ascii")
    return peak(server)


def check_peak(server, before, bound):
    grown = peak(server) - before
    print(f"grown by {grown / MIB:.0f} MiB")
    if not is_sanitized():
        assert grown <= bound, f"{grown / MIB:.0f} MiB"


def pack(pieces):
    """gzip of pieces, of which there may be a GiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([packer.compress(piece) for piece in pieces] + [packer.flush()])


def post(server, path, body, session=requests, **headers):
    return session.post(f"{server.url}/v2/models/{path}", data=body, headers=headers, timeout=60)


def infer_small(server, session=requests):
    body = '{"inputs":[{"name":"INPUT0","datatype":"UINT8","shape":[3],"data":[1,2,3]}]}'
    reply = post(server, "bytes/infer", body, session)
    assert reply.json()["outputs"][0]["data"] == [1, 2, 3]


# ---- members that are given again --------------------------------------------------------------

SHAPE = b'"shape":[1,1,1,1,1,1,1,1,1],'
REPEATED = {
    "shape": SHAPE,
    "name": b'"name":"A",',
    "datatype": b'"datatype":"FP99",',
    "parameters": b'"parameters":{"shared_memory_region":"r"},',
    "region": None,
    "unknown key with an escape": b'"\\n":1,',
}


def repeated_json(what, n_bytes):
    piece = REPEATED[what]
    begin, end = b'{"inputs":[{', b'"x":0}]}'
    if piece is None:
        piece, begin, end = (b'"shared_memory_region":"r",', b'{"inputs":[{"parameters":{',
                             b'"x":0}}]}')
    return [begin, *[piece * 1000] * (n_bytes // len(piece) // 1000), end]


@pytest.mark.parametrize("what", REPEATED)
def test_repeated_members_of_json(server, what):
    """62 MB of JSON in 155 KB: shapes took 4.4 GiB."""
    pieces = repeated_json(what, 62_000_000)
    packed = pack(pieces)
    before = forget_peak(server)
    reply = post(server, "bytes/infer", packed, **{"Content-Encoding": "gzip"})
    assert 400 <= reply.status_code < 504 and reply.json()["error"]
    # What it decompresses to, half of it while it moves to a larger place, and what escapes take.
    check_peak(server, before, 4 * 64 * MIB + SLACK)
    infer_small(server)


@pytest.mark.parametrize("path", ["generate", "generate_stream"])
def test_repeated_members_of_generate(server, path):
    body = b"{" + b'"PARAMETER":"text",' * 3_000_000 + b'"x":0}'
    before = forget_peak(server)
    reply = post(server, f"bytes/{path}", body)
    assert reply.status_code == 400
    check_peak(server, before, 3 * len(body) + SLACK)
    infer_small(server)


@pytest.mark.parametrize("path,member", [
    ("v2/repository/index", b'"ready":true,'),
    ("v2/logging", b'"log_format":"\\u0064efault",'),
    ("v2/trace/setting", b'"trace_rate":"\\u0031",'),
    ("v2/repository/models/bytes/unload", b'"parameters":{"unload_dependents":true},'),
])
def test_repeated_members_of_control(server, path, member):
    body = b"{" + member * (60 * MIB // len(member)) + b'"x":0}'
    before = forget_peak(server)
    reply = requests.post(f"{server.url}/{path}", data=body, timeout=60)
    assert reply.status_code < 500 or reply.status_code == 503
    check_peak(server, before, 4 * len(body) + SLACK)
    infer_small(server)


# Fields of ModelInferRequest, and of a first input, as they are on the wire.
FIELDS = {
    "model_name": b"\x0a\x01m",
    "model_version": b"\x12\x011",
    "id": b"\x1a\x01i",
    "parameters": b"\x22\x0c\x0a\x01p\x12\x07\x1a\x05value",
    "sequence_id": b"\x22\x12\x0a\x0bsequence_id\x12\x03\x1a\x01s",
    "inputs": b"\x2a\x00",
    "outputs": b"\x32\x00",
    "raw": b"\x3a\x00",
    "input name": b"\x0a\x01n",
    "input datatype": b"\x12\x01d",
    "input shape": b"\x18\x01",
    "input contents": b"\x2a\x02\x18\x01",
}


def varint(n):
    text = b""
    while n > 127:
        text += bytes([n & 127 | 128])
        n >>= 7
    return text + bytes([n])


def repeated_message(what, n_bytes):
    piece = FIELDS[what]
    n = n_bytes // len(piece) // 1000
    pieces = [piece * 1000] * n
    if what.startswith("input "):
        pieces.insert(0, b"\x2a" + varint(n * 1000 * len(piece)))
    # An unknown field that cannot be compressed: with it the message is no denser than 1000 to 1.
    noise = hashlib.shake_128(b"noise").digest(16000)
    return [b"\x7a" + varint(len(noise)) + noise, *pieces]


def grpc_message(packed):
    return b"\1" + struct.pack(">I", len(packed)) + packed


def send_message(raw, stream, message, flags):
    """DATA frames; small enough in all for the windows that a connection begins with."""
    for at in range(0, max(len(message), 1), 16384):
        last = at + 16384 >= len(message)
        raw.send(frame(DATA, flags if last else 0, stream, message[at:at + 16384]))


@pytest.mark.parametrize("what", FIELDS)
def test_repeated_fields_of_a_message(server, what):
    """A message of model names took 5.3 bytes for each of its own."""
    packed = pack(repeated_message(what, 60 * MIB))
    before = forget_peak(server)
    with Raw(server) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, head(INFER, **{"grpc-encoding": "gzip"})))
        send_message(raw, 1, grpc_message(packed), 1)
        assert raw.has_answer(1)
    # What it decompresses to, half of it while it moves; and elements of eight bytes in two.
    check_peak(server, before, 4 * 64 * MIB + (4 * 64 * MIB if "contents" in what else 0) + SLACK)
    infer_small(server)


# ---- compressed messages -----------------------------------------------------------------------

def zeros(n_bytes):
    return [bytes(MIB)] * (n_bytes // MIB)


def test_message_without_an_end_is_not_decompressed(server):
    """1 GiB in 1.09 MB, held for as long as the call was open."""
    packed = pack(zeros(1 << 30))
    before = forget_peak(server)
    with Raw(server) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, head(INFER, **{"grpc-encoding": "gzip"})))
        send_message(raw, 1, grpc_message(packed), 0)
        raw.send(call(3))
        assert raw.has_answer(3)
        check_peak(server, before, 4 * len(packed) + SLACK)


def test_many_messages_without_an_end(server):
    packed = pack(zeros(60 * MIB))
    before = forget_peak(server)
    with Raw(server) as raw:
        for stream in range(1, 101, 2):
            raw.send(frame(HEADERS, END_HEADERS, stream, head(INFER, **{"grpc-encoding": "gzip"})))
            send_message(raw, stream, grpc_message(packed), 0)
        raw.send(call(101))
        assert raw.has_answer(101)
        check_peak(server, before, 50 * 4 * len(packed) + SLACK)


@pytest.mark.parametrize("path", [INFER, STREAM_INFER])
def test_gib_in_a_message(server, path):
    """Refused once 64 MiB have come out."""
    packed = pack(zeros(1 << 30))
    before = forget_peak(server)
    with Raw(server) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, head(path, **{"grpc-encoding": "gzip"})))
        send_message(raw, 1, grpc_message(packed), 1)
        assert raw.has_answer(1)
    check_peak(server, before, 2 * 64 * MIB + SLACK)


# ---- answers ----------------------------------------------------------------------------------

@pytest.mark.parametrize("accept", [None, "deflate"])
def test_request_is_gone_before_its_answer_is_read(server, accept):
    """The answer takes 32 MiB; so did the request, and does not any more."""
    n = 20 * MIB
    body = hashlib.shake_128(b"body").digest(n)  # not to be compressed
    lines = [b"POST /v2/models/bytes/infer HTTP/1.1", b"Host: x", b"Content-Length: %d" % n,
             b"Inference-Header-Content-Length: 0"]
    if accept:
        lines.append(b"Accept-Encoding: " + accept.encode())
    success = 'nv_inference_request_success{model="bytes",version="1"}'
    n_before = metrics(server)[success]
    with Wire(server.http_port) as wire:
        wire.send(b"\r\n".join(lines), b"\r\n\r\n", body)
        deadline = time.monotonic() + 20
        while (now := metrics(server))[success] == n_before or not (
                32 * MIB <= now["neso_memory_budget_used_bytes"] <= 40 * MIB):
            assert time.monotonic() < deadline, now["neso_memory_budget_used_bytes"]
        answer = wire.read_answer()
        content = zlib.decompress(answer.body) if accept else answer.body
        length = int(answer.headers["inference-header-content-length"])
        assert (answer.status, content[length:] == body) == (200, True)


# ---- the budget --------------------------------------------------------------------------------

BUDGET = 64 * MIB


@pytest.fixture(scope="module", name="tight")
def tight_server(tmp_path_factory):
    require_build(BACKENDS)
    repository = tmp_path_factory.mktemp("tight")
    write_repository(repository, MODELS)
    running = Server(repository, [*OPTIONS, f"--memory-budget={BUDGET}"])
    yield running
    assert running.stop() == 0, running.text()


USED_UP = "the server's memory budget (--memory-budget) is used up"


def refused(server):
    return metrics(server).get('neso_rejected_total{limit="memory_budget"}', 0)


def test_body_beyond_the_budget(tight):
    """413 for one of which the budget never has room; 503 while another request has the room."""
    raw = {"Inference-Header-Content-Length": "0"}
    reply = post(tight, "bytes/infer", bytes(60 * MIB), **raw)
    assert (reply.status_code, reply.json()) == (413, {
        "error": f"request body of {60 * MIB} bytes exceeds the maximum of {32 * MIB} bytes that the "
                 "server's memory budget (--memory-budget) permits"})
    n = refused(tight)
    with Wire(tight.http_port) as other:
        other.send(b"POST /v2/models/bytes/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                   b"Inference-Header-Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % (30 * MIB))
        assert other.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        reply = post(tight, "bytes/infer", bytes(30 * MIB), **raw)
        assert (reply.status_code, reply.json()) == (503, {"error": USED_UP})
        assert refused(tight) == n + 1
    infer_small(tight)


def test_compressed_body_beyond_the_budget(tight):
    """The connection goes on."""
    n = refused(tight)
    with requests.Session() as session:
        infer_small(tight, session)
        reply = post(tight, "bytes/infer", gzip.compress(bytes(60 * MIB)), session,
                     **{"Inference-Header-Content-Length": "0", "Content-Encoding": "gzip"})
        assert (reply.status_code, reply.json()) == (
            503, {"error": f"unable to decompress the request body: {USED_UP}"})
        assert "Connection" not in reply.headers
        infer_small(tight, session)
    assert refused(tight) > n


@pytest.fixture(name="tight_stub")
def tight_stub_of(tight, stubs):  # noqa: F811
    with open_channel(tight) as channel:
        yield Client(channel, stubs)


def tensor(stubs, n_bytes):  # noqa: F811
    made = stubs.service.ModelInferRequest(model_name="bytes")
    made.inputs.add(name="INPUT0", datatype="UINT8", shape=[n_bytes])
    made.raw_input_contents.append(bytes(n_bytes))
    return made


@pytest.mark.parametrize("compression,text", [
    (grpc.Compression.NoCompression, USED_UP),
    (grpc.Compression.Gzip, f"unable to decompress a message: {USED_UP}")])
def test_message_beyond_the_budget(tight, tight_stub, stubs, compression, text):  # noqa: F811
    n = refused(tight)
    tight_stub.ModelInfer(tensor(stubs, 10))  # clients connect first, and only then compress
    with pytest.raises(grpc.RpcError) as failure:
        tight_stub.ModelInfer(tensor(stubs, 60 * MIB), compression=compression, timeout=60)
    assert (failure.value.code(), failure.value.details()) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED, text)
    assert refused(tight) > n
    assert tight_stub.ModelInfer(tensor(stubs, 10)).raw_output_contents[0] == bytes(10)


def wait_for_little(server):
    """Until what requests have held is given back."""
    deadline = time.monotonic() + 20
    while (used := metrics(server)["neso_memory_budget_used_bytes"]) > 4 * MIB:
        assert time.monotonic() < deadline, used


def test_tensors_between_steps_beyond_the_budget(tight):
    """A body of 16 MiB, and three times as much between the steps."""
    wait_for_little(tight)
    n = refused(tight)
    reply = post(tight, "wide/infer", bytes(16 * MIB), **{"Inference-Header-Content-Length": "0"})
    assert (reply.status_code, reply.json()) == (
        503, {"error": f"in ensemble 'wide', {USED_UP} for output 'OUTPUT0' of 16777216 bytes"})
    assert refused(tight) > n
    wait_for_little(tight)
    body = hashlib.shake_128(b"body").digest(8 * MIB)
    reply = post(tight, "wide/infer", body, **{"Inference-Header-Content-Length": "0"})
    length = int(reply.headers["Inference-Header-Content-Length"])
    assert (reply.status_code, reply.content[length:] == body) == (200, True)
    wait_for_little(tight)


def test_what_fits_is_served(tight, tight_stub, stubs):  # noqa: F811
    for _ in range(5):
        answer = tight_stub.ModelInfer(tensor(stubs, 10 * MIB), compression=grpc.Compression.Gzip)
        assert len(answer.raw_output_contents[0]) == 10 * MIB


def test_one_connection_cannot_hold_it_all(tight):
    """Bodies that never end take large pieces up to seven eighths; small requests go on."""
    with Wire(tight.http_port) as first, Wire(tight.http_port) as second:
        text = b"POST /v2/models/bytes/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nxx"
        first.send(text % (30 * MIB))
        infer_small(tight)
        assert metrics(tight)["neso_memory_budget_used_bytes"] >= 32 * MIB
        second.send(text % (30 * MIB))
        assert second.read_answer().status == 503
        infer_small(tight)


def test_refusal_after_much_was_decoded(tight, tight_stub, stubs):  # noqa: F811
    """What the handler had in its arena is gone by then; what is sent of it is not."""
    made = stubs.service.ModelInferRequest(model_name="x" * 5000)
    for _ in range(4096):
        made.inputs.add()
    with pytest.raises(grpc.RpcError) as failure:
        tight_stub.ModelInfer(made, timeout=20)
    assert failure.value.details() == f"Request for unknown model: '{'x' * 5000}' is not found"
    body = '{"inputs":[' + ",".join(['{"name":"n","datatype":"UINT8","shape":[1],"data":[1]}'] *
                                    4096) + "]}"
    reply = post(tight, "bytes/infer", body)
    assert (reply.status_code, reply.headers["Content-Type"]) == (400, "application/json")
    assert "input 'n' already exists" in reply.json()["error"]


def test_too_little(tmp_path):
    with pytest.raises(AssertionError, match="--memory-budget must be at least 16777216 bytes, got: "
                                             "1000"):
        Server(tmp_path, ("--memory-budget=1000",))


def test_gauges(tight):
    now = metrics(tight)
    assert now["neso_memory_budget_limit_bytes"] == BUDGET
    assert 0 <= now["neso_memory_budget_used_bytes"] <= BUDGET


# ---- little address space ----------------------------------------------------------------------

@pytest.mark.skipif(is_sanitized(), reason="a sanitizer's shadow takes more")
def test_little_address_space(tmp_path):
    """Under a limit of the address space a short error text asked for 1 GiB, and the server ended."""
    require_build(BACKENDS)
    write_repository(tmp_path, MODELS)
    running = Server(tmp_path, OPTIONS, under=("prlimit", "--as=3000000000"))
    packed = pack(repeated_json("shape", 62_000_000))
    for _ in range(3):
        reply = post(running, "bytes/infer", packed, **{"Content-Encoding": "gzip"})
        assert 400 <= reply.status_code < 504 and reply.json()["error"]
    for what in FIELDS:
        with Raw(running) as raw:
            raw.send(frame(HEADERS, END_HEADERS, 1, head(INFER, **{"grpc-encoding": "gzip"})))
            send_message(raw, 1, grpc_message(pack(repeated_message(what, 60 * MIB))), 1)
            assert raw.has_answer(1)
    infer_small(running)
    assert running.stop() == 0, running.text()
