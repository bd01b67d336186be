# SPDX-License-Identifier: BSD-3-Clause
"""Clients as people write them: what Triton's own client library does with geventhttpclient and
grpcio, requests, curl and h2load on the gRPC port. What each answer says in detail is tested
elsewhere; here is that these clients work as they are used."""
import gzip
import json
import re
import shutil
import struct
import subprocess
import zlib

import grpc
import numpy
import pytest
import requests

from grpc_curl import curl, framed  # noqa: F401
from grpc_stubs import SECONDS, Client, client, open_channel, plain, stubs  # noqa: F401

BACKENDS = ("identity",)
OPTIONS = ("--grpc-infer-response-compression-level=medium",)


def tensors(kind_of, number, dims):
    return "".join(f'{kind} {{ name: "{name}{number}" data_type: {kind_of} dims: {dims} }}\n'
                   for kind, name in (("input", "INPUT"), ("output", "OUTPUT")))


# As "simple" of Triton's examples: two inputs of 16 integers, in batches.
MODELS = {
    "simple": ('backend: "identity"\nmax_batch_size: 8\ndynamic_batching { }\n'
               + tensors("TYPE_INT32", 0, [16]) + tensors("TYPE_INT32", 1, [16])),
    "fp32": 'backend: "identity"\n' + tensors("TYPE_FP32", 0, [-1]),
}

A = numpy.arange(16, dtype="<i4").reshape(1, 16)
B = numpy.full((1, 16), -1, "<i4")


# ---- Triton's HTTP client: geventhttpclient, one pool of connections ----------------------------


@pytest.fixture(scope="module")
def pool(server):
    gevent = pytest.importorskip("geventhttpclient")
    opened = gevent.HTTPClient("127.0.0.1", server.http_port, concurrency=8,
                               connection_timeout=SECONDS, network_timeout=SECONDS)
    yield opened
    opened.close()


def triton_body(request_id, **outputs):
    """What tritonclient.http makes of two inputs with set_data_from_numpy() and of requested
    outputs: JSON, and the tensors behind it."""
    head = {"id": request_id, "inputs": [
        {"name": f"INPUT{n}", "shape": [1, 16], "datatype": "INT32",
         "parameters": {"binary_data_size": 64}} for n in (0, 1)]}
    if outputs:
        head["outputs"] = [{"name": name, "parameters": {"binary_data": is_binary}}
                           for name, is_binary in outputs.items()]
    else:
        head["parameters"] = {"binary_data_output": True}
    head = json.dumps(head).encode()
    return head + A.tobytes() + B.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def read_tensors(body, n_head):
    """As InferResult.as_numpy() does."""
    head = json.loads(body[:n_head]) if n_head else json.loads(body)
    at, found = n_head or len(body), {}
    for output in head["outputs"]:
        if "data" in output:
            content = numpy.array(output["data"], "<i4").tobytes()
        else:
            size = output["parameters"]["binary_data_size"]
            content, at = body[at:at + size], at + size
        found[output["name"]] = numpy.frombuffer(content, "<i4").reshape(output["shape"])
    assert at == len(body)
    return head, found


def read_gevent(reply):
    """InferResult of tritonclient.http: it looks for these headers, and decompresses by itself."""
    body = reply.read()
    encoding = reply.get("Content-Encoding")
    if encoding == "gzip":
        body = gzip.decompress(body)
    elif encoding == "deflate":
        body = zlib.decompress(body)
    return read_tensors(body, int(reply.get("Inference-Header-Content-Length") or 0))


def assert_pair(found):
    assert set(found) == {"OUTPUT0", "OUTPUT1"}
    assert (found["OUTPUT0"] == A).all() and (found["OUTPUT1"] == B).all()


def test_gevent_health_and_metadata(pool):
    for path in ("v2/health/live", "v2/health/ready", "v2/models/simple/ready",
                 "v2/models/simple/versions/1/ready"):
        reply = pool.get(path)
        assert (reply.status_code, reply.read()) == (200, b"")
    assert json.loads(pool.get("v2").read())["name"] == "triton"
    metadata = json.loads(pool.get("v2/models/simple").read())
    assert [i["shape"] for i in metadata["inputs"]] == [[-1, 16], [-1, 16]]
    assert json.loads(pool.get("v2/models/simple/config").read())["max_batch_size"] == 8
    index = json.loads(pool.post("v2/repository/index", "").read())
    assert [(m["name"], m["state"]) for m in index] == [("fp32", "READY"), ("simple", "READY")]


@pytest.mark.parametrize("outputs", [
    {}, {"OUTPUT0": True, "OUTPUT1": True}, {"OUTPUT0": False, "OUTPUT1": True}], ids=str)
def test_gevent_infer(pool, outputs):
    body, headers = triton_body("17", **outputs)
    reply = pool.post("v2/models/simple/infer", body=body, headers=headers)
    assert reply.status_code == 200
    head, found = read_gevent(reply)
    assert head["id"] == "17"
    assert_pair(found)


@pytest.mark.parametrize("sent,asked", [("gzip", None), ("deflate", None), (None, "gzip"),
                                        (None, "deflate"), ("gzip", "deflate")])
def test_gevent_compression(pool, sent, asked):
    """request_compression_algorithm and response_compression_algorithm of tritonclient."""
    body, headers = triton_body("c")
    if sent:
        body = gzip.compress(body) if sent == "gzip" else zlib.compress(body)
        headers["Content-Encoding"] = sent
    if asked:
        headers["Accept-Encoding"] = asked
    reply = pool.post("v2/models/simple/infer", body=body, headers=headers)
    assert reply.status_code == 200
    assert reply.get("Content-Encoding") == asked
    assert_pair(read_gevent(reply)[1])


def test_gevent_error(pool):
    reply = pool.post("v2/models/simple/infer", body=b'{"inputs":[]}')
    assert reply.status_code == 400
    assert json.loads(reply.read())["error"].startswith(
        "[request id: <id_unknown>] expected 2 inputs but got 0 inputs for model 'simple'.")


def test_gevent_async(server, pool):
    """async_infer(): greenlets on a pool of connections, which stay open."""
    gevent = pytest.importorskip("gevent.pool")

    def infer(n):
        body, headers = triton_body(str(n))
        head, found = read_gevent(pool.post("v2/models/simple/infer", body=body, headers=headers))
        assert_pair(found)
        return head["id"]

    before = connections(server)
    assert gevent.Pool(8).map(infer, range(400)) == [str(n) for n in range(400)]
    assert connections(server) - before <= 8


def connections(server):
    """How many sockets the server has open."""
    sockets = subprocess.run(["ls", "-l", f"/proc/{server.process.pid}/fd"], check=True,
                             capture_output=True, text=True).stdout
    return sockets.count("socket:")


# ---- requests -----------------------------------------------------------------------------------


def test_requests_keep_alive(server):
    """A session has one connection, through answers of every kind."""
    with requests.Session() as session:
        addresses = set()

        def ask(method, path, **arguments):
            reply = session.request(method, f"{server.url}{path}", timeout=SECONDS, stream=True,
                                    **arguments)
            addresses.add(reply.raw._connection.sock.getsockname())
            return reply.status_code, reply.content

        for n in range(20):
            body, headers = triton_body(str(n))
            status, content = ask("POST", "/v2/models/simple/infer", data=body, headers=headers)
            assert status == 200 and content.endswith(B.tobytes())
            assert ask("GET", "/v2/health/ready") == (200, b"")
            assert ask("GET", "/v2/models/nobody")[0] == 404
            assert ask("GET", "/nowhere")[0] == 404
            assert ask("DELETE", "/v2")[0] == 405
            assert ask("POST", "/v2/models/simple/infer", data=b"{")[0] == 400
        assert len(addresses) == 1


def test_requests_without_keep_alive(server):
    body, headers = triton_body("1")
    reply = requests.post(f"{server.url}/v2/models/simple/infer", data=body, timeout=SECONDS,
                          headers={**headers, "Connection": "close"})
    assert reply.headers["Connection"].lower() == "close"
    assert_pair(read_tensors(reply.content,
                             int(reply.headers["Inference-Header-Content-Length"]))[1])


def test_requests_generator_body(server):
    """Sent in chunks, as of a file that grows."""
    body, headers = triton_body("chunks")
    reply = requests.post(f"{server.url}/v2/models/simple/infer", headers=headers, timeout=SECONDS,
                          data=(body[n:n + 11] for n in range(0, len(body), 11)))
    assert_pair(read_tensors(reply.content,
                             int(reply.headers["Inference-Header-Content-Length"]))[1])


# ---- Triton's gRPC client: grpcio ---------------------------------------------------------------


def pair(client, **more):  # noqa: F811
    return client.request("simple", [("INPUT0", "INT32", [1, 16]), ("INPUT1", "INT32", [1, 16])],
                          [A.tobytes(), B.tobytes()], **more)


def assert_reply(reply, request_id=""):
    assert reply.id == request_id
    found = dict(zip((o.name for o in reply.outputs), reply.raw_output_contents))
    assert found == {"OUTPUT0": A.tobytes(), "OUTPUT1": B.tobytes()}


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip,
                                         grpc.Compression.Deflate])
def test_grpc_compression(client, compression):  # noqa: F811
    """compression_algorithm of tritonclient: of requests, and what the answers may be in."""
    reply, call = client.ModelInfer.with_call(pair(client, id="z"), timeout=SECONDS,
                                              compression=compression)
    assert_reply(reply, "z")
    assert call.code() == grpc.StatusCode.OK


def test_grpc_stream_compression(client):  # noqa: F811
    requests_ = [pair(client, id=str(n)) for n in range(50)]
    replies = list(client.ModelStreamInfer(iter(requests_), timeout=SECONDS,
                                           compression=grpc.Compression.Gzip))
    for number, message in enumerate(replies):
        assert message.error_message == ""
        assert_reply(message.infer_response, str(number))
        assert plain(message.infer_response.parameters) == {"triton_final_response": True}
    assert len(replies) == 50


def test_grpc_async_calls_on_one_channel(client):  # noqa: F811
    """async_infer(): more than the server allows on a connection at a time."""
    calls = [client.ModelInfer.future(pair(client, id=str(n)), timeout=SECONDS)
             for n in range(1000)]
    for number, call in enumerate(calls):
        assert_reply(call.result(), str(number))


def test_grpc_callbacks(client):  # noqa: F811
    """An answer tells by a callback, on a thread of gRPC."""
    import threading
    ids, done = [], threading.Event()

    def on_done(call):
        ids.append(call.result().id)
        if len(ids) == 100:
            done.set()

    for n in range(100):
        client.ModelInfer.future(pair(client, id=str(n)), timeout=SECONDS).add_done_callback(on_done)
    assert done.wait(SECONDS)
    assert sorted(ids, key=int) == [str(n) for n in range(100)]


def test_grpc_asyncio(server, stubs):  # noqa: F811
    """tritonclient.grpc.aio, streams included."""
    import asyncio
    method = "/inference.GRPCInferenceService/"
    pb = stubs.service

    async def talk():
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port('grpc')}") as channel:
            maker = Client(channel, stubs)
            unary = channel.unary_unary(method + "ModelInfer",
                                        request_serializer=pb.ModelInferRequest.SerializeToString,
                                        response_deserializer=pb.ModelInferResponse.FromString)
            replies = await asyncio.gather(*(unary(pair(maker, id=str(n)), timeout=SECONDS)
                                             for n in range(200)))
            stream = channel.stream_stream(
                method + "ModelStreamInfer",
                request_serializer=pb.ModelInferRequest.SerializeToString,
                response_deserializer=pb.ModelStreamInferResponse.FromString)(timeout=SECONDS)
            streamed = []
            for n in range(50):
                await stream.write(pair(maker, id=str(n)))
                streamed.append((await stream.read()).infer_response)
            await stream.done_writing()
            assert await stream.read() is grpc.aio.EOF
            return replies, streamed

    for replies in asyncio.run(talk()):
        for number, reply in enumerate(replies):
            assert_reply(reply, str(number))


def test_grpc_keepalive(server, stubs):  # noqa: F811
    """A channel with the KeepAliveOptions that tritonclient sets."""
    options = [("grpc.keepalive_time_ms", 2**31 - 1), ("grpc.keepalive_timeout_ms", 20000),
               ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 2),
               ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.port('grpc')}", options) as channel:
        own = Client(channel, stubs)
        assert_reply(own.ModelInfer(pair(own), timeout=SECONDS))


def test_grpc_wait_for_ready(server, stubs):  # noqa: F811
    with open_channel(server) as channel:
        grpc.channel_ready_future(channel).result(SECONDS)
        own = Client(channel, stubs)
        assert own.ServerLive(own.pb.ServerLiveRequest(), timeout=SECONDS, wait_for_ready=True).live


# ---- curl and h2load on the gRPC port -----------------------------------------------------------


INFER = "/inference.GRPCInferenceService/ModelInfer"


def test_curl_health(curl, stubs):  # noqa: F811
    call = curl("/grpc.health.v1.Health/Check",
                framed(stubs.health.HealthCheckRequest(service="").SerializeToString()))
    assert call.first.startswith("HTTP/2 200")
    assert (call.fields["content-type"], call.fields["grpc-status"]) == ("application/grpc", "0")
    status = stubs.health.HealthCheckResponse
    assert [status.FromString(m).status for m in call.messages] == [status.SERVING]


def test_curl_infer(curl, client):  # noqa: F811
    call = curl(INFER, framed(pair(client, id="of curl").SerializeToString()))
    assert (call.first, call.fields["grpc-status"]) == ("HTTP/2 200", "0")
    reply, = call.messages
    assert_reply(client.pb.ModelInferResponse.FromString(reply), "of curl")


def test_curl_status(curl, client):  # noqa: F811
    """A call that fails has no message; the text is percent-encoded where it must be."""
    call = curl(INFER, framed(client.request("10 % gr\u00f6\u00dfer").SerializeToString()))
    assert (call.first, call.fields["grpc-status"]) == ("HTTP/2 200", "5")
    assert call.fields["grpc-message"] == (
        "Request for unknown model: '10 %25 gr%C3%B6%C3%9Fer' is not found")
    assert call.messages == []


def test_curl_stream(curl, client):  # noqa: F811
    """Several messages in one body, which is half-closed behind them."""
    body = b"".join(framed(pair(client, id=str(n)).SerializeToString()) for n in range(3))
    call = curl("/inference.GRPCInferenceService/ModelStreamInfer", body)
    assert call.fields["grpc-status"] == "0"
    replies = [client.pb.ModelStreamInferResponse.FromString(m) for m in call.messages]
    for number, message in enumerate(replies):
        assert_reply(message.infer_response, str(number))
    assert len(replies) == 3


def test_curl_compressed(curl, client):  # noqa: F811
    """A gzip message with its flag; the answer is compressed only for who accepts it."""
    packed = gzip.compress(pair(client).SerializeToString())
    body = b"\1" + struct.pack(">I", len(packed)) + packed
    call = curl(INFER, body, "--header", "grpc-encoding: gzip")
    assert call.fields["grpc-status"] == "0"
    assert call.is_compressed == [False]
    assert_reply(client.pb.ModelInferResponse.FromString(call.messages[0]))
    call = curl(INFER, None, "--header", "grpc-encoding: brotli")
    assert call.fields["grpc-status"] == "12"
    assert "gzip" in call.fields["grpc-accept-encoding"]


def test_curl_deadline_that_is_none(curl, client):  # noqa: F811
    message = framed(pair(client).SerializeToString())
    assert curl(INFER, message, "--header", "grpc-timeout: 5S").fields["grpc-status"] == "0"
    call = curl(INFER, None, "--header", "grpc-timeout: 5 seconds")
    assert (call.fields["grpc-status"], call.fields["grpc-message"]) == (
        "13", "malformed grpc-timeout")


def succeeded(client):  # noqa: F811
    stats = client.call("ModelStatistics", {"name": "simple"}).model_stats[0].inference_stats
    assert stats.fail.count == 0
    return stats.success.count


@pytest.mark.skipif(shutil.which("h2load") is None, reason="no h2load")
@pytest.mark.parametrize("method", ["ServerLive", "ModelInfer"])
def test_h2load(server, client, tmp_path, method):  # noqa: F811
    """Many calls at once on several connections: each succeeds."""
    message = pair(client).SerializeToString() if method == "ModelInfer" else b""
    (tmp_path / "message").write_bytes(framed(message))
    before = succeeded(client)
    done = subprocess.run(["h2load", "-n", "4000", "-c", "8", "-m", "32", "-t", "2", "-d",
                           tmp_path / "message", "-H", "content-type: application/grpc", "-H",
                           "te: trailers",
                           f"http://127.0.0.1:{server.port('grpc')}"
                           f"/inference.GRPCInferenceService/{method}"],
                          capture_output=True, text=True, timeout=60, check=True)
    counts = re.search(r"requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) "
                       r"failed, (\d+) errored, (\d+) timeout", done.stdout)
    assert counts.groups() == ("4000", "4000", "4000", "0", "0", "0"), done.stdout
    assert "status codes: 4000 2xx, 0 3xx, 0 4xx, 0 5xx" in done.stdout
    # The status of gRPC, which is behind that of HTTP, h2load does not look at.
    assert succeeded(client) - before == (4000 if method == "ModelInfer" else 0)
