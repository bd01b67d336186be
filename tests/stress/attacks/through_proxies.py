#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Requests in which HAProxy or nginx and the server could see different ends, methods or paths.

Both proxies refuse the repository index, the list of SageMaker's models, and redirects of Vertex AI; and they keep
connections to the server for the next client. No request may get what is refused, and none may change what the next
client gets. The ports are those of HTTP, with the OpenAI API, of SageMaker and of Vertex AI. A proxy that is not
installed is left out.
"""
import concurrent.futures
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time

import attack

INNER = b"POST /v2/repository/index HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
PREDICT, HEALTH = b"/v1/endpoints/7/deployedModels/8:predict", b"/v1/endpoints/7/deployedModels/8"
INNER_SAGEMAKER = b"GET /models HTTP/1.1\r\nHost: h\r\n\r\n"
INNER_VERTEX = (b"POST " + PREDICT + b" HTTP/1.1\r\nHost: h\r\nX-Vertex-Ai-Triton-Redirect: v2/repository/index\r\n"
                b"Content-Length: 0\r\n\r\n")
INDEX, LIST = b'"name":"identity"', b'"models":['
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
OPTIONS = ("--allow-sagemaker=true", "--sagemaker-port=0", "--allow-vertex-ai=true", "--vertex-ai-port=0")
CLOUD = ("env", "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=identity", "AIP_PREDICT_ROUTE=" + PREDICT.decode(),
         "AIP_HEALTH_ROUTE=" + HEALTH.decode())

HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend f
  bind 127.0.0.1:{port}
  http-request deny if {{ path_beg /v2/repository /models }}
  http-request deny if {{ req.hdr(x-vertex-ai-triton-redirect) -m found }}
  default_backend b
backend b
  http-reuse always
  server s 127.0.0.1:{server}
"""
NGINX = """
daemon off; error_log {folder}/error; pid {folder}/pid; worker_processes 1; events {{}}
http {{
  access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream u {{ server 127.0.0.1:{server}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{port};
    if ($http_x_vertex_ai_triton_redirect) {{ return 403; }}
    location /v2/repository {{ return 403; }}
    location /models {{ return 403; }}
    location / {{
      proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_request_buffering off;
    }}
  }}
}}
"""
PROXIES = {"haproxy": (HAPROXY, ("-db", "-f")), "nginx": (NGINX, ("-c",))}

CODINGS = [b"Transfer-Encoding: chunked", b"Transfer-Encoding : chunked", b"Transfer-Encoding: xchunked",
           b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: chunked, identity",
           b"Transfer-Encoding: identity, chunked", b"transfer-encoding: CHUNKED",
           b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: \x0bchunked",
           b"Transfer_Encoding: chunked", b"Transfer-Encoding:\r\n chunked",
           b"X: a\r\n\tTransfer-Encoding: chunked", b'Transfer-Encoding: "chunked"',
           b"Transfer-Encoding: chunked;a=b", b"Transfer-Encoding: gzip, chunked"]
LENGTHS = [b"Content-Length: 0\r\nContent-Length: %d", b"Content-Length: %d\r\nContent-Length: 0",
           b"Content-Length: %d, 0", b"Content-Length: +%d", b"Content-Length:%d ", b"Content-Length: 0x%x",
           b"Content-Length: \x0b%d", b"Content_Length: %d", b"Content-Length: %d\r\n ",
           b"Content-Length: 00000000000000000000000%d", b"Content-Length: %d.0", b"content-length : %d",
           b"Content-Length: -%d"]
CHUNKS = [b"0;\n\r\n", b"0\n\r\n", b"0 \r\n\r\n", b"00000000000000000000\r\n\r\n", b"0x0\r\n\r\n", b"-0\r\n\r\n",
          b"+0\r\n\r\n", b"1\r\nZZ\r\n0\r\n\r\n", b'1;a="\n\r\nZ\r\n0\r\n\r\n', b"1\nZ\n0\n\n",
          b"100000000000000000\r\n", b"ffffffffffffffff\r\n", b"1\rZ\r\n0\r\n\r\n", b"0\r\nX: y\n\r\n\r\n",
          b"0\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n", b"0\r\n\n", b"0\r\n X\r\n\r\n",
          b"1;\xff\r\nZ\r\n0\r\n\r\n", b"1 ; a\r\nZ\r\n0\r\n\r\n"]
FIELDS = [b"Expect: 100-continue", b"Expect: 200", b"Upgrade: websocket\r\nConnection: upgrade",
          b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
          b"Connection: content-length", b"Connection: close, content-length", b"Proxy-Connection: keep-alive",
          b"Connection: transfer-encoding", b"\x00X: y", b": v", b"X", b"X: a\rY: b", b"X: \x00",
          b"Host: h2", b"X: y\nContent-Length: 0"]
METHODS = [b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"PATCH", b"PUT", b"DELETE", b"FOO", b"head"]
PATHS = [b"//v2/repository/index", b"/v2//repository/index", b"/v2/./repository/index",
         b"/x/../v2/repository/index", b"/v2/%72epository/index", b"/v2%2Frepository/index",
         b"/V2/repository/index", b"/v2/repository/index/", b"/v2/repository;a/index", b"/v2/repository/index%00",
         b"http://h/v2/repository/index", b"http://h//v2/repository/index", b"http:///v2/repository/index",
         b"HTTP://h/v2/repository/index", b"/v2/repository\\index", b"/%2e/v2/repository/index",
         b"http://h?/v2/repository/index", b"http://h#/v2/repository/index", b"/a?/../v2/repository/index", b"*",
         b"v2/repository/index", b"/v2/repository/index#x", b"/#/../v2/repository/index", b"/v2/health/live\tx",
         b"https://h/v2/repository/index", b"http://a@h/v2/repository/index", b"/v2/x/..;/repository/index",
         b"http:/v2/repository/index", b"http:\\\\h\\v2/repository/index"]
CHAT = b"/v1/chat/completions"
TRAILERS = [b"X: y", b"Content-Length: 9", b"Transfer-Encoding: chunked", b"Host: other", b"Connection: close",
            b"Expect: 100-continue", b"Upgrade: h2c", b"X", b": y", b"X : y", b" X: y", b"X: y\n", b"X: \x00",
            b"Trailer: X", b"Content-Encoding: gzip", b"X: " + b"y" * 20000, b"\r\nX: y"]
BARE = [b"POST %s HTTP/1.1\nHost: h\nContent-Length: %d\n\n", b"POST %s HTTP/1.1\r\nHost: h\nContent-Length: %d\r\n\r\n",
        b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\n\r\n", b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\n",
        b"POST %s HTTP/1.1\rHost: h\rContent-Length: %d\r\r", b"\r\n\r\nPOST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n",
        b"POST %s HTTP/1.1\r\n Host: h\r\nHost: h\r\nContent-Length: %d\r\n\r\n",
        b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n %d\r\n\r\n",
        b"POST %s HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\nContent-Length: %d\r\n\r\n",
        b"POST %s HTTP/1.1\r\nHost: h\r\nX: a\n\tb\r\nContent-Length: %d\r\n\r\n"]
WISHES = [b"Expect: 100-continue", b"Expect: 100-Continue, x", b"Expect: 100-continue\r\nExpect: 200",
          b"Upgrade: h2c\r\nConnection: upgrade", b"Upgrade: h2c, websocket\r\nConnection: Upgrade, close",
          b"Upgrade: HTTP/2.0\r\nConnection: upgrade\r\nHTTP2-Settings:"]
VERSIONS = [b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/1.1 ", b"http/1.1", b"HTTP/01.1", b""]


def post(fields, rest, method=b"POST", path=b"/v2/health/live", version=b"HTTP/1.1"):
    return b"%s %s %s\r\nHost: h\r\n%s\r\n\r\n%s" % (method, path, version, fields, rest)


def requests():
    behind = b"0\r\n\r\n" + INNER
    whole = b"%x\r\n" % len(INNER) + INNER + b"\r\n0\r\n\r\n"
    length = b"Content-Length: %d" % len(INNER)
    for coding in CODINGS:
        yield post(coding + b"\r\nContent-Length: %d" % len(behind), behind)
        yield post(coding, behind)
        yield post(b"Content-Length: 4\r\n" + coding, whole)
    for form in LENGTHS:
        yield post(form % len(INNER), INNER)
        yield post(form % len(INNER), INNER, b"GET")
    for chunk in CHUNKS:
        yield post(b"Transfer-Encoding: chunked", chunk + INNER, path=b"/v2/models/identity/infer")
    for field in FIELDS:
        yield post(field + b"\r\n" + length, INNER)
    for method in METHODS:
        yield post(length, INNER, method)
    for path in PATHS:
        yield post(b"Content-Length: 0", b"", path=path)
    for version in VERSIONS:
        yield post(length, INNER, version=version)


def new_requests(path, inner):
    """For one path of a front, with a second request that it must not see."""
    length = b"Content-Length: %d" % len(inner)
    for form in LENGTHS:
        yield post(form % len(inner), inner, path=path)
    for coding in CODINGS:
        behind = b"0\r\n\r\n" + inner
        yield post(coding + b"\r\nContent-Length: %d" % len(behind), behind, path=path)
        yield post(coding, behind, path=path)
    for trailer in TRAILERS:
        yield post(b"Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n" + inner, path=path)
        yield post(b"Transfer-Encoding: chunked\r\nTrailer: X", b"0\r\n" + trailer + b"\r\n\r\n" + inner, path=path)
    for chunk in CHUNKS:
        yield post(b"Transfer-Encoding: chunked", chunk + inner, path=path)
    for form in BARE:
        yield form % (path, len(inner)) + inner
        yield form % (path, 0) + inner
    for wish in WISHES:
        yield post(wish + b"\r\n" + length, inner, path=path)
        yield post(wish + b"\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + inner, path=path)
        yield post(wish + b"\r\nContent-Length: 0", inner, b"GET", path=path)
    for start in (b"http://h", b"http://", b"HTTP://h:80", b"https://h", b"http://h@", b"//h", b"http:"):
        yield post(length, inner, path=start + path)
        yield post(b"Host: other\r\n" + length, inner, path=start + path)
    for field in FIELDS:
        yield post(field + b"\r\n" + length, inner, path=path)


def talk(port, text, seconds):
    """All that comes back until the end, or until nothing comes for so long."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), 5) as s:
        s.settimeout(seconds)
        try:
            s.sendall(text)
            while more := s.recv(65536):
                got += more
        except OSError:
            pass
    return got


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(name, folder, server_port, alive):
    form, options = PROXIES[name]
    folder.mkdir()
    folder.chmod(0o755)
    port = free_port()
    config = folder / f"{name}.conf"
    config.write_text(form.format(port=port, server=server_port, folder=folder), "ascii")
    process = subprocess.Popen([shutil.which(name), *options, str(config)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while b" 200 " not in try_live(port, alive):
        assert time.monotonic() < deadline and process.poll() is None, f"{name} does not start"
        time.sleep(0.05)
    return process, port


def try_live(port, alive):
    try:
        return talk(port, alive, 5)
    except OSError:
        return b""


class Front:
    """A port of the server, and what is sent to it."""

    def __init__(self, name, port, alive, refused, texts):
        self.name, self.port, self.alive, self.refused, self.texts = name, port, alive, refused, list(texts)

    def attack(self, proxy, folder):
        """Figures: requests, those that got what the proxy refuses, and those that the next client felt."""
        process, port = start(proxy, folder / f"{proxy} {self.name}".replace(" ", "-"), self.port, self.alive)
        n_through, n_poisoned = 0, 0
        for text in self.texts:
            n_through += self.refused in talk(port, text, 0.2)
            n_poisoned += re.findall(rb"HTTP/1\.1 (\d+)", talk(port, self.alive, 5)) != [b"200"]
        process.terminate()
        process.wait()
        name = f"{proxy}, {self.name}"
        return [attack.Figure(f"{name}: requests", len(self.texts)),
                attack.Figure(f"{name}: that got what is refused", n_through, at_most=0),
                attack.Figure(f"{name}: whose next client got something else", n_poisoned, at_most=0)]

    def is_attackable(self, inner):
        """The server itself gives what the proxies refuse."""
        return self.refused in talk(self.port, inner, 1)


def get(path):
    return b"GET " + path + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


def fronts_of(server):
    return {INNER: Front("HTTP", server.port("http"), LIVE, INDEX, [*requests(), *new_requests(CHAT, INNER)]),
            INNER_SAGEMAKER: Front("SageMaker", server.port("sagemaker"), get(b"/ping"), LIST,
                                   new_requests(b"/invocations", INNER_SAGEMAKER)),
            INNER_VERTEX: Front("Vertex AI", server.port("vertex-ai"), get(HEALTH), INDEX,
                                new_requests(PREDICT, INNER_VERTEX))}


def measure():
    with (tempfile.TemporaryDirectory() as text, concurrent.futures.ThreadPoolExecutor() as pool,
          attack.server({"identity": attack.IDENTITY}, *OPTIONS, under=CLOUD) as server):
        folder = pathlib.Path(text)
        folder.chmod(0o755)
        fronts = fronts_of(server)
        for inner, front in fronts.items():
            yield attack.holds(f"{front.name} gives what is refused", front.is_attackable(inner))
        for name in PROXIES:
            if shutil.which(name) is None:
                yield attack.Figure(f"{name} is not installed", 0)
                continue
            for figures in pool.map(lambda front, proxy=name: front.attack(proxy, folder), fronts.values()):
                yield from figures


if __name__ == "__main__":
    attack.main(measure, __doc__)
