# SPDX-License-Identifier: BSD-3-Clause
"""Who may: each route of each protocol, as `neso endpoints` lists them, with every kind of key.

What a route answers to who may is compared with a server that asks for no keys.
"""
import base64
import hashlib
import json
import os
import queue
import signal
import subprocess

import pytest
import requests

from conftest import BUILD, Server, require_build, write_repository
from grpc_stubs import SECONDS, Client, grpc, open_channel, stubs  # noqa: F401 (a fixture)
from scrape import parse
from wire import exchange, request

BACKENDS = ("identity",)

CONFIG = ('backend: "identity"\n'
          'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\n'
          'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\n')
MODELS = {"simple": CONFIG, "other": CONFIG}

# The fronts of cloud platforms, whose default model is "simple".
CLOUD = ("--allow-sagemaker=true", "--sagemaker-port=0", "--allow-vertex-ai=true", "--vertex-ai-port=0",
         "--vertex-ai-default-model=simple", "--openai-port=0")
CLOUD_VARIABLES = {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "simple", "AIP_PREDICT_ROUTE": "/predict",
                   "AIP_HEALTH_ROUTE": "/health"}


def list_endpoints():
    if not (BUILD / "neso").exists():
        return []
    text = subprocess.run([BUILD / "neso", "endpoints", "--json"], check=True, text=True,
                          capture_output=True).stdout
    # The files of the dashboard's page need no key: tests/e2e/test_dashboard.py.
    return [e for e in json.loads(text) if e["group"] != "public"]


ENDPOINTS = list_endpoints()
GROUPS = sorted({e["group"] for e in ENDPOINTS})
IDS = [f"{e['protocol']} {e['method']} {e['path']}" for e in ENDPOINTS]
each_endpoint = pytest.mark.parametrize("endpoint", ENDPOINTS, ids=IDS)


# ---- key files ----------------------------------------------------------------------------------


def key_of(name):
    return f"the-key-of.{name}"


def line(name, groups, models="", key=None):
    key = key_of(name) if key is None else key
    key = key if isinstance(key, bytes) else key.encode()
    return f"{name} {hashlib.sha256(key).hexdigest()} {groups} {models}\n"


def key_file():
    text = "# of the tests\n" + line("operator", "*") + line("simple-only", "*", "simple,x*")
    for group in GROUPS:
        text += line(f"not-{group}", ",".join(g for g in GROUPS if g != group))
        text += line(f"only-{group}", group)
    return text


def bearer(name):
    return {"authorization": f"Bearer {key_of(name)}"}


def start(folder, keys=None, options=()):
    """A server, and its key file when it has one."""
    require_build(BACKENDS)
    repository = folder / "models"
    repository.mkdir()
    write_repository(repository, MODELS)
    if keys is not None:
        (folder / "keys").write_text(keys)
        os.chmod(folder / "keys", 0o600)
        options = (f"--api-key-file={folder / 'keys'}", *options)
    server = Server(repository, (*CLOUD, *options), ("http", "grpc", "metrics", "openai", "sagemaker", "vertex-ai"),
                    ("env", *(f"{name}={value}" for name, value in CLOUD_VARIABLES.items())))
    server.keys = folder / "keys"
    return server


def running(tmp_path_factory, name, *arguments):
    server = start(tmp_path_factory.mktemp(name), *arguments)
    yield server
    assert server.stop() == 0, server.text()


@pytest.fixture(scope="module")
def open_server(tmp_path_factory):
    yield from running(tmp_path_factory, "open")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from running(tmp_path_factory, "keyed", key_file())


@pytest.fixture(scope="module")
def restricted(tmp_path_factory):
    yield from running(tmp_path_factory, "restricted", None, [
        *(f"--http-restricted-api={group}:x-{group}=secret of {group}" for group in GROUPS),
        *(f"--grpc-restricted-protocol={group}:{group}=secret of {group}"
          for group in GROUPS if group != "metrics")])


# ---- asking -------------------------------------------------------------------------------------


def fill_path(path, model="simple"):
    routes = [(f"${name}", value) for name, value in CLOUD_VARIABLES.items()]
    for part, text in (("{m}", model), ("{v}", "1"), ("{r}", "region"), ("{*}", "some"), *routes):
        path = path.replace(part, text)
    return path


def ask_http(server, endpoint, headers=None, model="simple"):
    method = endpoint["method"].replace("*", "GET")
    url = f"http://127.0.0.1:{server.port(endpoint['protocol'])}{fill_path(endpoint['path'], model)}"
    return requests.request(method, url, data=b"{}" if method == "POST" else None,
                            headers=headers, timeout=SECONDS)


def message_of(stubs, path, model):
    """An empty message of the method, but for the model that it names."""
    service, method = path[1:].split("/")
    service = service.split(".")[-1]
    module = {"Health": stubs.health, "ServerReflection": stubs.reflection}.get(service,
                                                                              stubs.service)
    kind = module.DESCRIPTOR.services_by_name[service].methods_by_name[method].input_type
    message = kind._concrete_class()
    if model is not None:
        field = "model_name" if "model_name" in kind.fields_by_name else "name"
        setattr(message, field, model)
    return message


class Channels:
    """One to each server, kept for the module."""

    def __init__(self):
        self.open = {}

    def to(self, server):
        if server not in self.open:
            context = open_channel(server)
            self.open[server] = (context, context.__enter__())
        return self.open[server][1]

    def close(self):
        for context, _ in self.open.values():
            context.__exit__(None, None, None)


@pytest.fixture(scope="module")
def channels(server, open_server, restricted):
    kept = Channels()
    yield kept
    kept.close()


def ask_grpc(channel, stubs, endpoint, headers=None, model="simple"):
    """(code, text, first answer)."""
    message = message_of(stubs, endpoint["path"], model if endpoint["models"] == "one" else None)
    call = channel.stream_stream(endpoint["path"])(
        iter([message.SerializeToString()]), timeout=SECONDS,
        metadata=tuple((headers or {}).items()))
    answer = None
    try:
        answer = next(call, None)
        if answer is not None and endpoint["path"].endswith("/Watch"):
            call.cancel()
            return "OK", "", answer
        list(call)
        return "OK", "", answer
    except grpc.RpcError as err:
        return err.code().name, err.details(), answer


@pytest.fixture(scope="module")
def ask(stubs, channels):  # noqa: F811
    """Asks an endpoint: "no-key", "refused" or what it answered, and the text of the refusal."""
    def ask_it(server, endpoint, headers=None, model="simple"):
        if endpoint["protocol"] != "grpc":
            reply = ask_http(server, endpoint, headers, model)
            if reply.status_code in (401, 403):
                kind = {401: "no-key", 403: "refused"}[reply.status_code]
                assert reply.headers.get("WWW-Authenticate") == {401: "Bearer"}.get(
                    reply.status_code)
                error = reply.json()["error"]
                return kind, error["message"] if "/v1" in endpoint["path"] else error
            return reply.status_code, None
        code, text, answer = ask_grpc(channels.to(server), stubs, endpoint, headers, model)
        if code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
            assert answer is None
            return {"UNAUTHENTICATED": "no-key", "PERMISSION_DENIED": "refused"}[code], text
        if endpoint["path"].endswith("/ModelStreamInfer") and answer is not None:
            error = stubs.service.ModelStreamInferResponse.FromString(answer).error_message
            if "the API key" in error:
                return "refused", error
        return code, text if code == "UNAVAILABLE" else None
    return ask_it


# ---- every route --------------------------------------------------------------------------------


def test_every_group_has_endpoints():
    assert GROUPS == ["health", "inference", "logging", "metadata", "metrics", "model-config",
                      "model-repository", "shared-memory", "statistics", "trace"]
    assert {e["protocol"] for e in ENDPOINTS} == {"http", "grpc", "metrics", "openai", "sagemaker",
                                                 "vertex-ai"}
    assert all(e["models"] in ("one", "all", "none") for e in ENDPOINTS)


@each_endpoint
def test_without_a_key(server, ask, endpoint):
    assert ask(server, endpoint) == (
        "no-key", f"an API key that grants '{endpoint['group']}' is required")


@each_endpoint
def test_wrong_key(server, ask, endpoint):
    assert ask(server, endpoint, {"x-api-key": "nobody's"}) == ("no-key", "the API key is unknown")


@each_endpoint
def test_key_without_the_group(server, ask, endpoint):
    assert ask(server, endpoint, bearer(f"not-{endpoint['group']}")) == (
        "refused", f"the API key does not grant '{endpoint['group']}'")


@each_endpoint
@pytest.mark.parametrize("name", ["operator", "only"])
def test_right_key(server, open_server, ask, endpoint, name):
    if name == "only":
        name = f"only-{endpoint['group']}"
    answer = ask(server, endpoint, bearer(name))
    assert answer[0] not in ("no-key", "refused")
    assert answer == ask(open_server, endpoint)


@each_endpoint
def test_key_for_some_models(server, open_server, ask, endpoint):
    """Its own, others, and all at once."""
    mine, theirs = (ask(server, endpoint, bearer("simple-only"), m) for m in ("simple", "other"))
    if endpoint["models"] == "one":
        assert mine == ask(open_server, endpoint)
        assert theirs == ("refused", "the API key does not grant model 'other'")
    elif endpoint["models"] == "all":
        assert mine == theirs == (
            "refused", "the API key does not grant all models, and this is about all of them")
    else:
        assert mine == theirs == ask(open_server, endpoint)


@each_endpoint
def test_restricted(restricted, open_server, ask, endpoint):
    """The header of the group, on each protocol; the others' are no help."""
    group = endpoint["group"]
    prefix = "triton-grpc-protocol-" if endpoint["protocol"] == "grpc" else "x-"
    others = {prefix + g: f"secret of {g}" for g in GROUPS if g != group}
    if endpoint["protocol"] == "grpc":
        refusal = ("UNAVAILABLE",
                   f"This protocol is restricted, expecting header '{prefix}{group}'")
    else:
        refusal = ("refused", f"This API is restricted, expecting header '{prefix}{group}'")
    for headers in ({}, others, {prefix + group: "secret"}):
        assert ask(restricted, endpoint, headers) == refusal
    assert (ask(restricted, endpoint, {prefix + group: f"secret of {group}"})
            == ask(open_server, endpoint))


@pytest.mark.parametrize("method", ["DELETE", "PUT", "GET", "POST"])
def test_the_key_is_asked_for_before_the_method(server, method):
    assert requests.request(method, server.url + "/v2/models/simple/infer",
                            timeout=SECONDS).status_code == 401


def test_unknown_paths_tell_nothing(server, open_server):
    for one in (server, open_server):
        reply = requests.get(one.url + "/v2/nothing", timeout=SECONDS)
        assert (reply.status_code, reply.text) == (404, '{"error":"Not Found"}')


def test_empty_names_mean_all_models(server, stubs, channels):  # noqa: F811
    client = Client(channels.to(server), stubs)
    metadata = tuple(bearer("simple-only").items())
    refusal = ("PERMISSION_DENIED",
               "the API key does not grant all models, and this is about all of them")
    for method in ("ModelStatistics", "TraceSetting"):
        assert client.refusal(method, metadata=metadata) == refusal
    everything = client.call("ModelStatistics", metadata=tuple(bearer("operator").items()))
    assert sorted(m.name for m in everything.model_stats) == ["other", "simple"]


# ---- how a key is presented ---------------------------------------------------------------------

K, L = key_of("operator"), key_of("only-health")
PRESENTED = {
    "bearer": ([f"Authorization: Bearer {K}"], 200),
    "lower case": ([f"authorization: bearer {K}"], 200),
    "upper case": ([f"AUTHORIZATION: BEARER {K}"], 200),
    "blanks": ([f"Authorization:   Bearer    {K}  "], 200),
    "x-api-key": ([f"x-Api-keY: {K}"], 200),
    "both": ([f"X-Api-Key: {K}", f"Authorization: Bearer {K}"], 200),
    "twice": ([f"Authorization: Bearer {K}", f"Authorization: Bearer {K}"], 200),
    "and another scheme": (["Authorization: Basic b25l", f"X-Api-Key: {K}"], 200),
    "both, different": ([f"X-Api-Key: {K}", f"Authorization: Bearer {L}"], 401),
    "different, the other way": ([f"Authorization: Bearer {L}", f"X-Api-Key: {K}"], 401),
    "two different": ([f"Authorization: Bearer {K}", f"Authorization: Bearer {L}"], 401),
    "right and empty": ([f"X-Api-Key: {K}", "X-Api-Key:"], 401),
    "another scheme": ([f"Authorization: Basic {K}"], 401),
    "no scheme": ([f"Authorization: {K}"], 401),
    "in the scheme's place": ([f"Authorization: Bearer{K}"], 401),
    "empty": (["X-Api-Key:"], 401),
    "bearer of nothing": (["Authorization: Bearer"], 401),
    "other case": ([f"X-Api-Key: {K.upper()}"], 401),
    "longer": ([f"X-Api-Key: {K}x"], 401),
    "shorter": ([f"X-Api-Key: {K[:-1]}"], 401),
    "its digest": ([f"X-Api-Key: {hashlib.sha256(K.encode()).hexdigest()}"], 401),
    "odd bytes": (["X-Api-Key: \xff\x80\xfe"], 401),
    "long": ([f"X-Api-Key: {'k' * 30000}"], 401),
    "too long": ([f"X-Api-Key: {'k' * 40000}"], 431),
}


@pytest.mark.parametrize("name", PRESENTED)
def test_presented(server, name):
    fields, status = PRESENTED[name]
    answer = exchange(server.http_port, request("GET", "/v2/health/live", b"", *fields))
    assert answer.status == status, answer
    assert K.encode() not in answer.body and L.encode() not in answer.body


def test_a_refused_body_is_not_read(server):
    """The answer comes although most of the body does not."""
    head = request("POST", "/v2/models/simple/infer", b"", "X-Api-Key: wrong")
    head = head.replace(b"Content-Length: 0", b"Content-Length: 50000000")
    answer = exchange(server.http_port, head + b"x" * 1000)
    assert answer.status == 401
    assert answer.headers["connection"] == "close"


def test_keys_of_any_bytes(tmp_path):
    odd, long = "ключ \"€\" 100%".encode(), "k" * 20000
    server = start(tmp_path, line("odd", "health", key=odd) + line("long", "health", key=long))
    for key in (odd.decode("latin-1"), long):
        for field in (f"X-Api-Key: {key}", f"Authorization: Bearer {key}"):
            assert exchange(server.http_port,
                            request("GET", "/v2/health/live", b"", field)).status == 200
    assert server.stop() == 0


def test_metadata_of_grpc(server, stubs, channels):  # noqa: F811
    client = Client(channels.to(server), stubs)
    assert client.call("ServerLive", metadata=(("x-api-key", K),)).live
    assert client.call("ServerLive", metadata=(("authorization", f"bearer {K}"),)).live
    for metadata in ((("x-api-key", K), ("authorization", f"Bearer {L}")),
                     (("authorization", f"Bearer {L}"), ("authorization", f"Bearer {K}"))):
        assert client.refusal("ServerLive", metadata=metadata) == (
            "UNAUTHENTICATED", "the request presents several API keys")


# ---- what is granted without a key --------------------------------------------------------------


def test_anonymous(tmp_path):
    server = start(tmp_path, line("a", "*") + "anonymous - health,metadata simple\n")

    def status(path, **headers):
        return requests.get(server.url + path, headers=headers, timeout=SECONDS).status_code

    assert status("/v2/health/live") == 200
    assert status("/v2/models/simple") == 200
    assert status("/v2/models/other") == 401
    assert status("/v2/models/simple/config") == 401
    assert status("/v2/models/simple/config", **{"X-Api-Key": key_of("a")}) == 200
    assert status("/v2/health/live", **{"X-Api-Key": "wrong"}) == 401
    assert server.stop() == 0


# ---- streams ------------------------------------------------------------------------------------


def infer_message(client, model):
    return client.request(model, [("INPUT0", "FP32", [1], {"fp32_contents": [4]})], id=model)


def test_each_message_of_a_stream(server, stubs, channels):  # noqa: F811
    """A model that is not granted is refused in its message; the stream goes on."""
    client = Client(channels.to(server), stubs)
    names = ["simple", "other", "xyz", "simple"]
    answers = list(client.stream((infer_message(client, n) for n in names),
                                 tuple(bearer("simple-only").items())))
    assert [a.error_message for a in answers] == [
        "", "the API key does not grant model 'other'",
        "Request for unknown model: 'xyz' is not found", ""]
    assert [a.infer_response.id for a in answers] == names


def test_inference_of_a_model(server, stubs, channels):  # noqa: F811
    client = Client(channels.to(server), stubs)
    metadata = tuple(bearer("simple-only").items())
    inputs = [("INPUT0", "FP32", [1], {"fp32_contents": [4]})]
    assert client.infer("simple", inputs, metadata=metadata).model_name == "simple"
    assert client.infer_refusal("other", inputs, metadata=metadata) == (
        "PERMISSION_DENIED", "the API key does not grant model 'other'")


MOST_PARAMETERS = 1024  # of a request of the core


def test_keys_are_not_forwarded(tmp_path, stubs):  # noqa: F811
    """Of a request with as many parameters as there may be, one more header to forward would be
    too much: so it is seen which are."""
    pattern = "x-api-key|authorization|x-other"
    server = start(tmp_path, line("a", "inference"), (f"--http-header-forward-pattern={pattern}",
                                                      f"--grpc-header-forward-pattern={pattern}"))
    full = {f"p{i}": 1 for i in range(MOST_PARAMETERS)}
    body = {"parameters": full, "inputs": [
        {"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [4]}]}
    both = {"x-api-key": key_of("a"), **bearer("a")}

    def post(headers):
        return requests.post(server.url + "/v2/models/simple/infer", json=body, headers=headers,
                             timeout=SECONDS)

    assert post(both).status_code == 200
    assert post({**both, "x-other": "1"}).status_code == 400
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        inputs = [("INPUT0", "FP32", [1], {"fp32_contents": [4]})]
        assert client.infer("simple", inputs, parameters=full, metadata=tuple(both.items()))
        assert client.infer_refusal("simple", inputs, parameters=full, metadata=tuple(
            {**both, "x-other": "1"}.items()))[0] == "INVALID_ARGUMENT"
    assert server.stop() == 0


# ---- reading again ------------------------------------------------------------------------------


def reload(server, text, expected):
    server.keys.write_text(text)
    server.process.send_signal(signal.SIGHUP)
    return server.wait_for_line(expected)


def health_of(server, key):
    return requests.get(server.url + "/v2/health/live", headers={"X-Api-Key": key_of(key)},
                        timeout=SECONDS).status_code


def test_reload(tmp_path):
    server = start(tmp_path, line("a", "health"))
    assert [health_of(server, k) for k in "ab"] == [200, 401]
    reload(server, line("b", "health") + line("a", "metadata"), "2 API keys are in force")
    assert [health_of(server, k) for k in "ab"] == [403, 200]
    # What is wrong is told, and nothing changes.
    reload(server, line("a", "health") + line("b", "helth"),
           r"the API keys stay what they were: .*/keys:2:68: unknown group 'helth'; did you mean "
           "'health'")
    assert [health_of(server, k) for k in "ab"] == [403, 200]
    server.keys.unlink()
    server.process.send_signal(signal.SIGHUP)
    server.wait_for_line("the API keys stay what they were: unable to open")
    assert [health_of(server, k) for k in "ab"] == [403, 200]
    server.keys.write_text(line("b", "health"))
    os.chmod(server.keys, 0o622)
    server.process.send_signal(signal.SIGHUP)
    server.wait_for_line("keys may be written to by others than its owner")
    assert [health_of(server, k) for k in "ab"] == [401, 200]
    assert server.stop() == 0


def test_reload_during_a_stream(tmp_path, stubs):  # noqa: F811
    """A key that is gone opens nothing more, also where it was used before."""
    server = start(tmp_path, line("a", "inference"))
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        messages = queue.Queue()
        answers = client.stream(iter(messages.get, None), tuple(bearer("a").items()))
        messages.put(infer_message(client, "simple"))
        assert next(answers).error_message == ""
        reload(server, line("a", "inference", "o*"), "1 API key is in force")
        messages.put(infer_message(client, "simple"))
        assert next(answers).error_message == "the API key does not grant model 'simple'"
        messages.put(infer_message(client, "other"))
        assert next(answers).error_message == ""
        reload(server, line("b", "inference"), "1 API key is in force")
        messages.put(infer_message(client, "other"))
        assert next(answers).error_message == "the API key is unknown"
        messages.put(None)
        assert list(answers) == []
    assert server.stop() == 0


def test_hangup_without_a_key_file(open_server):
    open_server.process.send_signal(signal.SIGHUP)
    assert health_of(open_server, "a") == 200
    assert open_server.process.poll() is None


# ---- the start ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text, expected", [
    (None, "error: unable to open '{path}': No such file or directory"),
    ("", "error: {path}:1:1: there is no key in the file"),
    (line("a", "health") + line("b", "inferense"),
     "error: {path}:2:68: unknown group 'inferense'; did you mean 'inference'?"),
    (line("a", "health") + line("a", "health", key="x"),
     "error: {path}:2:1: the name 'a' is that of line 1"),
    (line("a", "health", key=""), "error: {path}:1:3: this is the SHA-256 of an empty key"),
])
def test_bad_files_end_the_start(tmp_path, text, expected):
    path = tmp_path / "keys"
    if text is not None:
        path.write_text(text)
    done = subprocess.run([BUILD / "neso", "serve", f"--model-repository={tmp_path}",
                           f"--api-key-file={path}"], text=True, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert expected.format(path=path) in done.stderr.splitlines()


# ---- what is told -------------------------------------------------------------------------------


def test_refusals_are_counted(tmp_path):
    server = start(tmp_path, line("a", "health,metrics") + line("b", "inference,metadata", "m"))

    def get(path, key=None):
        headers = {"X-Api-Key": key} if key else {}
        requests.get(server.url + path, headers=headers, timeout=SECONDS)

    for _ in range(3):
        get("/v2/health/live")
    for _ in range(2):
        get("/v2/health/live", "wrong")
    get("/v2", key_of("a"))
    get("/v2/models/simple", key_of("b"))
    get("/v2/health/live", key_of("a"))
    page = requests.get(f"http://127.0.0.1:{server.port('metrics')}/metrics", timeout=SECONDS,
                        headers=bearer("a")).text
    name = "neso_api_key_refused_total"
    assert parse(page)[name].samples == {
        name + '{key="",reason="missing"}': 3, name + '{key="",reason="unknown"}': 2,
        name + '{key="a",reason="group"}': 1, name + '{key="b",reason="model"}': 1}
    assert server.stop() == 0


def test_the_access_line_names_the_key(tmp_path, stubs):  # noqa: F811
    server = start(tmp_path, line("a", "health"), ("--log-format=json",))
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        # A line is written behind its answer.
        for ask in (lambda: health_of(server, "a"),
                    lambda: requests.get(server.url + "/v2", headers=bearer("a"), timeout=SECONDS),
                    lambda: health_of(server, "b"),
                    lambda: client.call("ServerLive", metadata=tuple(bearer("a").items())),
                    lambda: client.refusal("ServerLive")):
            ask()
            server.wait_for_line('"level":"access"')
    assert server.stop() == 0
    lines = [json.loads(text) for text in server.log if '"level":"access"' in text]
    assert [(entry["method"], entry["status"], entry.get("key")) for entry in lines] == [
        ("GET", 200, "a"), ("GET", 403, "a"), ("GET", 401, None), ("GRPC", 0, "a"),
        ("GRPC", 16, None)]
    assert key_of("a") not in server.text()


# ---- loads by a key for some models -------------------------------------------------------------


def pipeline(step):
    """The configuration of an ensemble of one step, as JSON."""
    tensor = {"data_type": "TYPE_FP32", "dims": [-1]}
    return {"platform": "ensemble", "input": [{"name": "INPUT0", **tensor}],
            "output": [{"name": "OUTPUT0", **tensor}],
            "ensemble_scheduling": {"step": [{
                "model_name": step, "model_version": -1, "input_map": {"INPUT0": "INPUT0"},
                "output_map": {"OUTPUT0": "OUTPUT0"}}]}}


IDENTITY = {"backend": "identity",
            "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
            "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}


def next_of(name, **more):
    return {**IDENTITY, "parameters": {"next": {"string_value": name},
                                       **{k: {"string_value": v} for k, v in more.items()}}}


def text_ensemble(step):
    return ('platform: "ensemble"\n'
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n'
            f'ensemble_scheduling {{ step {{ model_name: "{step}" model_version: -1\n'
            '  input_map { key: "INPUT0" value: "INPUT0" }\n'
            '  output_map { key: "OUTPUT0" value: "OUTPUT0" } } }\n')


PRIVATE = {"secret": CONFIG, "mine-a": CONFIG, "mine-b": CONFIG,
           "mine-owners": text_ensemble("secret"), "mine-pair": text_ensemble("mine-b")}


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private")
    require_build(BACKENDS)
    (folder / "models").mkdir()
    write_repository(folder / "models", PRIVATE)
    (folder / "keys").write_text(line("limited", "model-repository,inference,health", "mine-*")
                                 + line("operator", "*"))
    os.chmod(folder / "keys", 0o600)
    server = Server(folder / "models", (f"--api-key-file={folder / 'keys'}",
                                        "--model-control-mode=explicit"),
                    ("http", "grpc", "metrics"))
    yield server
    assert server.stop() == 0, server.text()


class Limited:
    """Loads and unloads on one of the protocols; an answer is a pair of a kind and a text."""

    def __init__(self, server, stubs, channels, protocol):
        self.server, self.protocol = server, protocol
        self.client = Client(channels.to(server), stubs)

    def change(self, what, model, name, parameters):
        if self.protocol == "http":
            for key, value in parameters.items():
                if key.startswith("file:"):
                    parameters = {**parameters, key: base64.b64encode(value).decode()}
            reply = requests.post(
                f"{self.server.url}/v2/repository/models/{model}/{what}",
                json={"parameters": parameters}, headers=bearer(name), timeout=SECONDS)
            kind = {200: "OK", 403: "PERMISSION_DENIED"}.get(reply.status_code, "error")
            return kind, reply.json()["error"] if reply.status_code != 200 else ""
        fields = {str: "string_param", bytes: "bytes_param", bool: "bool_param"}
        method = {"load": "RepositoryModelLoad", "unload": "RepositoryModelUnload"}[what]
        pb = self.client.pb
        given = {k: pb.ModelRepositoryParameter(**{fields[type(v)]: v})
                 for k, v in parameters.items()}
        metadata = tuple(bearer(name).items())
        try:
            self.client.call(method, {"model_name": model, "parameters": given},
                             metadata=metadata)
        except grpc.RpcError as err:
            code = err.code().name
            return code if code == "PERMISSION_DENIED" else "error", err.details()
        return "OK", ""

    def load(self, model, config=None, name="limited", **parameters):
        if config is not None:
            parameters["config"] = config if isinstance(config, str) else json.dumps(config)
        return self.change("load", model, name, parameters)

    def unload(self, model, name="limited", **parameters):
        return self.change("unload", model, name, parameters)

    def is_ready(self, model):
        return requests.get(f"{self.server.url}/v2/models/{model}/ready", timeout=SECONDS,
                            headers=bearer("operator")).status_code == 200


@pytest.fixture(params=["http", "grpc"])
def limited(private, stubs, channels_of_private, request):  # noqa: F811
    one = Limited(private, stubs, channels_of_private, request.param)
    yield one
    for model in PRIVATE:
        assert one.unload(model, name="operator") == ("OK", "")


@pytest.fixture(scope="module")
def channels_of_private(private):
    kept = Channels()
    yield kept
    kept.close()


NO_SECRET = ("PERMISSION_DENIED", "the API key does not grant model 'secret'")
REACHES = {
    "a step": {"config": pipeline("secret")},
    "an escaped name of a field": {
        "config": json.dumps(pipeline("secret")).replace("ensemble_sch", "ensemble\\u005fsch")},
    "the other form of a field": {
        "config": json.dumps(pipeline("secret")).replace("ensemble_scheduling",
                                                         "ensembleScheduling")},
    "an escaped name of a model": {
        "config": json.dumps(pipeline("secret")).replace('"secret"', '"\\u0073ecret"')},
    "the next model": {"config": next_of("secret")},
    "a stage": {"config": {"platform": "chain", "parameters": {
        "stages": {"string_value": "mine-b, secret"}}}},
    "the parameter next": {"next": "secret"},
    "the parameter next beside a configuration": {"config": IDENTITY, "next": "secret"},
    "next that stays beside another parameter": {"config": next_of("secret"),
                                                 "chain_autoload": "false"},
    "a configuration beside a file": {"config": pipeline("secret"), "file:1/some": b"bytes"},
    "next beside a file": {"config": next_of("secret"), "file:config.pbtxt": CONFIG.encode()},
}


@pytest.mark.parametrize("is_loaded", [False, True], ids=["secret unloaded", "secret loaded"])
@pytest.mark.parametrize("what", REACHES)
def test_a_load_reaches_no_other_model(limited, what, is_loaded):
    if is_loaded:
        assert limited.load("secret", name="operator") == ("OK", "")
    assert limited.load("mine-a") == ("OK", "")
    assert limited.load("mine-a", **REACHES[what]) == NO_SECRET
    assert limited.is_ready("mine-a")  # what served goes on
    assert limited.is_ready("secret") == is_loaded
    assert limited.load("mine-a", name="operator", **REACHES[what])[0] != "PERMISSION_DENIED"


def test_a_refused_load_is_counted(limited, private):
    def count():
        page = requests.get(f"http://127.0.0.1:{private.port('metrics')}/metrics",
                            headers=bearer("operator"), timeout=SECONDS).text
        return sum(float(text.rsplit(" ", 1)[1]) for text in page.splitlines()
                   if text.startswith('neso_api_key_refused_total{key="limited",reason="model"'))

    before = count()
    assert limited.load("mine-a", pipeline("secret")) == NO_SECRET
    assert count() == before + 1


def test_a_load_reaches_permitted_models(limited):
    assert limited.load("mine-a", pipeline("mine-b")) == ("OK", "")
    assert limited.is_ready("mine-b")
    assert limited.load("mine-a", next="mine-b") == ("OK", "")
    # An ensemble of the owner, as a step: the key may use it.
    assert limited.load("mine-a", pipeline("mine-owners")) == ("OK", "")
    assert limited.is_ready("secret")


def test_the_owners_ensemble(limited):
    """A configuration of the repository is the owner's word; one that is sent is not."""
    assert limited.load("mine-owners") == ("OK", "")
    assert limited.is_ready("secret")
    assert limited.load("mine-owners", pipeline("secret")) == NO_SECRET


def test_unload_with_dependents(limited):
    assert limited.load("mine-owners") == ("OK", "")
    assert limited.unload("mine-owners", unload_dependents=True) == NO_SECRET
    assert limited.is_ready("mine-owners") and limited.is_ready("secret")
    assert limited.unload("mine-owners") == ("OK", "")
    assert limited.is_ready("secret")
    assert limited.load("mine-pair") == ("OK", "")
    assert limited.unload("mine-pair", unload_dependents=True) == ("OK", "")
    assert not limited.is_ready("mine-b")
    assert limited.load("mine-owners") == ("OK", "")
    assert limited.unload("secret", name="operator") == ("OK", "")
    assert limited.load("mine-owners") == ("OK", "")
    assert limited.unload("mine-owners", name="operator", unload_dependents=True) == ("OK", "")
    assert not limited.is_ready("secret")
