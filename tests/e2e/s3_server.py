# SPDX-License-Identifier: BSD-3-Clause
"""A store of objects for tests: S3's ListObjectsV2 and GET, and the same objects at plain addresses.

    with ObjectServer() as store:
        store.put("models", "digits/config.pbtxt", b"...")
        store.faults.append(Fault("config.pbtxt", status=503, times=2))
        ... f"s3://{store.origin}/models" or f"{store.origin}/models" ...
        assert store.gets("config.pbtxt") == 3

With `keys` {key id: secret} every request must have a valid signature (AWS Signature Version 4), which is
computed here from the description of AWS alone.
"""
import base64
import dataclasses
import hashlib
import hmac
import http.server
import re
import socket
import ssl
import threading
import urllib.parse
from xml.sax.saxutils import escape

BLOCK = 65536


@dataclasses.dataclass
class Fault:
    """What happens to requests for objects whose path contains `match`, `times` times. `listing`: to
    requests for the listing of that bucket instead."""
    match: str
    times: int = 1
    status: int = 0  # this answer, instead of the object
    code: str = "SlowDown"
    headers: dict = dataclasses.field(default_factory=dict)
    cut_after: int = None  # bytes of the body; then the connection ends
    longer_by: int = 0  # Content-Length is larger than the body by this; then the connection ends
    corrupt: bool = False  # a byte of the body is another one
    hold: threading.Event = None  # waits for it before the body
    hold_after: int = 0  # bytes of the body that come before the wait
    call: object = None  # called before the answer is made
    listing: bool = False
    is_endless: bool = False  # the body of `status` goes on until the client closes the connection


@dataclasses.dataclass
class Request:
    path: str
    query: dict
    headers: dict
    status: int = 0
    sent: int = 0


@dataclasses.dataclass
class Object:
    data: bytes
    etag: str


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        store = self.server.store
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query, keep_blank_values=True))
        request = Request(urllib.parse.unquote(address.path), query, dict(self.headers.items()))
        store.note(request)
        bucket, _, key = request.path.lstrip("/").partition("/")
        is_listing = query.get("list-type") == "2"
        fault = store.take_fault(request.path, is_listing)
        if fault is not None and fault.call is not None:
            fault.call()
        if fault is not None and fault.is_endless:
            return self.refuse_without_end(request, fault)
        if fault is not None and fault.status:
            return self.refuse(request, fault.status, fault.code, fault.headers)
        if store.keys and not is_signed(self, address, store):
            return self.refuse(request, 403, "SignatureDoesNotMatch")
        if bucket not in store.buckets:
            return self.refuse(request, 404, "NoSuchBucket")
        if is_listing:
            return self.answer(request, 200, store.page(bucket, query), {}, fault)
        return self.get(request, store.buckets[bucket].get(key), fault)

    do_HEAD = do_GET

    def refuse(self, request, status, code, headers=None):
        body = f"<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>".encode()
        self.answer(request, status, body, headers or {}, None)

    def refuse_without_end(self, request, fault):
        request.status = fault.status
        self.send_response(fault.status)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(f"<Error><Code>{fault.code}</Code>".encode())
        while request.sent < 1 << 40:
            self.wfile.write(b" " * BLOCK)
            request.sent += BLOCK

    def get(self, request, found, fault):
        if found is None:
            return self.refuse(request, 404, "NoSuchKey")
        # RFC 9110, 13.1.1: a weak ETag matches none.
        wanted = self.headers.get("If-Match")
        if wanted is not None and (wanted != found.etag or wanted.startswith("W/")):
            return self.refuse(request, 412, "PreconditionFailed")
        headers = {"ETag": found.etag} if found.etag else {}
        data, status = found.data, 200
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match and self.server.store.has_ranges:
            begin, end = int(match[1]), min(int(match[2]) + 1, len(data))
            end = min(end, begin + self.server.store.max_range)
            if begin >= len(data):
                return self.refuse(request, 416, "InvalidRange")
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
            data, status = data[begin:end], 206
        return self.answer(request, status, data, headers, fault)

    def answer(self, request, status, body, headers, fault):
        request.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        longer_by = fault.longer_by if fault is not None else 0
        self.send_header("Content-Length", str(len(body) + longer_by))
        self.end_headers()
        self.close_connection = self.close_connection or longer_by > 0
        if self.command == "HEAD":
            return
        if fault is not None and fault.corrupt and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        self.send_body(request, body, fault)

    def send_body(self, request, body, fault):
        sent, is_held = 0, fault is not None and fault.hold is not None
        while sent < len(body):
            if is_held and sent >= fault.hold_after:
                fault.hold.wait(60)
                is_held = False
            end = sent + BLOCK
            if fault is not None and fault.cut_after is not None:
                end = min(end, fault.cut_after)
            if end <= sent:
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.wfile.write(body[sent:end])
            request.sent = sent = min(end, len(body))


# ---- signatures ---------------------------------------------------------------------------------

def sign(secret, day, region, scope, text):
    key = b"AWS4" + secret.encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def canonical_query(query):
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    quoted = sorted((urllib.parse.quote(name, safe="-_.~"), urllib.parse.quote(value, safe="-_.~"))
                    for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in quoted)


def is_signed(handler, address, store):
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/,]+)/(\d{8})/([^/,]+)/s3/aws4_request, *"
                         r"SignedHeaders=([^,]+), *Signature=([0-9a-f]{64})",
                         handler.headers.get("Authorization", ""))
    if not match or match[1] not in store.keys:
        return False
    names = match[4].split(";")
    if names != sorted(names) or "host" not in names:
        return False
    if any(name.startswith("x-amz-") and name not in names
           for name in (header.lower() for header in handler.headers)):
        return False
    lines = [f"{name}:{' '.join(handler.headers.get(name, '').split())}\n" for name in names]
    path = urllib.parse.quote(urllib.parse.unquote(address.path), safe="/-_.~")
    payload = handler.headers.get("x-amz-content-sha256", "")
    canonical = "\n".join([handler.command, path, canonical_query(address.query), "".join(lines),
                           match[4], payload])
    scope = f"{match[2]}/{match[3]}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", handler.headers.get("x-amz-date", ""), scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    expected = sign(store.keys[match[1]], match[2], match[3], scope, text)
    return hmac.compare_digest(expected, match[5])


# ---- the store ----------------------------------------------------------------------------------

class HttpServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # a client that went away


class ObjectServer:
    def __init__(self, keys=None, page_size=1000, certificate=None):
        """`certificate`: the files of a certificate and its key, for HTTPS."""
        self.keys = keys or {}
        self.page_size = page_size
        self.has_ranges = True
        self.max_range = 1 << 40  # bytes of an answer with a range, which may be fewer than were asked for
        self.buckets = {}
        self.faults = []
        self.requests = []
        self._lock = threading.Lock()
        self._http = HttpServer(("127.0.0.1", 0), Handler)
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True,
                                                    do_handshake_on_connect=False)
        self._http.store = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self):
        return self._http.server_address[1]

    @property
    def origin(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._http.server_close()

    # what it holds

    def put(self, bucket, key, data, etag=None):
        data = data if isinstance(data, bytes) else data.encode()
        if etag is None:
            etag = f'"{hashlib.md5(data).hexdigest()}"'
        self.buckets.setdefault(bucket, {})[key] = Object(data, etag)

    def put_model(self, bucket, name, files, prefix=""):
        for path, data in files.items():
            self.put(bucket, f"{prefix}{name}/{path}", data)

    def delete(self, bucket, key):
        del self.buckets[bucket][key]

    def put_index(self, bucket, with_sha256=True):
        """The index file of a repository at plain addresses."""
        import json
        files = [{"path": key, "size": len(found.data),
                  **({"etag": found.etag} if found.etag else {}),
                  **({"sha256": hashlib.sha256(found.data).hexdigest()} if with_sha256 else {})}
                 for key, found in sorted(self.buckets[bucket].items()) if key != "index.json"]
        self.put(bucket, "index.json", json.dumps({"files": files}))

    # what it was asked for

    def note(self, request):
        with self._lock:
            self.requests.append(request)

    def gets(self, match):
        return sum(match in request.path and "list-type" not in request.query
                   for request in self.requests)

    def listings(self):
        return sum("list-type" in request.query for request in self.requests)

    def sent(self, match):
        return sum(request.sent for request in self.requests if match in request.path)

    def take_fault(self, path, is_listing):
        with self._lock:
            for fault in self.faults:
                if fault.match in path and fault.listing == is_listing and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    # pages of the listing

    def page(self, bucket, query):
        prefix = query.get("prefix", "")
        after = base64.b64decode(query.get("continuation-token", "")).decode()
        keys = sorted(key for key in self.buckets[bucket] if key.startswith(prefix) and key > after)
        shown, rest = keys[:self.page_size], keys[self.page_size:]
        is_encoded = query.get("encoding-type") == "url"
        rows = []
        for key in shown:
            found = self.buckets[bucket][key]
            name = urllib.parse.quote_plus(key, safe="/") if is_encoded else escape(key)
            rows.append(f"<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z"
                        f"</LastModified><ETag>{escape(found.etag)}</ETag>"
                        f"<Size>{len(found.data)}</Size><StorageClass>STANDARD</StorageClass>"
                        "</Contents>")
        token = base64.b64encode(shown[-1].encode()).decode() if rest else ""
        is_url = "<EncodingType>url</EncodingType>" if is_encoded else ""
        return ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
                "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                f"<Name>{bucket}</Name>{is_url}<KeyCount>{len(shown)}</KeyCount>"
                f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>"
                + (f"<NextContinuationToken>{token}</NextContinuationToken>" if rest else "")
                + "".join(rows) + "</ListBucketResult>").encode()
