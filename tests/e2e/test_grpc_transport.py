# SPDX-License-Identifier: BSD-3-Clause
"""gRPC as a transport: real clients (grpcio, curl) and hostile ones (raw frames), against the
options that bound them. What the methods mean is the business of other modules."""
import concurrent.futures
import gzip
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import grpc
import pytest

from conftest import ROOT, Server, write_repository
from frames import (ACK, CALM, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, LIVE, PING,
                    PREFACE, RST_STREAM, SETTINGS, Raw, call, field, frame, head, reset)

TAKES_SECONDS = 13

BACKENDS = ["identity"]
MODELS = {
    "bytes": """backend: "identity" max_batch_size: 0
        input [{ name: "INPUT0" data_type: TYPE_UINT8 dims: [-1] }]
        output [{ name: "OUTPUT0" data_type: TYPE_UINT8 dims: [-1] }]""",
}
OPTIONS = ["--grpc-restricted-protocol=trace,logging:admin=s3cret",
           "--grpc-infer-response-compression-level=low",
           "--grpc-max-message-size=67108864",
           "--grpc-max-header-bytes=4096"]


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    """The modules that protoc makes of proto/."""
    tools = pytest.importorskip("grpc_tools.protoc")
    folder = tmp_path_factory.mktemp("stubs")
    files = ["grpc_service.proto", "model_config.proto", "health.proto"]
    assert tools.main(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder}",
                       f"--grpc_python_out={folder}", *files]) == 0
    sys.path.insert(0, str(folder))
    import grpc_service_pb2
    import grpc_service_pb2_grpc
    return grpc_service_pb2, grpc_service_pb2_grpc


@pytest.fixture
def channel(server):
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.port('grpc')}", options) as channel:
        yield channel


@pytest.fixture
def inference(stubs, channel):
    return stubs[1].GRPCInferenceServiceStub(channel)


def request(stubs, content, **more):
    made = stubs[0].ModelInferRequest(model_name="bytes", **more)
    made.inputs.add(name="INPUT0", datatype="UINT8", shape=[len(content)])
    made.raw_input_contents.append(content)
    return made


def pattern(n):
    block = bytes(range(251))
    return (block * (n // len(block) + 1))[:n]


# ---- real clients ----

@pytest.mark.parametrize("n", [0, 1, 1000, 16384, 100_000, 1 << 20, 30_000_000])
def test_message_of_size(stubs, inference, n):
    answer = inference.ModelInfer(request(stubs, pattern(n)))
    assert answer.raw_output_contents[0] == pattern(n)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_request(stubs, inference, compression):
    answer = inference.ModelInfer(request(stubs, pattern(300_000)), compression=compression)
    assert answer.raw_output_contents[0] == pattern(300_000)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_zeros_are_as_dense_as_can_be(stubs, inference, compression):
    """A tensor of zeros comes to a thousandth of its size; it is as welcome as any other."""
    inference.ModelInfer(request(stubs, b""))  # clients connect first, and only then compress
    answer = inference.ModelInfer(request(stubs, bytes(20 << 20)), compression=compression,
                                  timeout=20)
    assert answer.raw_output_contents[0] == bytes(20 << 20)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_what_decompresses_to_too_much(stubs, inference, compression):
    inference.ModelInfer(request(stubs, b""))  # clients connect first, and only then compress
    with pytest.raises(grpc.RpcError) as refusal:
        inference.ModelInfer(request(stubs, pattern(70 << 20)), compression=compression, timeout=20)
    assert (refusal.value.code(), refusal.value.details()) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "Received message larger than max (67108864), decompressed")


def test_many_calls_at_once(stubs, inference):
    calls = [inference.ModelInfer.future(request(stubs, pattern(i), id=str(i)))
             for i in range(1000)]
    for i, call in enumerate(calls):
        answer = call.result(30)
        assert (answer.id, answer.raw_output_contents[0]) == (str(i), pattern(i))


def test_many_connections(stubs, server):
    def one(i):
        # Channels of equal options share a connection.
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{server.port('grpc')}", options) as channel:
            stub = stubs[1].GRPCInferenceServiceStub(channel)
            return [len(stub.ModelInfer(request(stubs, pattern(i * 100 + j)))
                        .raw_output_contents[0]) for j in range(20)]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for i, sizes in enumerate(pool.map(one, range(32))):
            assert sizes == [i * 100 + j for j in range(20)]


def test_stream(stubs, inference):
    sizes = [i * 997 % 100_000 for i in range(300)]
    answers = list(inference.ModelStreamInfer(request(stubs, pattern(n)) for n in sizes))
    assert [a.error_message for a in answers] == [""] * len(sizes)
    assert [len(a.infer_response.raw_output_contents[0]) for a in answers] == sizes


def test_stream_that_is_not_read(server, stubs):
    """Requests of 1 MiB whose answers wait: the client's writes stop, and nothing is lost.

    The client's window is fixed: with bandwidth probes it grows with the round-trip time, so that on a
    busy machine the client may take all answers before it reads one."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.http2.bdp_probe", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{server.port('grpc')}", options) as channel:
        check_stream_that_is_not_read(stubs, stubs[1].GRPCInferenceServiceStub(channel))


def check_stream_that_is_not_read(stubs, inference):
    content = random.Random(1).randbytes(1 << 20)  # nothing that compresses
    sent = []
    goes_on = threading.Event()

    def requests():
        for i in range(100):
            sent.append(i)
            goes_on.set()
            yield request(stubs, content)

    answers = inference.ModelStreamInfer(requests())
    next(answers)
    while goes_on.wait(1):
        goes_on.clear()
    assert len(sent) < 100
    for answer in answers:
        assert len(answer.infer_response.raw_output_contents[0]) == len(content)
    assert len(sent) == 100


def test_cancelled_stream(stubs, inference):
    end = threading.Event()

    def requests():
        yield request(stubs, b"x")
        end.wait(30)

    answers = inference.ModelStreamInfer(requests())
    next(answers)
    answers.cancel()
    end.set()
    with pytest.raises(grpc.RpcError) as failure:
        next(answers)
    assert failure.value.code() == grpc.StatusCode.CANCELLED
    assert inference.ServerLive(stubs[0].ServerLiveRequest()).live


def test_unknown_method(channel):
    long = "/no.Such/Method" + "x" * 500
    for path, reported in (("/no.Such/Method", "/no.Such/Method"), ("/a%b'c", "/a%b'c"),
                           (long, long[:256])):
        with pytest.raises(grpc.RpcError) as failure:
            channel.unary_unary(path)(b"")
        assert failure.value.code() == grpc.StatusCode.UNIMPLEMENTED
        assert failure.value.details() == f"unknown method '{reported}'"


def test_message_too_large(channel):
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    with pytest.raises(grpc.RpcError) as failure:
        call(bytes(67108865))
    assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert failure.value.details() == "Received message larger than max (67108865 vs. 67108864)"


def test_restricted_protocol(stubs, inference):
    ask = stubs[0].LogSettingsRequest()
    with pytest.raises(grpc.RpcError) as failure:
        inference.LogSettings(ask)
    assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
    assert failure.value.details() == ("This protocol is restricted, expecting header "
                                       "'triton-grpc-protocol-admin'")
    with pytest.raises(grpc.RpcError):
        inference.LogSettings(ask, metadata=[("triton-grpc-protocol-admin", "s3cre")])
    inference.LogSettings(ask, metadata=[("triton-grpc-protocol-admin", "s3cret")])
    assert inference.ServerLive(stubs[0].ServerLiveRequest()).live


def test_metadata_too_large(stubs, inference):
    with pytest.raises(grpc.RpcError) as failure:
        inference.ServerLive(stubs[0].ServerLiveRequest(), metadata=[("x", "y" * 5000)])
    assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_non_ascii_message(stubs, inference):
    with pytest.raises(grpc.RpcError) as failure:
        inference.ModelMetadata(stubs[0].ModelMetadataRequest(name="50% größer\n"))
    assert failure.value.details() == "Request for unknown model: '50% größer\n' is not found"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl(server, tmp_path):
    (tmp_path / "message").write_bytes(bytes(5))
    url = f"http://127.0.0.1:{server.port('grpc')}{LIVE}"
    done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-m", "20", "-D", "-",
                           "-H", "content-type: application/grpc", "-H", "te: trailers",
                           "--data-binary", f"@{tmp_path / 'message'}", url],
                          capture_output=True, check=True)
    assert b"HTTP/2 200" in done.stdout
    assert b"grpc-status: 0" in done.stdout
    assert b"\0\0\0\0\2\x08\1" in done.stdout
    done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-m", "20", "-o", "/dev/null",
                           "-w", "%{http_code}", url], capture_output=True, check=True)
    assert done.stdout == b"405"


# ---- hostile clients ----

@pytest.fixture
def raw(server):
    opened = []

    def open_raw(**more):
        opened.append(Raw(server, **more))
        return opened[-1]

    yield open_raw
    for connection in opened:
        connection.socket.close()
    last = Raw(server)
    last.send(call(1))
    assert last.has_answer(1)  # whatever came before
    last.socket.close()


def test_raw_call(raw):
    connection = raw()
    connection.send(call(1) + call(3))
    assert connection.has_answer(1) and connection.has_answer(3)


@pytest.mark.parametrize("split", [0, 1, 8, 9, 12, 13])
def test_resets_of_calls_that_were_never_sent(raw, split):
    """The C-core library of gRPC sends them for calls whose deadline is over before their head was sent. The other
    calls of the connection go on."""
    connection = raw()
    connection.send(call(1) + reset(3)[:split])
    assert connection.has_answer(1)
    connection.send(reset(3)[split:] + call(5) + reset(7) + reset(9) + call(11))
    assert connection.has_answer(5) and connection.has_answer(11)


FLOODS = {
    "too_many_pings": frame(PING, 0, 0, bytes(8)) * 100,
    "too_many_resets": b"".join(frame(HEADERS, END_HEADERS, i, head()) +
                                frame(RST_STREAM, 0, i, b"\0\0\0\x08")
                                for i in range(1, 3001, 2)),
    "too_many_control_frames": frame(SETTINGS, 0, 0) * 3000,
    "too_many_control_frames of calls that were never sent": reset(1) * 3000,
    "too_many_continuations": (frame(HEADERS, 0, 1) +
                               frame(CONTINUATION, 0, 1, field("a", "b")) * 99),
    "too_many_header_bytes": frame(HEADERS, END_HEADERS, 1, field("a", "b" * 100) * 400),
}


@pytest.mark.parametrize("text", FLOODS)
def test_flood(raw, text):
    connection = raw()
    connection.send(FLOODS[text])
    code, said = connection.goaway()
    assert code == CALM
    # Frames of several kinds may be too many at the same time.
    assert said == text.split()[0] or (text == "too_many_resets" and said == "too_many_control_frames")


def test_slow_greeting(tmp_path):
    """A server of its own: where there is so little time, busy clients are slow as well."""
    hasty = Server(tmp_path, ["--grpc-header-timeout-ms=500"], waits_for=("grpc",))
    with Raw(hasty, greeting=PREFACE[:5]) as connection:
        assert connection.goaway() == (CALM, "headers_too_slow")
    assert hasty.stop() == 0


@pytest.mark.parametrize("junk", [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01" + bytes(50),
    PREFACE + b"\xff" * 100,
    PREFACE + frame(DATA, 0, 1, b"x"),
    PREFACE + frame(SETTINGS, 0, 0, b"x"),
    PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 2, head()),
    PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, b"\xff" * 9),
])
def test_junk(raw, junk):
    connection = raw(greeting=junk)
    for _ in connection.frames():
        pass  # it ends


def test_decompression_bomb(raw):
    connection = raw()
    packed = gzip.compress(bytes(100 << 20))
    body = b"\1" + struct.pack(">I", len(packed)) + packed
    connection.send(frame(HEADERS, END_HEADERS, 1, head(**{"grpc-encoding": "gzip"})))
    for at in range(0, len(body), 16384):
        last = at + 16384 >= len(body)
        connection.send(frame(DATA, END_STREAM if last else 0, 1, body[at:at + 16384]))
    assert connection.has_answer(1)


def test_rejections_are_counted(server, raw):
    connection = raw()
    connection.send(FLOODS["too_many_pings"])
    connection.goaway()
    with socket.create_connection(("127.0.0.1", server.port("metrics")), 10) as page:
        page.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: page.recv(65536), b"")).decode()
    lines = [line for line in text.splitlines()
             if line.startswith("neso_rejected_total") and 'limit="pings"' in line]
    assert len(lines) == 1 and float(lines[0].split()[-1]) >= 1


# ---- the end of a server ----

@pytest.fixture
def own_server(tmp_path):
    write_repository(tmp_path, MODELS)
    server = Server(tmp_path, ["--exit-timeout-secs=20"], waits_for=("grpc", "http"))
    yield server
    server.stop()


def test_stop_with_open_connections(stubs, own_server):
    """Idle clients do not hold a server up, and a stream that is open ends."""
    with grpc.insecure_channel(f"127.0.0.1:{own_server.port('grpc')}") as channel:
        stub = stubs[1].GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(stubs[0].ServerLiveRequest()).live
        idle = Raw(own_server)
        idle.send(call(1))
        assert idle.has_answer(1)
        began = time.monotonic()
        own_server.process.send_signal(signal.SIGTERM)
        assert idle.goaway() == (0, "")
        idle.socket.close()
        assert own_server.process.wait(30) == 0
        assert time.monotonic() - began < 15


def test_port_in_use(own_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("other")
    write_repository(folder, MODELS)
    with pytest.raises(AssertionError) as failure:
        Server(folder, [f"--grpc-port={own_server.port('grpc')}"])
    assert (f"failed to start GRPC service: Unavailable - Socket "
            f"'127.0.0.1:{own_server.port('grpc')}' already in use") in str(failure.value)
