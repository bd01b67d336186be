# SPDX-License-Identifier: BSD-3-Clause
"""Servers that give out keys and tokens, and the stores that accept them, in one: what AWS, Google and Azure do,
for the tests of credentials.

Every request is checked here with code of its own: signatures of AWS (Version 4) and of Azure (Shared Key),
assertions of Google's service accounts with the openssl program, forms, headers. A request that is not right
gets 403 and a line in `refusals`; those of a test must be empty, unless the test expects one.
"""
import base64
import collections
import datetime
import gzip
import hashlib
import hmac
import http.server
import json
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import urllib.parse
import xml.sax.saxutils

READ_ONLY = "https://www.googleapis.com/auth/devstorage.read_only"

Question = collections.namedtuple("Question", "method path query headers body")
Answer = collections.namedtuple("Answer", "status body headers")


class Refusal(Exception):
    """What is wrong with a request."""


def need(condition, text):
    if not condition:
        raise Refusal(text)


def answer(body, status=200, **headers):
    if not isinstance(body, (str, bytes)):
        body = json.dumps(body)
    return Answer(status, body.encode() if isinstance(body, str) else body,
                  {name.replace("_", "-"): value for name, value in headers.items()})


def quote(text):
    return urllib.parse.quote(text, safe="-._~")


def form(question):
    need(question.headers.get("content-type") == "application/x-www-form-urlencoded", "not a form")
    pairs = urllib.parse.parse_qsl(question.body.decode(), keep_blank_values=True, strict_parsing=True)
    need(len(dict(pairs)) == len(pairs), "a field occurs twice")
    return dict(pairs)


def iso(seconds):
    moment = datetime.datetime.fromtimestamp(time.time() + seconds, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- signatures ----------------------------------------------------------------------------------------------

def check_aws(question, secrets, service, region):
    """Checks Signature Version 4 and returns the id of its key."""
    head = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, "
                        r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})",
                        question.headers.get("authorization", ""))
    need(head, "no signature")
    key_id, day, its_region, its_service, names, signature = head.groups()
    need(key_id in secrets, f"an unknown key {key_id}")
    need((its_region, its_service) == (region, service), f"the scope {its_region}/{its_service}")
    moment = question.headers.get("x-amz-date", "")
    need(moment.startswith(day), "another day")
    stamp = datetime.datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    need(abs(stamp.timestamp() - time.time()) < 300, "an old date")
    for name in question.headers:
        if name == "host" or name.startswith("x-amz-"):
            need(name in names.split(";"), f"{name} is not signed")
    secret, token = secrets[key_id]
    need(question.headers.get("x-amz-security-token") == token, "the token of the session")
    body_hash = hashlib.sha256(question.body).hexdigest()
    if service == "s3":
        need(question.headers.get("x-amz-content-sha256") == body_hash, "the hash of the body")
    query = urllib.parse.parse_qsl(question.query, keep_blank_values=True)
    canonical = "\n".join([
        question.method,
        "/".join(quote(urllib.parse.unquote(part)) for part in question.path.split("/")),
        "&".join(f"{name}={value}" for name, value in sorted((quote(n), quote(v)) for n, v in query)),
        *(f"{name}:{' '.join(question.headers[name].split())}" for name in names.split(";")),
        "", names, body_hash])
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request", text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    need(hmac.compare_digest(key.hex(), signature), "the signature is wrong")
    return key_id


def azure_authorization(question, account, key):
    """Returns the value of the header: Shared Key authorization."""
    headers = question.headers
    own = sorted((n, v) for n, v in headers.items() if n.startswith("x-ms-"))
    query = sorted(urllib.parse.parse_qsl(question.query, keep_blank_values=True))
    length = headers.get("content-length", "")
    text = "\n".join([
        question.method, *(headers.get(name, "") for name in ("content-encoding", "content-language")),
        "" if length == "0" else length,
        *(headers.get(name, "") for name in ("content-md5", "content-type", "date", "if-modified-since", "if-match",
                                             "if-none-match", "if-unmodified-since", "range")),
        *(f"{name}:{value}" for name, value in own),
        f"/{account}{question.path}", *(f"{name}:{value}" for name, value in query)])
    mac = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    return f"SharedKey {account}:{base64.b64encode(mac).decode()}"


def decode_part(text):
    need(re.fullmatch(r"[\w-]+", text), "not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def check_assertion(text, public_key, audience):
    """Checks a JSON Web Token that was signed with RS256, and returns its head and claims."""
    parts = text.split(".")
    need(len(parts) == 3, "not three parts")
    head, claims = (json.loads(decode_part(part)) for part in parts[:2])
    need(head["alg"] == "RS256" and head["typ"] == "JWT", f"the head {head}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "text").write_text(".".join(parts[:2]), encoding="ascii")
        (folder / "signature").write_bytes(decode_part(parts[2]))
        result = subprocess.run(["openssl", "dgst", "-sha256", "-verify", public_key, "-signature",
                                 folder / "signature", folder / "text"], capture_output=True, check=False)
    need(result.returncode == 0, "the signature is wrong")
    need(claims["aud"] == audience, f"the audience {claims['aud']}")
    need(claims["iat"] <= time.time() + 5 and claims["exp"] == claims["iat"] + 3600, "the times")
    return head, claims


# ---- the server ----------------------------------------------------------------------------------------------

class TokenServer:
    """One thread for each connection. What a test gives out and expects is set before its requests:

    aws_keys       {id of a key: (secret, token of its session or None)}, accepted by the store
    given          the id of the key that AWS's servers give out next
    bearers        tokens that stores accept; `bearer` is the one given out next
    life_s         of keys and tokens that are given out
    objects        {name: bytes} of the bucket "b" of every store
    fails_with     the next answers of servers of tokens: a status, or a body
    gzipped        names of objects of Google's store with Content-Encoding: gzip
    on_object      called before a store looks at a request
    """

    def __init__(self):
        self.aws_keys, self.given = {}, None
        self.bearers, self.bearer = set(), None
        self.life_s = 3600
        self.region = "eu-west-1"
        self.objects = {}
        self.gzipped = set()
        self.subject = "subject.to.ken"
        self.public_key = None
        self.azure_key = None
        self.questions, self.refusals = [], []
        self.fails_with = []
        self.on_object = lambda: None
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                path, _, query = self.path.partition("?")
                question = Question(self.command, path, query,
                                    {name.lower(): value for name, value in self.headers.items()}, body)
                found = server.serve(question)
                self.send_response(found.status)
                for name, value in found.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(found.body)))
                self.end_headers()
                self.wfile.write(found.body)

            do_GET = do_POST = do_PUT = serve

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.http.server_port}"
        self.url = f"http://{self.host}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def serve(self, question):
        self.questions.append(question)
        routes = [
            ("POST", r"/", self.sts), ("GET", r"/container", self.container),
            ("PUT", r"/latest/api/token", self.instance_token),
            ("GET", r"/latest/meta-data/iam/security-credentials/(.*)", self.instance),
            ("POST", r"/google/token", self.google), ("POST", r"/google/impersonate", self.impersonate),
            ("GET", r"/computeMetadata/v1/instance/service-accounts/default/token", self.google_machine),
            ("POST", r"/tenant/oauth2/v2\.0/token", self.workload),
            ("GET", r"/metadata/identity/oauth2/token", self.machine), ("GET", r"/msi/token", self.service),
            ("GET", r"/b/(.*)", self.s3), ("GET", r"/storage/v1/b/b/o(?:/(.*))?", self.google_store),
            ("GET", r"/devstoreaccount1/b(?:/(.*))?", self.blobs),
        ]
        try:
            for method, path, handler in routes:
                match = re.fullmatch(path, question.path)
                if match and method == question.method:
                    if handler in (self.s3, self.google_store, self.blobs):
                        self.on_object()
                    elif self.fails_with:
                        failure = self.fails_with.pop(0)
                        return answer(failure) if isinstance(failure, bytes) else answer({"error": "a_reason"}, failure)
                    return handler(question, *match.groups())
            raise Refusal("no such path")
        except Refusal as why:
            self.refusals.append(f"{question.method} {question.path}: {why}")
            return answer({"error": "access_denied"}, 403)

    def count(self, start):
        return sum(f"{q.method} {q.path}".startswith(start) for q in self.questions)

    # ---- AWS ----

    def keys_json(self):
        secret, token = self.aws_keys[self.given]
        return {"Code": "Success", "AccessKeyId": self.given, "SecretAccessKey": secret, "Token": token,
                "Expiration": iso(self.life_s)}

    def sts(self, question):
        fields = form(question)
        need(fields["Version"] == "2011-06-15" and fields["RoleArn"] == "arn:aws:iam::1:role/r", f"{fields}")
        if fields["Action"] == "AssumeRoleWithWebIdentity":
            need(fields["WebIdentityToken"] == self.subject, "another token")
            need("authorization" not in question.headers, "a signature")
        else:
            need(fields["Action"] == "AssumeRole" and fields["ExternalId"] == "ex/ternal", f"{fields}")
            need(check_aws(question, self.aws_keys, "sts", self.region) == "BASE", "another key")
        keys = self.keys_json()
        body = "".join(f"<{name}>{xml.sax.saxutils.escape(keys[key])}</{name}>" for name, key in (
            ("AccessKeyId", "AccessKeyId"), ("SecretAccessKey", "SecretAccessKey"), ("SessionToken", "Token"),
            ("Expiration", "Expiration")))
        return answer(f"<{fields['Action']}Response xmlns='https://sts.amazonaws.com/doc/2011-06-15/'>"
                      f"<{fields['Action']}Result><Credentials>{body}</Credentials>"
                      f"</{fields['Action']}Result></{fields['Action']}Response>")

    def container(self, question):
        need(question.headers.get("authorization") == "container secret", "another authorization")
        return answer(self.keys_json())

    def instance_token(self, question):
        need(int(question.headers["x-aws-ec2-metadata-token-ttl-seconds"]) > 0, "no time to live")
        need(question.body == b"", "a body")
        return answer("imds-token")

    def instance(self, question, role):
        need(question.headers.get("x-aws-ec2-metadata-token") == "imds-token", "no token of the session")
        need(role in ("", "the%40role"), f"the role {role}")
        return answer(self.keys_json()) if role else answer("the@role\n")

    def s3(self, question, name):
        check_aws(question, self.aws_keys, "s3", self.region)
        return self.object(question, name, '"{}"')

    def etag(self, name):
        return hashlib.md5(self.objects[name]).hexdigest()

    def object(self, question, name, form_of_etag):
        """With ranges "bytes=a-b" and If-Match."""
        name = urllib.parse.unquote(name)
        if name not in self.objects:
            return answer("", 404)
        body, etag = self.objects[name], form_of_etag.format(self.etag(name))
        if question.headers.get("if-match", etag) != etag:
            return answer("", 412)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", question.headers.get("range", ""))
        if not wanted:
            return answer(body, ETag=etag)
        first, last = int(wanted.group(1)), min(int(wanted.group(2)), len(body) - 1)
        return answer(body[first:last + 1], 206, ETag=etag, Content_Range=f"bytes {first}-{last}/{len(body)}")

    # ---- Google ----

    def token_json(self, **others):
        self.bearers.add(self.bearer)
        return {"access_token": self.bearer, "expires_in": self.life_s, "token_type": "Bearer", **others}

    def google(self, question):
        fields = form(question)
        kind = fields.pop("grant_type")
        if kind == "urn:ietf:params:oauth:grant-type:jwt-bearer":
            head, claims = check_assertion(fields["assertion"], self.public_key, f"{self.url}/google/token")
            need(head["kid"] == "key-1" and claims["iss"] == "a@p.iam.gserviceaccount.com", "another account")
            need(claims["scope"] == READ_ONLY, "another scope")
        elif kind == "refresh_token":
            need(fields == {"client_id": "i", "client_secret": "s&t", "refresh_token": "1//r"}, f"{fields}")
        else:
            need(kind == "urn:ietf:params:oauth:grant-type:token-exchange", f"the grant {kind}")
            need(fields["subject_token"] == self.subject and fields["audience"] == "//iam/pool", f"{fields}")
            need(fields["subject_token_type"] == "urn:ietf:params:oauth:token-type:jwt", f"{fields}")
            need(fields["requested_token_type"] == "urn:ietf:params:oauth:token-type:access_token", f"{fields}")
        return answer(self.token_json())

    def impersonate(self, question):
        need(question.headers.get("authorization") == f"Bearer {self.bearer}", "another token")
        need(json.loads(question.body) == {"scope": [READ_ONLY], "lifetime": "3600s"}, "another body")
        self.bearers.add("impersonated")
        return answer({"accessToken": "impersonated", "expireTime": iso(self.life_s)})

    def google_machine(self, question):
        need(question.headers.get("metadata-flavor") == "Google", "no Metadata-Flavor")
        return answer(self.token_json(), Metadata_Flavor="Google")

    def check_bearer(self, question):
        scheme, _, token = question.headers.get("authorization", "").partition(" ")
        need(scheme == "Bearer" and token in self.bearers, "another token")

    def google_store(self, question, name):
        need("authorization" not in question.headers, "an emulator gets no token")
        query = dict(urllib.parse.parse_qsl(question.query, keep_blank_values=True, strict_parsing=True))
        if name is not None:
            need(query == {"alt": "media"}, f"{query}")
            found = self.object(question, name, "{}")
            if urllib.parse.unquote(name) not in self.gzipped:
                return found
            if "gzip" not in question.headers.get("accept-encoding", ""):  # without ranges, and other bytes
                return answer(gzip.decompress(self.objects[urllib.parse.unquote(name)]))
            found.headers["Content-Encoding"] = "gzip"
            return found
        names, begin, end = self.page(query.get("prefix", ""), query.get("pageToken", ""), int(query["maxResults"]))
        found = {"kind": "storage#objects", "items": [
            {"name": name, "size": str(len(self.objects[name])), "generation": "1", "etag": self.etag(name),
             "md5Hash": base64.b64encode(hashlib.md5(self.objects[name]).digest()).decode()}
            for name in names[begin:end]]}
        if end < len(names):
            found["nextPageToken"] = f"page={end}"
        return answer(found)

    def page(self, prefix, token, n_max):
        names = sorted(name for name in self.objects if name.startswith(prefix))
        begin = int(token.removeprefix("page=")) if token else 0
        return names, begin, min(begin + n_max, len(names))

    # ---- Azure ----

    def workload(self, question):
        fields = form(question)
        need(fields == {"grant_type": "client_credentials", "client_id": "client",
                        "scope": "https://storage.azure.com/.default", "client_assertion": self.subject,
                        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
             f"{fields}")
        return answer(self.token_json())

    def identity(self, question, version):
        query = dict(urllib.parse.parse_qsl(question.query, strict_parsing=True))
        need(query == {"api-version": version, "resource": "https://storage.azure.com/", "client_id": "client"},
             f"{query}")

    def machine(self, question):
        need(question.headers.get("metadata") == "true", "no Metadata")
        self.identity(question, "2018-02-01")
        return answer(self.token_json(expires_in=str(self.life_s)))

    def service(self, question):
        need(question.headers.get("x-identity-header") == "identity secret", "another X-IDENTITY-HEADER")
        self.identity(question, "2019-08-01")
        found = self.token_json(expires_on=str(int(time.time()) + self.life_s))
        del found["expires_in"]
        return answer(found)

    def blobs(self, question, name):
        need(question.headers.get("x-ms-version") == "2020-10-02", "no version")
        if self.azure_key:
            wanted = azure_authorization(question, "devstoreaccount1", self.azure_key)
            need(question.headers.get("authorization") == wanted, "the signature is wrong")
        else:
            self.check_bearer(question)
        if name is not None:
            return self.object(question, name, '"{}"')
        query = dict(urllib.parse.parse_qsl(question.query, keep_blank_values=True, strict_parsing=True))
        need(query["restype"] == "container" and query["comp"] == "list", f"{query}")
        names, begin, end = self.page(query.get("prefix", ""), query.get("marker", ""), int(query["maxresults"]))
        blobs = "".join(
            f"<Blob><Name>{xml.sax.saxutils.escape(name)}</Name><Properties><Etag>{self.etag(name)}</Etag>"
            f"<Content-Length>{len(self.objects[name])}</Content-Length></Properties></Blob>"
            for name in names[begin:end])
        marker = f"page={end}" if end < len(names) else ""
        return answer("<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs>"
                      f"{blobs}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>")
