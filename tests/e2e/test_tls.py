# SPDX-License-Identifier: BSD-3-Clause
"""TLS of HTTP, GRPC and metrics: who is let in, who is not and what the log says, certificates that
change while serving, large bodies, and the end."""
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time

import grpc
import pytest
import requests

import frames
from certificates import Authority, openssl, serial
from conftest import Server, require_build, write_repository
from gate import Gate, gated
from grpc_stubs import SECONDS, Client, stubs  # noqa: F401
from scrape import wait_for_pending
from test_startup_and_stop import BODY, IDENTITY, serve, tensors

TAKES_SECONDS = 18

BACKENDS = ("identity", "testing")


def service(name, cert, key, root=None):
    """The options of one service; with a root, clients need certificates."""
    given = [f"--{name}-server-cert={cert}", f"--{name}-server-key={key}"]
    if root:
        return [f"--{name}-use-ssl-mutual=true", f"--{name}-root-cert={root}", *given]
    return [f"--{name}-use-ssl=true", *given]


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    authority.issue("server")
    authority.issue("client", "a client")
    authority.issue("expired", "late", has_expired=True)
    return authority


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("other"), "other")
    authority.issue("client", "a stranger")
    return authority


@contextlib.contextmanager
def running(tmp_path, *options, models=None):
    require_build(BACKENDS)
    write_repository(tmp_path, models or {"fp32": IDENTITY})
    server = Server(tmp_path, options, waits_for=("http", "grpc", "metrics"))
    try:
        yield server
    finally:
        code = server.stop()
    assert code == 0, server.text()


@pytest.fixture(scope="module")
def server(ca, tmp_path_factory):
    """TLS everywhere; metrics show the certificate of HTTP."""
    pair = ca.cert("server"), ca.key("server")
    with running(tmp_path_factory.mktemp("repository"), *service("http", *pair),
                 *service("grpc", *pair), "--metrics-use-ssl=true",
                 "--http-header-timeout-ms=1000", "--grpc-header-timeout-ms=1000") as started:
        yield started


@pytest.fixture(scope="module")
def mutual(ca, tmp_path_factory):
    """Clients need certificates, but for metrics."""
    pair = ca.cert("server"), ca.key("server")
    with running(tmp_path_factory.mktemp("repository"), *service("http", *pair, ca.root),
                 *service("grpc", *pair, ca.root), "--metrics-use-ssl=true") as started:
        yield started


def url(server, name="http"):
    return f"https://localhost:{server.ports[name]}"


def trusting(ca, who=None, **limits):
    context = ssl.create_default_context(cafile=ca.root)
    for name, value in limits.items():
        setattr(context, name, value)
    if who:
        context.load_cert_chain(*who)
    return context


def connect(server, context, name="http", protocols=()):
    if protocols:
        context.set_alpn_protocols(list(protocols))
    plain = socket.create_connection(("127.0.0.1", server.ports[name]), timeout=SECONDS)
    try:
        return context.wrap_socket(plain, server_hostname="localhost")
    except Exception:
        plain.close()
        raise


@contextlib.contextmanager
def grpc_client(server, stubs, ca, key=None, cert=None):
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1),
               ("grpc.max_send_message_length", -1), ("grpc.enable_retries", 0)]
    credentials = grpc.ssl_channel_credentials(
        open(ca.root, "rb").read(), key and open(key, "rb").read(), cert and open(cert, "rb").read())
    with grpc.secure_channel(f"localhost:{server.ports['grpc']}", credentials, options) as channel:
        yield Client(channel, stubs)


def infer(session, server, raw=None):
    """One inference; `raw` travels as binary tensor both ways."""
    path = f"{url(server)}/v2/models/fp32/infer"
    if raw is None:
        return session.post(path, data=BODY, verify=session.verify, timeout=SECONDS)
    head = json.dumps({
        "inputs": [{"name": "INPUT0", "shape": [len(raw) // 4], "datatype": "FP32",
                    "parameters": {"binary_data_size": len(raw)}}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]}).encode()
    return session.post(path, data=head + raw, verify=session.verify, timeout=60,
                        headers={"Inference-Header-Content-Length": str(len(head))})


def binary(answer):
    return answer.content[int(answer.headers["Inference-Header-Content-Length"]):]


def infer_grpc(client, raw=b"\0\0\x80?"):
    reply = client.infer("fp32", [("INPUT0", "FP32", [len(raw) // 4])], raw=[raw])
    return reply.raw_output_contents[0]


# ---- who is let in ------------------------------------------------------------------------------


def test_requests(server, ca):
    with requests.Session() as session:
        session.verify = ca.root
        for _ in range(3):
            answer = infer(session, server)
            assert answer.status_code == 200
            assert answer.json()["outputs"][0]["data"] == [1.0]


def test_metrics(server, ca):
    page = requests.get(f"{url(server, 'metrics')}/metrics", verify=ca.root, timeout=SECONDS)
    assert page.status_code == 200
    assert "nv_inference_request_success" in page.text


@pytest.mark.parametrize("version", ["--tlsv1.2 --tls-max 1.2", "--tlsv1.3", "--http2"])
def test_curl(server, ca, version):
    ended = subprocess.run(["curl", "-sS", "--cacert", ca.root, *version.split(), "-w",
                            "\n%{http_version} %{http_code}", "-d", BODY,
                            f"{url(server)}/v2/models/fp32/infer"],
                           capture_output=True, text=True, timeout=SECONDS, check=True)
    assert ended.stdout.endswith("\n1.1 200")
    assert '"data":[1.0]' in ended.stdout


def test_grpc(server, stubs, ca):
    with grpc_client(server, stubs, ca) as client:
        assert client.call("ServerLive").live
        for _ in range(3):
            assert infer_grpc(client) == b"\0\0\x80?"


def test_versions_and_suites(server, ca):
    with connect(server, trusting(ca)) as s:
        assert s.version() == "TLSv1.3"
        assert s.selected_alpn_protocol() is None
    old = trusting(ca, maximum_version=ssl.TLSVersion.TLSv1_2)
    with connect(server, old) as s:
        assert s.version() == "TLSv1.2"
        assert s.cipher()[0].startswith("ECDHE-") and "AES128-GCM" in s.cipher()[0]


@pytest.mark.parametrize("offered,chosen", [
    ("TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_256_GCM_SHA384"),
    # Only who has no instructions for AES asks for this first.
    ("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
])
def test_chosen_suite(server, offered, chosen):
    ended = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.ports['http']}",
                            "-tls1_3", "-ciphersuites", offered], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=SECONDS, check=False)
    assert f"Cipher is {chosen}" in ended.stdout


def test_tls_1_1_is_refused(server, ca):
    ended = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.ports['http']}",
                            "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode != 0
    assert "alert protocol version" in ended.stderr
    server.wait_for_line(r"TLS handshake with 127\.0\.0\.1:\d+ failed: unsupported protocol")


@pytest.mark.parametrize("name,offered,chosen", [
    ("http", ["http/1.1"], "http/1.1"),
    ("http", ["h2", "http/1.1"], "http/1.1"),
    ("http", ["h2"], None),
    ("grpc", ["h2"], "h2"),
    ("grpc", ["grpc-exp", "h2"], "h2"),
    ("grpc", ["http/1.1"], None),
    ("metrics", ["http/1.1"], "http/1.1"),
])
def test_alpn(server, ca, name, offered, chosen):
    if chosen:
        with connect(server, trusting(ca), name, offered) as s:
            assert s.selected_alpn_protocol() == chosen
        return
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        connect(server, trusting(ca), name, offered)
    server.wait_for_line("none of the client's application protocols .ALPN. is served here")


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_sessions_are_resumed(server, ca, version):
    context = trusting(ca, minimum_version=ssl.TLSVersion[version],
                       maximum_version=ssl.TLSVersion[version])
    kept = None
    for _ in range(8):  # more than there are loops to come by
        plain = socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=SECONDS)
        with context.wrap_socket(plain, server_hostname="localhost", session=kept) as s:
            assert s.session_reused == (kept is not None)
            s.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert s.recv(1000).startswith(b"HTTP/1.1 200")
            kept = s.session
            assert kept.has_ticket


# ---- certificates of clients --------------------------------------------------------------------


def test_mutual(mutual, stubs, ca):
    who = ca.cert("client"), ca.key("client")
    assert requests.post(f"{url(mutual)}/v2/models/fp32/infer", data=BODY, verify=ca.root, cert=who,
                         timeout=SECONDS).status_code == 200
    with grpc_client(mutual, stubs, ca, who[1], who[0]) as client:
        assert infer_grpc(client) == b"\0\0\x80?"
    page = requests.get(f"{url(mutual, 'metrics')}/metrics", verify=ca.root, timeout=SECONDS)
    assert page.status_code == 200


STRANGERS = [
    ("nobody", "peer did not return a certificate", "CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE"),
    ("stranger", "client certificate: unable to get local issuer certificate", "UNKNOWN_CA"),
    ("expired", "client certificate: certificate has expired", "CERTIFICATE_EXPIRED"),
]


def pair_of(who, ca, other):
    return {"nobody": None, "stranger": (other.cert("client"), other.key("client")),
            "expired": (ca.cert("expired"), ca.key("expired"))}[who]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("who,line,alert", STRANGERS)
def test_mutual_refuses_over_http(mutual, ca, other, who, line, alert, version):
    context = trusting(ca, pair_of(who, ca, other), maximum_version=ssl.TLSVersion[version])
    with pytest.raises(ssl.SSLError, match=alert):
        with connect(mutual, context) as s:
            s.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
            s.recv(1)  # in TLS 1.3 a client learns only here
    mutual.wait_for_line(f"TLS handshake with .* failed: {line}")


@pytest.mark.parametrize("who,line,alert", STRANGERS)
def test_mutual_refuses_over_grpc(mutual, stubs, ca, other, who, line, alert):
    cert, key = pair_of(who, ca, other) or (None, None)
    with grpc_client(mutual, stubs, ca, key, cert) as client:
        code, _ = client.refusal("ServerLive")
        assert code == "UNAVAILABLE"
    mutual.wait_for_line(f"TLS handshake with .* failed: {line}")


def test_mutual_for_metrics_alone(ca, tmp_path):
    pair = ca.cert("server"), ca.key("server")
    with running(tmp_path, *service("metrics", *pair, ca.root)) as own:
        page = f"{url(own, 'metrics')}/metrics"
        assert requests.get(page, verify=ca.root, timeout=SECONDS,
                            cert=(ca.cert("client"), ca.key("client"))).status_code == 200
        with pytest.raises((requests.exceptions.SSLError, requests.exceptions.ConnectionError)):
            requests.get(page, verify=ca.root, timeout=SECONDS)
        own.wait_for_line("TLS handshake with .* failed: peer did not return a certificate")
        assert requests.get(f"http://127.0.0.1:{own.http_port}/v2", timeout=SECONDS).ok


def test_client_that_trusts_somebody_else(server, stubs, other):
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{url(server)}/v2", verify=other.root, timeout=SECONDS)
    server.wait_for_line("TLS handshake with .* failed: tlsv1 alert unknown ca")
    with grpc_client(server, stubs, other) as client:
        assert client.refusal("ServerLive")[0] == "UNAVAILABLE"


# ---- what is no handshake -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["http", "grpc", "metrics"])
@pytest.mark.parametrize("said,line", [
    (b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n", "plain HTTP came where TLS is spoken"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "what came is no TLS"),
    (bytes(range(256)) * 300, "what came is no TLS"),
    (b"\x16\x03\x01\x40\x01" + b"\1" * 20000, "."),
    (b"\x16\x03\x01\x00\x04\x01\xff\xff\xff", "."),
])
def test_garbage(server, name, said, line):
    with socket.create_connection(("127.0.0.1", server.ports[name]), timeout=SECONDS) as s:
        s.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            while s.recv(1000):
                pass
    server.wait_for_line(f"TLS handshake with .* failed: .*{line}")


@pytest.mark.parametrize("name", ["http", "grpc"])
@pytest.mark.parametrize("said", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_stalled_handshake(server, ca, name, said):
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.ports[name]), timeout=SECONDS) as s:
        s.sendall(said)
        assert s.recv(1) == b""
        assert 0.9 <= time.monotonic() - began < 10
    server.wait_for_line("TLS handshake with .* failed: it took too long")
    page = requests.get(f"{url(server, 'metrics')}/metrics", verify=ca.root, timeout=SECONDS).text
    assert 'neso_rejected_total{limit="tls_handshake_time"}' in page


def test_silent_probe_is_no_news(server, ca):
    before = len(server.text())  # an earlier client may have had the same port
    with socket.create_connection(("127.0.0.1", server.ports["http"])) as s:
        peer = s.getsockname()[1]
    with requests.Session() as session:
        session.verify = ca.root
        assert infer(session, server).status_code == 200
    assert f"127.0.0.1:{peer} failed" not in server.text()[before:]


@contextlib.contextmanager
def in_pieces(server, ca, name="http", protocols=()):
    """After the handshake: the socket, the session, and the bytes it has to send and receive."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = trusting(ca)
    if protocols:
        context.set_alpn_protocols(protocols)
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", server.ports[name]), timeout=SECONDS) as s:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                s.sendall(outgoing.read())
                incoming.write(s.recv(65536))
        s.sendall(outgoing.read())
        yield s, tls, incoming, outgoing


def test_forged_record_ends_the_connection(server, ca):
    with in_pieces(server, ca) as (s, *_):
        s.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        with contextlib.suppress(ConnectionResetError):
            while s.recv(65536):
                pass
    server.wait_for_line("TLS connection of .* failed: decryption failed or bad record mac")


# ---- bytes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_bytes", [3, 5, 1000])
def test_a_record_without_an_end(server, ca, n_bytes):
    """A connection of gRPC without a call has no other limit of time; one between two records stays."""
    with contextlib.ExitStack() as stack:
        (late, *first), (idle, *second) = (stack.enter_context(in_pieces(server, ca, "grpc", ["h2"])) for _ in range(2))
        for s, (tls, incoming, outgoing) in ((late, first), (idle, second)):
            tls.write(frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0) + frames.frame(frames.SETTINGS, frames.ACK, 0))
            s.sendall(outgoing.read())
            incoming.write(s.recv(65536))  # SETTINGS, perhaps in several records
        late.sendall((b"\x17\x03\x03\x40\x00" + bytes(1000))[:n_bytes])
        began = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            while late.recv(65536):
                pass
        assert 3.5 <= time.monotonic() - began < 15
        server.wait_for_line("TLS connection of .* failed: a record came too slowly")
        tls, incoming, outgoing = second
        tls.write(frames.frame(frames.PING, 0, 0, b"12345678"))
        idle.sendall(outgoing.read())
        got = b""
        while b"12345678" not in got:
            with contextlib.suppress(ssl.SSLWantReadError):
                while True:
                    got += tls.read(65536)
            if b"12345678" not in got:
                more = idle.recv(65536)
                assert more
                incoming.write(more)


def test_large_bodies(server, stubs, ca):
    raw = os.urandom(6 << 20)
    with requests.Session() as session:
        session.verify = ca.root
        for _ in range(2):
            assert binary(infer(session, server, raw)) == raw
    with grpc_client(server, stubs, ca) as client:
        for _ in range(2):
            assert infer_grpc(client, raw) == raw


def test_bytes_one_by_one(server, ca):
    """Each in a record of its own; and several requests in one record."""
    head = f"POST /v2/models/fp32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n"
    said = (head + BODY).encode()
    with connect(server, trusting(ca)) as s:
        for i in range(len(said)):
            s.sendall(said[i:i + 1])
        stream = s.makefile("rb")

        def read_answer():
            assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
            length = 0
            while (line := stream.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            return json.loads(stream.read(length))

        assert read_answer()["outputs"][0]["data"] == [1.0]
        s.sendall(said * 20)
        for _ in range(20):
            assert read_answer()["outputs"][0]["data"] == [1.0]


def test_slow_reader_gets_everything(server, ca):
    """The server has megabytes to say, and the client takes its time: what the socket does not
    take waits."""
    raw = os.urandom(8 << 20)
    head = json.dumps({
        "inputs": [{"name": "INPUT0", "shape": [len(raw) // 4], "datatype": "FP32",
                    "parameters": {"binary_data_size": len(raw)}}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]}).encode()
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(60)
    plain.connect(("127.0.0.1", server.ports["http"]))
    with trusting(ca).wrap_socket(plain, server_hostname="localhost") as s:
        s.sendall(f"POST /v2/models/fp32/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                  f"Inference-Header-Content-Length: {len(head)}\r\n"
                  f"Content-Length: {len(head) + len(raw)}\r\n\r\n".encode() + head + raw)
        got = b"".join(iter(lambda: s.recv(5000), b""))
    assert got.startswith(b"HTTP/1.1 200 OK\r\n") and got.endswith(raw)


def test_half_close(server, ca):
    """A client that says good-bye behind its request gets the answer, and a good-bye."""
    with connect(server, trusting(ca)) as s:
        s.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        got = b"".join(iter(lambda: s.recv(5000), b""))  # raises without close_notify
        assert got.startswith(b"HTTP/1.1 200 OK")
        s.unwrap()


def test_request_and_good_bye_at_once(server, ca):
    """Both are there when the server reads for the first time."""
    request = b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n"
    with in_pieces(server, ca) as (s, tls, incoming, outgoing):
        tls.write(request + request)
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        s.sendall(outgoing.read())
        incoming.write(b"".join(iter(lambda: s.recv(5000), b"")))
        assert tls.read(65536).startswith(b"HTTP/1.1 200 OK\r\n")


# ---- change while serving -----------------------------------------------------------------------


def shown_serial(server, ca, name="http", protocols=()):
    with connect(server, trusting(ca), name, protocols) as s:
        return s.getpeercert()["serialNumber"]


def use(pair, cert, key):
    """Both at once for whoever reads them now: the server is told afterwards."""
    for source, target in zip(pair, (cert, key)):
        target.write_bytes(open(source, "rb").read())


def test_certificates_change_under_load(ca, stubs, tmp_path):
    cert, key = tmp_path / "now.pem", tmp_path / "now.key"
    old, new = (ca.cert("server"), ca.key("server")), ca.issue("renewed")
    use(old, cert, key)
    (tmp_path / "models").mkdir()
    with running(tmp_path / "models", *service("http", cert, key), *service("grpc", cert, key),
                 *service("metrics", cert, key)) as server:
        stop, failures, counts = threading.Event(), [], {}

        def work(name, one):
            n = 0
            try:
                while not stop.is_set() or n < 20:
                    one()
                    n += 1
            except Exception as failure:  # pylint: disable=broad-except
                failures.append((name, failure))
            counts[name] = n

        def ask_http(session):
            assert infer(session, server).status_code == 200

        def ask_new_http():
            with requests.Session() as session:
                session.verify = ca.root
                ask_http(session)

        def ask_new_grpc():
            with grpc_client(server, stubs, ca) as client:
                assert infer_grpc(client) == b"\0\0\x80?"

        with contextlib.ExitStack() as stack:
            jobs = {"new http": ask_new_http, "new grpc": ask_new_grpc}
            for i in range(2):
                session = stack.enter_context(requests.Session())
                session.verify = ca.root
                client = stack.enter_context(grpc_client(server, stubs, ca))
                jobs[f"kept http {i}"] = lambda s=session: ask_http(s)
                jobs[f"kept grpc {i}"] = lambda c=client: infer_grpc(c)
            threads = [threading.Thread(target=work, args=job) for job in jobs.items()]
            for thread in threads:
                thread.start()
            first = shown_serial(server, ca)
            assert first == serial(old[0])
            for pair in (new, old, new):
                use(pair, cert, key)
                server.process.send_signal(signal.SIGHUP)
                server.wait_for_line("TLS of metrics: certificates were read again")
                for name, protocols in (("http", ()), ("grpc", ["h2"]), ("metrics", ())):
                    assert shown_serial(server, ca, name, protocols) == serial(pair[0])
            stop.set()
            for thread in threads:
                thread.join(60)
        assert not failures, failures
        assert all(counts[name] >= 20 for name in jobs), counts


def test_broken_file_keeps_the_old_one(ca, other, tmp_path):
    cert, key, root = tmp_path / "now.pem", tmp_path / "now.key", tmp_path / "root.pem"
    use((ca.cert("server"), ca.key("server")), cert, key)
    root.write_bytes(open(ca.root, "rb").read())
    client = ca.cert("client"), ca.key("client")
    (tmp_path / "models").mkdir()
    with running(tmp_path / "models", *service("http", cert, key, root)) as server:

        def reload(line):
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_line(line)

        def ask(who):
            return requests.get(f"{url(server)}/v2", verify=ca.root, cert=who,
                                timeout=SECONDS).status_code

        cert.write_text("no certificate\n")
        reload("TLS of HTTP: server certificate '.*now.pem': no PEM certificate in it; "
               "what was read before stays in use")
        assert ask(client) == 200
        use((ca.cert("client"), ca.key("server")), cert, key)
        reload("TLS of HTTP: server key '.*now.key': the key does not match")
        assert ask(client) == 200
        key.unlink()
        reload("TLS of HTTP: server key: .*now.key.*No such file")
        assert ask(client) == 200
        # Whose certificates are wanted of clients changes, too: also for those with a session.
        use((ca.cert("server"), ca.key("server")), cert, key)
        root.write_bytes(open(other.root, "rb").read())
        reload("TLS of HTTP: certificates were read again")
        assert ask((other.cert("client"), other.key("client"))) == 200
        with pytest.raises(requests.exceptions.RequestException):
            ask(client)


def test_reload_forgets_sessions(ca, tmp_path):
    pair = ca.cert("server"), ca.key("server")
    with running(tmp_path, *service("http", *pair)) as server:
        context = trusting(ca, maximum_version=ssl.TLSVersion.TLSv1_2)
        with connect(server, context) as s:
            kept = s.session
        server.process.send_signal(signal.SIGHUP)
        server.wait_for_line("TLS of HTTP: certificates were read again")
        plain = socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=SECONDS)
        with context.wrap_socket(plain, server_hostname="localhost", session=kept) as s:
            assert not s.session_reused


def test_sighup_without_tls(tmp_path):
    with running(tmp_path) as server:
        server.process.send_signal(signal.SIGHUP)
        assert requests.get(f"{server.url}/v2", timeout=SECONDS).status_code == 200


# ---- the start and the end ----------------------------------------------------------------------


def test_bad_files_end_the_start(ca, tmp_path):
    write_repository(tmp_path / "models", {"fp32": IDENTITY})
    cert, key = ca.cert("server"), ca.key("server")
    text, locked = tmp_path / "text.pem", tmp_path / "locked.key"
    text.write_text("hello\n")
    half = tmp_path / "half.pem"
    half.write_text(open(cert, encoding="ascii").read()[:200] + "\n-----END CERTIFICATE-----\n")
    openssl("ec", "-in", key, "-aes128", "-passout", "pass:x", "-out", locked)
    rows = [
        (["--http-use-ssl=true"], "--http-use-ssl needs --http-server-cert and --http-server-key"),
        (["--grpc-use-ssl=1", f"--grpc-server-cert={cert}"],
         "--grpc-use-ssl needs --grpc-server-cert and --grpc-server-key"),
        (["--metrics-use-ssl=true"],
         "--metrics-use-ssl needs --metrics-server-cert and --metrics-server-key"),
        (["--grpc-use-ssl-mutual=true", f"--grpc-server-cert={cert}", f"--grpc-server-key={key}"],
         "--grpc-use-ssl-mutual needs --grpc-root-cert"),
        (service("http", "/no/such", key), "TLS of HTTP: server certificate: "),
        (service("http", "/no/such", key), "/no/such"),
        (service("http", cert, "/no/such"), "TLS of HTTP: server key: "),
        (service("grpc", text, key),
         f"TLS of GRPC: server certificate '{text}': no PEM certificate in it"),
        (service("grpc", half, key),
         f"TLS of GRPC: server certificate '{half}': no valid PEM certificate: "),
        (service("grpc", cert, text),
         f"TLS of GRPC: server key '{text}': no valid PEM private key in it"),
        (service("grpc", cert, ca.key("client")),
         f"server key '{ca.key('client')}': the key does not match the server certificate"),
        (service("metrics", cert, locked),
         f"TLS of metrics: server key '{locked}': the key is encrypted; one without a pass phrase "
         "is needed"),
        (service("http", cert, key, text),
         f"TLS of HTTP: root certificate '{text}': no PEM certificate in it"),
    ]
    for options, line in rows:
        ended = serve(f"--model-repository={tmp_path / 'models'}", *options)
        assert ended.returncode == 1, (options, ended.stderr)
        assert f"{line}" in ended.stderr, ended.stderr
        assert "fp32" not in ended.stderr  # before models are loaded


def test_unused_certificate_is_told(ca, tmp_path):
    pair = ca.cert("server"), ca.key("server")
    with running(tmp_path, f"--http-server-cert={pair[0]}",
                 f"--http-server-key={pair[1]}") as server:
        assert requests.get(f"{server.url}/v2", timeout=SECONDS).status_code == 200
        assert "do nothing without --http-use-ssl" in server.text()


def test_draining_ends_handshakes(ca, tmp_path):
    """Nobody waits for a peer that has not said anything yet, or half of a hello."""
    pair = ca.cert("server"), ca.key("server")
    with running(tmp_path, *service("http", *pair), *service("grpc", *pair),
                 "--http-header-timeout-ms=60000", "--grpc-header-timeout-ms=60000") as server:
        with contextlib.ExitStack() as stack:
            silent = []
            for name in ("http", "grpc"):
                for said in (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
                    silent.append(stack.enter_context(socket.create_connection(
                        ("127.0.0.1", server.ports[name]), timeout=SECONDS)))
                    silent[-1].sendall(said)
                # Connections are accepted in their order.
                connect(server, trusting(ca), name, ["h2"] if name == "grpc" else ()).close()
            assert server.stop(20) == 0
            assert [s.recv(1) for s in silent] == [b""] * 4
    assert "Timeout 0" not in server.text()


def test_draining(ca, stubs, tmp_path):
    """Requests in flight are answered over TLS while the server stops; who is idle gets a
    good-bye."""
    pair = ca.cert("server"), ca.key("server")
    models = {"fp32": gated('backend: "testing"\n' + tensors())}
    with running(tmp_path, *service("http", *pair), *service("grpc", *pair),
                 models=models) as server, Gate(server, "fp32") as gate:
        answers = {}

        def ask_http():
            answers["http"] = requests.post(f"{url(server)}/v2/models/fp32/infer", data=BODY,
                                            verify=ca.root, timeout=SECONDS).status_code

        def ask_grpc():
            with grpc_client(server, stubs, ca) as client:
                answers["grpc"] = infer_grpc(client)

        idle = connect(server, trusting(ca))
        threads = [threading.Thread(target=ask) for ask in (ask_http, ask_grpc)]
        for thread in threads:
            thread.start()
        gate.wait()
        wait_for_pending(server, "fp32", 1)  # metrics are plain here
        ending = threading.Thread(target=server.stop)
        ending.start()
        server.wait_for_line("Waiting for in-flight requests to complete")
        gate.open(2)
        for thread in (*threads, ending):
            thread.join(40)
        assert idle.recv(1) == b""  # and no error: close_notify came
        idle.close()
    assert answers == {"http": 200, "grpc": b"\0\0\x80?"}


def budget_used(server):
    page = requests.get(f"http://localhost:{server.ports['metrics']}/metrics", timeout=SECONDS).text
    return next(float(line.split()[1]) for line in page.splitlines() if line.startswith("neso_memory_budget_used_bytes "))


def test_records_that_wait_are_charged(ca, tmp_path):
    """What a client sends behind a request that is at work: TLS has read it, and keeps it until there is room."""
    delay = 'parameters { key: "execute_delay_ms" value { string_value: "3000" } }\n'
    with running(tmp_path, *service("http", ca.cert("server"), ca.key("server")), f"--memory-budget={64 << 20}",
                 models={"fp32": IDENTITY + delay}) as server, contextlib.ExitStack() as stack:
        base, body = budget_used(server), json.dumps(BODY).encode()
        request = (b"POST /v2/models/fp32/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)) + body
        some = [stack.enter_context(connect(server, trusting(ca))) for _ in range(64)]
        for one in some:
            one.sendall(request)
        for one in some:
            one.sendall(request * (61440 // len(request)))
        end = time.monotonic() + SECONDS
        while budget_used(server) - base < 64 * 45000 and time.monotonic() < end:
            time.sleep(0.01)
        assert budget_used(server) - base >= 64 * 45000
