# SPDX-License-Identifier: BSD-3-Clause
"""Every method but inference: answers, errors, who may; and that HTTP says the same."""
import time

import grpc
import pytest
import requests
from google.protobuf import descriptor_pb2, json_format

from conftest import Server, require_build, write_repository
from gate import Gate, gated
from grpc_stubs import SECONDS, Client, Stub, client, open_channel, stubs  # noqa: F401
from test_http_endpoints import MODELS as HTTP_MODELS
from test_http_endpoints import identity, tensor

BACKENDS = ("identity", "testing")

# HTTP clients decode a path's "%41" by themselves.
MODELS = {name: files for name, files in HTTP_MODELS.items() if "%" not in name}

ARGUMENT = "INVALID_ARGUMENT"
UNKNOWN = ("NOT_FOUND", "Request for unknown model: 'nobody' is not found")


def http(server, path, body=None):
    method = "GET" if body is None else "POST"
    reply = requests.request(method, server.url + path, json=body, timeout=SECONDS)
    assert reply.status_code == 200, reply.text
    return reply.json()


def as_dict(message):
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """A server that goes on although one of its models could not be loaded."""
    require_build(BACKENDS)
    repository = tmp_path_factory.mktemp("partial")
    write_repository(repository, {
        "good": identity(),
        "refused": ('backend: "testing"\n' + tensor("input", "INPUT0", "TYPE_FP32", [-1])
                    + tensor("output", "OUTPUT0", "TYPE_FP32", [-1])
                    + 'parameters { key: "fail_load" value { string_value: "no luck" } }\n'),
    })
    running = Server(repository, ("--exit-on-error=false",))
    yield running
    assert running.stop() == 0, running.text()


# ---- health -------------------------------------------------------------------------------------


def test_health(client):
    assert client.call("ServerLive").live is True
    assert client.call("ServerReady").ready is True
    assert client.call("ModelReady", {"name": "simple"}).ready is True
    assert client.call("ModelReady", {"name": "batched", "version": "3"}).ready is True


@pytest.mark.parametrize("name,version", [("nobody", ""), ("simple", "7"), ("nobody", "1")])
def test_unknown_models_are_not_ready(client, name, version):
    assert client.call("ModelReady", {"name": name, "version": version}).ready is False


def test_versions_that_are_none(client):
    for method in ("ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics"):
        for text in ("abc", "1x", "99999999999999999999"):
            assert client.refusal(method, {"name": "simple", "version": text}) == (
                ARGUMENT, f"failed to get model version from specified version string '{text}' "
                          "(details: stol), version should be an integral value > 0")
        assert client.refusal(method, {"name": "simple", "version": "-1"}) == (
            ARGUMENT, "invalid model version specified '-1' , version should be an integral value "
                      "> 0")


def test_failed_models_make_the_server_not_ready(partial, stubs):
    with open_channel(partial) as channel:
        partial_client = Client(channel, stubs)
        assert partial_client.call("ServerLive").live is True
        assert partial_client.call("ServerReady").ready is False
        assert partial_client.call("ModelReady", {"name": "good"}).ready is True
        assert partial_client.call("ModelReady", {"name": "refused"}).ready is False


def test_health_service(server, partial, stubs):
    status = stubs.health.HealthCheckResponse
    for running, expected in ((server, status.SERVING), (partial, status.NOT_SERVING)):
        with open_channel(running) as channel:
            health = Stub(channel, stubs.health, "Health")
            for service in ("", "inference.GRPCInferenceService", "anything"):
                request = stubs.health.HealthCheckRequest(service=service)
                assert health.Check(request, timeout=SECONDS).status == expected
            watch = health.Watch(request, timeout=SECONDS)
            assert next(watch).status == expected
            watch.cancel()


def seconds_to_the_end_of_watches(repository, stubs):
    """From the signal; a request still holds the server up."""
    running = Server(repository)
    serving = stubs.health.HealthCheckResponse
    with open_channel(running) as channel, Gate(running, "held") as gate:
        client = Client(channel, stubs)
        held = client.ModelInfer.future(
            client.request("held", [("INPUT0", "FP32", [1])], [bytes(4)]), timeout=SECONDS)
        gate.wait()
        health = Stub(channel, stubs.health, "Health")
        watches = [health.Watch(stubs.health.HealthCheckRequest(), timeout=SECONDS)
                   for _ in range(5)]
        for watch in watches:
            assert next(watch).status == serving.SERVING
        began = time.monotonic()
        running.begin_stop()
        for watch in watches:
            statuses = []
            with pytest.raises(grpc.RpcError) as caught:
                statuses.extend(reply.status for reply in watch)
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
            assert statuses == [serving.NOT_SERVING]
        took = time.monotonic() - began
        assert running.process.poll() is None
        gate.open()
        assert held.result().model_name == "held"
    assert running.process.wait(15) == 0, running.text()
    running.stop()
    return took


def test_watch_ends_with_the_server(tmp_path, stubs):
    """Open watches tell at once that the server goes, while a request still holds it up, and do not
    hold it up themselves. On a busy machine one of some tries shows it."""
    write_repository(tmp_path, {"held": gated(
        'backend: "testing"\n' + tensor("input", "INPUT0", "TYPE_FP32", [-1])
        + tensor("output", "OUTPUT0", "TYPE_FP32", [-1]))})
    assert any(seconds_to_the_end_of_watches(tmp_path, stubs) < 0.5 for _ in range(5))


# ---- metadata, configuration, statistics --------------------------------------------------------


def test_server_metadata(server, client):
    assert as_dict(client.call("ServerMetadata")) == http(server, "/v2")


@pytest.mark.parametrize("name", MODELS)
def test_model_metadata(server, client, name):
    """int64 is text in proto3's JSON, so shapes are compared as such."""
    expected = http(server, f"/v2/models/{name}")
    for shaped in expected["inputs"] + expected["outputs"]:
        shaped["shape"] = [str(dim) for dim in shaped["shape"]]
        if not shaped["shape"]:
            del shaped["shape"]
    assert as_dict(client.call("ModelMetadata", {"name": name})) == expected


def test_model_metadata_of_a_version(client):
    assert list(client.call("ModelMetadata", {"name": "batched", "version": "10"}).versions) == [
        "10"]


@pytest.mark.parametrize("name", MODELS)
def test_model_config(server, client, stubs, name):
    """The same message, whether from JSON or from the wire."""
    reply = client.call("ModelConfig", {"name": name})
    expected = json_format.ParseDict(http(server, f"/v2/models/{name}/config"),
                                     stubs.config.ModelConfig())
    assert reply.config == expected
    assert reply.config.name == name


def test_model_config_in_detail(client, stubs):
    config = client.call("ModelConfig", {"name": "batched"}).config
    assert config.max_batch_size == 8
    assert config.dynamic_batching.max_queue_delay_microseconds == 70
    assert [(i.name, i.data_type, list(i.dims)) for i in config.input] == [
        ("B", stubs.config.TYPE_INT64, [2, -1]), ("A", stubs.config.TYPE_STRING, [1])]
    assert config.parameters["note"].string_value == 'a "quoted" note'


def test_statistics(server, client):
    for value in (b"\0\0\0\0", b"\0\0\x80\x3f"):
        client.infer("simple", [("INPUT0", "FP32", [1])], [value])
    with pytest.raises(grpc.RpcError):
        client.infer("simple", [("INPUT0", "FP32", [2])], [b"1234"])
    reply = client.call("ModelStatistics", {"name": "simple"})
    assert [(s.name, s.version) for s in reply.model_stats] == [("simple", "1")]
    stats = reply.model_stats[0]
    assert (stats.inference_count, stats.execution_count) == (2, 2)
    assert stats.inference_stats.success.count == 2
    assert stats.inference_stats.success.ns > 0
    assert stats.last_inference > 1.6e12
    assert [(b.batch_size, b.compute_infer.count) for b in stats.batch_stats] == [(1, 2)]
    expected = json_format.ParseDict(http(server, "/v2/models/simple/stats"),
                                     client.pb.ModelStatisticsResponse())
    assert reply == expected


def test_statistics_of_all_models(client):
    reply = client.call("ModelStatistics")
    assert sorted((s.name, s.version) for s in reply.model_stats) == [
        ("batched", "1"), ("batched", "10"), ("batched", "3"), ("reshaped", "1"),
        ("simple", "1")]


def test_unknown_models(client):
    assert client.refusal("ModelMetadata", {"name": "nobody"}) == UNKNOWN
    assert client.refusal("ModelConfig", {"name": "nobody"}) == UNKNOWN
    assert client.refusal("ModelConfig", {"name": "simple", "version": "9"}) == (
        "NOT_FOUND", "Request for unknown model: 'simple' version 9 is not found")
    assert client.refusal("ModelStatistics", {"name": "nobody"}) == (
        ARGUMENT, "requested model 'nobody' is not available")
    assert client.refusal("ModelStatistics", {"name": "simple", "version": "9"}) == (
        ARGUMENT, "requested model version is not available for model 'simple'")


def test_model_that_did_not_load(partial, stubs):
    with open_channel(partial) as channel:
        code, text = Client(channel, stubs).refusal("ModelMetadata", {"name": "refused"})
    reply = requests.get(f"{partial.url}/v2/models/refused", timeout=SECONDS)
    assert text == reply.json()["error"]
    assert code == {404: "NOT_FOUND", 503: "UNAVAILABLE"}[reply.status_code]


# ---- repository ---------------------------------------------------------------------------------


def test_index(server, partial, stubs):
    for running in (server, partial):
        with open_channel(running) as channel:
            for ready in (False, True):
                reply = Client(channel, stubs).call("RepositoryIndex", {"ready": ready})
                expected = http(running, "/v2/repository/index", {"ready": ready})
                assert [as_dict(m) for m in reply.models] == expected
    assert [m["state"] for m in expected] == ["READY"]


LOAD = "RepositoryModelLoad"
UNLOAD = "RepositoryModelUnload"
NAMED = ("UNIMPLEMENTED", "'repository_name' specification is not supported")


def test_named_repositories(client):
    assert client.refusal("RepositoryIndex", {"repository_name": "r"}) == NAMED
    assert client.refusal(LOAD, {"repository_name": "r", "model_name": "simple"}) == NAMED
    assert client.refusal(UNLOAD, {"repository_name": "r", "model_name": "simple"}) == NAMED


def loading(client, method=LOAD, **parameters):
    message = getattr(client.pb, f"{method}Request")(model_name="simple")
    for name, (field, value) in parameters.items():
        setattr(message.parameters[name], field, value)
    with pytest.raises(grpc.RpcError) as caught:
        getattr(client, method)(message, timeout=SECONDS)
    return caught.value.code().name, caught.value.details()


LOAD_FAULTS = {
    "config": ({"config": ("bool_param", True)},
               "invalid value type for load parameter 'config', expected string_param."),
    "config as bytes": ({"config": ("bytes_param", b"{}")},
                        "invalid value type for load parameter 'config', expected string_param."),
    "file": ({"file:1/m": ("string_param", "x")},
             "invalid value type for load parameter 'file:1/m', expected bytes_param."),
    "unknown": ({"foo": ("string_param", "x")}, "unrecognized load parameter 'foo'."),
}


@pytest.mark.parametrize("name", LOAD_FAULTS)
def test_load_faults(client, name):
    parameters, text = LOAD_FAULTS[name]
    assert loading(client, **parameters) == (ARGUMENT, text)


def test_unload_fault(client):
    assert loading(client, UNLOAD, unload_dependents=("int64_param", 1)) == (
        ARGUMENT, "invalid value type for 'unload_dependents' parameter, expected bool_param.")


@pytest.mark.parametrize("what", ["load", "unload"])
def test_loads_answer_what_http_answers(server, client, what):
    """Whatever the core says to them; other parameters of an unload mean nothing."""
    reply = requests.post(f"{server.url}/v2/repository/models/simple/{what}", timeout=SECONDS)
    message = getattr(client.pb, f"RepositoryModel{what.title()}Request")(model_name="simple")
    if what == "unload":
        message.parameters["whatever"].int64_param = 3
    call = getattr(client, f"RepositoryModel{what.title()}")
    if reply.status_code == 200:
        assert call(message, timeout=SECONDS).ByteSize() == 0
        return
    with pytest.raises(grpc.RpcError) as caught:
        call(message, timeout=SECONDS)
    assert caught.value.details() == reply.json()["error"]


# ---- shared memory ------------------------------------------------------------------------------

DISABLED = ("UNIMPLEMENTED", "Client shared memory is disabled. Start the server with "
                             "'--allow-client-shm=true' to enable.")


def test_shared_memory(client):
    assert not client.call("SystemSharedMemoryStatus").regions
    assert not client.call("CudaSharedMemoryStatus").regions
    assert client.refusal("SystemSharedMemoryStatus", {"name": "r"}) == (
        "NOT_FOUND", "Unable to find system shared memory region: 'r'")
    assert client.refusal("CudaSharedMemoryStatus", {"name": "r"}) == (
        "NOT_FOUND", "Unable to find cuda shared memory region: 'r'")
    region = {"name": "r", "key": "/r", "byte_size": 16}
    assert client.refusal("SystemSharedMemoryRegister", region) == DISABLED
    assert client.refusal("SystemSharedMemoryUnregister", {"name": "r"}) == DISABLED
    assert client.refusal("CudaSharedMemoryUnregister", {"name": "r"}) == DISABLED
    assert client.refusal("CudaSharedMemoryRegister", {"name": "r", "byte_size": 16}) == (
        ARGUMENT, "failed to register CUDA shared memory region: 'r', GPUs not supported")


# ---- logging ------------------------------------------------------------------------------------


def log_settings(client, **settings):
    message = client.pb.LogSettingsRequest()
    for name, (field, value) in settings.items():
        if field is None:
            message.settings[name].SetInParent()
        else:
            setattr(message.settings[name], field, value)
    reply = client.LogSettings(message, timeout=SECONDS)
    return {name: getattr(value, value.WhichOneof("parameter_choice"))
            for name, value in reply.settings.items()}


def test_log_settings(server, client):
    before = log_settings(client)
    assert before == http(server, "/v2/logging")
    assert list(before) and set(before) == {"log_file", "log_info", "log_warning", "log_error",
                                            "log_verbose_level", "log_format"}
    changed = log_settings(client, log_info=("bool_param", False),
                           log_verbose_level=("uint32_param", 2),
                           log_format=("string_param", "ISO8601"),
                           unknown=("bool_param", True))
    assert changed == {**before, "log_info": False, "log_verbose_level": 2,
                       "log_format": "ISO8601"}
    assert http(server, "/v2/logging") == changed
    back = log_settings(client, log_info=("bool_param", True),
                        log_verbose_level=("uint32_param", 0),
                        log_format=("string_param", "default"))
    assert back == before


LOG_FAULTS = {
    "file": ("log_file", "string_param", "x", "UNIMPLEMENTED",
             "log file location can not be updated through network protocol"),
    "info": ("log_info", "uint32_param", 1, ARGUMENT, "expect boolean for 'log_info'"),
    "warning": ("log_warning", "string_param", "x", ARGUMENT, "expect boolean for 'log_warning'"),
    "error": ("log_error", None, None, ARGUMENT, "expect boolean for 'log_error'"),
    "level": ("log_verbose_level", "bool_param", True, ARGUMENT,
              "expect int32 for 'log_verbose_level'"),
    "large level": ("log_verbose_level", "uint32_param", 1 << 31, ARGUMENT,
                    "expect int32 for 'log_verbose_level'"),
    "format type": ("log_format", "bool_param", True, ARGUMENT, "expect string for 'log_format'"),
    "format": ("log_format", "string_param", "x", ARGUMENT,
               "invalid argument for log_format, got: x"),
}


@pytest.mark.parametrize("name", LOG_FAULTS)
def test_log_faults(client, name):
    key, field, value, code, text = LOG_FAULTS[name]
    before = log_settings(client)
    with pytest.raises(grpc.RpcError) as caught:
        log_settings(client, **{key: (field, value)})
    assert (caught.value.code().name, caught.value.details()) == (code, text)
    assert log_settings(client) == before


# ---- messages that are none ---------------------------------------------------------------------


def test_malformed_messages(client):
    for method, message in (("ModelMetadata", b"\x0a\x05abc"), ("ModelReady", b"\x0a\x01\xff"),
                            ("LogSettings", b"\x0a\x03\x0a\x01\xff"), ("ServerLive", b"\xff")):
        call = client.channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(message, timeout=SECONDS)
        assert (caught.value.code().name, caught.value.details()) == (
            ARGUMENT, f"failed to parse the {method}Request message")


def test_a_small_message_takes_little_memory(server, client):
    """A map of empty entries would take fifty times its size."""
    call = client.channel.unary_unary("/inference.GRPCInferenceService/LogSettings")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"\x0a\x00" * (1 << 22), timeout=SECONDS)
    assert caught.value.code().name == ARGUMENT
    assert client.call("ServerLive").live is True


# ---- restricted protocols -----------------------------------------------------------------------

GROUPS = {
    "health": ["ServerLive", "ServerReady", "ModelReady"],
    "metadata": ["ServerMetadata", "ModelMetadata"],
    "inference": ["ModelInfer"],
    "model-config": ["ModelConfig"],
    "statistics": ["ModelStatistics"],
    "model-repository": ["RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"],
    "shared-memory": [f"{kind}SharedMemory{what}" for kind in ("System", "Cuda")
                      for what in ("Status", "Register", "Unregister")],
    "trace": ["TraceSetting"],
    "logging": ["LogSettings"],
}


def test_every_method_has_its_group(tmp_path, stubs):
    write_repository(tmp_path, {"simple": MODELS["simple"]})
    running = Server(tmp_path, [f"--grpc-restricted-protocol={group}:key-{group}=secret {group}"
                                for group in GROUPS])
    with open_channel(running) as channel:
        restricted = Client(channel, stubs)
        tried = set()
        for group, methods in GROUPS.items():
            refusal = ("UNAVAILABLE", "This protocol is restricted, expecting header "
                                      f"'triton-grpc-protocol-key-{group}'")
            header = [(f"triton-grpc-protocol-key-{group}", f"secret {group}")]
            for method in methods:
                assert restricted.refusal(method) == refusal
                assert restricted.refusal(method, metadata=[(header[0][0], "guess")]) == refusal
                try:
                    restricted.call(method, {}, metadata=header)
                except grpc.RpcError as error:
                    assert "restricted" not in error.details()
                tried.add(method)
        service = stubs.service.DESCRIPTOR.services_by_name["GRPCInferenceService"]
        assert {m.name for m in service.methods} - tried == {"ModelStreamInfer"}
        with pytest.raises(grpc.RpcError) as caught:
            list(restricted.stream([]))
        assert "key-inference" in caught.value.details()
        health = Stub(channel, stubs.health, "Health")
        for call in (health.Check, lambda *a, **k: list(health.Watch(*a, **k))):
            with pytest.raises(grpc.RpcError) as caught:
                call(stubs.health.HealthCheckRequest(), timeout=SECONDS)
            assert "key-health" in caught.value.details()
    assert running.stop() == 0, running.text()


# ---- reflection ---------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["grpc.reflection.v1", "grpc.reflection.v1alpha"])
def ask(request, server, stubs):
    """One question to server reflection."""
    with open_channel(server) as channel:
        stub = Stub(channel, stubs.reflection, "ServerReflection", request.param)

        def answer(**fields):
            question = stubs.reflection.ServerReflectionRequest(host="h", **fields)
            got = list(stub.ServerReflectionInfo(iter([question]), timeout=SECONDS))
            assert len(got) == 1
            assert got[0].valid_host == "h"
            assert got[0].original_request == question
            return got[0]

        answer.stub = stub
        yield answer


def files_of(reply):
    return [descriptor_pb2.FileDescriptorProto.FromString(content)
            for content in reply.file_descriptor_response.file_descriptor_proto]


def test_list_of_services(ask):
    reply = ask(list_services="*")
    assert sorted(s.name for s in reply.list_services_response.service) == [
        "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection", "inference.GRPCInferenceService"]


def test_descriptors_are_those_of_the_files(ask, stubs):
    for symbol in ("inference.GRPCInferenceService", "inference.GRPCInferenceService.ModelInfer",
                   "inference.ModelInferRequest.InferInputTensor",
                   "inference.ModelInferRequest.InferInputTensor.shape"):
        files = files_of(ask(file_containing_symbol=symbol))
        assert [f.name for f in files] == ["grpc_service.proto", "model_config.proto"]
        for got, module in zip(files, (stubs.service, stubs.config)):
            expected = descriptor_pb2.FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(expected)
            for message in got.message_type:
                for field in message.field:
                    field.ClearField("json_name")
            for field in (f for m in expected.message_type for f in m.field):
                field.ClearField("json_name")
            assert got.service == expected.service
            assert [m.name for m in got.message_type] == [m.name for m in expected.message_type]
    assert [f.name for f in files_of(ask(file_containing_symbol="inference.DataType"))] == [
        "model_config.proto"]
    assert [f.name for f in files_of(ask(file_by_filename="health.proto"))] == ["health.proto"]
    older = files_of(ask(file_containing_symbol="grpc.reflection.v1alpha.ServerReflection"))
    assert [f.package for f in older] == ["grpc.reflection.v1alpha"]


@pytest.mark.parametrize("fields,code,text", [
    ({"file_by_filename": "nope.proto"}, 5, "File not found."),
    ({"file_containing_symbol": "inference.Nope"}, 5, "Symbol not found."),
    ({"file_containing_symbol": "inference"}, 5, "Symbol not found."),
    ({"file_containing_symbol": "inference."}, 5, "Symbol not found."),
    ({"file_containing_symbol": ""}, 5, "Symbol not found."),
    ({"all_extension_numbers_of_type": "inference.Nope"}, 5, "Type not found."),
    ({"file_containing_extension": {"containing_type": "inference.ModelInferRequest",
                                    "extension_number": 1}}, 5, "Extension not found."),
    ({}, 3, "The request names nothing that could be described."),
], ids=str)
def test_what_reflection_does_not_know(ask, fields, code, text):
    error = ask(**fields).error_response
    assert (error.error_code, error.error_message) == (code, text)


def test_there_are_no_extensions(ask):
    reply = ask(all_extension_numbers_of_type="inference.ModelInferRequest")
    numbers = reply.all_extension_numbers_response
    assert numbers.base_type_name == "inference.ModelInferRequest"
    assert not numbers.extension_number


def test_many_questions_on_one_stream(ask, stubs):
    names = ["health.proto", "nope", "reflection.proto"] * 50
    replies = list(ask.stub.ServerReflectionInfo(
        (stubs.reflection.ServerReflectionRequest(file_by_filename=n) for n in names),
        timeout=SECONDS))
    assert [r.original_request.file_by_filename for r in replies] == names
    assert [r.WhichOneof("message_response") for r in replies] == [
        "file_descriptor_response", "error_response", "file_descriptor_response"] * 50
